/* A peer: its links, their frames and messages, and its silence. */
#include "config.h"

#include "transport/member/member_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/metrics.h"

#define REDIAL_FIRST_US 10000
#define REDIAL_MOST_US  500000

static const struct gw_link_handler link_handler;

static void count(const struct gw_member *member, enum gw_metric metric)
{
    if (member->loop->metrics)
        gw_metrics_add(member->loop->metrics, metric, 1);
}

/* ---- coming and going ---- */

static void on_heartbeat_done(struct gw_send *send, enum gw_status status)
{
    struct gw_peer_link *slot = send->owner;
    (void)status;
    slot->heartbeat_queued = 0;
}

static void redial(struct gw_timer *timer);

static void name_peer(struct gw_peer *peer, const char *where)
{
    if (peer->id == GW_RANK_NONE)
        snprintf(peer->name, sizeof peer->name, "%s (%.60s)",
                 gw_role_name(peer->role), where);
    else
        snprintf(peer->name, sizeof peer->name, "%s %" PRIu32 " (%.60s)",
                 gw_role_name(peer->role), peer->id, where);
}

static void take_no_note(struct gw_peer *peer)
{
    (void)peer;
}

struct gw_peer *gw_peer_new(struct gw_member *member,
                            uint8_t role,
                            uint32_t id,
                            uint64_t incarnation,
                            const char *address,
                            unsigned links)
{
    struct gw_peer *peer = calloc(1, sizeof *peer + links * sizeof *peer->link);
    if (!peer)
        return NULL;
    peer->link = (struct gw_peer_link *)(peer + 1);
    peer->member = member;
    peer->taken = take_no_note;
    peer->role = role;
    peer->id = id;
    peer->incarnation = incarnation;
    peer->links = links;
    peer->heard_us = peer->since_us = gw_loop_now(member->loop);
    snprintf(peer->address, sizeof peer->address, "%s", address);
    name_peer(peer, address);
    for (unsigned i = 0; i < links; i++) {
        struct gw_peer_link *slot = &peer->link[i];
        slot->peer = peer;
        slot->index = i;
        slot->redial.fire = redial;
        slot->redial.owner = slot;
        slot->redial_us = REDIAL_FIRST_US;
        slot->heartbeat.done = on_heartbeat_done;
        slot->heartbeat.owner = slot;
    }
    peer->next = member->peers;
    if (peer->next)
        peer->next->back = &peer->next;
    peer->back = &member->peers;
    member->peers = peer;
    return peer;
}

struct gw_peer **gw_member_admitted(struct gw_member *member,
                                    uint64_t incarnation)
{
    return &member->admitted[incarnation % GW_MEMBER_BUCKETS];
}

void gw_member_free_closed(struct gw_member *member)
{
    while (member->closed) {
        struct gw_peer *peer = member->closed;
        member->closed = peer->next;
        gw_channel_free(&peer->channel);
        gw_secret_forget(&peer->secret);
        free(peer->route);
        free(peer->dial);
        free(peer);
    }
}

static void close_slot(struct gw_peer_link *slot)
{
    struct gw_link *link = slot->link;
    slot->link = NULL;
    slot->was_up = 0;
    if (link)
        gw_link_close(link);
}

void gw_peer_rest(struct gw_peer *peer)
{
    peer->rests = 1;
}

void gw_peer_close(struct gw_peer *peer)
{
    struct gw_member *member = peer->member;
    if (peer->closed)
        return;
    peer->closed = 1;
    for (unsigned i = 0; i < peer->links; i++) {
        gw_timer_stop(member->loop, &peer->link[i].redial);
        close_slot(&peer->link[i]);
    }
    *peer->back = peer->next;
    if (peer->next)
        peer->next->back = peer->back;
    struct gw_peer **same = gw_member_admitted(member, peer->incarnation);
    while (*same && *same != peer)
        same = &(*same)->same;
    if (*same)
        *same = peer->same;
    peer->next = member->closed;
    member->closed = peer;
}

static void
tell_lost(struct gw_peer *peer, enum gw_status status, const char *why)
{
    if (peer->silent)
        return;
    peer->silent = 1;
    peer->member->handler->lost(peer->member->owner, peer, status, why);
}

/* ---- links ---- */

