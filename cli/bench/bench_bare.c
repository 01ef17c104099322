/*
 * The machine's limits: two single-threaded processes and one connection, with
 * no library, frame or table between them and the kernel.
 *
 *   limit A     both poll; every chunk goes back when it is complete
 *   limit B     the same, with the checksums of all four ends and the server's
 *               reduction and update inline
 *   ping-pong   both block; the whole tensor there, then the whole back
 *
 * A push is answered by one byte, a pull is requested by one byte.
 */
#include "config.h"

#include "cli/bench/bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wire.h"
#include "transport/link/socket.h"

/* Bytes per read, few enough that the checksum finds them in cache. */
#define PIECE_BYTES ((size_t)256 << 10)

/* One of the two processes. */
struct bare {
    const struct gw_bench_child *child;
    int fd, server;
    int arithmetic; /* limit B */
    size_t chunk;
    uint8_t *in, *out;
    size_t in_bytes, out_bytes; /* in this pass */
    size_t got, sent, ready;    /* out[0, ready) may leave */
    uint32_t crc_in, crc_out;
    volatile uint32_t sink; /* keeps the compiler from dropping the checksums */
    float *weights[2], *state[GW_STATE_MAX];
    unsigned current;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t chunk_end(const struct bare *bare, size_t at, size_t bytes)
{
    return least((at / bare->chunk + 1) * bare->chunk, bytes);
}

/* The server's update of one chunk, which may be sent then. */
static void update(struct bare *bare, size_t from, size_t to, int pushed)
{
    const struct gw_bench_case *what = bare->child->what;
    const float *slot = (const float *)(const void *)bare->in;
    const float *slots[1] = {pushed ? slot : NULL};
    float *states[GW_STATE_MAX], *next = bare->weights[!bare->current];
    size_t first = from / sizeof(float), elems = (to - from) / sizeof(float);
    for (unsigned s = 0; s < what->options->optimizer->states; s++)
        states[s] = bare->state[s] + first;
    gw_update_reduce_apply(what->options->optimizer, &what->update, slots, 1,
                           first, elems, bare->weights[bare->current] + first,
                           next + first, states);
}

/* Called when a chunk is complete; for a pull, when it is its turn. */
static void chunk_ready(struct bare *bare, size_t from, size_t to, int pushed)
{
    if (bare->arithmetic) {
        update(bare, from, to, pushed);
        bare->sink = gw_crc32c(0, bare->out + from, to - from);
    }
    bare->ready = to;
}

/* Makes more bytes ready to be sent; 0: that depends on the peer. */
static int make_ready(struct bare *bare)
{
    int pull = bare->in_bytes == 1, push = bare->out_bytes == 1;
    if (bare->ready > bare->sent || bare->ready == bare->out_bytes)
        return bare->ready > bare->sent;
    if (!bare->server) {
        size_t to = chunk_end(bare, bare->ready, bare->out_bytes);
        if (bare->arithmetic && bare->out_bytes > 1)
            bare->crc_out =
                gw_crc32c(0, bare->out + bare->ready, to - bare->ready);
        bare->ready = to;
    } else if (push && bare->got == bare->in_bytes) {
        bare->ready = 1;
    } else if (pull && bare->got == 1) {
        chunk_ready(bare, bare->ready,
                    chunk_end(bare, bare->ready, bare->out_bytes), 0);
    }
    return bare->ready > bare->sent;
}

static void arrived(struct bare *bare, size_t n)
{
    size_t from = bare->got;
    bare->got += n;
    if (bare->arithmetic)
        bare->crc_in = gw_crc32c(bare->crc_in, bare->in + from, n);
    size_t end = chunk_end(bare, from, bare->in_bytes);
    if (bare->got < end)
        return;
    bare->sink = bare->crc_in;
    bare->crc_in = 0;
    size_t begin = from / bare->chunk * bare->chunk;
    if (!bare->server || bare->in_bytes == 1)
        return;
    if (bare->out_bytes == 1) {
        if (bare->arithmetic)
            update(bare, begin, end, 1);
    } else {
        chunk_ready(bare, begin, end, 1);
    }
}

/* Sends and receives as much as possible; 0 when the connection is gone. */
static int pump(struct bare *bare, int flags)
{
    ssize_t n;
    if (bare->sent < bare->out_bytes && make_ready(bare)) {
        n = send(bare->fd, bare->out + bare->sent, bare->ready - bare->sent,
                 flags | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return 0;
        bare->sent += n > 0 ? (size_t)n : 0;
    }
    if (bare->got < bare->in_bytes) {
        size_t room = chunk_end(bare, bare->got, bare->in_bytes) - bare->got;
        if (bare->arithmetic)
            room = least(room, PIECE_BYTES);
        n = recv(bare->fd, bare->in + bare->got, room, flags);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return 0;
        if (n > 0)
            arrived(bare, (size_t)n);
    }
    return 1;
}

static int pass(struct bare *bare, enum gw_bench_op op)
{
    size_t bytes = bare->child->what->bytes;
    size_t up = op == GW_BENCH_PULL ? 1 : bytes;
    size_t down = op == GW_BENCH_PUSH ? 1 : bytes;
    bare->in_bytes = bare->server ? up : down;
    bare->out_bytes = bare->server ? down : up;
    bare->got = bare->sent = bare->ready = 0;
    if (bare->arithmetic && bare->server)
        bare->out = (uint8_t *)bare->weights[!bare->current];
    while (bare->got < bare->in_bytes || bare->sent < bare->out_bytes)
        if (!pump(bare, MSG_DONTWAIT))
            return 0;
    bare->current = !bare->current;
    return 1;
}

static int move_all(int fd, uint8_t *bytes, size_t n, int out)
{
    for (size_t at = 0; at < n;) {
        ssize_t moved = out ? send(fd, bytes + at, n - at, MSG_NOSIGNAL)
                            : recv(fd, bytes + at, n - at, 0);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return 0;
        at += (size_t)moved;
    }
    return 1;
}

static int ping_pong(struct bare *bare, enum gw_bench_op op)
{
    size_t bytes = bare->child->what->bytes;
    size_t up = op == GW_BENCH_PULL ? 1 : bytes;
    size_t down = op == GW_BENCH_PUSH ? 1 : bytes;
    if (bare->server)
        return move_all(bare->fd, bare->in, up, 0) &&
               move_all(bare->fd, bare->out, down, 1);
    return move_all(bare->fd, bare->out, up, 1) &&
           move_all(bare->fd, bare->in, down, 0);
}

/* Arrays like those of each path; A's server sends back the bytes it
   received. */
static int take_memory(struct bare *bare)
{
    size_t bytes = bare->child->what->bytes;
    struct gw_bench_pattern pattern;
    bare->in = (uint8_t *)gw_bench_array(bytes, 0);
    bare->out = bare->server ? bare->in : (uint8_t *)gw_bench_array(bytes, 1);
    if (!bare->in || !bare->out)
        return 0;
    gw_bench_pattern(1, &pattern);
    gw_bench_fill(&pattern, bytes / sizeof(float), (float *)(void *)bare->out);
    for (unsigned i = 0; bare->server && i < 2 + GW_STATE_MAX; i++) {
        float **array = i < 2 ? &bare->weights[i] : &bare->state[i - 2];
        *array = gw_bench_array(bytes, 1 + i);
        if (!*array)
            return 0;
        memset(*array, 0, bytes);
    }
    return 1;
}

static int run_order(struct bare *bare, const struct gw_bench_message *order)
{
    uint8_t *landing = bare->in, *out = bare->out;
    double *us = gw_bench_times(bare->child);
    int ok = 1;
    bare->arithmetic = order->path == GW_BENCH_LIMIT_B;
    /* one untimed, to warm up */
    for (uint32_t i = 0; ok && i <= bare->child->what->iterations; i++) {
        double start = gw_bench_now_us();
        ok = order->path == GW_BENCH_PING_PONG ? ping_pong(bare, order->op)
                                               : pass(bare, order->op);
        if (!bare->server && i > 0)
            us[i - 1] = gw_bench_now_us() - start;
    }
    bare->in = landing;
    bare->out = out;
    return ok;
}

/* The echo equals the data, if nothing has changed it. */
static uint64_t check(struct bare *bare, const struct gw_bench_message *order)
{
    struct gw_bench_pattern pattern;
    size_t bytes = bare->child->what->bytes;
    if (bare->server || order->op != GW_BENCH_BOTH ||
        order->path == GW_BENCH_LIMIT_B)
        return 0;
    gw_bench_pattern(1, &pattern);
    uint64_t wrong = gw_bench_wrong(&pattern, bytes / sizeof(float),
                                    (const float *)(const void *)bare->in);
    memset(bare->in, 0, bytes);
    return wrong;
}

static void serve_orders(struct bare *bare)
{
    struct gw_bench_message order;
    struct gw_error error;
    gw_socket_tune(bare->fd);
    bare->chunk = bare->child->what->map->chunk_bytes;
    if (!take_memory(bare)) {
        gw_fail(&error, GW_ENOMEM, "no memory for %zu bytes",
                bare->child->what->bytes);
        gw_bench_say_failed(bare->child, &error);
        return;
    }
    while (gw_bench_listen(bare->child, &order)) {
        if (!run_order(bare, &order)) {
            gw_fail(&error, GW_ECLOSED, "connection lost: %s", strerror(errno));
            gw_bench_say_failed(bare->child, &error);
            return;
        }
        gw_bench_say(bare->child, GW_BENCH_DONE, "", check(bare, &order));
    }
}

/* ---- rendezvous of the two ---- */

struct rendezvous {
    int listener;
    struct sockaddr_in address;
};

static void run_client(struct gw_bench_child *child)
{
    struct rendezvous *rendezvous = child->owner;
    struct bare bare = {.child = child, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    close(rendezvous->listener);
    gw_socket_take_reno(bare.fd); /* as links do before they pace */
    if (connect(bare.fd, (struct sockaddr *)&rendezvous->address,
                sizeof rendezvous->address) == 0)
        serve_orders(&bare);
}

static void run_server(struct gw_bench_child *child)
{
    struct rendezvous *rendezvous = child->owner;
    struct bare bare = {.child = child, .server = 1};
    bare.fd = accept(rendezvous->listener, NULL, NULL);
    close(rendezvous->listener);
    if (bare.fd >= 0)
        serve_orders(&bare);
}

enum gw_status gw_bench_bare_open(const struct gw_bench_case *what,
                                  struct gw_bench_group *group,
                                  struct gw_error *error)
{
    struct rendezvous rendezvous = {
        .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
        .address = {.sin_family = AF_INET,
                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    struct sockaddr *address = (struct sockaddr *)&rendezvous.address;
    socklen_t bytes = sizeof rendezvous.address;
    struct gw_bench_child child = {.what = what, .owner = &rendezvous};
    enum gw_status status;
    if (rendezvous.listener < 0 ||
        bind(rendezvous.listener, address, bytes) != 0 ||
        listen(rendezvous.listener, 1) != 0 ||
        getsockname(rendezvous.listener, address, &bytes) != 0)
        status = gw_fail(error, GW_EIO, "bench: cannot listen on loopback: %s",
                         strerror(errno));
    else
        status =
            gw_bench_start(group, "bare client", &child, run_client, error);
    if (status == GW_OK)
        status =
            gw_bench_start(group, "bare server", &child, run_server, error);
    if (rendezvous.listener >= 0)
        close(rendezvous.listener);
    return status;
}
