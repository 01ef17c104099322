/* Workers come and go: their windows, the pushes that a broken link takes
   back, and the tables of all of them. */
#include "config.h"

#include "server/commit.h"

#include "proto/schedule.h"

/* Takes back a rank's push that came by the sender's link. */
static void take_back(struct gw_server *server,
                      uint32_t sender,
                      uint32_t rank,
                      uint32_t index)
{
    const struct gw_shard_slot *slot =
        gw_shard_slot(server->shard, rank, index);
    if (slot->sender != sender)
        return;
    gw_due_undefer(&server->due, slot->landed);
    if (gw_shard_unhold(server->shard, rank, index))
        gw_commit_of(server)->unheld(server, rank, index);
}

/* A link of a worker was cut. Its wants are void. Pushes that are held but
   not yet used come again, whole: the bytes in their slots are not to be
   trusted. */
void gw_session_link_down(struct gw_server *server,
                          struct gw_peer *peer,
                          unsigned link)
{
    const struct gw_group group = server->session[peer->id].group;
    struct gw_shard *shard = server->shard;
    for (uint32_t i = 0; i < shard->chunks; i++) {
        if (shard->chunk[i].global % peer->links != link)
            continue;
        for (uint32_t rank = group.first; rank < group.first + group.n; rank++)
            take_back(server, peer->id, rank, i);
        gw_wants_slot(server->wants, peer->id, i)->open = 0;
    }
}

enum gw_status gw_session_admit(struct gw_server *server, struct gw_peer *peer)
{
    struct gw_session *session = &server->session[peer->id];
    float *landing = server->shard->landing[peer->id];
    size_t bytes = server->shard->elems * sizeof(float);
    enum gw_status status = gw_window_open(&peer->windows, GW_FRAME_PUSH,
                                           landing, bytes, &session->landing);
    if (status == GW_OK)
        status = gw_sum_admit(server, peer);
    if (status == GW_OK && peer->id == 0)
        status = gw_window_open(&peer->windows, GW_FRAME_SEED, landing, bytes,
                                &session->seeds);
    if (status != GW_OK)
        return status;
    session->peer = peer;
    peer->owner = server;
    peer->taken = gw_behind_taken;
    session->gradients = GW_WINDOW_NONE;
    if (session->begins_late && server->leader)
        gw_behind_begin(server, peer);
    else if (server->leader)
        gw_recent_tell(server, peer);
    struct gw_message message = {
        .kind = GW_MESSAGE_WINDOW,
        .window = {GW_FRAME_PUSH, session->landing, bytes, 0}};
    gw_server_tell(server, peer, &message);
    if (peer->id == 0) {
        message.window =
            (struct gw_window_open){GW_FRAME_SEED, session->seeds, bytes, 0};
        gw_server_tell(server, peer, &message);
    }
    return GW_OK;
}

void gw_session_present(struct gw_server *server)
{
    if (!gw_members_check_present(server))
        return;
    gw_stall_moved(server, gw_loop_now(server->loop)); /* nobody waited */
    gw_due_add_all(&server->due);
}

static void breathe(void *breather)
{
    struct gw_server *server = breather;
    gw_loop_pulse(server->loop);
}

enum gw_status gw_session_open(struct gw_server *server, struct gw_error *error)
{
    const struct gw_decision_state *state = &server->start.state;
    enum gw_status status =
        gw_regime_at(&server->config, state->clock, &server->regime, error);
    if (status != GW_OK)
        return status;
    gw_switch_start(server, state->clock, state->pushes);
    unsigned arrays = server->regime.arrays;
    if (gw_routes_memory(server->options.data) == GW_MEMORY_SHARED)
        arrays |= GW_SHARD_SHARED;
    status = gw_shard_create(server->map, server->number, server->ranks, arrays,
                             server->regime.optimizer, &server->shard, error);
    if (status == GW_OK)
        status = gw_wants_create(server->map, server->number, server->ranks,
                                 server, &server->wants, error);
    if (status != GW_OK)
        return status;
    server->shard->breathe = breathe;
    server->shard->breather = server;
    if (gw_due_open(&server->due, server->loop, server->shard->chunks,
                    gw_session_look, server) != GW_OK)
        return gw_fail(error, GW_ENOMEM, "no memory for %u chunks",
                       server->shard->chunks);
    gw_register_arrays(server);
    gw_shard_begin(server->shard, state, server->clocks);
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        server->session[rank].clock = server->clocks[rank];
    status = gw_switch_follow_rounds(server, error);
    return status == GW_OK ? gw_quorum_open(server, error) : status;
}

void gw_session_close(struct gw_server *server)
{
    gw_due_close(&server->due);
    gw_quorum_close(server);
    gw_wants_destroy(server->wants);
    gw_shard_destroy(server->shard);
    server->wants = NULL;
    server->shard = NULL;
}
