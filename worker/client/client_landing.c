/*
 * Where weights are, and where they arrive: in their arena or, where they come
 * as bf16, in one of half the size, from which they are widened, here or by the
 * caller's device. A plain pull brings them as the servers have them, whatever
 * else is wanted.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include "kernels/update/bf16.h"

uint64_t gw_client_bf16_bytes(const struct gw_client *client)
{
    return gw_client_encoding(client) == GW_ENCODING_RAW
               ? 0
               : gw_client_landing_bytes(client, GW_ENCODING_BF16);
}

enum gw_encoding gw_client_weights_as(const struct gw_client *client)
{
    return client->bf16_stays && !client->pulled ? GW_ENCODING_BF16
                                                 : GW_ENCODING_RAW;
}

static const void *device_of(const struct gw_client *client, uint32_t chunk)
{
    return client->pulled ? NULL : client->chunk[chunk].device;
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

/* In a hollow job an address, and nothing behind it. */
void *gw_client_landing(const struct gw_client *client,
                        enum gw_encoding encoding,
                        uint64_t offset)
{
    uint8_t *base = encoding == GW_ENCODING_RAW ? (uint8_t *)client->weights
                                                : (uint8_t *)client->bf16;
    return base + gw_encoded_size(encoding, offset);
}

uint64_t gw_client_landing_bytes(const struct gw_client *client,
                                 enum gw_encoding encoding)
{
    return gw_encoded_size(encoding, client->map->arena_bytes);
}

static enum gw_status open_window(struct gw_client *client,
                                  struct gw_client_shard *shard,
                                  enum gw_encoding encoding)
{
    return gw_window_open(&shard->peer->windows, GW_FRAME_WEIGHTS,
                          gw_client_landing(client, encoding, 0),
                          gw_client_landing_bytes(client, encoding),
                          &shard->weights[encoding]);
}

enum gw_status gw_client_landing_windows(struct gw_client *client,
                                         struct gw_client_shard *shard)
{
    enum gw_encoding encoding = gw_client_encoding(client);
    enum gw_status status = open_window(client, shard, GW_ENCODING_RAW);
    if (status == GW_OK && encoding != GW_ENCODING_RAW)
        status = open_window(client, shard, encoding);
    return status;
}

void gw_client_landed(struct gw_client *client, const struct gw_frame *frame)
{
    const struct gw_chunk *place = &client->map->chunk[frame->chunk];
    if (frame->encoding == GW_ENCODING_BF16 && !client->bf16_stays &&
        !client->hollow)
        gw_bf16_widen(
            place->elems,
            gw_client_landing(client, GW_ENCODING_BF16, place->arena_offset),
            gw_client_landing(client, GW_ENCODING_RAW, place->arena_offset));
}
