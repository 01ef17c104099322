/*
 * Keys that have no gradient in a step, in simulation: a trainer over
 * worker/trainer/rank.h leaves keys out, on some ranks and on all, with and
 * without their samples. The weights are those of AdamW and LAMB as
 * PyTorch steps a parameter, which is left alone without a gradient; written
 * down once more in fp64.
 *
 * The loss of a sample is half the squared distance of all weights to a target
 * of the rank, so the gradient of n samples is n (w - target).
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "worker/trainer/rank.h"

#define LIMIT_US 600000000
#define SEEDS    300

enum {
    RANKS = 4,
    KEYS = 4,
    BIG = 20000, /* two chunks, of two shards */
    STEPS = 24,
    SAMPLES = 8, /* of a rank in a step */
    EMPTY = 7,   /* this step has no weight, where programs give it */
    ROUND = 4
};

static const struct gw_key keys[KEYS] = {
    {.name = "always", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {60}},
    {.name = "often", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {BIG}},
    {.name = "seldom", .dtype = GW_DTYPE_F32, .dims = 2, .shape = {5, 7}},
    {.name = "never", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {9}},
};

enum part {
    HAS, /* a gradient */
    COUNTS /* none, and its samples count */,
    LEFT /* none, and they do not */
};

/* A rank's part of a key in a step. Of "seldom" most steps have nobody's. */
static enum part part_of(uint64_t step, size_t key, uint32_t rank)
{
    uint64_t draw = (step * 2654435761u + key * 40503u + rank * 977u) >> 3;
    if (key == 0)
        return HAS;
    if (key == 3 || (key == 2 && step % 5 != 2))
        return draw % 2 ? COUNTS : LEFT;
    return (enum part)(draw % 3);
}

static double first_weight(size_t key, size_t i)
{
    return (double)((i + 3 * key) % 7) / 4;
}

static double target(size_t key, size_t i, uint32_t rank)
{
    return (double)((7 * key + 3 * i + 5 * rank) % 16) / 8 - 1;
}

/* ---- the trainer ---- */

static struct cluster cluster;

static void make_gradient(struct gw_rank *rank, size_t key)
{
    const float *w = gw_rank_weights(rank)[key];
    float *g = gw_rank_gradients(rank)[key];
    uint32_t number = gw_rank_number(rank);
    float scale = (float)gw_rank_loss_scale(rank) * SAMPLES;
    for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
        g[i] = scale * (w[i] - (float)target(key, i, number));
}

/* A key that is left out has rubbish in its place. */
static void spoil_gradient(struct gw_rank *rank, size_t key)
{
    float *g = gw_rank_gradients(rank)[key];
    for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
        g[i] = NAN;
}

static int is_empty(const struct gw_config *config, uint64_t step)
{
    return gw_config_is_external(config) && step == EMPTY;
}

static enum gw_status train(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = GW_OK;
    if (is_empty(gw_rank_config(rank), step)) {
        gw_rank_weigh(rank, 0);
        return GW_OK;
    }
    for (size_t key = KEYS; key-- > 0 && status == GW_OK;) {
        enum part part = part_of(step, key, gw_rank_number(rank));
        int reads = part == HAS || step % 2;
        if (reads)
            status = gw_rank_need(rank, key, 1);
        if (status == GW_OK && part == HAS)
            make_gradient(rank, key);
        else if (status == GW_OK && reads)
            spoil_gradient(rank, key);
        if (status == GW_OK)
            status = part == HAS ? gw_rank_ready(rank, key, 1)
                                 : gw_rank_skip(rank, key, 1, part == COUNTS);
    }
    gw_rank_computed(rank, 1000);
    return status;
}

