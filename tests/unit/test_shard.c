/*
 * A shard alone: sums in tree order whatever came first, each push once, the
 * version before left whole, and memory as the formula says.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/bf16.h"
#include "proto/random.h"
#include "server/shard.h"

#define RANKS 5

struct bench {
    struct gw_map *map;
    struct gw_shard *shard;
    struct gw_update update;
};

static void
open_bench(struct bench *bench, const char *optimizer, unsigned arrays)
{
    const struct gw_key keys[] = {
        {.name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {40000}},
        {.name = "b", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {7}}};
    struct gw_error error = {.text = ""};
    assert_int_equal(gw_map_create(keys, 2, 1, &bench->map, &error), GW_OK);
    assert_int_equal(gw_shard_create(bench->map, 0, RANKS, arrays,
                                     gw_optimizer_find(optimizer),
                                     &bench->shard, &error),
                     GW_OK);
    bench->update = (struct gw_update){.scale = 0.125f,
                                       .lr = 1,
                                       .momentum = 0.9,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999,
                                       .eps = 1e-8,
                                       .t = 1,
                                       .trust_ratio = 1};
    gw_update_prepare(&bench->update);
}

static void close_bench(struct bench *bench)
{
    gw_shard_destroy(bench->shard);
    gw_map_destroy(bench->map);
}

/* A gradient that rounds differently in every order of summing. */
static float gradient(uint32_t rank, uint32_t chunk, uint32_t i)
{
    uint32_t bits[4];
    gw_random4(rank, GW_RANDOM_TEST, chunk, i, bits);
    return ldexpf(gw_random_uniform(bits[0]) - 0.5f, (int)(bits[1] % 24));
}

static void seed_all(struct gw_shard *shard)
{
    for (uint32_t c = 0; c < shard->chunks; c++) {
        for (uint32_t i = 0; i < shard->chunk[c].elems; i++)
            shard->landing[0][shard->chunk[c].first + i] =
                gradient(99, c, i) / 1e6f;
        gw_shard_seed(shard, c, shard->landing[0] + shard->chunk[c].first);
    }
}

static void land(struct gw_shard *shard, uint32_t rank, uint32_t chunk)
{
    for (uint32_t i = 0; i < shard->chunk[chunk].elems; i++)
        shard->landing[rank][shard->chunk[chunk].first + i] =
            gradient(rank, chunk, i);
}

/* Sum over ranks [first, first + n) as a balanced tree. */
static float tree(uint32_t chunk, uint32_t i, uint32_t first, uint32_t n)
{
    if (n == 1)
        return gradient(first, chunk, i);
    uint32_t half = 1;
    while (2 * half < n)
        half *= 2;
    return tree(chunk, i, first, half) + tree(chunk, i, first + half, n - half);
}

static void sums_are_trees_whatever_comes_first(void **state)
{
    (void)state;
    static const uint32_t order[][RANKS] = {
        {0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}};
    for (size_t o = 0; o < sizeof order / sizeof *order; o++) {
        struct bench bench;
        open_bench(&bench, "sgd", 0);
        struct gw_shard *shard = bench.shard;
        seed_all(shard);
        for (uint32_t c = 0; c < shard->chunks; c++) {
            const struct gw_shard_chunk *chunk = &shard->chunk[c];
            for (uint32_t r = 0; r < RANKS; r++) {
                land(shard, order[o][r], c);
                assert_int_equal(gw_shard_hold(shard, order[o][r], c, 2, 0),
                                 r + 1 == RANKS);
            }
            assert_int_equal(chunk->samples, 2 * RANKS);
            assert_int_equal(gw_shard_update(shard, c, &bench.update), GW_OK);
            const float *w = gw_shard_weights(shard, c);
            for (uint32_t i = 0; i < chunk->elems; i++) {
                float before = gradient(99, c, i) / 1e6f;
                float step = tree(c, i, 0, RANKS) * 0.125f;
                assert_true(w[i] == before - step ||
                            w[i] == fmaf(-1, step, before));
            }
        }
        close_bench(&bench);
    }
}

