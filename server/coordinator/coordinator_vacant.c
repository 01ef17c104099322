/*
 * Ranks without a worker, since theirs has died, until another one has taken
 * its place:
 *
 *   vacant --> joined --> declared --> begins
 *     |  |       |           |
 *     |  |       +-----------+--- it dies, too: vacant again
 *     |  +-- the one that was there is heard again: it was paused, or cut off
 *     +-- cluster.patience is over: the job ends. One that has joined is
 *         waited for as long as it is heard
 *
 *   joined     it has a seat, the job and the view
 *   declared   it has the job's model and data; shards take it for the
 *              rank by a view of a later epoch, and tell where they stand
 *   begins     at the least version of all chunks, which no chunk can
 *              leave by more than one step without this rank
 *
 * The others compute meanwhile, up to the step that lacks the rank. The new
 * worker computes that step again, from weights of exactly its version; what
 * the dead one had pushed of it counts once. So the bits are those of a job in
 * which nobody died.
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

struct vacancy {
    uint32_t rank;
    uint32_t number; /* of its seat, for the teller */
    uint64_t since_us;
    char died[GW_ERROR_TEXT_BYTES / 2]; /* in words */
    struct gw_seat *before;             /* perhaps alive; NULL: it is not */
    struct gw_seat *who;                /* joined; NULL: nobody has */
    int is_untold;                      /* shards are to hear of it */
    uint64_t epoch;    /* of the view that they answer; 0: not yet */
    uint32_t standing; /* answers, so far: */
    uint64_t least, most;
    int ready;
    struct gw_decision_state state; /* of shard 0 */
    struct vacancy *next;
};

struct gw_vacancies {
    struct gw_coordinator *self;
    struct vacancy *first;
    struct gw_timer timer;
};

static struct vacancy *find(const struct gw_coordinator *self, uint32_t rank)
{
    struct vacancy *one = self->vacancies->first;
    while (one && one->rank != rank)
        one = one->next;
    return one;
}

static uint64_t patience_us(const struct gw_coordinator *self)
{
    return (uint64_t)(self->config->cluster.patience * 1e6);
}

static void forget(struct gw_coordinator *self, struct vacancy *vacancy)
{
    struct vacancy **at = &self->vacancies->first;
    while (*at != vacancy)
        at = &(*at)->next;
    *at = vacancy->next;
    free(vacancy);
}

/* ---- a death ---- */

/* A worker that begins knows the policy of the job file, and no other one. */
static int has_one_policy(const struct gw_coordinator *self)
{
    struct gw_policy_plan plan;
    return gw_policy_plan_parse(self->config->cluster.policy, &plan, NULL) ==
               GW_OK &&
           plan.n == 1 && !gw_regimes_has_changed(self);
}

/* Steps are made by all ranks together, each by itself, and the state of the
   job is at the servers alone: a worker has nothing that another cannot make
   again. */
static int can_be_made_again(const struct gw_coordinator *self)
{
    const struct gw_config *config = self->config;
    const struct gw_regime *regime = gw_regimes_now(self);
    return regime->lockstep && gw_regimes_next_clock(self) == UINT64_MAX &&
           !gw_regimes_is_asked(self) && has_one_policy(self) &&
           !gw_config_is_external(config) && !self->splitter &&
           !gw_register_sums(self) &&
           strcmp(config->train.loss_scale, "dynamic") != 0;
}

int gw_vacant_may_replace(const struct gw_coordinator *self,
                          const struct gw_seat *who)
{
    return self->phase == GW_PHASE_RUNNING && who->role == GW_ROLE_WORKER &&
           !who->bye && !gw_stop_is_asked(self, NULL) &&
           self->config->cluster.patience > 0 &&
           self->config->cluster.restarts > 0 && can_be_made_again(self);
}

static struct vacancy *add(struct gw_coordinator *self,
                           const struct gw_seat *who)
{
    struct vacancy *vacancy = calloc(1, sizeof *vacancy);
    if (!vacancy)
        return NULL;
    vacancy->rank = who->id;
    vacancy->number = who->telling.number;
    vacancy->next = self->vacancies->first;
    self->vacancies->first = vacancy;
    return vacancy;
}

