/*
 * Trainers with an optimizer of their own under policies with steps of the
 * ranks' own, in simulation: what they push are weights. With plain SGD for
 * that optimizer a job has the bits of the same job whose ranks step by the
 * library's, in all policies, through skipped keys, steps without samples,
 * checkpoints and changes of policy.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/update.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "worker/trainer/rank.h"

#define LIMIT_US 600000000
#define LR       0.07

enum {
    RANKS = 3,
    KEYS = 4,
    BIG = 20000, /* two chunks, of two shards */
    SAMPLES = 6, /* of a rank in a step */
    EMPTY = 9,   /* rank 1 has none in this step */
    POLICY = 12  /* the place of cluster.policy in a row */
};

static const struct gw_key keys[KEYS] = {
    {.name = "one", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {60}},
    {.name = "two", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {BIG}},
    {.name = "three", .dtype = GW_DTYPE_F32, .dims = 2, .shape = {5, 7}},
    {.name = "four", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {9}},
};

static struct cluster cluster;
static int is_own;
static unsigned owned;

/* ---- the trainer ---- */

static float target(size_t key, size_t i, uint32_t rank)
{
    return (float)((7 * key + 3 * i + 5 * rank) % 16) / 7 - 1;
}

static int is_skipped(uint64_t step, size_t key, uint32_t rank)
{
    return key == 2 ? step % 5 > 1 : key == 3 && (step + rank) % 3 == 0;
}

static void make_gradient(struct gw_rank *rank, size_t key)
{
    const float *w = gw_rank_weights(rank)[key];
    float *g = gw_rank_gradients(rank)[key];
    for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
        g[i] = SAMPLES * (w[i] - target(key, i, gw_rank_number(rank)));
}

/* The gradient's place gets the weights after a step of plain SGD. */
static void take_step(struct gw_rank *rank, size_t key)
{
    float *g = gw_rank_gradients(rank)[key];
    struct gw_update update = {.scale = (float)(1 / (double)SAMPLES),
                               .lr = LR,
                               .t = 1,
                               .trust_ratio = 1};
    gw_update_prepare(&update);
    gw_update_apply(gw_optimizer_find("sgd"), &update, gw_key_elems(&keys[key]),
                    g, gw_rank_weights(rank)[key], g, NULL);
}

static enum gw_status
train_key(struct gw_rank *rank, const struct gw_rank_step *step, size_t key)
{
    uint32_t number = gw_rank_number(rank);
    if (is_skipped(step->number, key, number))
        return gw_rank_skip(rank, key, 1, number % 2);
    make_gradient(rank, key);
    if (step->own)
        take_step(rank, key);
    return gw_rank_ready(rank, key, 1);
}

static enum gw_status train(struct gw_rank *rank,
                            const struct gw_rank_step *step)
{
    enum gw_status status = gw_rank_need(rank, 0, KEYS);
    owned += step->own != 0;
    gw_rank_weigh(rank, SAMPLES);
    if (step->number == EMPTY && gw_rank_number(rank) == 1)
        gw_rank_weigh(rank, 0);
    gw_rank_computed(rank, 1000);
    if (step->number == EMPTY && gw_rank_number(rank) == 1)
        return status;
    for (size_t key = KEYS; key-- > 0 && status == GW_OK;)
        status = train_key(rank, step, key);
    return status;
}

