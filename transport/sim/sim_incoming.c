/*
 * Frames on their way to an end of a link: their memory, and the list in which
 * they arrive. sim_flight.c handles their arrival.
 */
#include "config.h"

#include "transport/sim/sim_link.h"

#include <assert.h>
#include <stdlib.h>

uint64_t gw_sim_latency(struct gw_sim_host *from, const struct gw_sim_host *to)
{
    const struct gw_sim_options *options = &from->sim->options;
    uint64_t us =
        options->latency_us + gw_sim_host_draw(from, options->jitter_us + 1);
    if (to == from)
        return us;
    return us + from->options.latency_us + to->options.latency_us;
}

/* Flights are freed in another region than they are made; a region that gets
   more than it sends keeps no more than these. */
#define SPARES_MAX (1 << 18)

/* Flights without bytes have one size, and the last one freed is in cache. */
struct gw_sim_flight *gw_sim_flight_new(struct gw_sim_region *region,
                                        size_t bytes)
{
    struct gw_sim_flight *flight = bytes ? NULL : region->spare;
    if (!flight) {
        flight = malloc(sizeof *flight + bytes);
        assert(flight);
        return flight;
    }
    region->spares--;
    region->spare = flight->next;
    gw_sim_prefetch(region->spare, sizeof *flight); /* for the one after */
    return flight;
}

void gw_sim_flight_free(struct gw_sim_region *region,
                        struct gw_sim_flight *flight)
{
    if (flight->has_bytes || region->spares == SPARES_MAX) {
        free(flight);
        return;
    }
    region->spares++;
    flight->next = region->spare;
    region->spare = flight;
}

void gw_sim_flights_free(struct gw_sim_region *region)
{
    while (region->spare) {
        struct gw_sim_flight *flight = region->spare;
        region->spare = flight->next;
        free(flight);
    }
}

/* ---- the list of an end ---- */

void gw_sim_link_prefetch(const struct gw_sim_link *end)
{
    gw_sim_prefetch(&end->base, offsetof(struct gw_link, remote));
    gw_sim_prefetch(&end->process, offsetof(struct gw_sim_link, owed) -
                                       offsetof(struct gw_sim_link, process));
}

void gw_sim_link_schedule_first(struct gw_sim_link *to)
{
    gw_sim_schedule_placed(to->process->host->region, &to->comes,
                           to->outside->at_us, to->outside->place);
}

void gw_sim_link_enter(struct gw_sim_link *to, struct gw_sim_flight *flight)
{
    if (to->closed || to->deaf) {
        gw_sim_flight_free(to->process->host->region, flight);
        return;
    }
    flight->next = NULL;
    *to->incoming_last = flight;
    to->incoming_last = &flight->next;
    if (to->outside)
        return; /* behind the others */
    to->outside = flight;
    gw_sim_link_schedule_first(to);
}

void gw_sim_link_forget(struct gw_sim_link *end)
{
    struct gw_sim_host *host = end->process->host;
    gw_sim_turn_leave(&host->port[GW_SIM_IN], &end->in);
    gw_sim_cancel(host, &end->comes);
    gw_sim_cancel(host, &end->takes);
    end->kept = 0;
    while (end->incoming) {
        struct gw_sim_flight *flight = end->incoming;
        end->incoming = flight->next;
        gw_sim_flight_free(host->region, flight);
    }
    end->incoming_last = &end->incoming;
    end->outside = NULL;
}
