/*
 * Sends the view, and at the start the keys and the start itself, to every
 * member. For thousands of members that is a gigabyte, so each is sent a few
 * messages ahead of the ones that it has acknowledged, and all of them in
 * turns of the loop.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdlib.h>
#include <string.h>

#include "proto/groups.h"
#include "server/coordinator/coordinator_keep.h"
#include "transport/link/backlog.h"

/* Messages ahead: as many as a member acknowledges at once. */
#define AHEAD 8

/* Bytes of addresses, hosts and secrets in one message, which is at most 64 KiB
   with the fields around them. */
#define VIEW_BYTES ((size_t)40 << 10)

struct gw_teller {
    struct gw_seat **seat; /* [members], when all are here */
    uint32_t members;
    struct gw_backlog backlog; /* seats that may be told more */
    struct gw_start start;     /* the last message of each */
};

/* A member may dial another: workers dial every shard and, if they could sum
   together, each other; shards dial the first shard, and standbys the shards
   that they stand by for, in whose place they may come to be. */
static int dials(const struct gw_seat *from, const struct gw_seat *to)
{
    if (gw_seat_has_shard(to))
        return from->role == GW_ROLE_WORKER || to->id == 0 ||
               to->id == from->id;
    return from->role == GW_ROLE_WORKER && from->address[0] && to->address[0] &&
           from->id > to->id &&
           from->id / GW_GROUP_MAX == to->id / GW_GROUP_MAX;
}

/* One member, as the view tells another. */
static struct gw_view_member view_of(struct gw_coordinator *self,
                                     const struct gw_seat *one,
                                     const struct gw_seat *to)
{
    /* a server that has no copy yet, or has lost it, is the standby of none */
    int is_named = !one->is_lost && one->id != GW_RANK_NONE;
    struct gw_view_member member = {
        .role = is_named ? one->role : GW_ROLE_STANDBY,
        .id = one->id,
        .server = one->server,
        .incarnation = is_named ? one->incarnation : 0,
        .address = one->address,
        .host = one->host,
        .machine = one->machine,
        .need = one->need,
        .has_secret = one != to && dials(one, to),
    };
    if (member.has_secret && gw_secret_of_pair(&one->secret, to->incarnation,
                                               &member.secret) != GW_OK)
        gw_coordinator_end(self, GW_ENOMEM, "no memory for a view");
    return member;
}

static void
tell_members(struct gw_coordinator *self, struct gw_seat *to, uint64_t epoch)
{
    const struct gw_teller *teller = self->teller;
    struct gw_view_member part[GW_MEMBERS_PER_PART];
    uint32_t next = to->telling.members;
    struct gw_message message = {.kind = GW_MESSAGE_VIEW,
                                 .view = {.epoch = epoch,
                                          .members_total = teller->members,
                                          .members_first = next,
                                          .members = part}};
    struct gw_view *view = &message.view;
    for (size_t bytes = 0;
         next < teller->members && view->members_n < GW_MEMBERS_PER_PART &&
         bytes < VIEW_BYTES;
         next++) {
        const struct gw_seat *one = teller->seat[next];
        bytes += strlen(one->address) + strlen(one->host) + GW_SECRET_BYTES;
        part[view->members_n++] = view_of(self, one, to);
    }
    to->telling.members = next;
    gw_coordinator_tell(self, to->peer, &message);
}

/* A view of a later epoch: its members. */
static void tell_later(struct gw_coordinator *self,
                       struct gw_seat *to,
                       uint64_t epoch,
                       const struct gw_view_member *member,
                       uint32_t n)
{
    const struct gw_message message = {.kind = GW_MESSAGE_VIEW,
                                       .view = {.epoch = epoch,
                                                .members_total = n,
                                                .members_n = n,
                                                .members = member}};
    gw_coordinator_tell(self, to->peer, &message);
}

