#include "config.h"

#include "cli/pin_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/status.h"

#define CPUS_MAX  128
#define WHERE_MAX 160

static int is_near(uint64_t nodes, int node)
{
    return node >= 0 && nodes >> node & 1;
}

/* " (node 1, near eth0)"; a host of one node has nothing to say. */
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
                               const struct gw_pin_members *members,
                               const struct gw_pin_names *names,
                               int node,
                               char text[WHERE_MAX])
{
    int near = is_near(members->network, node);
    print_where(host, node, near ? ", near " : "", near ? names->network : "",
                text);
}

static void print_compute(const struct gw_pin_host *host,
                          const struct gw_pin_members *members,
                          uint32_t place,
                          const struct gw_pin_names *names,
                          int node,
                          char text[WHERE_MAX])
{
    uint64_t gpu = members->gpu ? members->gpu[place] : 0;
    if (is_near(gpu, node))
        print_where(host, node, ", near GPU ", names->gpu, text);
    else if (gpu != 0)
        print_where(host, node, ", too few cores are left near GPU ",
                    names->gpu, text);
    else
        print_near_network(host, members, names, node, text);
}

/* Who wants how much. */
static void print_want(const struct gw_pin_members *members,
                       char text[WHERE_MAX])
{
    snprintf(text, WHERE_MAX, "%u worker%s of %u thread%s", members->workers,
             gw_plural(members->workers), members->threads,
             gw_plural(members->threads));
}

static void print_talk(const struct gw_pin_host *host,
                       const struct gw_pin_members *members,
                       const struct gw_pin_names *names,
                       const struct gw_pin_worker *pin,
                       char *text,
                       size_t room)
{
    char cpus[CPUS_MAX], where[WHERE_MAX];
    gw_cpus_print(&pin->talks, cpus, sizeof cpus);
    print_near_network(host, members, names, pin->talk_node, where);
    if (pin->talk == GW_PIN_TALK_SIBLING)
        snprintf(text, room, "on cpu %s (siblings of these)", cpus);
    else if (pin->talk == GW_PIN_TALK_FLOATS)
        snprintf(text, room, "anywhere on cpu %s%s, no core is left for it",
                 cpus, where);
    else
        snprintf(text, room, "on cpu %s%s", cpus, where);
}

static void print_shared(const struct gw_pin_host *host,
                         const struct gw_pin_members *members,
                         const char *cpus,
                         const char *where,
                         char text[GW_PIN_TEXT_MAX])
{
    char want[WHERE_MAX];
    print_want(members, want);
    if (host->cores <= members->threads)
        snprintf(text, GW_PIN_TEXT_MAX,
                 "left on cpu %s, all that it may use, and no more than "
                 "worker.threads = %u are to have",
                 cpus, members->threads);
    else
        snprintf(text, GW_PIN_TEXT_MAX,
                 "anywhere on cpu %s%s: %s are more than the %u cores here, "
                 "which the kernel shares out better",
                 cpus, where, want, host->cores);
}

void gw_pin_print_worker(const struct gw_pin_host *host,
                         const struct gw_pin_members *members,
                         uint32_t place,
                         const struct gw_pin_names *names,
                         const struct gw_pin_worker *pin,
                         char text[GW_PIN_TEXT_MAX])
{
    char cpus[CPUS_MAX], where[WHERE_MAX], talk[CPUS_MAX + 2 * WHERE_MAX];
    gw_cpus_print(&pin->compute, cpus, sizeof cpus);
    print_compute(host, members, place, names, pin->node, where);
    if (pin->how != GW_PIN_CORE) {
        print_shared(host, members, cpus, where, text);
        return;
    }
    print_talk(host, members, names, pin, talk, sizeof talk);
    snprintf(text, GW_PIN_TEXT_MAX, "compute on cpu %s%s, communication %.300s",
             cpus, where, talk);
}

void gw_pin_print_shard(const struct gw_pin_host *host,
                        const struct gw_pin_members *members,
                        const struct gw_pin_names *names,
                        const struct gw_pin_shard *pin,
                        char text[GW_PIN_TEXT_MAX])
{
    char cpus[CPUS_MAX], where[WHERE_MAX], want[WHERE_MAX];
    gw_cpus_print(&pin->cpus, cpus, sizeof cpus);
    print_near_network(host, members, names, pin->node, where);
    print_want(members, want);
    if (pin->how == GW_PIN_CORE)
        snprintf(text, GW_PIN_TEXT_MAX, "on cpu %s%s", cpus, where);
    else
        snprintf(text, GW_PIN_TEXT_MAX,
                 "anywhere on cpu %s%s: %u shard%s and %s are more than the %u "
                 "core%s here",
                 cpus, where, members->shards, gw_plural(members->shards), want,
                 host->cores, gw_plural(host->cores));
}
