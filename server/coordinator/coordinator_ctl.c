/*
 * Orders of the job's user while it runs: another policy, a checkpoint, the
 * end. Taken through the local socket only, since anybody can reach the port.
 * Every order is answered with one line: its effect, or the reason why it has
 * none. Workers may ask for a checkpoint, too, and are answered when it is
 * there.
 */
#include "config.h"

#include "server/coordinator/coordinator_end.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/text.h"
#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

/* Decided by shard 0, so the job must be running, and not to its end. */
static enum gw_status check_running(const struct gw_coordinator *self,
                                    struct gw_error *error)
{
    if (self->phase < GW_PHASE_RUNNING)
        return gw_fail(error, GW_EREFUSED,
                       "the job has not begun yet; gradweir ctl status says "
                       "whom it waits for");
    if (self->phase > GW_PHASE_RUNNING || gw_decided_has_end(self) ||
        gw_stop_is_asked(self, NULL))
        return gw_fail(error, GW_EREFUSED,
                       "the job is ending, at step %" PRIu64,
                       gw_coordinator_step(self));
    return GW_OK;
}

/* The word is in force, and nothing else is to follow. */
static int is_held(const struct gw_coordinator *self,
                   const struct gw_policy_word *word)
{
    int last;
    const struct gw_policy_word *held =
        gw_regimes_word(self, gw_coordinator_step(self), &last);
    return last && !gw_regimes_is_asked(self) && word->kind == held->kind &&
           word->n == held->n;
}

/* Shard 0 decides when. */
static void pass_on(struct gw_coordinator *self,
                    enum gw_request_kind kind,
                    const char *text)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_REQUEST,
        .request = {.kind = (uint8_t)kind, .text = text}};
    gw_coordinator_tell_leader(self, &message);
}

static enum gw_status ask_policy(struct gw_coordinator *self,
                                 const char *text,
                                 char *answer,
                                 size_t room,
                                 struct gw_error *error)
{
    struct gw_policy_word word;
    char shown[GW_WORD_BYTES];
    enum gw_status status = gw_policy_word_parse(text, &word, error);
    if (status == GW_OK)
        status = check_running(self, error);
    if (status == GW_OK)
        status = gw_config_check_word(self->config, &word, error);
    if (status == GW_OK && gw_vacant_any(self))
        status = gw_fail(error, GW_EREFUSED,
                         "a worker is being replaced; ask again when another "
                         "one has taken its place");
    if (status != GW_OK)
        return status;
    if (word.kind == GW_POLICY_BACKUP && word.n == 0)
        word.kind = GW_POLICY_SYNC; /* as regimes have it */
    gw_policy_word_print(&word, shown);
    if (is_held(self, &word)) {
        snprintf(answer, room, "the policy is %s already", shown);
        return GW_OK;
    }
    gw_inner_expect(self, &word);
    gw_regimes_ask(self, &word);
    pass_on(self, GW_REQUEST_POLICY, shown);
    snprintf(answer, room,
             "switching to %s: it holds from the next step where all workers "
             "have one clock; the job is at step %" PRIu64,
             shown, gw_coordinator_step(self));
    return GW_OK;
}

static enum gw_status check_saves(const struct gw_coordinator *self,
                                  struct gw_error *error)
{
    enum gw_status status = check_running(self, error);
    if (status == GW_OK && !self->config->checkpoint.dir[0])
        status = gw_fail(error, GW_EREFUSED,
                         "the job makes no checkpoints: it has no "
                         "checkpoint.dir");
    return status;
}

static enum gw_status ask_checkpoint(struct gw_coordinator *self,
                                     char *answer,
                                     size_t room,
                                     struct gw_error *error)
{
    const char *dir = self->config->checkpoint.dir;
    enum gw_status status = check_saves(self, error);
    if (status != GW_OK)
        return status;
    pass_on(self, GW_REQUEST_CHECKPOINT, "");
    gw_decided_await_cut(self);
    snprintf(
        answer, room,
        "making a checkpoint: in %.300s, of the next step where all workers "
        "have one clock; the job is at step %" PRIu64,
        dir, gw_coordinator_step(self));
    return GW_OK;
}

