/*
 * Transport alone: puts through windows as the training path does them, with no
 * checksum, no update, no clock and no retry.
 *
 *   worker                               server
 *     PUSH chunk, count = ECHO    ---->    sends the chunk back as it landed
 *     PUSH chunk, count = KEEP    ---->    (keeps it)
 *     PUSH chunk, count = LAST    ---->    ACK
 *     ACK                         ---->    every chunk of that connection
 *
 * Both sides begin with an ACK whose clock is the window they opened.
 */
#include "config.h"

#include "cli/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum push_kind {
    PUSH_ECHO,
    PUSH_KEEP,
    PUSH_LAST
};

/* One end of a connection. */
struct wire {
    struct end *end;
    uint32_t shard, number;
    struct gw_link *link;
    struct gw_windows windows; /* open to the peer */
    uint32_t mine, peers;      /* windows */
    struct gw_send hello, ack;
    struct gw_send *chunk; /* [chunks of the map] */
    uint8_t *memory;       /* memory of window `mine` */
};

/* One process. */
struct end {
    struct gw_bench_child *child;
    struct gw_loop *loop;
    struct gw_transport *transport;
    struct gw_acceptor acceptor;
    int server;
    uint32_t shard;    /* a server's number */
    struct wire *wire; /* a worker's: [servers][connections] */
    uint32_t wires;
    uint32_t greeted;   /* peers with a known window */
    uint32_t sending;   /* unfinished sends */
    uint64_t waits_for; /* frames still to arrive */
    uint8_t *in, *out;  /* a worker's arenas */
    int down;
    char why[GW_ADDRESS_MAX];
};

static const struct gw_bench_case *case_of(const struct wire *wire)
{
    return wire->end->child->what;
}

static uint32_t connections(const struct wire *wire)
{
    return case_of(wire)->options->connections;
}

/* Non-zero if this connection carries the chunk. */
static int carries(const struct wire *wire, uint32_t chunk)
{
    return case_of(wire)->map->chunk[chunk].shard == wire->shard &&
           chunk % connections(wire) == wire->number;
}

static void on_done(struct gw_send *send, enum gw_status status)
{
    struct wire *wire = send->owner;
    (void)status; /* `down` tells of a broken link */
    wire->end->sending--;
}

static void post(struct wire *wire,
                 struct gw_send *send,
                 const struct gw_frame *frame,
                 const void *payload)
{
    *send = (struct gw_send){.frame = *frame,
                             .payload = payload,
                             .priority = 1,
                             .done = on_done,
                             .owner = wire};
    wire->end->sending++;
    gw_link_send(wire->link, send);
}

static void post_ack(struct wire *wire)
{
    struct gw_frame frame = {.kind = GW_FRAME_ACK, .chunk = GW_CHUNK_NONE};
    post(wire, &wire->ack, &frame, NULL);
}

/* A worker's arena and a shard's array have a chunk at different offsets. */
static void post_chunk(struct wire *wire, uint32_t index, uint32_t count)
{
    const struct gw_chunk *chunk = &case_of(wire)->map->chunk[index];
    int server = wire->end->server;
    const uint8_t *from = server ? wire->memory + chunk->shard_offset
                                 : wire->end->out + chunk->arena_offset;
    struct gw_frame frame = {
        .kind = server ? GW_FRAME_WEIGHTS : GW_FRAME_PUSH,
        .flags = GW_FLAG_NO_CRC,
        .window = wire->peers,
        .offset = server ? chunk->arena_offset : chunk->shard_offset,
        .chunk = index,
        .count = count,
        .length = chunk->elems * (uint32_t)sizeof(float),
        .dtype = GW_DTYPE_F32,
    };
    post(wire, &wire->chunk[index], &frame, from);
}

static void serve(struct wire *wire, const struct gw_frame *frame)
{
    if (frame->kind == GW_FRAME_ACK) {
        for (uint32_t c = 0; c < case_of(wire)->map->chunks; c++)
            if (carries(wire, c))
                post_chunk(wire, c, 0);
    } else if (frame->count == PUSH_ECHO) {
        post_chunk(wire, frame->chunk, 0);
    } else if (frame->count == PUSH_LAST) {
        post_ack(wire);
    }
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct wire *wire = link->owner;
    (void)payload;
    if (wire->peers == GW_WINDOW_NONE) {
        wire->peers = (uint32_t)frame->clock;
        wire->end->greeted++;
    } else if (wire->end->server) {
        serve(wire, frame);
    } else {
        wire->end->waits_for--;
    }
}

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct wire *wire = link->owner;
    (void)reply;
    wire->link = link;
    struct gw_frame frame = {
        .kind = GW_FRAME_ACK, .clock = wire->mine, .chunk = GW_CHUNK_NONE};
    post(wire, &wire->hello, &frame, NULL);
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct wire *wire = link->owner;
    (void)status;
    wire->end->down = 1;
    snprintf(wire->end->why, sizeof wire->end->why, "%s", why);
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

