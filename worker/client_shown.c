/*
 * What is not sent but shown: over links within a host a shard reads gradients,
 * and first weights, in our arenas. A gradient has to stay as it is until it is
 * answered; so it does where nothing but the answers lets the next ones be
 * made.
 */
#include "config.h"

#include "worker/client_state.h"

_Static_assert(GW_LINKS_MAX <= 8, "shown has a bit for each link");

/* A link may come back over another transport. */
void gw_client_show_arenas(struct gw_client *client,
                           struct gw_client_shard *shard,
                           unsigned link)
{
    uint32_t weights = shard->weights[GW_ENCODING_RAW];
    int shown = !client->hollow &&
                gw_peer_show(shard->peer, link, weights) == GW_OK &&
                gw_peer_show(shard->peer, link, shard->gradients) == GW_OK;
    shard->shown &= (uint8_t) ~(1u << link);
    shard->shown |= (uint8_t)((unsigned)shown << link);
}

int gw_client_is_shown(const struct gw_client *client, uint32_t index)
{
    const struct gw_client_chunk *chunk = &client->chunk[index];
    uint32_t shard = client->map->chunk[index].shard;
    int still =
        chunk->seeding || (chunk->still && !chunk->stays && chunk->samples > 0);
    return still &&
           client->shard[shard].shown >> gw_client_link_of(client, index) & 1;
}

void gw_client_show(struct gw_client *client, uint32_t index)
{
    struct gw_client_chunk *chunk = &client->chunk[index];
    const struct gw_client_shard *shard =
        &client->shard[client->map->chunk[index].shard];
    struct gw_frame *frame = &chunk->send.frame;
    const struct gw_shown shown = {
        .window =
            chunk->seeding ? shard->weights[GW_ENCODING_RAW] : shard->gradients,
        .kind = frame->kind};
    gw_shown_encode(&shown, chunk->note);
    chunk->send.payload = chunk->note;
    frame->kind = GW_FRAME_SHOWN;
    frame->offset = 0;
    frame->window = GW_WINDOW_NONE;
    frame->length = GW_SHOWN_AT_BYTES;
}

void gw_client_tell_shown(const struct gw_client *client)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < client->shards; s++)
        n += client->shard[s].shown != 0;
    if (n > 0)
        gw_log_info(client->log,
                    "%u of %u shards are of this host and, under sync, read "
                    "gradients where they are",
                    n, client->shards);
}
