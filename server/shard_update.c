/* The arithmetic of a shard: pushes into the next weights of a chunk. */
#include "config.h"

#include "server/shard.h"

#include <assert.h>
#include <string.h>

static const float *
values_of(const struct gw_shard *shard, uint32_t rank, uint32_t index)
{
    return gw_source_values(&gw_shard_slot(shard, rank, index)->source);
}

/* NULL for a rank that had no samples, or does not count in this clock. */
static const float *const *values(struct gw_shard *shard, uint32_t index)
{
    for (uint32_t rank = 0; rank < shard->ranks; rank++)
        shard->sources[rank] = gw_shard_slot(shard, rank, index)->held
                                   ? values_of(shard, rank, index)
                                   : NULL;
    return shard->sources;
}

static size_t block_elems(const struct gw_shard_chunk *chunk, size_t at)
{
    size_t left = chunk->stored - at;
    return left < GW_BLOCK_ELEMS ? left : GW_BLOCK_ELEMS;
}

/* So many of a chunk go through memory at once: 16 MiB of all ranks. */
static size_t slice_elems(const struct gw_shard *shard)
{
    size_t elems = ((size_t)4 << 20) / shard->ranks;
    return elems > GW_BLOCK_ELEMS ? elems / GW_BLOCK_ELEMS * GW_BLOCK_ELEMS
                                  : GW_BLOCK_ELEMS;
}

/* "none" makes the scaled sum of the pushes the next weights. */
static const struct gw_optimizer *optimizer_of(const struct gw_shard *shard,
                                               uint32_t index)
{
    return shard->chunk[index].mean ? gw_optimizer_find("none")
                                    : shard->optimizer;
}

static void states_at(const struct gw_shard *shard,
                      size_t place,
                      float *states[GW_STATE_MAX])
{
    for (unsigned s = 0; s < shard->optimizer->states; s++)
        states[s] = shard->state[s] + place;
}

enum gw_status gw_shard_update(struct gw_shard *shard,
                               uint32_t index,
                               const struct gw_update *update)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    const float *const *from = values(shard, index);
    size_t slice = slice_elems(shard);
    float *states[GW_STATE_MAX];
    int finite = 1;
    assert(chunk->held == shard->ranks);
    for (size_t at = 0; at < chunk->stored; at += slice) {
        size_t left = chunk->stored - at, place = chunk->first + at;
        states_at(shard, place, states);
        finite &= gw_update_reduce_apply(
            optimizer_of(shard, index), update, from, shard->ranks, at,
            left < slice ? left : slice, shard->weights[chunk->current] + place,
            shard->weights[!chunk->current] + place, states);
        if (left > slice)
            shard->breathe(shard->breather);
    }
    gw_shard_new_weights(chunk);
    gw_shard_next_version(shard, index, 1);
    return finite ? GW_OK : GW_ENONFINITE;
}

enum gw_status gw_shard_update_each(struct gw_shard *shard,
                                    uint32_t rank,
                                    uint32_t index,
                                    const struct gw_update *update)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    const float *push = values_of(shard, rank, index);
    float *states[GW_STATE_MAX];
    states_at(shard, chunk->first, states);
    int finite = gw_update_reduce_apply(
        optimizer_of(shard, index), update, &push, 1, 0, chunk->stored,
        gw_shard_weights_of(shard, chunk),
        shard->weights[!chunk->current] + chunk->first, states);
    gw_shard_new_weights(chunk);
    gw_shard_pass(shard, rank, index);
    return finite ? GW_OK : GW_ENONFINITE;
}

enum gw_status
gw_shard_update_delayed(struct gw_shard *shard,
                        uint32_t rank,
                        uint32_t index,
                        const struct gw_compensation *compensation,
                        const struct gw_update *update)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    const float *push = values_of(shard, rank, index);
    float *next = shard->weights[!chunk->current];
    float *states[GW_STATE_MAX], gradient[GW_BLOCK_ELEMS];
    int finite = 1;
    for (size_t at = 0; at < chunk->stored; at += GW_BLOCK_ELEMS) {
        size_t elems = block_elems(chunk, at), place = chunk->first + at;
        const float *w = shard->weights[chunk->current] + place;
        states_at(shard, place, states);
        finite &= gw_compensate(
            compensation, elems, push + at, w, shard->given[rank] + place,
            shard->squares ? shard->squares[rank] + place : NULL, gradient);
        gw_update_apply(shard->optimizer, update, elems, gradient, w,
                        next + place, states);
    }
    gw_shard_new_weights(chunk);
    gw_shard_pass(shard, rank, index);
    return finite ? GW_OK : GW_ENONFINITE;
}