/* Nothing is heard any more of the one that was there. */
static void close_before(struct vacancy *vacancy)
{
    if (vacancy->before && vacancy->before->peer)
        gw_peer_close(vacancy->before->peer);
    vacancy->before = NULL;
}

static uint64_t end_us(const struct gw_coordinator *self,
                       const struct vacancy *vacancy)
{
    return vacancy->since_us + patience_us(self);
}

/* Rings when the first of the ranks that nobody has joined as has waited. */
static void set_timer(struct gw_coordinator *self)
{
    uint64_t now = gw_loop_now(self->loop), next = UINT64_MAX;
    for (struct vacancy *one = self->vacancies->first; one; one = one->next)
        if (!one->who && end_us(self, one) < next)
            next = end_us(self, one);
    if (next < UINT64_MAX)
        gw_timer_start(self->loop, &self->vacancies->timer,
                       next > now ? next - now : 0);
}

/* NULL: there is no memory. */
static struct vacancy *
make(struct gw_coordinator *self, struct gw_seat *who, const char *died)
{
    struct vacancy *vacancy = find(self, who->id);
    if (!vacancy)
        vacancy = add(self, who);
    if (!vacancy)
        return NULL;
    close_before(vacancy);
    vacancy->who = NULL;
    vacancy->is_untold = 0;
    vacancy->epoch = 0;
    snprintf(vacancy->died, sizeof vacancy->died, "%s", died);
    gw_seat_leave(self, who);
    return vacancy;
}

/* Non-zero: a launcher starts another one. */
static int wait_for_another(struct gw_coordinator *self,
                            const struct vacancy *vacancy)
{
    const struct gw_coordinator_events *events = self->options.events;
    set_timer(self);
    return events->vacant && events->vacant(self->options.owner, vacancy->rank);
}

int gw_vacant_make(struct gw_coordinator *self,
                   struct gw_seat *who,
                   const char *died)
{
    struct vacancy *vacancy =
        gw_vacant_may_replace(self, who) ? make(self, who, died) : NULL;
    if (!vacancy)
        return 0;
    vacancy->since_us = gw_loop_now(self->loop);
    gw_coordinator_note(self, "%s; waiting %.10g s for another one", died,
                        self->config->cluster.patience);
    vacancy->before = who;
    gw_register_write(self);
    int is_ended = wait_for_another(self, vacancy);
    if (is_ended || !who->telling.started) /* else shards have it as theirs */
        close_before(vacancy);
    return 1;
}

/* ---- it is back ---- */

static struct vacancy *find_before(const struct gw_coordinator *self,
                                   const struct gw_peer *peer)
{
    struct vacancy *one = self->vacancies->first;
    while (one && (!one->before || one->before->peer != peer))
        one = one->next;
    return one;
}

int gw_vacant_keeps(const struct gw_coordinator *self,
                    const struct gw_peer *peer)
{
    return find_before(self, peer) != NULL;
}

/* Shards have it as their worker still. */
void gw_vacant_heard(struct gw_coordinator *self, const struct gw_peer *peer)
{
    struct vacancy *vacancy = find_before(self, peer);
    if (!vacancy || self->phase >= GW_PHASE_ENDING)
        return;
    gw_roster_restore(self, vacancy->before);
    gw_register_write(self);
    gw_coordinator_note(self, "%s is back after %.1f s", peer->name,
                        (double)(gw_loop_now(self->loop) - vacancy->since_us) /
                            1e6);
    forget(self, vacancy);
}

/* Heartbeats call nothing. */
void gw_vacant_look(struct gw_coordinator *self)
{
    for (struct vacancy *next, *one = self->vacancies->first; one; one = next) {
        next = one->next;
        if (one->before && !one->before->peer->silent &&
            gw_peer_is_up(one->before->peer, 0))
            gw_vacant_heard(self, one->before->peer);
    }
}

/* ---- another one joins ---- */

int gw_vacant_is_open(const struct gw_coordinator *self)
{
    const struct vacancy *vacancy = self->vacancies->first;
    while (vacancy && vacancy->who)
        vacancy = vacancy->next;
    return vacancy != NULL;
}

int gw_vacant_any(const struct gw_coordinator *self)
{
    return self->vacancies->first != NULL;
}

