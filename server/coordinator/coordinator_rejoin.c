/*
 * A coordinator in the place of one that has died, while the job runs:
 *
 *   members come back --> shard 0 tells where the job stands --> the job runs
 *        |                                                       on here
 *        +-- a worker does not: its rank is vacant. A server does not: the job
 *            ends
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

/* A worker notices a silence, and dials again and again: it has so long from
   the last member on that came back. Without a server the job cannot go on: it
   has cluster.patience. */
#define SILENCES 2
#define LEAST_US 3000000

struct gw_rejoin {
    struct gw_timer timer;
    uint64_t since_us;
    uint8_t *gone; /* [members] of the register: its process is */
    int is_late;   /* workers are not waited for any more, */
    int is_over;   /* nor is anybody */
    int is_asked;  /* shard 0 is */
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
    rejoin->is_late = 1;
    rejoin->is_over = waited_us >= patience_us;
    if (!rejoin->is_over)
        gw_timer_start(self->loop, timer, patience_us - waited_us);
    maybe_ask(self);
}

enum gw_status gw_rejoin_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    const struct gw_membership *before = gw_before(self);
    self->rejoin = calloc(1, sizeof *self->rejoin);
    struct gw_rejoin *rejoin = self->rejoin;
    if (rejoin && before)
        rejoin->gone = calloc(before->members, sizeof *rejoin->gone);
    if (!rejoin || (before && !rejoin->gone))
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    rejoin->timer.fire = on_timer;
    rejoin->timer.owner = self;
    rejoin->since_us = gw_loop_now(self->loop);
    if (before)
        gw_timer_start(self->loop, &rejoin->timer, limit_us(self));
    return GW_OK;
}

void gw_rejoin_close(struct gw_coordinator *self)
{
    if (!self->rejoin)
        return;
    gw_timer_stop(self->loop, &self->rejoin->timer);
    free(self->rejoin->gone);
    free(self->rejoin);
    self->rejoin = NULL;
}

/* ---- members come back ---- */

