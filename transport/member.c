/* Members and their peers: who is there, over which links, how lately heard. */
#include "config.h"

#include "transport/member.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICKS_PER_HEARTBEAT 4
#define JOIN_US             60000000
#define REDIAL_FIRST_US     10000
#define REDIAL_MOST_US      500000

struct gw_member {
    struct gw_loop *loop;
    struct gw_transport *transport;
    struct gw_listener *listener;
    struct gw_acceptor acceptor;
    const struct gw_member_handler *handler;
    void *owner;
    uint8_t role;
    uint32_t rank;
    uint64_t incarnation, job, epoch;
    _Atomic uint64_t clock;
    uint64_t heartbeat_us, silence_us, join_us;
    struct gw_peer *peers;
    struct gw_peer *graveyard; /* closed, freed at the next tick */
    struct gw_timer tick;
    uint64_t ticked_us, paused_us;
    struct gw_control_arena encode, decode;
};

static const struct gw_link_handler link_handler;

static uint64_t tick_us(const struct gw_member *member)
{
    return member->heartbeat_us / TICKS_PER_HEARTBEAT;
}

/* ---- peers ---- */

static void on_heartbeat_done(struct gw_send *send, enum gw_status status)
{
    struct gw_peer_link *slot = send->owner;
    (void)status;
    slot->heartbeat_queued = 0;
}

static void redial(struct gw_timer *timer);

