/*
 * The arithmetic of a plan: the time of an exchange, an update and a step, by
 * closed forms. Bytes, seconds, bytes per second. Pure, any thread.
 */
#ifndef GW_CLI_ESTIMATE_H
#define GW_CLI_ESTIMATE_H

#include <stdint.h>

#include "proto/status.h"
#include "proto/wire.h"

/*
 * Time of a ring all-reduce over n hosts: 2(n-1)/n bytes/rate, `rate` of each
 * host's link in each direction (Patarasuk and Yuan, JPDC 2009). Servers on the
 * workers' hosts take as long (Jiang et al., OSDI 2020, section 4.1), since
 * pushes and answers use opposite directions.
 */
double gw_estimate_ring_s(double n, double bytes, double rate);

/*
 * Time of a step with an exchange of net_s, part of which a share `overlap`
 * (0..1) of backward hides. Backward is two thirds of computing.
 */
double gw_estimate_step_s(double compute_s, double net_s, double overlap);

/* Link rate at which an exchange of so many bytes hides behind backward. */
double gw_estimate_hiding_rate(double bytes, double compute_s);

/* Number of servers that match the rate of the hosts' links. At least 1. */
uint64_t
gw_estimate_servers(double hosts, double worker_rate, double server_rate);

/*
 * Bytes of memory traffic of a server per weight. The sum over the slots reads
 * each and writes the sum; without a cache it adds each slot to the sum, which
 * it reads and writes every time. The optimizer reads the sum and the weights,
 * writes the next weights, and reads and writes its states.
 */
double gw_estimate_sum_bytes(double slots, int cached);
double gw_estimate_optimizer_bytes(double states);
/* Both fused, block by block (kernels/measure.h): the sum is not written. */
double gw_estimate_update_bytes(double slots, double states);

/* Seconds of that traffic on so many servers with that memory rate each. */
double gw_estimate_memory_s(double weights,
                            double bytes_per_weight,
                            double servers,
                            double rate);

/* Bytes that one host sends and receives in an exchange. */
struct gw_estimate_link {
    double push; /* gradients of its workers, to servers elsewhere */
    double give; /* weights of its servers, to workers elsewhere */
    double take; /* gradients from workers elsewhere */
    double get;  /* weights from servers elsewhere */
};

/* Bytes in the busier direction. */
double gw_estimate_link_bytes(const struct gw_estimate_link *link);

/* Placement of members. Worker w is on host w / per_host. */
struct gw_estimate_hosts {
    uint32_t workers, per_host, servers;
    const uint32_t *server_host; /* [servers] */
    const double *server_bytes;  /* [servers] bytes of the model on it */
    int sums; /* workers of a host push sums (proto/groups.h) to servers on
                 other hosts */
    enum gw_encoding weights; /* encoding on the wire */
};

uint32_t gw_estimate_workers_on(const struct gw_estimate_hosts *hosts,
                                uint32_t host);

/* The traffic of one host. */
struct gw_estimate_link
gw_estimate_link_of(const struct gw_estimate_hosts *hosts, uint32_t host);

/* ---- devices ---- */

/* A host's workers, dealt to its devices in turn. */
struct gw_estimate_devices {
    uint32_t workers, devices;
    int sums; /* on the devices, by groups of ranks (proto/groups.h) */
    double gradients, weights, batch; /* bytes per step of a worker */
};

/* Bytes per step of the busiest device: from and to its host, and from other
   devices (equal to those to them). */
struct gw_estimate_device {
    double in, out, peers;
};

/*
 * Without sums each worker's gradients go to the host, and weights and a batch
 * come back. With sums each of n workers handles an n-th: it reads that part of
 * all others' gradients, sends the sum to the host, gets its part of the
 * weights, and reads the rest from the others' devices. Nothing moves between
 * workers of one device.
 */
struct gw_estimate_device
gw_estimate_device_of(const struct gw_estimate_devices *what);

/* The bound of a step: the part that takes longest by itself. */
enum gw_bound {
    GW_BOUND_COMPUTE,
    GW_BOUND_DEVICE_LINK, /* between a device and its host */
    GW_BOUND_PEER_LINK,   /* between devices of a host */
    GW_BOUND_WORKER_LINK,
    GW_BOUND_SERVER_LINK,
    GW_BOUND_UPDATE,
    GW_BOUND_CORES, /* shared by all processes */
    GW_BOUNDS
};

const char *gw_bound_name(enum gw_bound bound);
enum gw_bound gw_bound_of(const double seconds[GW_BOUNDS]);

#endif
