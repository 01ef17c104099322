#include "config.h"

#include "tests/table/victim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct victim *victim = link->owner;
    (void)reply;
    victim->link = link;
    victim->ups++;
}

uint8_t *victim_window(const struct victim *victim)
{
    return (uint8_t *)victim->memory.base + VICTIM_WINDOW;
}

const char *victim_address(const struct victim *victim)
{
    return victim->world.ops->listener_address(victim->listener);
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct victim *victim = link->owner;
    const uint8_t *at = payload, *begin = victim_window(victim);
    victim->frames++;
    if (frame->window != GW_WINDOW_NONE &&
        (at < begin || at + frame->length > begin + VICTIM_WINDOW))
        victim->bad_frames++;
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct victim *victim = link->owner;
    victim->link = NULL;
    victim->downs++;
    victim->status = status;
    snprintf(victim->why, sizeof victim->why, "%s", why);
    atomic_store(&victim->down, 1);
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    struct victim *victim = acceptor->owner;
    (void)hello, (void)reply;
    link->handler = &handler;
    link->owner = victim;
    link->windows = &victim->windows;
    return GW_OK;
}

static void on_line(void *context, const char *line, size_t bytes)
{
    struct victim *victim = context;
    snprintf(victim->line, sizeof victim->line, "%.*s", (int)bytes, line);
    victim->refused += strstr(victim->line, "refused") != NULL;
}

static uint64_t log_clock(void *clock)
{
    return gw_loop_now(clock);
}

void victim_open(struct victim *victim,
                 const char *transport,
                 enum gw_memory_kind kind)
{
    struct gw_error error;
    *victim = (struct victim){.acceptor = {.judge = judge, .owner = victim},
                              .handler = &handler};
    world_open(&victim->world, transport);
    victim->log = (struct gw_log){.level = GW_LOG_WARN,
                                  .rank = -1,
                                  .role = "test",
                                  .now_us = log_clock,
                                  .clock = victim->world.loop[0],
                                  .sink = on_line,
                                  .context = victim};
    victim->world.loop[0]->log = &victim->log;
    assert_int_equal(gw_memory_open(kind, VICTIM_ROOM, &victim->memory), GW_OK);
    assert_int_equal(victim->memory.kind, kind);
    memset(victim->memory.base, VICTIM_FILLED, VICTIM_ROOM);
    victim->world.ops->register_memory(victim->world.transport[0],
                                       &victim->memory);
    assert_int_equal(gw_window_open(&victim->windows, GW_FRAME_PUSH,
                                    victim_window(victim), VICTIM_WINDOW,
                                    &victim->window),
                     GW_OK);
    assert_int_equal(victim->world.ops->listen(victim->world.transport[0],
                                               world_any_port(&victim->world),
                                               &victim->acceptor,
                                               &victim->listener, &error),
                     GW_OK);
}

void victim_is_sound(const struct victim *victim)
{
    const uint8_t *bytes = victim->memory.base;
    for (size_t i = 0; i < VICTIM_ROOM; i++)
        if (i < VICTIM_WINDOW || i >= 2 * VICTIM_WINDOW)
            assert_int_equal(bytes[i], VICTIM_FILLED);
    assert_int_equal(victim->bad_frames, 0);
}

void victim_close(struct victim *victim)
{
    victim_is_sound(victim);
    gw_window_close(&victim->windows, victim->window);
    world_close(&victim->world);
    gw_memory_close(&victim->memory);
}

struct wanted {
    const int *counter;
    int is;
};

static int is_there(void *owner)
{
    const struct wanted *wanted = owner;
    return *wanted->counter >= wanted->is;
}

void victim_await(struct victim *victim, const int *counter, int is)
{
    struct wanted wanted = {counter, is};
    world_run(&victim->world, is_there, &wanted);
    assert_int_equal(*counter, is);
}

/* ---- what an honest peer says ---- */

void victim_hello(uint64_t incarnation, uint8_t hello[GW_HELLO_BYTES])
{
    const struct gw_hello honest = {.role = GW_ROLE_WORKER,
                                    .links = 1,
                                    .generation = 1,
                                    .rank = 3,
                                    .job = 99,
                                    .incarnation = incarnation,
                                    .version = "test"};
    gw_hello_encode(&honest, hello);
}

void victim_header(uint32_t session,
                   uint32_t window,
                   uint64_t offset,
                   uint32_t length,
                   uint8_t header[GW_FRAME_BYTES])
{
    const struct gw_frame frame = {.kind = GW_FRAME_PUSH,
                                   .flags = GW_FLAG_NO_CRC,
                                   .session = session,
                                   .window = window,
                                   .offset = offset,
                                   .length = length,
                                   .dtype = GW_DTYPE_F32};
    gw_frame_encode(&frame, header);
}
