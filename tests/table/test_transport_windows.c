/* Windows, the same cases on every transport of gw_transports: what is put into
   them lands there alone, what is shown is seen. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "tests/table/pair.h"

static void fill(uint8_t *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i + 16 <= n; i += 16)
        gw_random4(seed, GW_RANDOM_TEST, 0, i, (uint32_t *)(void *)(bytes + i));
}

/* Memory for a window of A or B, zeros: of this kind, and lent. */
static struct gw_memory
window_memory(struct pair *pair, int which, enum gw_memory_kind kind, size_t n)
{
    struct gw_memory memory;
    struct world *world = &pair->world;
    assert_int_equal(gw_memory_open(kind, n, &memory), GW_OK);
    world->ops->register_memory(world->transport[which], &memory);
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
    assert_int_equal(ops->export(pair->a.link, window),
                     sees ? GW_OK : GW_EUNSUPPORTED);
    message(&sends[0], "look");
    gw_link_send(pair->a.link, &sends[0].send);
    struct messages wanted = {pair, 0, 1};
    world_run(&pair->world, have_frames, &wanted);
    const uint8_t *seen = ops->import(pair->b.link, window, bytes);
    assert_int_equal(seen != NULL, sees);
    if (sees) {
        assert_memory_equal(seen, shown, bytes);
        shown[17]++;
        assert_memory_equal(seen, shown, bytes);
        assert_null(ops->import(pair->b.link, window, bytes + 1));
        assert_null(ops->import(pair->b.link, window + 1, bytes));
        assert_null(ops->import(pair->b.link, GW_WINDOW_NONE, 1));
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

#define ALL(transport)                                                         \
    ON(transport, puts_land_in_their_window),                                  \
        ON(transport, puts_land_in_shared_memory),                             \
        ON(transport, what_is_shown_is_seen),                                  \
        ON(transport, bad_puts_close_the_link),                                \
        ON(transport, closed_windows_are_closed),                              \
        ON(transport, a_window_that_was_used_closes)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("tcp"), ALL("unix"), ALL("sim"),
                                       ALL("rdma"), ALL("shm")};
    return world_run_tests("transport windows", tests,
                           sizeof tests / sizeof *tests);
}
