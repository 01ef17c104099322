/*
 * train.nonfinite = pass: a job whose gradients overflow goes on to its end
 * under every commit, with weights that are not finite; and nothing of it ends
 * a member.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "worker/trainer/rank.h"

#define LIMIT_US 600000000

enum {
    ELEMS = 40000, /* of two shards */
    SAMPLES = 10
};

static const struct gw_key key = {
    .name = "w", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {ELEMS}};

static struct cluster cluster;

/* ---- a trainer whose rank 1 overflows in its third step ---- */

static enum gw_status train(struct gw_rank *rank,
                            const struct gw_rank_step *step,
                            struct gw_rank_sum *sum)
{
    enum gw_status status = gw_rank_need(rank, 0, 1);
    const float *w = gw_rank_weights(rank)[0];
    float *g = gw_rank_gradients(rank)[0];
    float scale = (float)gw_rank_loss_scale(rank) * (float)step->run.n;
    sum->loss = (double)(w[0] * w[0]);
    if (status != GW_OK || step->task == GW_RANK_SCORE)
        return status;
    for (size_t i = 0; i < ELEMS; i++)
        g[i] = scale * (w[i] - 1);
    if (step->number == 2 && gw_rank_number(rank) == 1)
        g[0] = g[ELEMS - 1] = INFINITY;
    gw_rank_computed(rank, 1000);
    return gw_rank_ready(rank, 0, 1);
}

static enum gw_status prepare(struct gw_rank *rank)
{
    const struct gw_rank_declaration declaration = {
        .key = &key, .keys = 1, .flop = 1000};
    enum gw_status status = gw_rank_data(rank, 300, 30, NULL);
    if (status == GW_OK)
        status = gw_rank_declare(rank, &declaration);
    return status == GW_OK ? gw_rank_start(rank) : status;
}

static enum gw_status work(const struct gw_worker_options *options,
                           struct gw_error *error)
{
    const struct gw_rank_options open = {.client = options->client,
                                         .local = options->local,
                                         .opened = options->opened,
                                         .owner = options->owner};
    struct gw_rank_step step;
    struct gw_rank *rank;
    enum gw_status status = gw_rank_open(&open, &rank, error);
    if (status != GW_OK)
        return status;
    status = gw_rank_fail(rank, prepare(rank));
    while (status == GW_OK && gw_rank_begin(rank, &step) == GW_OK) {
        struct gw_rank_sum sum = {0};
        gw_rank_end(rank, train(rank, &step, &sum), &sum);
    }
    if (status == GW_OK)
        status = gw_rank_finish(rank);
    gw_rank_close(rank);
    return status;
}

/* ---- jobs ---- */

static const struct gw_sim_options lines = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

#define COMMON                                                                 \
    "train.nonfinite=pass", "optimizer.lr=0.05", "train.eval_every=4 steps",   \
        "checkpoint.dir=ck"

static const struct row {
    const char *name;
    const char *settings[10];
    const char *houses;
} rows[] = {
    {"streaming", {COMMON}, NULL},
    {"bf16", {COMMON, "train.weights=bf16"}, NULL},
    {"whole and clip", {COMMON, "train.clip=1e9"}, NULL},
    {"loss scale", {COMMON, "train.loss_scale=1024"}, NULL},
    {"lamb", {COMMON, "optimizer.kind=lamb"}, NULL},
    {"sums of hosts", {COMMON, "cluster.local_reduction=on"}, "aab"},
    {"sums and clip",
     {COMMON, "cluster.local_reduction=on", "train.clip=1e9"},
     "aab"},
    {"backup", {COMMON, "cluster.policy=\"backup:1\""}, NULL},
    {"async", {COMMON, "cluster.policy=async"}, NULL},
    {"ssp", {COMMON, "cluster.policy=\"ssp:2\""}, NULL},
    {"stale-lr", {COMMON, "cluster.policy=\"stale-lr:1\""}, NULL},
    {"dc-async", {COMMON, "cluster.policy=dc-async"}, NULL},
    {"easgd", {COMMON, "cluster.policy=\"easgd:2\""}, NULL},
    {"downpour", {COMMON, "cluster.policy=\"downpour:2\""}, NULL},
    {"local", {COMMON, "cluster.policy=\"local:2\""}, NULL},
    {"diloco", {COMMON, "cluster.policy=\"diloco:2\""}, NULL},
};

static int is_spoilt(void)
{
    for (size_t s = 0; s < cluster.servers; s++) {
        const struct gw_shard *shard = cluster.server[s].server->shard;
        for (uint32_t i = 0; i < shard->chunks; i++)
            for (uint32_t at = 0; at < shard->chunk[i].elems; at++)
                if (!isfinite(gw_shard_weights(shard, i)[at]))
                    return 1;
    }
    return 0;
}

static void overflows_go_through_to_the_weights(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cluster.work = work;
        cluster.houses = rows[i].houses;
        cluster_open(&cluster, &lines, rows[i].settings, NULL);
        if (!cluster_run(&cluster, LIMIT_US))
            fail_msg("%s: the job does not end: %s", rows[i].name,
                     cluster.note);
        if (cluster.final.status != GW_OK)
            fail_msg("%s: %s", rows[i].name, cluster.text);
        if (!is_spoilt())
            fail_msg("%s: the weights are finite", rows[i].name);
        assert_int_equal(cluster.scores > 0, 1);
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overflows_go_through_to_the_weights),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("pass", tests, NULL, NULL);
}
