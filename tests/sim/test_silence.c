/*
 * How long silence is borne: cluster.silence, the same for everybody, and who
 * was away himself accuses nobody.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"

#define LIMIT_US     60000000
#define STEP_US      50000
#define TICK_US      50000
#define HEARTBEAT_US 200000

static struct cluster cluster;

static int three_steps(void *owner)
{
    (void)owner;
    return cluster.steps >= 3;
}

static uint64_t compute_us(void *owner, uint64_t samples)
{
    (void)owner;
    (void)samples;
    return STEP_US;
}

/* A job of so much silence, three steps into it. */
static void begin(const char *silence)
{
    const struct gw_sim_options lines = {.seed = 1, .latency_us = 50};
    const char *const settings[] = {silence, "train.steps=200",
                                    "cluster.patience=0", NULL};
    cluster_open(&cluster, &lines, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, compute_us, NULL);
    assert_true(cluster_run_until(&cluster, three_steps, NULL, LIMIT_US));
}

static void ends(enum gw_status status)
{
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, status);
}

static void a_pause_below_the_silence_is_borne(void **state)
{
    static const struct {
        const char *silence;
        uint64_t pause_us;
    } cases[] = {{"cluster.silence=0.5", 300000},
                 {"cluster.silence=1", 700000},
                 {"cluster.silence=0", 4700000}, /* several hosts */
                 {"cluster.silence=20", 19700000}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gw_loop *all[3];
        for (size_t who = 0; who < 3; who++) {
            begin(cases[i].silence);
            all[0] = cluster.worker[1].loop;
            all[1] = cluster.server[1].loop;
            all[2] = cluster.loop;
            gw_sim_pause(all[who], cases[i].pause_us);
            ends(GW_OK);
            cluster_close(&cluster);
        }
    }
}

static int the_other_is_told(void *owner)
{
    (void)owner;
    return cluster.worker[0].finished;
}

/* After the silence that the job says, and not much later. */
static void a_death_is_noticed_after_the_silence(void **state)
{
    static const struct {
        const char *silence;
        uint64_t us;
    } cases[] = {{"cluster.silence=0.5", 500000},
                 {"cluster.silence=1", 1000000},
                 {"cluster.silence=0", 5000000},
                 {"cluster.silence=20", 20000000}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].silence);
        uint64_t before = gw_sim_now(cluster.sim);
        gw_sim_kill(cluster.worker[1].loop);
        assert_true(
            cluster_run_until(&cluster, the_other_is_told, NULL, LIMIT_US));
        uint64_t took = gw_sim_now(cluster.sim) - before;
        assert_in_range(took, cases[i].us - HEARTBEAT_US,
                        cases[i].us + 3 * TICK_US);
        assert_non_null(strstr(cluster.worker[0].error.text, "worker 1 ("));
        cluster_close(&cluster);
    }
}

static int the_worker_is_over(void *owner)
{
    (void)owner;
    return cluster.worker[1].finished;
}

/* The others take it for dead, and it says why. */
static void who_was_paused_says_so(void **state)
{
    (void)state;
    begin("cluster.silence=1");
    gw_sim_pause(cluster.worker[1].loop, 1500000);
    assert_true(
        cluster_run_until(&cluster, the_worker_is_over, NULL, LIMIT_US));
    assert_int_equal(cluster.worker[1].status, GW_EDEAD);
    const char *text = cluster.worker[1].error.text;
    assert_ptr_equal(strstr(text, "this process was paused for 1.5 s; "), text);
    assert_null(strstr(text, "coordinator (any:0) died"));
    cluster_close(&cluster);

    begin("cluster.silence=1");
    gw_sim_pause(cluster.loop, 2500000);
    assert_true(
        cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US));
    text = cluster.text;
    assert_ptr_equal(strstr(text, "this process was paused for 2.5 s; "), text);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_below_the_silence_is_borne),
        cmocka_unit_test(a_death_is_noticed_after_the_silence),
        cmocka_unit_test(who_was_paused_says_so),
    };
    int failed = cmocka_run_group_tests_name("silence", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
