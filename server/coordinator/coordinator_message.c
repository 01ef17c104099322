/* The handlers of the members' messages, frames and links. */
#include "config.h"

#include "server/coordinator/coordinator_end.h"

#include <stdio.h>
#include <string.h>

#include "proto/dispatch.h"
#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

/* ---- links ---- */

/* It may have been paused, and cannot know what has become of its place. */
static int was_given_up(const struct gw_coordinator *self,
                        const struct gw_hello *hello)
{
    const struct gw_seat *one = gw_roster_gone(self);
    while (one &&
           ((one->role == GW_ROLE_WORKER) != (hello->role == GW_ROLE_WORKER) ||
            one->incarnation != hello->incarnation))
        one = one->next;
    return one != NULL;
}

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    struct gw_coordinator *self = owner;
    if (hello->role == GW_ROLE_COORDINATOR) {
        snprintf(why, why_bytes, "this job has a coordinator");
        return GW_EREFUSED;
    }
    if (peer->local && hello->role != GW_ROLE_OBSERVER) {
        snprintf(why, why_bytes, "members join at %s",
                 gw_coordinator_address(self));
        return GW_EREFUSED;
    }
    if (was_given_up(self, hello)) {
        snprintf(why, why_bytes,
                 "this process was silent and given up, so that another one "
                 "takes its place");
        return GW_EREFUSED;
    }
    gw_strangers_make_room(self, peer);
    if (strcmp(hello->version, PACKAGE_VERSION) != 0)
        gw_log_limited(self->log, &self->limit, GW_LOG_WARN,
                       "%s at %s is gradweir %s, this is %s: bits may differ",
                       gw_role_name(hello->role), peer->address, hello->version,
                       PACKAGE_VERSION);
    return GW_OK;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct gw_seat *who = gw_roster_of(owner, peer);
    (void)link;
    if (who)
        who->broke = 0;
    gw_vacant_heard(owner, peer);
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct gw_coordinator *self = owner;
    struct gw_seat *who = gw_roster_of(self, peer);
    (void)link;
    if (self->phase == GW_PHASE_ENDING) {
        gw_ending_link_down(self);
    } else if (who && status == GW_EPROTO) {
        gw_coordinator_faulted(self, who, "", why);
    } else if (who) {
        /* it comes back, or a death is told */
        who->broke =
            status != GW_ETIMEOUT && !gw_member_was_paused(self->member);
        gw_log_info(self->log, "connection to %s broke: %s (%s)", peer->name,
                    why, gw_status_text(status));
    }
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    gw_coordinator_lost(owner, peer, status, why);
    if (!gw_roster_of(owner, peer) && !gw_vacant_keeps(owner, peer))
        gw_peer_close(peer); /* an observer has gone */
}

static void starves(void *owner, const char *why)
{
    gw_coordinator_end(owner, GW_ENOMEM,
                       "the coordinator has %s, for %d s: nobody can join it",
                       why, GW_MEMBER_STARVES_US / 1000000);
}

/* ---- messages of peers that have not joined ---- */

static void
got_join(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_coordinator_joined(owner, peer, &message->join);
}

static void
got_status(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_coordinator *self = owner;
    char text[16384];
    struct gw_message answer = {.kind = GW_MESSAGE_STATUS,
                                .status = {.text = text}};
    if (message->status.request == GW_ASK_JOB)
        answer.status.text = self->job_text;
    else
        gw_coordinator_status(self, text, sizeof text);
    gw_peer_tell(peer, &answer);
}

static void
got_request(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_coordinator_requested(owner, peer, &message->request);
}

/* It was turned away, and is going. */
static void got_good_bye(void *owner,
                         struct gw_peer *peer,
                         const struct gw_message *message)
{
    (void)owner;
    (void)peer;
    (void)message;
}

/* ---- messages of members ---- */

static void
got_declare(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_coordinator *self = owner;
    struct gw_seat *who = gw_roster_of(self, peer);
    if (self->phase == GW_PHASE_REJOINING)
        gw_rejoin_declared(self, who, &message->declare);
    else
        gw_coordinator_declared(self, who, &message->declare);
}

static void
got_ready(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    (void)message;
    gw_coordinator_ready(owner, gw_roster_of(owner, peer));
}

static void
got_caught(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_copies_got_caught(owner, gw_roster_of(owner, peer), &message->caught);
}

static void got_standing(void *owner,
                         struct gw_peer *peer,
                         const struct gw_message *message)
{
    struct gw_seat *shard = gw_roster_of(owner, peer);
    if (gw_rejoin_standing(owner, shard, &message->standing))
        return;
    if (gw_vacant_standing(owner, shard, &message->standing))
        gw_places_standing(owner, shard, &message->standing);
}

static void
got_report(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_coordinator_reported(owner, gw_roster_of(owner, peer), &message->report);
}

static void
got_stall(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_coordinator_stalled(owner, gw_roster_of(owner, peer), &message->stall);
}

static void
got_fault(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    const struct gw_fault *fault = &message->fault;
    struct gw_seat *who = gw_roster_find(owner, fault->role, fault->id);
    if (who && who->peer != peer)
        gw_coordinator_faulted(owner, who, peer->name, fault->text);
}

