/*
 * train.split = speed, in simulation: unlike workers finish a step together,
 * and a run whose splits are repeated has the same bits, whatever happens to
 * it.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "server/store.h"
#include "tests/sim/cluster.h"
#include "worker/plan.h"

#define LIMIT_US    3000000000000
#define SAMPLES     300 /* of the training set: a step has all of them */
#define SETTING_MAX 16

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

/* ---- workers that need their time ---- */

struct pace {
    struct gw_client *client;
    uint32_t rank;
    uint64_t draws;
    double sample_us, step_us; /* a step is so much for each, and for itself */
    double spread;             /* up to this part more or less */
    uint64_t rare;             /* every so many steps one takes 20 times that */
    int jumps;                 /* it may be late, and then goes on elsewhere */
};

static struct pace pace[CLUSTER_MAX];
static const struct gw_sim_options *world = &calm;
static int slow_line; /* of the third worker */

static uint64_t samples_now(const struct pace *of)
{
    const struct gw_config *config = &cluster.config;
    const struct gw_plan_run all = {.n = SAMPLES};
    uint64_t clock =
        gw_client_first_clock(of->client) +
        gw_metrics_get(&cluster.worker[of->rank].metrics, GW_METRIC_STEPS);
    if (of->jumps)
        clock = UINT64_MAX - 1; /* about as good: the newest part */
    if (!gw_config_splits_by_speed(config))
        return gw_plan_part(all, config->cluster.workers, of->rank).n;
    return gw_plan_share(all, gw_client_share(of->client, clock).range).n;
}

static uint64_t step_us(void *owner, uint64_t samples)
{
    (void)samples;
    struct pace *of = owner;
    uint32_t bits[4];
    gw_random4(23, GW_RANDOM_TEST, of->rank, of->draws++, bits);
    double us = of->step_us + of->sample_us * (double)samples_now(of);
    us *= 1 + of->spread * (bits[0] / 2147483648.0 - 1);
    if (of->rare && of->draws % of->rare == 0)
        us *= 20;
    return (uint64_t)us;
}

static void opened(void *owner, struct gw_client *client)
{
    ((struct pace *)owner)->client = client;
}

static void open_job(const char *const *settings, const char *resume)
{
    cluster_open(&cluster, world, settings, resume);
    for (size_t i = 0; i < cluster.workers; i++) {
        cluster.worker[i].options.opened = opened;
        cluster.worker[i].options.owner = &pace[i];
        gw_sim_compute_model(cluster.worker[i].loop, step_us, &pace[i]);
    }
    if (slow_line) /* 31400 bytes in 30 ms */
        gw_sim_slow(cluster.worker[2].loop, 31400.0 / 30000);
}

/* One of four is four times slower than the others. */
static void set_paces(double spread, double step)
{
    for (size_t i = 0; i < CLUSTER_MAX; i++)
        pace[i] = (struct pace){.rank = (uint32_t)i,
                                .sample_us = i == 2 ? 4000 : 1000,
                                .step_us = step,
                                .spread = spread};
}

static double sum_of_speeds(void)
{
    double sum = 0;
    for (size_t i = 0; i < cluster.workers; i++)
        sum += 1 / pace[i].sample_us;
    return sum;
}

static void finish(void)
{
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
}

/* The settings of a job, with more over them, ended by NULL. */
static const char *const *
job(const char *one, const char *two, const char *three, const char *four)
{
    static const char *settings[SETTING_MAX];
    const char *const given[] = {"cluster.workers=4",
                                 "cluster.servers=2",
                                 "model.layers=[784, 10]",
                                 "train.batch=0",
                                 "train.global_batch=300",
                                 "train.split=speed",
                                 "train.steps=100",
                                 "train.eval_every=never",
                                 one,
                                 two,
                                 three,
                                 four};
    size_t n = 0;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i])
            settings[n++] = given[i];
    settings[n] = NULL;
    return settings;
}

/* ---- time ---- */

static int never(void *owner)
{
    (void)owner;
    return 0;
}

/* Samples of all workers per microsecond, once the job has gone on for a
   while. */
