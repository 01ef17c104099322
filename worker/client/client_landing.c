/*
 * Memory in which weights arrive: their arena or, as bf16, one of half the
 * size, from which they are widened, here or by the caller's device. A pull
 * brings raw weights, as the servers have them.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/update/bf16.h"

struct gw_client_landing {
    float *weights;
    uint16_t *bf16; /* weights arrive here; NULL: in their arena */
    int bf16_stays; /* and are not widened into that */
    int pulled;     /* the caller's: the last weights are raw */
};

enum gw_status gw_client_landing_open(struct gw_client *client)
{
    client->landing = calloc(1, sizeof *client->landing);
    return client->landing ? GW_OK : GW_ENOMEM;
}

void gw_client_landing_close(struct gw_client *client)
{
    free(client->landing);
}

void gw_client_landing_attach(struct gw_client *client,
                              const struct gw_client_arenas *arenas)
{
    struct gw_client_landing *landing = client->landing;
    landing->weights = arenas->weights.base;
    if (gw_client_bf16_bytes(client) == 0)
        return;
    assert(arenas->bf16.base &&
           arenas->bf16.bytes >= gw_client_bf16_bytes(client));
    landing->bf16 = arenas->bf16.base;
    landing->bf16_stays = arenas->bf16_stays;
}

void gw_client_set_pulled(struct gw_client *client, int pulled)
{
    client->landing->pulled = pulled;
}

uint64_t gw_client_bf16_bytes(const struct gw_client *client)
{
    return gw_client_encoding(client) == GW_ENCODING_RAW
               ? 0
               : gw_client_landing_bytes(client, GW_ENCODING_BF16);
}

enum gw_encoding gw_client_weights_as(const struct gw_client *client)
{
    return client->landing->bf16_stays && !client->landing->pulled
               ? GW_ENCODING_BF16
               : GW_ENCODING_RAW;
}

static const void *device_of(const struct gw_client *client, uint32_t chunk)
{
    return client->landing->pulled ? NULL : client->chunk[chunk].device;
}

int gw_client_next_place(const struct gw_client *client,
                         size_t key,
                         struct gw_client_place *part)
{
    const struct gw_map *map = client->map;
    uint32_t end = map->key_chunk[key + 1], c = part->next;
    if (part->bytes == 0)
        c = map->key_chunk[key];
    if (c == end)
        return 0;
    part->at = map->chunk[c].key_elem * sizeof(float);
    part->bytes = 0;
    part->device = device_of(client, c);
    for (; c < end && device_of(client, c) == part->device; c++)
        part->bytes += map->chunk[c].elems * sizeof(float);
    part->next = c;
    return 1;
}

/* An address, without memory behind it where the job has no payloads. */
void *gw_client_landing(const struct gw_client *client,
                        enum gw_encoding encoding,
                        uint64_t offset)
{
    const struct gw_client_landing *landing = client->landing;
    uint8_t *base = encoding == GW_ENCODING_RAW ? (uint8_t *)landing->weights
                                                : (uint8_t *)landing->bf16;
    return base + gw_encoded_size(encoding, offset);
}

uint64_t gw_client_landing_bytes(const struct gw_client *client,
                                 enum gw_encoding encoding)
{
    return gw_encoded_size(encoding, client->map->arena_bytes);
}

void gw_client_landed(struct gw_client *client, const struct gw_frame *frame)
{
    const struct gw_chunk *place = &client->map->chunk[frame->chunk];
    if (frame->encoding == GW_ENCODING_BF16 && !client->landing->bf16_stays &&
        !client->job->payload_free)
        gw_bf16_widen(
            place->elems,
            gw_client_landing(client, GW_ENCODING_BF16, place->arena_offset),
            gw_client_landing(client, GW_ENCODING_RAW, place->arena_offset));
}