static const struct gw_membership_member *
find(const struct gw_coordinator *self, const struct gw_peer *peer)
{
    const struct gw_membership *before = gw_before(self);
    for (size_t i = 0; before && i < before->members; i++)
        if (before->member[i].role == peer->role &&
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
               "the members of the job: try again";
    if (self->phase != GW_PHASE_REJOINING || self->rejoin->is_asked || !known)
        return "this process was away and given up, so that the job goes on "
               "without it";
    gw_membership_digest(&join->secret, sizeof join->secret, secret);
    return gw_proof_is(secret, known->secret, sizeof secret)
               ? NULL
               : "no proof that this is the member that it says it is";
}

void gw_rejoin_place(const struct gw_coordinator *self,
                     const struct gw_peer *peer,
                     uint32_t *id_p,
                     uint32_t *server_p)
{
    const struct gw_membership_member *known = find(self, peer);
    *id_p = known->id;
    *server_p = known->server;
}

void gw_rejoin_taken(struct gw_coordinator *self, struct gw_seat *who)
{
    who->ready = 1;
    who->peer->id = who->id;
    if (who->role == GW_ROLE_SERVER)
        gw_roster_place_server(self, who->server, who->process);
    gw_log_info(self->log, "%s is back", who->peer->name);
    self->rejoin->is_late = 0;
    gw_timer_start(self->loop, &self->rejoin->timer, limit_us(self));
    maybe_ask(self);
}

/* Keys come from shard 0, which is there in any case. */
void gw_rejoin_declared(struct gw_coordinator *self,
                        struct gw_seat *who,
                        const struct gw_declare *declare)
{
    const char *fault = NULL;
    if (who->role == GW_ROLE_SERVER &&
        (who->id != 0 || !gw_declaration_add_keys(self, declare)))
        fault = "keys that nobody waits for";
    else if (who->role == GW_ROLE_WORKER)
        fault = gw_declaration_difference(self, who, declare);
    if (fault) {
        gw_peer_reject(who->peer, 0, fault);
        return;
    }
    if (who->role == GW_ROLE_WORKER)
        gw_seat_declare(who, declare);
    who->declared = 1;
    maybe_ask(self);
}

/* ---- who is missing ---- */

static int is_back(const struct gw_coordinator *self,
                   const struct gw_membership_member *one)
{
    const struct gw_seat *who = gw_roster_find(self, one->role, one->id);
    if (!who)
        return 0;
    if (one->role == GW_ROLE_WORKER)
        return who->declared;
    return one->id > 0 ||
           (gw_declaration_keys(self) > 0 &&
            gw_declaration_keys(self) == gw_declaration(self)->keys_total);
}

static void
print_missing(const struct gw_membership_member *one, char *text, size_t room)
{
    snprintf(text, room, "%s %u (%.40s, pid %u)", gw_role_name(one->role),
             one->role == GW_ROLE_SERVER ? one->server : one->id, one->host,
             one->pid);
}

/* One that is awaited, a server if there is one; NULL: nobody is. */
static const struct gw_membership_member *
awaited(const struct gw_coordinator *self, int even_gone)
{
    const struct gw_membership *before = gw_before(self);
    const struct gw_membership_member *found = NULL;
    for (size_t i = 0; i < before->members; i++)
        if ((even_gone || !self->rejoin->gone[i]) &&
            (!found || found->role != GW_ROLE_SERVER) &&
            !is_back(self, &before->member[i]))
            found = &before->member[i];
    return found;
}

void gw_rejoin_awaited(const struct gw_coordinator *self,
                       char *text,
                       size_t room)
{
    const struct gw_membership_member *one = awaited(self, 0);
    if (one)
        print_missing(one, text, room);
    else
        snprintf(text, room, "shard 0");
    size_t used = strlen(text);
    snprintf(text + used, room - used, " to come back");
}

int gw_rejoin_gone(struct gw_coordinator *self, uint32_t pid)
{
    const struct gw_membership *before = gw_before(self);
    int found = 0;
    for (size_t i = 0; before && i < before->members; i++)
        if (before->member[i].pid == pid &&
            before->member[i].machine == self->options.machine) {
            self->rejoin->gone[i] = 1;
            found = 1;
        }
    if (found && self->phase == GW_PHASE_REJOINING)
        maybe_ask(self);
    return found;
}

/* Its rank is vacant when the job runs on here; no shard can be. */
void gw_rejoin_lost(struct gw_coordinator *self,
                    struct gw_seat *who,
                    const char *text)
{
    const struct gw_membership *before = gw_before(self);
    if (who->role == GW_ROLE_SERVER) {
        gw_coordinator_end_and_look(self, GW_EDEAD, "%s", text);
        return;
    }
    gw_log_info(self->log, "%s", text);
    for (size_t i = 0; i < before->members; i++)
        if (before->member[i].incarnation == who->incarnation)
            self->rejoin->gone[i] = 1;
    gw_ahead_forget(self, who);
    gw_roster_remove(self, who);
    gw_files_forget(who);
    gw_peer_close(who->peer);
    maybe_ask(self);
}

/* No job is left without the shard, or without anybody who knows its steps. */
static void end_without(struct gw_coordinator *self,
                        const struct gw_membership_member *one)
{
    char name[GW_PEER_NAME_MAX];
    print_missing(one, name, sizeof name);
    if (self->rejoin->is_over && !gw_roster_first(self))
        gw_coordinator_end_and_look(self, GW_EDEAD,
                                    "nobody is left of the job that lost its "
                                    "coordinator");
    else
        gw_coordinator_end_and_look(
            self, GW_EDEAD, "%s died while the job had no coordinator", name);
}

/* ---- shard 0 is asked ---- */

static void tell_back(struct gw_coordinator *self, struct gw_seat *who)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_VIEW,
        .view = {.epoch = gw_member_epoch(self->member)}};
    gw_coordinator_tell(self, who->peer, &message);
}

static void tell_leader(struct gw_coordinator *self)
{
    tell_back(self, gw_roster_leader(self));
}

static const struct gw_membership_member *
find_lost_server(const struct gw_coordinator *self)
{
    const struct gw_membership *before = gw_before(self);
    for (size_t i = 0; i < before->members; i++)
        if (before->member[i].role == GW_ROLE_SERVER &&
            !is_back(self, &before->member[i]) &&
            (self->rejoin->is_over || self->rejoin->gone[i]))
            return &before->member[i];
    return NULL;
}