static double rate_of(const char *split, const char *policy)
{
    open_job(job(split, policy, "train.steps=1000000", "log.every=1000"), NULL);
    cluster_run_until(&cluster, never, NULL, 6000000);
    uint64_t before =
        gw_metrics_get(&cluster.worker[0].metrics, GW_METRIC_STEPS);
    uint64_t begun_us = gw_sim_now(cluster.sim);
    cluster_run_until(&cluster, never, NULL, 20000000);
    uint64_t steps =
        gw_metrics_get(&cluster.worker[0].metrics, GW_METRIC_STEPS) - before;
    double took_us = (double)(gw_sim_now(cluster.sim) - begun_us);
    return (double)(steps * SAMPLES) / took_us;
}

static void a_slow_worker_gets_less(void **state)
{
    (void)state;
    static const char *const policies[] = {"cluster.policy=sync",
                                           "cluster.policy=\"local:4\""};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        set_paces(0.05, 0);
        double even = rate_of("train.split=even", policies[i]);
        double sum = sum_of_speeds();
        cluster_close(&cluster);
        double speed = rate_of("train.split=speed", policies[i]);
        printf("# %s: of the sum of the speeds evenly %.3f, by speed %.3f, "
               "after %u changes\n",
               policies[i], even / sum, speed / sum,
               (unsigned)cluster.splits - 1);
        /* all at the pace of the slow one: 4 / (3 * 4 + 1) */
        assert_true(fabs(even / sum - 4.0 / 13) < 0.03);
        assert_true(speed / sum > 0.9);
        assert_in_range(cluster.splits - 1, 1, 3);
        assert_in_range(cluster.split[cluster.splits - 1].step, 1, 60);
        cluster_close(&cluster);
    }
}

static uint64_t steps_of(size_t worker)
{
    return gw_metrics_get(&cluster.worker[worker].metrics, GW_METRIC_STEPS);
}

/* With backup workers the slow one would be late in every step; with less to do
   it is not. */
static void who_is_always_late_gets_less(void **state)
{
    (void)state;
    double part[2];
    for (size_t i = 0; i < 2; i++) {
        set_paces(0.1, 0);
        for (size_t rank = 0; rank < 4; rank++)
            pace[rank].jumps = 1;
        rate_of(i ? "train.split=speed" : "train.split=even",
                "cluster.policy=\"backup:1\"");
        part[i] = (double)steps_of(2) /
                  (double)(steps_of(0) + steps_of(1) + steps_of(3));
        printf("# backup:1, %s: the slow one finishes %.3f of the steps of the "
               "mean other\n",
               i ? "by speed" : "evenly", 3 * part[i]);
        cluster_close(&cluster);
    }
    assert_true(3 * part[0] < 0.05);
    assert_true(3 * part[1] > 0.5);
}

/* Where a step costs something beside its samples, parts in proportion to the
   speeds would let the slow one finish first: it takes some changes. */
static void steps_that_cost_more_than_samples(void **state)
{
    (void)state;
    set_paces(0.02, 30000);
    double rate = rate_of("train.split=speed", "cluster.policy=sync");
    /* the same time t for all: sum of (t - 30000) / sample_us is SAMPLES */
    double best = SAMPLES / (30000 + SAMPLES / sum_of_speeds());
    printf("# with 30 ms for each step %.3f of the best, after %u changes\n",
           rate / best, (unsigned)cluster.splits - 1);
    assert_true(rate / best > 0.9);
    assert_in_range(cluster.splits - 1, 1, 8);
    cluster_close(&cluster);
}

/* One that computes as fast as the others, over a slow line: 31 KiB of weights
   and as much of gradients take 30 ms each, however many samples it has. */
static void a_slow_line_is_made_up_for(void **state)
{
    (void)state;
    double rate[2];
    for (size_t i = 0; i < 2; i++) {
        set_paces(0.02, 0);
        pace[2].sample_us = pace[0].sample_us;
        slow_line = 1;
        rate[i] = rate_of(i ? "train.split=speed" : "train.split=even",
                          "cluster.policy=sync");
        slow_line = 0;
        printf("# a slow line, %s: %.3f samples per ms after %u changes\n",
               i ? "by speed" : "evenly", 1000 * rate[i],
               i ? (unsigned)cluster.splits - 1 : 0);
        cluster_close(&cluster);
    }
    /* t for all: 3 t + (t - 60000) is SAMPLES of 1000 us each */
    double best = SAMPLES / ((SAMPLES * 1000 + 60000) / 4.0);
    assert_true(fabs(rate[0] / (SAMPLES / (75000 + 60000.0)) - 1) < 0.1);
    printf("# by speed %.3f of the best\n", rate[1] / best);
    assert_true(rate[1] / best > 0.9);
}