static enum gw_status prepare(struct gw_rank *rank)
{
    const struct gw_rank_declaration declaration = {
        .key = keys, .keys = KEYS, .flop = 1000};
    uint64_t all = (uint64_t)RANKS * SAMPLES;
    enum gw_status status = gw_config_is_external(gw_rank_config(rank))
                                ? gw_rank_own_data(rank, all, 0)
                                : gw_rank_data(rank, all, 0, NULL);
    if (status == GW_OK)
        status = gw_rank_declare(rank, &declaration);
    if (status == GW_OK && gw_rank_makes_weights(rank))
        for (size_t key = 0; key < KEYS; key++)
            for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
                gw_rank_weights(rank)[key][i] = (float)first_weight(key, i);
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
    status = prepare(rank);
    if (status != GW_OK) {
        gw_rank_fail(rank, status);
        gw_rank_close(rank);
        return status;
    }
    while (gw_rank_begin(rank, &step) == GW_OK)
        gw_rank_end(rank, train(rank, step.number), &sum);
    status = gw_rank_finish(rank);
    gw_rank_close(rank);
    return status;
}

/* ---- the same in fp64 ---- */

#define LR    0.05
#define DECAY 0.1
#define BETA1 0.9
#define BETA2 0.99
#define EPS   1e-6

static int is_lamb;

/* A key of one optimizer. */
struct plain {
    double w[BIG], m[BIG], v[BIG];
    uint64_t updates;
};

static struct plain server[KEYS], inner[RANKS][KEYS]; /* large */
static double mean[KEYS][BIG];

/* AdamW; LAMB (You et al. 2019) has a ratio for the whole key. */
static void
step_key(struct plain *plain, size_t n, const double *g, double scale)
{
    static double u[BIG];
    double t = (double)++plain->updates, w_square = 0, u_square = 0, ratio = 1;
    for (size_t i = 0; i < n; i++) {
        double x = scale * g[i];
        plain->m[i] = BETA1 * plain->m[i] + (1 - BETA1) * x;
        plain->v[i] = BETA2 * plain->v[i] + (1 - BETA2) * x * x;
        double step = plain->m[i] / (1 - pow(BETA1, t));
        double size = sqrt(plain->v[i] / (1 - pow(BETA2, t))) + EPS;
        u[i] = DECAY * plain->w[i] + step / size;
        w_square += plain->w[i] * plain->w[i];
        u_square += u[i] * u[i];
    }
    if (is_lamb && w_square > 0 && u_square > 0)
        ratio = sqrt(w_square / u_square);
    for (size_t i = 0; i < n; i++)
        plain->w[i] -= LR * ratio * u[i];
}

static void plain_begin(void)
{
    memset(server, 0, sizeof server);
    memset(inner, 0, sizeof inner);
    for (size_t key = 0; key < KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
            server[key].w[i] = first_weight(key, i);
}

/* The mean gradient of a key; 0: nobody has one. */
static int mean_of(uint64_t step, size_t key)
{
    unsigned have = 0, divide = 0;
    size_t n = gw_key_elems(&keys[key]);
    memset(mean[key], 0, sizeof mean[key]);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        enum part part = part_of(step, key, rank);
        divide += part != LEFT;
        have += part == HAS;
        for (size_t i = 0; i < n && part == HAS; i++)
            mean[key][i] += server[key].w[i] - target(key, i, rank);
    }
    for (size_t i = 0; i < n && have; i++)
        mean[key][i] /= divide;
    return have > 0;
}

/* A step of all ranks; clip = 0: nothing is clipped. */
static void plain_step(uint64_t step, double clip)
{
    double square = 0, scale = 1;
    int has[KEYS];
    for (size_t key = 0; key < KEYS; key++) {
        has[key] = mean_of(step, key);
        for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
            square += mean[key][i] * mean[key][i];
    }
    if (clip > 0)
        scale = fmin(1, clip / (sqrt(square) + 1e-6));
    for (size_t key = 0; key < KEYS; key++)
        if (has[key])
            step_key(&server[key], gw_key_elems(&keys[key]), mean[key], scale);
}

/* A rank's steps of one round, on one key. */
static enum part plain_own(uint64_t first, size_t key, uint32_t rank)
{
    struct plain *own = &inner[rank][key];
    size_t n = gw_key_elems(&keys[key]);
    enum part whole = LEFT;
    memcpy(own->w, server[key].w, sizeof own->w);
    for (uint64_t step = first; step < first + ROUND; step++) {
        enum part part = part_of(step, key, rank);
        whole = part < whole ? part : whole;
        if (part != HAS)
            continue;
        for (size_t i = 0; i < n; i++)
            mean[key][i] = own->w[i] - target(key, i, rank);
        step_key(own, n, mean[key], 1);
    }
    return whole;
}

