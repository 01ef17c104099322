/*
 * Where weights arrive: in their arena or, where they come as bf16, in one of
 * half the size, from which they are widened, here or by the caller's device. A
 * plain pull brings them as the servers have them, whatever else is wanted.
 */
#include "config.h"

#include "worker/client_state.h"

#include "kernels/bf16.h"

uint64_t gw_client_bf16_bytes(const struct gw_client *client)
{
    return client->hollow || gw_client_encoding(client) == GW_ENCODING_RAW
               ? 0
               : gw_client_landing_bytes(client, GW_ENCODING_BF16);
}

enum gw_encoding gw_client_weights_as(const struct gw_client *client)
{
    return client->bf16_stays && !client->pulled ? GW_ENCODING_BF16
                                                 : GW_ENCODING_RAW;
}

void *gw_client_landing(const struct gw_client *client,
                        enum gw_encoding encoding,
                        uint64_t offset)
{
    uint8_t *base = encoding == GW_ENCODING_RAW ? (uint8_t *)client->weights
                                                : (uint8_t *)client->bf16;
    return base ? base + gw_encoded_offset(encoding, offset) : NULL;
}

uint64_t gw_client_landing_bytes(const struct gw_client *client,
                                 enum gw_encoding encoding)
{
    return gw_encoded_offset(encoding, client->map->arena_bytes);
}

enum gw_status gw_client_landing_windows(struct gw_client *client,
                                         struct gw_client_shard *shard)
{
    enum gw_status status = GW_OK;
    for (enum gw_encoding encoding = GW_ENCODING_RAW;
         status == GW_OK && encoding <= gw_client_encoding(client); encoding++)
        status = gw_window_open(&shard->peer->windows, GW_FRAME_WEIGHTS,
                                gw_client_landing(client, encoding, 0),
                                gw_client_landing_bytes(client, encoding),
                                &shard->weights[encoding]);
    return status;
}

void gw_client_landed(struct gw_client *client, const struct gw_frame *frame)
{
    const struct gw_chunk *place = &client->map->chunk[frame->chunk];
    if (frame->encoding == GW_ENCODING_BF16 && client->bf16 &&
        !client->bf16_stays)
        gw_bf16_widen(
            place->elems,
            gw_client_landing(client, GW_ENCODING_BF16, place->arena_offset),
            gw_client_landing(client, GW_ENCODING_RAW, place->arena_offset));
}
