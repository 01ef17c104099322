/*
 * Backup workers in simulation: backup:0 is sync; the mean step comes to its
 * closed form; late workers jump, score, save, end and go on with everybody; in
 * every weather each push counts once or is late once.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <malloc.h>
#include <cmocka.h>

#include "proto/random.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define LIMIT_US 7200000000

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

static uint64_t at_servers(enum gw_metric which)
{
    return cluster_at_servers(&cluster, which);
}

static uint64_t at_workers(enum gw_metric which)
{
    return cluster_at_workers(&cluster, which);
}

static uint64_t at_worker(size_t rank, enum gw_metric which)
{
    return gw_metrics_get(&cluster.worker[rank].metrics, which);
}

/* ---- backup:0 ---- */

static void nobody_left_out_is_sync(void **state)
{
    (void)state;
    static const char *const commit[] = {
        "train.commit=auto", "train.commit=streaming", "train.commit=whole"};
    static const char *const policy[] = {"cluster.policy=sync",
                                         "cluster.policy=\"backup:0\""};
    for (size_t how = 0; how < 3; how++) {
        char hex[2][65];
        uint64_t messages[2];
        for (size_t i = 0; i < 2; i++) {
            const char *settings[] = {policy[i], commit[how], NULL};
            cluster_open(&cluster, &calm, settings, NULL);
            cluster_finish(&cluster, LIMIT_US);
            cluster_digest(&cluster, hex[i]);
            messages[i] = at_workers(GW_METRIC_CONTROL_MESSAGES);
            cluster_close(&cluster);
        }
        assert_string_equal(hex[0], hex[1]);
        assert_int_equal(messages[0], messages[1]); /* no decision more */
    }
}

/* ---- the law of stragglers ---- */

#define MEAN_US 100000.0

struct straggler {
    uint32_t rank;
    uint64_t draws;
};

/* Exponential, of mean MEAN_US; one draw for each computation. */
static uint64_t exponential(void *owner, uint64_t samples)
{
    (void)samples;
    struct straggler *straggler = owner;
    uint32_t bits[4];
    gw_random4(5, GW_RANDOM_TEST, straggler->rank, straggler->draws++, bits);
    double u = ((double)bits[0] + 1) / 4294967297.0;
    return 1 + (uint64_t)(-MEAN_US * log(u));
}

static void model_stragglers(struct straggler straggler[CLUSTER_MAX])
{
    for (size_t i = 0; i < cluster.workers; i++) {
        straggler[i] = (struct straggler){.rank = (uint32_t)i};
        gw_sim_compute_model(cluster.worker[i].loop, exponential,
                             &straggler[i]);
    }
}

static double harmonic(unsigned n)
{
    double sum = 0;
    for (unsigned i = 1; i <= n; i++)
        sum += 1.0 / i;
    return sum;
}

#define LAW_STEPS 4000

static int has_stepped(void *owner)
{
    return ((struct cluster *)owner)->steps >= 1;
}

static int has_stepped_some(void *owner)
{
    return ((struct cluster *)owner)->steps >= LAW_STEPS / 20;
}

static int has_stepped_most(void *owner)
{
    return ((struct cluster *)owner)->steps >= LAW_STEPS - 1;
}

/* Nothing grows with steps, or with pushes that are late. */
static void run_in_constant_memory(void)
{
    assert_true(
        cluster_run_until(&cluster, has_stepped_some, &cluster, LIMIT_US));
    size_t before = mallinfo2().uordblks;
    assert_true(
        cluster_run_until(&cluster, has_stepped_most, &cluster, LIMIT_US));
    assert_true(mallinfo2().uordblks < before + 100000);
}