void gw_vacant_taken(struct gw_coordinator *self, struct gw_seat *who)
{
    struct vacancy *vacancy = find(self, who->id);
    close_before(vacancy);
    vacancy->who = who;
    who->again = 1;
    who->peer->id = who->id;
    gw_member_set_epoch(self->member, gw_member_epoch(self->member) + 1);
    gw_coordinator_tell_again(self, who, vacancy->number);
}

/* It is not one of this job: the rank is still vacant, for as long as it is. */
static void
turn_away(struct gw_coordinator *self, struct gw_seat *who, const char *why)
{
    char text[GW_ERROR_TEXT_BYTES / 2];
    const struct gw_message end = {
        .kind = GW_MESSAGE_END, .end = {.status = GW_EMISMATCH, .text = text}};
    snprintf(text, sizeof text, "worker %u on %s cannot go on: it has %s",
             who->id, who->host, why);
    gw_peer_tell(who->peer, &end); /* it leaves by itself */
    const struct vacancy *vacancy = make(self, who, text);
    gw_coordinator_note(self, "%s; still waiting for another one", text);
    wait_for_another(self, vacancy);
}

/* A later epoch for each: answers tell which worker they are about. */
static void tell_shards_of(struct gw_coordinator *self, struct vacancy *vacancy)
{
    vacancy->is_untold = 0;
    vacancy->epoch = gw_member_epoch(self->member) + 1;
    gw_member_set_epoch(self->member, vacancy->epoch);
    for (struct gw_seat *to = gw_roster_first(self); to; to = to->next)
        if (gw_seat_has_shard(to) && to->telling.members > 0)
            gw_coordinator_tell_member(self, to, vacancy->epoch, vacancy->who);
}

void gw_vacant_registered(struct gw_coordinator *self)
{
    for (struct vacancy *one = self->vacancies->first; one; one = one->next)
        if (one->is_untold)
            tell_shards_of(self, one);
}

/* Shards get to know the worker, and tell where they stand. */
static void name_to_shards(struct gw_coordinator *self, struct vacancy *vacancy)
{
    vacancy->is_untold = 1;
    vacancy->epoch = 0;
    vacancy->standing = 0;
    vacancy->ready = 1;
    vacancy->least = UINT64_MAX;
    vacancy->most = 0;
    gw_register_write(self);
}

void gw_vacant_ask_again(struct gw_coordinator *self)
{
    for (struct vacancy *one = self->vacancies->first; one; one = one->next)
        if (one->epoch || one->is_untold)
            name_to_shards(self, one);
}

void gw_vacant_declared(struct gw_coordinator *self,
                        struct gw_seat *who,
                        const struct gw_declare *declare)
{
    struct gw_error error;
    if (who->declared)
        return; /* more keys of rank 0, which are known */
    const char *difference = gw_declaration_difference(self, who, declare);
    if (!difference &&
        gw_declaration_check_program(self, who, declare, &error) != GW_OK)
        difference = "another program";
    gw_seat_declare(who, declare);
    if (!difference && gw_declaration_is_other(self, who))
        difference = "other keys";
    if (difference) {
        turn_away(self, who, difference);
        return;
    }
    const struct gw_seat *before = gw_roster_last(self, who->id);
    if (before)
        gw_origin_note_device(self, who, before->device, before->tuned);
    who->declared = 1;
    name_to_shards(self, find(self, who->id));
}

/* ---- it begins ---- */

static void begin(struct gw_coordinator *self, struct vacancy *vacancy)
{
    struct gw_seat *who = vacancy->who;
    struct gw_start start = *gw_teller_start(self);
    start.again = vacancy->ready || vacancy->rank > 0; /* else it seeds anew */
    start.has_inner = 0;
    start.state = vacancy->state;
    start.state.clock = vacancy->least;
    start.clocks_n = 0;
    gw_coordinator_note(self,
                        "%s takes its place: step %" PRIu64
                        " is computed again, %.1f s after the death",
                        who->peer->name, vacancy->least,
                        (double)(gw_loop_now(self->loop) - vacancy->since_us) /
                            1e6);
    gw_coordinator_tell_begin(self, who, &start);
    forget(self, vacancy);
}