/* The two ways to commit give the same bits. */
static void both_commits_agree(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sgd", "momentum", "nesterov", "adam",
                                        "adamw"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct bench stream, whole;
        open_bench(&stream, kinds[k], 0);
        open_bench(&whole, kinds[k], GW_SHARD_SUM);
        seed_all(stream.shard);
        seed_all(whole.shard);
        for (uint32_t step = 0; step < 3; step++) {
            for (uint32_t c = 0; c < stream.shard->chunks; c++) {
                for (uint32_t r = 0; r < RANKS; r++) {
                    land(stream.shard, r, c);
                    land(whole.shard, r, c);
                    gw_shard_hold(stream.shard, r, c, 1, 0);
                    gw_shard_hold(whole.shard, r, c, 1, 0);
                }
                assert_int_equal(
                    gw_shard_update(stream.shard, c, &stream.update), GW_OK);
                assert_true(gw_shard_reduce(whole.shard, c));
            }
            assert_int_equal(whole.shard->chunks_reduced, whole.shard->chunks);
            for (uint32_t c = 0; c < whole.shard->chunks; c++) {
                gw_shard_apply(whole.shard, c, &whole.update);
                assert_memory_equal(gw_shard_weights(stream.shard, c),
                                    gw_shard_weights(whole.shard, c),
                                    whole.shard->chunk[c].elems *
                                        sizeof(float));
                assert_int_equal(gw_shard_crc(stream.shard, c, GW_ENCODING_RAW),
                                 gw_shard_crc(whole.shard, c, GW_ENCODING_RAW));
            }
            assert_int_equal(whole.shard->chunks_reduced, 0);
        }
        close_bench(&stream);
        close_bench(&whole);
    }
}

/* The version before stays as it was: answers of it may still be under way. */
static void the_version_before_stays_whole(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "momentum", 0);
    struct gw_shard *shard = bench.shard;
    seed_all(shard);
    size_t bytes = shard->chunk[0].elems * sizeof(float);
    float *copy = malloc(bytes);
    const float *before = gw_shard_weights(shard, 0);
    uint32_t crc = gw_shard_crc(shard, 0, GW_ENCODING_RAW);
    memcpy(copy, before, bytes);
    for (uint32_t r = 0; r < RANKS; r++) {
        land(shard, r, 0);
        gw_shard_hold(shard, r, 0, 1, 0);
    }
    assert_int_equal(gw_shard_update(shard, 0, &bench.update), GW_OK);
    assert_int_equal(shard->chunk[0].version, 1);
    assert_int_equal(shard->chunk[1].version, 0);
    assert_ptr_not_equal(gw_shard_weights(shard, 0), before);
    assert_memory_equal(before, copy, bytes);
    assert_int_not_equal(gw_shard_crc(shard, 0, GW_ENCODING_RAW), crc);
    free(copy);
    close_bench(&bench);
}

static void assert_rounds(const uint16_t *bf16, const float *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t rounded;
        gw_bf16_round(1, w + i, &rounded);
        assert_int_equal(bf16[i], rounded);
    }
}

static void hold_all(struct gw_shard *shard)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        land(shard, r, 0);
        gw_shard_hold(shard, r, 0, 1, 0);
    }
}

/* A version and the one before, as they were given out. */
static void
assert_given(struct gw_shard *shard, const float *before, const float *current)
{
    uint64_t version = shard->chunk[0].version;
    size_t n = shard->chunk[0].elems, bytes = n * sizeof(float);
    assert_memory_equal(
        gw_shard_exact(shard, 1, 0, version - 1, GW_ENCODING_RAW), before,
        bytes);
    assert_memory_equal(gw_shard_exact(shard, 1, 0, version, GW_ENCODING_RAW),
                        current, bytes);
    assert_rounds(gw_shard_exact(shard, 1, 0, version - 1, GW_ENCODING_BF16),
                  before, n);
}

