/* cli/lines: a program's output as whole lines. */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/lines.h"

static struct gw_lines lines;
static char out[4 * GW_LINES_BYTES];
static int in, at[2];

static void begin(const char *prefix)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(at), 0);
    assert_true(fcntl(at[1], F_SETPIPE_SZ, sizeof out) > 0);
    in = ends[1];
    lines = (struct gw_lines){
        .from = ends[0], .to = at[1], .log = -1, .prefix = prefix};
}

static void put(const char *text)
{
    assert_int_equal(write(in, text, strlen(text)), strlen(text));
    gw_lines_read(&lines);
}

/* All that is written by then. */
static const char *end(void)
{
    size_t used = 0;
    ssize_t n;
    if (in >= 0)
        close(in);
    in = -1;
    gw_lines_finish(&lines);
    close(at[1]);
    while ((n = read(at[0], out + used, sizeof out - 1 - used)) > 0)
        used += (size_t)n;
    out[used] = '\0';
    close(at[0]);
    return out;
}

static void lines_come_whole(void **state)
{
    (void)state;
    begin("[1] ");
    put("one\ntw");
    put("o\n\nthree");
    assert_string_equal(end(), "[1] one\n[1] two\n[1] \n[1] three\n");
    assert_string_equal(lines.last, "three");
    assert_int_equal(lines.from, -1);
}

static void a_carriage_return_takes_a_line_back(void **state)
{
    (void)state;
    begin("");
    put(" 10 %\r 20 %\r");
    put("100 %\r\ndone\r");
    assert_string_equal(end(), "100 %\ndone\n");
}

static void the_last_line_that_is_not_blank_is_kept(void **state)
{
    char word[GW_LINES_LAST + 10] = {0};
    (void)state;
    begin("");
    put("an\033error\n \t\n");
    end();
    assert_string_equal(lines.last, "an?error");
    begin("");
    memset(word, 'x', sizeof word - 1);
    put(word);
    end();
    assert_int_equal(strlen(lines.last), GW_LINES_LAST - 1);
}

static void a_question_is_shown_and_the_line_goes_on(void **state)
{
    (void)state;
    begin("");
    assert_false(gw_lines_has_part(&lines));
    put("name? ");
    assert_true(gw_lines_has_part(&lines));
    gw_lines_show_part(&lines);
    assert_false(gw_lines_has_part(&lines));
    gw_lines_show_part(&lines);
    put("hello\n");
    assert_string_equal(end(), "name? hello\n");
    assert_string_equal(lines.last, "name? hello");
}

/* A line of exactly the length that fits is one. */
static void a_line_that_is_too_long_is_cut(void **state)
{
    static char text[GW_LINES_BYTES / 2 + 1];
    (void)state;
    memset(text, 'x', sizeof text - 1);
    begin("");
    put(text); /* less than a pipe takes; read in pieces */
    while (lines.used < sizeof text - 1)
        gw_lines_read(&lines);
    put(text);
    while (lines.used < GW_LINES_BYTES)
        gw_lines_read(&lines);
    put("\nnext\n");
    end();
    assert_int_equal(strchr(out, '\n') - out, GW_LINES_BYTES);
    assert_string_equal(strchr(out, '\n'), "\nnext\n");
}

/* Others may have the pipe open, and never end it. */
static void what_is_there_is_enough(void **state)
{
    (void)state;
    begin("");
    assert_int_equal(write(in, "end", 3), 3);
    int other = dup(in);
    assert_string_equal(end(), "end\n");
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole),
        cmocka_unit_test(a_carriage_return_takes_a_line_back),
        cmocka_unit_test(the_last_line_that_is_not_blank_is_kept),
        cmocka_unit_test(a_question_is_shown_and_the_line_goes_on),
        cmocka_unit_test(a_line_that_is_too_long_is_cut),
        cmocka_unit_test(what_is_there_is_enough),
    };
    return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
