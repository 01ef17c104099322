/*
 * A model of as many keys as there may be, with names as long as they may be,
 * goes through the coordinator to those that need it, and the job begins; it is
 * trained, saved, and goes on from its checkpoint.
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

#include "proto/map.h"
#include "tests/fuzz/council.h"
#include "tests/sim/cluster.h"
#include "worker/trainer/rank.h"

#define LIMIT_US 600000000

static struct gw_key *make_keys(void)
{
    struct gw_key *keys = calloc(GW_KEYS_MAX, sizeof *keys);
    assert_non_null(keys);
    for (uint32_t i = 0; i < GW_KEYS_MAX; i++) {
        keys[i].dtype = GW_DTYPE_F32;
        keys[i].dims = 1;
        keys[i].shape[0] = 3;
        memset(keys[i].name, 'k', GW_KEY_NAME_MAX - 1);
        keys[i].name[snprintf(keys[i].name, GW_KEY_NAME_MAX, "%u", i)] = '.';
    }
    return keys;
}

static void so_many_keys_as_a_model_may_have(void **state)
{
    struct gw_key *keys = make_keys();
    (void)state;
    struct council *council = council_open_with(NULL, keys, GW_KEYS_MAX);
    assert_non_null(council);
    assert_true(council->running);
    assert_int_equal(council->member[COUNCIL_SHARD].keys, GW_KEYS_MAX);
    for (unsigned i = 0; i < COUNCIL_MEMBERS; i++)
        assert_int_equal(council->member[i].down, 0);
    council_close(council);
    free(keys);
}

/* ---- a job ---- */

static struct cluster cluster;
static struct gw_key *all;

/* Every third key has no gradient. */
static enum gw_status train(struct gw_rank *rank)
{
    enum gw_status status = gw_rank_need(rank, 0, GW_KEYS_MAX);
    for (size_t key = 0; status == GW_OK && key < GW_KEYS_MAX; key++) {
        float *g = gw_rank_gradients(rank)[key];
        for (int i = 0; i < 3; i++)
            g[i] = gw_rank_weights(rank)[key][i] - (float)(key % 8);
        status = key % 3 ? gw_rank_ready(rank, key, 1)
                         : gw_rank_skip(rank, key, 1, 1);
    }
    return status;
}

static enum gw_status work(const struct gw_worker_options *options,
                           struct gw_error *error)
{
    const struct gw_rank_options open = {.client = options->client,
                                         .local = options->local,
                                         .opened = options->opened,
                                         .owner = options->owner};
    const struct gw_rank_declaration declaration = {.key = all,
                                                    .keys = GW_KEYS_MAX};
    const struct gw_rank_sum sum = {0};
    struct gw_rank_step step;
    struct gw_rank *rank;
    enum gw_status status = gw_rank_open(&open, &rank, error);
    if (status != GW_OK)
        return status;
    status = gw_rank_data(rank, 2, 0, NULL);
    if (status == GW_OK)
        status = gw_rank_declare(rank, &declaration);
    if (status == GW_OK)
        status = gw_rank_start(rank);
    gw_rank_fail(rank, status);
    while (status == GW_OK && gw_rank_begin(rank, &step) == GW_OK)
        gw_rank_end(rank, train(rank), &sum);
    if (status == GW_OK)
        status = gw_rank_finish(rank);
    gw_rank_close(rank);
    return status;
}

static void run(const char *const *settings, const char *resume, char hex[65])
{
    const struct gw_sim_options lines = {
        .seed = 1, .latency_us = 50, .bytes_per_us = 1000};
    cluster.work = work;
    cluster_open(&cluster, &lines, settings, resume);
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    if (cluster.final.status != GW_OK)
        fail_msg("%s", cluster.text);
    cluster_digest(&cluster, hex);
}

#define JOB                                                                    \
    "cluster.workers=2", "train.batch=1", "optimizer.kind=momentum",           \
        "cluster.silence=60", "log.every=100"

static void a_job_of_so_many_keys(void **state)
{
    static const char *const whole[] = {JOB, "train.steps=2", NULL};
    static const char *const half[] = {JOB, "train.steps=1",
                                       "checkpoint.dir=ck", NULL};
    static const char *const rest[] = {
        JOB, "train.steps=2", "checkpoint.dir=ck", "cluster.servers=3", NULL};
    char hex[65], again[65];
    (void)state;
    all = make_keys();
    run(whole, NULL, hex);
    cluster_close(&cluster);
    run(half, NULL, again);
    cluster_end(&cluster);
    run(rest, "ck", again);
    assert_string_equal(hex, again);
    cluster_close(&cluster);
    free(all);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_keys_as_a_model_may_have),
        cmocka_unit_test(a_job_of_so_many_keys),
    };
    return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