void gw_coordinator_tell_member(struct gw_coordinator *self,
                                struct gw_seat *to,
                                uint64_t epoch,
                                const struct gw_seat *one)
{
    while (to->telling.members < self->teller->members)
        tell_members(self, to, epoch - 1); /* this one is later than that */
    const struct gw_view_member member = view_of(self, one, to);
    tell_later(self, to, epoch, &member, 1);
}

uint64_t gw_coordinator_tell_everybody(struct gw_coordinator *self,
                                       const struct gw_seat *one)
{
    uint64_t epoch = gw_member_epoch(self->member) + 1;
    gw_member_set_epoch(self->member, epoch);
    for (struct gw_seat *to = gw_roster_first(self); to; to = to->next)
        if (to->telling.members > 0)
            gw_coordinator_tell_member(self, to, epoch, one);
    return epoch;
}

uint64_t gw_coordinator_tell_shards(struct gw_coordinator *self,
                                    struct gw_seat *to,
                                    uint64_t epoch)
{
    static const uint8_t roles[] = {GW_ROLE_SERVER, GW_ROLE_STANDBY};
    struct gw_view_member part[GW_MEMBERS_PER_PART];
    const struct gw_seat none = {.role = GW_ROLE_STANDBY, .is_lost = 1};
    uint32_t last = 2 * gw_roster_shards(self), n = 0;
    size_t bytes = 0;
    for (uint32_t i = 0; i < last; i++) {
        const struct gw_seat *one = gw_roster_find(self, roles[i % 2], i / 2);
        const struct gw_seat *who = one ? one : &none;
        bytes += strlen(who->address) + strlen(who->host) + GW_SECRET_BYTES;
        part[n] = view_of(self, who, to);
        part[n++].id = i / 2;
        if (n < GW_MEMBERS_PER_PART && bytes < VIEW_BYTES && i + 1 < last)
            continue;
        tell_later(self, to, ++epoch, part, n);
        bytes = n = 0;
    }
    return epoch;
}

static void tell_keys(struct gw_coordinator *self, struct gw_seat *to)
{
    struct gw_message message = {.kind = GW_MESSAGE_DECLARE,
                                 .declare = *gw_declaration(self)};
    struct gw_declare *declare = &message.declare;
    uint32_t left = declare->keys_total - to->telling.keys;
    declare->keys_first = to->telling.keys;
    declare->keys = gw_declaration_key(self) + to->telling.keys;
    declare->keys_n = gw_keys_in_part(declare->keys, left);
    to->telling.keys += declare->keys_n;
    gw_coordinator_tell(self, to->peer, &message);
}

static void tell_start(struct gw_coordinator *self, struct gw_seat *to)
{
    const struct gw_teller *teller = self->teller;
    const struct gw_message message = {.kind = GW_MESSAGE_START,
                                       .start = to->again ? to->telling.begin
                                                          : teller->start};
    to->telling.started = 1;
    gw_coordinator_tell(self, to->peer, &message);
}

/* The next message. 0: there is none, or not yet. */
static int tell_next(struct gw_coordinator *self, struct gw_seat *to)
{
    if (to->telling.waits && to->role != GW_ROLE_WORKER)
        return 0; /* it has no shard yet */
    if (to->telling.members < self->teller->members)
        tell_members(self, to, gw_member_epoch(self->member));
    else if (to->telling.compares &&
             to->telling.keys < gw_declaration(self)->keys_total)
        tell_keys(self, to);
    else if (self->phase < GW_PHASE_STARTING || to->telling.started ||
             to->telling.waits)
        return 0;
    else if (gw_seat_has_shard(to) &&
             to->telling.keys < gw_declaration(self)->keys_total)
        tell_keys(self, to);
    else
        tell_start(self, to);
    return 1;
}

static void look_at(void *owner, uint32_t number)
{
    struct gw_coordinator *self = owner;
    struct gw_seat *to = self->teller->seat[number];
    if (!to->peer)
        return;
    if (self->phase < GW_PHASE_ENDING && gw_peer_untaken(to->peer) < AHEAD &&
        tell_next(self, to))
        gw_backlog_add(&self->teller->backlog, number);
}

