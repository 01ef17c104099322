/* The stages of commits, and functions that several entries share. */
#include "config.h"

#include "server/commit.h"

/* ---- stages ---- */

void gw_commit_reduced(struct gw_server *server, uint32_t rank, uint32_t chunk)
{
    gw_commit_of(server)->stored(server, rank, chunk);
}

void gw_commit_stored(struct gw_server *server, uint32_t chunk)
{
    gw_commit_of(server)->stored(server, GW_RANK_NONE, chunk);
}

static void answered(struct gw_server *server, uint32_t chunk)
{
    gw_session_answer(server, chunk);
    gw_switch_reached(server);
}

void gw_commit_applied(struct gw_server *server, uint32_t rank, uint32_t chunk)
{
    gw_commit_of(server)->applied(server, rank, chunk);
    gw_copy_ready(server);
    answered(server, chunk);
}

/* ---- functions of several entries ---- */

int gw_commit_all_held(const struct gw_server *server, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    return server->regime.policy->complete(chunk->held, server->ranks);
}

void gw_commit_ignore(struct gw_server *server, uint32_t rank, uint32_t index)
{
    (void)server;
    (void)rank;
    (void)index;
}

int gw_commit_leaves_out_none(const struct gw_server *server,
                              uint32_t rank,
                              uint32_t index)
{
    (void)server;
    (void)rank;
    (void)index;
    return 0;
}

int gw_commit_awaits_unheld(const struct gw_server *server,
                            uint32_t rank,
                            uint32_t index)
{
    return !gw_shard_slot(server->shard, rank, index)->held;
}

int gw_commit_holds_any(const struct gw_server *server, uint32_t index)
{
    return server->shard->chunk[index].held > 0;
}

void gw_commit_reached(struct gw_server *server, uint32_t rank, uint32_t index)
{
    (void)rank;
    gw_save_reached(server, index);
}

uint64_t gw_commit_decided_version(const struct gw_server *server,
                                   uint32_t index)
{
    return server->shard->chunk[index].version;
}

void gw_commit_label_version(const struct gw_shard_slot *push,
                             struct gw_frame *answer)
{
    (void)push;
    (void)answer;
}

uint64_t gw_commit_step_is_version(const struct gw_server *server,
                                   uint64_t version)
{
    (void)server;
    return version;
}

void gw_commit_nothing(struct gw_server *server)
{
    (void)server;
}

uint64_t gw_commit_cut_at(const struct gw_server *server, uint64_t version)
{
    (void)server;
    return version;
}

static int any_has_reached(const struct gw_server *server, uint64_t version)
{
    for (uint32_t i = 0; i < server->shard->chunks; i++)
        if (server->shard->chunk[i].version >= version)
            return 1;
    return 0;
}

const char *gw_commit_cut_fault(const struct gw_server *server,
                                uint64_t version)
{
    return any_has_reached(server, version + 1) ? "a cut of a step that is over"
                                                : NULL;
}

/* It is decided before any chunk is there. */
const char *gw_commit_switch_fault(const struct gw_server *server,
                                   uint64_t clock)
{
    return !gw_switch_may_follow(server, clock) ||
                   any_has_reached(server, clock)
               ? "a switch of policy at a step where none can be"
               : NULL;
}
