/* What transports are made of: heap, windows, control channel, sockets. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/random.h"
#include "transport/member/channel.h"
#include "transport/link/heap.h"
#include "transport/link/socket.h"
#include "transport/link/window.h"

static uint64_t draw(uint64_t *counter, uint64_t n)
{
    uint32_t bits[4];
    gw_random4(1, GW_RANDOM_TEST, 2, (*counter)++, bits);
    return bits[0] % n;
}

/* ---- heap: against a list that is searched ---- */

#define ITEMS 200

struct item {
    struct gw_heap_node node;
    uint64_t value;
    int in;
};

static int item_before(const struct gw_heap_node *a,
                       const struct gw_heap_node *b)
{
    return GW_CONTAINER(a, struct item, node)->value <
           GW_CONTAINER(b, struct item, node)->value;
}

static void the_heap_gives_the_smallest(void **state)
{
    (void)state;
    static struct item item[ITEMS];
    struct gw_heap heap = {.before = item_before};
    uint64_t counter = 0;
    for (int round = 0; round < 20000; round++) {
        struct item *one = &item[draw(&counter, ITEMS)];
        if (one->in) {
            gw_heap_remove(&heap, &one->node);
        } else {
            one->value = draw(&counter, 50);
            gw_heap_insert(&heap, &one->node);
        }
        one->in = !one->in;
        const struct item *smallest = NULL;
        for (size_t i = 0; i < ITEMS; i++)
            if (item[i].in && (!smallest || item[i].value < smallest->value))
                smallest = &item[i];
        struct gw_heap_node *first = gw_heap_first(&heap);
        assert_int_equal(first != NULL, smallest != NULL);
        if (first)
            assert_int_equal(GW_CONTAINER(first, struct item, node)->value,
                             smallest->value);
    }
}

/* ---- windows ---- */

static void a_window_is_for_its_kind_and_range(void **state)
{
    (void)state;
    struct gw_windows windows = {0};
    uint8_t memory[100];
    uint32_t id;
    assert_int_equal(
        gw_window_open(&windows, GW_FRAME_PUSH, memory, sizeof memory, &id),
        GW_OK);
    assert_int_not_equal(id, GW_WINDOW_NONE);
    assert_ptr_equal(gw_window_at(&windows, GW_FRAME_PUSH, id, 0, 100), memory);
    assert_ptr_equal(gw_window_at(&windows, GW_FRAME_PUSH, id, 60, 40),
                     memory + 60);
    assert_ptr_equal(gw_window_at(&windows, GW_FRAME_PUSH, id, 100, 0),
                     memory + 100);
    assert_null(gw_window_at(&windows, GW_FRAME_PUSH, id, 60, 41));
    assert_null(gw_window_at(&windows, GW_FRAME_PUSH, id, 101, 0));
    assert_null(gw_window_at(&windows, GW_FRAME_PUSH, id, UINT64_MAX, 2));
    assert_null(gw_window_at(&windows, GW_FRAME_PUSH, id, 1, UINT32_MAX));
    assert_null(gw_window_at(&windows, GW_FRAME_SEED, id, 0, 1));
    assert_null(gw_window_at(&windows, GW_FRAME_PUSH, id + 1, 0, 1));
    assert_null(gw_window_at(&windows, GW_FRAME_PUSH, GW_WINDOW_NONE, 0, 1));
}

/* A frame that was on its way finds nothing, however often the slot is used. */
/* Rather none than one that another had. */
static void ids_of_windows_come_to_an_end(void **state)
{
    (void)state;
    struct gw_windows windows = {.opened = UINT32_MAX / GW_WINDOWS_MAX - 1};
    uint8_t memory[8];
    uint32_t last, id = 0;
    assert_int_equal(gw_window_open(&windows, GW_FRAME_PUSH, memory, 8, &last),
                     GW_OK);
    assert_int_not_equal(last, GW_WINDOW_NONE);
    gw_window_close(&windows, last);
    assert_int_equal(gw_window_open(&windows, GW_FRAME_PUSH, memory, 8, &id),
                     GW_ENOMEM);
    assert_int_equal(id, 0);
}

static void a_closed_window_never_comes_back(void **state)
{
    (void)state;
    struct gw_windows windows = {0};
    uint8_t memory[8];
    uint32_t old, id;
    assert_int_equal(gw_window_open(&windows, GW_FRAME_PUSH, memory, 8, &old),
                     GW_OK);
    gw_window_close(&windows, old);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(
            gw_window_open(&windows, GW_FRAME_PUSH, memory, 8, &id), GW_OK);
        assert_int_not_equal(id, old);
        assert_null(gw_window_at(&windows, GW_FRAME_PUSH, old, 0, 8));
        gw_window_close(&windows, old); /* changes nothing */
        assert_non_null(gw_window_at(&windows, GW_FRAME_PUSH, id, 0, 8));
        gw_window_close(&windows, id);
    }
}