static void maybe_ask(struct gw_coordinator *self)
{
    struct gw_rejoin *rejoin = self->rejoin;
    const struct gw_membership *before = gw_before(self);
    if (self->phase != GW_PHASE_REJOINING || rejoin->is_asked)
        return;
    /* those that come are told the end */
    const struct gw_membership_member *lost =
        !awaited(self, 0) || rejoin->is_late ? find_lost_server(self) : NULL;
    if (lost || (rejoin->is_over && !gw_declaration_is_here(self))) {
        end_without(self, lost ? lost : awaited(self, 1));
        return;
    }
    const struct gw_membership_member *one = awaited(self, 0);
    if ((one && (one->role == GW_ROLE_SERVER || !rejoin->is_late)) ||
        !gw_roster_number_shards(self) || !gw_declaration_is_here(self))
        return;
    rejoin->is_asked = 1;
    gw_timer_stop(self->loop, &rejoin->timer);
    gw_member_set_epoch(self->member, before->epoch + 1);
    gw_register_write(self, tell_leader);
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

/* NULL: there is no memory. */
static struct gw_seat *make_missing(struct gw_coordinator *self, uint32_t rank)
{
    const struct gw_membership *before = gw_before(self);
    struct gw_seat *who = calloc(1, sizeof *who);
    if (!who)
        return NULL;
    who->role = GW_ROLE_WORKER;
    who->id = rank;
    for (size_t i = 0; i < before->members; i++) {
        const struct gw_membership_member *one = &before->member[i];
        if (one->role != GW_ROLE_WORKER || one->id != rank)
            continue;
        who->pid = one->pid;
        who->incarnation = one->incarnation;
        who->machine = one->machine;
        snprintf(who->host, sizeof who->host, "%s", one->host);
    }
    gw_roster_add(self, who);
    return who;
}

/* Workers without a process. 0: the job has ended for one. */
static int make_vacant(struct gw_coordinator *self)
{
    char text[GW_ERROR_TEXT_BYTES], name[GW_PEER_NAME_MAX];
    for (struct gw_seat *next, *one = gw_roster_first(self); one; one = next) {
        next = one->next;
        if (one->peer)
            continue;
        gw_roster_print(one, name);
        if (one->incarnation)
            snprintf(text, sizeof text,
                     "%s died while the job had no coordinator", name);
        else /* as it was before the coordinator died */
            snprintf(text, sizeof text, "rank %u has no worker", one->id);
        if (!gw_vacant_make(self, one, text)) {
            gw_roster_remove(self, one);
            gw_coordinator_end_and_look(self, GW_EDEAD, "%s", text);
            return 0;
        }
    }
    return 1;
}

static enum gw_status fill_seats(struct gw_coordinator *self)
{
    for (uint32_t rank = 0; rank < self->config->cluster.workers; rank++)
        if (!gw_roster_find(self, GW_ROLE_WORKER, rank) &&
            !make_missing(self, rank))
            return GW_ENOMEM;
    return gw_coordinator_tell_rejoined(self);
}

static void run(struct gw_coordinator *self, const struct gw_seat *leader)
{
    self->phase = GW_PHASE_RUNNING;
    if (!make_vacant(self))
        return;
    gw_coordinator_note(
        self,
        "this coordinator takes the place of the one before, "
        "%.1f s after it began: step %" PRIu64 " is made",
        (double)(gw_loop_now(self->loop) - self->rejoin->since_us) / 1e6,
        gw_coordinator_step(self));
    self->options.events->running(self->options.owner);
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        if (one != leader)
            tell_back(self, one);
    gw_stop_rejoined(self);
    gw_coordinator_maybe_done(self);
}

int gw_rejoin_standing(struct gw_coordinator *self,
                       struct gw_seat *shard,
                       const struct gw_standing *standing)
{
    struct gw_error error;
    if (self->phase != GW_PHASE_REJOINING)
        return 0;
    if (!self->rejoin->is_asked || shard->id != 0 ||
        standing->epoch != gw_member_epoch(self->member)) {
        gw_peer_reject(shard->peer, 0, "an answer to a view that it never got");
        return 1;
    }
    shard->stood = standing->epoch;
    if (take(self, standing, &error) != GW_OK)
        gw_coordinator_end(self, error.status, "where shard 0 stands: %s",
                           error.text);
    else if (fill_seats(self) != GW_OK)
        gw_coordinator_end(self, GW_ENOMEM,
                           "the coordinator has no memory for the members");
    else
        run(self, shard);
    return 1;
}
