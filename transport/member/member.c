/* This process among the others: judging logins, and the passing of time. */
#include "config.h"

#include "transport/member/member_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICKS_PER_HEARTBEAT 4
#define JOIN_US             60000000

/* A refused member asks again sooner: failures further apart are separate. */
#define STARVES_APART_US 2000000
/* A peer sends several heartbeats in the tolerated silence. */
#define BEATS_PER_SILENCE 5

/* A tick late by so many ticks means a pause; a turn may be as long. */
#define LATE_TICKS 3

/* Shorter pauses are usual on a busy host, and not logged. */
#define PAUSE_TOLD_US 400000

uint64_t gw_member_tick_us(const struct gw_member *member)
{
    return member->heartbeat_us / TICKS_PER_HEARTBEAT;
}

/* ---- accepting ---- */

/* A peer of a local listener is found through local listeners only, since any
   process can claim an incarnation. */
static struct gw_peer *
find_peer(struct gw_member *member, const struct gw_hello *hello, int local)
{
    struct gw_peer *peer = *gw_member_admitted(member, hello->incarnation);
    while (peer &&
           (peer->role != hello->role ||
            peer->incarnation != hello->incarnation || peer->local != local))
        peer = peer->same;
    return peer;
}

void gw_member_starves(struct gw_member *member, const char *why)
{
    uint64_t now = gw_loop_now(member->loop);
    if (!member->starves_since_us ||
        now - member->starved_us > STARVES_APART_US) {
        member->starves_since_us = now;
        gw_log_warn(member->loop->log, "%s: others wait for this process", why);
    }
    member->starved_us = now;
    if (now - member->starves_since_us < member->starves_us ||
        member->starves_told)
        return;
    member->starves_told = 1;
    if (member->handler->starves)
        member->handler->starves(member->owner, why);
}

static void starves(struct gw_acceptor *acceptor, const char *why)
{
    gw_member_starves(acceptor->owner, why);
}

static enum gw_status admit(struct gw_member *member,
                            const struct gw_hello *hello,
                            const struct gw_link *link,
                            struct gw_reply *reply,
                            struct gw_peer **peer_p)
{
    struct gw_peer *peer =
        gw_peer_new(member, hello->role, hello->rank, hello->incarnation,
                    link->remote, hello->links);
    if (!peer) {
        snprintf(reply->reason, sizeof reply->reason, "no memory for a peer");
        gw_member_starves(member, reply->reason);
        return GW_ENOMEM;
    }
    peer->local = link->local;
    enum gw_status status = member->handler->admit(
        member->owner, peer, hello, reply->reason, sizeof reply->reason);
    if (status == GW_ENOMEM) {
        snprintf(reply->reason, sizeof reply->reason, "no memory for a peer");
        gw_member_starves(member, reply->reason);
    }
    if (status != GW_OK) {
        gw_peer_close(peer);
        return status;
    }
    struct gw_peer **bucket = gw_member_admitted(member, peer->incarnation);
    peer->same = *bucket;
    *bucket = peer;
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
    struct gw_peer *peer = find_peer(member, hello, link->local);
    enum gw_status status =
        !peer              ? admit(member, hello, link, reply, &peer)
        : peer->has_secret ? gw_peer_admit(peer, hello, &peer->secret,
                                           reply->reason, sizeof reply->reason)
                           : GW_OK;
    if (status != GW_OK)
        return status;
    if (hello->links != peer->links ||
        hello->generation <= peer->link[hello->link].generation) {
        gw_peer_say_newer(peer, hello->link, reply->reason,
                          sizeof reply->reason);
        return GW_EAGAIN;
    }
    if (!gw_peer_adopt(&peer->link[hello->link], link, hello->generation)) {
        snprintf(reply->reason, sizeof reply->reason,
                 "the connection before this one was given up");
        return GW_EAGAIN;
    }
    return GW_OK;
}

/* ---- time ---- */

/* Shifts a time by the gap, but never into the future. */
static uint64_t later(uint64_t us, uint64_t gap_us, uint64_t now)
{
    return us + gap_us < now ? us + gap_us : now;
}