static enum gw_status
wire_open(struct end *end, struct wire *wire, size_t bytes, uint8_t kind)
{
    wire->end = end;
    wire->chunk = calloc(end->child->what->map->chunks, sizeof *wire->chunk);
    if (!wire->chunk || !wire->memory)
        return GW_ENOMEM;
    return gw_window_open(&wire->windows, kind, wire->memory, bytes,
                          &wire->mine);
}

/* Allocates memory for windows. NULL: none left. */
static uint8_t *open_window(struct end *end, size_t bytes, unsigned number)
{
    const struct gw_transport_ops *ops = end->transport->ops;
    struct gw_memory memory;
    float *base = gw_bench_window(bytes, number, ops->within_host, &memory);
    if (base)
        ops->register_memory(end->transport, &memory);
    return (uint8_t *)base;
}

static enum gw_status open_transport(struct end *end, struct gw_error *error)
{
    const struct gw_bench_case *what = end->child->what;
    const struct gw_transport_config config = {.busy = what->options->busy};
    enum gw_status status = gw_loop_open_uv(&end->loop, error);
    if (status == GW_OK)
        status = what->route->transport->open(end->loop, &config,
                                              &end->transport, error);
    return status;
}

/* ---- servers ---- */

/* The opener gives a link's connection number. */
static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    struct end *end = acceptor->owner;
    size_t bytes = end->child->what->map->shard_bytes[end->shard];
    struct wire *wire = calloc(1, sizeof *wire);
    (void)reply;
    if (!wire)
        return GW_ENOMEM;
    wire->shard = end->shard;
    wire->number = hello->link;
    wire->memory = open_window(end, bytes, end->wires++);
    enum gw_status status = wire_open(end, wire, bytes, GW_FRAME_PUSH);
    link->handler = &handler;
    link->owner = wire;
    link->windows = &wire->windows;
    return status;
}

/* Runs until it is killed. */
static void server_main(struct gw_bench_child *child)
{
    struct end end = {.child = child,
                      .server = 1,
                      .shard = child->index,
                      .acceptor = {.judge = judge, .owner = &end}};
    struct gw_listener *listener;
    struct gw_error error;
    char address[GW_ADDRESS_MAX];
    enum gw_status status = open_transport(&end, &error);
    if (status == GW_OK)
        status = gw_bench_address(child->what, address, &error);
    if (status == GW_OK)
        status = end.transport->ops->listen(end.transport, address,
                                            &end.acceptor, &listener, &error);
    if (status != GW_OK) {
        gw_bench_say_failed(child, &error);
        return;
    }
    gw_bench_say(child, GW_BENCH_READY,
                 end.transport->ops->listener_address(listener), 0);
    gw_loop_run(end.loop);
}

/* ---- workers ---- */

struct addresses {
    char server[GW_BENCH_MEMBERS_MAX][GW_ADDRESS_MAX];
};

static enum gw_status turn_until(struct end *end,
                                 const uint32_t *counts,
                                 uint32_t target,
                                 struct gw_error *error)
{
    while (!end->down && *counts != target)
        gw_loop_turn(end->loop);
    return end->down
               ? gw_fail(error, GW_ECLOSED, "connection lost: %s", end->why)
               : GW_OK;
}

/* Each wire has its own incarnation and windows, as if it belonged to another
   process. */
static uint64_t incarnation_of(const struct end *end, uint32_t wire)
{
    return (uint64_t)(end->child->index + 1) << 32 | wire;
}

static enum gw_status dial(struct end *end, struct gw_error *error)
{
    const struct gw_bench_case *what = end->child->what;
    const struct addresses *addresses = end->child->owner;
    uint32_t links = what->options->connections;
    for (uint32_t i = 0; i < end->wires; i++) {
        struct wire *wire = &end->wire[i];
        struct gw_hello hello = {.role = GW_ROLE_WORKER,
                                 .link = (uint8_t)(i % links),
                                 .links = (uint8_t)links,
                                 .generation = 1,
                                 .rank = end->child->index,
                                 .incarnation = incarnation_of(end, i),
                                 .version = PACKAGE_VERSION};
        wire->shard = i / links;
        wire->number = i % links;
        wire->memory = end->in;
        enum gw_status status =
            wire_open(end, wire, what->map->arena_bytes, GW_FRAME_WEIGHTS);
        if (status != GW_OK)
            return gw_fail(error, status, "no memory for a connection");
        status = end->transport->ops->dial(
            end->transport, addresses->server[wire->shard], &hello, &handler,
            wire, &wire->windows, &wire->link, error);
        if (status != GW_OK)
            return status;
    }
    return turn_until(end, &end->greeted, end->wires, error);
}

