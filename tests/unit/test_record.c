/* cli/record: objects of --json as scripts, and train.split_from, read them. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "cli/record.h"
#include "server/policy/splits.h"

#define WORKERS 4096 /* as many as a job may have */

static char path[] = "/tmp/gw-test-record-XXXXXX";
static struct gw_record *record;
static struct gw_error error;

static int begin(void **state)
{
    (void)state;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(gw_record_open(path, &record, &error), GW_OK);
    return 0;
}

static int end(void **state)
{
    (void)state;
    gw_record_close(record);
    unlink(path);
    return 0;
}

/* The only object in the file. */
static json_t *only_object(void)
{
    json_error_t why;
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!object)
        fail_msg("%s", why.text);
    return object;
}

/* A list per worker of many workers. */
static void objects_are_as_long_as_they_must(void **state)
{
    static struct gw_staleness staleness[WORKERS];
    static uint64_t split[WORKERS];
    (void)state;
    for (size_t i = 0; i < WORKERS; i++) {
        split[i] = 1000000000 + i;
        staleness[i].chunks[GW_STALENESS_BUCKETS - 1] = 1000000000 + i;
    }
    const struct gw_step_report report = {.policy = "sync",
                                          .staleness = staleness,
                                          .split = split,
                                          .workers = WORKERS};
    const struct gw_record_step step = {.report = &report};
    if (gw_record_step(record, &step, &error) != GW_OK)
        fail_msg("%s", error.text);
    json_t *object = only_object();
    json_t *lists = json_object_get(object, "staleness_by_worker");
    json_t *samples = json_object_get(object, "split");
    assert_int_equal(json_array_size(lists), WORKERS);
    assert_int_equal(json_array_size(samples), WORKERS);
    assert_int_equal(json_integer_value(json_array_get(samples, WORKERS - 1)),
                     1000000000 + WORKERS - 1);
    json_decref(object);
}

static void even_parts_are_not_told(void **state)
{
    (void)state;
    const struct gw_step_report report = {.policy = "sync", .workers = 2};
    const struct gw_record_step step = {.report = &report};
    assert_int_equal(gw_record_step(record, &step, &error), GW_OK);
    json_t *object = only_object();
    assert_null(json_object_get(object, "split"));
    json_decref(object);
}

/* One run writes splits, another one reads them. */
static void splits_are_read_again(void **state)
{
    static uint32_t weight[WORKERS];
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    struct gw_splits splits;
    const struct gw_step_report report = {.policy = "sync", .workers = 2};
    const struct gw_record_step step = {.report = &report};
    (void)state;
    gw_split_even(WORKERS, weight);
    for (uint64_t i = 0; i < 40; i++) {
        weight[i]--;
        weight[i + 1]++;
        const struct gw_split_report split = {
            .step = 3 * i, .weight = weight, .workers = WORKERS};
        assert_int_equal(gw_record_split(record, &split, &error), GW_OK);
        assert_int_equal(gw_record_step(record, &step, &error), GW_OK);
    }
    if (gw_splits_read(&disk, path, WORKERS, 0, &splits, &error) != GW_OK)
        fail_msg("%s", error.text);
    assert_int_equal(splits.n, 40);
    assert_int_equal(splits.clock[39], 117);
    assert_memory_equal(gw_splits_at(&splits, 200), weight, sizeof weight);
    gw_splits_free(&splits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(objects_are_as_long_as_they_must, begin,
                                        end),
        cmocka_unit_test_setup_teardown(even_parts_are_not_told, begin, end),
        cmocka_unit_test_setup_teardown(splits_are_read_again, begin, end),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
