/*
 * The arithmetic of a plan: how long an exchange, an update and a step take, by
 * closed forms. Bytes, seconds, bytes per second. Pure, any thread.
 *
 * n hosts with workers and servers, M bytes of model per host, B bytes per
 * second of each host's link in each direction: 2(n-1)/n M/B, as a ring
 * all-reduce. (Jiang et al., OSDI 2020, section 4.1; Patarasuk and Yuan, JPDC
 * 2009, for the ring.) The whole exchange is one direction of a link: pushes go
 * while answers come.
 */
#ifndef GW_CLI_ESTIMATE_H
#define GW_CLI_ESTIMATE_H

#include <stdint.h>

#include "proto/status.h"
#include "proto/wire.h"

double gw_estimate_ring_s(double n, double bytes, double rate);

/*
 * A step with an exchange of net_s of which `overlap` (0..1) of backward, which
 * is two thirds of computing, can hide a part.
 */
double gw_estimate_step_s(double compute_s, double net_s, double overlap);

/* The rate of a link that hides an exchange of so many bytes in backward. */
double gw_estimate_hiding_rate(double bytes, double compute_s);

/* Servers that take what so many hosts' links bring. At least 1. */
uint64_t
gw_estimate_servers(double hosts, double worker_rate, double server_rate);

/*
 * Bytes of a server's memory per weight. A sum over so many slots: each is read
 * and the sum written, or where nothing stays in cache each is added to the
 * sum, which is read and written as often. An optimizer that reads this sum and
 * the weights, writes the next weights, and does both with its states.
 */
double gw_estimate_sum_bytes(double slots, int cached);
double gw_estimate_optimizer_bytes(double states);
/* Both, block by block (kernels/measure.h): the sum is not written at all. */
double gw_estimate_update_bytes(double slots, double states);

/* Seconds for that, of so many servers with that rate of memory each. */
double gw_estimate_memory_s(double weights,
                            double bytes_per_weight,
                            double servers,
                            double rate);

/* Bytes that one host sends in an exchange, and gets. */
struct gw_estimate_link {
    double push; /* gradients of its workers, to servers elsewhere */
    double give; /* weights of its servers, to workers elsewhere */
    double take; /* gradients from those, */
    double get;  /* and weights from servers elsewhere */
};

/* What passes in the direction in which more does. */
double gw_estimate_link_bytes(const struct gw_estimate_link *link);

/* Who is where. Worker w is on host w / per_host. */
struct gw_estimate_hosts {
    uint32_t workers, per_host, servers;
    const uint32_t *server_host; /* [servers] */
    const double *server_bytes;  /* [servers] of the model that it has */
    int sums;                 /* workers of a host push what they have together
                                 (proto/groups.h), as far as a server is elsewhere */
    enum gw_encoding weights; /* as they are sent */
};

uint32_t gw_estimate_workers_on(const struct gw_estimate_hosts *hosts,
                                uint32_t host);

/* Of one host. */
struct gw_estimate_link
gw_estimate_link_of(const struct gw_estimate_hosts *hosts, uint32_t host);

/* ---- devices ---- */

/* A host's workers on its devices, which they go round. */
struct gw_estimate_devices {
    uint32_t workers, devices;
    int sums; /* on the devices, in groups of ranks (proto/groups.h) */
    double gradients, weights, batch; /* bytes of a step, of a worker */
};

/* Bytes of a step, of the device with most: from and to its host, and as many
   from other devices as to them. */
struct gw_estimate_device {
    double in, out, peers;
};

/*
 * Each worker's gradients go to the host, and weights and a batch come from
 * there. Of n that sum on their devices each does so for an n-th: it reads that
 * part of all others' gradients, brings the sum to the host and its part of the
 * weights to the device, and the rest of these from the others' devices.
 * Between two on one device nothing moves.
 */
struct gw_estimate_device
gw_estimate_device_of(const struct gw_estimate_devices *what);

/* What bounds a step: the longest of what it takes by itself. */
enum gw_bound {
    GW_BOUND_COMPUTE,
    GW_BOUND_DEVICE_LINK, /* between a device and its host, */
    GW_BOUND_PEER_LINK,   /* and between devices of a host */
    GW_BOUND_WORKER_LINK,
    GW_BOUND_SERVER_LINK,
    GW_BOUND_UPDATE,
    GW_BOUND_CORES, /* that all processes share */
    GW_BOUNDS
};

const char *gw_bound_name(enum gw_bound bound);
enum gw_bound gw_bound_of(const double seconds[GW_BOUNDS]);

#endif