/* The servers take the mean of the ways. */
static void plain_round(uint64_t first)
{
    for (size_t key = 0; key < KEYS; key++) {
        unsigned have = 0, divide = 0;
        static double way[BIG];
        memset(way, 0, sizeof way);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            enum part part = plain_own(first, key, rank);
            have += part == HAS;
            divide += part != LEFT;
            for (size_t i = 0; i < BIG; i++)
                way[i] += server[key].w[i] - inner[rank][key].w[i];
        }
        for (size_t i = 0; i < BIG && have; i++)
            server[key].w[i] -= way[i] / divide;
    }
}

/* ---- jobs ---- */

#define COMMON                                                                 \
    "cluster.workers=4", "train.batch=8", "train.steps=24",                    \
        "optimizer.kind=adamw", "optimizer.lr=0.05",                           \
        "optimizer.weight_decay=0.1", "optimizer.beta2=0.99",                  \
        "optimizer.eps=1e-6"
/* The program gives weights, and the job has no data. */
#define EXTERNAL                                                               \
    COMMON, "model.kind=external", "model.layers=", "data.train=",             \
        "data.test=", "data.normalize=", "train.batch=0"

static const struct gw_sim_options lines = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

static void assert_plain(const char *name)
{
    const struct gw_map *map = cluster.server[0].server->map;
    static char arena[4 * BIG * sizeof(float)];
    double far = 0;
    assert_true(map->arena_bytes <= sizeof arena);
    assert_true(map->chunks > KEYS);
    cluster_gather(&cluster, arena);
    for (size_t key = 0; key < KEYS; key++) {
        const float *w = (float *)(void *)(arena + map->key_offset[key]);
        for (size_t i = 0; i < gw_key_elems(&keys[key]); i++) {
            double off = fabs((double)w[i] - server[key].w[i]);
            far = off > far ? off : far;
            if (!(off <= 1e-4))
                fail_msg("%s: %s[%zu] is %g, not %g", name, keys[key].name, i,
                         (double)w[i], server[key].w[i]);
        }
    }
    print_message("# %s: within %.1e\n", name, far);
    assert_float_equal(server[3].w[1], first_weight(3, 1), 0);
}

/* What servers hold of each chunk's updates. */
static void assert_counted(void)
{
    for (size_t s = 0; s < cluster.servers; s++) {
        const struct gw_shard *shard = cluster.server[s].server->shard;
        for (uint32_t i = 0; i < shard->chunks; i++) {
            const struct gw_shard_chunk *chunk = &shard->chunk[i];
            uint32_t key = shard->map->chunk[chunk->global].key;
            assert_int_equal(chunk->updates, STEPS);
            assert_int_equal(gw_shard_changes(chunk), server[key].updates);
        }
    }
}

static const struct row {
    const char *name;
    const char *settings[18];
    const char *houses;
    double clip;
    int own; /* rounds of the workers' own */
    int lamb;
} rows[] = {
    {.name = "streaming", .settings = {COMMON}},
    {.name = "whole", .settings = {COMMON, "train.commit=whole"}},
    {.name = "clip", .settings = {COMMON, "train.clip=20"}, .clip = 20},
    {.name = "loss scale", .settings = {COMMON, "train.loss_scale=dynamic"}},
    {.name = "lamb", .settings = {COMMON, "optimizer.kind=lamb"}, .lamb = 1},
    {.name = "sums of hosts",
     .settings = {COMMON, "cluster.local_reduction=on"},
     .houses = "aabb"},
    {.name = "sums and clip",
     .settings = {COMMON, "cluster.local_reduction=on", "train.clip=20"},
     .houses = "aabb",
     .clip = 20},
    {.name = "external", .settings = {EXTERNAL}},
    {.name = "external, clip",
     .settings = {EXTERNAL, "train.clip=20"},
     .clip = 20},
    {.name = "quorum of all",
     .settings = {COMMON, "cluster.policy=\"backup:0\""}},
    {.name = "local",
     .settings = {COMMON, "cluster.policy=\"local:4\""},
     .own = 1},
    {.name = "local, whole",
     .settings = {COMMON, "cluster.policy=\"local:4\"", "train.commit=whole"},
     .own = 1},
};