static enum gw_status ask_stop(const struct gw_coordinator *self,
                               char *answer,
                               size_t room,
                               struct gw_error *error)
{
    if (self->phase < GW_PHASE_RUNNING) {
        snprintf(answer, room, "stopping: the job ends before its first step");
        return GW_OK;
    }
    if (check_running(self, error) != GW_OK)
        return error->status;
    snprintf(answer, room,
             "stopping: the job ends at the next step where all workers have "
             "one clock, %s; it is at step %" PRIu64,
             self->config->checkpoint.dir[0]
                 ? "which becomes a checkpoint"
                 : "and cannot go on from there without checkpoint.dir",
             gw_coordinator_step(self));
    return GW_OK;
}

static enum gw_status judge(struct gw_coordinator *self,
                            const struct gw_peer *peer,
                            const struct gw_request *request,
                            char *answer,
                            size_t room,
                            struct gw_error *error)
{
    static const char *const names[] = {
        [GW_REQUEST_POLICY] = "policy",
        [GW_REQUEST_CHECKPOINT] = "checkpoint",
        [GW_REQUEST_STOP] = "stop",
    };
    if (!peer->local)
        return gw_fail(error, GW_EREFUSED,
                       "%s: only who comes through the coordinator's local "
                       "socket may ask for that; on its host: gradweir ctl %s",
                       names[request->kind], names[request->kind]);
    switch (request->kind) {
    case GW_REQUEST_POLICY:
        return ask_policy(self, request->text, answer, room, error);
    case GW_REQUEST_CHECKPOINT:
        return ask_checkpoint(self, answer, room, error);
    default:
        return ask_stop(self, answer, room, error);
    }
}

void gw_coordinator_requested(struct gw_coordinator *self,
                              struct gw_peer *peer,
                              const struct gw_request *request)
{
    char answer[GW_ERROR_TEXT_BYTES], why[GW_PEER_NAME_MAX + 16];
    struct gw_error error;
    struct gw_message message = {.kind = GW_MESSAGE_STATUS,
                                 .status = {.text = answer}};
    int refused = judge(self, peer, request, answer, sizeof answer, &error);
    if (refused) {
        message.status.status = GW_EREFUSED;
        message.status.text = error.text;
        gw_text_clean(error.text); /* it may quote the order */
    }
    gw_log_info(self->log, "%s asks: %s", peer->name, message.status.text);
    /* before the end, which may close the connection */
    gw_peer_tell(peer, &message);
    if (refused || request->kind != GW_REQUEST_STOP)
        return;
    snprintf(why, sizeof why, "gradweir ctl, %s", peer->name);
    gw_coordinator_stop(self, why);
}

/* Requests of workers are told once more by themselves. */
void gw_ctl_ask_again(struct gw_coordinator *self)
{
    if (gw_decided_awaits_cut(self))
        pass_on(self, GW_REQUEST_CHECKPOINT, "");
}

/* The text of a worker's request is its clock if all others wait for it there;
   else the checkpoint is the next one to be decided. */
void gw_coordinator_save(struct gw_coordinator *self,
                         struct gw_seat *who,
                         const struct gw_request *request)
{
    struct gw_error error;
    uint64_t clock = gw_keeper_newest(self);
    struct gw_message refusal = {
        .kind = GW_MESSAGE_STATUS,
        .status = {.status = GW_EREFUSED, .text = error.text}};
    if (request->kind != GW_REQUEST_CHECKPOINT || who->role != GW_ROLE_WORKER ||
        (request->text[0] &&
         gw_text_number("step", request->text, 0, GW_CLOCK_MAX, &clock, NULL) !=
             GW_OK)) {
        gw_peer_reject(who->peer, 0, "request that makes no sense");
    } else if (check_saves(self, &error) != GW_OK) {
        gw_coordinator_tell(self, who->peer, &refusal);
    } else {
        gw_log_info(self->log, "%s asks for a checkpoint", who->peer->name);
        pass_on(self, GW_REQUEST_CHECKPOINT, request->text);
        gw_saves_ask(self, who, clock);
    }
}