/* A skipped version has the bits of the one before it. */
static void the_version_before_is_given_exactly(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "momentum", 0);
    struct gw_shard *shard = bench.shard;
    seed_all(shard);
    size_t bytes = shard->chunk[0].elems * sizeof(float);
    float *copy[3];
    for (size_t i = 0; i < 3; i++) {
        copy[i] = malloc(bytes);
        memcpy(copy[i], gw_shard_weights(shard, 0), bytes);
        hold_all(shard);
        assert_int_equal(gw_shard_update(shard, 0, &bench.update), GW_OK);
        assert_given(shard, copy[i], gw_shard_weights(shard, 0));
    }
    memcpy(copy[0], gw_shard_weights(shard, 0), bytes);
    hold_all(shard);
    gw_shard_skip(shard, 0);
    assert_given(shard, copy[0], copy[0]);
    hold_all(shard);
    assert_int_equal(gw_shard_update(shard, 0, &bench.update), GW_OK);
    assert_given(shard, copy[0], gw_shard_weights(shard, 0));
    memcpy(copy[0], gw_shard_weights(shard, 0), bytes);
    for (uint32_t r = 0; r < RANKS; r++)
        gw_shard_hold(shard, r, 0, 0, 0);
    gw_shard_skip_update(shard, 0);
    assert_given(shard, copy[0], copy[0]);
    for (size_t i = 0; i < 3; i++)
        free(copy[i]);
    close_bench(&bench);
}

/* A push that is taken back counts again when it comes again; no other does. */
static void a_push_counts_once(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "sgd", GW_SHARD_SUM);
    struct gw_shard *shard = bench.shard;
    seed_all(shard);
    gw_shard_hold(shard, 2, 0, 3, 0);
    assert_int_equal(gw_shard_unhold(shard, 1, 0), 0);
    assert_int_equal(gw_shard_unhold(shard, 2, 0), 1);
    assert_int_equal(gw_shard_unhold(shard, 2, 0), 0);
    assert_int_equal(shard->chunk[0].held, 0);
    assert_int_equal(shard->chunk[0].samples, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        land(shard, r, 0);
        gw_shard_hold(shard, r, 0, 3, 0);
    }
    assert_true(gw_shard_reduce(shard, 0));
    /* it is in the sum now: the link's break does not take it back */
    assert_int_equal(gw_shard_unhold(shard, 2, 0), 0);
    assert_int_equal(shard->chunk[0].held, RANKS);
    assert_true(gw_shard_slot(shard, 2, 0)->held);
    gw_shard_skip(shard, 0);
    assert_int_equal(shard->chunk[0].version, 1);
    assert_int_equal(shard->chunk[0].held, 0);
    assert_false(gw_shard_slot(shard, 2, 0)->held);
    close_bench(&bench);
}

/* A rank without samples adds nothing, whatever lies in its slot. */
static void empty_pushes_add_nothing(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "sgd", 0);
    struct gw_shard *shard = bench.shard;
    seed_all(shard);
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; i < shard->chunk[1].elems; i++)
            shard->landing[r][shard->chunk[1].first + i] = r == 3 ? 2 : NAN;
        gw_shard_hold(shard, r, 1, r == 3 ? 4 : 0, r != 3);
        assert_int_equal(gw_shard_is_nonfinite(shard, r, 1), 0);
    }
    float before = gw_shard_weights(shard, 1)[0];
    assert_int_equal(gw_shard_update(shard, 1, &bench.update), GW_OK);
    assert_true(gw_shard_weights(shard, 1)[0] == before - 0.25f);
    close_bench(&bench);
}

/* The sum is that of the ranks that count, as if the others had no samples; a
   mark says of each what was counted or left out. */
