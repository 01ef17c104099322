/*
 * A coordinator in the place of one that has died, while the job runs:
 *
 *   members come back --> shard 0 tells where the job stands --> the job runs
 *        |                                                       on here
 *        +-- some do not: coordinator_missing.c
 *
 * The members are those of the register, and nobody else: each proves with its
 * secret that it is one. They had gone on without a coordinator, and hold back
 * what they have to say until they are told a view that names nobody; shard 0
 * gets it first, and answers with its standing and its decisions that are open,
 * so that later words of others find everything as they left it.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_run.h"

/* A member notices a silence, and dials again and again: it has so long from
   the last one on that came back. One without which the job cannot go on has
   cluster.patience. */
#define SILENCES 2
#define LEAST_US 2000000

struct gw_rejoin {
    struct gw_timer timer;
    uint64_t since_us;
    uint64_t epoch; /* the latest that a member has heard of */
    int is_asked;   /* shard 0 is, */
    uint64_t asked; /* by the view of that epoch; 0: not yet */
};

static void maybe_ask(struct gw_coordinator *self);

static uint64_t limit_us(const struct gw_coordinator *self)
{
    uint64_t limit = SILENCES * self->silence_us;
    return limit > LEAST_US ? limit : LEAST_US;
}

static void on_timer(struct gw_timer *timer)
{
    struct gw_coordinator *self = timer->owner;
    struct gw_rejoin *rejoin = self->rejoin;
    uint64_t patience_us = (uint64_t)(self->config->cluster.patience * 1e6);
    uint64_t waited_us = gw_loop_now(self->loop) - rejoin->since_us;
    int is_over = waited_us >= patience_us;
    gw_missing_set_wait(self,
                        is_over ? GW_WAIT_FOR_NOBODY : GW_WAIT_FOR_NEEDED);
    if (!is_over)
        gw_timer_start(self->loop, timer, patience_us - waited_us);
    maybe_ask(self);
}

/* Others are about to come, unless the time for all is over. */
static void wait_again(struct gw_coordinator *self)
{
    if (gw_missing_wait(self) != GW_WAIT_FOR_NOBODY)
        gw_missing_set_wait(self, GW_WAIT_FOR_ALL);
    gw_timer_start(self->loop, &self->rejoin->timer, limit_us(self));
}

enum gw_status gw_rejoin_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    const struct gw_membership *before = gw_before(self);
    self->rejoin = calloc(1, sizeof *self->rejoin);
    struct gw_rejoin *rejoin = self->rejoin;
    if (!rejoin)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    rejoin->timer.fire = on_timer;
    rejoin->timer.owner = self;
    rejoin->since_us = gw_loop_now(self->loop);
    if (!before)
        return GW_OK;
    rejoin->epoch = before->epoch;
    gw_timer_start(self->loop, &rejoin->timer, limit_us(self));
    return GW_OK;
}

void gw_rejoin_close(struct gw_coordinator *self)
{
    if (!self->rejoin)
        return;
    gw_timer_stop(self->loop, &self->rejoin->timer);
    free(self->rejoin);
    self->rejoin = NULL;
}

/* ---- members come back ---- */

/* A standby logs in as a server. */
static const struct gw_membership_member *
find(const struct gw_coordinator *self, const struct gw_peer *peer)
{
    const struct gw_membership *before = gw_before(self);
    for (size_t i = 0; before && i < before->members; i++)
        if ((before->member[i].role == GW_ROLE_WORKER) ==
                (peer->role == GW_ROLE_WORKER) &&
            before->member[i].incarnation == peer->incarnation)
            return &before->member[i];
    return NULL;
}

const char *gw_rejoin_fault(const struct gw_coordinator *self,
                            const struct gw_peer *peer,
                            const struct gw_join *join)
{
    const struct gw_membership_member *known = find(self, peer);
    uint8_t secret[GW_DIGEST_BYTES];
    if (join->epoch == 0)
        return "this coordinator takes the place of another one, and waits for "
               "the members of the job; try again";
    if (self->phase != GW_PHASE_REJOINING || self->rejoin->is_asked || !known ||
        gw_missing_is_left(self, peer->incarnation))
        return "this process was away and given up, so that the job goes on "
               "without it";
    gw_membership_digest(&join->secret, sizeof join->secret, secret);
    return gw_proof_is(secret, known->secret, sizeof secret)
               ? NULL
               : "no proof that this is the member that it says it is";
}

void gw_rejoin_taken(struct gw_coordinator *self,
                     struct gw_seat *who,
                     uint64_t epoch)
{
    const struct gw_membership_member *known = find(self, who->peer);
    who->role = known->role;
    who->id = who->peer->id = known->id;
    who->server = known->server;
    who->caught = who->is_counted = known->caught;
    who->ready = 1;
    gw_start_name_member(who);
    if (gw_seat_has_shard(who))
        gw_roster_place_server(self, who->server, who->process, who->threads);
    gw_log_info(self->log, "%s is back", who->peer->name);
    if (epoch > self->rejoin->epoch)
        self->rejoin->epoch = epoch;
    wait_again(self);
    maybe_ask(self);
}

