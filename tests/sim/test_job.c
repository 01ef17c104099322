/* Whole jobs in simulation: they end, learn, and repeat bit for bit. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

static void run_job(const struct gw_sim_options *options,
                    const char *const *settings,
                    char hex[65])
{
    cluster_open(&cluster, options, settings, NULL);
    if (!cluster_run(&cluster, 60000000))
        fail_msg("the job does not end: %s", cluster.note);
    if (cluster.final.status != GW_OK)
        fail_msg("%s", cluster.text);
    for (size_t i = 0; i < cluster.workers; i++)
        assert_int_equal(cluster.worker[i].status, GW_OK);
    for (size_t i = 0; i < cluster.servers; i++)
        assert_int_equal(cluster.server[i].status, GW_OK);
    assert_true(cluster.final.has_weights);
    cluster_digest(&cluster, hex);
    cluster_close(&cluster);
}

static void a_job_ends_and_learns(void **state)
{
    (void)state;
    char hex[65];
    const char *settings[] = {"train.steps=40", "train.eval_every=\"10 steps\"",
                              NULL};
    run_job(&calm, settings, hex);
    assert_int_equal(cluster.steps, 40);
    assert_true(cluster.loss[39] < 0.5 * cluster.loss[0]);
    assert_int_equal(cluster.scores, 4);
    assert_true(cluster.score[3].accuracy > 0.9);
    assert_true(cluster.score[3].loss < cluster.score[0].loss);
    assert_int_equal(cluster.score[3].step, 40);
}

static void the_cluster_leaves_no_trace(void **state)
{
    (void)state;
    char one[65], other[65];
    const char *settings[][3] = {{"cluster.servers=1", NULL},
                                 {"cluster.servers=2", NULL},
                                 {"cluster.servers=3", NULL},
                                 {"cluster.connections=3", NULL},
                                 {"train.commit=whole", NULL},
                                 {"train.commit=whole", "cluster.servers=3"}};
    run_job(&calm, settings[0], one);
    for (size_t i = 1; i < sizeof settings / sizeof *settings; i++) {
        run_job(&calm, settings[i], other);
        assert_string_equal(one, other);
    }
    const char *seed[] = {"train.seed=8", NULL};
    run_job(&calm, seed, other);
    assert_string_not_equal(one, other);
}

/* Powers of two go through sums and products without a trace. */
static void a_loss_scale_leaves_no_trace(void **state)
{
    (void)state;
    char none[65], scaled[65];
    const char *settings[][3] = {
        {"train.commit=whole", "train.loss_scale=none", NULL},
        {"train.commit=whole", "train.loss_scale=1024", NULL},
        {"train.commit=whole", "train.loss_scale=dynamic", NULL}};
    run_job(&calm, settings[0], none);
    for (size_t i = 1; i < sizeof settings / sizeof *settings; i++) {
        run_job(&calm, settings[i], scaled);
        assert_string_equal(none, scaled);
    }
}

/* The scale is doubled within the job: the step after it uses the new one. */
static void a_loss_scale_changes_for_all_at_once(void **state)
{
    (void)state;
    char none[65], scaled[65];
    const char *settings[] = {"train.commit=whole",     "train.steps=2003",
                              "train.batch=1",          "optimizer.lr=1e-6",
                              "model.layers=[784, 10]", "cluster.servers=1",
                              "train.loss_scale=none",  NULL};
    run_job(&calm, settings, none);
    settings[6] = "train.loss_scale=dynamic";
    run_job(&calm, settings, scaled);
    assert_string_equal(none, scaled);
}

static uint64_t ten_ms(void *owner, uint64_t samples)
{
    (void)samples;
    (void)owner;
    return 10000;
}

static int servers_have_reported(void *owner)
{
    char text[16384];
    gw_coordinator_status(((struct cluster *)owner)->coordinator, text,
                          sizeof text);
    const char *server = strstr(text, "server 1");
    return server && strstr(server, "frames_in");
}

static void counts(const struct gw_metrics_snapshot *of, enum gw_metric metric)
{
    if (of->value[metric] == 0)
        fail_msg("%s is not counted", gw_metric_info(metric)->name);
}