static enum gw_status dial_slot(struct gw_peer_link *slot,
                                struct gw_error *error)
{
    struct gw_peer *peer = slot->peer;
    struct gw_member *member = peer->member;
    struct gw_hello hello = {
        .role = member->role,
        .link = (uint8_t)slot->index,
        .links = (uint8_t)peer->links,
        .generation = ++slot->generation,
        .rank = member->rank,
        .epoch = (uint32_t)member->epoch,
        .job = member->job,
        .incarnation = member->incarnation,
        .expects = peer->renews ? 0 : peer->incarnation,
        .version = PACKAGE_VERSION,
    };
    const struct gw_peer_route *route =
        gw_peer_route_of(slot, slot->moves, NULL);
    enum gw_status status = gw_peer_prove(peer, &hello, error);
    if (status == GW_OK)
        status = route->transport->ops->dial(
            route->transport, route->address, &hello, &link_handler, slot,
            &peer->windows, &slot->link, error);
    if (status == GW_OK)
        return GW_OK;
    slot->link = NULL;
    gw_timer_start(member->loop, &slot->redial, REDIAL_MOST_US);
    if (status == GW_ENOMEM)
        gw_member_starves(member, error->text);
    return status;
}

static void redial(struct gw_timer *timer)
{
    struct gw_peer_link *slot = timer->owner;
    struct gw_error error;
    if (slot->peer->rests || dial_slot(slot, &error) != GW_EINVAL)
        return;
    gw_timer_stop(slot->peer->member->loop, &slot->redial);
    tell_lost(slot->peer, GW_EUNREACHABLE, error.text);
}

static void redial_later(struct gw_peer_link *slot)
{
    struct gw_member *member = slot->peer->member;
    gw_timer_start(member->loop, &slot->redial, slot->redial_us);
    slot->redial_us *= 2;
    if (slot->redial_us > REDIAL_MOST_US)
        slot->redial_us = REDIAL_MOST_US;
}

static void redial_soon(struct gw_peer_link *slot)
{
    slot->redial_us = REDIAL_FIRST_US;
    redial_later(slot);
}

static void heard(struct gw_peer *peer)
{
    peer->heard_us = gw_loop_now(peer->member->loop);
    peer->silent = 0;
}

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct gw_peer_link *slot = link->owner;
    struct gw_peer *peer = slot->peer;
    struct gw_member *member = peer->member;
    slot->link = link;
    slot->redial_us = REDIAL_FIRST_US;
    slot->gone = 0;
    if (reply) {
        if (!gw_peer_meets(peer, reply->incarnation)) {
            close_slot(slot);
            tell_lost(peer, GW_EREFUSED, "another process took its place");
            return;
        }
        if (!member->job)
            member->job = reply->job;
    }
    if (reply)
        gw_peer_log_route(slot);
    slot->was_up = peer->was_up = 1;
    peer->fault[0] = '\0';
    member->starves_since_us = 0;
    heard(peer);
    if (slot->index == 0)
        gw_channel_resend(&peer->channel, link);
    member->handler->link_up(member->owner, peer, slot->index);
}

static int is_final(enum gw_status status)
{
    return status == GW_EREFUSED || status == GW_EVERSION ||
           status == GW_EUNSUPPORTED;
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct gw_peer_link *slot = link->owner;
    struct gw_peer *peer = slot->peer;
    struct gw_member *member = peer->member;
    int was_up = slot->was_up; /* a failed dial breaks nothing */
    slot->link = NULL;
    slot->was_up = 0;
    if (status == GW_ECRC)
        count(member, GW_METRIC_CRC_ERRORS);
    else if (status == GW_EPROTO)
        count(member, GW_METRIC_PROTOCOL_ERRORS);
    if (was_up && status == GW_EPROTO)
        gw_peer_blame(slot, why);
    if (was_up)
        member->handler->link_down(member->owner, peer, slot->index, status,
                                   why);
    if (was_up && status == GW_ENOMEM)
        gw_member_starves(member, why);
    if (peer->closed || !peer->opener)
        return;
    if (!was_up)
        gw_peer_dial_failed(slot, status, why);
    uint64_t tried_us = gw_loop_now(member->loop) - peer->since_us;
    if (gw_peer_take_next_route(slot, status, why))
        redial_soon(slot);
    else if (is_final(status))
        tell_lost(peer, status, why);
    else if (!peer->was_up && tried_us >= member->join_us)
        tell_lost(peer, GW_EUNREACHABLE, why);
    else
        redial_later(slot);
}

static void got_control(struct gw_peer_link *slot,
                        const struct gw_frame *frame,
                        const void *payload)
{
    struct gw_peer *peer = slot->peer;
    struct gw_member *member = peer->member;
    struct gw_message message;
    enum gw_status status = gw_channel_acked(&peer->channel, frame->offset);
    if (status == GW_OK)
        status = gw_message_decode(payload, frame->length, &member->decode,
                                   &message);
    /* a message that cannot be decoded is not received: it comes again */
    if (status == GW_OK)
        status = gw_channel_take(&peer->channel, frame->clock);
    if (status == GW_EEXIST)
        return;
    if (status != GW_OK) {
        gw_peer_reject(peer, slot->index,
                       "control message out of order or "
                       "malformed");
        return;
    }
    member->handler->message(member->owner, peer, &message);
}