/* Keys come from shard 0, which is there in any case, or from its standby: the
   same ones, in the same parts. */
static const char *take_keys(struct gw_coordinator *self,
                             const struct gw_seat *who,
                             const struct gw_declare *declare)
{
    int is_again = declare->keys_first < gw_declaration_keys(self) &&
                   self->config->cluster.copies > 1;
    return who->id == 0 && (is_again || gw_declaration_add_keys(self, declare))
               ? NULL
               : "keys that nobody waits for";
}

void gw_rejoin_declared(struct gw_coordinator *self,
                        struct gw_seat *who,
                        const struct gw_declare *declare)
{
    const char *fault = gw_seat_has_shard(who)
                            ? take_keys(self, who, declare)
                            : gw_declaration_difference(self, who, declare);
    if (fault) {
        gw_peer_reject(who->peer, 0, fault);
        return;
    }
    if (who->role == GW_ROLE_WORKER)
        gw_seat_declare(who, declare);
    who->declared = 1;
    maybe_ask(self);
}

static int keys_are_here(const struct gw_coordinator *self)
{
    return gw_declaration_keys(self) > 0 &&
           gw_declaration_keys(self) == gw_declaration(self)->keys_total;
}

/* ---- who is missing ---- */

static void print_missing(const struct gw_membership_member *one,
                          char name[GW_PEER_NAME_MAX])
{
    gw_roster_print_name(one->role, one->id, one->server, one->host, one->pid,
                         name);
}

void gw_rejoin_awaited(const struct gw_coordinator *self,
                       char *text,
                       size_t room)
{
    const struct gw_membership_member *one = gw_missing_awaited(self, 0);
    char name[GW_PEER_NAME_MAX] = "shard 0";
    if (one)
        print_missing(one, name);
    snprintf(text, room, "%s to come back", name);
}

int gw_rejoin_gone(struct gw_coordinator *self, uint32_t pid)
{
    int found = gw_missing_has_gone(self, pid);
    if (found && self->phase == GW_PHASE_REJOINING)
        maybe_ask(self);
    return found;
}

void gw_rejoin_asked_for(struct gw_coordinator *self,
                         const struct gw_join *join)
{
    if (join->role == GW_ROLE_SERVER || gw_missing_asked_for(self, join->rank))
        maybe_ask(self);
}

/* Shard 0 was asked: it, or another one, is asked once more. */
void gw_rejoin_lost(struct gw_coordinator *self,
                    struct gw_seat *who,
                    const char *text)
{
    if (gw_seat_has_shard(who) && self->config->cluster.copies == 1) {
        gw_coordinator_end_and_look(self, GW_EDEAD, "%s", text);
        return;
    }
    gw_log_info(self->log, "%s", text);
    gw_missing_lost(self, who);
    gw_seat_close(self, who);
    if (gw_seat_has_shard(who) && self->rejoin->is_asked) {
        self->rejoin->is_asked = 0;
        wait_again(self);
    }
    maybe_ask(self);
}

/* No job is left without the shard, or without anybody who knows its steps. */
static void end_without(struct gw_coordinator *self,
                        const struct gw_membership_member *one)
{
    char name[GW_PEER_NAME_MAX] = "shard 0";
    if (one)
        print_missing(one, name);
    if (gw_missing_wait(self) == GW_WAIT_FOR_NOBODY && !gw_roster_first(self))
        gw_coordinator_end_and_look(self, GW_EDEAD,
                                    "nobody is left of the job that lost its "
                                    "coordinator");
    else
        gw_coordinator_end_and_look(
            self, GW_EDEAD, "%s died while the job had no coordinator", name);
}

/* ---- shard 0 is asked ---- */

/* Behind the names of servers, which may have changed while not all have heard
   of it: the members are ours. */
static void tell_back(struct gw_coordinator *self, struct gw_seat *who)
{
    uint64_t epoch = self->rejoin->epoch;
    if (self->config->cluster.copies > 1)
        epoch = gw_coordinator_tell_shards(self, who, epoch);
    const struct gw_message message = {.kind = GW_MESSAGE_VIEW,
                                       .view = {.epoch = ++epoch}};
    gw_coordinator_tell(self, who->peer, &message);
    gw_member_set_epoch(self->member, epoch);
}

void gw_rejoin_registered(struct gw_coordinator *self)
{
    struct gw_rejoin *rejoin = self->rejoin;
    if (self->phase != GW_PHASE_REJOINING || !rejoin->is_asked || rejoin->asked)
        return;
    tell_back(self, gw_roster_leader(self));
    rejoin->asked = gw_member_epoch(self->member);
}

