/* The same cases on every transport of gw_transports. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "tests/table/world.h"

#define FRAMES_MAX 4096

/* What one end of a link has seen. */
struct end {
    struct gw_link *link;
    struct gw_windows windows;
    int ups, downs;
    enum gw_status down_status;
    char down_why[256];
    size_t frames;
    struct gw_frame frame[FRAMES_MAX];
    char message[256];
};

struct pair {
    struct world world;
    struct gw_acceptor acceptor;
    struct gw_listener *listener;
    struct end a, b; /* acceptor, opener */
    struct gw_hello seen;
    struct gw_reply answer;
    const char *refusal;
};

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
                                      .links = 1,
                                      .rank = 3,
                                      .job = 99,
                                      .incarnation = 42,
                                      .version = "test"};

static void pair_open(struct pair *pair, const char *transport)
{
    struct gw_error error = {0};
    *pair = (struct pair){.acceptor = {.judge = judge, .owner = pair}};
    world_open(&pair->world, transport);
    assert_int_equal(pair->world.ops->listen(
                         pair->world.transport[0], world_any_port(&pair->world),
                         &pair->acceptor, &pair->listener, &error),
                     GW_OK);
}

static void pair_dial(struct pair *pair, const char *address)
{
    struct gw_error error = {0};
    assert_int_equal(pair->world.ops->dial(
                         pair->world.transport[1], address, &hello, &handler,
                         &pair->b, &pair->b.windows, &pair->b.link, &error),
                     GW_OK);
}

static int both_up(void *owner)
{
    struct pair *pair = owner;
    return pair->a.ups == 1 && pair->b.ups == 1;
}

static int b_down(void *owner)
{
    return ((struct pair *)owner)->b.downs > 0;
}

static int a_down(void *owner)
{
    return ((struct pair *)owner)->a.downs > 0;
}

static struct pair *connected(const char *transport)
{
    struct pair *pair = malloc(sizeof *pair);
    assert_non_null(pair);
    pair_open(pair, transport);
    pair_dial(pair, pair->world.ops->listener_address(pair->listener));
    world_run(&pair->world, both_up, pair);
    return pair;
}

static void pair_close(struct pair *pair)
{
    world_close(&pair->world);
    free(pair);
}

/* Sends that count their completions. */
struct counted {
    struct gw_send send;
    int done;
    enum gw_status status;
};

static void on_done(struct gw_send *send, enum gw_status status)
{
    struct counted *counted = send->owner;
    counted->done++;
    counted->status = status;
}

static struct counted *counted_new(size_t n)
{
    struct counted *sends = calloc(n, sizeof *sends);
    assert_non_null(sends);
    for (size_t i = 0; i < n; i++) {
        sends[i].send.done = on_done;
        sends[i].send.owner = &sends[i];
    }
    return sends;
}

static void message(struct counted *counted, const char *text)
{
    counted->send.frame = (struct gw_frame){.kind = GW_FRAME_CONTROL,
                                            .chunk = GW_CHUNK_NONE,
                                            .length = (uint32_t)strlen(text)};
    counted->send.payload = text;
}

static void login_tells_both_sides(void **state)
{
    struct pair *pair = connected(*state);
    assert_int_equal(pair->seen.rank, 3);
    assert_int_equal(pair->seen.job, 99);
    assert_int_equal(pair->seen.incarnation, 42);
    assert_int_equal(pair->a.link->session, pair->b.link->session);
    int local = pair->world.directory[0] != '\0';
    assert_int_equal(pair->a.link->local, local);
    assert_int_equal(pair->b.link->local, local);
    pair_close(pair);
}

static void a_refusal_names_its_reason(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    pair_open(pair, *state);
    pair->refusal = "rank 3 is taken";
    pair_dial(pair, pair->world.ops->listener_address(pair->listener));
    world_run(&pair->world, b_down, pair);
    assert_int_equal(pair->b.down_status, GW_EREFUSED);
    assert_string_equal(pair->b.down_why, "rank 3 is taken");
    assert_int_equal(pair->a.ups + pair->b.ups, 0);
    pair_close(pair);
}

static void dialling_nobody_is_told(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    pair_open(pair, *state);
    char address[GW_ADDRESS_MAX];
    snprintf(address, sizeof address, "%s",
             pair->world.ops->listener_address(pair->listener));
    pair->world.ops->close_listener(pair->listener);
    world_settle(&pair->world, 1000);
    pair_dial(pair, address);
    world_run(&pair->world, b_down, pair);
    assert_int_equal(pair->b.down_status, GW_EUNREACHABLE);
    pair_close(pair);
}

struct messages {
    struct pair *pair;
    size_t a, b;
};