static struct gw_peer *peer_new(struct gw_member *member, unsigned links)
{
    struct gw_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->member = member;
    peer->links = links;
    peer->heard_us = peer->since_us = gw_loop_now(member->loop);
    for (unsigned i = 0; i < GW_LINKS_MAX; i++) {
        struct gw_peer_link *slot = &peer->link[i];
        slot->peer = peer;
        slot->index = i;
        slot->redial.fire = redial;
        slot->redial.owner = slot;
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

static void name_peer(struct gw_peer *peer, const char *where)
{
    if (peer->id == GW_RANK_NONE)
        snprintf(peer->name, sizeof peer->name, "%s (%.60s)",
                 gw_role_name(peer->role), where);
    else
        snprintf(peer->name, sizeof peer->name, "%s %" PRIu32 " (%.60s)",
                 gw_role_name(peer->role), peer->id, where);
}

static void bury(struct gw_member *member)
{
    while (member->graveyard) {
        struct gw_peer *peer = member->graveyard;
        member->graveyard = peer->next;
        gw_channel_free(&peer->channel);
        free(peer);
    }
}

static void close_slot(struct gw_peer_link *slot)
{
    struct gw_link *link = slot->link;
    slot->link = NULL;
    if (link)
        gw_link_close(link);
}

void gw_peer_close(struct gw_peer *peer)
{
    struct gw_member *member = peer->member;
    if (peer->closed)
        return;
    peer->closed = 1;
    for (unsigned i = 0; i < GW_LINKS_MAX; i++) {
        gw_timer_stop(member->loop, &peer->link[i].redial);
        close_slot(&peer->link[i]);
    }
    *peer->back = peer->next;
    if (peer->next)
        peer->next->back = peer->back;
    peer->next = member->graveyard;
    member->graveyard = peer;
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
        .expects = peer->incarnation,
        .version = PACKAGE_VERSION,
    };
    enum gw_status status = member->transport->ops->dial(
        member->transport, peer->address, &hello, &link_handler, slot,
        &peer->windows, &slot->link, error);
    if (status == GW_OK)
        return GW_OK;
    slot->link = NULL;
    gw_timer_start(member->loop, &slot->redial, REDIAL_MOST_US);
    return status;
}

static void redial(struct gw_timer *timer)
{
    dial_slot(timer->owner, NULL);
}

static void redial_later(struct gw_peer_link *slot)
{
    struct gw_member *member = slot->peer->member;
    gw_timer_start(member->loop, &slot->redial, slot->redial_us);
    slot->redial_us *= 2;
    if (slot->redial_us > REDIAL_MOST_US)
        slot->redial_us = REDIAL_MOST_US;
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
    if (reply) {
        if (peer->incarnation && reply->incarnation != peer->incarnation) {
            tell_lost(peer, GW_EREFUSED, "another process took its place");
            return;
        }
        peer->incarnation = reply->incarnation;
        if (!member->job)
            member->job = reply->job;
    }
    peer->was_up = 1;
    heard(peer);
    if (slot->index == 0)
        gw_channel_resend(&peer->channel, link);
    member->handler->link_up(member->owner, peer, slot->index);
}

static int is_final(enum gw_status status)
{
    return status == GW_EREFUSED || status == GW_EVERSION;
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct gw_peer_link *slot = link->owner;
    struct gw_peer *peer = slot->peer;
    struct gw_member *member = peer->member;
    int was_up = slot->link == link && peer->was_up;
    slot->link = NULL;
    if (was_up)
        member->handler->link_down(member->owner, peer, slot->index, status,
                                   why);
    if (peer->closed || !peer->opener)
        return;
    uint64_t tried_us = gw_loop_now(member->loop) - peer->since_us;
    if (is_final(status))
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
        status = gw_channel_take(&peer->channel, frame->clock);
    if (status == GW_EEXIST)
        return;
    if (status == GW_OK)
        status = gw_message_decode(payload, frame->length, &member->decode,
                                   &message);
    if (status != GW_OK) {
        gw_peer_reject(peer, slot->index,
                       "control message out of order or "
                       "malformed");
        return;
    }
    member->handler->message(member->owner, peer, &message);
}

static void beat(struct gw_peer_link *slot)
{
    struct gw_peer *peer = slot->peer;
    if (slot->heartbeat_queued)
        return;
    slot->heartbeat_queued = 1;
    slot->heartbeat.frame = (struct gw_frame){
        .kind = GW_FRAME_HEARTBEAT,
        .epoch = (uint32_t)peer->member->epoch,
        .clock = gw_loop_now(peer->member->loop),
        .offset = peer->channel.received,
        .chunk = GW_CHUNK_NONE,
        .count = (uint32_t)atomic_load(&peer->member->clock),
    };
    peer->channel.told = peer->channel.received;
    gw_link_send(slot->link, &slot->heartbeat);
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct gw_peer_link *slot = link->owner;
    struct gw_peer *peer = slot->peer;
    struct gw_member *member = peer->member;
    heard(peer);
    if (frame->kind == GW_FRAME_CONTROL) {
        got_control(slot, frame, payload);
        if (slot->link && slot->index == 0 &&
            gw_channel_owes_ack(&peer->channel))
            beat(slot);
    } else if (frame->kind == GW_FRAME_HEARTBEAT) {
        peer->clock = frame->count;
        if (gw_channel_acked(&peer->channel, frame->offset) != GW_OK)
            gw_peer_reject(peer, slot->index,
                           "acknowledges what was never sent");
    } else {
        member->handler->frame(member->owner, peer, slot->index, frame,
                               payload);
    }
}

static const struct gw_link_handler link_handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

void gw_peer_reject(struct gw_peer *peer, unsigned link, const char *why)
{
    struct gw_peer_link *slot = &peer->link[link];
    struct gw_member *member = peer->member;
    if (!slot->link)
        return;
    close_slot(slot);
    member->handler->link_down(member->owner, peer, link, GW_EPROTO, why);
    if (peer->opener && !peer->closed)
        redial_later(slot);
}

/* ---- accepting ---- */

static struct gw_peer *find_peer(struct gw_member *member,
                                 const struct gw_hello *hello)
{
    struct gw_peer *peer = member->peers;
    while (peer && (peer->opener || peer->role != hello->role ||
                    peer->incarnation != hello->incarnation))
        peer = peer->next;
    return peer;
}

static enum gw_status admit(struct gw_member *member,
                            const struct gw_hello *hello,
                            const char *remote,
                            struct gw_reply *reply,
                            struct gw_peer **peer_p)
{
    struct gw_peer *peer = peer_new(member, hello->links);
    if (!peer)
        return GW_ENOMEM;
    peer->role = hello->role;
    peer->id = hello->rank;
    peer->incarnation = hello->incarnation;
    snprintf(peer->address, sizeof peer->address, "%s", remote);
    name_peer(peer, remote);
    enum gw_status status = member->handler->admit(
        member->owner, peer, hello, reply->reason, sizeof reply->reason);
    if (status != GW_OK) {
        gw_peer_close(peer);
        return status;
    }
    *peer_p = peer;
    return GW_OK;
}

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    struct gw_member *member = acceptor->owner;
    reply->epoch = (uint32_t)member->epoch;
    reply->job = member->job;
    reply->incarnation = member->incarnation;
    if (hello->expects && hello->expects != member->incarnation) {
        snprintf(reply->reason, sizeof reply->reason,
                 "another process listens here now");
        return GW_EREFUSED;
    }
    if (hello->job && member->job && hello->job != member->job) {
        snprintf(reply->reason, sizeof reply->reason,
                 "this is another job: %016" PRIx64 ", not %016" PRIx64,
                 member->job, hello->job);
        return GW_EREFUSED;
    }
    struct gw_peer *peer = find_peer(member, hello);
    if (!peer) {
        enum gw_status status =
            admit(member, hello, link->remote, reply, &peer);
        if (status != GW_OK)
            return status;
    }
    struct gw_peer_link *slot = &peer->link[hello->link];
    if (hello->links != peer->links || hello->generation <= slot->generation) {
        snprintf(reply->reason, sizeof reply->reason,
                 "a newer connection is there already");
        return GW_EAGAIN;
    }
    if (slot->link) {
        close_slot(slot);
        member->handler->link_down(member->owner, peer, hello->link, GW_ECLOSED,
                                   "replaced by a newer one");
    }
    slot->generation = hello->generation;
    slot->link = link;
    link->handler = &link_handler;
    link->owner = slot;
    link->windows = &peer->windows;
    return GW_OK;
}

