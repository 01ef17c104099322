#include "config.h"

#include "server/shard.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/update/bf16.h"
#include "proto/wire.h"

/* The tables beside the arrays. */
static int take_tables(struct gw_shard *shard)
{
    size_t slots = (size_t)shard->ranks * shard->chunks + 1;
    shard->chunk = calloc(shard->chunks + 1, sizeof *shard->chunk);
    shard->slot = calloc(slots, sizeof *shard->slot);
    shard->sources = calloc(shard->ranks, sizeof *shard->sources);
    return shard->chunk && shard->slot && shard->sources;
}

static void lay_out(struct gw_shard *shard)
{
    for (uint32_t i = 0; i < shard->chunks; i++) {
        uint32_t global = shard->map->shard_chunk[shard->number][i];
        const struct gw_chunk *chunk = &shard->map->chunk[global];
        const struct gw_key *key = &shard->map->key[chunk->key];
        shard->chunk[i] = (struct gw_shard_chunk){
            .mean = key->rule == GW_KEY_RULE_MEAN,
            .global = global,
            .elems = chunk->elems,
            .stored = shard->payload_free ? 0 : chunk->elems,
            .first = chunk->shard_offset / sizeof(float),
        };
    }
}

static const float *
landing_of(const struct gw_shard *shard, uint32_t rank, uint32_t index)
{
    return shard->landing[rank] + shard->chunk[index].first;
}

static void fill_slots(struct gw_shard *shard)
{
    for (uint32_t i = 0; i < shard->chunks; i++)
        for (uint32_t rank = 0; rank < shard->ranks; rank++)
            gw_shard_slot(shard, rank, i)->source = (struct gw_source){
                .at = landing_of(shard, rank, i),
                .weight = 1,
                .encoding = GW_ENCODING_RAW,
            };
}

static void hold_breath(void *breather)
{
    (void)breather;
}

enum gw_status gw_shard_create(const struct gw_map *map,
                               uint32_t number,
                               uint32_t ranks,
                               unsigned arrays,
                               const struct gw_optimizer *optimizer,
                               struct gw_shard **shard_p,
                               struct gw_error *error)
{
    struct gw_shard *shard = calloc(1, sizeof *shard);
    enum gw_status status = GW_ENOMEM;
    if (!shard)
        return gw_fail(error, GW_ENOMEM, "no memory for shard %u", number);
    shard->map = map;
    shard->number = number;
    shard->ranks = ranks;
    shard->chunks = map->shard_chunks[number];
    shard->elems = map->shard_bytes[number] / sizeof(float);
    shard->payload_free = !!(arrays & GW_SHARD_PAYLOAD_FREE);
    shard->shared = arrays & GW_SHARD_SHARED && !shard->payload_free;
    shard->breathe = hold_breath;
    if (!take_tables(shard)) {
        gw_fail(error, status, "no memory for shard %u", number);
        goto fail;
    }
    lay_out(shard);
    status = gw_shard_keep(shard, arrays, optimizer, error);
    if (status != GW_OK)
        goto fail;
    fill_slots(shard);
    *shard_p = shard;
    return GW_OK;

fail:
    gw_shard_destroy(shard);
    return status;
}

void gw_shard_destroy(struct gw_shard *shard)
{
    if (!shard)
        return;
    gw_shard_drop(shard);
    free(shard->chunk);
    free(shard->slot);
    free(shard->sources);
    free(shard);
}

int gw_shard_find(const struct gw_shard *shard,
                  uint32_t global,
                  uint32_t *chunk_p)
{
    if (global >= shard->map->chunks ||
        shard->map->chunk[global].shard != shard->number)
        return 0;
    *chunk_p = shard->map->chunk[global].local;
    return 1;
}

struct gw_shard_slot *
gw_shard_slot(const struct gw_shard *shard, uint32_t rank, uint32_t chunk)
{
    return &shard->slot[(size_t)chunk * shard->ranks + rank];
}

float *gw_shard_weights_of(const struct gw_shard *shard,
                           const struct gw_shard_chunk *chunk)
{
    return shard->weights[chunk->current] + chunk->first;
}

const float *gw_shard_weights(const struct gw_shard *shard, uint32_t chunk)
{
    return shard->payload_free
               ? NULL
               : gw_shard_weights_of(shard, &shard->chunk[chunk]);
}