static void forgive_peer(struct gw_peer *peer, uint64_t gap_us, uint64_t now)
{
    peer->heard_us = later(peer->heard_us, gap_us, now);
    peer->since_us = later(peer->since_us, gap_us, now);
    if (peer->stuck_us)
        peer->stuck_us = later(peer->stuck_us, gap_us, now);
    for (unsigned i = 0; i < peer->links; i++) {
        struct gw_link *link = peer->link[i].link;
        if (link)
            link->heard_us = later(link->heard_us, gap_us, now);
    }
}

/* How late a tick is; 0: it is in time. */
static uint64_t
late(const struct gw_member *member, uint64_t since_us, uint64_t now)
{
    uint64_t tick_us = gw_member_tick_us(member);
    return now - since_us > LATE_TICKS * tick_us ? now - since_us - tick_us : 0;
}

/* The time for which nothing was handled here. The tick notices it, but other
   events may be handled before the tick. */
static uint64_t gap_of(const struct gw_member *member, uint64_t now)
{
    return late(member, member->ticked_us, now);
}

/* The part of the gap in which this process did nothing: during a long turn it
   was not paused, and others heard it. */
static uint64_t pause_of(const struct gw_member *member, uint64_t now)
{
    return late(member,
                member->pulsed_us > member->ticked_us ? member->pulsed_us
                                                      : member->ticked_us,
                now);
}

/* Others may have missed this process; it cannot know which of them. */
static void note_pause(struct gw_member *member, uint64_t now)
{
    uint64_t pause_us = pause_of(member, now);
    /* a later, short pause does not hide a long one */
    if (pause_us >= member->silence_us / 2) {
        member->stood_us = pause_us;
        member->stood_at_us = now;
    }
    if (pause_us >= PAUSE_TOLD_US && !member->quiet)
        gw_log_warn(member->loop->log, "this process was paused for %.1f s",
                    (double)pause_us / 1e6);
}

/* Time in which this process did not run does not count as silence of peers. */
static void forgive(struct gw_member *member, uint64_t gap_us, uint64_t now)
{
    member->paused_us += gap_us;
    for (struct gw_peer *peer = member->peers; peer; peer = peer->next)
        forgive_peer(peer, gap_us, now);
}

static void on_tick(struct gw_timer *timer)
{
    struct gw_member *member = timer->owner;
    uint64_t now = gw_loop_now(member->loop);
    uint64_t gap_us = gap_of(member, now);
    note_pause(member, now);
    member->ticked_us = now;
    gw_member_free_closed(member);
    gw_timer_start(member->loop, timer, gw_member_tick_us(member));
    if (gap_us > 0)
        forgive(member, gap_us, now);
    struct gw_peer *next;
    for (struct gw_peer *peer = member->peers; peer; peer = next) {
        next = peer->next;
        gw_peer_watch(peer, now);
    }
}

/* Within a turn, before the next tick, which will be late. */
static void on_pulse(struct gw_pulse *pulse, uint64_t now)
{
    struct gw_member *member = GW_CONTAINER(pulse, struct gw_member, pulse);
    uint64_t tick_us = gw_member_tick_us(member);
    if (now < member->ticked_us + tick_us || now < member->pulsed_us + tick_us)
        return;
    note_pause(member, now);
    member->pulsed_us = now;
    for (struct gw_peer *peer = member->peers; peer; peer = peer->next)
        gw_peer_pulse(peer, now);
}

/* ---- the member ---- */

static void close_transports(struct gw_member *member)
{
    for (unsigned i = 0; i < member->routes; i++) {
        struct gw_transport *one = member->route[i].transport;
        if (one != member->transport)
            one->ops->close(one);
    }
    if (member->transport)
        member->transport->ops->close(member->transport);
}

static enum gw_status open_transports(struct gw_member *member,
                                      const struct gw_member_options *options,
                                      struct gw_error *error)
{
    const struct gw_transport_ops *const same[] = {options->transport, NULL};
    const struct gw_transport_ops *const *data =
        options->data ? options->data : same;
    const struct gw_transport_config *all = &options->transport_config;
    struct gw_transport_config control = *all;
    control.interface =
        options->control_interface ? options->control_interface : "";
    control.key = "cluster.control_interface";
    int alike =
        strcmp(all->interface ? all->interface : "", control.interface) == 0;
    enum gw_status status = options->transport->open(options->loop, &control,
                                                     &member->transport, error);
    for (unsigned i = 0; i < GW_ROUTES_MAX && data[i] && status == GW_OK; i++) {
        struct gw_member_route *route = &member->route[i];
        route->transport = member->transport;
        if (data[i] != options->transport || !alike)
            status =
                data[i]->open(options->loop, all, &route->transport, error);
        member->routes += status == GW_OK;
    }
    if (status != GW_OK)
        close_transports(member);
    return status;
}

