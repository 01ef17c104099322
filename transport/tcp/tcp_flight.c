/*
 * The bound is SO_SNDBUF, which counts written bytes until they are
 * acknowledged, and the kernel's memory for them: the payload is somewhat less.
 * It is set again as the stream gets faster or slower, and given up
 * (SO_BUF_LOCK, since Linux 5.14) if the stream needs more.
 */
#include "config.h"

#include "transport/tcp/tcp_flight.h"

#include <limits.h>
#include <linux/tcp.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/link/socket.h"

#ifndef SO_BUF_LOCK /* older headers than the kernel */
#define SO_BUF_LOCK 72
#endif

/* For the slowest stream: twice a net.core.wmem_max of 208 KiB, which kernels
   before 6.18 let every user have. Enough not to starve next to streams that
   fill the queue. */
#define LEAST ((size_t)416 << 10)

/* Round trips on an empty near line take no longer. */
#define NEAR_US 1000

/* Time for which a stream has bytes ahead: a process without a processor for a
   moment still finds its stream busy. */
#define AHEAD_US 2000

/* Length of a measurement, made of one or more times from one full socket to
   the next: the bytes written in such a time have left it. A longer time is a
   pause, and not measured. */
#define INTERVAL_US 5000
#define PAUSE_US    100000

/* for a slower measurement; a faster one counts at once */
#define WEIGHT 0.03

static double ahead_bytes(double bytes_per_s)
{
    return 1e-6 * AHEAD_US * bytes_per_s;
}

size_t gw_tcp_flight_room(double bytes_per_s)
{
    return LEAST + (size_t)ahead_bytes(bytes_per_s);
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

/* The kernel grants twice the requested size, because it counts its own memory
   too, or less if the user may have no more. */
static void bound(struct gw_tcp_flight *flight, int fd, size_t bytes)
{
    if (flight->saved_control[0] && flight->bound_bytes == 0)
        gw_socket_take_reno(fd);
    set(fd, SO_SNDBUF, (int)(bytes / 2));
    flight->bound_bytes = (size_t)get(fd, SO_SNDBUF);
    if (flight->bound_bytes < bytes / 2 * 2)
        flight->most_bytes = flight->bound_bytes;
}

/* A congestion control that a route sets, but this user may not, does not come
   back: the stream goes on under reno. */
static void leave_to_kernel(struct gw_tcp_flight *flight, int fd)
{
    if (flight->bound_bytes == 0)
        return;
    set(fd, SO_BUF_LOCK, 0);
    if (flight->saved_control[0])
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, flight->saved_control,
                   (socklen_t)strlen(flight->saved_control));
    flight->bound_bytes = 0;
}

/*
 * bbr relies on the share of the line that it has measured itself, and takes
 * seconds to use the part that another stream leaves. With a bound a congestion
 * control has little to do, and the simplest does best (although the kernel
 * goes on pacing a socket that bbr has paced, if faster than the stream is).
 */
static void note_control(struct gw_tcp_flight *flight, int fd)
{
    socklen_t bytes = sizeof flight->saved_control - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, flight->saved_control,
                   &bytes) != 0 ||
        strncmp(flight->saved_control, "bbr", 3) != 0)
        memset(flight->saved_control, 0, sizeof flight->saved_control);
}

/* ---- setting the bound ---- */

/* After minutes the kernel forgets the round trip of a line that is full. */
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

/* Gives the bound up if even the largest allowed one keeps too little ahead,
   and takes it back below three quarters of that rate, so that it changes hands
   seldom. */
static void adjust(struct gw_tcp_flight *flight, int fd)
{
    size_t room = gw_tcp_flight_room(flight->bytes_per_s);
    size_t most = flight->most_bytes;
    size_t enough = flight->bound_bytes ? most : most / 4 * 3;
    int fast = ahead_bytes(flight->bytes_per_s) > (double)enough;
    if (!is_near(flight, fd) || (fast && flight->kernel_bytes > most))
        leave_to_kernel(flight, fd);
    else
        bound(flight, fd, room < most ? room : most);
}

/* The largest size that the kernel grows a socket without a bound to. */
static size_t kernel_most(void)
{
    unsigned long least, usual, most;
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_wmem", "re");
    int read = file ? fscanf(file, "%lu %lu %lu", &least, &usual, &most) : 0;
    if (file)
        fclose(file);
    return read == 3 ? most : 0;
}

void gw_tcp_flight_begin(struct gw_tcp_flight *flight, int fd)
{
    *flight = (struct gw_tcp_flight){0};
    if (gw_socket_is_within_host(fd) || get(fd, SO_BUF_LOCK) != 0)
        return;
    flight->most_bytes = INT_MAX;
    flight->kernel_bytes = kernel_most();
    note_control(flight, fd);
    adjust(flight, fd);
}

void gw_tcp_flight_wrote(struct gw_tcp_flight *flight, size_t bytes)
{
    flight->written += bytes;
}

/* A socket that has become larger takes bytes that have not left it: the next
   measurement is skipped. */
static void take_rate(struct gw_tcp_flight *flight, int fd)
{
    double now = 1e6 * (double)flight->busy_bytes / (double)flight->busy_us;
    double before = flight->bytes_per_s;
    size_t had = flight->bound_bytes;
    flight->bytes_per_s = fmax(now, before + WEIGHT * (now - before));
    flight->busy_us = flight->busy_bytes = 0;
    adjust(flight, fd);
    if (flight->bound_bytes == 0 || flight->bound_bytes > had)
        flight->since_us = 0;
}

void gw_tcp_flight_full(struct gw_tcp_flight *flight, int fd, uint64_t now_us)
{
    uint64_t since_us = flight->since_us;
    if (flight->most_bytes == 0)
        return;
    if (since_us && now_us - since_us < PAUSE_US) {
        flight->busy_us += now_us - since_us;
        flight->busy_bytes += flight->written;
    }
    flight->since_us = now_us;
    flight->written = 0;
    if (flight->busy_us >= INTERVAL_US)
        take_rate(flight, fd);
}

void gw_tcp_flight_done(struct gw_tcp_flight *flight)
{
    flight->since_us = 0;
}
