#include "config.h"

#include "server/server_state.h"

#include <stdlib.h>

/* The rank wants weights for the clock that is its next one here. A want for
   a later one has only overtaken the push. */
int gw_quiesce_is_blocked(const struct gw_server *server, uint32_t rank)
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

int gw_quiesce_stands_still(const struct gw_server *server)
{
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        if (server->session[rank].pushed > 0)
            return 0;
    return server->quiesce.number && !is_answering(server);
}

/* Ranks that stand still are told again with every push and want that comes;
   each message is as long as there are ranks, and only the last counts. So
   many may be on their way, more than are acknowledged at once. */
#define QUIESCED_MOST   16
#define REPORT_LATER_US 1000

static void on_report_timer(struct gw_timer *timer)
{
    gw_quiesce_changed(timer->owner);
}

/* Shard 0 does not keep up: a timer says it later. */
static int reports_later(struct gw_server *server)
{
    if (server->leader || gw_peer_untaken(server->leader_peer) < QUIESCED_MOST)
        return 0;
    server->quiesce.later.fire = on_report_timer;
    server->quiesce.later.owner = server;
    gw_timer_start(server->loop, &server->quiesce.later, REPORT_LATER_US);
    return 1;
}

static void report(struct gw_server *server)
{
    struct gw_quiesced quiesced = {.decision = server->quiesce.number,
                                   .clocks = server->quiesce.clocks,
                                   .clocks_n = server->ranks,
                                   .blocked = server->quiesce.blocked};
    if (server->shard->chunks == 0)
        return; /* nothing is pushed here */
    if (is_answering(server))
        return; /* an answer on its way must not change */
    if (reports_later(server))
        return;
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        const struct gw_session *session = &server->session[rank];
        if (session->pushed > 0)
            return;
        server->quiesce.clocks[rank] = session->clock;
        if (gw_quiesce_is_blocked(server, rank))
            server->quiesce.blocked[quiesced.blocked_n++] = rank;
    }
    gw_vote_quiesced(server, NULL, &quiesced);
}

void gw_quiesce_begin(struct gw_server *server)
{
    server->quiesce.number = server->decision;
    report(server);
}

void gw_quiesce_end(struct gw_server *server, int pulls)
{
    server->quiesce.number = 0;
    if (pulls)
        server->quiesce.voided = server->decision;
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

int gw_quiesce_goes_on(const struct gw_server *server)
{
    return server->quiesce.number != 0;
}

void gw_quiesce_changed(struct gw_server *server)
{
    if (server->quiesce.number)
        report(server);
}

int gw_quiesce_voids(const struct gw_server *server, uint64_t decision)
{
    return decision < server->quiesce.voided;
}

enum gw_status gw_quiesce_open(struct gw_server *server)
{
    struct gw_quiesce *quiesce = &server->quiesce;
    quiesce->clocks = calloc(server->ranks, sizeof *quiesce->clocks);
    quiesce->blocked = calloc(server->ranks, sizeof *quiesce->blocked);
    return quiesce->clocks && quiesce->blocked ? GW_OK : GW_ENOMEM;
}

void gw_quiesce_stop(struct gw_server *server)
{
    gw_timer_stop(server->loop, &server->quiesce.later);
}

void gw_quiesce_close(struct gw_server *server)
{
    free(server->quiesce.clocks);
    free(server->quiesce.blocked);
}