static void taken(struct gw_peer *peer)
{
    const struct gw_seat *who = peer->owner;
    if (!who->telling.started)
        gw_backlog_add(&who->telling.self->teller->backlog,
                       who->telling.number);
    else
        gw_register_maybe_write(who->telling.self);
}

enum gw_status gw_teller_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    struct gw_teller *teller = calloc(1, sizeof *teller);
    self->teller = teller;
    if (!teller)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    teller->backlog.loop = self->loop;
    teller->backlog.handle = look_at;
    teller->backlog.owner = self;
    return GW_OK;
}

void gw_teller_close(struct gw_coordinator *self)
{
    if (!self->teller)
        return;
    gw_backlog_close(&self->teller->backlog);
    free(self->teller->seat);
    free(self->teller);
    self->teller = NULL;
}

static enum gw_status number_seats(struct gw_coordinator *self)
{
    struct gw_teller *teller = self->teller;
    uint32_t members = gw_roster_members(self), n = 0;
    teller->seat = calloc(members, sizeof *teller->seat);
    if (!teller->seat || gw_backlog_open(&teller->backlog, members) != GW_OK)
        return GW_ENOMEM;
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next) {
        one->telling = (struct gw_telling){.self = self, .number = n};
        if (one->peer) /* else a place that is vacant */
            one->peer->taken = taken;
        teller->seat[n++] = one;
    }
    teller->members = members;
    return GW_OK;
}

enum gw_status gw_coordinator_tell_all(struct gw_coordinator *self)
{
    enum gw_status status = number_seats(self);
    if (status == GW_OK)
        gw_backlog_add_all(&self->teller->backlog);
    return status;
}

/* A worker that begins later has the start of a job that goes on. */
static void fill_start(struct gw_coordinator *self, struct gw_start *start)
{
    const struct gw_declare *declare = gw_declaration(self);
    *start = (struct gw_start){.total_steps = declare->total_steps,
                               .course = declare->course,
                               .test_samples = declare->test_samples,
                               .state = *gw_origin_state(self),
                               .silence_us = self->silence_us,
                               .optimizer = "",
                               .resume = "",
                               .outlives = 1};
    gw_origin_fill_start(self, start);
}

enum gw_status gw_coordinator_tell_rejoined(struct gw_coordinator *self)
{
    struct gw_teller *teller = self->teller;
    enum gw_status status = number_seats(self);
    if (status != GW_OK)
        return status;
    fill_start(self, &teller->start);
    for (uint32_t i = 0; i < teller->members; i++) {
        teller->seat[i]->telling.members = teller->members;
        teller->seat[i]->telling.started = teller->seat[i]->peer != NULL;
    }
    return GW_OK;
}

void gw_coordinator_tell_again(struct gw_coordinator *self,
                               struct gw_seat *who,
                               uint32_t number)
{
    who->telling =
        (struct gw_telling){.self = self, .number = number, .waits = 1};
    who->peer->taken = taken;
    self->teller->seat[number] = who;
    gw_backlog_add(&self->teller->backlog, number);
}

const struct gw_start *gw_teller_start(const struct gw_coordinator *self)
{
    return &self->teller->start;
}

void gw_coordinator_tell_begin(struct gw_coordinator *self,
                               struct gw_seat *who,
                               const struct gw_start *start)
{
    who->telling.begin = *start;
    who->telling.waits = 0;
    gw_backlog_add(&self->teller->backlog, who->telling.number);
}

void gw_coordinator_tell_keys(struct gw_coordinator *self, struct gw_seat *to)
{
    to->telling.compares = 1;
    gw_backlog_add(&self->teller->backlog, to->telling.number);
}

void gw_coordinator_tell_start(struct gw_coordinator *self,
                               const struct gw_start *start)
{
    self->teller->start = *start;
    gw_backlog_add_all(&self->teller->backlog);
}
