/*
 * How many bytes of a link's payloads its device is handed at once. What the
 * device has cannot be overtaken by what is more urgent, so it is as little as
 * keeps the line busy until this process looks again. How long that takes is
 * known to nobody before: the network's round trip and, mostly, what this
 * process does between two looks. So it is learnt. Where the device had nothing
 * left while more was waiting, twice as much may be on its way, up to what the
 * line carries in half a millisecond: who is urgent waits no longer than that,
 * or than for two of the largest chunks.
 *
 *   takes   a payload joins those on their way, or waits: `held`
 *   look    before more is handed over: was the device left with nothing?
 *
 * Pure.
 */
#ifndef GW_TRANSPORT_RDMA_FLIGHT_H
#define GW_TRANSPORT_RDMA_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

/* The room at first, and the most that it can be of any line. */
#define GW_RDMA_FLIGHT_BYTES ((size_t)2 << 20)
#define GW_RDMA_FLIGHT_MOST  ((size_t)32 << 20)

struct gw_rdma_flight {
    size_t bytes;      /* on their way */
    size_t room, most; /* so many may be; and that may become */
    int held;          /* something waits until they are less */
};

/* What a port carries, from the codes that verbs has for the speed of a lane
   and for the number of lanes. 0: a code is not known. */
uint32_t gw_rdma_line_mbit(unsigned speed, unsigned width);

/* Of a link whose port carries so much; 0: the port does not say. */
void gw_rdma_flight_begin(struct gw_rdma_flight *flight, uint32_t line_mbit);

/* Whether a payload may be handed over as well. One may always. */
int gw_rdma_flight_takes(struct gw_rdma_flight *flight, size_t bytes);

/* 1: there is more room than before. */
int gw_rdma_flight_update(struct gw_rdma_flight *flight);

#endif
