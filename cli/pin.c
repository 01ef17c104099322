#include "config.h"

#include "cli/pin.h"

#include <stdio.h>
#include <string.h>

/* ---- sets ---- */

void gw_cpus_add(struct gw_cpus *cpus, uint32_t cpu)
{
    if (cpu < GW_PIN_CPUS_MAX)
        cpus->word[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

int gw_cpus_has(const struct gw_cpus *cpus, uint32_t cpu)
{
    return cpu < GW_PIN_CPUS_MAX && cpus->word[cpu / 64] >> cpu % 64 & 1;
}

uint32_t gw_cpus_count(const struct gw_cpus *cpus)
{
    uint32_t n = 0;
    for (uint32_t cpu = 0; cpu < GW_PIN_CPUS_MAX; cpu++)
        n += (uint32_t)gw_cpus_has(cpus, cpu);
    return n;
}

void gw_cpus_print(const struct gw_cpus *cpus, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t cpu = 0; cpu < GW_PIN_CPUS_MAX; cpu++) {
        uint32_t last = cpu;
        if (!gw_cpus_has(cpus, cpu))
            continue;
        while (gw_cpus_has(cpus, last + 1))
            last++;
        const char *comma = used > 0 ? "," : "";
        int n = last > cpu ? snprintf(text + used, text_bytes - used, "%s%u-%u",
                                      comma, cpu, last)
                           : snprintf(text + used, text_bytes - used, "%s%u",
                                      comma, cpu);
        if (n < 0 || (size_t)n >= text_bytes - used)
            return;
        used += (size_t)n;
        cpu = last;
    }
}

/* ---- what is taken ---- */

struct layout {
    const struct gw_pin_host *host;
    const struct gw_pin_members *members;
    uint32_t cores[GW_PIN_NODES_MAX]; /* of each node */
    uint32_t left[GW_PIN_NODES_MAX];  /* and not taken */
    uint32_t load[GW_PIN_NODES_MAX];  /* workers', or what shards took */
    uint8_t taken[GW_PIN_CORES_MAX];
    uint8_t home[GW_PIN_CORES_MAX]; /* of each worker with cores of its own */
};

static void begin(struct layout *layout,
                  const struct gw_pin_host *host,
                  const struct gw_pin_members *members)
{
    memset(layout, 0, sizeof *layout);
    layout->host = host;
    layout->members = members;
    for (uint32_t i = 0; i < host->cores; i++)
        layout->cores[host->core[i].node]++;
    memcpy(layout->left, layout->cores, sizeof layout->left);
}

static int is_in(uint64_t nodes, uint32_t node)
{
    return nodes >> node & 1;
}

/* The node of a mask with the least load for its size, of those with so many
   cores left; of equals one near the network, then the first. -1: none. */
static int
least_loaded(const struct layout *layout, uint64_t nodes, uint32_t left)
{
    int best = -1;
    for (uint32_t i = 0; i < layout->host->nodes; i++) {
        if (!is_in(nodes, i) || layout->left[i] < left || !layout->cores[i])
            continue;
        uint64_t one =
            best < 0 ? 0 : (uint64_t)layout->load[i] * layout->cores[best];
        uint64_t other =
            best < 0 ? 1 : (uint64_t)layout->load[best] * layout->cores[i];
        int nearer = one == other && is_in(layout->members->network, i) &&
                     !is_in(layout->members->network, (uint32_t)best);
        if (one < other || nearer)
            best = (int)i;
    }
    return best;
}

/* Takes a core of a node that has one: the fastest, of equals the first or the
   last. */
static uint32_t take_core(struct layout *layout, uint32_t node, int last)
{
    const struct gw_pin_host *host = layout->host;
    uint32_t best = host->cores;
    for (uint32_t i = 0; i < host->cores; i++) {
        const struct gw_pin_core *core = &host->core[i];
        if (layout->taken[i] || core->node != node)
            continue;
        if (best == host->cores || core->strength > host->core[best].strength ||
            (last && core->strength == host->core[best].strength))
            best = i;
    }
    layout->taken[best] = 1;
    layout->left[node]--;
    layout->load[node]++;
    return best;
}

static void add_core(const struct gw_pin_core *core, struct gw_cpus *cpus)
{
    for (uint32_t i = 0; i < core->cpus; i++)
        gw_cpus_add(cpus, core->cpu[i]);
}

void gw_pin_near(const struct gw_pin_host *host,
                 uint64_t nodes,
                 struct gw_cpus *cpus_p)
{
    memset(cpus_p, 0, sizeof *cpus_p);
    for (uint32_t i = 0; i < host->cores; i++)
        if (nodes == 0 || is_in(nodes, host->core[i].node))
            add_core(&host->core[i], cpus_p);
}

static int only_node(const struct gw_pin_host *host, uint64_t nodes)
{
    int found = -1;
    for (uint32_t i = 0; i < host->nodes; i++) {
        if (nodes != 0 && !is_in(nodes, i))
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

/* ---- shards ---- */

static uint64_t workers_cores(const struct gw_pin_members *members)
{
    return (uint64_t)members->workers * members->threads;
}

/* Whether each shard gets a core: all members have to find the same. */
static int shards_fit(const struct layout *layout)
{
    const struct gw_pin_members *members = layout->members;
    return workers_cores(members) + members->shards <= layout->host->cores;
}

/* Up to number `place`, whose core is returned; or of all of them. */
static uint32_t take_shards(struct layout *layout, uint32_t place)
{
    const struct gw_pin_members *members = layout->members;
    uint32_t core = 0;
    for (uint32_t i = 0; i < members->shards && i <= place; i++) {
        int node = least_loaded(layout, members->network, 1);
        if (node < 0)
            node = least_loaded(layout, UINT64_MAX, 1);
        core = take_core(layout, (uint32_t)node, 1);
    }
    /* their load is no worker's */
    memset(layout->load, 0, sizeof layout->load);
    return core;
}

void gw_pin_shard(const struct gw_pin_host *host,
                  const struct gw_pin_members *members,
                  uint32_t place,
                  struct gw_pin_shard *pin_p)
{
    struct layout layout;
    struct gw_pin_shard pin = {.how = GW_PIN_CORE};
    begin(&layout, host, members);
    if (shards_fit(&layout)) {
        const struct gw_pin_core *core =
            &host->core[take_shards(&layout, place)];
        add_core(core, &pin.cpus);
        pin.node = core->node;
    } else {
        gw_pin_near(host, members->network, &pin.cpus);
        pin.how = members->network ? GW_PIN_NEAR : GW_PIN_LEFT;
        pin.node = only_node(host, members->network);
    }
    *pin_p = pin;
}

/* ---- workers ---- */

static uint64_t gpu_of(const struct gw_pin_members *members, uint32_t place)
{
    return members->gpu ? members->gpu[place] : 0;
}

static int node_for(const struct layout *layout, uint32_t place, uint32_t left)
{
    int node = least_loaded(layout, gpu_of(layout->members, place), left);
    return node >= 0 ? node : least_loaded(layout, UINT64_MAX, left);
}

/* No node has enough: what the largest rests come to. */
static int largest_rest(const struct layout *layout)
{
    int best = 0;
    for (uint32_t i = 1; i < layout->host->nodes; i++)
        if (layout->left[i] > layout->left[best])
            best = (int)i;
    return best;
}

/* A worker's cores; it is the one that asks if `pin` is not NULL. */
static void
take_worker(struct layout *layout, uint32_t place, struct gw_pin_worker *pin)
{
    const struct gw_pin_host *host = layout->host;
    uint32_t threads = layout->members->threads;
    int node = node_for(layout, place, threads), first = node;
    for (uint32_t i = 0; i < threads; i++) {
        int from = node >= 0 ? node : largest_rest(layout);
        first = first >= 0 ? first : from;
        uint32_t core = take_core(layout, (uint32_t)from, 0);
        if (pin)
            gw_cpus_add(&pin->compute, host->core[core].cpu[0]);
        for (uint32_t s = 1; pin && s < host->core[core].cpus; s++)
            gw_cpus_add(&pin->talks, host->core[core].cpu[s]);
    }
    layout->home[place] = (uint8_t)first;
    if (pin)
        pin->node = node;
}

/* ---- the threads that communicate ---- */

static int free_core_near(const struct layout *layout, uint32_t place)
{
    uint32_t home = layout->home[place];
    uint64_t near = layout->members->network;
    if (near == 0 || is_in(near, home)) {
        near |= UINT64_C(1) << home;
        if (layout->left[home] > 0)
            return (int)home;
    }
    for (uint32_t i = 0; i < layout->host->nodes; i++)
        if (is_in(near, i) && layout->left[i] > 0)
            return (int)i;
    return -1;
}

/* Of one after the other; `talks` has the siblings of the worker's cores. */
static enum gw_pin_talk
take_talk(struct layout *layout, uint32_t place, int has_siblings, int *node_p)
{
    int node = free_core_near(layout, place);
    if (node >= 0) {
        *node_p = node;
        return GW_PIN_TALK_NEAR;
    }
    if (has_siblings)
        return GW_PIN_TALK_SIBLING;
    node = largest_rest(layout);
    *node_p = node;
    return layout->left[node] > 0 ? GW_PIN_TALK_FAR : GW_PIN_TALK_FLOATS;
}

/* Whether a worker's cores have siblings is taken to be as in its node. */
static int has_siblings(const struct layout *layout, uint32_t place)
{
    const struct gw_pin_host *host = layout->host;
    for (uint32_t i = 0; i < host->cores; i++)
        if (host->core[i].node == layout->home[place])
            return host->core[i].cpus > 1;
    return 0;
}

static void
choose_talk(struct layout *layout, uint32_t place, struct gw_pin_worker *pin)
{
    const struct gw_pin_host *host = layout->host;
    for (uint32_t i = 0; i <= place; i++) {
        int node = -1, siblings = has_siblings(layout, i);
        if (i == place)
            siblings = gw_cpus_count(&pin->talks) > 0;
        enum gw_pin_talk talk = take_talk(layout, i, siblings, &node);
        uint32_t core = host->cores;
        if (talk == GW_PIN_TALK_NEAR || talk == GW_PIN_TALK_FAR)
            core = take_core(layout, (uint32_t)node, 1);
        if (i < place)
            continue;
        pin->talk = talk;
        pin->talk_node = talk == GW_PIN_TALK_SIBLING ? pin->node : node;
        if (talk != GW_PIN_TALK_SIBLING)
            memset(&pin->talks, 0, sizeof pin->talks);
        if (core < host->cores)
            add_core(&host->core[core], &pin->talks);
    }
    if (pin->talk != GW_PIN_TALK_FLOATS)
        return;
    gw_pin_near(host, layout->members->network, &pin->talks);
    pin->talk_node = only_node(host, layout->members->network);
}

/* ---- workers that share ---- */

/* More are to compute than there are cores: the kernel shares these out better
   than who is bound to one with another, but within a node. */
static void
share(struct layout *layout, uint32_t place, struct gw_pin_worker *pin)
{
    const struct gw_pin_host *host = layout->host;
    pin->how = GW_PIN_LEFT;
    pin->node = -1;
    if (host->nodes > 1 && host->cores > layout->members->threads) {
        for (uint32_t i = 0; i <= place; i++) {
            pin->node = node_for(layout, i, 0);
            layout->load[pin->node]++;
        }
        pin->how = GW_PIN_NEAR;
    }
    uint64_t nodes = pin->node < 0 ? 0 : UINT64_C(1) << pin->node;
    gw_pin_near(host, nodes, &pin->compute);
    pin->rest = pin->compute;
    pin->talk = GW_PIN_TALK_FLOATS;
    pin->talks = pin->compute;
    pin->talk_node = pin->node;
}

void gw_pin_worker(const struct gw_pin_host *host,
                   const struct gw_pin_members *members,
                   uint32_t place,
                   struct gw_pin_worker *pin_p)
{
    struct layout layout;
    struct gw_pin_worker pin = {.how = GW_PIN_CORE};
    begin(&layout, host, members);
    if (workers_cores(members) > host->cores ||
        host->cores <= members->threads) {
        share(&layout, place, &pin);
        *pin_p = pin;
        return;
    }
    if (shards_fit(&layout))
        take_shards(&layout, UINT32_MAX);
    for (uint32_t i = 0; i < members->workers; i++)
        take_worker(&layout, i, i == place ? &pin : NULL);
    choose_talk(&layout, place, &pin);
    gw_pin_near(host, pin.node < 0 ? 0 : UINT64_C(1) << pin.node, &pin.rest);
    if (members->threads > 1)
        pin.rest = pin.compute; /* most of the others compute, too */
    *pin_p = pin;
}
