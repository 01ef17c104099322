/* The coordinator: opening, messages, closing. */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/policy/decision.h"

struct gw_roster *gw_roster_of(struct gw_coordinator *self,
                               const struct gw_peer *peer)
{
    struct gw_roster *one = self->roster;
    while (one && one->peer != peer)
        one = one->next;
    return one;
}

struct gw_roster *
gw_roster_find(struct gw_coordinator *self, uint8_t role, uint32_t id)
{
    struct gw_roster *one = self->roster;
    while (one && (one->role != role || one->id != id))
        one = one->next;
    return one;
}

void gw_coordinator_tell(struct gw_coordinator *self,
                         struct gw_peer *peer,
                         const struct gw_message *message)
{
    enum gw_status status = gw_peer_tell(peer, message);
    if (status == GW_OK || status == GW_ECLOSED)
        return;
    gw_coordinator_end(self, status, "%s cannot be told of a %s: %s",
                       peer->name, gw_message_name(message->kind),
                       gw_status_text(status));
}

void gw_coordinator_note(struct gw_coordinator *self, const char *format, ...)
{
    char text[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    gw_text_print(text, sizeof text, format, args);
    va_end(args);
    gw_text_clean(text);
    self->options.events->note(self->options.owner, text);
}

void gw_coordinator_warn(struct gw_coordinator *self, const char *format, ...)
{
    char text[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    gw_text_print(text, sizeof text, format, args);
    va_end(args);
    gw_text_clean(text);
    self->options.events->warning(self->options.owner, text);
}

/* ---- the member's handler ---- */

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
    (void)owner;
    (void)peer;
    (void)link;
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct gw_coordinator *self = owner;
    struct gw_roster *who = gw_roster_of(self, peer);
    (void)link;
    if (self->phase == GW_PHASE_ENDING) {
        /* one by one they leave; the last one ends the wait */
        for (struct gw_roster *one = self->roster; one; one = one->next)
            if (gw_peer_is_up(one->peer, 0))
                return;
        gw_timer_start(self->loop, &self->end_timer, 0);
    } else if (who && status == GW_EPROTO) {
        gw_coordinator_faulted(self, who, "", why);
    } else if (who) {
        /* it comes back, or a death is told */
        gw_log_info(self->log, "connection to %s broke: %s (%s)", peer->name,
                    why, gw_status_text(status));
    }
}

static void got_stop(struct gw_coordinator *self,
                     struct gw_peer *peer,
                     const struct gw_stop *stop)
{
    char text[GW_ERROR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s: %s", peer->name, gw_reason(stop->text));
    gw_coordinator_stop(self, text);
}

static void got_fault(struct gw_coordinator *self,
                      const struct gw_peer *from,
                      const struct gw_fault *fault)
{
    struct gw_roster *who = gw_roster_find(self, fault->role, fault->id);
    if (who && who->peer != from)
        gw_coordinator_faulted(self, who, from->name, fault->text);
}

static void got_status(struct gw_coordinator *self,
                       struct gw_peer *peer,
                       enum gw_ask request)
{
    char text[16384];
    struct gw_message message = {.kind = GW_MESSAGE_STATUS,
                                 .status = {.text = text}};
    if (request == GW_ASK_JOB)
        message.status.text = self->job_text;
    else
        gw_coordinator_status(self, text, sizeof text);
    gw_peer_tell(peer, &message);
}

/* What those may say that are no members of the job. */
static void from_stranger(struct gw_coordinator *self,
                          struct gw_peer *peer,
                          const struct gw_message *message)
{
    int observer = peer->role == GW_ROLE_OBSERVER;
    if (message->kind == GW_MESSAGE_JOIN && !observer)
        gw_coordinator_joined(self, peer, &message->join);
    else if (message->kind == GW_MESSAGE_STATUS && observer)
        got_status(self, peer, message->status.request);
    else if (message->kind == GW_MESSAGE_REQUEST && observer)
        gw_coordinator_requested(self, peer, &message->request);
    else if (message->kind == GW_MESSAGE_BYE || message->kind == GW_MESSAGE_END)
        return; /* one that was turned away, and is going */
    else
        gw_peer_reject(peer, 0, "message that its role does not send");
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_coordinator *self = owner;
    struct gw_roster *who = gw_roster_of(self, peer);
    if (self->options.metrics)
        gw_metrics_add(self->options.metrics, GW_METRIC_CONTROL_MESSAGES, 1);
    if (!who) {
        from_stranger(self, peer, message);
        return;
    }
    int leader = who->role == GW_ROLE_SERVER && who->id == 0;
    switch (message->kind) {
    case GW_MESSAGE_DECLARE:
        gw_coordinator_declared(self, who, &message->declare);
        break;
    case GW_MESSAGE_READY:
        gw_coordinator_ready(self, who);
        break;
    case GW_MESSAGE_REPORT:
        gw_coordinator_reported(self, who, &message->report);
        break;
    case GW_MESSAGE_STALL:
        gw_coordinator_stalled(self, who, &message->stall);
        break;
    case GW_MESSAGE_FAULT:
        got_fault(self, peer, &message->fault);
        break;
    case GW_MESSAGE_STOP:
        got_stop(self, peer, &message->stop);
        break;
    case GW_MESSAGE_SAVED:
        gw_keeper_saved(self, who, &message->saved);
        break;
    case GW_MESSAGE_FILE_OPEN:
        gw_files_open(self, who, &message->file_open);
        break;
    case GW_MESSAGE_BYE:
        gw_coordinator_bye(self, who, &message->bye);
        break;
    case GW_MESSAGE_END:
        /* a member may fail the job, not declare it done */
        if (message->end.status == GW_OK)
            gw_peer_reject(peer, 0, "an end that is not its to tell");
        else
            gw_coordinator_failed(self, peer, &message->end);
        break;
    case GW_MESSAGE_DECISION:
        if (leader) {
            gw_coordinator_decided(self, &message->decision);
            break;
        }
        /* fall through */
    default:
        gw_peer_reject(peer, 0, "message that its role does not send");
    }
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct gw_roster *who = gw_roster_of(owner, peer);
    (void)payload; /* in its window already */
    if (who && frame->kind == GW_FRAME_FILE)
        gw_files_frame(owner, who, frame);
    else
        gw_peer_reject_frame(peer, link, frame);
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    gw_coordinator_lost(owner, peer, status, why);
    if (!gw_roster_of(owner, peer))
        gw_peer_close(peer); /* an observer has gone */
}

static void starves(void *owner, const char *why)
{
    gw_coordinator_end(owner, GW_ENOMEM,
                       "the coordinator has %s, for %d s: nobody can join it",
                       why, GW_MEMBER_STARVES_US / 1000000);
}

static const struct gw_member_handler handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
    .starves = starves,
    .stuck = gw_member_stuck_unheard,
};

/* ---- opening and closing ---- */

/* The job as members are told it, and as a checkpoint keeps it. */
static enum gw_status print_job(struct gw_coordinator *self,
                                struct gw_error *error)
{
    struct gw_config *told = malloc(sizeof *told);
    if (!told)
        return gw_fail(error, GW_ENOMEM, "no memory for the job");
    *told = *self->config;
    gw_config_forget_own(told);
    size_t bytes = gw_config_print(told, 0, NULL, 0) + 1;
    self->job_text = malloc(bytes);
    if (self->job_text)
        gw_config_print(told, 0, self->job_text, bytes);
    free(told);
    if (!self->job_text || bytes > GW_JOB_TEXT_MAX)
        return gw_fail(error, GW_ENOMEM, "the job is too large to be sent");
    return GW_OK;
}

/* A job can do without being commanded. */
static void listen_locally(struct gw_coordinator *self)
{
    char address[GW_ADDRESS_MAX];
    struct gw_error error;
    const char *path = self->options.local;
    if (!path || !path[0])
        return;
    /* one that is cut off is too long for a socket as well */
    snprintf(address, sizeof address, "unix:%s", path);
    self->has_local = gw_member_listen(self->member, address, &error) == GW_OK;
    if (self->has_local)
        gw_log_info(self->log, "takes orders at %s", address);
    else
        gw_coordinator_warn(self, "gradweir ctl cannot reach this job: %s",
                            error.text);
}

static enum gw_status open_all(struct gw_coordinator *self,
                               struct gw_error *error)
{
    const struct gw_coordinator_options *options = &self->options;
    struct gw_member_options member = {
        .loop = options->loop,
        .transport = options->transport,
        .role = GW_ROLE_COORDINATOR,
        .rank = GW_RANK_NONE,
        .silence_us = options->silence_us,
        .handler = &handler,
        .owner = self,
    };
    while (member.job == 0)
        gw_loop_random(options->loop, &member.job, sizeof member.job);
    enum gw_status status = print_job(self, error);
    if (status == GW_OK)
        status = gw_coordinator_run_open(self, error);
    if (status == GW_OK)
        status = gw_origin_open(self, error);
    if (status == GW_OK)
        status = gw_keeper_open(self, error);
    if (status == GW_OK)
        status = gw_splitter_open(self, error);
    if (status == GW_OK)
        status = gw_member_open(&member, &self->member, error);
    if (status != GW_OK)
        return status;
    gw_member_set_epoch(self->member, 1);
    status = gw_member_listen(self->member, options->listen, error);
    if (status != GW_OK)
        return status;
    listen_locally(self);
    gw_coordinator_watch(self);
    return GW_OK;
}

enum gw_status gw_coordinator_open(const struct gw_coordinator_options *options,
                                   struct gw_coordinator **coordinator_p,
                                   struct gw_error *error)
{
    struct gw_coordinator *self = calloc(1, sizeof *self);
    if (!self)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    self->options = *options;
    self->config = options->config;
    self->loop = options->loop;
    self->log = options->log;
    /* everyone begins with this one: workers multiply, shards divide by it */
    self->state.loss_scale = gw_loss_scale_first(options->config);
    self->limit.per_second = 2;
    if (!self->loop->log)
        self->loop->log = options->log; /* for what strangers do */
    if (!self->loop->metrics)
        self->loop->metrics = options->metrics;
    self->server_process =
        calloc(self->config->cluster.servers, sizeof *self->server_process);
    enum gw_status status =
        self->server_process
            ? open_all(self, error)
            : gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    if (status != GW_OK) {
        gw_coordinator_close(self);
        return status;
    }
    *coordinator_p = self;
    return GW_OK;
}

void gw_coordinator_close(struct gw_coordinator *self)
{
    if (!self)
        return;
    self->phase = GW_PHASE_OVER;
    gw_timer_stop(self->loop, &self->end_timer);
    gw_timer_stop(self->loop, &self->watch);
    gw_look_close(self);
    gw_member_close(self->member);
    gw_coordinator_tell_close(self);
    gw_splitter_close(self);
    gw_keeper_close(self);
    gw_coordinator_forget(self); /* with files in a directory of the origin */
    gw_origin_close(self);
    gw_coordinator_run_close(self);
    free(self->job_text);
    free(self);
}

const char *gw_coordinator_address(const struct gw_coordinator *self)
{
    return gw_member_address(self->member);
}

const char *gw_coordinator_local(const struct gw_coordinator *self)
{
    return self->has_local ? self->options.local : "";
}

/* Where each is at a clock of its own: as many steps as all together have done.
 */
static uint64_t step_of_each(const struct gw_coordinator *self)
{
    const uint64_t *first = self->gather_each.first;
    uint64_t clocks = 0, total = self->declare.total_steps;
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        if (one->role == GW_ROLE_WORKER && one->peer->clock > first[one->id])
            clocks += one->peer->clock - first[one->id];
    uint64_t step = self->base_clock + clocks / self->config->cluster.workers;
    return step < total ? step : total;
}

/* By heartbeats, which are there long before a step is told. */
uint64_t gw_coordinator_step(const struct gw_coordinator *self)
{
    uint64_t step = self->step;
    if (self->regime.each) {
        uint64_t done = step_of_each(self);
        return done > step ? done : step;
    }
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        if (one->role == GW_ROLE_WORKER && one->peer->clock > step &&
            !gw_coordinator_is_beyond(self, one->peer->clock))
            step = one->peer->clock;
    return step;
}

static const char *phase_name(enum gw_phase phase)
{
    static const char *const names[] = {"gathering", "starting", "running",
                                        "ending", "over"};
    return names[phase];
}

static size_t
print_state(const struct gw_coordinator *self, char *text, size_t room)
{
    const struct gw_config *config = self->config;
    char policy[GW_POLICY_WORD_BYTES];
    int n, last;
    gw_policy_word_print(gw_coordinator_word(self, &last), policy);
    if (self->phase == GW_PHASE_GATHERING)
        n = snprintf(
            text, room,
            "job %016" PRIx64 ": gathering, %u of %" PRIu64
            " worker%s and %u of %" PRIu64 " server%s are here\n",
            gw_member_job(self->member), self->workers, config->cluster.workers,
            gw_plural(config->cluster.workers), self->servers,
            config->cluster.servers, gw_plural(config->cluster.servers));
    else
        n = snprintf(text, room,
                     "job %016" PRIx64 ": %s, step %" PRIu64 " of %" PRIu64
                     ", policy %s\n",
                     gw_member_job(self->member), phase_name(self->phase),
                     gw_coordinator_step(self), self->declare.total_steps,
                     policy);
    return n > 0 ? (size_t)n : 0;
}

/* "NAME: heard 0.1 s ago, frames_in 52, .."; silent_us UINT64_MAX: oneself. */
static size_t print_member(char *text,
                           size_t room,
                           const char *name,
                           uint64_t silent_us,
                           const struct gw_metrics_snapshot *counters)
{
    char heard[48] = "", counted[1024];
    gw_metrics_print(counters, counted, sizeof counted);
    if (silent_us != UINT64_MAX)
        snprintf(heard, sizeof heard, "heard %.1f s ago%s",
                 (double)silent_us / 1e6, counted[0] ? ", " : "");
    int n = snprintf(text, room, "%s: %s%s\n", name, heard,
                     heard[0] || counted[0] ? counted : "nothing counted yet");
    return n > 0 ? (size_t)n : 0;
}

/* A line of its own, below the worker's. */
static size_t
print_staleness(char *text, size_t room, const struct gw_staleness *of)
{
    char line[1024];
    if (gw_staleness_print(of, line, sizeof line) == 0)
        return 0;
    int n = snprintf(text, room, "  %s\n", line);
    return n > 0 ? (size_t)n : 0;
}

/* Servers by number, then workers by rank. */
static uint64_t place_of(const struct gw_roster *one)
{
    if (one->role == GW_ROLE_SERVER)
        return (uint64_t)one->server << 16 | one->thread;
    return (uint64_t)1 << 48 | one->id;
}

size_t gw_coordinator_status(const struct gw_coordinator *self,
                             char *text,
                             size_t room)
{
    struct gw_metrics_snapshot own = {0};
    size_t used = print_state(self, text, room);
    uint64_t from = 0;
    if (self->options.metrics)
        gw_metrics_collect(self->options.metrics, &own);
    if (used < room)
        used += print_member(text + used, room - used, "coordinator",
                             UINT64_MAX, &own);
    while (used < room) {
        const struct gw_roster *next = NULL;
        for (const struct gw_roster *one = self->roster; one; one = one->next)
            if (place_of(one) >= from &&
                (!next || place_of(one) < place_of(next)))
                next = one;
        if (!next)
            return used;
        from = place_of(next) + 1;
        used += print_member(text + used, room - used, next->peer->name,
                             gw_peer_silent_us(next->peer), &next->counters);
        if (self->regime.each && next->role == GW_ROLE_WORKER && used < room)
            used += print_staleness(text + used, room - used,
                                    &self->gather_each.staleness[next->id]);
    }
    return room - 1;
}