/* Mean of the N-th smallest of N + B exponential times: H(N + B) - H(B). */
static void steps_take_what_the_law_says(void **state)
{
    (void)state;
    const struct gw_sim_options instant = {.seed = 1};
    for (unsigned b = 0; b <= 2; b++) {
        struct straggler straggler[CLUSTER_MAX];
        char policy[40], workers[40], steps[40];
        snprintf(policy, sizeof policy, "cluster.policy=\"backup:%u\"", b);
        snprintf(workers, sizeof workers, "cluster.workers=%u", 8 + b);
        snprintf(steps, sizeof steps, "train.steps=%d", LAW_STEPS);
        const char *settings[] = {policy,
                                  workers,
                                  steps,
                                  "train.batch=1",
                                  "model.layers=[784, 10]",
                                  "cluster.servers=1",
                                  NULL};
        cluster_open(&cluster, &instant, settings, NULL);
        model_stragglers(straggler);
        assert_true(
            cluster_run_until(&cluster, has_stepped, &cluster, LIMIT_US));
        uint64_t begin = gw_sim_now(cluster.sim);
        run_in_constant_memory();
        cluster_finish(&cluster, LIMIT_US);
        double mean = (double)(gw_sim_now(cluster.sim) - begin) /
                      (LAW_STEPS - 1) / MEAN_US;
        double law = harmonic(8 + b) - harmonic(b);
        printf("# backup:%u of %u: mean step %.3f of the mean compute time, "
               "the law says %.3f (%+.1f %%)\n",
               b, 8 + b, mean, law, 100 * (mean / law - 1));
        assert_int_equal(cluster.steps, LAW_STEPS);
        assert_int_equal(at_servers(GW_METRIC_PUSHES_APPLIED),
                         (uint64_t)LAW_STEPS * 8 * 2);
        cluster_close(&cluster);
        assert_true(fabs(mean / law - 1) < 0.02);
    }
}

/* ---- who is late goes on ---- */

/* Of the default job's model, and of its last layer. */
#define CHUNKS      5
#define CHUNKS_LAST 2

/* Each whole push of a worker is in a version or late, once; steps are made of
   as many as the policy says. Of at most so many steps `in_between` the last
   layer had been pushed when they were given up. Returns what is wrong with it,
   or NULL. */
static const char *
audit_between(uint64_t quorum, uint64_t steps, uint64_t in_between)
{
    uint64_t applied = at_servers(GW_METRIC_PUSHES_APPLIED);
    uint64_t late = at_servers(GW_METRIC_PUSHES_LATE);
    if (applied != quorum * steps * CHUNKS)
        return "other pushes applied than counted workers make";
    uint64_t whole = at_workers(GW_METRIC_STEPS) * CHUNKS;
    uint64_t more = applied + late - whole;
    if (applied + late < whole || more % CHUNKS_LAST != 0 ||
        more / CHUNKS_LAST > in_between)
        return "pushes lost, or counted twice";
    if (at_servers(GW_METRIC_PROTOCOL_ERRORS) +
            at_workers(GW_METRIC_PROTOCOL_ERRORS) >
        0)
        return "frames that no member sends";
    return NULL;
}

static const char *audit(uint64_t quorum, uint64_t steps)
{
    return audit_between(quorum, steps, 0);
}

/* What those who count have had of the training set, if it is 300 samples and
   10 for each worker in a full step. */
static uint64_t samples_of(uint64_t quorum, uint64_t steps)
{
    uint64_t sum = 0, all = 10 * cluster.workers;
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t first = step % ((300 + all - 1) / all) * all;
        uint64_t left = 300 - first;
        sum += quorum * (left < all ? left : all) / cluster.workers;
    }
    return sum;
}

static uint64_t slow_or_quick(void *owner, uint64_t samples)
{
    (void)samples;
    return *(uint32_t *)owner == 1 ? 2000000 : 10000;
}

static void one_is_slow(uint32_t rank[CLUSTER_MAX])
{
    for (size_t i = 0; i < cluster.workers; i++) {
        rank[i] = (uint32_t)i;
        gw_sim_compute_model(cluster.worker[i].loop, slow_or_quick, &rank[i]);
    }
}

/* The slow one never comes in time for a step, but where all score the test
   set it does, and it ends with the weights of all. */