int gw_shard_encodes(const struct gw_shard *shard, enum gw_encoding encoding)
{
    return encoding == GW_ENCODING_RAW || shard->bf16;
}

const void *gw_shard_encoded(struct gw_shard *shard,
                             uint32_t index,
                             enum gw_encoding encoding)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    if (encoding == GW_ENCODING_RAW || shard->payload_free)
        return gw_shard_weights(shard, index);
    uint16_t *rounded = shard->bf16 + chunk->first;
    if (!chunk->rounded)
        gw_bf16_round(chunk->stored, gw_shard_weights_of(shard, chunk),
                      rounded);
    chunk->rounded = 1;
    return rounded;
}

uint32_t
gw_shard_crc(struct gw_shard *shard, uint32_t index, enum gw_encoding encoding)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    if (!chunk->crc_known[encoding]) {
        chunk->crc[encoding] =
            gw_crc32c(0, gw_shard_encoded(shard, index, encoding),
                      gw_encoded_bytes(encoding, chunk->stored));
        chunk->crc_known[encoding] = 1;
    }
    return chunk->crc[encoding];
}

/* Encodings of the last weights are not of these. */
static void forget_encoded(struct gw_shard_chunk *chunk)
{
    chunk->rounded = 0;
    memset(chunk->crc_known, 0, sizeof chunk->crc_known);
}

static uint64_t least_mark(const struct gw_shard *shard, uint32_t index)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t rank = 0; rank < shard->ranks; rank++) {
        uint64_t mark = gw_shard_slot(shard, rank, index)->mark;
        least = mark < least ? mark : least;
    }
    return least;
}

enum gw_status gw_shard_follow(struct gw_shard *shard,
                               const struct gw_rounds *rounds,
                               struct gw_error *error)
{
    const struct gw_map *map = shard->map;
    uint32_t *fragment = calloc(map->keys, sizeof *fragment);
    if (!fragment)
        return gw_fail(error, GW_ENOMEM, "no memory for %zu keys", map->keys);
    gw_rounds_divide(rounds, map->key, map->keys, fragment);
    for (uint32_t i = 0; i < shard->chunks; i++)
        shard->chunk[i].fragment =
            fragment[map->chunk[shard->chunk[i].global].key];
    shard->rounds = *rounds;
    free(fragment);
    return GW_OK;
}

void gw_shard_renumber(struct gw_shard *shard, uint64_t clock)
{
    for (uint32_t i = 0; i < shard->chunks; i++) {
        shard->chunk[i].version = clock;
        shard->chunk[i].least = shard->chunk[i].most = clock;
        for (uint32_t rank = 0; rank < shard->ranks; rank++) {
            struct gw_shard_slot *slot = gw_shard_slot(shard, rank, i);
            slot->mark = clock;
            slot->idle = 0;
            /* exported bytes may not be there any more */
            slot->exported = slot->summed = slot->nonfinite = 0;
            slot->source.at = landing_of(shard, rank, i);
        }
    }
}

void gw_shard_begin(struct gw_shard *shard,
                    const struct gw_decision_state *state,
                    const uint64_t *clocks)
{
    for (uint32_t i = 0; i < shard->chunks; i++) {
        struct gw_shard_chunk *chunk = &shard->chunk[i];
        chunk->version = state->clock;
        chunk->updates = state->applied;
        chunk->pushes = state->pushes;
        for (uint32_t rank = 0; rank < shard->ranks; rank++)
            gw_shard_slot(shard, rank, i)->mark = clocks[rank];
        chunk->least = least_mark(shard, i);
    }
}

void gw_shard_seed(struct gw_shard *shard, uint32_t index, const float *from)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    chunk->ready = 1;
    chunk->current = 0;
    forget_encoded(chunk);
    memcpy(gw_shard_weights_of(shard, chunk), from,
           chunk->stored * sizeof(float));
    for (uint32_t rank = 0; rank < shard->ranks && shard->own; rank++)
        memcpy(shard->own[rank] + chunk->first,
               gw_shard_weights_of(shard, chunk),
               chunk->stored * sizeof(float));
}

void gw_shard_loaded(struct gw_shard *shard)
{
    for (uint32_t i = 0; i < shard->chunks; i++) {
        shard->chunk[i].ready = 1;
        shard->chunk[i].current = 0;
        forget_encoded(&shard->chunk[i]);
    }
}

