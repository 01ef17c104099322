/*
 * The table of chunks: each is pushed, wanted or pulled, and there.
 *
 *   pushed --> (link breaks: again) --> weights of clock + 1 arrive: done
 *   wanted --> (link breaks: again) --> weights arrive in the arena
 *
 * A version's arrival acknowledges the push it was made of, so a chunk needs no
 * other acknowledgement. Changed on the loop's thread; the caller looks at
 * `have`, without the loop.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdlib.h>

struct gw_client_chunks {
    struct gw_client_chunk *chunk; /* [map->chunks] */
    uint64_t voided;               /* wants of before this decision are void */
};

enum gw_status gw_client_chunks_open(struct gw_client *client)
{
    client->chunks = calloc(1, sizeof *client->chunks);
    return client->chunks ? GW_OK : GW_ENOMEM;
}

enum gw_status gw_client_chunks_make(struct gw_client *client)
{
    struct gw_client_chunks *chunks = client->chunks;
    chunks->chunk = calloc(client->map->chunks, sizeof *chunks->chunk);
    client->chunk = chunks->chunk;
    return chunks->chunk ? GW_OK : GW_ENOMEM;
}

void gw_client_chunks_close(struct gw_client *client)
{
    if (client->chunks)
        free(client->chunks->chunk);
    free(client->chunks);
}

/* ---- out ---- */

void gw_client_chunk_pushed(struct gw_client *client,
                            uint32_t index,
                            const struct gw_pushed *pushed,
                            const struct gw_push_terms *terms)
{
    struct gw_client_chunk *chunk = &client->chunks->chunk[index];
    chunk->pushed = pushed->clock + 1;
    chunk->samples = pushed->samples;
    chunk->empty = pushed->empty != 0;
    chunk->uncounted = pushed->uncounted != 0;
    chunk->apart = terms->apart != 0;
    chunk->still = terms->still != 0;
}

void gw_client_chunk_set_via(struct gw_client *client,
                             uint32_t index,
                             enum gw_client_via via)
{
    client->chunks->chunk[index].via = (uint8_t)via;
}

void gw_client_chunk_summed(struct gw_client *client,
                            uint32_t index,
                            uint32_t samples,
                            int empty)
{
    struct gw_client_chunk *chunk = &client->chunks->chunk[index];
    chunk->samples = samples;
    chunk->empty = empty != 0;
    chunk->uncounted = 0; /* its parts tell */
}

void gw_client_chunk_set_seeding(struct gw_client *client,
                                 uint32_t index,
                                 int seeding)
{
    client->chunks->chunk[index].seeding = seeding != 0;
}

void gw_client_key_wanted(struct gw_client *client,
                          size_t key,
                          uint64_t version)
{
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++)
        client->chunks->chunk[c].want = version + 1;
}

void gw_client_all_pulled(struct gw_client *client, uint64_t name)
{
    for (uint32_t c = 0; c < client->map->chunks; c++)
        client->chunks->chunk[c].pull = name;
}

int gw_client_asks_for(const struct gw_client_chunk *chunk)
{
    return chunk->pull ||
           (chunk->want && (chunk->via != GW_CHUNK_GIVEN || chunk->apart));
}

/* ---- in ---- */

void gw_client_chunk_pull_answered(struct gw_client *client, uint32_t index)
{
    client->chunks->chunk[index].pull = 0;
}

void gw_client_chunk_answered(struct gw_client *client, uint32_t index)
{
    struct gw_client_chunk *chunk = &client->chunks->chunk[index];
    chunk->want = 0;
    chunk->pushed = 0;
    chunk->seeding = 0;
}

void gw_client_chunk_is_there(struct gw_client *client,
                              uint32_t index,
                              uint64_t version,
                              const void *device)
{
    struct gw_client_chunk *chunk = &client->chunks->chunk[index];
    if (chunk->device != device) /* else the caller may be reading it */
        chunk->device = device;
    atomic_store_explicit(&chunk->have, version + 1, memory_order_release);
}

uint32_t gw_client_first_pulled(const struct gw_client *client)
{
    uint32_t c = 0;
    while (c < client->map->chunks && !client->chunk[c].pull)
        c++;
    return c < client->map->chunks ? c : GW_CHUNK_NONE;
}

int gw_client_has_pulled(const struct gw_client *client)
{
    return gw_client_first_pulled(client) == GW_CHUNK_NONE;
}

uint32_t gw_client_next_missing(const struct gw_client *client,
                                uint32_t chunk,
                                uint32_t end,
                                uint64_t version)
{
    while (chunk < end && atomic_load_explicit(&client->chunk[chunk].have,
                                               memory_order_acquire) > version)
        chunk++;
    return chunk;
}

uint32_t gw_client_first_missing(const struct gw_client *client,
                                 size_t first,
                                 size_t n,
                                 uint64_t version)
{
    const struct gw_map *map = client->map;
    uint32_t end = map->key_chunk[first + n];
    uint32_t c =
        gw_client_next_missing(client, map->key_chunk[first], end, version);
    return c < end ? c : GW_CHUNK_NONE;
}

/* ---- decisions ---- */

void gw_client_void(struct gw_client *client, uint64_t decision)
{
    client->chunks->voided = decision;
    /* shards drop wants too: a want that is repeated would be answered twice */
    for (uint32_t c = 0; c < client->map->chunks; c++)
        client->chunks->chunk[c].want = 0;
}

int gw_client_is_void(const struct gw_client *client, uint64_t decision)
{
    return decision < client->chunks->voided;
}

void gw_client_forget(struct gw_client *client)
{
    for (uint32_t c = 0; c < client->map->chunks; c++) {
        atomic_store(&client->chunks->chunk[c].have, 0);
        client->chunks->chunk[c].seeding = 0;
    }
}

void gw_client_forget_pushes(struct gw_client *client)
{
    for (uint32_t c = 0; c < client->map->chunks; c++)
        client->chunks->chunk[c].pushed = 0;
}
