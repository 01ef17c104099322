/*
 * The place of the bytes of a chunk that leaves. Weights of a seed are in their
 * arena. A gradient is
 *
 *   on the device   and the link of the chunk takes it from there; or it is
 *                   brought to the arena, after the device's computations
 *   in the arena    and the link sends it
 *   exported        in the arena, where a shard of this host reads it. It has
 *                   to stay as it is until it is answered: so it does where
 *                   nothing but the answers lets the next one be made
 *
 * A link may come back over another transport. Then gradients that were pushed
 * over it and not answered go to the arena, and later ones are made there.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdlib.h>

_Static_assert(GW_LINKS_MAX <= 8, "exported has a bit for each link");

struct out_chunk {
    uint64_t exported; /* clock + 1 of the frame that left last, if it exported
                          the bytes; 0: it did not */
    uint8_t on_device; /* the gradient, and it is not in the arena */
    uint8_t note[GW_EXPORTED_BYTES]; /* payload of such a frame */
};

/* Bits are links. */
struct out_shard {
    uint32_t gradients;       /* window that it may only read */
    uint8_t exported;         /* it sees gradients and raw weights over these */
    uint8_t read;             /* it has read some, since they came */
    uint8_t unread;           /* the last one broke before that */
    uint8_t unseeing;         /* the last two did: nothing is exported */
    _Atomic int takes_device; /* links read payloads in a device's memory */
};

struct gw_client_out {
    float *gradients;
    const struct gw_device_arenas *device; /* NULL: they are made there */
    struct out_chunk *chunk;               /* [map->chunks] */
    struct out_shard *shard;               /* [shards] */
};

/* ---- opening and closing ---- */

enum gw_status gw_client_out_open(struct gw_client *client)
{
    client->out = calloc(1, sizeof *client->out);
    return client->out ? GW_OK : GW_ENOMEM;
}

uint64_t gw_client_out_bytes(const struct gw_map *map)
{
    return map->chunks * sizeof(struct out_chunk);
}

enum gw_status gw_client_out_make(struct gw_client *client)
{
    struct gw_client_out *out = client->out;
    out->chunk = calloc(client->map->chunks, sizeof *out->chunk);
    out->shard = calloc(gw_client_shards(client), sizeof *out->shard);
    return out->chunk && out->shard ? GW_OK : GW_ENOMEM;
}

void gw_client_out_attach(struct gw_client *client,
                          float *gradients,
                          const struct gw_device_arenas *device)
{
    client->out->gradients = gradients;
    client->out->device = device;
}

void gw_client_out_close(struct gw_client *client)
{
    struct gw_client_out *out = client->out;
    if (!out)
        return;
    free(out->chunk);
    free(out->shard);
    free(out);
}

float *gw_client_gradients(const struct gw_client *client)
{
    return client->out->gradients;
}

/* ---- on the device ---- */

int gw_client_takes_device(struct gw_client *client,
                           const struct gw_memory *pages,
                           char *why,
                           size_t why_bytes)
{
    gw_loop_enter(client->loop);
    enum gw_status status =
        gw_member_takes(client->member, pages, why, why_bytes);
    gw_loop_leave(client->loop);
    return status == GW_OK;
}

/* Every link to the shard has to take payloads from there. */
static void ask_links(struct gw_client *client, uint32_t number)
{
    struct out_shard *shard = &client->out->shard[number];
    const struct gw_device_arenas *device = client->out->device;
    const struct gw_peer *peer = gw_client_shard_peer(client, number);
    char why[GW_ERROR_TEXT_BYTES];
    if (!device || device->pages.bytes == 0)
        return;
    int did = atomic_load(&shard->takes_device);
    int does = gw_peer_takes(gw_client_shard_peer(client, number),
                             &device->pages, why, sizeof why) == GW_OK;
    atomic_store(&shard->takes_device, does);
    if (did && !does)
        gw_log_warn(client->log,
                    "%s: gradients go through host memory from here on: %s",
                    peer->name, why);
}

/* Small payloads are copied on their way, by this process's code. */
int gw_client_leaves_device(const struct gw_client *client, uint32_t index)
{
    const struct gw_chunk *place = &client->map->chunk[index];
    const struct gw_client_out *out = client->out;
    return out->device && place->elems * sizeof(float) > GW_SMALL_PUT_MAX &&
           atomic_load(&out->shard[place->shard].takes_device);
}

