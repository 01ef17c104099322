/*
 * The network of a simulated host: one interface for all its processes, with a
 * rate in each direction. Links take turns at it, a frame or some small ones at
 * a time, like connections that share a line fairly; a switch behind it buffers
 * frames that come faster than the interface takes them.
 */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/hash.h"

static void serve(struct gw_sim_event *event);
static void prefetch(const struct gw_sim_event *event, int times);

static size_t bucket_of(const char *name)
{
    return gw_hash_text(GW_HASH_BEGIN, name) % GW_SIM_BUCKETS;
}

struct gw_sim_host *gw_sim_host_find(const struct gw_sim *sim, const char *name)
{
    struct gw_sim_host *one = sim->bucket[bucket_of(name)];
    while (one && strcmp(one->name, name) != 0)
        one = one->next;
    return one;
}

static struct gw_sim_host *new_host(const char *name)
{
    struct gw_sim_host *host = calloc(1, sizeof *host);
    if (!host)
        return NULL;
    snprintf(host->name, sizeof host->name, "%s", name);
    for (int way = 0; way < GW_SIM_DIRECTIONS; way++) {
        struct gw_sim_port *port = &host->port[way];
        port->host = host;
        port->last = &port->first;
        port->event.run = serve;
        port->event.prefetch = prefetch;
        port->event.owner = port;
    }
    return host;
}

/* Hosts are distributed among regions in turn. */
struct gw_sim_host *gw_sim_host_of(struct gw_sim *sim, const char *name)
{
    struct gw_sim_host *host = gw_sim_host_find(sim, name);
    struct gw_sim_host **bucket = &sim->bucket[bucket_of(name)];
    assert(!sim->divided);
    if (host)
        return host;
    host = new_host(name);
    if (!host)
        return NULL;
    host->sim = sim;
    host->region = &sim->region[sim->hosts % sim->regions];
    host->number = ++sim->hosts;
    host->next = *bucket;
    *bucket = host;
    sim->lookahead_us = 0;
    return host;
}

void gw_sim_hosts_free(struct gw_sim *sim)
{
    for (size_t i = 0; i < GW_SIM_BUCKETS; i++) {
        while (sim->bucket[i]) {
            struct gw_sim_host *host = sim->bucket[i];
            sim->bucket[i] = host->next;
            free(host);
        }
    }
}

/* The world's latency and the two smallest additions of hosts. */
uint64_t gw_sim_least_latency(const struct gw_sim *sim)
{
    uint64_t least[2] = {UINT64_MAX / 4, UINT64_MAX / 4};
    for (size_t i = 0; i < GW_SIM_BUCKETS; i++) {
        for (const struct gw_sim_host *one = sim->bucket[i]; one;
             one = one->next) {
            uint64_t us = one->options.latency_us;
            if (us < least[0]) {
                least[1] = least[0];
                least[0] = us;
            } else if (us < least[1]) {
                least[1] = us;
            }
        }
    }
    return sim->options.latency_us + least[0] + least[1];
}

enum gw_status gw_sim_host(struct gw_sim *sim,
                           const char *name,
                           const struct gw_sim_host_options *options,
                           struct gw_error *error)
{
    struct gw_sim_host *host = gw_sim_host_of(sim, name);
    if (!host)
        return gw_fail(error, GW_ENOMEM, "no memory for a simulated host");
    host->options = *options;
    sim->lookahead_us = 0;
    return GW_OK;
}

/* ---- turns ---- */

/* A turn is a frame, or several small ones of so many bytes together. */
#define TURN_BYTES 4096

static void take(struct gw_sim_port *port, struct gw_sim_turn *turn)
{
    *turn->back = turn->next;
    if (turn->next)
        turn->next->back = turn->back;
    else
        port->last = turn->back;
    turn->back = NULL;
}

/* Passes the turn's next frame; returns the time at which the port is free. */
static uint64_t pass(struct gw_sim_port *port, struct gw_sim_turn *turn)
{
    double rate = port->host->options.bytes_per_us;
    double from_us = (double)gw_sim_time(port->host);
    double bytes = turn->begin(turn, &from_us);
    double begins_us = from_us > port->free_us ? from_us : port->free_us;
    port->free_us = begins_us + (rate > 0 ? bytes / rate : 0);
    port->turn_bytes += bytes;
    return (uint64_t)port->free_us;
}

static void begin(struct gw_sim_port *port, struct gw_sim_turn *turn)
{
    take(port, turn);
    port->serves = turn;
    gw_sim_schedule(port->host, &port->event, pass(port, turn));
}

static void begin_first(struct gw_sim_port *port)
{
    port->turn_bytes = 0;
    if (port->first)
        begin(port, port->first);
}

static void serve(struct gw_sim_event *event)
{
    struct gw_sim_port *port = event->owner;
    struct gw_sim_turn *turn = port->serves;
    port->serves = NULL;
    port->telling = 1;
    if (turn)
        turn->done(turn);
    port->telling = 0;
    if (turn && turn->back && port->turn_bytes < TURN_BYTES)
        begin(port, turn); /* it has asked again */
    else
        begin_first(port);
}

/* Prefetches the served user and the next one. */
static void prefetch(const struct gw_sim_event *event, int times)
{
    const struct gw_sim_port *port = event->owner;
    if (times == GW_SIM_AHEAD) {
        gw_sim_prefetch(port, sizeof *port);
        return;
    }
    if (port->serves)
        port->serves->prefetch(port->serves, times);
    if (port->first)
        port->first->prefetch(port->first, times);
    if (port->first && times == 1) /* the one after */
        gw_sim_prefetch(port->first->next, sizeof *port->first);
}

void gw_sim_turn_ask(struct gw_sim_port *port, struct gw_sim_turn *turn)
{
    turn->next = NULL;
    turn->back = port->last;
    *port->last = turn;
    port->last = &turn->next;
    if (!port->telling && !port->event.scheduled)
        begin_first(port);
}

int gw_sim_turn_pass(struct gw_sim_port *port, struct gw_sim_turn *turn)
{
    if (port->first || port->telling || port->event.scheduled) {
        gw_sim_turn_ask(port, turn);
        return 0;
    }
    port->turn_bytes = 0;
    uint64_t free_us = pass(port, turn);
    if (free_us <= gw_sim_time(port->host))
        return 1;
    port->serves = turn;
    gw_sim_schedule(port->host, &port->event, free_us);
    return 0;
}

void gw_sim_turn_leave(struct gw_sim_port *port, struct gw_sim_turn *turn)
{
    if (port->serves == turn)
        port->serves = NULL; /* its frame takes its time all the same */
    if (turn->back)
        take(port, turn);
}