/* 0: one is being sent already. */
static int make_heartbeat(struct gw_peer_link *slot)
{
    struct gw_peer *peer = slot->peer;
    if (slot->heartbeat_queued)
        return 0;
    slot->heartbeat_queued = 1;
    slot->heartbeat.frame = (struct gw_frame){
        .kind = GW_FRAME_HEARTBEAT,
        .epoch = (uint32_t)peer->member->epoch,
        .clock = gw_loop_now(peer->member->loop),
        .offset = peer->channel.received,
        .chunk = GW_CHUNK_NONE,
        .count = (uint32_t)atomic_load(&peer->member->clock),
    };
    return 1;
}

static void beat(struct gw_peer_link *slot)
{
    struct gw_peer *peer = slot->peer;
    if (!make_heartbeat(slot))
        return;
    peer->channel.told = peer->channel.received;
    gw_link_send(slot->link, &slot->heartbeat);
}

static int is_due(const struct gw_peer_link *slot, uint64_t now)
{
    const struct gw_member *member = slot->peer->member;
    return now - slot->link->sent_us >=
           member->heartbeat_us - gw_member_tick_us(member);
}

void gw_peer_pulse(struct gw_peer *peer, uint64_t now)
{
    for (unsigned i = 0; i < peer->links; i++) {
        struct gw_peer_link *slot = &peer->link[i];
        struct gw_link *link = slot->link;
        if (link && link->up && is_due(slot, now) && make_heartbeat(slot) &&
            !link->ops->pulse(link, &slot->heartbeat))
            slot->heartbeat_queued = 0;
    }
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct gw_peer_link *slot = link->owner;
    struct gw_peer *peer = slot->peer;
    struct gw_member *member = peer->member;
    uint64_t acked = peer->channel.acked;
    heard(peer);
    count(member, GW_METRIC_FRAMES_IN);
    if (frame->kind == GW_FRAME_CONTROL) {
        got_control(slot, frame, payload);
        if (slot->link && slot->index == 0 &&
            gw_channel_owes_ack(&peer->channel))
            beat(slot);
    } else if (frame->kind == GW_FRAME_HEARTBEAT) {
        count(member, GW_METRIC_HEARTBEATS);
        peer->clock = frame->count;
        if (gw_channel_acked(&peer->channel, frame->offset) != GW_OK)
            gw_peer_reject(peer, slot->index,
                           "acknowledges what was never sent");
    } else {
        member->handler->frame(member->owner, peer, slot->index, frame,
                               payload);
    }
    if (peer->channel.acked > acked && !peer->closed)
        peer->taken(peer);
}

static const struct gw_link_handler link_handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

/* Closes the slot's link from this side. */
static void
break_slot(struct gw_peer_link *slot, enum gw_status status, const char *why)
{
    struct gw_peer *peer = slot->peer;
    struct gw_member *member = peer->member;
    int was_up = slot->was_up;
    close_slot(slot);
    if (was_up)
        member->handler->link_down(member->owner, peer, slot->index, status,
                                   why);
}

/* The same, and opens it again. */
static void
give_up(struct gw_peer_link *slot, enum gw_status status, const char *why)
{
    struct gw_peer *peer = slot->peer;
    break_slot(slot, status, why);
    if (!peer->opener || peer->closed)
        return;
    if (gw_peer_take_next_route(slot, status, why))
        redial_soon(slot);
    else
        redial_later(slot);
}

void gw_peer_reject(struct gw_peer *peer, unsigned link, const char *why)
{
    struct gw_peer_link *slot = &peer->link[link];
    if (!slot->link)
        return;
    count(peer->member, GW_METRIC_PROTOCOL_ERRORS);
    gw_peer_blame(slot, why);
    give_up(slot, GW_EPROTO, why);
}

void gw_peer_cut(struct gw_peer *peer, unsigned link, const char *why)
{
    if (peer->link[link].link)
        give_up(&peer->link[link], GW_ECLOSED, why);
}

void gw_peer_reject_frame(struct gw_peer *peer,
                          unsigned link,
                          const struct gw_frame *frame)
{
    char why[64];
    snprintf(why, sizeof why, "%s frame that its role does not send",
             gw_frame_kind_name(frame->kind));
    gw_peer_reject(peer, link, why);
}

/* ---- accepting ---- */

