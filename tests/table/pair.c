#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/table/pair.h"

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct end *end = link->owner;
    end->link = link;
    end->ups++;
    assert_int_not_equal(link->session, 0);
    if (reply)
        assert_int_equal(reply->session, link->session);
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct end *end = link->owner;
    assert_true(end->frames < FRAMES_MAX);
    end->frame[end->frames++] = *frame;
    if (frame->window == GW_WINDOW_NONE && frame->length > 0 &&
        frame->length < sizeof end->message) {
        memcpy(end->message, payload, frame->length);
        end->message[frame->length] = '\0';
    }
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct end *end = link->owner;
    end->link = NULL;
    end->downs++;
    end->down_status = status;
    snprintf(end->down_why, sizeof end->down_why, "%s", why);
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    struct pair *pair = acceptor->owner;
    pair->seen = *hello;
    if (pair->refusal) {
        snprintf(reply->reason, sizeof reply->reason, "%s", pair->refusal);
        return GW_EREFUSED;
    }
    link->handler = &handler;
    link->owner = &pair->a;
    link->windows = &pair->a.windows;
    reply->epoch = 7;
    return GW_OK;
}

static const struct gw_hello hello = {.role = GW_ROLE_WORKER,
                                      .generation = 1,
                                      .links = 1,
                                      .rank = 3,
                                      .job = 99,
                                      .incarnation = 42,
                                      .version = "test"};

void pair_open(struct pair *pair, const char *transport)
{
    struct gw_error error = {0};
    *pair = (struct pair){.acceptor = {.judge = judge, .owner = pair}};
    world_open(&pair->world, transport);
    assert_int_equal(pair->world.ops->listen(
                         pair->world.transport[0], world_any_port(&pair->world),
                         &pair->acceptor, &pair->listener, &error),
                     GW_OK);
}

void pair_dial(struct pair *pair, const char *address)
{
    struct gw_error error = {0};
    assert_int_equal(pair->world.ops->dial(
                         pair->world.transport[1], address, &hello, &handler,
                         &pair->b, &pair->b.windows, &pair->b.link, &error),
                     GW_OK);
}

int both_up(void *owner)
{
    struct pair *pair = owner;
    return pair->a.ups == 1 && pair->b.ups == 1;
}

int b_down(void *owner)
{
    return ((struct pair *)owner)->b.downs > 0;
}

int a_down(void *owner)
{
    return ((struct pair *)owner)->a.downs > 0;
}

struct pair *connected(const char *transport)
{
    struct pair *pair = malloc(sizeof *pair);
    assert_non_null(pair);
    pair_open(pair, transport);
    pair_dial(pair, pair->world.ops->listener_address(pair->listener));
    world_run(&pair->world, both_up, pair);
    return pair;
}

void pair_close(struct pair *pair)
{
    world_close(&pair->world);
    free(pair);
}

static void on_done(struct gw_send *send, enum gw_status status)
{
    struct counted *counted = send->owner;
    counted->done++;
    counted->status = status;
}

struct counted *counted_new(size_t n)
{
    struct counted *sends = calloc(n, sizeof *sends);
    assert_non_null(sends);
    for (size_t i = 0; i < n; i++) {
        sends[i].send.done = on_done;
        sends[i].send.owner = &sends[i];
    }
    return sends;
}

void message(struct counted *counted, const char *text)
{
    counted->send.frame = (struct gw_frame){.kind = GW_FRAME_CONTROL,
                                            .chunk = GW_CHUNK_NONE,
                                            .length = (uint32_t)strlen(text)};
    counted->send.payload = text;
}

int have_frames(void *owner)
{
    struct messages *wanted = owner;
    return wanted->pair->a.frames >= wanted->a &&
           wanted->pair->b.frames >= wanted->b;
}

void put(struct counted *counted,
         uint32_t window,
         uint64_t offset,
         const uint8_t *bytes,
         uint32_t length)
{
    counted->send.frame = (struct gw_frame){.kind = GW_FRAME_PUSH,
                                            .window = window,
                                            .offset = offset,
                                            .dtype = GW_DTYPE_F32,
                                            .length = length};
    counted->send.payload = bytes;
}