int gw_client_is_on_device(const struct gw_client *client, uint32_t index)
{
    return client->out->chunk[index].on_device;
}

void gw_client_set_on_device(struct gw_client *client, uint32_t index, int is)
{
    uint8_t on_device = is != 0;
    /* the other thread may read it: nothing is written that does not change */
    if (client->out->chunk[index].on_device != on_device)
        client->out->chunk[index].on_device = on_device;
}

/* Gradients of the chunk that is pushed next stay on the device. Under local
   policies pushes are made on the host. */
static int stays_on_device(const struct gw_client *client,
                           uint32_t index,
                           const struct gw_push_terms *terms)
{
    if (!client->out->device || terms->local)
        return 0;
    return terms->sums ? gw_host_group_is_on_device(client->group)
                       : gw_client_leaves_device(client, index);
}

int gw_client_next_on_host(struct gw_client *client,
                           size_t key,
                           struct gw_client_part *part)
{
    const struct gw_map *map = client->map;
    const struct gw_push_terms terms = gw_client_push_terms(client, 0);
    size_t bytes = 0;
    for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++) {
        size_t at = map->chunk[c].key_elem * sizeof(float);
        if (at < part->at)
            continue;
        /* asked once: links come and go */
        int stays = stays_on_device(client, c, &terms);
        gw_client_set_on_device(client, c, stays);
        if (stays && bytes > 0)
            break;
        if (stays)
            continue;
        if (bytes == 0)
            part->at = at;
        bytes = at + map->chunk[c].elems * sizeof(float) - part->at;
    }
    part->bytes = bytes;
    return bytes > 0;
}

/* ---- exported ---- */

enum gw_status gw_client_out_window(struct gw_client *client, uint32_t number)
{
    struct gw_client_out *out = client->out;
    struct out_shard *shard = &out->shard[number];
    shard->exported = shard->read = shard->unread = shard->unseeing = 0;
    return gw_window_open(&gw_client_shard_peer(client, number)->windows,
                          GW_FRAME_EXPORTED, out->gradients,
                          client->map->arena_bytes, &shard->gradients);
}

/* The link before broke while something that was exported over it had no
   answer. */
static int
was_in_vain(const struct gw_client *client, uint32_t number, unsigned link)
{
    const struct gw_map *map = client->map;
    for (uint32_t i = 0; i < map->shard_chunks[number]; i++) {
        uint32_t c = map->shard_chunk[number][i];
        const struct gw_client_chunk *chunk = &client->chunk[c];
        uint64_t exported = client->out->chunk[c].exported;
        if (gw_client_link_of(client, c) == link && exported &&
            (chunk->seeding || chunk->pushed == exported))
            return 1;
    }
    return 0;
}

/* Any link may break. If it broke twice in a row before anything that was
   exported over it was read, the shard may not see the memory: the link would
   break again and again. */
static void
judge_break(struct gw_client *client, uint32_t number, unsigned link)
{
    struct out_shard *shard = &client->out->shard[number];
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
                    link, gw_client_shard_peer(client, number)->name);
    }
    shard->unread |= bit;
}

static void
export_arenas(struct gw_client *client, uint32_t number, unsigned link)
{
    struct out_shard *shard = &client->out->shard[number];
    struct gw_peer *peer = gw_client_shard_peer(client, number);
    uint8_t bit = (uint8_t)(1u << link);
    uint32_t weights =
        gw_client_weights_window(client, number, GW_ENCODING_RAW);
    int exported = !client->job->payload_free && !(shard->unseeing & bit) &&
                   gw_peer_export(peer, link, weights) == GW_OK &&
                   gw_peer_export(peer, link, shard->gradients) == GW_OK;
    shard->exported =
        (uint8_t)(exported ? shard->exported | bit : shard->exported & ~bit);
}

void gw_client_out_link_up(struct gw_client *client,
                           uint32_t number,
                           unsigned link)
{
    ask_links(client, number);
    judge_break(client, number, link);
    export_arenas(client, number, link);
}

