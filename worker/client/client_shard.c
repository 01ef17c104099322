/*
 * The shards as the view names them: their peers, and the windows of both
 * sides. Windows are granted once; links come and go (client_connect.c).
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdio.h>
#include <stdlib.h>

struct shard {
    struct gw_peer *peer;
    char address[GW_ADDRESSES_MAX];
    char host[64];
    uint64_t incarnation; /* 0: the view has not named it */
    uint32_t server;
    uint32_t landing, seeds; /* windows it gave us; GW_WINDOW_NONE: not yet */
    uint32_t weights[GW_ENCODINGS]; /* windows we gave it, for weights as the
                                       job has them sent, and raw */
};

struct gw_client_shards {
    struct shard *shard; /* [n] */
    uint32_t n;
    unsigned connections; /* to each */
};

enum gw_status gw_client_shards_open(struct gw_client *client)
{
    client->shards = calloc(1, sizeof *client->shards);
    return client->shards ? GW_OK : GW_ENOMEM;
}

void gw_client_shards_close(struct gw_client *client)
{
    if (client->shards)
        free(client->shards->shard);
    free(client->shards);
}

/* ---- the view ---- */

enum gw_status gw_client_shards_expect(struct gw_client *client,
                                       uint32_t members)
{
    struct gw_client_shards *shards = client->shards;
    shards->shard = calloc((size_t)members + 1, sizeof *shards->shard);
    return shards->shard ? GW_OK : GW_ENOMEM;
}

int gw_client_shards_are_expected(const struct gw_client *client)
{
    return client->shards->shard != NULL;
}

void gw_client_shard_named(struct gw_client *client,
                           const struct gw_view_member *member)
{
    struct shard *shard = &client->shards->shard[member->id];
    shard->incarnation = member->incarnation;
    shard->server = member->server;
    snprintf(shard->address, sizeof shard->address, "%s", member->address);
    snprintf(shard->host, sizeof shard->host, "%s", member->host);
    client->shards->n++;
}

int gw_client_shard_is(const struct gw_client *client,
                       const struct gw_view_member *member)
{
    return client->shards->shard[member->id].incarnation == member->incarnation;
}

void gw_client_shard_rename(struct gw_client *client,
                            const struct gw_view_member *member)
{
    struct shard *shard = &client->shards->shard[member->id];
    if (shard->peer)
        gw_peer_close(shard->peer);
    shard->incarnation = member->incarnation;
    shard->server = member->server;
    snprintf(shard->address, sizeof shard->address, "%s", member->address);
    snprintf(shard->host, sizeof shard->host, "%s", member->host);
    shard->landing = shard->seeds = GW_WINDOW_NONE;
    shard->peer = NULL;
}

int gw_client_shards_are_named(const struct gw_client *client)
{
    for (uint32_t s = 0; s < client->shards->n; s++)
        if (!client->shards->shard[s].incarnation)
            return 0;
    return client->shards->n > 0;
}

/* ---- peers ---- */

uint32_t gw_client_shards(const struct gw_client *client)
{
    return client->shards->n;
}

void gw_client_set_connections(struct gw_client *client, unsigned connections)
{
    client->shards->connections = connections;
}

unsigned gw_client_connections(const struct gw_client *client)
{
    return client->shards->connections;
}

unsigned gw_client_link_of(const struct gw_client *client, uint32_t chunk)
{
    return chunk % client->shards->connections;
}

struct gw_peer *gw_client_shard_peer(const struct gw_client *client,
                                     uint32_t shard)
{
    return client->shards->shard[shard].peer;
}

uint32_t gw_client_shard_of(const struct gw_client *client,
                            const struct gw_peer *peer)
{
    uint32_t s = 0;
    while (s < client->shards->n && client->shards->shard[s].peer != peer)
        s++;
    return s;
}

const char *gw_client_shard_host(const struct gw_client *client, uint32_t shard)
{
    return client->shards->shard[shard].host;
}

static enum gw_status open_window(struct gw_client *client,
                                  struct shard *shard,
                                  enum gw_encoding encoding)
{
    return gw_window_open(&shard->peer->windows, GW_FRAME_WEIGHTS,
                          gw_client_landing(client, encoding, 0),
                          gw_client_landing_bytes(client, encoding),
                          &shard->weights[encoding]);
}

enum gw_status gw_client_shard_dial(struct gw_client *client,
                                    uint32_t number,
                                    struct gw_error *error)
{
    struct shard *shard = &client->shards->shard[number];
    enum gw_encoding encoding = gw_client_encoding(client);
    enum gw_status status = gw_member_dial(
        client->member, shard->address, GW_ROLE_SERVER, shard->incarnation,
        client->shards->connections, NULL, &shard->peer, error);
    if (status != GW_OK)
        return status;
    shard->peer->id = number;
    snprintf(shard->peer->name, sizeof shard->peer->name, "server %u (%.60s)",
             shard->server, shard->host);
    status = open_window(client, shard, GW_ENCODING_RAW);
    if (status == GW_OK && encoding != GW_ENCODING_RAW)
        status = open_window(client, shard, encoding);
    return status == GW_OK ? GW_OK
                           : gw_fail(error, status, "no memory for windows");
}

/* ---- windows ---- */

uint32_t gw_client_landing_window(const struct gw_client *client,
                                  uint32_t shard)
{
    return client->shards->shard[shard].landing;
}

uint32_t gw_client_seeds_window(const struct gw_client *client, uint32_t shard)
{
    return client->shards->shard[shard].seeds;
}

uint32_t gw_client_weights_window(const struct gw_client *client,
                                  uint32_t shard,
                                  enum gw_encoding encoding)
{
    return client->shards->shard[shard].weights[encoding];
}

void gw_client_shard_take_window(struct gw_client *client,
                                 uint32_t number,
                                 const struct gw_window_open *window)
{
    struct shard *shard = &client->shards->shard[number];
    uint64_t bytes = client->map->shard_bytes[number];
    if (window->bytes < bytes || window->id == GW_WINDOW_NONE)
        gw_client_fail(client, GW_EMISMATCH,
                       "%s opened a window of %llu bytes, its shard has %llu",
                       shard->peer->name, (unsigned long long)window->bytes,
                       (unsigned long long)bytes);
    else if (window->kind == GW_FRAME_PUSH)
        shard->landing = window->id;
    else if (window->kind == GW_FRAME_SEED)
        shard->seeds = window->id;
}

int gw_client_shard_is_open(const struct gw_client *client, uint32_t number)
{
    const struct shard *shard = &client->shards->shard[number];
    return shard->landing != GW_WINDOW_NONE &&
           (client->job->rank > 0 || shard->seeds != GW_WINDOW_NONE);
}

int gw_client_shards_are_open(const struct gw_client *client)
{
    for (uint32_t s = 0; s < client->shards->n; s++)
        if (!gw_client_shard_is_open(client, s))
            return 0;
    return 1;
}
