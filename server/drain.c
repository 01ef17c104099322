#include "config.h"

#include "server/server_state.h"

#include <stdlib.h>

/* The rank wants weights for the clock that is its next one here. A want for
   a later one has only overtaken the push. */
int gw_drain_is_blocked(const struct gw_server *server, uint32_t rank)
{
    for (uint32_t i = 0; i < server->shard->chunks; i++) {
        const struct gw_want_slot *slot = gw_wants_slot(server->wants, rank, i);
        if (slot->open && slot->want.condition != GW_WANT_NOW &&
            slot->want.value <= server->session[rank].clock)
            return 1;
    }
    return 0;
}

static int is_answering(const struct gw_server *server)
{
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        for (uint32_t i = 0; i < server->shard->chunks; i++)
            if (gw_wants_slot(server->wants, rank, i)->sending)
                return 1;
    return 0;
}

int gw_drain_stands_still(const struct gw_server *server)
{
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        if (server->session[rank].pushed > 0)
            return 0;
    return server->drain.number && !is_answering(server);
}

/* Ranks that stand still are told again with every push and want that comes;
   each message is as long as there are ranks, and only the last counts. So
   many may be on their way, more than are acknowledged at once. */
#define SETTLED_MOST    16
#define SETTLE_LATER_US 1000

static void on_settle_timer(struct gw_timer *timer)
{
    gw_drain_changed(timer->owner);
}

/* Shard 0 does not keep up: a timer says it later. */
static int settles_later(struct gw_server *server)
{
    if (server->leader || gw_peer_untaken(server->leader_peer) < SETTLED_MOST)
        return 0;
    server->drain.later.fire = on_settle_timer;
    server->drain.later.owner = server;
    gw_timer_start(server->loop, &server->drain.later, SETTLE_LATER_US);
    return 1;
}

static void settle(struct gw_server *server)
{
    struct gw_settled settled = {.decision = server->drain.number,
                                 .clocks = server->drain.clocks,
                                 .clocks_n = server->ranks,
                                 .blocked = server->drain.blocked};
    if (server->shard->chunks == 0)
        return; /* nothing is pushed here */
    if (is_answering(server))
        return; /* an answer on its way must not change */
    if (settles_later(server))
        return;
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        const struct gw_session *session = &server->session[rank];
        if (session->pushed > 0)
            return;
        server->drain.clocks[rank] = session->clock;
        if (gw_drain_is_blocked(server, rank))
            server->drain.blocked[settled.blocked_n++] = rank;
    }
    gw_vote_settled(server, NULL, &settled);
}

void gw_drain_begin(struct gw_server *server)
{
    server->drain.number = server->decision;
    settle(server);
}

void gw_drain_end(struct gw_server *server, int pulls)
{
    server->drain.number = 0;
    if (pulls)
        server->drain.voided = server->decision;
    for (uint32_t i = 0; i < server->shard->chunks; i++) {
        for (uint32_t rank = 0; pulls && rank < server->ranks; rank++) {
            struct gw_want_slot *slot = gw_wants_slot(server->wants, rank, i);
            if (slot->want.condition != GW_WANT_NOW &&
                slot->decision < server->decision)
                slot->open = 0;
        }
    }
    gw_due_add_all(&server->due);
}

int gw_drain_goes_on(const struct gw_server *server)
{
    return server->drain.number != 0;
}

void gw_drain_changed(struct gw_server *server)
{
    if (server->drain.number)
        settle(server);
}

int gw_drain_voids(const struct gw_server *server, uint64_t decision)
{
    return decision < server->drain.voided;
}

enum gw_status gw_drain_open(struct gw_server *server)
{
    struct gw_drain *drain = &server->drain;
    drain->clocks = calloc(server->ranks, sizeof *drain->clocks);
    drain->blocked = calloc(server->ranks, sizeof *drain->blocked);
    return drain->clocks && drain->blocked ? GW_OK : GW_ENOMEM;
}

void gw_drain_stop(struct gw_server *server)
{
    gw_timer_stop(server->loop, &server->drain.later);
}

void gw_drain_close(struct gw_server *server)
{
    free(server->drain.clocks);
    free(server->drain.blocked);
}