void gw_client_out_answered(struct gw_client *client, uint32_t index)
{
    const struct gw_client_chunk *chunk = &client->chunk[index];
    uint32_t shard = client->map->chunk[index].shard;
    if (client->out->chunk[index].exported && (chunk->seeding || chunk->pushed))
        client->out->shard[shard].read |=
            (uint8_t)(1u << gw_client_link_of(client, index));
}

static int is_exported(const struct gw_client *client, uint32_t index)
{
    const struct gw_client_chunk *chunk = &client->chunk[index];
    uint32_t shard = client->map->chunk[index].shard;
    int still = chunk->seeding ||
                (chunk->still && !gw_client_is_on_device(client, index));
    return still && client->out->shard[shard].exported >>
                            gw_client_link_of(client, index) &
                        1;
}

/* ---- a chunk ---- */

/* NULL: the device has failed, and with it the client. */
static const float *find_gradient(struct gw_client *client, uint32_t index)
{
    const struct gw_chunk *place = &client->map->chunk[index];
    const struct gw_device_arenas *device = client->out->device;
    size_t first = place->arena_offset / sizeof(float);
    int on_device = gw_client_is_on_device(client, index);
    struct gw_error error;
    if (on_device && gw_client_leaves_device(client, index))
        return device->gradients + first;
    if (on_device &&
        device->bring(device->owner, first, place->elems, &error) != GW_OK) {
        gw_client_fail(client, error.status, "%s", error.text);
        return NULL;
    }
    gw_client_set_on_device(client, index, 0);
    return client->out->gradients + first;
}

/* The frame says in which window the shard reads. */
static const void *note_of(struct gw_client *client, uint32_t index)
{
    const struct gw_client_chunk *chunk = &client->chunk[index];
    struct out_chunk *out = &client->out->chunk[index];
    uint32_t shard = client->map->chunk[index].shard;
    const struct gw_exported exported = {
        .window = chunk->seeding
                      ? gw_client_weights_window(client, shard, GW_ENCODING_RAW)
                      : client->out->shard[shard].gradients,
        .kind = chunk->seeding ? GW_FRAME_SEED : GW_FRAME_PUSH};
    gw_exported_encode(&exported, out->note);
    out->exported = chunk->seeding ? 1 : chunk->pushed;
    return out->note;
}

int gw_client_out_find(struct gw_client *client,
                       uint32_t index,
                       struct gw_client_bytes *bytes_p)
{
    const struct gw_client_chunk *chunk = &client->chunk[index];
    struct gw_client_bytes bytes = {GW_BYTES_ARENA, NULL};
    client->out->chunk[index].exported = 0;
    if (!chunk->seeding && chunk->empty) {
        bytes.place = GW_BYTES_NONE;
    } else if (client->job->payload_free) {
        bytes.at = NULL;
    } else if (chunk->seeding) {
        bytes.at = gw_client_landing(client, GW_ENCODING_RAW,
                                     client->map->chunk[index].arena_offset);
    } else {
        bytes.at = find_gradient(client, index);
        if (!bytes.at)
            return 0;
        if (gw_client_is_on_device(client, index))
            bytes.place = GW_BYTES_DEVICE;
    }
    if (bytes.place == GW_BYTES_ARENA && is_exported(client, index))
        bytes =
            (struct gw_client_bytes){GW_BYTES_EXPORTED, note_of(client, index)};
    *bytes_p = bytes;
    return 1;
}

/* ---- for the log ---- */

static void log_device(const struct gw_client *client)
{
    const struct gw_client_out *out = client->out;
    uint32_t n = 0;
    if (!out->device || out->device->pages.bytes == 0)
        return;
    for (uint32_t s = 0; s < gw_client_shards(client); s++)
        n += atomic_load(&out->shard[s].takes_device) != 0;
    gw_log_info(client->log,
                "gradients for %u of %u shards leave from the device's memory",
                n, gw_client_shards(client));
}

static void log_exported(const struct gw_client *client)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < gw_client_shards(client); s++)
        n += client->out->shard[s].exported != 0;
    if (n > 0)
        gw_log_info(client->log,
                    "%u of %u shards are of this host and, under sync, read "
                    "gradients where they are",
                    n, gw_client_shards(client));
}

void gw_client_out_log(const struct gw_client *client)
{
    log_device(client);
    log_exported(client);
}
