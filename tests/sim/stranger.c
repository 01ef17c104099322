#include "config.h"

#include "tests/sim/stranger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    (void)owner, (void)peer, (void)why, (void)why_bytes;
    return hello->role == GW_ROLE_WORKER ? GW_EAGAIN : GW_EREFUSED;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    (void)peer, (void)link;
    ((struct stranger *)owner)->up++;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct stranger *stranger = owner;
    const struct gw_message ready = {.kind = GW_MESSAGE_READY};
    if (message->kind == GW_MESSAGE_START && stranger->gets_ready)
        gw_peer_tell(peer, &ready);
    if (message->kind == GW_MESSAGE_STATUS) {
        stranger->answered = message->status.status;
        snprintf(stranger->answer, sizeof stranger->answer, "%s",
                 message->status.text);
    }
    if (message->kind != GW_MESSAGE_END)
        return;
    stranger->ended = message->end.status;
    snprintf(stranger->text, sizeof stranger->text, "%s", message->end.text);
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)owner, (void)peer, (void)link, (void)frame, (void)payload;
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    (void)peer, (void)link, (void)status, (void)why;
    ((struct stranger *)owner)->down++;
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct stranger *stranger = owner;
    (void)peer;
    stranger->lost = status;
    snprintf(stranger->why, sizeof stranger->why, "%s", why);
}

static const struct gw_member_handler handler = {.admit = admit,
                                                 .link_up = link_up,
                                                 .message = on_message,
                                                 .frame = on_frame,
                                                 .link_down = link_down,
                                                 .lost = lost,
                                                 .stuck =
                                                     gw_member_stuck_unheard};

void stranger_open(struct stranger *stranger,
                   struct cluster *cluster,
                   uint64_t job,
                   const char *address,
                   uint8_t role,
                   uint32_t rank,
                   uint8_t peer_role)
{
    stranger_open_as(stranger, cluster, job, address, role, rank, 0, peer_role);
}

void stranger_open_as(struct stranger *stranger,
                      struct cluster *cluster,
                      uint64_t job,
                      const char *address,
                      uint8_t role,
                      uint32_t rank,
                      uint64_t incarnation,
                      uint8_t peer_role)
{
    struct gw_error error;
    *stranger = (struct stranger){.up = 0};
    assert_int_equal(
        gw_sim_process(cluster->sim, "stranger", &stranger->loop, &error),
        GW_OK);
    struct gw_member_options options = {
        .loop = stranger->loop,
        .transport = gw_transport_find("sim", &error),
        .job = job,
        .role = role,
        .rank = rank,
        .incarnation = incarnation,
        .handler = &handler,
        .owner = stranger,
    };
    assert_int_equal(gw_member_open(&options, &stranger->member, &error),
                     GW_OK);
    assert_int_equal(gw_member_dial(stranger->member, address, peer_role, 0, 1,
                                    NULL, &stranger->peer, &error),
                     GW_OK);
}

void stranger_close(struct stranger *stranger)
{
    gw_member_close(stranger->member);
    gw_loop_close(stranger->loop);
}

void stranger_tell(struct stranger *stranger, const struct gw_message *message)
{
    assert_int_equal(gw_peer_tell(stranger->peer, message), GW_OK);
}

void stranger_join(struct stranger *stranger,
                   struct cluster *cluster,
                   uint8_t role)
{
    stranger_open(stranger, cluster, 0, "disk:50000", role, GW_RANK_NONE,
                  GW_ROLE_COORDINATOR);
    struct gw_message message = {.kind = GW_MESSAGE_JOIN,
                                 .join = {.role = role,
                                          .host = "mute",
                                          .process = 1,
                                          .threads = 1,
                                          .address = "stranger:1",
                                          .rank = 1}};
    assert_int_equal(
        gw_member_sign(stranger->member, stranger->peer, NULL, &message.join),
        GW_OK);
    stranger_tell(stranger, &message);
}

int stranger_is_lost(void *stranger)
{
    return ((struct stranger *)stranger)->lost != GW_OK;
}

int stranger_is_up(void *stranger)
{
    return ((struct stranger *)stranger)->up > 0;
}

int stranger_is_down(void *stranger)
{
    return ((struct stranger *)stranger)->down > 0;
}