void gw_shard_take_copy(struct gw_shard *shard, uint32_t index)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    chunk->ready = 1;
    chunk->current = 0;
    chunk->before = 1;
    forget_encoded(chunk);
}

void gw_shard_take_sum(struct gw_shard *shard, uint32_t index)
{
    shard->chunk[index].reduced = 1;
    shard->chunks_reduced++;
}

/* As if the first rank had pushed it all. */
void gw_shard_hold_sum(struct gw_shard *shard,
                       uint32_t index,
                       uint64_t samples,
                       uint64_t uncounted,
                       int empty)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    for (uint32_t rank = 0; rank < shard->ranks; rank++) {
        struct gw_shard_slot *slot = gw_shard_slot(shard, rank, index);
        slot->held = 1;
        slot->source.absent = rank > 0 || empty;
    }
    chunk->held = shard->ranks;
    chunk->samples = samples;
    chunk->uncounted = uncounted;
    gw_shard_take_sum(shard, index);
}

void gw_shard_set_age(struct gw_shard *shard,
                      uint32_t index,
                      const struct gw_shard_age *age)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    chunk->version = age->version;
    chunk->updates = age->updates;
    chunk->skipped = age->skipped;
    chunk->pushes = age->pushes;
    for (uint32_t rank = 0; rank < shard->ranks; rank++)
        gw_shard_slot(shard, rank, index)->mark = age->version;
    chunk->least = age->version;
}

/* Samples of a slot that do not count. */
static uint64_t uncounted_of(const struct gw_shard_slot *slot)
{
    return slot->uncounted ? slot->samples : 0;
}

int gw_shard_hold(struct gw_shard *shard,
                  uint32_t rank,
                  uint32_t index,
                  uint32_t samples,
                  int empty)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    struct gw_shard_slot *slot = gw_shard_slot(shard, rank, index);
    assert(!slot->held);
    slot->held = 1;
    slot->landed = 0;
    slot->samples = samples;
    slot->source.absent = empty != 0;
    if (!slot->exported)
        slot->source.at = landing_of(shard, rank, index);
    chunk->samples += samples;
    chunk->uncounted += uncounted_of(slot);
    chunk->held++;
    return chunk->held == shard->ranks;
}

int gw_shard_unhold(struct gw_shard *shard, uint32_t rank, uint32_t index)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    struct gw_shard_slot *slot = gw_shard_slot(shard, rank, index);
    slot->landed = 0;
    if (!slot->held || chunk->reduced)
        return 0;
    slot->held = 0;
    chunk->samples -= slot->samples;
    chunk->uncounted -= uncounted_of(slot);
    chunk->held--;
    return 1;
}

void gw_shard_leave_out(struct gw_shard *shard,
                        uint32_t rank,
                        uint32_t index,
                        uint64_t clock)
{
    gw_shard_unhold(shard, rank, index);
    gw_shard_slot(shard, rank, index)->mark = clock + 1;
}

void gw_shard_new_weights(struct gw_shard_chunk *chunk)
{
    chunk->before = chunk->current;
    chunk->current = !chunk->current;
    forget_encoded(chunk);
    chunk->updates++;
}

void gw_shard_old_weights(struct gw_shard_chunk *chunk)
{
    chunk->before = chunk->current;
    chunk->updates++;
    chunk->skipped++;
}

uint64_t gw_shard_changes(const struct gw_shard_chunk *chunk)
{
    return chunk->updates - chunk->skipped;
}

uint64_t gw_shard_divisor(const struct gw_shard_chunk *chunk)
{
    return chunk->samples - chunk->uncounted;
}

void gw_shard_next_version(struct gw_shard *shard, uint32_t index, int applied)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    uint64_t next =
        gw_rounds_next(&shard->rounds, chunk->fragment, chunk->version);
    uint64_t steps = next - chunk->version;
    chunk->version = next;
    for (uint32_t rank = 0; rank < shard->ranks; rank++) {
        struct gw_shard_slot *slot = gw_shard_slot(shard, rank, index);
        if (slot->held)
            slot->mark = chunk->version;
        slot->held = 0;
    }
    chunk->least = least_mark(shard, index);
    if (applied)
        chunk->pushes += steps * shard->ranks;
    if (chunk->reduced)
        shard->chunks_reduced--;
    chunk->reduced = 0;
    chunk->held = 0;
    chunk->samples = chunk->uncounted = 0;
}

