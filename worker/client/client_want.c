/*
 * Requests for weights: one want for each key, shard and link at a time. Wants
 * and their answers share a link, so both are void when it breaks.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdlib.h>

/* The want for one key at one shard over one link. */
struct key_want {
    struct gw_client *client;
    size_t key;
    uint32_t shard;
    unsigned link;
    uint8_t bytes[GW_WANT_BYTES];
    struct gw_send send;
    int sending;
    int again; /* something else is wanted since it was posted */
};

struct gw_client_wants {
    struct key_want *want; /* [keys][shards][connections] */
};

/* The place of a want among the pushes of its key. Its answer lies in the slots
   of the pushes, so an answer that may come at once must not come before they
   have left, above all when they are sent again. */
enum order {
    BEHIND_PUSHES,
    WITH_PUSHES, /* the answer comes when they are in, and they leave for the
                    first time: it passes pushes that are queued, so that its
                    weights come while gradients of other keys leave */
};

static void post_want(struct key_want *want, enum order order);

static void on_want_sent(struct gw_send *send, enum gw_status status)
{
    struct key_want *want = send->owner;
    int again = want->again;
    want->sending = 0;
    want->again = 0;
    /* a link that broke has everything asked again */
    if (again && status == GW_OK)
        post_want(want, BEHIND_PUSHES);
}

static struct gw_want condition_for(const struct gw_client *client,
                                    const struct gw_client_chunk *lacking)
{
    const struct gw_policy_word *word = gw_client_policy_now(client);
    struct gw_want want = {.value = lacking->want - 1,
                           .condition = GW_WANT_VERSION,
                           .encoding = (uint8_t)gw_client_encoding(client)};
    if (lacking->pull) {
        want.condition = GW_WANT_NOW;
        want.value = lacking->pull;
        want.encoding = GW_ENCODING_RAW;
    } else if (client->again == want.value + 1) {
        want.condition = GW_WANT_EXACT;
    } else if (word->kind == GW_POLICY_SSP) {
        want.condition = GW_WANT_MINIMUM;
        want.slack = (uint32_t)word->n;
    } else if (gw_client_is_per_push(client)) {
        want.condition = GW_WANT_HELD;
    }
    return want;
}

struct gw_want gw_client_want_for(const struct gw_client *client,
                                  const struct gw_client_chunk *lacking,
                                  uint32_t first,
                                  uint32_t count)
{
    const struct gw_chunk *at = &client->map->chunk[first];
    uint32_t shard = client->map->chunk[lacking - client->chunk].shard;
    struct gw_want want = condition_for(client, lacking);
    enum gw_encoding encoding = (enum gw_encoding)want.encoding;
    want.chunk = first;
    want.count = count;
    want.offset = gw_encoded_size(encoding, at->arena_offset);
    want.window = gw_client_weights_window(client, shard, encoding);
    want.priority = GW_CLIENT_PRIORITY;
    return want;
}

/* A chunk of the key that lacks something and comes from there; or none. */
static const struct gw_client_chunk *find_lacking(const struct key_want *want)
{
    const struct gw_client *client = want->client;
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[want->key];
         c < map->key_chunk[want->key + 1]; c++)
        if (gw_client_asks_for(&client->chunk[c]) &&
            map->chunk[c].shard == want->shard &&
            gw_client_link_of(client, c) == want->link)
            return &client->chunk[c];
    return NULL;
}

/* Wants and their answers share a link, so both are void when it breaks. */
static void post_want(struct key_want *want, enum order order)
{
    struct gw_client *client = want->client;
    const struct gw_map *map = client->map;
    uint32_t first = map->key_chunk[want->key];
    struct gw_peer *peer = gw_client_shard_peer(client, want->shard);
    const struct gw_client_chunk *lacking = find_lacking(want);
    if (!lacking || !gw_peer_is_up(peer, want->link) ||
        !gw_client_shard_is_open(client, want->shard))
        return; /* asked again when the link is there, and the windows */
    want->again = want->sending;
    if (want->sending)
        return;
    struct gw_want request = gw_client_want_for(
        client, lacking, first, map->key_chunk[want->key + 1] - first);
    if (lacking->via == GW_CHUNK_OWNED && !lacking->apart && !lacking->pull) {
        /* the key's other chunks come from the workers that push them */
        request.of = (uint8_t)client->group_ranks;
        request.nth = (uint8_t)(client->job->rank % request.of);
    }
    gw_want_encode(&request, want->bytes);
    want->sending = 1;
    want->send = (struct gw_send){
        .frame = {.kind = GW_FRAME_WANT,
                  .chunk = order == WITH_PUSHES
                               ? first
                               : map->key_chunk[want->key + 1] - 1,
                  .length = GW_WANT_BYTES,
                  .decision = (uint32_t)gw_client_decided(client)},
        .payload = want->bytes,
        .priority =
            order == WITH_PUSHES ? GW_CLIENT_PRIORITY - 1 : GW_CLIENT_PRIORITY,
        .done = on_want_sent,
        .owner = want,
    };
    gw_peer_send(peer, want->link, &want->send);
}

