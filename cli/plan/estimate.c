#include "config.h"

#include "cli/plan/estimate.h"

#include <math.h>

#include "proto/groups.h"

double gw_estimate_ring_s(double n, double bytes, double rate)
{
    return n > 1 ? 2 * (n - 1) / n * bytes / rate : 0;
}

double gw_estimate_step_s(double compute_s, double net_s, double overlap)
{
    return compute_s + fmax(0, net_s - overlap * 2 / 3 * compute_s);
}

double gw_estimate_hiding_rate(double bytes, double compute_s)
{
    return bytes / (2.0 / 3 * compute_s);
}

uint64_t
gw_estimate_servers(double hosts, double worker_rate, double server_rate)
{
    double servers = ceil(hosts * worker_rate / server_rate);
    return servers > 1 ? (uint64_t)servers : 1;
}

double gw_estimate_sum_bytes(double slots, int cached)
{
    return cached ? 4 * (slots + 1) : 12 * slots;
}

double gw_estimate_optimizer_bytes(double states)
{
    return 4 * (3 + 2 * states);
}

double gw_estimate_update_bytes(double slots, double states)
{
    return gw_estimate_sum_bytes(slots, 1) +
           gw_estimate_optimizer_bytes(states) - 8;
}

double gw_estimate_memory_s(double weights,
                            double bytes_per_weight,
                            double servers,
                            double rate)
{
    return weights * bytes_per_weight / (servers * rate);
}

uint32_t gw_estimate_workers_on(const struct gw_estimate_hosts *hosts,
                                uint32_t host)
{
    uint32_t workers = 0;
    for (uint32_t w = 0; w < hosts->workers; w++)
        workers += w / hosts->per_host == host ? 1 : 0;
    return workers;
}

/* Number of gradients that a host's workers push: one each, or one per
   group. */
static uint32_t gradients_of(const struct gw_estimate_hosts *hosts,
                             uint32_t host)
{
    uint32_t workers = gw_estimate_workers_on(hosts, host);
    return hosts->sums ? gw_groups_blocks(host * hosts->per_host, workers)
                       : workers;
}

struct gw_estimate_link
gw_estimate_link_of(const struct gw_estimate_hosts *hosts, uint32_t host)
{
    struct gw_estimate_link link = {0};
    double here = 0, everywhere = 0;
    uint32_t own = gradients_of(hosts, host), all = 0;
    for (uint32_t w = 0; w < hosts->workers; w += hosts->per_host)
        all += gradients_of(hosts, w / hosts->per_host);
    for (uint32_t s = 0; s < hosts->servers; s++) {
        everywhere += hosts->server_bytes[s];
        if (hosts->server_host[s] == host)
            here += hosts->server_bytes[s];
    }
    double share = gw_encoded_bytes(hosts->weights, 1) / (double)sizeof(float);
    link.push = own * (everywhere - here);
    link.take = (all - own) * here;
    link.give = share * link.take;
    link.get = share * link.push;
    return link;
}

double gw_estimate_link_bytes(const struct gw_estimate_link *link)
{
    return fmax(link->push + link->give, link->take + link->get);
}

/* Groups of the ranks from 0 on are the binary digits of their number. */
static double group_of(uint32_t workers, int largest)
{
    uint32_t n = 1;
    if (!largest)
        n = workers & (~workers + 1);
    while (largest && 2 * n <= workers)
        n *= 2;
    return n < GW_GROUP_MAX ? n : GW_GROUP_MAX;
}

struct gw_estimate_device
gw_estimate_device_of(const struct gw_estimate_devices *what)
{
    double sharers = ceil((double)what->workers / what->devices);
    double least = what->sums ? group_of(what->workers, 0) : 1;
    double most = what->sums ? group_of(what->workers, 1) : 1;
    double elsewhere = most - ceil(most / what->devices);
    return (struct gw_estimate_device){
        .in = sharers * (what->weights / least + what->batch),
        .out = sharers * what->gradients / least,
        .peers = sharers * elsewhere / most * (what->gradients + what->weights),
    };
}

const char *gw_bound_name(enum gw_bound bound)
{
    static const char *const names[GW_BOUNDS] = {
        [GW_BOUND_COMPUTE] = "computing",
        [GW_BOUND_DEVICE_LINK] = "host to GPU and back",
        [GW_BOUND_PEER_LINK] = "GPU to GPU",
        [GW_BOUND_WORKER_LINK] = "workers' links",
        [GW_BOUND_SERVER_LINK] = "servers' links",
        [GW_BOUND_UPDATE] = "reduce+update of servers",
        [GW_BOUND_CORES] = "the cores that all share",
    };
    return names[bound];
}

enum gw_bound gw_bound_of(const double seconds[GW_BOUNDS])
{
    enum gw_bound most = GW_BOUND_COMPUTE;
    for (enum gw_bound i = GW_BOUND_COMPUTE; i < GW_BOUNDS; i++)
        if (seconds[i] > seconds[most])
            most = i;
    return most;
}
