/*
 * The number of payload bytes of a link that its device has at once. More
 * urgent frames cannot overtake bytes that the device has, so it gets as little
 * as keeps the line busy until the next poll. That time is not known
 * beforehand: the network's round trip and, mostly, the work of this process
 * between two polls. So it is learnt: when the device had nothing left while
 * more was waiting, the room is doubled, up to the bytes that the line carries
 * in half a millisecond. An urgent frame waits no longer than that, or than for
 * two of the largest chunks.
 *
 *   takes    a payload joins those in flight, or waits: `held`
 *   update   before more is handed over: was the device left with nothing?
 *
 * Pure.
 */
#ifndef GW_TRANSPORT_RDMA_FLIGHT_H
#define GW_TRANSPORT_RDMA_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

/* The room at first, and the largest for any line. */
#define GW_RDMA_FLIGHT_BYTES ((size_t)2 << 20)
#define GW_RDMA_FLIGHT_MOST  ((size_t)32 << 20)

struct gw_rdma_flight {
    size_t bytes;      /* in flight */
    size_t room, most; /* limit of bytes; and its upper limit */
    int held;          /* a payload waits until there are fewer */
};

/* The rate of a port, from the codes that verbs has for the speed of a lane and
   for the number of lanes. 0: a code is not known. */
uint32_t gw_rdma_line_mbit(unsigned speed, unsigned width);

/* Begins for a link with that rate of its port; 0: it is not known. */
void gw_rdma_flight_begin(struct gw_rdma_flight *flight, uint32_t line_mbit);

/* Non-zero if a payload may be handed over as well. A single one always may. */
int gw_rdma_flight_takes(struct gw_rdma_flight *flight, size_t bytes);

/* 1: there is more room than before. */
int gw_rdma_flight_update(struct gw_rdma_flight *flight);

#endif