void gw_shard_pass(struct gw_shard *shard, uint32_t rank, uint32_t index)
{
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    struct gw_shard_slot *slot = gw_shard_slot(shard, rank, index);
    assert(slot->held);
    slot->held = 0;
    chunk->held--;
    chunk->samples -= slot->samples;
    chunk->uncounted -= uncounted_of(slot);
    uint64_t steps =
        gw_rounds_next(&shard->rounds, chunk->fragment, slot->mark) -
        slot->mark;
    int was_least = slot->mark == chunk->least;
    chunk->version += steps;
    chunk->pushes += steps;
    slot->mark += steps;
    if (slot->samples > 0)
        slot->idle = 0;
    else if (slot->idle < GW_SHARD_IDLE)
        slot->idle++;
    if (slot->samples > 0 && slot->mark > chunk->most)
        chunk->most = slot->mark;
    if (was_least)
        chunk->least = least_mark(shard, index);
}

void gw_shard_skip(struct gw_shard *shard, uint32_t index)
{
    shard->chunk[index].before = shard->chunk[index].current;
    gw_shard_next_version(shard, index, 0);
}

int gw_shard_has_gradient(const struct gw_shard *shard, uint32_t index)
{
    for (uint32_t rank = 0; rank < shard->ranks; rank++) {
        const struct gw_shard_slot *slot = gw_shard_slot(shard, rank, index);
        if (slot->held && !slot->source.absent)
            return 1;
    }
    return 0;
}

void gw_shard_skip_update(struct gw_shard *shard, uint32_t index)
{
    gw_shard_old_weights(&shard->chunk[index]);
    gw_shard_next_version(shard, index, 1);
}

void gw_shard_skip_push(struct gw_shard *shard, uint32_t rank, uint32_t index)
{
    gw_shard_old_weights(&shard->chunk[index]);
    gw_shard_pass(shard, rank, index);
}

/* The copy goes into the landing slot. `given` takes fp32 of our own bf16,
   since others may write to the slot. */
static const void *
give_bf16(struct gw_shard *shard, uint32_t rank, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &shard->chunk[index];
    uint16_t *copy = (uint16_t *)(void *)(shard->landing[rank] + chunk->first);
    if (!shard->given) {
        gw_bf16_round(chunk->stored, gw_shard_weights_of(shard, chunk), copy);
        return copy;
    }
    const uint16_t *own = gw_shard_encoded(shard, index, GW_ENCODING_BF16);
    memcpy(copy, own, chunk->stored * sizeof *copy);
    gw_bf16_widen(chunk->stored, own, shard->given[rank] + chunk->first);
    return copy;
}

const void *gw_shard_exact(struct gw_shard *shard,
                           uint32_t rank,
                           uint32_t index,
                           uint64_t version,
                           enum gw_encoding encoding)
{
    const struct gw_shard_chunk *chunk = &shard->chunk[index];
    assert(version == chunk->version || version + 1 == chunk->version);
    if (shard->payload_free)
        return NULL;
    if (version == chunk->version)
        return gw_shard_encoded(shard, index, encoding);
    const float *before = shard->weights[chunk->before] + chunk->first;
    if (encoding == GW_ENCODING_RAW)
        return before;
    uint16_t *copy = (void *)(shard->landing[rank] + chunk->first);
    gw_bf16_round(chunk->stored, before, copy);
    return copy;
}

const void *gw_shard_give(struct gw_shard *shard,
                          uint32_t rank,
                          uint32_t index,
                          enum gw_encoding encoding)
{
    const struct gw_shard_chunk *chunk = &shard->chunk[index];
    float *const *copies = shard->given ? shard->given : shard->landing;
    gw_shard_slot(shard, rank, index)->given = gw_shard_changes(chunk);
    if (shard->payload_free)
        return NULL;
    if (shard->own)
        return shard->own[rank] + chunk->first;
    if (encoding == GW_ENCODING_BF16)
        return give_bf16(shard, rank, index);
    float *copy = copies[rank] + chunk->first;
    memcpy(copy, gw_shard_weights_of(shard, chunk),
           chunk->stored * sizeof *copy);
    return copy;
}
