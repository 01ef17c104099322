#include "config.h"

#include "cli/host/pin_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/status.h"

#define CPUS_MAX  128
#define WHERE_MAX 160

/* Prints " (node 1, near eth0)", or nothing for a host of one node. */
static void print_where(const struct gw_pin_host *host,
                        int node,
                        const char *near,
                        const char *name,
                        char text[WHERE_MAX])
{
    text[0] = '\0';
    if (host->nodes < 2)
        return;
    if (node < 0)
        snprintf(text, WHERE_MAX, " (several nodes)");
    else
        snprintf(text, WHERE_MAX, " (node %u%s%.100s)", host->number[node],
                 near, name);
}

static void print_near_network(const struct gw_pin_host *host,
                               const struct gw_pin_names *names,
                               uint64_t network,
                               int node,
                               char text[WHERE_MAX])
{
    int near = gw_pin_is_in(host, network, node);
    print_where(host, node, near ? ", near " : "", near ? names->network : "",
                text);
}

static void print_compute(const struct gw_pin_host *host,
                          const struct gw_pin_names *names,
                          const struct gw_need *need,
                          int node,
                          char text[WHERE_MAX])
{
    if (gw_pin_is_in(host, need->device, node))
        print_where(host, node, ", near GPU ", names->gpu, text);
    else if (need->device != 0)
        print_where(host, node, ", too few cores are left near GPU ",
                    names->gpu, text);
    else
        print_near_network(host, names, need->network, node, text);
}

/* The cores that workers ask for. */
static void print_want(const struct gw_colocated *colocated,
                       char text[WHERE_MAX])
{
    uint64_t all = gw_pin_threads(colocated);
    uint32_t each = colocated->workers > 0 ? colocated->worker[0].threads : 0;
    int same = 1;
    for (uint32_t i = 0; i < colocated->workers; i++)
        same &= colocated->worker[i].threads == each;
    snprintf(text, WHERE_MAX, "%u worker%s of %" PRIu64 " thread%s%s",
             colocated->workers, gw_plural(colocated->workers),
             same ? each : all, gw_plural(same ? each : all),
             same ? "" : " in all");
}

static void print_talk(const struct gw_pin_host *host,
                       const struct gw_pin_names *names,
                       uint64_t network,
                       const struct gw_pin_worker *pin,
                       char *text,
                       size_t room)
{
    char cpus[CPUS_MAX], where[WHERE_MAX];
    gw_cpus_print(&pin->talks, cpus, sizeof cpus);
    print_near_network(host, names, network, pin->talk_node, where);
    if (pin->talk == GW_PIN_TALK_SIBLING)
        snprintf(text, room, "on cpu %s (siblings of these)", cpus);
    else if (pin->talk == GW_PIN_TALK_FLOATS)
        snprintf(text, room, "anywhere on cpu %s%s, no core is left for it",
                 cpus, where);
    else
        snprintf(text, room, "on cpu %s%s", cpus, where);
}

static void print_shared(const struct gw_pin_host *host,
                         const struct gw_colocated *colocated,
                         const struct gw_need *need,
                         const char *cpus,
                         const char *where,
                         char text[GW_PIN_TEXT_MAX])
{
    char want[WHERE_MAX];
    print_want(colocated, want);
    if (host->cores <= need->threads)
        snprintf(text, GW_PIN_TEXT_MAX,
                 "left on cpu %s, all that it may use, and no more than "
                 "worker.threads = %u are to have",
                 cpus, need->threads);
    else
        snprintf(text, GW_PIN_TEXT_MAX,
                 "anywhere on cpu %s%s: %s are more than the %u cores here, "
                 "which the kernel shares out better",
                 cpus, where, want, host->cores);
}

void gw_pin_print_worker(const struct gw_pin_host *host,
                         const struct gw_colocated *colocated,
                         const struct gw_pin_names *names,
                         const struct gw_pin_worker *pin,
                         char text[GW_PIN_TEXT_MAX])
{
    static const struct gw_need none = {.threads = 1};
    const struct gw_need *need = colocated->place < colocated->workers
                                     ? &colocated->worker[colocated->place]
                                     : &none;
    char cpus[CPUS_MAX], where[WHERE_MAX], talk[CPUS_MAX + 2 * WHERE_MAX];
    gw_cpus_print(&pin->compute, cpus, sizeof cpus);
    print_compute(host, names, need, pin->node, where);
    if (pin->how != GW_PIN_CORE) {
        print_shared(host, colocated, need, cpus, where, text);
        return;
    }
    print_talk(host, names, need->network, pin, talk, sizeof talk);
    snprintf(text, GW_PIN_TEXT_MAX, "compute on cpu %s%s, communication %.300s",
             cpus, where, talk);
}

void gw_pin_print_shard(const struct gw_pin_host *host,
                        const struct gw_colocated *colocated,
                        const struct gw_pin_names *names,
                        const struct gw_pin_shard *pin,
                        char text[GW_PIN_TEXT_MAX])
{
    char cpus[CPUS_MAX], where[WHERE_MAX], want[WHERE_MAX];
    gw_cpus_print(&pin->cpus, cpus, sizeof cpus);
    uint64_t network = colocated->place < colocated->shards
                           ? colocated->shard[colocated->place].network
                           : 0;
    print_near_network(host, names, network, pin->node, where);
    print_want(colocated, want);
    if (pin->how == GW_PIN_CORE)
        snprintf(text, GW_PIN_TEXT_MAX, "on cpu %s%s", cpus, where);
    else
        snprintf(text, GW_PIN_TEXT_MAX,
                 "anywhere on cpu %s%s: %u shard%s and %s are more than the %u "
                 "core%s here",
                 cpus, where, colocated->shards, gw_plural(colocated->shards),
                 want, host->cores, gw_plural(host->cores));
}