static void
got_stop(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    char text[GW_ERROR_TEXT_BYTES];
    if (message->stop.finished > 0) {
        gw_coordinator_finished(owner, gw_roster_of(owner, peer),
                                message->stop.finished - 1);
        return;
    }
    if (message->stop.leaves && gw_depart_ask(owner, gw_roster_of(owner, peer)))
        return;
    snprintf(text, sizeof text, "%s: %s", peer->name,
             gw_reason(message->stop.text));
    gw_coordinator_stop(owner, text);
}

static void got_save_request(void *owner,
                             struct gw_peer *peer,
                             const struct gw_message *message)
{
    gw_coordinator_save(owner, gw_roster_of(owner, peer), &message->request);
}

static void
got_saved(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_keeper_saved(owner, gw_roster_of(owner, peer), &message->saved);
}

static void got_file_open(void *owner,
                          struct gw_peer *peer,
                          const struct gw_message *message)
{
    gw_files_open(owner, gw_roster_of(owner, peer), &message->file_open);
}

static void
got_bye(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_seat *who = gw_roster_of(owner, peer);
    if (who->moves)
        gw_moves_left(owner, who);
    else if (who->departs)
        gw_depart_left(owner, who);
    else
        gw_coordinator_bye(owner, who, &message->bye);
}

/* A member may fail the job, not declare it done. */
static void
got_end(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    if (message->end.status == GW_OK)
        gw_peer_reject(peer, 0, "an end that is not its to tell");
    else
        gw_coordinator_failed(owner, peer, &message->end);
}

static void got_decision(void *owner,
                         struct gw_peer *peer,
                         const struct gw_message *message)
{
    (void)peer;
    gw_coordinator_decided(owner, &message->decision);
}

static const struct gw_message_handler handlers[] = {
    {GW_FROM_STRANGER, GW_MESSAGE_JOIN, got_join},
    {GW_FROM_STRANGER, GW_MESSAGE_DECLARE, got_good_bye},
    {GW_FROM_STRANGER | GW_FROM_OBSERVER, GW_MESSAGE_BYE, got_good_bye},
    {GW_FROM_STRANGER | GW_FROM_OBSERVER, GW_MESSAGE_END, got_good_bye},
    {GW_FROM_OBSERVER, GW_MESSAGE_STATUS, got_status},
    {GW_FROM_OBSERVER, GW_MESSAGE_REQUEST, got_request},
    {GW_FROM_MEMBER, GW_MESSAGE_DECLARE, got_declare},
    {GW_FROM_MEMBER, GW_MESSAGE_READY, got_ready},
    {GW_FROM_SHARD | GW_FROM_LEADER, GW_MESSAGE_CAUGHT, got_caught},
    {GW_FROM_SHARD | GW_FROM_LEADER, GW_MESSAGE_STANDING, got_standing},
    {GW_FROM_MEMBER, GW_MESSAGE_REPORT, got_report},
    {GW_FROM_MEMBER, GW_MESSAGE_STALL, got_stall},
    {GW_FROM_MEMBER, GW_MESSAGE_FAULT, got_fault},
    {GW_FROM_MEMBER, GW_MESSAGE_STOP, got_stop},
    {GW_FROM_MEMBER, GW_MESSAGE_REQUEST, got_save_request},
    {GW_FROM_MEMBER, GW_MESSAGE_SAVED, got_saved},
    {GW_FROM_MEMBER, GW_MESSAGE_FILE_OPEN, got_file_open},
    {GW_FROM_MEMBER, GW_MESSAGE_BYE, got_bye},
    {GW_FROM_MEMBER, GW_MESSAGE_END, got_end},
    {GW_FROM_LEADER, GW_MESSAGE_DECISION, got_decision},
};

static unsigned sender_of(const struct gw_seat *who, const struct gw_peer *peer)
{
    if (!who)
        return peer->role == GW_ROLE_OBSERVER ? GW_FROM_OBSERVER
                                              : GW_FROM_STRANGER;
    if (who->role == GW_ROLE_WORKER)
        return GW_FROM_WORKER;
    return who->id == 0 && who->role == GW_ROLE_SERVER
               ? GW_FROM_SHARD | GW_FROM_LEADER
               : GW_FROM_SHARD;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_coordinator *self = owner;
    gw_vacant_heard(self, peer);
    unsigned sender = sender_of(gw_roster_of(self, peer), peer);
    if (self->options.metrics)
        gw_metrics_add(self->options.metrics, GW_METRIC_CONTROL_MESSAGES, 1);
    if (!gw_message_dispatch(handlers, sizeof handlers / sizeof *handlers,
                             sender, self, peer, message))
        gw_peer_reject(peer, 0, GW_MESSAGE_UNEXPECTED);
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    gw_vacant_heard(owner, peer);
    struct gw_seat *who = gw_roster_of(owner, peer);
    (void)payload; /* in its window already */
    if (who && frame->kind == GW_FRAME_FILE)
        gw_files_frame(owner, who, frame);
    else
        gw_peer_reject_frame(peer, link, frame);
}

const struct gw_member_handler gw_coordinator_handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
    .starves = starves,
    .stuck = gw_member_stuck_unheard,
};