/* ---- time ---- */

static void watch_link(struct gw_peer_link *slot, uint64_t now)
{
    struct gw_member *member = slot->peer->member;
    struct gw_link *link = slot->link;
    if (!link || !link->up)
        return;
    if (now > link->heard_us + member->silence_us) {
        gw_peer_reject(slot->peer, slot->index, "silent");
        return;
    }
    if (now - link->sent_us >= member->heartbeat_us - tick_us(member) ||
        (slot->index == 0 &&
         slot->peer->channel.told < slot->peer->channel.received))
        beat(slot);
}

/* Never into the future: what was heard since the pause was heard then. */
static uint64_t later(uint64_t us, uint64_t gap_us, uint64_t now)
{
    return us + gap_us < now ? us + gap_us : now;
}

/* Time in which this process did not run is nobody's silence. */
static void forgive(struct gw_member *member, uint64_t gap_us, uint64_t now)
{
    member->paused_us = now;
    for (struct gw_peer *peer = member->peers; peer; peer = peer->next) {
        peer->heard_us = later(peer->heard_us, gap_us, now);
        peer->since_us = later(peer->since_us, gap_us, now);
        for (unsigned i = 0; i < peer->links; i++) {
            struct gw_link *link = peer->link[i].link;
            if (link)
                link->heard_us = later(link->heard_us, gap_us, now);
        }
    }
}

static void on_tick(struct gw_timer *timer)
{
    struct gw_member *member = timer->owner;
    uint64_t now = gw_loop_now(member->loop);
    uint64_t gap_us = now - member->ticked_us;
    member->ticked_us = now;
    bury(member);
    gw_timer_start(member->loop, timer, tick_us(member));
    if (gap_us > 3 * tick_us(member))
        forgive(member, gap_us - tick_us(member), now);
    struct gw_peer *next;
    for (struct gw_peer *peer = member->peers; peer; peer = next) {
        next = peer->next;
        for (unsigned i = 0; i < peer->links && !peer->closed; i++)
            watch_link(&peer->link[i], now);
        if (!peer->closed && peer->was_up &&
            now > peer->heard_us + member->silence_us)
            tell_lost(peer, GW_ETIMEOUT, "silent");
    }
}

/* ---- the member ---- */

enum gw_status gw_member_open(const struct gw_member_options *options,
                              struct gw_member **member_p,
                              struct gw_error *error)
{
    struct gw_member *member = calloc(1, sizeof *member);
    if (!member)
        return gw_fail(error, GW_ENOMEM, "no memory for a member");
    enum gw_status status = options->transport->open(
        options->loop, &options->transport_config, &member->transport, error);
    if (status != GW_OK) {
        free(member);
        return status;
    }
    member->loop = options->loop;
    member->acceptor = (struct gw_acceptor){.judge = judge, .owner = member};
    member->handler = options->handler;
    member->owner = options->owner;
    member->role = options->role;
    member->rank = options->rank;
    member->job = options->job;
    member->incarnation = options->incarnation;
    while (member->incarnation == 0)
        gw_loop_random(member->loop, &member->incarnation,
                       sizeof member->incarnation);
    member->heartbeat_us =
        options->heartbeat_us ? options->heartbeat_us : GW_HEARTBEAT_US;
    member->silence_us =
        options->silence_us ? options->silence_us : GW_SILENCE_US;
    member->join_us = options->join_us ? options->join_us : JOIN_US;
    member->ticked_us = gw_loop_now(member->loop);
    member->tick.fire = on_tick;
    member->tick.owner = member;
    gw_timer_start(member->loop, &member->tick, tick_us(member));
    *member_p = member;
    return GW_OK;
}