enum gw_status gw_member_open(const struct gw_member_options *options,
                              struct gw_member **member_p,
                              struct gw_error *error)
{
    struct gw_member *member = calloc(1, sizeof *member);
    if (!member)
        return gw_fail(error, GW_ENOMEM, "no memory for a member");
    enum gw_status status = open_transports(member, options, error);
    if (status != GW_OK) {
        free(member);
        return status;
    }
    member->loop = options->loop;
    member->acceptor = (struct gw_acceptor){
        .judge = judge, .starves = starves, .owner = member};
    member->handler = options->handler;
    member->owner = options->owner;
    member->role = options->role;
    member->rank = options->rank;
    member->job = options->job;
    member->incarnation = options->incarnation;
    while (member->incarnation == 0)
        gw_loop_random(member->loop, &member->incarnation,
                       sizeof member->incarnation);
    if (options->secret)
        member->secret = *options->secret;
    else
        gw_loop_random(member->loop, &member->secret, sizeof member->secret);
    member->heartbeat_us =
        options->heartbeat_us ? options->heartbeat_us : GW_HEARTBEAT_US;
    gw_member_set_silence(member, options->silence_us ? options->silence_us
                                                      : GW_SILENCE_US);
    member->join_us = options->join_us ? options->join_us : JOIN_US;
    member->starves_us =
        options->starves_us ? options->starves_us : GW_MEMBER_STARVES_US;
    member->quiet = options->quiet;
    member->ticked_us = gw_loop_now(member->loop);
    member->known.per_second = member->strangers.per_second = 2;
    member->tick.fire = on_tick;
    member->tick.owner = member;
    gw_timer_start(member->loop, &member->tick, gw_member_tick_us(member));
    member->pulse.beat = on_pulse;
    gw_loop_pulse_begin(member->loop, &member->pulse);
    *member_p = member;
    return GW_OK;
}

void gw_member_close(struct gw_member *member)
{
    if (!member)
        return;
    gw_timer_stop(member->loop, &member->tick);
    gw_loop_pulse_end(member->loop, &member->pulse);
    while (member->peers)
        gw_peer_close(member->peers);
    close_transports(member);
    gw_member_free_closed(member);
    gw_secret_forget(&member->secret);
    free(member);
}

uint64_t gw_member_incarnation(const struct gw_member *member)
{
    return member->incarnation;
}

uint64_t gw_member_job(const struct gw_member *member)
{
    return member->job;
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

void gw_member_set_silence(struct gw_member *member, uint64_t silence_us)
{
    member->silence_us = silence_us;
    if (member->heartbeat_us > silence_us / BEATS_PER_SILENCE)
        member->heartbeat_us = silence_us / BEATS_PER_SILENCE;
}

uint64_t gw_member_silence_us(const struct gw_member *member)
{
    return member->silence_us;
}

void gw_member_excuse(const struct gw_member *member,
                      uint64_t now,
                      uint64_t *paused_us,
                      uint64_t *since_us)
{
    uint64_t paused = member->paused_us + gap_of(member, now);
    uint64_t pause_us = paused > *paused_us ? paused - *paused_us : 0;
    *paused_us = paused;
    if (*since_us < now)
        *since_us = now - *since_us > pause_us ? *since_us + pause_us : now;
}

void gw_member_paused_words(const struct gw_member *member,
                            char words[GW_PAUSED_BYTES])
{
    uint64_t now = gw_loop_now(member->loop),
             standing_us = pause_of(member, now);
    uint64_t pause_us = standing_us ? standing_us : member->stood_us;
    words[0] = '\0';
    if (pause_us >= member->silence_us / 2 &&
        (standing_us || now - member->stood_at_us < 2 * member->silence_us))
        snprintf(words, GW_PAUSED_BYTES, "this process was paused for %.1f s; ",
                 (double)pause_us / 1e6);
}

int gw_member_was_paused(const struct gw_member *member)
{
    char words[GW_PAUSED_BYTES];
    gw_member_paused_words(member, words);
    return words[0] != '\0';
}

struct gw_peer *gw_member_peers(const struct gw_member *member)
{
    return member->peers;
}
