/*
 * Links to the shards: made at the beginning, and made again when they break.
 * A chunk's push goes out once more, whole; wants and their answers share a
 * link, so both are void when it breaks, and are asked for again.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdlib.h>

#define WANTS_PER_FRAME (GW_MESSAGE_BYTES_MAX / GW_WANT_BYTES)

/* 0: the client has failed. */
static int connect_to(struct gw_client *client, uint32_t shard)
{
    struct gw_error error;
    enum gw_status status = gw_client_shard_dial(client, shard, &error);
    if (status == GW_OK && gw_client_out_window(client, shard) != GW_OK)
        status = gw_fail(&error, GW_ENOMEM, "no memory for windows");
    if (status != GW_OK)
        gw_client_fail(client, status, "server %u (%s): %s", shard,
                       gw_client_shard_host(client, shard), error.text);
    return status == GW_OK;
}

void gw_client_connect(struct gw_client *client)
{
    uint32_t s = 0;
    while (s < gw_client_shards(client) && connect_to(client, s))
        s++;
}

/* Before the first time it is dialled with the others. */
void gw_client_reconnect(struct gw_client *client,
                         const struct gw_view_member *member)
{
    int is_dialled = gw_client_shard_peer(client, member->id) != NULL;
    gw_client_shard_rename(client, member);
    if (is_dialled)
        connect_to(client, member->id);
}

int gw_client_windows_open(const struct gw_client *client)
{
    return gw_client_shards_are_open(client) &&
           gw_host_group_is_whole(client->group);
}

/* ---- what a broken link lost ---- */

/* The push of a chunk, or that of its group, is made and is ours to send. */
static int is_out(const struct gw_client *client, uint32_t c)
{
    const struct gw_client_chunk *chunk = &client->chunk[c];
    return chunk->pushed && (chunk->via == GW_CHUNK_ALONE ||
                             (chunk->via == GW_CHUNK_OWNED &&
                              gw_host_group_has_sum(client->group, c)));
}

static void push_again(struct gw_client *client, uint32_t shard, unsigned link)
{
    const struct gw_map *map = client->map;
    for (uint32_t i = 0; i < map->shard_chunks[shard]; i++) {
        uint32_t c = map->shard_chunk[shard][i];
        if (gw_client_link_of(client, c) == link &&
            (client->chunk[c].seeding || is_out(client, c)))
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

/* Fills wants for the chunks of a link that lack weights. */
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
        const struct gw_want want =
            gw_client_want_for(client, &client->chunk[c], c, 1);
        gw_want_encode(&want, bytes + (size_t)n++ * GW_WANT_BYTES);
    }
    return n;
}

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
                      .decision = (uint32_t)gw_client_decided(client)},
            .payload = again->bytes,
            .priority = GW_CLIENT_PRIORITY,
            .done = on_again_sent,
            .owner = again,
        };
        if (n > 0)
            gw_peer_send(gw_client_shard_peer(client, shard), link,
                         &again->send);
        else
            free(again);
    }
}

static void send_again(struct gw_client *client, uint32_t shard, unsigned link)
{
    if (!client->chunk || !gw_client_shard_is_open(client, shard))
        return;
    push_again(client, shard, link);
    want_again(client, shard, link);
}

void gw_client_link_up(struct gw_client *client,
                       struct gw_peer *peer,
                       unsigned link)
{
    uint32_t shard = gw_client_shard_of(client, peer);
    if (shard == gw_client_shards(client))
        return;
    gw_client_out_link_up(client, shard, link);
    gw_client_terms_link_up(client, shard, link);
    send_again(client, shard, link);
}

/* With the last one that is needed, what could not be sent before is sent. */
void gw_client_got_window(void *actor,
                          struct gw_peer *peer,
                          const struct gw_message *message)
{
    struct gw_client *client = actor;
    uint32_t shard = gw_client_shard_of(client, peer);
    if (shard == gw_client_shards(client))
        return;
    int was_open = gw_client_shard_is_open(client, shard);
    gw_client_shard_take_window(client, shard, &message->window);
    for (unsigned link = 0; link < peer->links && !was_open; link++)
        if (gw_peer_is_up(peer, link))
            send_again(client, shard, link);
}