void gw_member_close(struct gw_member *member)
{
    if (!member)
        return;
    gw_timer_stop(member->loop, &member->tick);
    while (member->peers)
        gw_peer_close(member->peers);
    member->transport->ops->close(member->transport);
    bury(member);
    free(member);
}

struct gw_loop *gw_member_loop(const struct gw_member *member)
{
    return member->loop;
}

uint64_t gw_member_incarnation(const struct gw_member *member)
{
    return member->incarnation;
}

uint64_t gw_member_job(const struct gw_member *member)
{
    return member->job;
}

void gw_member_set_job(struct gw_member *member, uint64_t job)
{
    member->job = job;
}

void gw_member_set_rank(struct gw_member *member, uint32_t rank)
{
    member->rank = rank;
}

void gw_member_set_epoch(struct gw_member *member, uint64_t epoch)
{
    member->epoch = epoch;
}

uint64_t gw_member_epoch(const struct gw_member *member)
{
    return member->epoch;
}

void gw_member_set_clock(struct gw_member *member, uint64_t clock)
{
    atomic_store(&member->clock, clock);
}

uint64_t gw_member_clock(const struct gw_member *member)
{
    return atomic_load(&member->clock);
}

uint64_t gw_member_paused_us_ago(const struct gw_member *member)
{
    if (!member->paused_us)
        return UINT64_MAX;
    return gw_loop_now(member->loop) - member->paused_us;
}

enum gw_status gw_member_listen(struct gw_member *member,
                                const char *address,
                                struct gw_error *error)
{
    return member->transport->ops->listen(member->transport, address,
                                          &member->acceptor, &member->listener,
                                          error);
}

const char *gw_member_address(const struct gw_member *member)
{
    if (!member->listener)
        return "";
    return member->transport->ops->listener_address(member->listener);
}

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
    if (strlen(address) >= GW_ADDRESS_MAX)
        return gw_fail(error, GW_EINVAL, "the address \"%.40s...\" is too long",
                       address);
    struct gw_peer *peer = peer_new(member, links);
    if (!peer)
        return gw_fail(error, GW_ENOMEM, "no memory for a peer");
    peer->opener = 1;
    peer->owner = owner;
    peer->role = role;
    peer->id = GW_RANK_NONE;
    peer->incarnation = expects;
    snprintf(peer->address, sizeof peer->address, "%s", address);
    name_peer(peer, address);
    for (unsigned i = 0; i < links; i++) {
        peer->link[i].redial_us = REDIAL_FIRST_US;
        /* memory may come back, an address will not get better */
        if (dial_slot(&peer->link[i], error) == GW_EINVAL) {
            gw_peer_close(peer);
            return GW_EINVAL;
        }
    }
    *peer_p = peer;
    return GW_OK;
}

struct gw_peer *gw_member_peers(const struct gw_member *member)
{
    return member->peers;
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

unsigned gw_member_tell_all(struct gw_member *member,
                            uint8_t role,
                            const struct gw_message *message)
{
    unsigned untold = 0;
    for (struct gw_peer *peer = member->peers; peer; peer = peer->next)
        if (peer->role == role)
            untold += gw_peer_tell(peer, message) != GW_OK;
    return untold;
}

int gw_peer_flushed(const struct gw_peer *peer)
{
    return peer->channel.acked == peer->channel.sent;
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

int gw_peer_is_up(const struct gw_peer *peer, unsigned link)
{
    return peer->link[link].link && peer->link[link].link->up;
}

uint64_t gw_peer_silent_us(const struct gw_peer *peer)
{
    uint64_t now = gw_loop_now(peer->member->loop);
    return now > peer->heard_us ? now - peer->heard_us : 0;
}
