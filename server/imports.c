/*
 * Pushes that a worker of this host exports instead of sending: a gradient is
 * read where it lies when a clock's pushes make a version, and first weights
 * when their frame comes. A link that is about to end may export nothing any
 * more: it is cut, and the pushes that came by it are taken back, to come
 * again.
 */
#include "config.h"

#include "server/server_state.h"

static unsigned link_of(const struct gw_server *server,
                        const struct gw_peer *peer,
                        uint32_t index)
{
    return server->shard->chunk[index].global % peer->links;
}

const float *gw_imports_find(const struct gw_server *server,
                             struct gw_peer *peer,
                             uint32_t window,
                             uint32_t index)
{
    const struct gw_map *map = server->map;
    const struct gw_chunk *place =
        &map->chunk[server->shard->chunk[index].global];
    unsigned link = link_of(server, peer, index);
    const float *arena = gw_peer_import(peer, link, window, map->arena_bytes);
    if (arena)
        return arena + place->arena_offset / sizeof *arena;
    gw_peer_cut(peer, link, "it does not show what it speaks of");
    return NULL;
}

int gw_imports_find_all(struct gw_server *server, uint32_t index)
{
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        struct gw_shard_slot *slot = gw_shard_slot(server->shard, rank, index);
        const struct gw_session *from = &server->session[slot->sender];
        if (!slot->held || slot->source.absent || !slot->exported)
            continue;
        slot->source.at =
            gw_imports_find(server, from->peer, from->gradients, index);
        if (!slot->source.at)
            return 0;
    }
    return 1;
}