static void keys_without_a_gradient_are_left_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        plain_begin();
        is_lamb = row->lamb;
        cluster.houses = row->houses;
        cluster.work = work;
        cluster_open(&cluster, &lines, row->settings, NULL);
        for (uint64_t step = 0; step < STEPS; step += row->own ? ROUND : 1)
            if (row->own)
                plain_round(step);
            else if (!is_empty(&cluster.config, step))
                plain_step(step, row->clip);
        cluster_finish(&cluster, LIMIT_US);
        assert_plain(row->name);
        if (!row->own)
            assert_counted();
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
}

/* ---- checkpoints ---- */

static int is_midway(void *owner)
{
    const struct gw_shard *shard =
        ((struct cluster *)owner)->server[0].server->shard;
    return shard && shard->chunks > 0 && shard->chunk[0].version >= STEPS / 2;
}

static void resumes(const char *const *first, const char *const *then)
{
    char whole[65], again[65];
    cluster.work = work;
    cluster_open(&cluster, &lines, first, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, whole);
    cluster_close(&cluster);
    cluster_open(&cluster, &lines, first, NULL);
    assert_true(cluster_run_until(&cluster, is_midway, &cluster, LIMIT_US));
    cluster_stop(&cluster);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_in_range(cluster.final.checkpoint, 3, STEPS - 3);
    cluster_end(&cluster);
    cluster_open(&cluster, &lines, then, "ck");
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, again);
    assert_string_equal(again, whole);
    cluster_close(&cluster);
}

/* On another number of servers, to the same bits: bias corrections go on. */
static void skipped_updates_survive_checkpoints(void **state)
{
    const char *const setting = *state;
    const char *const two[] = {COMMON, "checkpoint.dir=ck", "cluster.servers=2",
                               setting, NULL};
    const char *const three[] = {COMMON, "checkpoint.dir=ck",
                                 "cluster.servers=3", setting, NULL};
    resumes(two, three);
    resumes(three, two);
}

/* ---- weather ---- */

static const char *const happened[SWEEP_COUNTS] = {STORM_HAPPENED};
static struct storm_calm calm;
static const char *const *stormy;

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options weather;
    storm_begin(&storm, seed, &weather);
    cluster_open(&cluster, &weather, stormy, NULL);
    storm_blow(&storm, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome))
        storm_came_to(&cluster, &calm, outcome);
    storm_count(&storm, outcome);
    cluster_close(&cluster);
}

static void same_bits_in_every_weather(void **state)
{
    const struct row *row = *state;
    const char *settings[20] = {0};
    memcpy(settings, row->settings, sizeof row->settings);
    size_t n = 0;
    while (settings[n])
        n++;
    settings[n] = "train.steps=10";
    stormy = settings;
    cluster.work = work;
    cluster.houses = row->houses;
    cluster_open(&cluster, &lines, stormy, NULL);
    storm_stay_calm(&cluster, LIMIT_US, &calm);
    sweep_all(row->name, SEEDS, one, happened);
    cluster.houses = NULL;
}

#define WEATHER(i)                                                             \
    {                                                                          \
        "same_bits_in_every_weather/" #i, same_bits_in_every_weather, NULL,    \
            NULL, (void *)(uintptr_t)&rows[i]                                  \
    }
#define CHECKPOINT(setting)                                                    \
    {                                                                          \
        "skipped_updates_survive_checkpoints/" setting,                        \
            skipped_updates_survive_checkpoints, NULL, NULL,                   \
            (void *)(uintptr_t)setting                                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_without_a_gradient_are_left_alone),
        CHECKPOINT("train.commit=streaming"),
        CHECKPOINT("train.commit=whole"),
        CHECKPOINT("cluster.policy=\"local:4\""),
        WEATHER(0),
        WEATHER(6),
        WEATHER(8),
        WEATHER(10),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("skip", tests, NULL, NULL);
}
