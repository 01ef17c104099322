#include "config.h"

#include "transport/member/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/config.h"
#include "transport/link/loop.h"
#include "transport/member/member.h"
#include "transport/link/transport.h"

/* A shorter wait has its end told, and no more. */
#define PATIENCE_US 5000000

/* The last dial that is in time fails a little later, and says why. */
#define GRACE_US 700000

#define GIVE_UP_US 10000 /* between two questions to the asker */

struct question {
    const struct gw_ask_options *options;
    struct gw_loop *loop;
    struct gw_member *member;
    struct gw_peer *peer;
    struct gw_timer limit, asker;
    int asked, connected;
    char *text;
    char why[256]; /* nothing has come of dialling yet */
    enum gw_status status;
    struct gw_error *error;
};

static void end(struct question *question, enum gw_status status)
{
    question->status = status;
    gw_loop_stop(question->loop);
}

static void
end_in_vain(struct question *question, enum gw_status status, const char *why)
{
    const struct gw_ask_options *options = question->options;
    if (options->wait_us == 0)
        end(question,
            gw_fail(question->error, status, "no coordinator at %s: %s",
                    options->coordinator, why));
    else
        end(question,
            gw_fail(question->error, status,
                    "no coordinator at %s within %.0f s: %s; is it running, "
                    "and is that the address it prints?",
                    options->coordinator, (double)options->wait_us / 1e6, why));
}

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    (void)owner;
    (void)peer;
    (void)hello;
    snprintf(why, why_bytes, "an observer takes no connections");
    return GW_EREFUSED;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct question *question = owner;
    const struct gw_request *order = question->options->order;
    struct gw_message message = {
        .kind = GW_MESSAGE_STATUS,
        .status = {.request = (uint8_t)question->options->request, .text = ""}};
    (void)link;
    if (order)
        message =
            (struct gw_message){.kind = GW_MESSAGE_REQUEST, .request = *order};
    if (question->options->decline) {
        message = (struct gw_message){.kind = GW_MESSAGE_JOIN,
                                      .join = *question->options->decline};
        gw_member_sign(question->member, peer, question->options->secret,
                       &message.join); /* or it is not believed */
    }
    question->connected = 1;
    if (!question->asked)
        gw_peer_tell(peer, &message);
    question->asked = 1;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct question *question = owner;
    (void)peer;
    if (message->kind == GW_MESSAGE_END && question->options->decline) {
        question->text = strdup(message->end.text);
        end(question, question->text ? GW_OK : GW_ENOMEM);
        return;
    }
    if (message->kind != GW_MESSAGE_STATUS || question->text)
        return;
    if (message->status.status != GW_OK) {
        end(question,
            gw_fail(question->error, GW_EREFUSED, "%s", message->status.text));
        return;
    }
    question->text = strdup(message->status.text);
    if (question->text)
        end(question, GW_OK);
    else
        end(question,
            gw_fail(question->error, GW_ENOMEM, "no memory for an answer"));
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)owner;
    (void)payload;
    gw_peer_reject_frame(peer, link, frame);
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    (void)owner;
    (void)peer;
    (void)link;
    (void)status;
    (void)why;
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct question *question = owner;
    if (status == GW_EUNREACHABLE)
        end_in_vain(question, status, why);
    else
        end(question, gw_fail(question->error, status,
                              status == GW_EREFUSED || status == GW_EVERSION
                                  ? "%s turns us away: %s"
                                  : "cannot reach the coordinator at %s: %s",
                              peer->address, why));
}

/* A person who waits is told what for. */
static void stuck(void *owner, struct gw_peer *peer, const char *text)
{
    struct question *question = owner;
    const char *why = strstr(text, "): "); /* behind its name and address */
    (void)peer;
    snprintf(question->why, sizeof question->why, "%s", why ? why + 3 : "");
    if (text[0] && question->options->wait_us > PATIENCE_US)
        gw_log_info(question->options->log, "%s; waits %.0f s at most", text,
                    (double)question->options->wait_us / 1e6);
}

static const struct gw_member_handler handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
    .stuck = stuck,
};

/* Connected but not answered, or neither connected nor refused. */
static void on_limit(struct gw_timer *timer)
{
    struct question *question = timer->owner;
    if (question->connected)
        end(question, gw_fail(question->error, GW_ETIMEOUT,
                              "the coordinator at %s does not answer",
                              question->options->coordinator));
    else
        end_in_vain(question, GW_ETIMEOUT,
                    question->why[0] ? question->why : "nothing answers");
}

static void start_timer(struct question *question,
                        struct gw_timer *timer,
                        void (*fire)(struct gw_timer *timer),
                        uint64_t after_us)
{
    timer->fire = fire;
    timer->owner = question;
    gw_timer_start(question->loop, timer, after_us);
}

static void on_asker(struct gw_timer *timer)
{
    struct question *question = timer->owner;
    const char *reason = question->options->gives_up(question->options->owner);
    if (reason)
        end(question, gw_fail(question->error, GW_EABORTED, "%s", reason));
    else
        start_timer(question, timer, on_asker, GIVE_UP_US);
}

static enum gw_status ask(struct question *question)
{
    const struct gw_ask_options *options = question->options;
    uint64_t limit_us = options->limit_us;
    const struct gw_transport_ops *transport =
        gw_transport_find("tcp", question->error);
    if (!transport)
        return question->error->status;
    const struct gw_member_options member = {
        .loop = question->loop,
        .transport = transport,
        .control_interface = options->interface,
        .transport_config = {.interface = options->interface},
        .role = options->decline ? options->decline->role : GW_ROLE_OBSERVER,
        .rank = GW_RANK_NONE,
        .join_us = options->wait_us ? options->wait_us : 1,
        .silence_us = GW_SILENCE_FAR_US, /* its limit is the shorter one */
        .handler = &handler,
        .owner = question,
    };
    enum gw_status status =
        gw_member_open(&member, &question->member, question->error);
    if (status == GW_OK)
        status = gw_member_dial(question->member, options->coordinator,
                                GW_ROLE_COORDINATOR, 0, 1, NULL,
                                &question->peer, question->error);
    if (status != GW_OK)
        return status;
    start_timer(question, &question->limit, on_limit,
                limit_us ? limit_us : options->wait_us + GRACE_US);
    if (options->gives_up)
        start_timer(question, &question->asker, on_asker, GIVE_UP_US);
    gw_loop_run(question->loop);
    gw_timer_stop(question->loop, &question->asker);
    gw_timer_stop(question->loop, &question->limit);
    return question->status;
}

enum gw_status gw_ask(const struct gw_ask_options *options,
                      char **text_p,
                      struct gw_error *error)
{
    struct question question = {.options = options, .error = error};
    enum gw_status status = gw_loop_open_uv(&question.loop, error);
    if (status != GW_OK)
        return status;
    status = ask(&question);
    gw_member_close(question.member);
    gw_loop_close(question.loop);
    if (status == GW_OK)
        *text_p = question.text;
    else
        free(question.text);
    return status;
}
