#include "config.h"

#include "tests/sim/grouped.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/server_state.h"

struct grouped grouped;

/* Gradients of a program that does not need its keys. */
static float apart[GROUPED_RANKS][GROUPED_KEYS][GROUPED_ELEMS];
static struct gw_rank_tensor tensors[GROUPED_RANKS][GROUPED_KEYS];

const struct gw_sim_options grouped_lines = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

const struct gw_key grouped_keys[GROUPED_KEYS] = {
    {.name = "embedding", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {60}},
    {.name = "body",
     .dtype = GW_DTYPE_F32,
     .dims = 1,
     .group = 1,
     .shape = {GROUPED_ELEMS}},
    {.name = "running_mean",
     .dtype = GW_DTYPE_F32,
     .dims = 1,
     .rule = GW_KEY_RULE_MEAN,
     .group = 2,
     .shape = {35}},
    {.name = "bias", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {9}},
    {.name = "running_var",
     .dtype = GW_DTYPE_F32,
     .dims = 1,
     .rule = GW_KEY_RULE_MEAN,
     .group = 2,
     .shape = {18000}},
};

int grouped_is_value(size_t key)
{
    return grouped_keys[key].group == 2;
}

double grouped_first(size_t key, size_t i)
{
    return (double)((i + 3 * key) % 7) / 4;
}

double grouped_target(size_t key, size_t i, uint32_t rank)
{
    return (double)((7 * key + 3 * i + 5 * rank) % 16) / 8 - 1;
}

/* A few binary digits: sums of many, times powers of two, are exact. */
double grouped_slope(size_t key, size_t i, uint32_t rank)
{
    return grouped_target(key, i, rank);
}

/* Sums of these, and their quotients by 8, are exact in fp32. */
double grouped_value(size_t key, size_t i, uint32_t rank, uint64_t step)
{
    return (double)step + 32 * (double)rank + (double)((i + key) % 8) / 4;
}

static void fill(struct gw_rank *rank, size_t key, uint64_t step)
{
    const float *w = gw_rank_weights(rank)[key];
    uint32_t number = gw_rank_number(rank);
    float *to =
        grouped.blind ? apart[number][key] : gw_rank_gradients(rank)[key];
    for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
        double x = grouped_is_value(key) ? grouped_value(key, i, number, step)
                   : grouped.still
                       ? grouped_slope(key, i, number)
                       : (double)w[i] - grouped_target(key, i, number);
        to[i] = (float)(GROUPED_SAMPLES * x);
    }
    uint64_t spoilt = grouped_is_value(key) ? grouped.poisons : grouped.spoils;
    if (number == 1 && step > 0 && step == spoilt)
        to[3] = NAN;
}

static enum gw_status train(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = grouped.begun ? grouped.begun(rank, step) : GW_OK;
    if (grouped.sits_out > 0 && step == grouped.sits_out &&
        gw_rank_number(rank) == 3) {
        gw_rank_weigh(rank, 0);
        return status;
    }
    /* forward, then backward */
    if (!grouped.interleaves && !grouped.blind)
        status = status ? status : gw_rank_need(rank, 0, GROUPED_KEYS);
    size_t turned = grouped.interleaves > 0 ? grouped.interleaves - 1 : 0;
    for (size_t i = GROUPED_KEYS; i-- > 0 && status == GW_OK;) {
        size_t key = (i + turned) % GROUPED_KEYS;
        if (!grouped.blind)
            status = gw_rank_need(rank, key, 1);
        if (status != GW_OK)
            break;
        fill(rank, key, step);
        status = gw_rank_ready(rank, key, 1);
    }
    gw_rank_computed(rank, 1000);
    if (status == GW_OK && grouped.ready)
        grouped.ready(rank, step);
    return status;
}

static enum gw_status prepare(struct gw_rank *rank)
{
    uint32_t number = gw_rank_number(rank);
    const struct gw_rank_declaration declaration = {
        .key = grouped.keys[number] ? grouped.keys[number] : grouped_keys,
        .keys = GROUPED_KEYS,
        .tensor = grouped.blind ? tensors[number] : NULL,
        .optimizer = grouped.asks[number],
        .clip = grouped.clip[number],
        .flop = 1000};
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        tensors[number][key] =
            (struct gw_rank_tensor){.gradients = apart[number][key]};
    enum gw_status status =
        gw_rank_own_data(rank, (uint64_t)GROUPED_RANKS * GROUPED_SAMPLES, 0);
    if (status == GW_OK)
        status = gw_rank_declare(rank, &declaration);
    if (status == GW_OK && gw_rank_makes_weights(rank))
        for (size_t key = 0; key < GROUPED_KEYS; key++)
            for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++)
                gw_rank_weights(rank)[key][i] = (float)grouped_first(key, i);
    return status == GW_OK ? gw_rank_start(rank) : status;
}

enum gw_status grouped_work(const struct gw_worker_options *options,
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

void grouped_open(struct cluster *cluster,
                  const char *const *settings,
                  const char *resume)
{
    cluster->work = grouped_work;
    cluster_open(cluster, &grouped_lines, settings, resume);
}

void grouped_gather(const struct cluster *cluster,
                    float weights[GROUPED_KEYS][GROUPED_ELEMS])
{
    static float arena[4 * GROUPED_ELEMS];
    const struct gw_map *map = cluster->server[0].server->map;
    assert_true(map->arena_bytes <= sizeof arena);
    assert_true(map->chunks > GROUPED_KEYS);
    cluster_gather(cluster, arena);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        memcpy(weights[key], arena + map->key_offset[key] / sizeof(float),
               gw_key_elems(&grouped_keys[key]) * sizeof(float));
}
