#include "config.h"

#include "tests/table/couple.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    struct side *side = owner;
    (void)hello;
    if (side->refuse) {
        snprintf(why, why_bytes, "%s", side->refuse);
        return GW_EREFUSED;
    }
    if (side->is_poor)
        return GW_ENOMEM;
    side->peer = peer;
    return GW_OK;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct side *side = owner;
    (void)peer;
    (void)link;
    side->ups++;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct side *side = owner;
    (void)peer;
    if (message->kind == GW_MESSAGE_STATUS) {
        side->others++;
        return;
    }
    assert_int_equal(message->kind, GW_MESSAGE_STORED);
    assert_int_equal(message->stored.clock, side->messages);
    side->messages++;
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct side *side = owner;
    struct gw_loop *loop = side->loop;
    uint64_t until_us = gw_loop_now(loop) + side->stall_us;
    (void)payload;
    side->frames++;
    if (side->rejects)
        gw_peer_reject_frame(peer, link, frame);
    side->stall_us = 0;
    while (gw_loop_now(loop) < until_us)
        if (side->asks)
            gw_loop_turn_is_over(loop);
    if (peer->link[link].link)
        side->unsaid_us = gw_loop_now(loop) - peer->link[link].link->sent_us;
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct side *side = owner;
    (void)link;
    (void)status;
    snprintf(side->down_why, sizeof side->down_why, "%s", why);
    side->downs++;
    if (side->closes)
        gw_peer_close(peer);
}

static void on_lost(void *owner,
                    struct gw_peer *peer,
                    enum gw_status status,
                    const char *why)
{
    struct side *side = owner;
    (void)peer;
    side->lost++;
    side->lost_status = status;
    snprintf(side->lost_why, sizeof side->lost_why, "%s", why);
}

static void on_starves(void *owner, const char *why)
{
    struct side *side = owner;
    assert_non_null(strstr(why, "memory"));
    side->starves++;
}

static void on_stuck(void *owner, struct gw_peer *peer, const char *text)
{
    struct side *side = owner;
    (void)peer;
    side->stuck += text[0] != '\0';
    side->came_back += text[0] == '\0';
    if (text[0])
        snprintf(side->stuck_text, sizeof side->stuck_text, "%s", text);
}

static const struct gw_member_handler handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = on_lost,
    .starves = on_starves,
    .stuck = on_stuck,
};

void side_open(struct couple *couple,
               struct side *side,
               int which,
               uint8_t role)
{
    struct gw_error error = {0};
    struct gw_member_options options = {
        .loop = couple->world.loop[which],
        .transport = couple->world.ops,
        .job = side->job,
        .role = role,
        .rank = 0,
        .join_us = side->join_us ? side->join_us : 400000,
        .starves_us = 400000,
        .handler = &handler,
        .owner = side,
    };
    side->loop = options.loop;
    assert_int_equal(gw_member_open(&options, &side->member, &error), GW_OK);
}

struct couple *couple_new(const char *transport)
{
    struct couple *couple = calloc(1, sizeof *couple);
    struct gw_error error = {0};
    assert_non_null(couple);
    world_open(&couple->world, transport);
    couple->a.job = 1;
    side_open(couple, &couple->a, 0, GW_ROLE_COORDINATOR);
    side_open(couple, &couple->b, 1, GW_ROLE_WORKER);
    assert_int_equal(gw_member_listen(couple->a.member,
                                      world_any_port(&couple->world), &error),
                     GW_OK);
    return couple;
}

void dial(struct couple *couple, uint64_t expects, unsigned links)
{
    struct gw_error error = {0};
    assert_int_equal(gw_member_dial(couple->b.member,
                                    gw_member_address(couple->a.member),
                                    GW_ROLE_COORDINATOR, expects, links, NULL,
                                    &couple->b.peer, &error),
                     GW_OK);
}

int all_up(void *owner)
{
    struct couple *couple = owner;
    return couple->a.ups > 0 && couple->b.ups > 0;
}

int all_told(void *owner)
{
    struct couple *couple = owner;
    return couple->a.messages == couple->wanted &&
           couple->b.messages == couple->wanted;
}

int b_lost(void *owner)
{
    return ((struct couple *)owner)->b.lost > 0;
}

int a_lost(void *owner)
{
    return ((struct couple *)owner)->a.lost > 0;
}

void couple_free(struct couple *couple)
{
    if (couple->a.member)
        gw_member_close(couple->a.member);
    if (couple->b.member)
        gw_member_close(couple->b.member);
    world_close(&couple->world);
    free(couple);
}
