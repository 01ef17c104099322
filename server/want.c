#include "config.h"

#include "server/want.h"

#include <stdlib.h>

enum gw_status gw_wants_create(const struct gw_map *map,
                               uint32_t shard,
                               uint32_t ranks,
                               void *owner,
                               struct gw_wants **wants_p,
                               struct gw_error *error)
{
    struct gw_wants *wants = calloc(1, sizeof *wants);
    if (!wants)
        return gw_fail(error, GW_ENOMEM, "no memory for wants");
    wants->map = map;
    wants->shard = shard;
    wants->ranks = ranks;
    wants->chunks = map->shard_chunks[shard];
    wants->slot =
        calloc((size_t)wants->chunks * ranks + 1, sizeof *wants->slot);
    if (!wants->slot) {
        free(wants);
        return gw_fail(error, GW_ENOMEM, "no memory for wants");
    }
    for (uint32_t chunk = 0; chunk < wants->chunks; chunk++)
        for (uint32_t rank = 0; rank < ranks; rank++) {
            struct gw_want_slot *slot = gw_wants_slot(wants, rank, chunk);
            slot->rank = rank;
            slot->chunk = chunk;
            slot->owner = owner;
        }
    *wants_p = wants;
    return GW_OK;
}

void gw_wants_destroy(struct gw_wants *wants)
{
    if (!wants)
        return;
    free(wants->slot);
    free(wants);
}

struct gw_want_slot *
gw_wants_slot(struct gw_wants *wants, uint32_t rank, uint32_t chunk)
{
    return &wants->slot[(size_t)chunk * wants->ranks + rank];
}

/* The first of this shard's chunks at or behind a chunk of the map. */
static uint32_t first_local(const struct gw_wants *wants, uint32_t global)
{
    const uint32_t *chunk = wants->map->shard_chunk[wants->shard];
    uint32_t low = 0, high = wants->chunks;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (chunk[middle] < global)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum gw_status
gw_wants_post(struct gw_wants *wants,
              uint32_t rank,
              unsigned link,
              unsigned links,
              const struct gw_want *want,
              uint64_t decision,
              void (*opened)(void *owner, uint32_t rank, uint32_t chunk),
              void *owner)
{
    const struct gw_map *map = wants->map;
    if (want->chunk >= map->chunks || want->count > map->chunks - want->chunk)
        return GW_EPROTO;
    uint64_t base = map->chunk[want->chunk].arena_offset;
    enum gw_encoding encoding = (enum gw_encoding)want->encoding;
    for (uint32_t local = first_local(wants, want->chunk);
         local < wants->chunks; local++) {
        uint32_t global = map->shard_chunk[wants->shard][local];
        if (global - want->chunk >= want->count)
            break;
        if (global % links != link ||
            (want->of && global % want->of != want->nth))
            continue;
        struct gw_want_slot *slot = gw_wants_slot(wants, rank, local);
        slot->want = *want;
        slot->want.chunk = global;
        slot->want.count = 1;
        slot->want.offset +=
            gw_encoded_size(encoding, map->chunk[global].arena_offset - base);
        slot->decision = decision;
        slot->open = 1;
        opened(owner, rank, local);
    }
    return GW_OK;
}