/* Each counter grows in a job in which what it counts happens; but computing
   takes time in real jobs only (tests/run/train.sh). */
static void every_counter_counts(void **state)
{
    (void)state;
    const char *settings[] = {"train.steps=40", "checkpoint.dir=run",
                              "checkpoint.every=\"20 steps\"", NULL};
    static const enum gw_metric workers[] = {
        GW_METRIC_STEPS,           GW_METRIC_SAMPLES,    GW_METRIC_BYTES_PUSHED,
        GW_METRIC_BYTES_PULLED,    GW_METRIC_FRAMES_IN,  GW_METRIC_FRAMES_OUT,
        GW_METRIC_HEARTBEATS,      GW_METRIC_RECONNECTS, GW_METRIC_WAIT_US,
        GW_METRIC_CONTROL_MESSAGES};
    static const enum gw_metric servers[] = {
        GW_METRIC_BYTES_PUSHED,   GW_METRIC_BYTES_PULLED,
        GW_METRIC_FRAMES_IN,      GW_METRIC_FRAMES_OUT,
        GW_METRIC_HEARTBEATS,     GW_METRIC_CONTROL_MESSAGES,
        GW_METRIC_PUSHES_APPLIED, GW_METRIC_WANTS_ANSWERED,
        GW_METRIC_CHECKPOINTS,    GW_METRIC_CHECKPOINT_BYTES};
    cluster_open(&cluster, &calm, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, ten_ms, NULL);
    assert_true(
        cluster_run_until(&cluster, servers_have_reported, &cluster, 60000000));
    assert_false(cluster.finished);
    for (int i = 0; i < 8; i++)
        gw_sim_cut(cluster.sim);
    assert_true(cluster_run(&cluster, 60000000));
    if (cluster.final.status != GW_OK)
        fail_msg("%s", cluster.text);
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
        counts(&cluster.final.workers, workers[i]);
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
        counts(&cluster.final.servers, servers[i]);
    cluster_close(&cluster);
}

static int has_opened(void *owner)
{
    (void)owner;
    return 1;
}

/* Asking to stop, by however many, waits for the step; only an end at once does
   not. Everyone leaves in order all the same. */
static void a_stop_waits_but_an_end_at_once_does_not(void **state)
{
    (void)state;
    const char *settings[] = {"train.steps=1000", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, ten_ms, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_has_stepped, &cluster, 60000000));
    gw_sim_pause(cluster.worker[1].loop, 900000);
    for (int i = 0; i < 4; i++) {
        gw_coordinator_stop(cluster.coordinator, "a signal");
        cluster_run(&cluster, 200000);
        assert_false(cluster.finished);
    }
    gw_coordinator_stop_now(cluster.coordinator);
    gw_coordinator_stop_now(cluster.coordinator);
    assert_true(cluster_run(&cluster, 2000000));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_non_null(strstr(cluster.text, "at once; there is no checkpoint"));
    for (size_t i = 0; i < cluster.workers; i++)
        assert_int_equal(cluster.worker[i].status, GW_EINTERRUPTED);
    for (size_t i = 0; i < cluster.servers; i++)
        assert_int_equal(cluster.server[i].status, GW_EINTERRUPTED);
    cluster_close(&cluster);

    cluster_open(&cluster, &calm, settings, NULL);
    gw_coordinator_stop_now(cluster.coordinator);
    assert_true(
        cluster_run_until(&cluster, cluster_is_over, &cluster, 5000000));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_string_equal(cluster.text, "stopped before the first step");
    cluster_close(&cluster);
}

/* The coordinator hears of who dials just when they give up waiting for it, and
   just before, so that its answers come after. */
static void a_dial_that_was_given_up_is_not_answered(void **state)
{
    (void)state;
    static const uint64_t pause_us[] = {5000000, 4999990};
    for (size_t i = 0; i < 2; i++) {
        cluster_open(&cluster, &calm, NULL, NULL);
        gw_sim_pause(cluster.loop, pause_us[i]);
        assert_true(cluster_run(&cluster, 60000000));
        assert_int_equal(cluster.final.status, GW_OK);
        cluster_close(&cluster);
    }
}

