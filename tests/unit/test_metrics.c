/* proto/metrics: the table, adding from threads, differences, printing. */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/metrics.h"

#define THREADS 4
#define ADDS    500000

static void the_table_is_complete(void **state)
{
    (void)state;
    for (unsigned i = 0; i < GW_METRICS; i++) {
        const struct gw_metric_info *info = gw_metric_info((enum gw_metric)i);
        assert_true(strlen(info->help) > 10 && strlen(info->unit) > 3);
        /* names are a contract with scripts: letters and underscores */
        assert_int_equal(strspn(info->name, "abcdefghijklmnopqrstuvwxyz_"),
                         strlen(info->name));
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(gw_metric_info((enum gw_metric)k)->name,
                                    info->name);
    }
    assert_string_equal(gw_metric_info(GW_METRIC_BYTES_PUSHED)->name,
                        "bytes_pushed");
    assert_int_equal(sizeof(struct gw_metrics) % 64, 0);
}

struct crowd {
    struct gw_metrics metrics;
    pthread_barrier_t start;
};

static void *add_many(void *argument)
{
    struct crowd *crowd = argument;
    struct gw_metrics *metrics = &crowd->metrics;
    pthread_barrier_wait(&crowd->start);
    for (int i = 0; i < ADDS; i++) {
        gw_metrics_add(metrics, GW_METRIC_STEPS, 1);
        gw_metrics_add(metrics, GW_METRIC_SAMPLES, 64);
    }
    return NULL;
}

static void threads_lose_nothing(void **state)
{
    (void)state;
    static struct crowd crowd;
    pthread_t threads[THREADS];
    pthread_barrier_init(&crowd.start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &crowd),
                         0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crowd.start);
    assert_int_equal(gw_metrics_get(&crowd.metrics, GW_METRIC_STEPS),
                     THREADS * ADDS);
    assert_int_equal(gw_metrics_get(&crowd.metrics, GW_METRIC_SAMPLES),
                     64 * THREADS * ADDS);
    assert_int_equal(gw_metrics_get(&crowd.metrics, GW_METRIC_WAIT_US), 0);
}

static void snapshots_add_up(void **state)
{
    (void)state;
    struct gw_metrics a = {0}, b = {0};
    struct gw_metrics_snapshot now = {0};
    gw_metrics_add(&a, GW_METRIC_FRAMES_IN, 12);
    gw_metrics_add(&b, GW_METRIC_FRAMES_IN, 30);
    gw_metrics_add(&b, GW_METRIC_CHECKPOINTS, 1);
    gw_metrics_collect(&a, &now);
    gw_metrics_collect(&b, &now);
    assert_int_equal(now.value[GW_METRIC_FRAMES_IN], 42);
    assert_int_equal(now.value[GW_METRIC_CHECKPOINTS], 1);
    assert_int_equal(now.value[GW_METRIC_STEPS], 0);
}

static void printed(void **state)
{
    (void)state;
    struct gw_metrics_snapshot snapshot = {0};
    char text[256];
    assert_int_equal(gw_metrics_print(&snapshot, text, sizeof text), 0);
    assert_string_equal(text, "");
    snapshot.value[GW_METRIC_COMPUTE_US] = UINT64_MAX;
    snapshot.value[GW_METRIC_STEPS] = 12;
    const char *all = "steps 12, compute_us 18446744073709551615";
    assert_int_equal(gw_metrics_print(&snapshot, text, sizeof text),
                     strlen(all));
    assert_string_equal(text, all);
    for (size_t room = 1; room <= strlen(all); room++) {
        memset(text, 'x', sizeof text);
        assert_int_equal(gw_metrics_print(&snapshot, text, room), strlen(all));
        assert_memory_equal(text, all, room - 1);
        assert_int_equal(text[room - 1], '\0');
        assert_int_equal(text[room], 'x');
    }
    assert_int_equal(gw_metrics_print(&snapshot, NULL, 0), strlen(all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_complete),
        cmocka_unit_test(threads_lose_nothing),
        cmocka_unit_test(snapshots_add_up),
        cmocka_unit_test(printed),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