/* A chunk is the first of its key with this shard and link. */
static int
is_first_there(const struct gw_client *client, uint32_t first, uint32_t chunk)
{
    uint32_t shard = client->map->chunk[chunk].shard;
    for (uint32_t before = first; before < chunk; before++)
        if (client->map->chunk[before].shard == shard &&
            gw_client_link_of(client, before) ==
                gw_client_link_of(client, chunk))
            return 0;
    return 1;
}

static struct key_want *want_of(const struct gw_client *client,
                                size_t key,
                                uint32_t shard,
                                unsigned link)
{
    return &client->wants->want[(key * gw_client_shards(client) + shard) *
                                    gw_client_connections(client) +
                                link];
}

/* Asks every shard that holds a part of the key for the weights that its chunks
   lack. */
static void ask_for_key(struct gw_client *client, size_t key, enum order order)
{
    const struct gw_map *map = client->map;
    uint32_t first = map->key_chunk[key], end = map->key_chunk[key + 1];
    for (uint32_t c = first; c < end; c++)
        if (is_first_there(client, first, c))
            post_want(want_of(client, key, map->chunk[c].shard,
                              gw_client_link_of(client, c)),
                      order);
}

static void want_key(struct gw_client *client,
                     size_t key,
                     uint64_t version,
                     enum order order)
{
    gw_client_key_wanted(client, key, version);
    ask_for_key(client, key, order);
}

void gw_client_want_pushed(struct gw_client *client,
                           size_t key,
                           uint64_t version)
{
    /* backup: a late worker is answered before its push is in */
    want_key(client, key, version,
             gw_client_may_jump(client) ? BEHIND_PUSHES : WITH_PUSHES);
}

/* Not with a push, so weights that other workers of this host have are not
   waited for. */
void gw_client_want_key(struct gw_client *client, size_t key, uint64_t version)
{
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++)
        gw_client_chunk_set_via(client, c, GW_CHUNK_ALONE);
    want_key(client, key, version, BEHIND_PUSHES);
}

void gw_client_want_all(struct gw_client *client, uint64_t version)
{
    for (size_t key = 0; key < client->map->keys; key++)
        gw_client_want_key(client, key, version);
}

/*
 * A pull overtakes wants: answers come in the order of their wants, so when it
 * is there nothing older can arrive any more.
 */
void gw_client_pull_all(struct gw_client *client, uint64_t name)
{
    gw_client_all_pulled(client, name);
    for (size_t key = 0; key < client->map->keys; key++)
        ask_for_key(client, key, BEHIND_PUSHES);
}

/* ---- opening and closing ---- */

enum gw_status gw_client_wants_open(struct gw_client *client)
{
    client->wants = calloc(1, sizeof *client->wants);
    return client->wants ? GW_OK : GW_ENOMEM;
}

uint64_t gw_client_wants_bytes(const struct gw_map *map, uint64_t connections)
{
    return map->keys * map->shards * connections * sizeof(struct key_want);
}

enum gw_status gw_client_wants_make(struct gw_client *client)
{
    uint32_t shards = gw_client_shards(client);
    unsigned links = gw_client_connections(client);
    client->wants->want =
        calloc(client->map->keys * shards * links, sizeof *client->wants->want);
    if (!client->wants->want)
        return GW_ENOMEM;
    for (size_t key = 0; key < client->map->keys; key++)
        for (uint32_t shard = 0; shard < shards; shard++)
            for (unsigned link = 0; link < links; link++)
                *want_of(client, key, shard, link) = (struct key_want){
                    .client = client, .key = key, .shard = shard, .link = link};
    return GW_OK;
}

void gw_client_wants_close(struct gw_client *client)
{
    if (client->wants)
        free(client->wants->want);
    free(client->wants);
}