static int have_frames(void *owner)
{
    struct messages *wanted = owner;
    return wanted->pair->a.frames >= wanted->a &&
           wanted->pair->b.frames >= wanted->b;
}

static void messages_go_both_ways_in_order(void **state)
{
    struct pair *pair = connected(*state);
    struct counted *sends = counted_new(200);
    for (size_t i = 0; i < 200; i++) {
        message(&sends[i], i % 2 ? "to a" : "to b");
        sends[i].send.frame.clock = i;
        gw_link_send(i % 2 ? pair->b.link : pair->a.link, &sends[i].send);
    }
    struct messages wanted = {pair, 100, 100};
    world_run(&pair->world, have_frames, &wanted);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(pair->b.frame[i].clock, 2 * i);
        assert_int_equal(pair->a.frame[i].clock, 2 * i + 1);
    }
    assert_string_equal(pair->a.message, "to a");
    assert_string_equal(pair->b.message, "to b");
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(sends[i].done, 1);
    free(sends);
    pair_close(pair);
}

static void fill(uint8_t *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i + 16 <= n; i += 16)
        gw_random4(seed, GW_RANDOM_TEST, 0, i, (uint32_t *)(void *)(bytes + i));
}

static void put(struct counted *counted,
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

/* Memory for a window of A or B, zeros: of this kind, and lent. */
static struct gw_memory
window_memory(struct pair *pair, int which, enum gw_memory_kind kind, size_t n)
{
    struct gw_memory memory;
    struct world *world = &pair->world;
    assert_int_equal(gw_memory_open(kind, n, &memory), GW_OK);
    world->ops->lend(world->transport[which], &memory);
    return memory;
}

static void puts_land(const char *transport, enum gw_memory_kind kind)
{
    const size_t bytes = (size_t)24 << 20;
    const uint32_t sizes[] = {1, 63, 4096, 65536, 1048576, 3000001};
    struct pair *pair = connected(transport);
    struct gw_memory memory[2];
    uint8_t *source[2], *target[2];
    uint32_t window[2];
    struct end *ends[2] = {&pair->a, &pair->b};
    for (int i = 0; i < 2; i++) {
        source[i] = malloc(bytes);
        memory[i] = window_memory(pair, i, kind, bytes);
        target[i] = memory[i].base;
        fill(source[i], bytes, (uint64_t)i);
        assert_int_equal(gw_window_open(&ends[i]->windows, GW_FRAME_PUSH,
                                        target[i], bytes, &window[i]),
                         GW_OK);
    }
    struct counted *sends = counted_new(64);
    size_t n = 0;
    uint64_t offset = 0;
    for (int round = 0; round < 5; round++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (int to = 0; to < 2; to++) {
                put(&sends[n], window[to], offset, source[to] + offset,
                    sizes[s]);
                gw_link_send(ends[!to]->link, &sends[n].send);
                n++;
            }
            offset += sizes[s];
        }
    }
    struct messages wanted = {pair, n / 2, n / 2};
    world_run(&pair->world, have_frames, &wanted);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(source[i], target[i], offset);
        for (size_t rest = offset; rest < bytes; rest++)
            assert_int_equal(target[i][rest], 0);
        free(source[i]);
    }
    free(sends);
    pair_close(pair);
    gw_memory_close(&memory[0]);
    gw_memory_close(&memory[1]);
}

static void puts_land_in_their_window(void **state)
{
    puts_land(*state, GW_MEMORY_HOST);
}

static void puts_land_in_shared_memory(void **state)
{
    puts_land(*state, GW_MEMORY_SHARED);
}

/* What is shown is seen where it lies, by who can: within a host, and in a
   world. It was shown before the frame, and changes under the reader's eyes. */
static void what_is_shown_is_seen(void **state)
{
    const size_t bytes = 65536;
    struct pair *pair = connected(*state);
    const struct gw_transport_ops *ops = pair->world.ops;
    struct counted *sends = counted_new(1);
    uint32_t window;
    struct gw_memory memory =
        window_memory(pair, 0, GW_MEMORY_SHARED, 2 * bytes);
    uint8_t *shown = (uint8_t *)memory.base + bytes;
    fill(shown, bytes, 7);
    assert_int_equal(
        gw_window_open(&pair->a.windows, GW_FRAME_PARTS, shown, bytes, &window),
        GW_OK);
    int sees = ops->within_host; /* a world has these two on two hosts */
    assert_int_equal(ops->show(pair->a.link, window),
                     sees ? GW_OK : GW_EUNSUPPORTED);
    message(&sends[0], "look");
    gw_link_send(pair->a.link, &sends[0].send);
    struct messages wanted = {pair, 0, 1};
    world_run(&pair->world, have_frames, &wanted);
    const uint8_t *seen = ops->see(pair->b.link, window, bytes);
    assert_int_equal(seen != NULL, sees);
    if (sees) {
        assert_memory_equal(seen, shown, bytes);
        shown[17]++;
        assert_memory_equal(seen, shown, bytes);
        assert_null(ops->see(pair->b.link, window, bytes + 1));
        assert_null(ops->see(pair->b.link, window + 1, bytes));
        assert_null(ops->see(pair->b.link, GW_WINDOW_NONE, 1));
    }
    free(sends);
    pair_close(pair);
    gw_memory_close(&memory);
}

