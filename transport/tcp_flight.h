/*
 * How much of a stream is on its way: written, and not yet acknowledged. Left
 * to itself the kernel lets streams fill the queue before a line until
 * something is lost, and for seconds they then take very unequal parts of the
 * line; but a step needs what all of them bring, and waits for the slowest. A
 * stream that has no more on its way than its line carries in a few
 * milliseconds loses little, and those that share a line get equal parts. What
 * waits in the kernel, ahead of what is more urgent, is little then as well.
 *
 * Streams inside a host have no line; far ones may need much more than twice
 * what their line holds, and a control that knows about loss; the fastest need
 * more than a user may ask for. All those stay the kernel's. Private to the tcp
 * transport; the loop's thread.
 */
#ifndef GW_TRANSPORT_TCP_FLIGHT_H
#define GW_TRANSPORT_TCP_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

#define GW_TCP_CONTROL_MAX 16 /* bytes of a congestion control's name */

struct gw_tcp_flight {
    size_t may;                     /* bytes at most; 0: it is the kernel's */
    size_t bytes;                   /* that it is set to, 0: the kernel's own */
    char paces[GW_TCP_CONTROL_MAX]; /* the control that was put aside, or "" */
    double rate;                    /* bytes per second, the best of late */
    /* what is looked at now: since when, what was written, and whether the line
       set the pace, which the writer says where the socket takes no more */
    uint64_t since_us;
    uint64_t written;
    int full;
};

/*
 * Bytes that a stream of `rate` bytes per second should have on its way, where
 * one way and back takes rtt_us while nothing else is on the line. More than
 * that rate needs: a stream that can go faster does, and is given more. 0: the
 * line is a far one, and the kernel knows better.
 */
size_t gw_tcp_flight_room(double rate, uint32_t rtt_us);

/* Of a connected TCP socket, before anything is sent. One that refuses works
   all the same, as the kernel has it. */
void gw_tcp_flight_begin(struct gw_tcp_flight *flight, int fd);

/* So many bytes more are written. */
void gw_tcp_flight_wrote(struct gw_tcp_flight *flight,
                         int fd,
                         size_t bytes,
                         uint64_t now_us);

#endif