static void who_is_left_out_adds_nothing(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "sgd", 1);
    struct gw_shard *shard = bench.shard;
    seed_all(shard);
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; i < shard->chunk[1].elems; i++)
            shard->landing[r][shard->chunk[1].first + i] = r % 2 ? 2 : NAN;
        if (r != 4)
            gw_shard_hold(shard, r, 1, 3, 0);
    }
    gw_shard_leave_out(shard, 0, 1, 0);
    gw_shard_leave_out(shard, 2, 1, 0);
    assert_int_equal(shard->chunk[1].held, 2);
    assert_int_equal(shard->chunk[1].samples, 6);
    assert_int_equal(gw_shard_slot(shard, 0, 1)->mark, 1);
    assert_true(gw_shard_reduce(shard, 1));
    /* one that is late for a sum that is made */
    gw_shard_leave_out(shard, 4, 1, 0);
    float before = gw_shard_weights(shard, 1)[0];
    gw_shard_apply(shard, 1, &bench.update);
    assert_true(gw_shard_weights(shard, 1)[0] == before - 0.5f);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(gw_shard_slot(shard, r, 1)->mark, 1);
        assert_false(gw_shard_slot(shard, r, 1)->held);
    }
    /* who sends nothing at all keeps its mark */
    gw_shard_hold(shard, 1, 1, 3, 0);
    assert_true(gw_shard_reduce(shard, 1));
    gw_shard_apply(shard, 1, &bench.update);
    assert_int_equal(gw_shard_slot(shard, 1, 1)->mark, 2);
    assert_int_equal(gw_shard_slot(shard, 3, 1)->mark, 1);
    assert_int_equal(shard->chunk[1].least, 1);
    close_bench(&bench);
}

static void what_is_not_finite_is_found_and_named(void **state)
{
    (void)state;
    static const float poison[] = {NAN, INFINITY, -INFINITY};
    for (size_t p = 0; p < 3; p++) {
        struct bench bench;
        open_bench(&bench, "sgd", GW_SHARD_SUM);
        struct gw_shard *shard = bench.shard;
        seed_all(shard);
        for (uint32_t r = 0; r < RANKS; r++) {
            land(shard, r, 0);
            gw_shard_hold(shard, r, 0, 1, 0);
        }
        shard->landing[3][shard->chunk[0].first + shard->chunk[0].elems - 1] =
            poison[p];
        assert_false(gw_shard_reduce(shard, 0));
        for (uint32_t r = 0; r < RANKS; r++)
            assert_int_equal(gw_shard_is_nonfinite(shard, r, 0), r == 3);
        uint32_t crc = gw_shard_crc(shard, 0, GW_ENCODING_RAW);
        gw_shard_skip(shard, 0);
        assert_int_equal(gw_shard_crc(shard, 0, GW_ENCODING_RAW), crc);
        close_bench(&bench);
    }
}

/* Read where they are, the same bits: those that were shown, beside those that
   landed; and who spoils a sum is found there. */
static void what_is_shown_counts_as_what_landed(void **state)
{
    (void)state;
    struct bench landed, shown;
    open_bench(&landed, "momentum", GW_SHARD_SUM);
    open_bench(&shown, "momentum", GW_SHARD_SUM);
    struct gw_shard *shard = shown.shard;
    float *arena = calloc(shard->elems, sizeof *arena);
    seed_all(landed.shard);
    seed_all(shard);
    for (uint32_t c = 0; c < shard->chunks; c++) {
        const struct gw_shard_chunk *chunk = &shard->chunk[c];
        for (uint32_t r = 0; r < RANKS; r++) {
            struct gw_shard_slot *slot = gw_shard_slot(shard, r, c);
            land(landed.shard, r, c);
            if (r != 2)
                land(shard, r, c);
            slot->exported = r == 2;
            slot->source.at = arena + 1; /* anywhere */
            gw_shard_hold(landed.shard, r, c, 1, 0);
            gw_shard_hold(shard, r, c, 1, 0);
        }
        for (uint32_t i = 0; i < chunk->elems; i++)
            arena[1 + i] = gradient(2, c, i);
        if (c == 0) {
            assert_true(gw_shard_reduce(landed.shard, c));
            assert_true(gw_shard_reduce(shard, c));
            gw_shard_apply(landed.shard, c, &landed.update);
            gw_shard_apply(shard, c, &shown.update);
        } else {
            gw_shard_update(landed.shard, c, &landed.update);
            gw_shard_update(shard, c, &shown.update);
        }
        assert_memory_equal(gw_shard_weights(shard, c),
                            gw_shard_weights(landed.shard, c),
                            chunk->elems * sizeof(float));
        arena[chunk->elems] = NAN;
        assert_true(gw_shard_is_nonfinite(shard, 2, c));
        assert_false(gw_shard_is_nonfinite(shard, 1, c));
    }
    /* under another policy nobody looks there any more */
    gw_shard_renumber(shard, 1);
    assert_false(gw_shard_is_nonfinite(shard, 2, 0));
    free(arena);
    close_bench(&landed);
    close_bench(&shown);
}

