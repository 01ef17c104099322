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

/* A decision stands: everybody hears of it, but for a standby that has. */
static void tell(struct gw_server *server, const struct gw_decision *decision)
{
    for (struct gw_peer *peer = gw_member_peers(server->member); peer;
         peer = gw_peer_next(peer))
        if (peer != server->copy.peer)
            gw_behind_tell(server, peer, decision);
    follow(server, decision);
}

static void emitted(void *owner, const struct gw_decision *decision)
{
    struct gw_server *server = owner;
    if (server->config.cluster.copies == 1) {
        tell(server, decision);
        return;
    }
    gw_recent_add(server, decision);
    if (server->copy.peer)
        gw_behind_tell(server, server->copy.peer, decision);
    else
        gw_recent_taken(server, decision->number);
}

static void stand_by(struct gw_server *server,
                     const struct gw_decision *decision)
{
    if (!server->led)
        return;
    gw_recent_add(server, decision);
    gw_leader_follow(server->led, decision);
    gw_standby_decided(server);
}

/* A standby that comes later is told of earlier ones; the part of a cut may
   still be its to write. */
static void recall(struct gw_server *server, const struct gw_decision *decision)
{
    struct gw_cut cut;
    if (decision->kind == GW_DECIDE_CUT && gw_cut_read(decision, &cut) == GW_OK)
        gw_save_recall_cut(server, decision->clock, cut.version);
    if (decision->kind == GW_DECIDE_END && !gw_server_is_ending(server))
        gw_server_ending_at(server, decision->clock);
    if (!server->led)
        return;
    gw_recent_add(server, decision);
    gw_leader_recalled(server->led, decision);
}

/* A standby in the place of shard 0 says once more what that one had told. */
void gw_follow_decision(struct gw_server *server,
                        const struct gw_decision *decision)
{
    int has_copies = server->config.cluster.copies > 1;
    if (has_copies && decision->clocks_n != 0) {
        gw_server_finish(server, GW_EPROTO,
                         "decision %" PRIu64 " of shard 0 has clocks, in a job "
                         "whose ranks make each step together",
                         decision->number);
        return;
    }
    if (has_copies && decision->number <= server->decision) {
        recall(server, decision);
        return;
    }
    /* without chunks it votes on nothing, so it may be far behind */
    if (decision->number != server->decision + 1 &&
        !(has_copies && server->shard->chunks == 0)) {
        gw_server_finish(server, GW_EPROTO,
                         "decision %" PRIu64 " came after decision %" PRIu64,
                         decision->number, server->decision);
        return;
    }
    follow(server, decision);
    if (!gw_server_is_over(server))
        stand_by(server, decision);
}

static void on_cut_timer(struct gw_timer *timer)
{
    struct gw_server *server = timer->owner;
    gw_leader_want_cut(server->leader);
    gw_timer_start(server->loop, timer,
                   server->config.checkpoint.every.n * 1000000);
}

static void start_cut_timer(struct gw_server *server)
{
    server->cut_timer.fire = on_cut_timer;
    server->cut_timer.owner = server;
    if (server->config.checkpoint.every.unit == GW_SECONDS)
        gw_timer_start(server->loop, &server->cut_timer,
                       server->config.checkpoint.every.n * 1000000);
}

enum gw_status gw_follow_open(struct gw_server *server, struct gw_error *error)
{
    const struct gw_decision_state *state = &server->start.state;
    gw_server_ending_at(server, GW_NEVER_CLOCK);
    server->loss_scale = state->loss_scale > 0
                             ? state->loss_scale
                             : gw_loss_scale_first(&server->config);
    gw_recent_open(server, tell);
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
    enum gw_status status = gw_leader_create(
        &options, server->stands_by ? &server->led : &server->leader, error);
    if (status == GW_OK && !server->stands_by)
        start_cut_timer(server);
    return status;
}

struct listener {
    struct gw_server *server;
    struct gw_peer *peer;
};

static void tell_kept(void *owner, const struct gw_decision *decision)
{
    const struct listener *to = owner;
    if (decision->number < gw_recent_first(to->server))
        gw_tell_decision(to->server, to->peer, decision);
}

/* Tells decisions of the long past that still matter, and all of late. A member
   that has heard of one passes over it. */
static void tell_past(struct gw_server *server, struct gw_peer *peer)
{
    struct listener to = {server, peer};
    if (server->config.cluster.copies == 1)
        return; /* nobody comes late, and no other one leads */
    gw_leader_recall_kept(server->leader, tell_kept, &to);
    gw_recent_tell(server, peer);
}

void gw_follow_begin(struct gw_server *server,
                     struct gw_peer *peer,
                     int is_late)
{
    if (is_late)
        gw_standing_tell(server, peer);
    tell_past(server, peer);
}

void gw_follow_standing(struct gw_server *server,
                        const struct gw_standing *standing)
{
    if (!server->stands_by || server->decision > 0)
        return; /* it has followed them */
    server->decision = standing->decision;
    server->loss_scale = standing->state.loss_scale;
    gw_switch_start(server, standing->base_clock, standing->base_pushes);
    if (server->led)
        gw_leader_stand(server->led, &standing->state, standing->decision);
    gw_standby_decided(server);
    gw_due_decided(&server->due);
}

void gw_follow_take_over(struct gw_server *server, uint64_t version)
{
    if (!server->led)
        return;
    server->leader = server->led;
    server->led = NULL;
    server->recent.taken = server->recent.last;
    if (gw_away_is_known(&server->home.away)) /* else it hears all later */
        tell_past(server, server->coordinator);
    start_cut_timer(server);
    gw_leader_take_over(server->leader, version);
}

void gw_follow_close(struct gw_server *server)
{
    gw_timer_stop(server->loop, &server->cut_timer);
    gw_leader_destroy(server->leader);
    gw_leader_destroy(server->led);
    server->leader = server->led = NULL;
}
