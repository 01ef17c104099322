/*
 * The bound is SO_SNDBUF, which counts what is written until it is
 * acknowledged. It is set anew as the stream gets faster or slower, and given
 * up (SO_BUF_LOCK, since Linux 5.14) where the stream needs more.
 */
#include "config.h"

#include "transport/tcp_flight.h"

#include <limits.h>
#include <linux/tcp.h>
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

/* A process that waits for a processor finds its stream busy still; there and
   back on a near line takes less. */
#define LATE_US 1000

/* What is looked at together, and what was no steady stream. */
#define INTERVAL_US 20000
#define PAUSE_US    200000

size_t gw_tcp_flight_room(double rate, uint32_t rtt_us)
{
    return rtt_us > LATE_US ? 0 : LEAST + (size_t)(2e-6 * LATE_US * rate);
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

/* The kernel gives twice what it is asked for, which is what it counts. */
static void bound(struct gw_tcp_flight *flight, int fd, size_t bytes)
{
    set(fd, SO_SNDBUF, (int)(bytes / 2));
    if (flight->paces[0] && flight->bytes == 0)
        gw_socket_do_not_pace(fd);
    flight->bytes = bytes;
}

static void leave_to_kernel(struct gw_tcp_flight *flight, int fd)
{
    if (flight->bytes == 0)
        return;
    set(fd, SO_BUF_LOCK, 0);
    if (flight->paces[0])
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, flight->paces,
                   (socklen_t)strlen(flight->paces));
    flight->bytes = 0;
}

/*
 * bbr goes by the part of the line that it has measured itself, and takes
 * seconds to take up what another stream leaves. With a bound no control has
 * much to do, and the one that does least does best.
 */
static void note_control(struct gw_tcp_flight *flight, int fd)
{
    socklen_t bytes = sizeof flight->paces - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, flight->paces, &bytes) !=
            0 ||
        strncmp(flight->paces, "bbr", 3) != 0)
        memset(flight->paces, 0, sizeof flight->paces);
}

/* ---- what it is set to ---- */

static uint32_t rtt_of(int fd)
{
    struct tcp_info info = {.tcpi_min_rtt = UINT32_MAX};
    socklen_t bytes = sizeof info;
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes);
    return info.tcpi_min_rtt;
}

/* One that needs a little more than it may have does with that. It becomes the
   kernel's, and ours again, at different rates, so that it does so seldom. */
static void suit(struct gw_tcp_flight *flight, int fd)
{
    size_t room = gw_tcp_flight_room(flight->rate, rtt_of(fd));
    size_t most = flight->may / 4 * (flight->bytes ? 6 : 5);
    if (room == 0 || room > most)
        leave_to_kernel(flight, fd);
    else
        bound(flight, fd, room < flight->may ? room : flight->may);
}

void gw_tcp_flight_begin(struct gw_tcp_flight *flight, int fd)
{
    *flight = (struct gw_tcp_flight){0};
    if (gw_socket_is_within_host(fd) || get(fd, SO_BUF_LOCK) != 0)
        return;
    set(fd, SO_SNDBUF, INT_MAX / 2);
    flight->may = (size_t)get(fd, SO_SNDBUF);
    set(fd, SO_BUF_LOCK, 0);
    note_control(flight, fd);
    suit(flight, fd);
}

void gw_tcp_flight_wrote(struct gw_tcp_flight *flight,
                         int fd,
                         size_t bytes,
                         uint64_t now_us)
{
    uint64_t us = now_us - flight->since_us;
    flight->written += bytes;
    if (flight->may == 0 || us < INTERVAL_US)
        return;
    if (flight->full && us < PAUSE_US) {
        double rate = 1e6 * (double)flight->written / (double)us;
        double before = 0.9 * flight->rate + 0.1 * rate;
        flight->rate = rate > before ? rate : before;
        suit(flight, fd);
    }
    flight->since_us = now_us;
    flight->written = 0;
    flight->full = 0;
}