/* As bf16: of the version that there is, with a checksum of its own; a copy
   that others do not change; and what was given is what the rank has. */
static void weights_are_given_as_bf16(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "sgd", GW_SHARD_BF16 | GW_SHARD_GIVEN);
    struct gw_shard *shard = bench.shard;
    uint32_t n = shard->chunk[0].elems;
    uint32_t crc[2];
    seed_all(shard);
    assert_true(gw_shard_encodes(shard, GW_ENCODING_BF16));
    for (uint32_t step = 0; step < 2; step++) {
        const float *w = gw_shard_weights(shard, 0);
        const uint16_t *bf16 = gw_shard_encoded(shard, 0, GW_ENCODING_BF16);
        assert_ptr_equal(gw_shard_encoded(shard, 0, GW_ENCODING_RAW), w);
        assert_rounds(bf16, w, n);
        crc[step] = gw_shard_crc(shard, 0, GW_ENCODING_BF16);
        assert_int_equal(crc[step], gw_crc32c(0, bf16, n * sizeof *bf16));
        assert_int_equal(gw_shard_crc(shard, 0, GW_ENCODING_RAW),
                         gw_crc32c(0, w, n * sizeof *w));
        const uint16_t *copy = gw_shard_give(shard, 3, 0, GW_ENCODING_BF16);
        assert_ptr_not_equal(copy, bf16);
        assert_memory_equal(copy, bf16, n * sizeof *bf16);
        for (uint32_t i = 0; i < n; i++) {
            float wide;
            gw_bf16_widen(1, copy + i, &wide);
            assert_true(shard->given[3][shard->chunk[0].first + i] == wide);
        }
        for (uint32_t r = 0; r < RANKS; r++) {
            land(shard, r, 0);
            gw_shard_hold(shard, r, 0, 1, 0);
        }
        assert_int_equal(gw_shard_update(shard, 0, &bench.update), GW_OK);
    }
    assert_int_not_equal(crc[0], crc[1]);
    close_bench(&bench);
    open_bench(&bench, "sgd", 0);
    assert_false(gw_shard_encodes(bench.shard, GW_ENCODING_BF16));
    close_bench(&bench);
}

/* Two weights, the states, a slot per rank, the sum where it is kept, what is
   kept for each rank, and half an array as bf16. */
static void memory_is_what_the_formula_says(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        size_t states;
    } rows[] = {{"sgd", 0}, {"momentum", 1}, {"adam", 2}};
    for (size_t i = 0; i < 3; i++) {
        for (unsigned which = 0; which < 16; which++) {
            struct bench bench;
            unsigned kept = which < 8 ? which : GW_SHARD_BF16 | (which & 7);
            open_bench(&bench, rows[i].kind, kept);
            size_t arrays = 2 + rows[i].states + RANKS + (which & 1) +
                            RANKS * (which >> 1 & 1) + RANKS * (which >> 2 & 1);
            size_t least = arrays * bench.map->shard_bytes[0] +
                           (which >> 3) * bench.map->shard_bytes[0] / 2;
            assert_true(bench.shard->memory_bytes >= least);
            assert_true(bench.shard->memory_bytes <=
                        least + (arrays + 1) * 8192);
            assert_int_equal(bench.shard->memory_bytes,
                             gw_shard_bytes(bench.map, 0, RANKS, kept,
                                            bench.shard->optimizer));
            close_bench(&bench);
        }
    }
}

