/*
 * The bound is SO_SNDBUF, which counts what is written until it is
 * acknowledged. It is set anew as the stream gets faster or slower, and given
 * up (SO_BUF_LOCK, since Linux 5.14) where the stream needs more.
 */
#include "config.h"

#include "transport/tcp_flight.h"

#include <limits.h>
#include <linux/tcp.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/socket.h"

#ifndef SO_BUF_LOCK /* older headers than the kernel */
#define SO_BUF_LOCK 72
#endif

/* Of the slowest stream: what every user may ask for by default. Enough not to
   starve beside streams that fill the queue. */
#define LEAST ((size_t)416 << 10)

/* There and back on a near line, while it is empty, takes no longer. */
#define NEAR_US 1000

/* What a line carries meanwhile waits for it: a process that has no processor
   for a moment finds its stream busy still. */
#define AHEAD_US 2000

/* What is looked at together: from one full socket to another, so that what
   was written has left it. A pause is no stream. */
#define INTERVAL_US 5000
#define PAUSE_US    100000

/* Of a slower interval; a faster one counts at once. */
#define WEIGHT 0.03

static double ahead_bytes(double bytes_per_s)
{
    return 1e-6 * AHEAD_US * bytes_per_s;
}

size_t gw_tcp_flight_room(double bytes_per_s, uint32_t rtt_us)
{
    return rtt_us > NEAR_US ? 0 : LEAST + (size_t)ahead_bytes(bytes_per_s);
}

/* ---- the socket ---- */

static int get(int fd, int option)
{
    int is = 0;
    socklen_t bytes = sizeof is;
    return getsockopt(fd, SOL_SOCKET, option, &is, &bytes) == 0 ? is : -1;
}

static void set(int fd, int option, int value)
{
    setsockopt(fd, SOL_SOCKET, option, &value, sizeof value);
}

/* The kernel gives twice what it is asked for, which is what it counts, or less
   than that if the user may have no more. */
static void bound(struct gw_tcp_flight *flight, int fd, size_t bytes)
{
    if (flight->aside[0] && flight->bound_bytes == 0)
        gw_socket_take_reno(fd);
    set(fd, SO_SNDBUF, (int)(bytes / 2));
    flight->bound_bytes = (size_t)get(fd, SO_SNDBUF);
    if (flight->bound_bytes < bytes / 2 * 2)
        flight->most_bytes = flight->bound_bytes;
}

/* A control that may be set for a route alone, and not by this user, does not
   come back: the stream goes on under reno. */
static void leave_to_kernel(struct gw_tcp_flight *flight, int fd)
{
    if (flight->bound_bytes == 0)
        return;
    set(fd, SO_BUF_LOCK, 0);
    if (flight->aside[0])
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, flight->aside,
                   (socklen_t)strlen(flight->aside));
    flight->bound_bytes = 0;
}

/*
 * bbr goes by the part of the line that it has measured itself, and takes
 * seconds to take up what another stream leaves. With a bound no control has
 * much to do, and the one that does least does best.
 */
static void note_control(struct gw_tcp_flight *flight, int fd)
{
    socklen_t bytes = sizeof flight->aside - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, flight->aside, &bytes) !=
            0 ||
        strncmp(flight->aside, "bbr", 3) != 0)
        memset(flight->aside, 0, sizeof flight->aside);
}

/* ---- what it is set to ---- */

/* The kernel forgets after minutes how short the way was that is full now. */
static int is_near(struct gw_tcp_flight *flight, int fd)
{
    struct tcp_info info = {.tcpi_min_rtt = UINT32_MAX};
    socklen_t bytes = sizeof info;
    if (!flight->near) {
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes);
        flight->near = info.tcpi_min_rtt <= NEAR_US;
    }
    return flight->near;
}

/* It becomes the kernel's, and ours again, at different rates, so that it does
   so seldom. */
static void suit(struct gw_tcp_flight *flight, int fd)
{
    size_t room = gw_tcp_flight_room(flight->bytes_per_s, NEAR_US);
    size_t most = flight->most_bytes;
    size_t enough = flight->bound_bytes ? most : most / 4 * 3;
    if (!is_near(flight, fd) ||
        ahead_bytes(flight->bytes_per_s) > (double)enough)
        leave_to_kernel(flight, fd);
    else
        bound(flight, fd, room < most ? room : most);
}

void gw_tcp_flight_begin(struct gw_tcp_flight *flight, int fd)
{
    *flight = (struct gw_tcp_flight){0};
    if (gw_socket_is_within_host(fd) || get(fd, SO_BUF_LOCK) != 0)
        return;
    flight->most_bytes = INT_MAX;
    note_control(flight, fd);
    suit(flight, fd);
}

void gw_tcp_flight_wrote(struct gw_tcp_flight *flight, size_t bytes)
{
    flight->written += bytes;
}

void gw_tcp_flight_full(struct gw_tcp_flight *flight, int fd, uint64_t now_us)
{
    uint64_t us = now_us - flight->since_us;
    if (flight->most_bytes == 0 || (flight->since_us && us < INTERVAL_US))
        return;
    if (flight->since_us && us < PAUSE_US) {
        double now = 1e6 * (double)flight->written / (double)us;
        double before = flight->bytes_per_s;
        flight->bytes_per_s = fmax(now, before + WEIGHT * (now - before));
        suit(flight, fd);
    }
    flight->since_us = now_us;
    flight->written = 0;
}

void gw_tcp_flight_done(struct gw_tcp_flight *flight)
{
    flight->since_us = 0;
}
