/* proto/control: every kind of message, with every field: its bytes, and there
   and back. */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/control.h"
#include "proto/hash.h"
#include "proto/wire.h"
#include "tests/unit/control_samples.h"

static struct gw_control_arena encode_arena, decode_arena;
static uint8_t bytes[GW_MESSAGE_BYTES_MAX];

static enum gw_status encode(const struct gw_message *message, size_t *n_p)
{
    return gw_message_encode(message, &encode_arena, bytes, sizeof bytes, n_p);
}

/* ---- a field of each type: equal, and not left out of its sample ---- */

#define SAME(name)                                                             \
    assert_true(one->name == other->name);                                     \
    assert_true(one->name != 0);
#define SAME_u8(name)                 SAME(name)
#define SAME_u8_from(name, low, high) SAME(name)
#define SAME_flag(name)               SAME(name)
#define SAME_u32(name)                SAME(name)
#define SAME_u32_to(name, most)       SAME(name)
#define SAME_u64(name)                SAME(name)
#define SAME_u64_to(name, most)       SAME(name)
#define SAME_clock(name)              SAME(name)
#define SAME_double(name)             SAME(name)
#define SAME_choice(name, type, last) SAME(name)
#define SAME_status(name)             SAME(name)
#define SAME_text(name)                                                        \
    assert_string_equal(one->name, other->name);                               \
    assert_string_not_equal(one->name, "");
#define SAME_text_below(name, size) SAME_text(name)
#define SAME_bytes(name, size)                                                 \
    assert_memory_equal(one->name, other->name, size);
#define SAME_maybe_bytes(name, size)                                           \
    SAME(has_##name)                                                           \
    SAME_bytes(name, size)
#define SAME_secret(name) SAME_bytes(name.byte, GW_SECRET_BYTES)
#define SAME_maybe_secret(name)                                                \
    SAME(has_##name)                                                           \
    SAME_secret(name)
#define SAME_words(name)                                                       \
    SAME(name.n)                                                               \
    SAME_bytes(name.byte, one->name.n)
#define SAME_list(name, type)                                                  \
    SAME(name##_n)                                                             \
    assert_memory_equal(one->name, other->name,                                \
                        one->name##_n * sizeof *one->name);
#define SAME_clocks(name) SAME_list(name, uint64_t)
#define SAME_part(name, tag, Proto, most)                                      \
    SAME(name##_total)                                                         \
    SAME(name##_first)                                                         \
    SAME(name##_n)                                                             \
    for (size_t i = 0; i < one->name##_n; i++)                                 \
        same_##tag(&one->name[i], &other->name[i]);
#define SAME_sub(name, tag)    same_##tag(&one->name, &other->name);
#define SAME_needed(name, tag) SAME_sub(name, tag)
#define SAME_cut(name)                                                         \
    SAME_sub(name.course, course);                                             \
    SAME(name.clock)

static void same_key(const struct gw_key *one, const struct gw_key *other)
{
    SAME_text(name);
    SAME(dtype);
    SAME(type);
    SAME(dims);
    SAME(group);
    SAME(rule);
    assert_memory_equal(one->shape, other->shape, sizeof one->shape);
}

static void same_course(const struct gw_course *one,
                        const struct gw_course *other)
{
    assert_true(gw_course_is_same(one, other));
}

/* clang-format off */
#define STRUCT(NAME, tag, Proto)                                               \
    static void same_##tag(const struct gw_##tag *one,                         \
                           const struct gw_##tag *other)                       \
    {
#define MESSAGE(KIND, member, tag, Proto, words) STRUCT(KIND, tag, Proto)
#define FIELD(type, ...)                         SAME_##type(__VA_ARGS__)
#define END_FIELDS                                                             \
    }
#include "proto/control.def"
/* clang-format on */

static void same_message(const struct gw_message *one,
                         const struct gw_message *other)
{
    assert_int_equal(one->kind, other->kind);
    switch (one->kind) {
#define MESSAGE(KIND, member, tag, Proto, words)                               \
    case GW_MESSAGE_##KIND:                                                    \
        same_##tag(&one->member, &other->member);                              \
        break;
#include "proto/control.def"
    default:
        fail();
    }
}

static void every_kind_goes_round(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONTROL_SAMPLES; i++) {
        struct gw_message again = {0};
        size_t n = 0;
        assert_int_equal(encode(&control_samples[i], &n), GW_OK);
        assert_int_equal(gw_message_decode(bytes, n, &decode_arena, &again),
                         GW_OK);
        same_message(&control_samples[i], &again);
        assert_string_not_equal(gw_message_name(again.kind), "unknown");
    }
    assert_string_equal(gw_message_name(GW_MESSAGE_KINDS), "unknown");
}

/* A hash that changes here is a change of the wire, which older members do not
   read, or of a sample. */
static void bytes_are_golden(void **state)
{
    (void)state;
    static const uint64_t golden[CONTROL_SAMPLES] = {
        0x7049c3b5cc7cbea0, /* join */
        0xaef6af996a42b72e, /* welcome */
        0x3f00ac8cf331abe0, /* declare */
        0x67131a26fa7b5ff9, /* view */
        0x7a39f7d6effba4b2, /* start */
        0x95b00d1f3ceaaa86, /* ready */
        0xba354f9314132105, /* window */
        0x850a5f38e3a9baab, /* decision */
        0x91161b8f73fe7e82, /* vote */
        0x33a164b9b03b8f29, /* score */
        0x1bd481d479aeae6b, /* report */
        0x60cfb9903080dee3, /* stop */
        0xe69841003f78c664, /* saved */
        0xb17e88855a3033d3, /* stored */
        0x353db80fd04df16c, /* end */
        0x68184282a43016d5, /* bye */
        0x01fce3a26d78da0e, /* stall */
        0xf1608b7469724ccc, /* file open */
        0x9598844f42c40e75, /* file reply */
        0xed7f70213019884a, /* status */
        0x79dcea1ab7a217a4, /* quiesced */
        0xd13620c352a4f87c, /* arrived */
        0xd6ef17b066640021, /* request */
        0x2b1cfb9817d0c51a, /* speed */
        0xfa62b5c59f0d7624, /* poll */
        0x74fce7408a21d44f, /* caught */
        0x9126eb83b1e488a4, /* standing */
        0xf97b31953fe759d0, /* sight */
        0x6d775f54ab434a38, /* fault */
    };
    for (size_t i = 0; i < CONTROL_SAMPLES; i++) {
        size_t n = 0;
        assert_int_equal(encode(&control_samples[i], &n), GW_OK);
        uint64_t hash = gw_hash_bytes(GW_HASH_BEGIN, bytes, n);
        if (hash != golden[i])
            fail_msg("%s: 0x%016" PRIx64,
                     gw_message_name(control_samples[i].kind), hash);
    }
}

/* A field that came later takes no byte where it says nothing. */
static void an_ordinary_stop_is_as_it_was(void **state)
{
    const struct gw_message stop = {.kind = GW_MESSAGE_STOP,
                                    .stop = {.text = "a signal"}};
    size_t n = 0;
    (void)state;
    assert_int_equal(encode(&stop, &n), GW_OK);
    assert_true(gw_hash_bytes(GW_HASH_BEGIN, bytes, n) ==
                UINT64_C(0x8b902345a7a7dc3e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_golden),
        cmocka_unit_test(an_ordinary_stop_is_as_it_was),
        cmocka_unit_test(every_kind_goes_round),
    };
    return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