static enum gw_status prepare(struct gw_rank *rank)
{
    const struct gw_rank_declaration declaration = {
        .key = keys, .keys = KEYS, .own_steps = is_own, .flop = 1000};
    enum gw_status status =
        gw_rank_own_data(rank, (uint64_t)RANKS * SAMPLES, 0);
    if (status == GW_OK)
        status = gw_rank_declare(rank, &declaration);
    for (size_t key = 0;
         status == GW_OK && gw_rank_makes_weights(rank) && key < KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
            gw_rank_weights(rank)[key][i] = (float)((i + key) % 5);
    return status == GW_OK ? gw_rank_start(rank) : status;
}

static enum gw_status work(const struct gw_worker_options *options,
                           struct gw_error *error)
{
    const struct gw_rank_options open = {.client = options->client,
                                         .local = options->local,
                                         .opened = options->opened,
                                         .owner = options->owner};
    const struct gw_rank_sum sum = {0};
    struct gw_rank_step step;
    struct gw_rank *rank;
    enum gw_status status = gw_rank_open(&open, &rank, error);
    if (status != GW_OK)
        return status;
    status = gw_rank_fail(rank, prepare(rank));
    while (status == GW_OK && gw_rank_begin(rank, &step) == GW_OK)
        gw_rank_end(rank, train(rank, &step), &sum);
    if (status == GW_OK)
        status = gw_rank_finish(rank);
    gw_rank_close(rank);
    return status;
}

/* ---- jobs ---- */

#define COMMON                                                                 \
    "cluster.workers=3", "model.kind=external", "model.layers=",               \
        "data.train=", "data.test=", "data.normalize=", "train.batch=0",       \
        "train.steps=24", "checkpoint.dir=ck", "checkpoint.every=8 steps",     \
        "optimizer.kind=sgd", "optimizer.lr=0.07"

static const struct gw_sim_options lines = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

static const struct row {
    const char *settings[20];
    int owns; /* all 24 steps of 3 ranks; else some */
} rows[] = {
    {{COMMON, "cluster.policy=\"local:4\""}, 1},
    {{COMMON, "cluster.policy=\"local:4\"", "train.commit=whole"}, 1},
    {{COMMON, "cluster.policy=\"diloco:4\""}, 1},
    {{COMMON, "cluster.policy=\"diloco:4\"", "policy.fragments=2"}, 1},
    {{COMMON, "cluster.policy=\"diloco:4\"", "policy.fragments=2",
      "policy.overlap=2"},
     1},
    {{COMMON, "cluster.policy=\"diloco:4\"", "policy.overlap=3",
      "policy.mix=0.25"},
     1},
    {{COMMON, "cluster.policy=\"downpour:4\""}, 0},
    {{COMMON, "cluster.policy=\"easgd:4\""}, 0},
    {{COMMON, "cluster.policy=\"easgd:1\""}, 0},
    {{COMMON, "cluster.policy=\"sync until 8, local:4 until 16, diloco:2\""},
     0},
    {{COMMON, "cluster.policy=sync"}, 0},
};

static void open_job(const char *const *settings, int own, const char *resume)
{
    is_own = own;
    owned = 0;
    cluster.work = work;
    cluster_open(&cluster, &lines, settings, resume);
}

static void run(const struct row *row, int own, char hex[65])
{
    open_job(row->settings, own, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, hex);
    cluster_close(&cluster);
}

static void own_sgd_has_the_bits_of_inner_sgd(void **state)
{
    char inner[65], own[65];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run(&rows[i], 0, inner);
        assert_int_equal(owned, 0);
        run(&rows[i], 1, own);
        printf("# %s: %u own steps, %.8s %.8s\n", rows[i].settings[POLICY],
               owned, inner, own);
        assert_string_equal(own, inner);
        if (rows[i].owns)
            assert_int_equal(owned, 24 * RANKS);
        else if (!strstr(rows[i].settings[POLICY], "=sync"))
            assert_int_not_equal(owned, 0);
    }
}

/* ---- stopped and resumed ---- */

static int is_midway(void *owner)
{
    const struct gw_shard *shard =
        ((struct cluster *)owner)->server[0].server->shard;
    return shard && shard->chunks > 0 && shard->chunk[0].version >= 12;
}

static void own_steps_go_on_from_a_checkpoint(void **state)
{
    const struct row *row = *state;
    char whole[65], again[65];
    run(row, 1, whole);
    open_job(row->settings, 1, NULL);
    assert_true(cluster_run_until(&cluster, is_midway, &cluster, LIMIT_US));
    cluster_stop(&cluster);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_in_range(cluster.final.checkpoint, 1, 23);
    cluster_end(&cluster);
    open_job(row->settings, 1, "ck");
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, again);
    cluster_close(&cluster);
    assert_string_equal(again, whole);
}

/* ---- settings without effect ---- */

static void an_inner_optimizer_is_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"policy.inner=adam", "policy.inner: the trainer takes its steps"},
        {"policy.inner_clip=1", "policy.inner_clip: the trainer takes its"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *const settings[] = {COMMON, "cluster.policy=\"local:4\"",
                                        wrong[i][0], NULL};
        open_job(settings, 1, NULL);
        assert_true(cluster_run(&cluster, LIMIT_US));
        if (!strstr(cluster.text, wrong[i][1]))
            fail_msg("\"%s\" does not say \"%s\"", cluster.text, wrong[i][1]);
        cluster_close(&cluster);
    }
}

#define RESUMED(i)                                                             \
    {                                                                          \
        "own_steps_go_on_from_a_checkpoint/" #i,                               \
            own_steps_go_on_from_a_checkpoint, NULL, NULL,                     \
            (void *)(uintptr_t)&rows[i]                                        \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_sgd_has_the_bits_of_inner_sgd),
        RESUMED(0),
        RESUMED(4),
        cmocka_unit_test(an_inner_optimizer_is_refused),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("own_steps", tests, NULL, NULL);
}
