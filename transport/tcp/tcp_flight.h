/*
 * The amount of a stream that is in flight: written, and not yet acknowledged.
 * By default the kernel lets streams fill the queue in front of a line until
 * something is lost, and then for seconds they take very unequal shares of the
 * line; but a step needs the data of all of them, and waits for the slowest.
 * Streams that have little more in flight than their line carries in two
 * milliseconds get equal shares, and lose nothing if the queue holds the bytes
 * of all of them. Little waits in the kernel then, ahead of more urgent frames.
 *
 * A stream whose two ends have one address has no line; distant streams may
 * need much more than twice the capacity of their line, and a control that
 * knows about loss; the fastest need more than a user may ask for, while the
 * kernel grants more by itself. All of these are left to the kernel.
 *
 * Private to the tcp transport; the loop's thread, and times are its clock's.
 */
#ifndef GW_TRANSPORT_TCP_FLIGHT_H
#define GW_TRANSPORT_TCP_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

#define GW_TCP_CONTROL_MAX 16 /* bytes of a congestion control's name */

struct gw_tcp_flight {
    size_t most_bytes; /* largest possible bound, as far as is known; 0: none */
    /* largest size that the kernel grants without a bound */
    size_t kernel_bytes;
    size_t bound_bytes;                     /* 0: it is the kernel's */
    int near;                               /* its line is known to be near */
    char saved_control[GW_TCP_CONTROL_MAX]; /* the congestion control that was
                                       replaced, or "" */
    double bytes_per_s;                     /* the best recent rate */
    /* time since which the socket has been full (0: it is not), bytes written
       since; bytes that left it from full to full, and in how long */
    uint64_t since_us;
    size_t written;
    uint64_t busy_us;
    size_t busy_bytes;
};

/* Bytes that a near stream of such a rate should have in flight. More than that
   rate needs: a stream that can go faster does, and is given more. */
size_t gw_tcp_flight_room(double bytes_per_s);

/* Begins on a connected TCP socket, before anything is sent. A socket that
   refuses works all the same, as the kernel has it. */
void gw_tcp_flight_begin(struct gw_tcp_flight *flight, int fd);

/* So many bytes more are written. */
void gw_tcp_flight_wrote(struct gw_tcp_flight *flight, size_t bytes);

/* The socket is full, and there is more to write. */
void gw_tcp_flight_full(struct gw_tcp_flight *flight, int fd, uint64_t now_us);

/* There is nothing more to write. */
void gw_tcp_flight_done(struct gw_tcp_flight *flight);

#endif
