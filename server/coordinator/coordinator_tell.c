/*
 * The view, and at the start the keys and the start itself, to every member.
 * For thousands of members that is a gigabyte, so each is told a few messages
 * ahead of those that it has taken, and all of them in turns of the loop.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <stdlib.h>
#include <string.h>

#include "proto/groups.h"

/* Messages ahead: as many as a member acknowledges at once. */
#define AHEAD 8

/* Bytes of addresses, hosts and secrets in one message, which is at most 64 KiB
   with what surrounds them. */
#define VIEW_BYTES ((size_t)40 << 10)

/* Whether a member may dial another: workers every shard and, where they could
   sum together, each other; shards the first of them. */
static int dials(const struct gw_roster *from, const struct gw_roster *to)
{
    if (to->role == GW_ROLE_SERVER)
        return from->role == GW_ROLE_WORKER || to->id == 0;
    return from->role == GW_ROLE_WORKER && from->address[0] && to->address[0] &&
           from->id > to->id &&
           from->id / GW_GROUP_MAX == to->id / GW_GROUP_MAX;
}

/* One member, as the view tells another. */
static struct gw_view_member view_of(struct gw_coordinator *self,
                                     const struct gw_roster *one,
                                     const struct gw_roster *to)
{
    struct gw_view_member member = {
        .role = one->role,
        .id = one->id,
        .server = one->server,
        .incarnation = one->incarnation,
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

static void tell_members(struct gw_coordinator *self, struct gw_roster *to)
{
    struct gw_view_member part[GW_MEMBERS_PER_PART];
    const struct gw_roster *one = to->telling.next;
    struct gw_message message = {
        .kind = GW_MESSAGE_VIEW,
        .view = {.epoch = gw_member_epoch(self->member),
                 .members_total = self->workers + self->shards,
                 .members_first = to->telling.members,
                 .members = part}};
    struct gw_view *view = &message.view;
    for (size_t bytes = 0;
         one && view->members_n < GW_MEMBERS_PER_PART && bytes < VIEW_BYTES;
         one = one->next) {
        bytes += strlen(one->address) + strlen(one->host) + GW_SECRET_BYTES;
        part[view->members_n++] = view_of(self, one, to);
    }
    to->telling.next = one;
    to->telling.members += view->members_n;
    gw_coordinator_tell(self, to->peer, &message);
}

static void tell_keys(struct gw_coordinator *self, struct gw_roster *to)
{
    struct gw_message message = {.kind = GW_MESSAGE_DECLARE,
                                 .declare = self->declare};
    struct gw_declare *declare = &message.declare;
    uint32_t left = declare->keys_total - to->telling.keys;
    declare->keys_first = to->telling.keys;
    declare->keys = self->keys + to->telling.keys;
    declare->keys_n = left < GW_KEYS_PER_PART ? left : GW_KEYS_PER_PART;
    to->telling.keys += declare->keys_n;
    gw_coordinator_tell(self, to->peer, &message);
}

static void tell_start(struct gw_coordinator *self, struct gw_roster *to)
{
    const struct gw_message message = {.kind = GW_MESSAGE_START,
                                       .start = self->start};
    to->telling.started = 1;
    gw_coordinator_tell(self, to->peer, &message);
}

/* The next message. 0: there is none, or not yet. */
static int tell_next(struct gw_coordinator *self, struct gw_roster *to)
{
    if (to->telling.next)
        tell_members(self, to);
    else if (self->phase < GW_PHASE_STARTING || to->telling.started)
        return 0;
    else if (to->role == GW_ROLE_SERVER &&
             to->telling.keys < self->declare.keys_total)
        tell_keys(self, to);
    else
        tell_start(self, to);
    return 1;
}

static void look_at(void *owner, uint32_t number)
{
    struct gw_coordinator *self = owner;
    struct gw_roster *to = self->seat[number];
    if (self->phase < GW_PHASE_ENDING && gw_peer_untaken(to->peer) < AHEAD &&
        tell_next(self, to))
        gw_backlog_add(&self->telling, number);
}

static void taken(struct gw_peer *peer)
{
    const struct gw_roster *who = peer->owner;
    if (!who->telling.started)
        gw_backlog_add(&who->telling.self->telling, who->telling.number);
}

enum gw_status gw_coordinator_tell_all(struct gw_coordinator *self)
{
    uint32_t members = self->workers + self->shards, n = 0;
    self->seat = calloc(members, sizeof *self->seat);
    self->telling.loop = self->loop;
    self->telling.look = look_at;
    self->telling.owner = self;
    if (!self->seat || gw_backlog_open(&self->telling, members) != GW_OK)
        return GW_ENOMEM;
    for (struct gw_roster *one = self->roster; one; one = one->next) {
        one->telling = (struct gw_telling){
            .self = self, .number = n, .next = self->roster};
        one->peer->taken = taken;
        self->seat[n++] = one;
    }
    gw_backlog_add_all(&self->telling);
    return GW_OK;
}

void gw_coordinator_tell_on(struct gw_coordinator *self)
{
    gw_backlog_add_all(&self->telling);
}

void gw_coordinator_tell_close(struct gw_coordinator *self)
{
    gw_backlog_close(&self->telling);
    free(self->seat);
}
