/*
 * What is not sent but shown: over links within a host a shard reads gradients,
 * and first weights, in our arenas. A gradient has to stay as it is until it is
 * answered; so it does where nothing but the answers lets the next ones be
 * made.
 */
#include "config.h"

#include "worker/client/client_state.h"

_Static_assert(GW_LINKS_MAX <= 8, "shown has a bit for each link");

/* Whether the link before broke while something that was shown over it had no
   answer. */
static int
was_in_vain(const struct gw_client *client, uint32_t number, unsigned link)
{
    const struct gw_map *map = client->map;
    for (uint32_t i = 0; client->chunk && i < map->shard_chunks[number]; i++) {
        uint32_t c = map->shard_chunk[number][i];
        const struct gw_client_chunk *chunk = &client->chunk[c];
        const struct gw_frame *frame = &chunk->send.frame;
        if (gw_client_link_of(client, c) == link &&
            frame->kind == GW_FRAME_SHOWN &&
            (chunk->seeding || chunk->pushed == frame->clock + 1))
            return 1;
    }
    return 0;
}

/* Any link may break. Of one that broke twice in a row before anything that was
   shown over it was read it may be because the shard sees nothing: it would
   break again and again. */
static void
judge_break(struct gw_client *client, uint32_t number, unsigned link)
{
    struct gw_client_shard *shard = &client->shard[number];
    uint8_t bit = (uint8_t)(1u << link);
    int read = shard->read & bit;
    if (read)
        shard->unread &= (uint8_t)~bit;
    shard->read &= (uint8_t)~bit;
    if (read || shard->unseeing & bit || !was_in_vain(client, number, link))
        return;
    if (shard->unread & bit) {
        shard->unseeing |= bit;
        gw_log_info(client->log,
                    "connection %u to %s broke twice before gradients were "
                    "read: they are sent over it from here on",
                    link, shard->peer->name);
    }
    shard->unread |= bit;
}

void gw_client_was_read(struct gw_client *client, uint32_t index)
{
    const struct gw_client_chunk *chunk = &client->chunk[index];
    if (chunk->send.frame.kind == GW_FRAME_SHOWN &&
        (chunk->seeding || chunk->pushed))
        client->shard[client->map->chunk[index].shard].read |=
            (uint8_t)(1u << gw_client_link_of(client, index));
}

/* A link may come back over another transport. */
void gw_client_show_arenas(struct gw_client *client,
                           uint32_t number,
                           unsigned link)
{
    struct gw_client_shard *shard = &client->shard[number];
    uint8_t bit = (uint8_t)(1u << link);
    judge_break(client, number, link);
    int shown = !client->hollow && !(shard->unseeing & bit) &&
                gw_peer_show(shard->peer, link,
                             shard->weights[GW_ENCODING_RAW]) == GW_OK &&
                gw_peer_show(shard->peer, link, shard->gradients) == GW_OK;
    shard->shown = (uint8_t)(shown ? shard->shown | bit : shard->shown & ~bit);
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
