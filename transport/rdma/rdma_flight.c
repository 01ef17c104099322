/* Bytes that a link's device has at once: learnt from the times it ran dry. */
#include "config.h"

#include "transport/rdma/rdma_flight.h"

#define LINE_US 500

/* The codes are bits; speeds of a lane are from the InfiniBand specification,
   from single data rate on, in Mbit/s. */
uint32_t gw_rdma_line_mbit(unsigned speed, unsigned width)
{
    static const struct {
        unsigned code;
        uint32_t mbit;
    } speeds[] = {
        {1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
        {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000},
    };
    static const struct {
        unsigned code;
        uint32_t lanes;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    uint32_t mbit = 0, lanes = 0;
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        if (speeds[i].code == speed)
            mbit = speeds[i].mbit;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (widths[i].code == width)
            lanes = widths[i].lanes;
    return mbit * lanes;
}

void gw_rdma_flight_begin(struct gw_rdma_flight *flight, uint32_t line_mbit)
{
    size_t most = (size_t)line_mbit * LINE_US / 8;
    if (most < GW_RDMA_FLIGHT_BYTES)
        most = GW_RDMA_FLIGHT_BYTES;
    if (most > GW_RDMA_FLIGHT_MOST)
        most = GW_RDMA_FLIGHT_MOST;
    *flight =
        (struct gw_rdma_flight){.room = GW_RDMA_FLIGHT_BYTES, .most = most};
}

int gw_rdma_flight_takes(struct gw_rdma_flight *flight, size_t bytes)
{
    if (flight->bytes == 0 || flight->bytes + bytes <= flight->room)
        return 1;
    flight->held = 1;
    return 0;
}

int gw_rdma_flight_update(struct gw_rdma_flight *flight)
{
    int dry = flight->held && flight->bytes == 0;
    flight->held = 0;
    if (!dry || flight->room == flight->most)
        return 0;
    flight->room =
        flight->room * 2 < flight->most ? flight->room * 2 : flight->most;
    return 1;
}