/* What is rare is not taken for slow, and what is small is not followed. */
static void equal_workers_stay_even(void **state)
{
    (void)state;
    set_paces(0.05, 0);
    pace[2].sample_us = pace[0].sample_us;
    pace[1].rare = 37;
    rate_of("train.split=speed", "cluster.policy=sync");
    assert_int_equal(cluster.splits, 1);
    assert_int_equal(cluster.split[0].step, 0);
    cluster_close(&cluster);
}

/* A rank that is a hundred times slower keeps being measured. */
static int is_over(void *owner)
{
    (void)owner;
    return cluster.splits > 2;
}

static void nobody_is_left_without_samples(void **state)
{
    (void)state;
    set_paces(0, 0);
    pace[2].sample_us = 200000;
    open_job(job("train.steps=1000000", "log.every=1", NULL, NULL), NULL);
    cluster_run_until(&cluster, never, NULL, 120000000);
    assert_int_equal(cluster.splits, 2);
    assert_true(cluster.steps > 10);
    assert_in_range(cluster.split_samples[cluster.steps - 2][2], 1, 2);
    pace[2].sample_us = 1000; /* it is as fast as the others from now on */
    assert_true(cluster_run_until(&cluster, is_over, NULL, 60000000));
    cluster_run_until(&cluster, never, NULL, 10000000);
    uint64_t last = cluster.steps - 2;
    assert_in_range(cluster.split_samples[last][2], 70, 80);
    cluster_close(&cluster);
}

/* ---- the same again ---- */

/* What cli/record.c writes, with other lines between. */
static void write_record(const char *name)
{
    static char text[1 << 16];
    struct gw_loop *loop;
    struct gw_file *file;
    struct gw_error error = {.text = ""};
    size_t n = 0;
    for (uint64_t i = 0; i < cluster.splits; i++) {
        n += (size_t)sprintf(text + n, "{\"split_step\":%u,\"split_weights\":[",
                             (unsigned)cluster.split[i].step);
        for (size_t rank = 0; rank < cluster.workers; rank++)
            n += (size_t)sprintf(text + n, "%s%u", rank ? "," : "",
                                 cluster.split[i].weight[rank]);
        n += (size_t)sprintf(text + n, "]}\n{\"step\":%u,\"loss\":1.5}\n",
                             (unsigned)cluster.split[i].step);
    }
    assert_int_equal(gw_sim_process(cluster.sim, "disk", &loop, &error), GW_OK);
    const struct gw_disk_ops *ops = loop->disk->ops;
    assert_int_equal(ops->open(loop->disk, name, GW_FILE_CREATE, &file, &error),
                     GW_OK);
    assert_int_equal(ops->write(file, 0, text, n, &error), GW_OK);
    assert_int_equal(ops->close(file, &error), GW_OK);
    gw_loop_close(loop);
}

/* Runs to the end; the world, with the record of it, goes on. */
static void run_to_end(const char *const *settings, char hex[65])
{
    open_job(settings, NULL);
    finish();
    if (cluster.final.status != GW_OK)
        fail_msg("%s", cluster.text);
    cluster_digest(&cluster, hex);
    cluster_end(&cluster);
}

/* Whether the workers are where the servers are, which read their gradients
   there. */
static void be_near(int near)
{
    cluster.houses = near ? "****" : NULL;
}

/* Everything that bits must not depend on, and paces that are no more what
   they were. */
static void check_repeats(const char *policy)
{
    static const char *const others[] = {
        "cluster.servers=1", "cluster.servers=3", "train.commit=whole",
        "cluster.connections=2"};
    char measured[65], repeated[65];
    set_paces(0.2, 0);
    run_to_end(job(policy, NULL, NULL, NULL), measured);
    assert_true(cluster.splits > 1);
    write_record("run.json");
    uint64_t changes = cluster.splits;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        set_paces(0.2, 10000);
        pace[1].sample_us = 3000;
        be_near(i % 2);
        run_to_end(job(policy, "train.split_from=run.json", others[i], NULL),
                   repeated);
        assert_string_equal(repeated, measured);
        assert_int_equal(cluster.splits, changes);
    }
    be_near(0);
    cluster_close(&cluster);
}

