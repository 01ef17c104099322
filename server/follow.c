/*
 * The stream of decisions at a shard. Shard 0 leads: its leader's decisions go
 * to every worker, every shard and the coordinator, and are followed here like
 * everywhere. The other shards send their votes to shard 0 (vote.c) and follow
 * its decisions in order.
 */
#include "config.h"

#include "server/commit.h"

#include <inttypes.h>

/* A shard needs only the version of the state that it carries. */
static void follow_cut(struct gw_server *server,
                       const struct gw_decision *decision)
{
    struct gw_cut cut = {.version = 0};
    gw_commit_of(server)->quiesce(server);
    if (gw_cut_read(decision, &cut) == GW_OK &&
        !gw_switch_delays_cut(server, decision->clock, cut.version))
        gw_save_cut(server, decision->clock,
                    gw_commit_of(server)->cut(server, cut.version));
}

static void follow(struct gw_server *server, const struct gw_decision *decision)
{
    const char *fault = gw_follow_fault(server, decision);
    if (fault) {
        gw_server_finish(server, GW_EPROTO,
                         "decision %" PRIu64 " of shard 0: %s",
                         decision->number, fault);
        return;
    }
    server->decision = decision->number;
    switch (decision->kind) {
    case GW_DECIDE_STEP:
    case GW_DECIDE_TRUST:
        gw_whole_decided(server, decision);
        break;
    case GW_DECIDE_COUNT:
        gw_quorum_decided(server, decision);
        break;
    case GW_DECIDE_CUT:
        follow_cut(server, decision);
        break;
    case GW_DECIDE_END:
        gw_commit_of(server)->quiesce(server); /* workers pull on this */
        gw_server_ending_at(server, decision->clock);
        break;
    case GW_DECIDE_QUIESCE:
        gw_quiesce_begin(server);
        break;
    case GW_DECIDE_RESUME:
        gw_commit_of(server)->quiesce(server);
        gw_quiesce_end(server,
                       decision->reason || gw_server_is_ending(server) ||
                           gw_switch_renumbers(server, decision->number - 1));
        break;
    case GW_DECIDE_SWITCH:
        gw_switch_decided(server, decision);
        break;
    default:
        break; /* scores concern workers */
    }
    gw_due_decided(&server->due);
}

static void emitted(void *owner, const struct gw_decision *decision)
{
    struct gw_server *server = owner;
    for (struct gw_peer *peer = gw_member_peers(server->member); peer;
         peer = gw_peer_next(peer))
        gw_behind_tell(server, peer, decision);
    follow(server, decision);
}

void gw_follow_decision(struct gw_server *server,
                        const struct gw_decision *decision)
{
    if (decision->number != server->decision + 1) {
        gw_server_finish(server, GW_EPROTO,
                         "decision %" PRIu64 " came after decision %" PRIu64,
                         decision->number, server->decision);
        return;
    }
    follow(server, decision);
}

static void on_cut_timer(struct gw_timer *timer)
{
    struct gw_server *server = timer->owner;
    gw_leader_want_cut(server->leader);
    gw_timer_start(server->loop, timer,
                   server->config.checkpoint.every.n * 1000000);
}

enum gw_status gw_follow_open(struct gw_server *server, struct gw_error *error)
{
    const struct gw_decision_state *state = &server->start.state;
    gw_server_ending_at(server, GW_NEVER_CLOCK);
    server->loss_scale = state->loss_scale > 0
                             ? state->loss_scale
                             : gw_loss_scale_first(&server->config);
    if (server->number != 0)
        return GW_OK;
    struct gw_leader_options options = {
        .config = &server->config,
        .map = server->map,
        .ranks = server->ranks,
        .shards = server->shards,
        .total_steps = server->start.total_steps,
        .course = server->start.course,
        .regime = server->regime,
        .state = *state,
        .clocks = server->clocks,
        .split = gw_divide_first(server),
        .splits = gw_divide_repeated(server),
        .resumed = server->start.resume[0] != '\0',
        .emit = emitted,
        .owner = server,
    };
    enum gw_status status = gw_leader_create(&options, &server->leader, error);
    if (status != GW_OK)
        return status;
    server->cut_timer.fire = on_cut_timer;
    server->cut_timer.owner = server;
    if (server->config.checkpoint.every.unit == GW_SECONDS)
        gw_timer_start(server->loop, &server->cut_timer,
                       server->config.checkpoint.every.n * 1000000);
    return GW_OK;
}

void gw_follow_close(struct gw_server *server)
{
    gw_timer_stop(server->loop, &server->cut_timer);
    gw_leader_destroy(server->leader);
    server->leader = NULL;
}
