/*
 * Gradients that leave from a device's memory. What a link takes from there is
 * sent from there, and what none takes follows the device's computations to the
 * arena, chunk by chunk. A link may come back in another way than before; then
 * what was pushed over it and not answered is brought to the arena, and what
 * comes after that goes there at once.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include "proto/policy.h"

/* Where the network itself reads: small ones are copied on their way, by this
   process's code. */
int gw_client_is_far(const struct gw_client *client, uint32_t chunk)
{
    const struct gw_chunk *place = &client->map->chunk[chunk];
    return client->device && place->elems * sizeof(float) > GW_SMALL_PUT_MAX &&
           atomic_load(&client->shard[place->shard].takes_device);
}

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

void gw_client_ask_links(struct gw_client *client, uint32_t shard)
{
    struct gw_client_shard *which = &client->shard[shard];
    char why[GW_ERROR_TEXT_BYTES];
    if (!client->device || client->device->pages.bytes == 0)
        return;
    int did = atomic_load(&which->takes_device);
    int does = gw_peer_takes(which->peer, &client->device->pages, why,
                             sizeof why) == GW_OK;
    atomic_store(&which->takes_device, does);
    if (did && !does)
        gw_log_warn(client->log,
                    "%s: gradients go through host memory from here on: %s",
                    which->peer->name, why);
}

void gw_client_tell_far(const struct gw_client *client)
{
    uint32_t n = 0;
    if (!client->device || client->device->pages.bytes == 0)
        return;
    for (uint32_t s = 0; s < client->shards; s++)
        n += atomic_load(&client->shard[s].takes_device) != 0;
    gw_log_info(client->log,
                "gradients for %u of %u shards leave from the device's memory",
                n, client->shards);
}

/* ---- where a gradient is ---- */

/* Of the caller's until the push is posted, and of the loop's until that is
   answered: where it is as it was, nothing is written. */
void gw_client_set_stays(struct gw_client *client, uint32_t chunk, int stays)
{
    uint8_t is = stays != 0;
    if (client->chunk[chunk].stays != is)
        client->chunk[chunk].stays = is;
}

void gw_client_made_on_host(struct gw_client *client, size_t first, size_t n)
{
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[first]; c < map->key_chunk[first + n]; c++)
        gw_client_set_stays(client, c, 0);
}

/* Who takes steps of its own makes what it pushes on the host. */
static int stays(const struct gw_client *client, uint32_t chunk)
{
    if (!client->device || gw_policy_is_local(client->word.kind))
        return 0;
    return gw_client_pushes_sums(client) ? gw_node_is_on_device(client->node)
                                         : gw_client_is_far(client, chunk);
}

int gw_client_next_on_host(struct gw_client *client,
                           size_t key,
                           struct gw_client_part *part)
{
    const struct gw_map *map = client->map;
    size_t bytes = 0;
    for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++) {
        size_t at = map->chunk[c].key_elem * sizeof(float);
        if (at < part->at)
            continue;
        /* asked once: links come and go */
        gw_client_set_stays(client, c, stays(client, c));
        if (client->chunk[c].stays && bytes > 0)
            break;
        if (client->chunk[c].stays)
            continue;
        if (bytes == 0)
            part->at = at;
        bytes = at + map->chunk[c].elems * sizeof(float) - part->at;
    }
    part->bytes = bytes;
    return bytes > 0;
}

const float *gw_client_gradient(struct gw_client *client, uint32_t chunk)
{
    const struct gw_chunk *place = &client->map->chunk[chunk];
    size_t first = place->arena_offset / sizeof(float);
    struct gw_client_chunk *what = &client->chunk[chunk];
    struct gw_error error;
    if (what->stays && gw_client_is_far(client, chunk))
        return client->device->gradients + first;
    if (what->stays && client->device->bring(client->device->owner, first,
                                             place->elems, &error) != GW_OK) {
        gw_client_fail(client, error.status, "%s", error.text);
        return NULL;
    }
    gw_client_set_stays(client, chunk, 0);
    return client->gradients + first;
}