static void repeated_splits_give_the_same_bits(void **state)
{
    (void)state;
    check_repeats("cluster.policy=sync");
    check_repeats("cluster.policy=\"local:4\"");
    check_repeats("cluster.policy=\"diloco:6\"");
    check_repeats("cluster.policy=\"backup:0\"");
}

/* A record of another split every five steps, which no run would make. */
static void write_changes(void)
{
    struct gw_error error = {.text = ""};
    cluster.workers = 4;
    cluster.splits = 20;
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t bits[4], left = GW_SPLIT_TOTAL;
        gw_random4(29, GW_RANDOM_TEST, i, 0, bits);
        cluster.split[i].step = 5 * i;
        for (size_t rank = 0; rank < 3; rank++) {
            cluster.split[i].weight[rank] = bits[rank] % (left / 2);
            left -= cluster.split[i].weight[rank];
        }
        cluster.split[i].weight[3] = left;
    }
    if (!cluster.sim)
        assert_int_equal(gw_sim_create(&calm, &cluster.sim, &error), GW_OK);
    write_record("changes.json");
}

/* Scores come between the decision and the reading of what was in force. */
static void many_changes_give_the_same_bits(void **state)
{
    static const char *const others[] = {
        "train.eval_every=1 steps", "cluster.servers=3", "train.commit=whole"};
    static const char *const policies[] = {"cluster.policy=sync",
                                           "cluster.policy=\"local:3\""};
    char first[65], other[65];
    (void)state;
    write_changes();
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        set_paces(0.2, 0);
        run_to_end(
            job(policies[p], "train.split_from=changes.json", NULL, NULL),
            first);
        assert_int_equal(cluster.splits, 20);
        for (uint64_t step = 0; step < cluster.steps; step++) {
            const uint64_t *samples = cluster.split_samples[step];
            assert_int_equal(samples[0] + samples[1] + samples[2] + samples[3],
                             SAMPLES);
        }
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            run_to_end(job(policies[p], "train.split_from=changes.json",
                           others[i], NULL),
                       other);
            assert_string_equal(other, first);
        }
    }
    cluster_close(&cluster);
}

static void cut(void *owner)
{
    (void)owner;
    gw_sim_cut(cluster.sim);
}

/* Many links break, before and while the split changes. */
static void cut_links_change_nothing(void **state)
{
    char measured[65], repeated[65];
    (void)state;
    set_paces(0.2, 0);
    run_to_end(job(NULL, NULL, NULL, NULL), measured);
    write_record("run.json");
    open_job(job("train.split_from=run.json", NULL, NULL, NULL), NULL);
    for (uint64_t i = 1; i <= 60; i++)
        gw_sim_at(cluster.sim, i * 70000, cut, NULL);
    finish();
    cluster_digest(&cluster, repeated);
    assert_string_equal(repeated, measured);
    cluster_close(&cluster);
}

static void pause_one(void *owner)
{
    (void)owner;
    size_t i = (size_t)gw_sim_draw(cluster.sim, 6);
    gw_sim_pause(i < 4 ? cluster.worker[i].loop : cluster.server[i - 4].loop,
                 50000 + gw_sim_draw(cluster.sim, 300000));
}

/* Measured while links break and processes pause, then repeated in peace. */
static void storms_are_repeated_in_peace(void **state)
{
    static const char *const policies[] = {
        "cluster.policy=sync", "cluster.policy=\"local:3\"",
        "cluster.policy=\"diloco:2\"", "train.commit=whole"};
    char measured[65], repeated[65];
    uint64_t changes = 0, shown = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        const char *policy = policies[seed % 4];
        struct gw_sim_options weather = calm;
        weather.seed = seed;
        world = &weather;
        set_paces(0.3, 0);
        be_near(seed % 8 < 4);
        open_job(job(policy, "train.steps=60", "optimizer.lr=0.01", NULL),
                 NULL);
        for (uint64_t i = 1; i <= 40; i++) {
            gw_sim_at(cluster.sim, i * 130000, cut, NULL);
            gw_sim_at(cluster.sim, i * 330000, pause_one, NULL);
        }
        finish();
        if (cluster.final.status != GW_OK)
            fail_msg("seed %u: %s", (unsigned)seed, cluster.text);
        for (uint64_t step = 0; step < 60; step++) {
            const uint64_t *samples = cluster.split_samples[step];
            assert_int_equal(samples[0] + samples[1] + samples[2] + samples[3],
                             SAMPLES);
        }
        changes += cluster.splits - 1;
        shown += cluster_at_servers(&cluster, GW_METRIC_PUSHES_SHOWN);
        cluster_digest(&cluster, measured);
        cluster_end(&cluster);
        be_near(0);
        write_record("run.json");
        run_to_end(job(policy, "train.steps=60", "optimizer.lr=0.01",
                       "train.split_from=run.json"),
                   repeated);
        if (strcmp(measured, repeated) != 0)
            fail_msg("seed %u: other bits", (unsigned)seed);
        cluster_close(&cluster);
        world = &calm;
    }
    printf("# %u changes in 16 storms, %u gradients read where they lie\n",
           (unsigned)changes, (unsigned)shown);
    assert_true(changes >= 16 && shown > 0);
}

