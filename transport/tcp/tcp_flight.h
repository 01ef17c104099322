/*
 * How much of a stream is on its way: written, and not yet acknowledged. Left
 * to itself the kernel lets streams fill the queue before a line until
 * something is lost, and for seconds they then take very unequal parts of the
 * line; but a step needs what all of them bring, and waits for the slowest.
 * Streams that have little more on their way than their line carries in two
 * milliseconds get equal parts of it, and lose nothing where the queue holds
 * what all of them have. What waits in the kernel, ahead of what is more
 * urgent, is little then as well.
 *
 * A stream whose two ends have one address has no line; far ones may need much
 * more than twice what their line holds, and a control that knows about loss;
 * the fastest need more than a user may ask for, where the kernel gives more by
 * itself. All those stay the kernel's.
 *
 * Private to the tcp transport; the loop's thread, and times are its clock's.
 */
#ifndef GW_TRANSPORT_TCP_FLIGHT_H
#define GW_TRANSPORT_TCP_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

#define GW_TCP_CONTROL_MAX 16 /* bytes of a congestion control's name */

struct gw_tcp_flight {
    size_t most_bytes;   /* that a bound may be, as far as is known; 0: none */
    size_t kernel_bytes; /* that the kernel gives at most, without a bound */
    size_t bound_bytes;  /* 0: it is the kernel's */
    int near;            /* its line was seen to be a near one */
    char aside[GW_TCP_CONTROL_MAX]; /* the control that was put aside, or "" */
    double bytes_per_s;             /* the best of late */
    /* since the socket took no more (0: it takes more than there is), what was
       written; and what left it from full to full, in how long */
    uint64_t since_us;
    size_t written;
    uint64_t busy_us;
    size_t busy_bytes;
};

/* Bytes that a near stream of such a rate should have on its way. More than
   that rate needs: a stream that can go faster does, and is given more. */
size_t gw_tcp_flight_room(double bytes_per_s);

/* Of a connected TCP socket, before anything is sent. One that refuses works
   all the same, as the kernel has it. */
void gw_tcp_flight_begin(struct gw_tcp_flight *flight, int fd);

/* So many bytes more are written. */
void gw_tcp_flight_wrote(struct gw_tcp_flight *flight, size_t bytes);

/* The socket takes no more for now, though there is more to write. */
void gw_tcp_flight_full(struct gw_tcp_flight *flight, int fd, uint64_t now_us);

/* There is no more to write for now. */
void gw_tcp_flight_done(struct gw_tcp_flight *flight);

#endif