int gw_peer_adopt(struct gw_peer_link *slot,
                  struct gw_link *link,
                  uint32_t generation)
{
    gw_peer_say_replaced(slot, link, generation);
    break_slot(slot, GW_ECLOSED, "replaced by a newer one");
    if (slot->peer->closed)
        return 0;
    slot->generation = generation;
    slot->link = link;
    link->handler = &link_handler;
    link->owner = slot;
    link->windows = &slot->peer->windows;
    return 1;
}

/* ---- silence ---- */

static void watch_link(struct gw_peer_link *slot, uint64_t now)
{
    struct gw_peer *peer = slot->peer;
    struct gw_member *member = peer->member;
    struct gw_link *link = slot->link;
    if (!link || !link->up)
        return;
    /* bytes of an incomplete frame count as well */
    if (link->heard_us > peer->heard_us) {
        peer->heard_us = link->heard_us;
        peer->silent = 0;
    }
    if (now > link->heard_us + member->silence_us) {
        give_up(slot, GW_ETIMEOUT, "silent");
        return;
    }
    if (is_due(slot, now) ||
        (slot->index == 0 && peer->channel.told < peer->channel.received))
        beat(slot);
}

void gw_peer_watch(struct gw_peer *peer, uint64_t now)
{
    for (unsigned i = 0; i < peer->links && !peer->closed; i++)
        watch_link(&peer->link[i], now);
    if (!peer->closed && peer->was_up &&
        now > peer->heard_us + peer->member->silence_us)
        tell_lost(peer, GW_ETIMEOUT, "silent");
    if (!peer->closed)
        gw_peer_watch_dials(peer, now);
}

/* ---- for the owner ---- */

enum gw_status gw_member_dial(struct gw_member *member,
                              const char *address,
                              uint8_t role,
                              uint64_t expects,
                              unsigned links,
                              void *owner,
                              struct gw_peer **peer_p,
                              struct gw_error *error)
{
    assert(links >= 1 && links <= GW_LINKS_MAX);
    if (strlen(address) >= GW_ADDRESSES_MAX)
        return gw_fail(error, GW_EINVAL, "the address \"%.40s...\" is too long",
                       address);
    struct gw_peer *peer =
        gw_peer_new(member, role, GW_RANK_NONE, expects, address, links);
    if (!peer)
        return gw_fail(error, GW_ENOMEM, "no memory for a peer");
    peer->opener = 1;
    peer->owner = owner;
    /* a list ends with an address that every member could use */
    const char *last = strrchr(address, ',');
    if (last)
        name_peer(peer, last + 1);
    enum gw_status status = gw_peer_find_routes(peer, address, error);
    if (status != GW_OK) {
        gw_peer_close(peer);
        return status;
    }
    for (unsigned i = 0; i < links; i++) {
        /* memory may come back, but the address stays invalid */
        if (dial_slot(&peer->link[i], error) == GW_EINVAL) {
            gw_peer_close(peer);
            return GW_EINVAL;
        }
    }
    *peer_p = peer;
    return GW_OK;
}

struct gw_peer *gw_peer_next(const struct gw_peer *peer)
{
    return peer->next;
}

enum gw_status gw_peer_tell(struct gw_peer *peer,
                            const struct gw_message *message)
{
    struct gw_member *member = peer->member;
    struct gw_link *link = peer->link[0].link;
    if (peer->closed)
        return GW_ECLOSED;
    return gw_channel_tell(&peer->channel, link && link->up ? link : NULL,
                           message, &member->encode, (uint32_t)member->epoch);
}

uint64_t gw_peer_untaken(const struct gw_peer *peer)
{
    return peer->channel.sent - peer->channel.acked;
}

int gw_peer_flushed(const struct gw_peer *peer)
{
    return gw_peer_untaken(peer) == 0;
}

void gw_peer_send(struct gw_peer *peer, unsigned link, struct gw_send *send)
{
    struct gw_link *to = peer->link[link].link;
    if (!to) {
        send->done(send, GW_ECLOSED);
        return;
    }
    send->frame.epoch = (uint32_t)peer->member->epoch;
    gw_link_send(to, send);
}

void gw_peer_prefetch(const struct gw_peer *peer, unsigned link, int times)
{
    if (times == GW_PEER_PREFETCHES)
        __builtin_prefetch(&peer->links);
    else if (times == GW_PEER_PREFETCHES - 1)
        __builtin_prefetch(&peer->link[link % peer->links]);
    else if (peer->link[link % peer->links].link)
        __builtin_prefetch(&peer->link[link % peer->links].link->up, 1);
}

uint64_t gw_peer_silent_us(const struct gw_peer *peer)
{
    uint64_t now = gw_loop_now(peer->member->loop);
    return now > peer->heard_us ? now - peer->heard_us : 0;
}