static void post_pass(struct end *end, enum gw_bench_op op)
{
    const struct gw_map *map = end->child->what->map;
    for (uint32_t i = 0; i < end->wires; i++) {
        struct wire *wire = &end->wire[i];
        uint32_t left = 0;
        for (uint32_t c = 0; c < map->chunks; c++)
            left += carries(wire, c) != 0;
        if (left == 0)
            continue;
        if (op == GW_BENCH_PULL)
            post_ack(wire);
        end->waits_for += op == GW_BENCH_PUSH ? 1 : left;
        for (uint32_t c = 0; op != GW_BENCH_PULL && c < map->chunks; c++) {
            if (!carries(wire, c))
                continue;
            left--;
            post_chunk(wire, c,
                       op == GW_BENCH_BOTH ? PUSH_ECHO
                       : left == 0         ? PUSH_LAST
                                           : PUSH_KEEP);
        }
    }
}

static enum gw_status
pass(struct end *end, enum gw_bench_op op, struct gw_error *error)
{
    post_pass(end, op);
    while (!end->down && (end->waits_for > 0 || end->sending > 0))
        gw_loop_turn(end->loop);
    return turn_until(end, &end->sending, 0, error);
}

/*
 * Every order has its own values. After a push they are pulled once, untimed,
 * to be checked.
 */
static enum gw_status run_order(struct end *end,
                                const struct gw_bench_message *order,
                                uint32_t seed,
                                uint64_t *wrong_p,
                                struct gw_error *error)
{
    const struct gw_bench_case *what = end->child->what;
    size_t elems = what->bytes / sizeof(float);
    struct gw_bench_pattern pattern;
    double *us = gw_bench_times(end->child);
    enum gw_status status = GW_OK;
    gw_bench_pattern(seed, &pattern);
    gw_bench_fill(&pattern, elems, (float *)(void *)end->out);
    if (order->op == GW_BENCH_PULL)
        status = pass(end, GW_BENCH_PUSH, error);
    memset(end->in, 0, what->bytes);
    double before = 0; /* one clock read, which counts at 64 bytes */
    for (uint32_t i = 0; status == GW_OK && i <= what->iterations; i++) {
        status = pass(end, order->op, error);
        double now = gw_bench_now_us();
        if (i > 0)
            us[i - 1] = now - before;
        before = now;
    }
    if (status == GW_OK && order->op == GW_BENCH_PUSH)
        status = pass(end, GW_BENCH_PULL, error);
    *wrong_p =
        gw_bench_wrong(&pattern, elems, (const float *)(const void *)end->in);
    return status;
}

static enum gw_status worker_open(struct end *end, struct gw_error *error)
{
    const struct gw_bench_case *what = end->child->what;
    enum gw_status status = open_transport(end, error);
    if (status != GW_OK)
        return status;
    end->wires = what->options->servers * what->options->connections;
    end->wire = calloc(end->wires, sizeof *end->wire);
    end->in = open_window(end, what->map->arena_bytes, 0);
    end->out = (uint8_t *)gw_bench_array(what->map->arena_bytes, 1);
    if (!end->wire || !end->in || !end->out)
        return gw_fail(error, GW_ENOMEM, "no memory for %zu bytes",
                       what->bytes);
    const struct gw_memory out =
        gw_memory_host(end->out, what->map->arena_bytes);
    end->transport->ops->register_memory(end->transport, &out);
    /* the computing thread runs the loop, as in a client */
    status = gw_loop_share(end->loop, error);
    if (status != GW_OK)
        return status;
    gw_loop_enter(end->loop);
    return dial(end, error);
}

static void worker_main(struct gw_bench_child *child)
{
    struct end end = {.child = child};
    struct gw_bench_message order;
    struct gw_error error;
    uint32_t seed = child->index * 1000;
    enum gw_status status = worker_open(&end, &error);
    if (status == GW_OK)
        gw_bench_say(child, GW_BENCH_READY, "", 0);
    while (status == GW_OK && gw_bench_listen(child, &order)) {
        uint64_t wrong;
        status = run_order(&end, &order, ++seed, &wrong, &error);
        if (status == GW_OK)
            gw_bench_say(child, GW_BENCH_DONE, "", wrong);
    }
    if (status != GW_OK)
        gw_bench_say_failed(child, &error);
}

enum gw_status gw_bench_transport_open(const struct gw_bench_case *what,
                                       struct gw_bench_group *group,
                                       struct gw_error *error)
{
    struct addresses addresses;
    struct gw_bench_child child = {.what = what, .owner = &addresses};
    struct gw_bench_message message;
    enum gw_status status = GW_OK;
    for (uint32_t s = 0; s < what->options->servers && status == GW_OK; s++) {
        child.index = s;
        status = gw_bench_start(group, "bare transport's server", &child,
                                server_main, error);
        if (status == GW_OK)
            status =
                gw_bench_hear(&group->process[group->n - 1], &message, error);
        if (status == GW_OK)
            snprintf(addresses.server[s], sizeof addresses.server[s], "%.*s",
                     GW_ADDRESS_MAX - 1, message.text);
    }
    for (uint32_t w = 0; w < what->options->workers && status == GW_OK; w++) {
        child.index = w;
        status = gw_bench_start(group, "bare transport's worker", &child,
                                worker_main, error);
        if (status == GW_OK)
            status =
                gw_bench_hear(&group->process[group->n - 1], &message, error);
    }
    return status;
}