enum gw_status gw_shard_update_elastic(struct gw_shard *shard,
                                       uint32_t rank,
                                       uint32_t index,
                                       double alpha)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    size_t first = chunk->first;
    int finite =
        gw_elastic(alpha, chunk->stored, values_of(shard, rank, index),
                   gw_shard_weights_of(shard, chunk), shard->own[rank] + first,
                   shard->weights[!chunk->current] + first);
    gw_shard_new_weights(chunk);
    gw_shard_pass(shard, rank, index);
    return finite ? GW_OK : GW_ENONFINITE;
}

enum gw_status gw_shard_gather(struct gw_shard *shard,
                               uint32_t rank,
                               uint32_t index,
                               double lr)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    const struct gw_shard_slot *slot = gw_shard_slot(shard, rank, index);
    float *sum = shard->reduced + chunk->first;
    if (chunk->group == 0) {
        memset(sum, 0, chunk->stored * sizeof *sum);
        chunk->group_samples = 0;
        chunk->group_lr = 0;
        chunk->group_bytes = 0;
    }
    int finite = slot->source.absent ||
                 gw_add_weighted((double)slot->source.weight, chunk->stored,
                                 gw_source_values(&slot->source), sum);
    chunk->group++;
    chunk->group_bytes |= !slot->source.absent;
    chunk->group_samples += slot->uncounted ? 0 : slot->samples;
    chunk->group_lr += slot->uncounted ? 0 : lr;
    gw_shard_pass(shard, rank, index);
    return finite ? GW_OK : GW_ENONFINITE;
}

void gw_shard_update_group(struct gw_shard *shard,
                           uint32_t index,
                           const struct gw_update *update)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    float *states[GW_STATE_MAX];
    assert(chunk->group > 0);
    chunk->group = 0;
    if (!chunk->group_bytes) {
        gw_shard_old_weights(chunk);
        return;
    }
    states_at(shard, chunk->first, states);
    gw_update_apply(optimizer_of(shard, index), update, chunk->stored,
                    shard->reduced + chunk->first,
                    gw_shard_weights_of(shard, chunk),
                    shard->weights[!chunk->current] + chunk->first, states);
    gw_shard_new_weights(chunk);
}

int gw_shard_reduce(struct gw_shard *shard, uint32_t index)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    const float *const *from = values(shard, index);
    size_t slice = slice_elems(shard);
    int finite = 1;
    chunk->square_sum = 0;
    for (size_t at = 0; at < chunk->stored; at += GW_BLOCK_ELEMS) {
        size_t elems = block_elems(chunk, at);
        float *sum = shard->reduced + chunk->first + at;
        finite &= gw_reduce_block(from, shard->ranks, at, elems, sum);
        chunk->square_sum += gw_square_sum(sum, elems);
        if (at > 0 && at % slice == 0)
            shard->breathe(shard->breather);
    }
    chunk->reduced = 1;
    shard->chunks_reduced++;
    return finite;
}

void gw_shard_square(struct gw_shard *shard, uint32_t index)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    chunk->square_sum = 0;
    if (!gw_shard_has_gradient(shard, index))
        return;
    for (size_t at = 0; at < chunk->stored; at += GW_BLOCK_ELEMS)
        chunk->square_sum += gw_square_sum(shard->reduced + chunk->first + at,
                                           block_elems(chunk, at));
}

void gw_shard_direction(struct gw_shard *shard,
                        uint32_t index,
                        const struct gw_update *update,
                        double square_sums[2])
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    float *states[GW_STATE_MAX];
    square_sums[0] = square_sums[1] = 0;
    for (size_t at = 0; at < chunk->stored; at += GW_BLOCK_ELEMS) {
        size_t elems = block_elems(chunk, at), place = chunk->first + at;
        const float *w = shard->weights[chunk->current] + place;
        states_at(shard, place, states);
        gw_update_direction(shard->optimizer, update, elems,
                            shard->reduced + place, w, states);
        square_sums[0] += gw_square_sum(w, elems);
        square_sums[1] += gw_square_sum(shard->reduced + place, elems);
    }
}

void gw_shard_apply(struct gw_shard *shard,
                    uint32_t index,
                    const struct gw_update *update)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    float *states[GW_STATE_MAX];
    assert(chunk->reduced);
    states_at(shard, chunk->first, states);
    gw_update_apply(optimizer_of(shard, index), update, chunk->stored,
                    shard->reduced + chunk->first,
                    gw_shard_weights_of(shard, chunk),
                    shard->weights[!chunk->current] + chunk->first, states);
    gw_shard_new_weights(chunk);
    gw_shard_next_version(shard, index, 1);
}

int gw_shard_is_nonfinite(const struct gw_shard *shard,
                          uint32_t rank,
                          uint32_t index)
{
    const struct gw_shard_slot *slot = gw_shard_slot(shard, rank, index);
    if (slot->summed)
        return slot->nonfinite;
    return !gw_source_is_finite(&slot->source, shard->chunk[index].stored);
}