/* From one policy to the next: what both need goes on, another optimizer begins
   with nothing, and what a rank has of its own begins with the weights. */
static void arrays_follow_the_policy(void **state)
{
    (void)state;
    struct bench bench;
    struct gw_error error;
    open_bench(&bench, "momentum", 0);
    struct gw_shard *shard = bench.shard;
    const struct gw_optimizer *momentum = gw_optimizer_find("momentum");
    const struct gw_optimizer *adam = gw_optimizer_find("adam");
    size_t first = shard->chunk[1].first;
    for (uint32_t i = 0; i < shard->chunks; i++) {
        shard->chunk[i].ready = 1;
        shard->chunk[i].updates = 7;
    }
    shard->chunk[1].current = 1;
    shard->weights[1][first] = 3;
    shard->state[0][first] = 2;
    assert_int_equal(
        gw_shard_keep(shard, GW_SHARD_OWN | GW_SHARD_SUM, momentum, &error),
        GW_OK);
    assert_true(shard->state[0][first] == 2);
    assert_int_equal(shard->chunk[1].updates, 7);
    assert_true(gw_shard_weights(shard, 1)[0] == 3);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_true(shard->own[rank][first] == 3);
    shard->own[1][first] = 5;
    assert_int_equal(
        gw_shard_keep(shard, GW_SHARD_OWN | GW_SHARD_GIVEN, adam, &error),
        GW_OK);
    assert_true(shard->own[1][first] == 5 && shard->given[1][first] == 3);
    assert_true(shard->state[0][first] == 0 && shard->state[1][first] == 0);
    assert_int_equal(shard->chunk[1].updates, 0);
    assert_null(shard->reduced);
    assert_int_equal(gw_shard_keep(shard, 0, momentum, &error), GW_OK);
    assert_true(!shard->own && !shard->given && !shard->state[1]);
    assert_int_equal(shard->memory_bytes,
                     gw_shard_bytes(bench.map, 0, RANKS, 0, momentum));
    close_bench(&bench);
}

/* What has its weights already has copies of them, the rest when it gets some.
 */
static void copies_begin_with_what_there_is(void **state)
{
    (void)state;
    struct bench bench;
    struct gw_error error;
    open_bench(&bench, "sgd", 0);
    struct gw_shard *shard = bench.shard;
    const size_t first[] = {shard->chunk[0].first, shard->chunk[1].first};
    shard->landing[0][first[0]] = 5;
    shard->landing[0][first[1]] = 7;
    gw_shard_seed(shard, 1, shard->landing[0] + first[1]);
    assert_int_equal(
        gw_shard_keep(shard, GW_SHARD_OWN, shard->optimizer, &error), GW_OK);
    assert_true(shard->own[2][first[1]] == 7 && shard->own[2][first[0]] == 0);
    gw_shard_seed(shard, 0, shard->landing[0] + first[0]);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_true(shard->own[rank][first[0]] == 5 &&
                    shard->own[rank][first[1]] == 7);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_trees_whatever_comes_first),
        cmocka_unit_test(both_commits_agree),
        cmocka_unit_test(the_version_before_stays_whole),
        cmocka_unit_test(the_version_before_is_given_exactly),
        cmocka_unit_test(a_push_counts_once),
        cmocka_unit_test(empty_pushes_add_nothing),
        cmocka_unit_test(who_is_left_out_adds_nothing),
        cmocka_unit_test(what_is_not_finite_is_found_and_named),
        cmocka_unit_test(what_is_shown_counts_as_what_landed),
        cmocka_unit_test(weights_are_given_as_bf16),
        cmocka_unit_test(memory_is_what_the_formula_says),
        cmocka_unit_test(arrays_follow_the_policy),
        cmocka_unit_test(copies_begin_with_what_there_is),
    };
    return cmocka_run_group_tests_name("shard", tests, NULL, NULL);
}
