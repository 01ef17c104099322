/*
 * Weights that arrive: from shards, as answers to wants, and from the owners of
 * chunks among the workers of this host. On the loop's thread.
 */
#include "config.h"

#include "worker/client/client_state.h"

static int answers_chunk(const struct gw_client_chunk *chunk,
                         const struct gw_frame *frame)
{
    if (frame->flags & GW_FLAG_NOW)
        return chunk->pull != 0 && frame->clock == chunk->pull;
    return chunk->want != 0 && frame->clock + 1 >= chunk->want;
}

/* Weights must be the ones that were asked for, in the place that was given for
   them; weights on a device have no bytes. */
static int fits_chunk(const struct gw_client *client,
                      const struct gw_frame *frame,
                      const void *device)
{
    const struct gw_chunk *place = &client->map->chunk[frame->chunk];
    enum gw_encoding encoding = frame->flags & GW_FLAG_NOW
                                    ? GW_ENCODING_RAW
                                    : gw_client_encoding(client);
    return frame->encoding == encoding && frame->dtype == GW_DTYPE_F32 &&
           frame->offset == gw_encoded_size(encoding, place->arena_offset) &&
           frame->length ==
               (device ? 0 : gw_encoded_bytes(encoding, place->elems)) &&
           answers_chunk(&client->chunk[frame->chunk], frame);
}

static int is_answer(const struct gw_client *client,
                     const struct gw_peer *peer,
                     const struct gw_frame *frame)
{
    if (frame->kind != GW_FRAME_WEIGHTS || frame->chunk >= client->map->chunks)
        return 0;
    const struct gw_client_chunk *chunk = &client->chunk[frame->chunk];
    uint32_t shard = client->map->chunk[frame->chunk].shard;
    return gw_client_shard_peer(client, shard) == peer &&
           fits_chunk(client, frame, NULL) &&
           frame->window ==
               gw_client_weights_window(client, shard,
                                        (enum gw_encoding)frame->encoding) &&
           (chunk->via != GW_CHUNK_GIVEN || chunk->apart ||
            frame->flags & GW_FLAG_NOW);
}

/* The weights of a chunk have arrived, from a shard or a worker of this host:
   nothing is to be sent or asked any more. */
static void answered(struct gw_client *client, const struct gw_frame *frame)
{
    const struct gw_client_chunk *chunk = &client->chunk[frame->chunk];
    uint32_t bytes = gw_encoded_bytes((enum gw_encoding)frame->encoding,
                                      client->map->chunk[frame->chunk].elems);
    client->progress_us = gw_loop_now(client->loop);
    gw_metrics_add(client->metrics, GW_METRIC_BYTES_PULLED, bytes);
    gw_client_need_decision(client, gw_client_decision(client, frame));
    if (frame->flags & GW_FLAG_NOW) {
        gw_client_chunk_pull_answered(client, frame->chunk);
        return;
    }
    if (chunk->pushed && gw_client_is_per_push(client))
        gw_client_count_staleness(client, frame->count);
    gw_client_out_answered(client, frame->chunk);
    gw_client_chunk_answered(client, frame->chunk);
}

static void arrived(struct gw_client *client,
                    const struct gw_frame *frame,
                    const void *device)
{
    if (!device)
        gw_client_landed(client, frame);
    answered(client, frame);
    if (!(frame->flags & GW_FLAG_NOW))
        gw_client_chunk_is_there(client, frame->chunk, frame->clock, device);
}

void gw_client_frame(struct gw_client *client,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame)
{
    if (gw_client_is_void(client, gw_client_decision(client, frame)) &&
        !(frame->flags & GW_FLAG_NOW))
        return;
    if (!client->chunk || !is_answer(client, peer, frame)) {
        gw_peer_reject(peer, link, "weights that nobody asked for");
        return;
    }
    const struct gw_client_chunk *chunk = &client->chunk[frame->chunk];
    int for_all = chunk->via == GW_CHUNK_OWNED && !chunk->apart &&
                  !(frame->flags & GW_FLAG_NOW);
    if (for_all) {
        answered(client, frame);
        gw_host_group_arrived(client->group, frame);
    } else {
        arrived(client, frame, NULL);
    }
}

void gw_client_put(struct gw_client *client,
                   const struct gw_frame *frame,
                   const void *device)
{
    if (!device)
        gw_client_landed(client, frame);
    gw_client_chunk_is_there(client, frame->chunk, frame->clock, device);
    gw_host_group_give(client->group, frame->chunk);
}

void gw_client_given(struct gw_client *client,
                     struct gw_peer *peer,
                     const struct gw_frame *frame,
                     const void *device)
{
    const struct gw_client_chunk *chunk = &client->chunk[frame->chunk];
    if (gw_client_is_void(client, gw_client_decision(client, frame)) ||
        (chunk->via == GW_CHUNK_GIVEN && chunk->apart))
        return; /* the want is void, or the shard answers it */
    if (frame->flags & GW_FLAG_NOW || chunk->via != GW_CHUNK_GIVEN ||
        frame->clock + 1 != chunk->want || !fits_chunk(client, frame, device))
        gw_peer_reject(peer, 0, "weights that nobody asked for");
    else
        arrived(client, frame, device);
}
