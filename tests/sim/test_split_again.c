/*
 * train.split_from, in simulation: a run whose splits are repeated has the same
 * bits, whatever happens to it.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "server/checkpoint/store.h"
#include "proto/split.h"
#include "tests/sim/paces.h"

/* As cli/record.c does it, with other lines between. */
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
    paces_open(settings, NULL);
    paces_finish();
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
    paces_set(0.2, 0);
    run_to_end(paces_job(policy, NULL, NULL, NULL), measured);
    assert_true(cluster.splits > 1);
    write_record("run.json");
    uint64_t changes = cluster.splits;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        paces_set(0.2, 10000);
        pace[1].sample_us = 3000;
        be_near(i % 2);
        run_to_end(
            paces_job(policy, "train.split_from=run.json", others[i], NULL),
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
        assert_int_equal(gw_sim_create(&paces_calm, &cluster.sim, &error),
                         GW_OK);
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
        paces_set(0.2, 0);
        run_to_end(
            paces_job(policies[p], "train.split_from=changes.json", NULL, NULL),
            first);
        assert_int_equal(cluster.splits, 20);
        for (uint64_t step = 0; step < cluster.steps; step++) {
            const uint64_t *samples = cluster.split_samples[step];
            assert_int_equal(samples[0] + samples[1] + samples[2] + samples[3],
                             PACES_SAMPLES);
        }
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            run_to_end(paces_job(policies[p], "train.split_from=changes.json",
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
    paces_set(0.2, 0);
    run_to_end(paces_job(NULL, NULL, NULL, NULL), measured);
    write_record("run.json");
    paces_open(paces_job("train.split_from=run.json", NULL, NULL, NULL), NULL);
    for (uint64_t i = 1; i <= 60; i++)
        gw_sim_at(cluster.sim, i * 70000, cut, NULL);
    paces_finish();
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
        struct gw_sim_options weather = paces_calm;
        weather.seed = seed;
        paces_world = &weather;
        paces_set(0.3, 0);
        be_near(seed % 8 < 4);
        paces_open(
            paces_job(policy, "train.steps=60", "optimizer.lr=0.01", NULL),
            NULL);
        for (uint64_t i = 1; i <= 40; i++) {
            gw_sim_at(cluster.sim, i * 130000, cut, NULL);
            gw_sim_at(cluster.sim, i * 330000, pause_one, NULL);
        }
        paces_finish();
        if (cluster.final.status != GW_OK)
            fail_msg("seed %u: %s", (unsigned)seed, cluster.text);
        for (uint64_t step = 0; step < 60; step++) {
            const uint64_t *samples = cluster.split_samples[step];
            assert_int_equal(samples[0] + samples[1] + samples[2] + samples[3],
                             PACES_SAMPLES);
        }
        changes += cluster.splits - 1;
        shown += cluster_at_servers(&cluster, GW_METRIC_PUSHES_SHOWN);
        cluster_digest(&cluster, measured);
        cluster_end(&cluster);
        be_near(0);
        write_record("run.json");
        run_to_end(paces_job(policy, "train.steps=60", "optimizer.lr=0.01",
                             "train.split_from=run.json"),
                   repeated);
        if (strcmp(measured, repeated) != 0)
            fail_msg("seed %u: other bits", (unsigned)seed);
        cluster_close(&cluster);
        paces_world = &paces_calm;
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
    paces_set(0.2, 0);
    run_to_end(paces_job(NULL, NULL, NULL, NULL), measured);
    write_record("run.json");
    for (uint64_t ms = 100; ms < 2400; ms += 150) {
        char name[16], dir[32];
        snprintf(name, sizeof name, "ck%u", (unsigned)ms);
        snprintf(dir, sizeof dir, "checkpoint.dir=%s", name);
        const char *const *settings = paces_job(
            "train.split_from=run.json", dir, "checkpoint.every=never", NULL);
        be_near(ms % 300 == 100);
        paces_open(settings, NULL);
        gw_sim_at(cluster.sim, ms * 1000, stop, NULL);
        paces_finish();
        assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
        uint64_t at = cluster.final.checkpoint;
        cluster_end(&cluster);
        paces_open(settings, name);
        paces_finish();
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

/* The split that was in force, also where it is measured anew. */
static void a_resumed_job_goes_on_with_its_split(void **state)
{
    (void)state;
    paces_set(0, 0);
    paces_open(paces_job("checkpoint.dir=ck", "train.steps=1000", NULL, NULL),
               NULL);
    gw_sim_at(cluster.sim, 8000000, stop, NULL);
    paces_finish();
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_int_equal(cluster.splits, 2);
    uint32_t weight[4];
    memcpy(weight, cluster.split[1].weight, sizeof weight);
    uint64_t at = cluster.final.checkpoint;
    cluster_end(&cluster);
    paces_open(paces_job("checkpoint.dir=ck", "train.steps=1000", NULL, NULL),
               "ck");
    paces_finish();
    assert_int_equal(cluster.final.status, GW_OK);
    assert_int_equal(cluster.splits, 1);
    assert_int_equal(cluster.split[0].step, at);
    assert_memory_equal(cluster.split[0].weight, weight, sizeof weight);
    cluster_end(&cluster);
    /* with another number of workers it begins evenly */
    paces_open(paces_job("checkpoint.dir=ck", "train.steps=1002",
                         "cluster.workers=2", NULL),
               "ck");
    paces_finish();
    assert_int_equal(cluster.final.status, GW_OK);
    assert_int_equal(cluster.split[0].weight[0], GW_SPLIT_TOTAL / 2);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_splits_give_the_same_bits),
        cmocka_unit_test(many_changes_give_the_same_bits),
        cmocka_unit_test(cut_links_change_nothing),
        cmocka_unit_test(storms_are_repeated_in_peace),
        cmocka_unit_test(stopped_and_repeated),
        cmocka_unit_test(a_resumed_job_goes_on_with_its_split),
    };
    int failed = cmocka_run_group_tests_name("split_again", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