/* A number of a process says nothing without its machine: a launcher knows
   those of its own. */
static void the_dead_are_told_apart_by_machine(void **state)
{
    (void)state;
    static const char *const who[] = {"a process (pid 300) died at step ",
                                      "(s, pid 301) died at step "};
    for (uint32_t i = 0; i < 2; i++) {
        cluster_open(&cluster, &calm, NULL, NULL);
        assert_true(cluster_run_until(&cluster, cluster_has_stepped, &cluster,
                                      5000000));
        gw_coordinator_gone(cluster.coordinator, GW_WORLD_PID + i, "killed");
        assert_true(
            cluster_run_until(&cluster, cluster_is_over, &cluster, 5000000));
        assert_int_equal(cluster.final.status, GW_EDEAD);
        if (!strstr(cluster.text, who[i]))
            fail_msg("%s", cluster.text);
        cluster_close(&cluster);
    }
}

/* A program is known by its rank: the process that joins may be a child of the
   one that the launcher has started. */
static void a_program_that_ends_ends_the_job_by_its_rank(void **state)
{
    (void)state;
    static const struct {
        int (*when)(void *owner);
        int code;
        enum gw_status status;
        const char *line;
    } cases[] = {
        {cluster_has_stepped, 7, GW_EABORTED, "worker 1 ("},
        {cluster_has_stepped, 7, GW_EABORTED,
         ", before the job was complete: exit code 7: no data"},
        {cluster_has_stepped, 128 + 9, GW_EDEAD, "worker 1 ("},
        {has_opened, 7, GW_EABORTED,
         "worker 1 ended before it had joined the job: exit code 7: no data"},
        {has_opened, 0, GW_EABORTED,
         "worker 1 ended without joining the job: it must open gradweir"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cluster_open(&cluster, &calm, NULL, NULL);
        assert_true(
            cluster_run_until(&cluster, cases[i].when, &cluster, 5000000));
        gw_coordinator_program_ended(cluster.coordinator, 1, cases[i].code,
                                     "exit code 7: no data");
        assert_true(
            cluster_run_until(&cluster, cluster_is_over, &cluster, 5000000));
        assert_int_equal(cluster.final.status, cases[i].status);
        if (!strstr(cluster.text, cases[i].line))
            fail_msg("%s", cluster.text);
        cluster_close(&cluster);
    }
}

/* Updates that are far too large, until no gradient is finite any more: the
   rate that is told is that of the next update, not of the next step. */
static void skipped_steps_do_not_move_the_rate(void **state)
{
    (void)state;
    const char *settings[] = {"train.loss_scale=dynamic",
                              "train.nonfinite=skip",
                              "optimizer.lr=1e6",
                              "optimizer.schedule=linear",
                              "model.layers=[784, 64, 64, 64, 64, 64, 10]",
                              NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(cluster_run(&cluster, 60000000));
    assert_int_equal(cluster.steps, 10);
    assert_non_null(strstr(cluster.note, "step 9 is skipped"));
    uint64_t skips = cluster.notes - 1; /* one says what computes */
    assert_in_range(skips, 2, 9);
    for (uint64_t step = 0; step < 10; step++) {
        uint64_t updates = step < 10 - skips ? step : 10 - skips;
        assert_true(fabs(cluster.lr[step] / 1e6 - 1 + (double)updates / 10) <
                    1e-9);
    }
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_ends_and_learns),
        cmocka_unit_test(the_cluster_leaves_no_trace),
        cmocka_unit_test(a_loss_scale_leaves_no_trace),
        cmocka_unit_test(a_loss_scale_changes_for_all_at_once),
        cmocka_unit_test(every_counter_counts),
        cmocka_unit_test(a_stop_waits_but_an_end_at_once_does_not),
        cmocka_unit_test(a_dial_that_was_given_up_is_not_answered),
        cmocka_unit_test(the_dead_are_told_apart_by_machine),
        cmocka_unit_test(a_program_that_ends_ends_the_job_by_its_rank),
        cmocka_unit_test(skipped_steps_do_not_move_the_rate),
    };
    int failed = cmocka_run_group_tests_name("job", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
