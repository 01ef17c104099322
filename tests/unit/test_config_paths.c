/* proto/config: paths of a job, as long as the system takes them, and what
   relative ones are relative to. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/config.h"

static struct gw_config config; /* large: not on the stack */

static void sets(const char *assignment)
{
    struct gw_error error;
    if (gw_config_set(&config, assignment, &error))
        fail_msg("%s: %s", assignment, error.text);
}

static void set_path(const char *key, const char *path)
{
    static char text[GW_PATH_BYTES + 64];
    snprintf(text, sizeof text, "%s=%s", key, path);
    sets(text);
}

/* "/xxx.." of so many bytes. */
static const char *path_of(size_t bytes)
{
    static char path[GW_PATH_BYTES + 1];
    memset(path, 'x', bytes);
    path[0] = '/';
    path[bytes] = '\0';
    return path;
}

static void long_paths_are_kept(void **state)
{
    (void)state;
    struct gw_error error;
    static char text[GW_JOB_TEXT_MAX];
    gw_config_default(&config);
    set_path("data.train", path_of(GW_PATH_BYTES - 1));
    set_path("train.split_from", path_of(GW_PATH_BYTES - 1));
    set_path("checkpoint.dir", path_of(GW_PATH_BYTES - 257));
    set_path("log.dir", path_of(GW_PATH_BYTES - 257));
    assert_true(gw_config_print(&config, 0, text, sizeof text) < sizeof text);
    gw_config_default(&config);
    assert_int_equal(gw_config_parse(&config, "job", text, &error), GW_OK);
    assert_string_equal(gw_path_at(&config.data.train, 0),
                        path_of(GW_PATH_BYTES - 1));
    assert_string_equal(config.train.split_from, path_of(GW_PATH_BYTES - 1));
    assert_string_equal(config.log.dir, path_of(GW_PATH_BYTES - 257));
    static char longer[GW_PATH_BYTES + 64];
    snprintf(longer, sizeof longer, "checkpoint.dir=%s",
             path_of(GW_PATH_BYTES - 256));
    assert_int_equal(gw_config_set(&config, longer, &error), GW_EUSAGE);
    assert_string_equal(error.text,
                        "checkpoint.dir: the text \"/xxxxxxxxxxxxxxxxxxx...\" "
                        "is longer than 3839 bytes");
}

static void lists_have_a_bound(void **state)
{
    (void)state;
    static struct gw_path_list list;
    struct gw_error error;
    size_t n = 0;
    while (gw_path_add(&list, path_of(GW_PATH_BYTES - 1)))
        n++;
    assert_int_equal(n, GW_PATHS_BYTES / GW_PATH_BYTES);
    assert_string_equal(gw_path_at(&list, n - 1), path_of(GW_PATH_BYTES - 1));
    list.n = 0;
    for (n = 0; n < GW_LIST_MAX; n++)
        assert_true(gw_path_add(&list, "a"));
    assert_false(gw_path_add(&list, "a"));
    gw_config_default(&config);
    static char many[7 * GW_PATH_BYTES];
    size_t used = (size_t)snprintf(many, sizeof many, "data.test=");
    for (n = 0; n < 6; n++)
        used += (size_t)snprintf(many + used, sizeof many - used, "%s,",
                                 path_of(GW_PATH_BYTES - 1));
    many[used - 1] = '\0';
    assert_int_equal(gw_config_set(&config, many, &error), GW_EUSAGE);
    assert_string_equal(
        error.text,
        "data.test: its paths together are longer than 21440 bytes");
}

static void relative_paths_get_their_root(void **state)
{
    (void)state;
    struct gw_error error;
    gw_config_default(&config);
    assert_false(gw_config_has_relative(&config));
    sets("data.train=././/x,/abs/y");
    sets("data.test=../z,.hidden");
    sets("checkpoint.dir=.");
    assert_true(gw_config_has_relative(&config));
    assert_int_equal(gw_config_root_paths(&config, "/jobs/a", &error), GW_OK);
    assert_string_equal(gw_path_at(&config.data.train, 0), "/jobs/a/x");
    assert_string_equal(gw_path_at(&config.data.train, 1), "/abs/y");
    assert_string_equal(gw_path_at(&config.data.test, 0), "/jobs/a/../z");
    assert_string_equal(gw_path_at(&config.data.test, 1), "/jobs/a/.hidden");
    assert_string_equal(config.checkpoint.dir, "/jobs/a/.");
    assert_string_equal(config.log.dir, ""); /* empty ones mean none */
    assert_false(gw_config_has_relative(&config));
    sets("log.dir=logs");
    assert_int_equal(gw_config_root_paths(&config, "/", &error), GW_OK);
    assert_string_equal(config.log.dir, "/logs");
    assert_string_equal(gw_path_at(&config.data.train, 0), "/jobs/a/x");
    gw_config_unroot_paths(&config, "/jobs/a");
    assert_string_equal(gw_path_at(&config.data.train, 0), "x");
    assert_string_equal(gw_path_at(&config.data.train, 1), "/abs/y");
    assert_string_equal(config.log.dir, "/logs");
}

static void what_becomes_too_long_is_refused(void **state)
{
    (void)state;
    struct gw_error error;
    gw_config_default(&config);
    set_path("checkpoint.dir", path_of(GW_PATH_BYTES - 257) + 1);
    assert_int_equal(gw_config_root_paths(&config, "/a", &error), GW_EUSAGE);
    assert_non_null(strstr(error.text, "checkpoint.dir: \"xxx"));
    assert_non_null(strstr(error.text, "is too long a path below /a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_paths_are_kept),
        cmocka_unit_test(lists_have_a_bound),
        cmocka_unit_test(relative_paths_get_their_root),
        cmocka_unit_test(what_becomes_too_long_is_refused),
    };
    return cmocka_run_group_tests_name("config paths", tests, NULL, NULL);
}
