/* proto/status: lines are cut to fit and prefixes come first. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/status.h"

static void prefixes_come_first(void **state)
{
    (void)state;
    struct gw_error error;
    assert_int_equal(gw_fail(&error, GW_ERANGE, "lr is %d", -1), GW_ERANGE);
    assert_string_equal(error.text, "lr is -1");
    assert_int_equal(gw_fail_in(&error, "%s:%d", "job.cfg", 7), GW_ERANGE);
    assert_string_equal(error.text, "job.cfg:7: lr is -1");
    assert_int_equal(gw_fail(NULL, GW_EIO, "nobody listens"), GW_EIO);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    struct gw_error error;
    char text[GW_ERROR_TEXT_BYTES * 2];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    gw_fail(&error, GW_EINVAL, "%s", text);
    assert_int_equal(strlen(error.text), GW_ERROR_TEXT_BYTES - 1);
    gw_fail_in(&error, "here");
    assert_int_equal(strlen(error.text), GW_ERROR_TEXT_BYTES - 1);
    assert_memory_equal(error.text, "here: xxx", 9);
    gw_fail_in(&error, "%s", text);
    assert_int_equal(strlen(error.text), GW_ERROR_TEXT_BYTES - 1);
    assert_memory_equal(error.text, "xxx", 3);
    gw_fail(&error, GW_EIO, "file %s: no such file", text);
    assert_int_equal(strlen(error.text), GW_ERROR_TEXT_BYTES - 1);
    assert_memory_equal(error.text, "file xxx", 8);
    assert_non_null(strstr(error.text, "x...x"));
    assert_string_equal(error.text + GW_ERROR_TEXT_BYTES - 15,
                        ": no such file");
    for (size_t i = 0; i + 2 < sizeof text; i += 2) /* whole characters */
        memcpy(text + i, "\xc3\xa9", 2);
    gw_fail(&error, GW_EIO, "%s%s", "x", text);
    char *gap = strstr(error.text, "...");
    assert_non_null(gap);
    assert_int_equal((unsigned char)gap[-1], 0xa9);
    assert_int_equal((unsigned char)gap[3], 0xc3);
}

/* What a peer says may be anything, but is shown as one line. */
static void lines_stay_lines(void **state)
{
    (void)state;
    struct gw_error error;
    gw_fail(&error, GW_EPROTO, "worker said \"%s\"", "a\r\033[2Jb\x7f\n");
    assert_string_equal(error.text, "worker said \"a??[2Jb??\"");
    gw_fail_in(&error, "x\ny");
    assert_string_equal(error.text, "x?y: worker said \"a??[2Jb??\"");
}

static void nothing_said_is_said(void **state)
{
    (void)state;
    assert_string_equal(gw_reason("disk full"), "disk full");
    assert_string_equal(gw_reason(""), "no reason is given");
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    assert_string_equal(gw_status_text(GW_OK), "ok");
    assert_string_equal(gw_status_text(GW_EDEAD), "a member of the job died");
    assert_string_equal(gw_status_text((enum gw_status)12345), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_come_first),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(lines_stay_lines),
        cmocka_unit_test(nothing_said_is_said),
        cmocka_unit_test(every_status_has_a_text),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