static void only_so_many_windows_are_open(void **state)
{
    (void)state;
    struct gw_windows windows = {0};
    uint8_t memory[8];
    uint32_t id[GW_WINDOWS_MAX + 1] = {0};
    for (size_t i = 0; i < GW_WINDOWS_MAX; i++)
        assert_int_equal(
            gw_window_open(&windows, GW_FRAME_PUSH, memory, 8, &id[i]), GW_OK);
    assert_int_equal(
        gw_window_open(&windows, GW_FRAME_PUSH, memory, 8, &id[GW_WINDOWS_MAX]),
        GW_ENOMEM);
    gw_window_close(&windows, id[3]);
    assert_int_equal(gw_window_open(&windows, GW_FRAME_PUSH, memory, 8, &id[3]),
                     GW_OK);
}

/* ---- the channel, without a link ---- */

static struct gw_control_arena arena;

static enum gw_status tell(struct gw_channel *channel, size_t text_bytes)
{
    char *text = malloc(text_bytes + 1);
    memset(text, 'x', text_bytes);
    text[text_bytes] = '\0';
    struct gw_message message = {.kind = GW_MESSAGE_STOP,
                                 .stop = {.text = text}};
    enum gw_status status = gw_channel_tell(channel, NULL, &message, &arena, 1);
    free(text);
    return status;
}

/* Where a frame says that so many are there: some, whoever asks. */
static void acknowledge_some(struct gw_channel *channel, uint64_t *counter)
{
    uint64_t open = channel->sent - channel->acked;
    assert_int_equal(
        gw_channel_acked(channel, channel->acked + 1 + draw(counter, open)),
        GW_OK);
}

/* Any sizes, acknowledged in any portions: the ring neither leaks nor jams, and
   what it has no room for is kept beside it, for as long as it is needed. */
static void the_ring_is_used_again_and_again(void **state)
{
    (void)state;
    struct gw_channel channel = {0};
    uint64_t counter = 0, beside = 0;
    for (int round = 0; round < 5000; round++) {
        assert_int_equal(tell(&channel, draw(&counter, 20000)), GW_OK);
        beside += channel.owed_bytes > 0;
        if (draw(&counter, 12) == 0)
            acknowledge_some(&channel, &counter);
    }
    assert_in_range(beside, 100, 4900);
    assert_int_equal(gw_channel_acked(&channel, channel.sent), GW_OK);
    assert_null(channel.first);
    assert_int_equal(channel.owed_bytes, 0);
    assert_int_equal(channel.in_ring, 0);
    assert_int_equal(tell(&channel, 60000), GW_OK);
    assert_int_equal(channel.owed_bytes, 0);
    gw_channel_free(&channel);
}

/* 32 MiB, of which nothing is left when it has them. */
static void a_peer_owes_no_more_than_a_bound(void **state)
{
    (void)state;
    struct gw_channel channel = {0};
    uint64_t n = 0;
    while (tell(&channel, 60000) == GW_OK)
        n++;
    assert_in_range(n, GW_CHANNEL_OWED_BYTES / 60100,
                    GW_CHANNEL_OWED_BYTES / 60000 + 4);
    assert_int_equal(tell(&channel, 60000), GW_EAGAIN);
    assert_int_equal(gw_channel_acked(&channel, n / 2), GW_OK);
    assert_int_equal(tell(&channel, 60000), GW_OK);
    assert_int_equal(gw_channel_acked(&channel, n + 1), GW_OK);
    assert_null(channel.first);
    assert_int_equal(tell(&channel, 70000), GW_ERANGE);
    gw_channel_free(&channel);
}

/* Messages of before it was widened are let go first, and none is lost. */
static void a_ring_is_widened_under_what_it_has(void **state)
{
    (void)state;
    for (uint64_t few = 1; few <= 8; few++) {
        struct gw_channel channel = {0};
        for (uint64_t i = 0; i < few; i++)
            assert_int_equal(tell(&channel, 20), GW_OK);
        uint64_t n = few;
        for (; channel.owed_bytes == 0; n++)
            assert_int_equal(tell(&channel, 3000), GW_OK);
        assert_true(n > few + 40 && n < few + 60);
        assert_int_equal(channel.sent, n);
        for (uint64_t i = 1; i <= n; i++) {
            assert_int_equal(gw_channel_acked(&channel, i), GW_OK);
            assert_true((i == n) == !channel.first);
            if (i == n / 2) /* and around its end */
                assert_int_equal(tell(&channel, 30000), GW_OK);
            n += i == n / 2;
        }
        assert_null(channel.ring_few);
        gw_channel_free(&channel);
    }
}

