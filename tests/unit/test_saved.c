/* transport/member/saved: the last files that were saved, oldest first. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "transport/member/saved.h"

static void keep(struct gw_saved_files *files, uint64_t clock)
{
    char file[32], text[32];
    snprintf(file, sizeof file, "shard-%u", (unsigned)clock);
    snprintf(text, sizeof text, "why %u", (unsigned)clock);
    const struct gw_saved saved = {.clock = clock,
                                   .status = GW_EIO,
                                   .file = file,
                                   .bytes = 10 * clock,
                                   .sha256 = {(uint8_t)clock},
                                   .text = text};
    const struct gw_message message = gw_saved_keep(files, &saved);
    assert_int_equal(message.kind, GW_MESSAGE_SAVED);
    assert_int_equal(message.saved.clock, clock);
    memset(file, 'x', sizeof file); /* it was the caller's */
    memset(text, 'x', sizeof text);
}

static void the_last_ones_are_kept(void **state)
{
    struct gw_saved_files files = {.n = 0};
    struct gw_message message;
    (void)state;
    assert_false(gw_saved_at(&files, 0, &message));
    for (uint64_t clock = 1; clock <= 2 * GW_SAVED_KEPT + 1; clock++) {
        uint64_t kept = clock < GW_SAVED_KEPT ? clock : GW_SAVED_KEPT;
        keep(&files, clock);
        for (unsigned i = 0; i < kept; i++) {
            char file[32], text[32];
            uint64_t of = clock - kept + 1 + i;
            snprintf(file, sizeof file, "shard-%u", (unsigned)of);
            snprintf(text, sizeof text, "why %u", (unsigned)of);
            assert_true(gw_saved_at(&files, i, &message));
            assert_int_equal(message.saved.clock, of);
            assert_int_equal(message.saved.bytes, 10 * of);
            assert_int_equal(message.saved.status, GW_EIO);
            assert_int_equal(message.saved.sha256[0], of);
            assert_string_equal(message.saved.file, file);
            assert_string_equal(message.saved.text, text);
        }
        assert_false(gw_saved_at(&files, (unsigned)kept, &message));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_ones_are_kept),
    };
    return cmocka_run_group_tests_name("saved", tests, NULL, NULL);
}