static void the_slow_score_and_end_with_all(void **state)
{
    (void)state;
    const char *settings[] = {"cluster.policy=\"backup:1\"", "train.steps=40",
                              "train.eval_every=\"10 steps\"", "train.clip=1",
                              NULL};
    uint32_t rank[CLUSTER_MAX];
    cluster_open(&cluster, &calm, settings, NULL);
    one_is_slow(rank);
    cluster_finish(&cluster, LIMIT_US);
    assert_int_equal(cluster.steps, 40);
    assert_int_equal(cluster.scores, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(cluster.score[i].step, 10 * (i + 1));
    assert_true(cluster.score[3].loss < cluster.score[0].loss);
    assert_int_equal(at_worker(0, GW_METRIC_STEPS), 40);
    assert_int_equal(at_worker(0, GW_METRIC_SAMPLES), 400);
    /* it gives up in time, and pushes nothing */
    assert_int_equal(at_worker(1, GW_METRIC_STEPS), 0);
    assert_int_equal(at_worker(1, GW_METRIC_SAMPLES), 0);
    if (audit(2, 40))
        fail_msg("%s", audit(2, 40));
    cluster_close(&cluster);
}

static int has_stepped_twice(void *owner)
{
    return ((struct cluster *)owner)->steps >= 2;
}

/* A job that is stopped goes on where it was, all workers at its clock. */
static void a_stopped_job_goes_on(void **state)
{
    (void)state;
    const char *settings[] = {"cluster.policy=\"backup:1\"", "train.steps=12",
                              "checkpoint.dir=ck",
                              "checkpoint.every=\"3 steps\"", NULL};
    uint32_t rank[CLUSTER_MAX];
    cluster_open(&cluster, &calm, settings, NULL);
    one_is_slow(rank);
    assert_true(
        cluster_run_until(&cluster, has_stepped_twice, &cluster, LIMIT_US));
    gw_coordinator_stop(cluster.coordinator, "test");
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_true(cluster.final.has_checkpoint);
    uint64_t at = cluster.final.checkpoint;
    assert_in_range(at, 2, 11);
    if (audit(2, at))
        fail_msg("%s", audit(2, at));
    cluster_end(&cluster);
    cluster_open(&cluster, &calm, settings, "ck");
    one_is_slow(rank);
    cluster_finish(&cluster, LIMIT_US);
    assert_int_equal(cluster.final.checkpoint, 12);
    assert_int_equal(cluster.steps, 12 - at);
    if (audit(2, 12 - at))
        fail_msg("%s", audit(2, 12 - at));
    cluster_close(&cluster);
}

static int has_a_note(void *owner)
{
    return ((struct cluster *)owner)->notes >= 2; /* one says what computes */
}

/* Workers say which server they wait for, perhaps before a server says for
   whom. */
static int names_a_worker(void *owner)
{
    return strstr(((struct cluster *)owner)->note, "waiting for worker") !=
           NULL;
}

/* Nobody waits for one of three; of two that do not come, both are named. */
static void only_who_is_missing_is_named(void **state)
{
    (void)state;
    const char *settings[] = {"cluster.policy=\"backup:1\"", "train.steps=1000",
                              "cluster.servers=1", "cluster.step_deadline=0.4",
                              NULL};
    uint32_t rank[CLUSTER_MAX];
    cluster_open(&cluster, &calm, settings, NULL);
    one_is_slow(rank);
    assert_true(
        cluster_run_until(&cluster, has_stepped_twice, &cluster, LIMIT_US));
    assert_false(cluster_run_until(&cluster, has_a_note, &cluster, 800000));
    gw_sim_pause(cluster.worker[2].loop, 900000);
    assert_true(cluster_run_until(&cluster, names_a_worker, &cluster, 2000000));
    assert_non_null(strstr(cluster.note, "worker 1"));
    assert_non_null(strstr(cluster.note, "worker 2"));
    assert_null(strstr(cluster.note, "worker 0"));
    cluster_close(&cluster);
}

static int is_told_to_wait_for_shard_0(void *owner)
{
    return strstr(((struct cluster *)owner)->note, "decision of shard 0") !=
           NULL;
}

/* Where enough have come to a shard it waits for the decision, not for the one
   who is left. Worker 2 has sent all to shard 1 while it still sends to 0. */
static void nobody_is_named_where_enough_have_come(void **state)
{
    (void)state;
    const char *settings[] = {"cluster.policy=\"backup:1\"", "train.steps=100",
                              "cluster.step_deadline=0.05", NULL};
    uint32_t rank[CLUSTER_MAX];
    cluster_open(&cluster, &calm, settings, NULL);
    one_is_slow(rank);
    gw_sim_slow(cluster.worker[2].loop, 0.1);
    assert_true(cluster_run_until(&cluster, is_told_to_wait_for_shard_0,
                                  &cluster, 30000000));
    cluster_close(&cluster);
}

/*
 * While the weights are on a slow line others make many versions more: what was
 * sent stays as it was, and the slow one still comes to one version of all, to
 * score it. It sends more than it can in the time of a step, all of it late.
 */
static void a_slow_line_gets_whole_weights(void **state)
{
    (void)state;
    const char *settings[] = {"cluster.policy=\"backup:1\"", "train.steps=200",
                              "train.eval_every=\"50 steps\"", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    gw_sim_slow(cluster.worker[1].loop, 1);
    cluster_finish(&cluster, LIMIT_US);
    assert_int_equal(cluster.steps, 200);
    assert_int_equal(cluster.scores, 4);
    if (audit(2, 200))
        fail_msg("%s", audit(2, 200));
    assert_true(at_servers(GW_METRIC_PUSHES_LATE) > 0);
    assert_int_equal(at_workers(GW_METRIC_SAMPLES), samples_of(2, 200));
    cluster_close(&cluster);
}

/* ---- every weather ---- */

#define SEEDS    2000
#define STEPS    10
#define STORM_US 240000000

enum {
    COUNT_CUTS,
    COUNT_RECONNECTS,
    COUNT_LATE,
    COUNT_GIVEN_UP,
    COUNT_DUPLICATES,
};

static const char *const happened[SWEEP_COUNTS] = {
    [COUNT_CUTS] = "cuts",
    [COUNT_RECONNECTS] = "reconnects",
    [COUNT_LATE] = "pushes late",
    [COUNT_GIVEN_UP] = "steps not pushed",
    [COUNT_DUPLICATES] = "pushes twice",
};

static uint64_t quorum;

static void open_stormy_job(struct storm *storm,
                            const struct gw_sim_options *lines)
{
    char policy[40], workers[40], servers[40], links[40];
    uint64_t all = 3 + storm_draw(storm, 3), spare = 1 + storm_draw(storm, 2);
    quorum = all - spare;
    snprintf(policy, sizeof policy, "cluster.policy=\"backup:%u\"",
             (unsigned)spare);
    snprintf(workers, sizeof workers, "cluster.workers=%u", (unsigned)all);
    snprintf(servers, sizeof servers, "cluster.servers=%u",
             1 + (unsigned)storm_draw(storm, 3));
    snprintf(links, sizeof links, "cluster.connections=%u",
             1 + (unsigned)storm_draw(storm, 3));
    const char *settings[] = {
        policy,
        workers,
        servers,
        links,
        storm_draw(storm, 2) ? "train.eval_every=\"4 steps\"" : "log.every=1",
        storm_draw(storm, 2) ? "checkpoint.dir=ck" : "log.every=1",
        "checkpoint.every=\"3 steps\"",
        storm_draw(storm, 4) ? "log.every=1" : "optimizer.kind=lamb",
        NULL};
    cluster_open(&cluster, lines, settings, NULL);
}

static void judge(const struct storm *storm, struct sweep_outcome *outcome)
{
    uint64_t not_pushed = cluster.workers * STEPS - at_workers(GW_METRIC_STEPS);
    const char *wrong =
        audit_between(quorum, STEPS, storm->compute_us > 0 ? not_pushed : 0);
    if (!storm_ends_with(&cluster, GW_OK, outcome))
        return;
    if (cluster.steps != STEPS)
        snprintf(outcome->why, sizeof outcome->why, "%u steps reported",
                 (unsigned)cluster.steps);
    else if (at_workers(GW_METRIC_SAMPLES) != samples_of(quorum, STEPS))
        snprintf(outcome->why, sizeof outcome->why, "other samples counted");
    else if (wrong)
        snprintf(outcome->why, sizeof outcome->why, "%s", wrong);
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options lines;
    storm_begin(&storm, seed, &lines);
    open_stormy_job(&storm, &lines);
    storm_blow(&storm, &cluster);
    if (storm_run(&cluster, STORM_US, outcome))
        judge(&storm, outcome);
    outcome->count[COUNT_CUTS] = storm.cuts;
    outcome->count[COUNT_RECONNECTS] = at_workers(GW_METRIC_RECONNECTS);
    outcome->count[COUNT_LATE] = at_servers(GW_METRIC_PUSHES_LATE);
    outcome->count[COUNT_GIVEN_UP] =
        cluster.workers * STEPS - at_workers(GW_METRIC_STEPS);
    outcome->count[COUNT_DUPLICATES] = at_servers(GW_METRIC_PUSHES_DUPLICATE);
    cluster_close(&cluster);
}

static void each_push_counts_once_in_every_weather(void **state)
{
    (void)state;
    sweep_all("backup", SEEDS, one, happened);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_left_out_is_sync),
        cmocka_unit_test(steps_take_what_the_law_says),
        cmocka_unit_test(the_slow_score_and_end_with_all),
        cmocka_unit_test(a_stopped_job_goes_on),
        cmocka_unit_test(only_who_is_missing_is_named),
        cmocka_unit_test(nobody_is_named_where_enough_have_come),
        cmocka_unit_test(a_slow_line_gets_whole_weights),
        cmocka_unit_test(each_push_counts_once_in_every_weather),
    };
    int failed = cmocka_run_group_tests_name("backup", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