/* Each of these leaves the window that was given, or never was in one. */
static void bad_puts_close_the_link(void **state)
{
    const struct {
        uint32_t window_delta;
        uint64_t offset;
        uint32_t length;
        uint8_t kind;
    } bad[] = {
        {0, 4093, 4, GW_FRAME_PUSH},
        {0, 4097, 0, GW_FRAME_PUSH},
        {0, UINT64_MAX, 4, GW_FRAME_PUSH},
        {0, UINT64_MAX - 3, 4, GW_FRAME_PUSH},
        {1, 0, 4, GW_FRAME_PUSH},
        {GW_WINDOWS_MAX, 0, 4, GW_FRAME_PUSH},
        {0, 0, 4, GW_FRAME_WEIGHTS},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pair *pair = connected(*state);
        uint8_t guard[8192], bytes[16] = {1, 2, 3, 4};
        uint32_t window;
        memset(guard, 0xee, sizeof guard);
        assert_int_equal(gw_window_open(&pair->a.windows, GW_FRAME_PUSH,
                                        guard + 2048, 4096, &window),
                         GW_OK);
        struct counted *sends = counted_new(1);
        put(sends, window + bad[i].window_delta, bad[i].offset, bytes,
            bad[i].length);
        sends->send.frame.kind = bad[i].kind;
        gw_link_send(pair->b.link, &sends->send);
        world_run(&pair->world, a_down, pair);
        assert_int_equal(pair->a.down_status, GW_EPROTO);
        world_run(&pair->world, b_down, pair);
        assert_int_equal(pair->a.frames, 0);
        for (size_t at = 0; at < sizeof guard; at++)
            assert_int_equal(guard[at], 0xee);
        free(sends);
        pair_close(pair);
    }
}

static void closed_windows_are_closed(void **state)
{
    struct pair *pair = connected(*state);
    uint8_t target[64] = {0}, bytes[64] = {1};
    uint32_t first, second;
    gw_window_open(&pair->a.windows, GW_FRAME_PUSH, target, 64, &first);
    gw_window_close(&pair->a.windows, first);
    gw_window_open(&pair->a.windows, GW_FRAME_PUSH, target, 64, &second);
    assert_int_not_equal(first, second);
    struct counted *sends = counted_new(1);
    put(sends, first, 0, bytes, 64);
    gw_link_send(pair->b.link, &sends->send);
    world_run(&pair->world, a_down, pair);
    assert_int_equal(target[0], 0);
    free(sends);
    pair_close(pair);
}

/* Also for whoever has written into it before. */
static void a_window_that_was_used_closes(void **state)
{
    const uint32_t bytes = 100000;
    struct pair *pair = connected(*state);
    struct gw_memory memory = window_memory(pair, 0, GW_MEMORY_SHARED, bytes);
    const uint8_t *target = memory.base;
    uint8_t *source = malloc(bytes);
    struct counted *sends = counted_new(2);
    struct messages wanted = {pair, 1, 0};
    uint32_t window;
    gw_window_open(&pair->a.windows, GW_FRAME_PUSH, memory.base, bytes,
                   &window);
    for (int i = 0; i < 2; i++) {
        memset(source, i + 1, bytes);
        put(&sends[i], window, 0, source, bytes);
        gw_link_send(pair->b.link, &sends[i].send);
        if (i == 0)
            world_run(&pair->world, have_frames, &wanted);
        if (i == 0)
            gw_window_close(&pair->a.windows, window);
    }
    world_run(&pair->world, a_down, pair);
    assert_int_equal(pair->a.frames, 1);
    for (uint32_t i = 0; i < bytes; i++)
        assert_int_equal(target[i], 1);
    pair_close(pair);
    free(sends);
    free(source);
    gw_memory_close(&memory);
}