static void ask(struct gw_coordinator *self)
{
    self->rejoin->is_asked = 1;
    self->rejoin->asked = 0;
    gw_timer_stop(self->loop, &self->rejoin->timer);
    gw_missing_leave(self);
    if (self->rejoin->epoch < gw_member_epoch(self->member))
        self->rejoin->epoch = gw_member_epoch(self->member);
    gw_member_set_epoch(self->member, self->rejoin->epoch);
    gw_register_write(self);
}

/* Those that come are told the end. */
static void maybe_ask(struct gw_coordinator *self)
{
    if (self->phase != GW_PHASE_REJOINING || self->rejoin->is_asked)
        return;
    enum gw_missing_wait wait = gw_missing_wait(self);
    const struct gw_membership_member *awaited = gw_missing_awaited(self, 0);
    const struct gw_membership_member *needed = gw_missing_needed(self);
    int is_here = keys_are_here(self) && gw_declaration_is_here(self);
    if (needed && (!awaited || wait != GW_WAIT_FOR_ALL))
        end_without(self, needed);
    else if (wait == GW_WAIT_FOR_NOBODY && !is_here)
        end_without(self, gw_missing_awaited(self, 1));
    else if (!awaited && is_here)
        ask(self);
}

/* ---- the job runs on here ---- */

static enum gw_status take_policy(struct gw_coordinator *self,
                                  const struct gw_standing *standing,
                                  struct gw_error *error)
{
    struct gw_policy_word word;
    struct gw_regime regime;
    enum gw_status status =
        gw_policy_word_parse(standing->policy, &word, error);
    if (status == GW_OK)
        status = gw_config_check_word(self->config, &word, error);
    if (status == GW_OK)
        status = gw_regime_make(self->config, &word, standing->base_clock,
                                &regime, error);
    if (status == GW_OK)
        gw_regimes_rejoin(self, &regime, standing->base_clock,
                          standing->base_pushes,
                          standing->base_clock != gw_steps_begin(self));
    return status;
}

/* Steps of the policy that were not applied. */
static uint64_t count_skips(const struct gw_coordinator *self,
                            const struct gw_standing *standing)
{
    const struct gw_decision_state *state = &standing->state;
    uint64_t workers = self->config->cluster.workers;
    if (gw_regimes_is_per_push(self) || state->clock < standing->base_clock ||
        state->pushes < standing->base_pushes)
        return 0;
    uint64_t made = (state->pushes - standing->base_pushes) / workers;
    uint64_t steps = state->clock - standing->base_clock;
    return made < steps ? steps - made : 0;
}

static enum gw_status take(struct gw_coordinator *self,
                           const struct gw_standing *standing,
                           struct gw_error *error)
{
    enum gw_status status = gw_start_take_program(self, error);
    if (status == GW_OK)
        status = take_policy(self, standing, error);
    if (status != GW_OK)
        return status;
    gw_decided_rejoin(self, standing->decision, standing->renumbered);
    gw_steps_reach(self, standing->state.clock);
    for (uint32_t rank = 0; rank < self->config->cluster.workers; rank++)
        gw_steps_set_first(self, rank, standing->base_clock);
    gw_gather_rejoin(self, standing->state.clock, count_skips(self, standing));
    gw_keeper_rejoin(self, &standing->state);
    return GW_OK;
}

static void run(struct gw_coordinator *self, const struct gw_seat *leader)
{
    self->phase = GW_PHASE_RUNNING;
    if (!gw_missing_open_places(self))
        return;
    gw_coordinator_note(
        self,
        "this coordinator takes the place of the one before, "
        "%.1f s after it began: step %" PRIu64 " is made",
        (double)(gw_loop_now(self->loop) - self->rejoin->since_us) / 1e6,
        gw_coordinator_step(self));
    gw_copies_count(self);
    self->options.events->running(self->options.owner);
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        if (one != leader)
            tell_back(self, one);
    gw_stop_rejoined(self);
    gw_early_hear(self);
    gw_coordinator_maybe_done(self);
    gw_moves_look(self);
}

int gw_rejoin_standing(struct gw_coordinator *self,
                       struct gw_seat *shard,
                       const struct gw_standing *standing)
{
    struct gw_error error;
    if (self->phase != GW_PHASE_REJOINING)
        return 0;
    if (standing->epoch > gw_member_epoch(self->member) ||
        standing->epoch <= shard->stood) {
        gw_peer_reject(shard->peer, 0, "an answer to a view that it never got");
        return 1;
    }
    shard->stood = standing->epoch;
    if (!self->rejoin->is_asked || standing->epoch != self->rejoin->asked ||
        shard != gw_roster_leader(self))
        return 1; /* to a view before that */
    if (take(self, standing, &error) != GW_OK)
        gw_coordinator_end(self, error.status, "where shard 0 stands: %s",
                           error.text);
    else if (gw_missing_make_seats(self) == GW_OK &&
             gw_coordinator_tell_rejoined(self) == GW_OK)
        run(self, shard);
    else {
        gw_missing_drop_seats(self);
        gw_coordinator_end(self, GW_ENOMEM,
                           "the coordinator has no memory for the members");
    }
    return 1;
}
