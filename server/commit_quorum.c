/*
 * Backup workers (backup:B): of W ranks, the first W - B with all pushes of a
 * clock at all shards make its step; the pushes of the others are late.
 *
 *   all chunks of a rank held --> arrived --> shard 0: enough? --> count: drop
 *   pushes of the others --> reduce each chunk that has all pushes --> vote ..
 *
 * A link that breaks takes pushes away that were said to have arrived. They
 * come again, all of them, since their rank has no newer weights: the step
 * waits.
 */
#include "config.h"

#include "server/commit.h"
#include "server/push.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum gw_status gw_quorum_open(struct gw_server *server, struct gw_error *error)
{
    struct gw_quorum *quorum = &server->quorum;
    quorum->counts = calloc(server->ranks, sizeof *quorum->counts);
    quorum->arrived = calloc(server->ranks, sizeof *quorum->arrived);
    if (!quorum->counts || !quorum->arrived)
        return gw_fail(error, GW_ENOMEM, "no memory for %u workers",
                       server->ranks);
    return GW_OK;
}

void gw_quorum_close(struct gw_server *server)
{
    free(server->quorum.counts);
    free(server->quorum.arrived);
}

static int is_decided(const struct gw_server *server, uint32_t index)
{
    return server->quorum.decided == server->shard->chunk[index].version + 1;
}

static int
leaves_out(const struct gw_server *server, uint32_t rank, uint32_t index)
{
    return is_decided(server, index) && !server->quorum.counts[rank];
}

static int awaits(const struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_quorum *quorum = &server->quorum;
    if (gw_shard_slot(server->shard, rank, index)->held)
        return 0;
    return is_decided(server, index)
               ? quorum->counts[rank]
               : server->shard->chunk[index].held < server->regime.quorum;
}

/* ---- arrivals ---- */

/* Unacknowledged messages to shard 0: further arrivals are gathered into
   one. */
#define ARRIVED_MOST 16

/* A link that broke may make it whole twice. */
static void note_arrival(struct gw_quorum *quorum, uint32_t rank)
{
    for (uint32_t i = 0; i < quorum->arrived_n; i++)
        if (quorum->arrived[i] == rank)
            return;
    quorum->arrived[quorum->arrived_n++] = rank;
}

static void tell_arrived(struct gw_server *server)
{
    struct gw_quorum *quorum = &server->quorum;
    const struct gw_arrived arrived = {.clock = server->shard->chunk[0].version,
                                       .ranks = quorum->arrived,
                                       .ranks_n = quorum->arrived_n};
    if (quorum->arrived_n == 0 ||
        (!server->leader &&
         gw_peer_untaken(server->leader_peer) >= ARRIVED_MOST))
        return;
    quorum->arrived_n = 0;
    gw_vote_arrived(server, NULL, &arrived);
}

void gw_quorum_taken(struct gw_peer *leader)
{
    struct gw_server *server = leader->owner;
    if (server->running && !gw_server_is_over(server) &&
        server->regime.quorum > 0)
        tell_arrived(server);
}

/* ---- pushes ---- */

static int is_complete(const struct gw_server *server, uint32_t index)
{
    return is_decided(server, index) &&
           server->shard->chunk[index].held == server->regime.quorum;
}

static void held(struct gw_server *server, uint32_t rank, uint32_t index)
{
    struct gw_session *session = &server->session[rank];
    if (is_decided(server, index) || ++session->pushed < server->shard->chunks)
        return;
    note_arrival(&server->quorum, rank);
    tell_arrived(server);
}

static void unheld(struct gw_server *server, uint32_t rank, uint32_t index)
{
    if (!is_decided(server, index))
        server->session[rank].pushed--;
}

/* ---- the decision ---- */

static int makes_sense(const struct gw_server *server,
                       const struct gw_decision *decision)
{
    if (server->regime.quorum == 0 ||
        decision->ranks_n != server->regime.quorum ||
        server->quorum.decided == decision->clock + 1)
        return 0;
    for (uint32_t i = 0; i < server->shard->chunks; i++)
        if (server->shard->chunk[i].version != decision->clock)
            return 0;
    for (uint32_t i = 0; i < decision->ranks_n; i++)
        if (decision->ranks[i] >= server->ranks ||
            (i > 0 && decision->ranks[i] <= decision->ranks[i - 1]))
            return 0;
    return 1;
}

/* The pushes of a rank for this clock are late, deferred ones too. */
static void drop_pushes(struct gw_server *server, uint32_t rank)
{
    for (uint32_t i = 0; i < server->shard->chunks; i++) {
        const struct gw_shard_slot *slot =
            gw_shard_slot(server->shard, rank, i);
        if (!slot->held && !slot->landed)
            continue;
        gw_due_undefer(&server->due, slot->landed);
        gw_push_late(server, rank, i, server->shard->chunk[i].version);
    }
}

void gw_quorum_decided(struct gw_server *server,
                       const struct gw_decision *decision)
{
    struct gw_quorum *quorum = &server->quorum;
    if (server->shard->chunks == 0)
        return; /* nobody pushes here, and it may be in the next policy */
    if (!makes_sense(server, decision)) {
        gw_server_finish(server, GW_EPROTO,
                         "decision %" PRIu64
                         " names %u workers for step %" PRIu64
                         ", which this job does not do",
                         decision->number, decision->ranks_n, decision->clock);
        return;
    }
    quorum->decided = decision->clock + 1;
    quorum->arrived_n = 0; /* nobody waits for them any more */
    memset(quorum->counts, 0, server->ranks);
    for (uint32_t i = 0; i < decision->ranks_n; i++)
        quorum->counts[decision->ranks[i]] = 1;
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        server->session[rank].pushed = 0;
        if (!quorum->counts[rank])
            drop_pushes(server, rank);
    }
    gw_due_add_all(&server->due);
}

/* The last decision was of another regime. */
static void begin(struct gw_server *server)
{
    server->quorum.decided = 0;
}

const struct gw_commit_ops gw_commit_quorum = {
    .word = "whole-step",
    .copies = 1,
    .is_complete = is_complete,
    .held = held,
    .unheld = unheld,
    .leaves_out = leaves_out,
    .awaits = awaits,
    .can_miss = gw_commit_holds_any,
    .reduce = gw_whole_reduce,
    .stored = gw_whole_stored,
    .applied = gw_commit_reached,
    .resume = gw_whole_resume,
    .begin = begin,
    .decided = gw_commit_decided_version,
    .label = gw_commit_label_version,
    .step = gw_commit_step_is_version,
    .quiesce = gw_commit_nothing,
    .cut = gw_commit_cut_at,
    .cut_fault = gw_commit_cut_fault,
    .switch_fault = gw_commit_switch_fault,
};