static void urgent_sends_leave_first(void **state)
{
    struct pair *pair = connected(*state);
    const size_t n = 100;
    struct counted *sends = counted_new(n);
    uint8_t *bytes = calloc(1, 100000), *target = malloc(100000);
    uint32_t window;
    gw_window_open(&pair->a.windows, GW_FRAME_PUSH, target, 100000, &window);
    for (size_t i = 0; i < n; i++) {
        put(&sends[i], window, 0, bytes, 100000);
        sends[i].send.priority = (uint32_t)(n - i);
        gw_link_send(pair->b.link, &sends[i].send);
        sends[i].send.frame.clock = i;
    }
    struct messages wanted = {pair, n, 0};
    world_run(&pair->world, have_frames, &wanted);
    /* all but the first, which may be on its way already, are in order */
    for (size_t i = 2; i < n; i++)
        assert_true(pair->a.frame[i].clock < pair->a.frame[i - 1].clock);
    free(sends);
    free(bytes);
    free(target);
    pair_close(pair);
}

static void closing_gives_every_send_back_once(void **state)
{
    struct pair *pair = connected(*state);
    const size_t n = 50;
    struct counted *sends = counted_new(n);
    uint8_t *bytes = calloc(1, 1000000), *target = malloc(1000000);
    uint32_t window;
    gw_window_open(&pair->a.windows, GW_FRAME_PUSH, target, 1000000, &window);
    for (size_t i = 0; i < n; i++) {
        put(&sends[i], window, 0, bytes, 1000000);
        gw_link_send(pair->b.link, &sends[i].send);
    }
    struct messages wanted = {pair, 2, 0};
    world_run(&pair->world, have_frames, &wanted);
    gw_link_close(pair->b.link);
    size_t lost = 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sends[i].done, 1);
        lost += sends[i].status == GW_ECLOSED;
    }
    assert_true(lost > 0);
    world_run(&pair->world, a_down, pair);
    assert_int_equal(pair->a.down_status, GW_ECLOSED);
    assert_int_equal(pair->b.downs, 0);
    free(sends);
    free(bytes);
    free(target);
    pair_close(pair);
}

static void what_was_sent_arrives_before_the_close(void **state)
{
    struct pair *pair = connected(*state);
    struct counted *sends = counted_new(3);
    for (size_t i = 0; i < 3; i++) {
        message(&sends[i], "last words");
        gw_link_send(pair->b.link, &sends[i].send);
    }
    while (!sends[2].done)
        world_settle(&pair->world, 10);
    gw_link_close(pair->b.link);
    world_run(&pair->world, a_down, pair);
    assert_int_equal(pair->a.frames, 3);
    free(sends);
    pair_close(pair);
}

static void sending_on_a_link_that_is_not_up(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    pair_open(pair, *state);
    pair_dial(pair, pair->world.ops->listener_address(pair->listener));
    struct counted *sends = counted_new(1);
    message(sends, "too early");
    gw_link_send(pair->b.link, &sends->send);
    assert_int_equal(sends->done, 1);
    assert_int_equal(sends->status, GW_ECLOSED);
    world_run(&pair->world, both_up, pair);
    free(sends);
    pair_close(pair);
}

static void an_address_is_taken_once(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    struct gw_listener *second;
    struct gw_error error = {0};
    pair_open(pair, *state);
    const char *address = pair->world.ops->listener_address(pair->listener);
    assert_int_equal(pair->world.ops->listen(pair->world.transport[0], address,
                                             &pair->acceptor, &second, &error),
                     GW_EADDRINUSE);
    assert_non_null(strstr(error.text, strrchr(address, ':')));
    assert_int_equal(pair->world.ops->listen(pair->world.transport[0],
                                             "no port", &pair->acceptor,
                                             &second, &error),
                     GW_EINVAL);
    pair_close(pair);
}

#define ON(transport, test)                                                    \
    {                                                                          \
        transport "/" #test, test, NULL, NULL, (void *)(uintptr_t)transport    \
    }
#define ALL(transport)                                                         \
    ON(transport, login_tells_both_sides),                                     \
        ON(transport, a_refusal_names_its_reason),                             \
        ON(transport, dialling_nobody_is_told),                                \
        ON(transport, messages_go_both_ways_in_order),                         \
        ON(transport, puts_land_in_their_window),                              \
        ON(transport, puts_land_in_shared_memory),                             \
        ON(transport, what_is_shown_is_seen),                                  \
        ON(transport, bad_puts_close_the_link),                                \
        ON(transport, closed_windows_are_closed),                              \
        ON(transport, a_window_that_was_used_closes),                          \
        ON(transport, urgent_sends_leave_first),                               \
        ON(transport, closing_gives_every_send_back_once),                     \
        ON(transport, what_was_sent_arrives_before_the_close),                 \
        ON(transport, sending_on_a_link_that_is_not_up),                       \
        ON(transport, an_address_is_taken_once)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("tcp"), ALL("unix"), ALL("sim"),
                                       ALL("rdma"), ALL("shm")};
    return world_run_tests("transport", tests, sizeof tests / sizeof *tests);
}