/* Shards that are a step apart at most, as they are without this rank. */
static int is_sound(const struct vacancy *vacancy)
{
    return vacancy->least != UINT64_MAX && vacancy->most >= vacancy->least &&
           vacancy->most - vacancy->least <= 1;
}

static void add_standing(struct gw_coordinator *self,
                         struct vacancy *vacancy,
                         const struct gw_seat *shard,
                         const struct gw_standing *standing)
{
    vacancy->standing++;
    vacancy->ready &= standing->ready;
    if (shard->id == 0)
        vacancy->state = standing->state;
    if (standing->chunks > 0 && standing->least < vacancy->least)
        vacancy->least = standing->least;
    if (standing->chunks > 0 && standing->most > vacancy->most)
        vacancy->most = standing->most;
    if (vacancy->standing < gw_roster_shards(self))
        return;
    if (is_sound(vacancy))
        begin(self, vacancy);
    else
        gw_coordinator_end_and_look(
            self, GW_EDEAD, "%s; shards stand too far apart to replace it",
            vacancy->died);
}

int gw_vacant_standing(struct gw_coordinator *self,
                       struct gw_seat *shard,
                       const struct gw_standing *standing)
{
    struct vacancy *vacancy = self->vacancies->first;
    if (standing->epoch <= shard->stood ||
        standing->epoch > gw_member_epoch(self->member) ||
        shard->role != GW_ROLE_SERVER || shard->id == GW_RANK_NONE) {
        gw_peer_reject(shard->peer, 0, "an answer to a view that it never got");
        return 0;
    }
    shard->stood = standing->epoch;
    while (vacancy && vacancy->epoch != standing->epoch)
        vacancy = vacancy->next;
    if (vacancy) /* of a worker that has not died since */
        add_standing(self, vacancy, shard, standing);
    return 1;
}

/* ---- the end of the wait ---- */

static void on_timer(struct gw_timer *timer)
{
    struct gw_coordinator *self = timer->owner;
    uint64_t now = gw_loop_now(self->loop);
    for (struct vacancy *one = self->vacancies->first; one; one = one->next) {
        if (one->who || now < end_us(self, one))
            continue;
        gw_vacant_give_up(self, one->rank, "nobody has taken its place");
        return;
    }
    set_timer(self);
}

void gw_vacant_give_up(struct gw_coordinator *self,
                       uint32_t rank,
                       const char *why)
{
    const struct vacancy *vacancy = find(self, rank);
    if (vacancy && self->phase < GW_PHASE_ENDING)
        gw_coordinator_end_and_look(
            self, GW_EDEAD, "%s; %s for %.1f s", vacancy->died, why,
            (double)(gw_loop_now(self->loop) - vacancy->since_us) / 1e6);
}

void gw_vacant_awaited(const struct gw_coordinator *self,
                       char *text,
                       size_t room)
{
    const struct vacancy *vacancy = self->vacancies->first;
    if (vacancy->who)
        snprintf(text, room, "%s to take its place", vacancy->who->peer->name);
    else
        snprintf(text, room, "another worker of rank %u to join",
                 vacancy->rank);
}

size_t
gw_vacant_print(const struct gw_coordinator *self, char *text, size_t room)
{
    size_t used = 0;
    for (const struct vacancy *one = self->vacancies->first; one && used < room;
         one = one->next) {
        int n =
            snprintf(text + used, room - used, "%s; %s for %.1f s\n", one->died,
                     one->who ? "another one prepares" : "vacant",
                     (double)(gw_loop_now(self->loop) - one->since_us) / 1e6);
        used += n > 0 ? (size_t)n : 0;
    }
    return used < room ? used : room;
}

/* ---- opening and closing ---- */

enum gw_status gw_vacant_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    self->vacancies = calloc(1, sizeof *self->vacancies);
    if (!self->vacancies)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    self->vacancies->timer.fire = on_timer;
    self->vacancies->timer.owner = self;
    return GW_OK;
}

void gw_vacant_close(struct gw_coordinator *self)
{
    if (!self->vacancies)
        return;
    gw_timer_stop(self->loop, &self->vacancies->timer);
    while (self->vacancies->first)
        forget(self, self->vacancies->first);
    free(self->vacancies);
    self->vacancies = NULL;
}
