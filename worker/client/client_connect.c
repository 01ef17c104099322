/*
 * Connections to the shards: made at the beginning, and what they may have lost
 * when they are made again. A chunk's push goes out once more, whole; wants and
 * their answers share a link, so both are void when it breaks, and are asked
 * for again.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdio.h>
#include <stdlib.h>

#define WANTS_PER_FRAME (GW_MESSAGE_BYTES_MAX / GW_WANT_BYTES)

/* Whether its push, or that of its group, is made and is ours to send. */
static int is_out(const struct gw_client *client, uint32_t c)
{
    const struct gw_client_chunk *chunk = &client->chunk[c];
    return chunk->pushed &&
           (chunk->via == GW_CHUNK_ALONE ||
            (chunk->via == GW_CHUNK_OWNED && gw_node_has_sum(client->node, c)));
}

/* A link is back: what it may have lost goes out again, chunk by chunk. */
static void resend(struct gw_client *client, uint32_t shard, unsigned link)
{
    const struct gw_map *map = client->map;
    for (uint32_t i = 0; i < map->shard_chunks[shard]; i++) {
        uint32_t c = map->shard_chunk[shard][i];
        struct gw_client_chunk *chunk = &client->chunk[c];
        if (gw_client_link_of(client, c) == link &&
            (chunk->seeding || is_out(client, c)))
            gw_client_send_chunk(client, c);
    }
}

/* Wants of a reconnection; only then is anything allocated. */
struct again {
    struct gw_send send;
    uint8_t bytes[WANTS_PER_FRAME * GW_WANT_BYTES];
};

static void on_again_sent(struct gw_send *send, enum gw_status status)
{
    (void)status;
    free(send->owner);
}

/* Fills wants for the chunks of a link whose weights have not arrived. */
static uint32_t missing_wants(struct gw_client *client,
                              uint32_t shard,
                              unsigned link,
                              uint32_t *next_p,
                              uint8_t *bytes)
{
    const struct gw_map *map = client->map;
    uint32_t n = 0;
    for (; *next_p < map->shard_chunks[shard] && n < WANTS_PER_FRAME;
         (*next_p)++) {
        uint32_t c = map->shard_chunk[shard][*next_p];
        if (!gw_client_asks_for(&client->chunk[c]) ||
            gw_client_link_of(client, c) != link)
            continue;
        const struct gw_want what =
            gw_client_want_for(client, &client->chunk[c], c, 1);
        gw_want_encode(&what, bytes + (size_t)n++ * GW_WANT_BYTES);
    }
    return n;
}

/* Posts once more what the link, or the answers on it, may have lost. */
static void want_again(struct gw_client *client, uint32_t shard, unsigned link)
{
    uint32_t next = 0, n = 1;
    while (n > 0) {
        struct again *again = malloc(sizeof *again);
        if (!again) {
            gw_client_fail(client, GW_ENOMEM, "no memory to ask again");
            return;
        }
        n = missing_wants(client, shard, link, &next, again->bytes);
        again->send = (struct gw_send){
            .frame = {.kind = GW_FRAME_WANT,
                      .chunk = GW_CHUNK_NONE,
                      .length = n * GW_WANT_BYTES,
                      .decision = (uint32_t)atomic_load(&client->decision)},
            .payload = again->bytes,
            .priority = GW_CLIENT_PRIORITY,
            .done = on_again_sent,
            .owner = again,
        };
        if (n > 0)
            gw_peer_send(client->shard[shard].peer, link, &again->send);
        else
            free(again);
    }
}

void gw_client_link_up(struct gw_client *client,
                       struct gw_peer *peer,
                       unsigned link)
{
    for (uint32_t s = 0; s < client->shards; s++) {
        if (client->shard[s].peer != peer)
            continue;
        gw_client_ask_links(client, s);
        gw_client_show_arenas(client, s, link);
    }
    if (!client->chunk || !gw_client_windows_open(client))
        return;
    for (uint32_t s = 0; s < client->shards; s++) {
        if (client->shard[s].peer != peer)
            continue;
        resend(client, s, link);
        want_again(client, s, link);
    }
}

void gw_client_window(struct gw_client *client,
                      struct gw_peer *peer,
                      const struct gw_window_open *window)
{
    for (uint32_t s = 0; s < client->shards; s++) {
        struct gw_client_shard *shard = &client->shard[s];
        if (shard->peer != peer)
            continue;
        uint64_t bytes = client->map->shard_bytes[s];
        if (window->bytes < bytes || window->id == GW_WINDOW_NONE) {
            gw_client_fail(client, GW_EMISMATCH,
                           "%s opened a window of %llu bytes, its shard has "
                           "%llu",
                           peer->name, (unsigned long long)window->bytes,
                           (unsigned long long)bytes);
            return;
        }
        if (window->kind == GW_FRAME_PUSH)
            shard->landing = window->id;
        else if (window->kind == GW_FRAME_SEED)
            shard->seeds = window->id;
    }
}

int gw_client_windows_open(const struct gw_client *client)
{
    for (uint32_t s = 0; s < client->shards; s++)
        if (client->shard[s].landing == GW_WINDOW_NONE ||
            (client->rank == 0 && client->shard[s].seeds == GW_WINDOW_NONE))
            return 0;
    return gw_node_is_whole(client->node);
}

void gw_client_connect(struct gw_client *client)
{
    struct gw_error error;
    for (uint32_t s = 0; s < client->shards; s++) {
        struct gw_client_shard *shard = &client->shard[s];
        enum gw_status status = gw_member_dial(
            client->member, shard->address, GW_ROLE_SERVER, shard->incarnation,
            client->connections, NULL, &shard->peer, &error);
        if (status == GW_OK)
            status = gw_client_landing_windows(client, shard);
        if (status == GW_OK) /* which nothing can be put into */
            status = gw_window_open(&shard->peer->windows, GW_FRAME_SHOWN,
                                    client->gradients, client->map->arena_bytes,
                                    &shard->gradients);
        if (status != GW_OK) {
            gw_client_fail(client, status, "server %u (%s): %s", s, shard->host,
                           error.text);
            return;
        }
        shard->peer->id = s;
        snprintf(shard->peer->name, sizeof shard->peer->name,
                 "server %u (%.60s)", shard->server, shard->host);
    }
}