static void a_message_that_is_too_large_says_so(void **state)
{
    (void)state;
    struct gw_channel channel = {0};
    assert_int_equal(tell(&channel, GW_MESSAGE_BYTES_MAX), GW_ERANGE);
    assert_int_equal(channel.sent, 0);
    assert_int_equal(tell(&channel, 10), GW_OK);
    gw_channel_free(&channel);
}

static void numbers_come_once_and_in_order(void **state)
{
    (void)state;
    struct gw_channel channel = {0};
    assert_int_equal(gw_channel_take(&channel, 2), GW_EPROTO);
    assert_int_equal(gw_channel_take(&channel, 0), GW_EEXIST);
    assert_int_equal(gw_channel_take(&channel, 1), GW_OK);
    assert_int_equal(gw_channel_take(&channel, 1), GW_EEXIST);
    assert_int_equal(gw_channel_take(&channel, UINT64_MAX), GW_EPROTO);
    assert_int_equal(gw_channel_take(&channel, 2), GW_OK);
    assert_int_equal(gw_channel_acked(&channel, 1), GW_EPROTO);
    assert_false(gw_channel_owes_ack(&channel));
    for (uint64_t i = 3; i < 20; i++)
        assert_int_equal(gw_channel_take(&channel, i), GW_OK);
    assert_true(gw_channel_owes_ack(&channel));
    gw_channel_free(&channel);
}

/* ---- sockets ---- */

/* A listener of this host, and where it is. */
static int listen_at(struct sockaddr_in *address)
{
    socklen_t bytes = sizeof *address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(listener, (const struct sockaddr *)address, bytes),
                     0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)address, &bytes),
                     0);
    return listener;
}

static void assert_reno(int fd)
{
    char name[16] = "";
    socklen_t bytes = sizeof name;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes),
                     0);
    assert_string_equal(name, "reno");
}

static void sockets_of_one_host_are_not_paced(void **state)
{
    (void)state;
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    int listener = listen_at(&address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, bytes), 0);
    gw_socket_tune(fd);
    int on = 0;
    assert_reno(fd);
    bytes = sizeof on;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &bytes), 0);
    assert_true(on);
    close(fd);
    close(listener);
}

/* What a connected socket puts into one segment. */
static int segment_of(int fd)
{
    int segment = 0;
    socklen_t bytes = sizeof segment;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &bytes),
                     0);
    return segment;
}

static void segments_inside_a_host_are_pages(void **state)
{
    (void)state;
    struct sockaddr_in address;
    struct tcp_info info;
    socklen_t bytes = sizeof address, info_bytes = sizeof info;
    int listener = listen_at(&address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    gw_socket_tune_for(fd, (const struct sockaddr *)&address, bytes);
    assert_reno(fd); /* one that was paced before would be so later */
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, bytes), 0);
    int other = accept(listener, NULL, NULL);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_bytes),
                     0);
    int stamp = info.tcpi_options & TCPI_OPT_TIMESTAMPS ? 12 : 0;
    assert_int_equal(segment_of(fd) + stamp, 3 * 4096 + 12);
    assert_int_equal(segment_of(other) + stamp, 3 * 4096 + 12);
    close(other);
    close(fd);
    close(listener);
}

static void segments_of_a_line_are_as_they_were(void **state)
{
    (void)state;
    struct sockaddr_in far = {.sin_family = AF_INET,
                              .sin_port = htons(9),
                              .sin_addr.s_addr = htonl(0xc0000201)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    int fd = socket(AF_INET, SOCK_STREAM, 0), before = segment_of(fd);
    gw_socket_tune_for(fd, (const struct sockaddr *)&far, sizeof far);
    assert_int_equal(segment_of(fd), before);
    gw_socket_tune_for(fd, (const struct sockaddr *)&local, sizeof local);
    assert_int_equal(segment_of(fd), before);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heap_gives_the_smallest),
        cmocka_unit_test(a_window_is_for_its_kind_and_range),
        cmocka_unit_test(a_closed_window_never_comes_back),
        cmocka_unit_test(ids_of_windows_come_to_an_end),
        cmocka_unit_test(only_so_many_windows_are_open),
        cmocka_unit_test(the_ring_is_used_again_and_again),
        cmocka_unit_test(a_peer_owes_no_more_than_a_bound),
        cmocka_unit_test(a_ring_is_widened_under_what_it_has),
        cmocka_unit_test(a_message_that_is_too_large_says_so),
        cmocka_unit_test(numbers_come_once_and_in_order),
        cmocka_unit_test(sockets_of_one_host_are_not_paced),
        cmocka_unit_test(segments_inside_a_host_are_pages),
        cmocka_unit_test(segments_of_a_line_are_as_they_were),
    };
    return cmocka_run_group_tests_name("transport parts", tests, NULL, NULL);
}
