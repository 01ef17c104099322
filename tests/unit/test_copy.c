/* proto/copy: what a primary tells its standby of a chunk, as bytes. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "proto/control.h"
#include "proto/copy.h"

static struct gw_copy_note note_of(uint8_t kind)
{
    return (struct gw_copy_note){.kind = kind,
                                 .version = 7,
                                 .updates = 6,
                                 .skipped = 1,
                                 .pushes = 21,
                                 .scale = 0.125f,
                                 .t = 6,
                                 .terms = {0.1, 0.01, 0.9, 0.8, 0.999, 1e-8},
                                 .samples = 30,
                                 .uncounted = 10,
                                 .has_digest = 1,
                                 .digest = 0x87654321};
}

static void every_kind_comes_back(void **state)
{
    (void)state;
    for (uint8_t kind = GW_COPY_WHOLE; kind <= GW_COPY_NO_SUM; kind++) {
        uint8_t bytes[GW_COPY_NOTE_BYTES], again[GW_COPY_NOTE_BYTES];
        const struct gw_copy_note note = note_of(kind);
        struct gw_copy_note read;
        gw_copy_note_encode(&note, bytes);
        assert_int_equal(gw_copy_note_decode(bytes, &read), GW_OK);
        assert_int_equal(read.kind, kind);
        assert_int_equal(read.version, 7);
        assert_int_equal(read.updates, 6);
        assert_int_equal(read.skipped, 1);
        assert_int_equal(read.pushes, 21);
        assert_int_equal(read.t, 6);
        assert_int_equal(read.samples, 30);
        assert_int_equal(read.uncounted, 10);
        assert_int_equal(read.has_digest, 1);
        assert_int_equal(read.digest, 0x87654321);
        assert_memory_equal(&read.scale, &note.scale, sizeof note.scale);
        assert_memory_equal(&read.terms, &note.terms, sizeof note.terms);
        gw_copy_note_encode(&read, again);
        assert_memory_equal(again, bytes, sizeof bytes);
    }
}

static void the_bytes_are_these(void **state)
{
    const uint8_t begin[] = {
        GW_COPY_STEP, 1, 0, 0, 0, 0, 0, 0x3e, 7, 0, 0, 0, 0, 0, 0, 0, 6, 0};
    const struct gw_copy_note note = note_of(GW_COPY_STEP);
    uint8_t bytes[GW_COPY_NOTE_BYTES];
    (void)state;
    gw_copy_note_encode(&note, bytes);
    assert_memory_equal(bytes, begin, sizeof begin);
    assert_int_equal(bytes[24], 1);  /* skipped */
    assert_int_equal(bytes[32], 21); /* pushes */
    assert_int_equal(bytes[40], 6);  /* t */
    assert_int_equal(bytes[48], 30); /* samples */
    assert_int_equal(bytes[56], 10); /* uncounted */
    assert_int_equal(bytes[116], 0x21);
}

static void refuse(const struct gw_copy_note *note)
{
    uint8_t bytes[GW_COPY_NOTE_BYTES];
    struct gw_copy_note read = {.version = 1};
    gw_copy_note_encode(note, bytes);
    assert_int_equal(gw_copy_note_decode(bytes, &read), GW_EPROTO);
    assert_int_equal(read.version, 1);
}

#define REFUSE(of, change)                                                     \
    do {                                                                       \
        struct gw_copy_note note = note_of(of);                                \
        note.change;                                                           \
        refuse(&note);                                                         \
    } while (0)

static void what_no_primary_sends_is_refused(void **state)
{
    (void)state;
    REFUSE(GW_COPY_WHOLE, kind = 0);
    REFUSE(GW_COPY_WHOLE, kind = GW_COPY_NO_SUM + 1);
    REFUSE(GW_COPY_WHOLE, version = GW_CLOCK_MAX);
    REFUSE(GW_COPY_WHOLE, skipped = 7);
    REFUSE(GW_COPY_STEP, t = 0);
    REFUSE(GW_COPY_STEP, t = GW_CLOCK_MAX);
    REFUSE(GW_COPY_STEP, scale = NAN);
    REFUSE(GW_COPY_STEP, scale = INFINITY);
    REFUSE(GW_COPY_STEP, terms.lr = NAN);
    REFUSE(GW_COPY_STEP, terms.beta2 = 1);
    REFUSE(GW_COPY_SUM, terms.momentum = -1);
    REFUSE(GW_COPY_SUM, uncounted = 31);
    REFUSE(GW_COPY_SUM, samples = GW_CLOCK_MAX);
    const struct gw_copy_note unsaid = {.kind = GW_COPY_WHOLE};
    uint8_t digest[GW_COPY_NOTE_BYTES];
    gw_copy_note_encode(&unsaid, digest);
    digest[116] = 1;
    struct gw_copy_note none;
    assert_int_equal(gw_copy_note_decode(digest, &none), GW_EPROTO);
    for (size_t i = 1; i < 4; i++) {
        const struct gw_copy_note note = note_of(GW_COPY_SUM);
        uint8_t bytes[GW_COPY_NOTE_BYTES];
        struct gw_copy_note read;
        gw_copy_note_encode(&note, bytes);
        bytes[i] = 2;
        assert_int_equal(gw_copy_note_decode(bytes, &read), GW_EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back),
        cmocka_unit_test(the_bytes_are_these),
        cmocka_unit_test(what_no_primary_sends_is_refused),
    };
    return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