static void stop(void *owner)
{
    (void)owner;
    gw_coordinator_stop(cluster.coordinator, "a test");
}

/* At moments before, at and after a change. */
static void stopped_and_repeated(void **state)
{
    char measured[65], repeated[65];
    (void)state;
    set_paces(0.2, 0);
    run_to_end(job(NULL, NULL, NULL, NULL), measured);
    write_record("run.json");
    for (uint64_t ms = 100; ms < 2400; ms += 150) {
        char name[16], dir[32];
        snprintf(name, sizeof name, "ck%u", (unsigned)ms);
        snprintf(dir, sizeof dir, "checkpoint.dir=%s", name);
        const char *const *settings = job("train.split_from=run.json", dir,
                                          "checkpoint.every=never", NULL);
        be_near(ms % 300 == 100);
        open_job(settings, NULL);
        gw_sim_at(cluster.sim, ms * 1000, stop, NULL);
        finish();
        assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
        uint64_t at = cluster.final.checkpoint;
        cluster_end(&cluster);
        open_job(settings, name);
        finish();
        assert_int_equal(cluster.final.status, GW_OK);
        cluster_digest(&cluster, repeated);
        if (strcmp(repeated, measured) != 0)
            fail_msg("stopped at step %u: other bits", (unsigned)at);
        assert_true(cluster.split[0].step == at);
        cluster_end(&cluster);
    }
    be_near(0);
    cluster_close(&cluster);
}

/* What was in force goes on, also where it is measured anew. */
static void a_resumed_job_goes_on_with_its_split(void **state)
{
    (void)state;
    set_paces(0, 0);
    open_job(job("checkpoint.dir=ck", "train.steps=1000", NULL, NULL), NULL);
    gw_sim_at(cluster.sim, 8000000, stop, NULL);
    finish();
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_int_equal(cluster.splits, 2);
    uint32_t weight[4];
    memcpy(weight, cluster.split[1].weight, sizeof weight);
    uint64_t at = cluster.final.checkpoint;
    cluster_end(&cluster);
    open_job(job("checkpoint.dir=ck", "train.steps=1000", NULL, NULL), "ck");
    finish();
    assert_int_equal(cluster.final.status, GW_OK);
    assert_int_equal(cluster.splits, 1);
    assert_int_equal(cluster.split[0].step, at);
    assert_memory_equal(cluster.split[0].weight, weight, sizeof weight);
    cluster_end(&cluster);
    /* with another number of workers it begins evenly */
    open_job(
        job("checkpoint.dir=ck", "train.steps=1002", "cluster.workers=2", NULL),
        "ck");
    finish();
    assert_int_equal(cluster.final.status, GW_OK);
    assert_int_equal(cluster.split[0].weight[0], GW_SPLIT_TOTAL / 2);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_worker_gets_less),
        cmocka_unit_test(who_is_always_late_gets_less),
        cmocka_unit_test(steps_that_cost_more_than_samples),
        cmocka_unit_test(a_slow_line_is_made_up_for),
        cmocka_unit_test(equal_workers_stay_even),
        cmocka_unit_test(nobody_is_left_without_samples),
        cmocka_unit_test(repeated_splits_give_the_same_bits),
        cmocka_unit_test(many_changes_give_the_same_bits),
        cmocka_unit_test(cut_links_change_nothing),
        cmocka_unit_test(storms_are_repeated_in_peace),
        cmocka_unit_test(stopped_and_repeated),
        cmocka_unit_test(a_resumed_job_goes_on_with_its_split),
    };
    int failed = cmocka_run_group_tests_name("split", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
