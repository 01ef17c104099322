#include "config.h"

#include "cli/host/pin.h"

#include <stdio.h>
#include <string.h>

/* A mask of all nodes. */
#define ANY_NODE UINT64_MAX

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

void gw_cpus_print(const struct gw_cpus *cpus, char *text, size_t text_bytes)
{
    static const char more[] = ",..";
    size_t used = 0, cut = 0; /* up to the place where `more` still fits */
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
        if (n < 0 || (size_t)n >= text_bytes - used) {
            snprintf(text + cut, text_bytes - cut, "%s",
                     cut > 0 ? more : more + 1);
            return;
        }
        used += (size_t)n;
        if (used + sizeof more <= text_bytes)
            cut = used;
        cpu = last;
    }
}

/* ---- taken cores ---- */

struct layout {
    const struct gw_pin_host *host;
    const struct gw_colocated *colocated;
    uint32_t cores[GW_PIN_NODES_MAX]; /* per node */
    uint32_t left[GW_PIN_NODES_MAX];  /* free ones */
    uint32_t load[GW_PIN_NODES_MAX];  /* of workers, or cores of shards */
    uint64_t kept;                    /* cores reserved for workers */
    uint8_t taken[GW_PIN_CORES_MAX];
    /* per worker with cores of its own */
    uint8_t home[GW_PIN_CORES_MAX];
    uint8_t has_siblings[GW_PIN_CORES_MAX];
};

static void begin(struct layout *layout,
                  const struct gw_pin_host *host,
                  const struct gw_colocated *colocated)
{
    memset(layout, 0, sizeof *layout);
    layout->host = host;
    layout->colocated = colocated;
    for (uint32_t i = 0; i < host->cores; i++)
        layout->cores[host->core[i].node]++;
    memcpy(layout->left, layout->cores, sizeof layout->left);
}

int gw_pin_is_in(const struct gw_pin_host *host, uint64_t nodes, int node)
{
    return node >= 0 && host->number[node] < 64 &&
           nodes >> host->number[node] & 1;
}

/* The node of a mask with the least load for its size, among nodes with so many
   cores left; if equal one near the network, then the first. -1: none. */
static int least_loaded(const struct layout *layout,
                        uint64_t nodes,
                        uint64_t network,
                        uint32_t left)
{
    const struct gw_pin_host *host = layout->host;
    int best = -1;
    for (int i = 0; i < (int)host->nodes; i++) {
        if ((nodes != ANY_NODE && !gw_pin_is_in(host, nodes, i)) ||
            layout->left[i] < left || !layout->cores[i])
            continue;
        uint64_t one =
            best < 0 ? 0 : (uint64_t)layout->load[i] * layout->cores[best];
        uint64_t other =
            best < 0 ? 1 : (uint64_t)layout->load[best] * layout->cores[i];
        int nearer = one == other && gw_pin_is_in(host, network, i) &&
                     !gw_pin_is_in(host, network, best);
        if (one < other || nearer)
            best = i;
    }
    return best;
}

/* The greatest strength at which more cores are left than are kept for workers,
   which get the fastest. */
static unsigned strength_to_spare(const struct layout *layout)
{
    uint32_t left[UINT8_MAX + 1] = {0}, n = 0;
    for (uint32_t i = 0; i < layout->host->cores; i++)
        left[layout->host->core[i].strength] += !layout->taken[i];
    for (unsigned strength = UINT8_MAX; strength > 0; strength--) {
        n += left[strength];
        if (n > layout->kept)
            return strength;
    }
    return 0;
}

/* Takes a core of a node: the fastest one to spare, else the slowest; among
   equals the first or the last. */
static uint32_t take_core(struct layout *layout, uint32_t node, int last)
{
    const struct gw_pin_host *host = layout->host;
    unsigned spare = strength_to_spare(layout), best_worth = 0;
    uint32_t best = host->cores;
    for (uint32_t i = 0; i < host->cores; i++) {
        const struct gw_pin_core *core = &host->core[i];
        unsigned worth = core->strength <= spare
                             ? UINT8_MAX + 1U + core->strength
                             : UINT8_MAX - (unsigned)core->strength;
        if (layout->taken[i] || core->node != node)
            continue;
        if (best == host->cores || worth > best_worth ||
            (last && worth == best_worth)) {
            best = i;
            best_worth = worth;
        }
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

/* Adds all cpus of a node, by its index; -1: of all nodes. */
static void
add_node(const struct gw_pin_host *host, int node, struct gw_cpus *cpus)
{
    for (uint32_t i = 0; i < host->cores; i++)
        if (node < 0 || host->core[i].node == node)
            add_core(&host->core[i], cpus);
}

void gw_pin_near(const struct gw_pin_host *host,
                 uint64_t nodes,
                 struct gw_cpus *cpus_p)
{
    int some = 0;
    memset(cpus_p, 0, sizeof *cpus_p);
    for (int i = 0; i < (int)host->nodes; i++) {
        if (!gw_pin_is_in(host, nodes, i))
            continue;
        add_node(host, i, cpus_p);
        some = 1;
    }
    if (!some)
        add_node(host, -1, cpus_p);
}

static int only_node(const struct gw_pin_host *host, uint64_t nodes)
{
    int found = -1;
    for (int i = 0; i < (int)host->nodes; i++) {
        if (nodes != 0 && !gw_pin_is_in(host, nodes, i))
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

/* ---- shards ---- */

uint64_t gw_pin_threads(const struct gw_colocated *colocated)
{
    uint64_t threads = 0;
    for (uint32_t i = 0; i < colocated->workers; i++)
        threads += colocated->worker[i].threads;
    return threads;
}

/* Non-zero if each shard gets a core; equal in all members. */
static int shards_fit(const struct layout *layout)
{
    const struct gw_colocated *colocated = layout->colocated;
    return gw_pin_threads(colocated) + colocated->shards <= layout->host->cores;
}

/* Takes the cores of shards up to number `place`, and returns that one's; or of
   all. */
static uint32_t take_shards(struct layout *layout, uint32_t place)
{
    const struct gw_colocated *colocated = layout->colocated;
    uint32_t core = 0;
    layout->kept = gw_pin_threads(colocated);
    for (uint32_t i = 0; i < colocated->shards && i <= place; i++) {
        uint64_t network = colocated->shard[i].network;
        int node = least_loaded(layout, network, network, 1);
        if (node < 0)
            node = least_loaded(layout, ANY_NODE, network, 1);
        core = take_core(layout, (uint32_t)node, 1);
    }
    /* workers take theirs now; the load of shards does not count */
    layout->kept = 0;
    memset(layout->load, 0, sizeof layout->load);
    return core;
}

void gw_pin_shard(const struct gw_pin_host *host,
                  const struct gw_colocated *colocated,
                  struct gw_pin_shard *pin_p)
{
    struct layout layout;
    struct gw_pin_shard pin = {.how = GW_PIN_CORE};
    int is_there = colocated->place < colocated->shards;
    uint64_t network =
        is_there ? colocated->shard[colocated->place].network : 0;
    begin(&layout, host, colocated);
    if (is_there && shards_fit(&layout)) {
        const struct gw_pin_core *core =
            &host->core[take_shards(&layout, colocated->place)];
        add_core(core, &pin.cpus);
        pin.node = core->node;
    } else {
        gw_pin_near(host, network, &pin.cpus);
        pin.how = network ? GW_PIN_NEAR : GW_PIN_LEFT;
        pin.node = only_node(host, network);
    }
    *pin_p = pin;
}

/* ---- workers ---- */

static int node_for(const struct layout *layout, uint32_t place, uint32_t left)
{
    const struct gw_need *need = &layout->colocated->worker[place];
    int node = least_loaded(layout, need->device, need->network, left);
    return node >= 0 ? node
                     : least_loaded(layout, ANY_NODE, need->network, left);
}

/* If no node has enough: the node with the most free cores. */
static int largest_rest(const struct layout *layout)
{
    int best = 0;
    for (uint32_t i = 1; i < layout->host->nodes; i++)
        if (layout->left[i] > layout->left[best])
            best = (int)i;
    return best;
}

/* Takes a worker's cores. `pin` is not NULL for the asking worker. */
static void
take_worker(struct layout *layout, uint32_t place, struct gw_pin_worker *pin)
{
    const struct gw_pin_host *host = layout->host;
    uint32_t threads = layout->colocated->worker[place].threads;
    int node = node_for(layout, place, threads), first = node;
    for (uint32_t i = 0; i < threads; i++) {
        int from = node >= 0 ? node : largest_rest(layout);
        first = first >= 0 ? first : from;
        const struct gw_pin_core *core =
            &host->core[take_core(layout, (uint32_t)from, 0)];
        layout->has_siblings[place] |= core->cpus > 1;
        if (pin)
            gw_cpus_add(&pin->compute, core->cpu[0]);
        for (uint32_t s = 1; pin && s < core->cpus; s++)
            gw_cpus_add(&pin->talks, core->cpu[s]);
    }
    layout->home[place] = (uint8_t)first;
    if (pin)
        pin->node = node;
}

/* ---- the threads that communicate ---- */

static int free_core_near(const struct layout *layout, uint32_t place)
{
    const struct gw_pin_host *host = layout->host;
    int home = layout->home[place];
    uint64_t near = layout->colocated->worker[place].network;
    if ((near == 0 || gw_pin_is_in(host, near, home)) && layout->left[home] > 0)
        return home;
    for (int i = 0; i < (int)host->nodes; i++)
        if (gw_pin_is_in(host, near, i) && layout->left[i] > 0)
            return i;
    return -1;
}

/* Chooses for one worker; call it for the workers in their order. */
static enum gw_pin_talk
take_talk(struct layout *layout, uint32_t place, int *node_p)
{
    int node = free_core_near(layout, place);
    if (node >= 0) {
        *node_p = node;
        return GW_PIN_TALK_NEAR;
    }
    if (layout->has_siblings[place])
        return GW_PIN_TALK_SIBLING;
    node = largest_rest(layout);
    *node_p = node;
    return layout->left[node] > 0 ? GW_PIN_TALK_FAR : GW_PIN_TALK_FLOATS;
}

/* `talks` has the siblings of the worker's cores. */
static void choose_talk(struct layout *layout, struct gw_pin_worker *pin)
{
    const struct gw_pin_host *host = layout->host;
    uint32_t place = layout->colocated->place, core = host->cores;
    uint64_t network = layout->colocated->worker[place].network;
    int node = -1;
    for (uint32_t i = 0; i <= place; i++) {
        pin->talk = take_talk(layout, i, &node);
        core = host->cores;
        if (pin->talk == GW_PIN_TALK_NEAR || pin->talk == GW_PIN_TALK_FAR)
            core = take_core(layout, (uint32_t)node, 1);
    }
    pin->talk_node = pin->talk == GW_PIN_TALK_SIBLING ? pin->node : node;
    if (pin->talk != GW_PIN_TALK_SIBLING)
        memset(&pin->talks, 0, sizeof pin->talks);
    if (core < host->cores)
        add_core(&host->core[core], &pin->talks);
    if (pin->talk != GW_PIN_TALK_FLOATS)
        return;
    gw_pin_near(host, network, &pin->talks);
    pin->talk_node = only_node(host, network);
}

/* ---- workers that share ---- */

/* With more computing threads than cores the kernel balances them better than a
   fixed binding would, but within a node. */
static void share(struct layout *layout, struct gw_pin_worker *pin)
{
    const struct gw_pin_host *host = layout->host;
    const struct gw_colocated *colocated = layout->colocated;
    int is_there = colocated->place < colocated->workers;
    pin->how = GW_PIN_LEFT;
    pin->node = -1;
    if (is_there && host->nodes > 1 &&
        host->cores > colocated->worker[colocated->place].threads) {
        for (uint32_t i = 0; i <= colocated->place; i++) {
            pin->node = node_for(layout, i, 0);
            layout->load[pin->node] += colocated->worker[i].threads;
        }
        pin->how = GW_PIN_NEAR;
    }
    add_node(host, pin->node, &pin->compute);
    pin->rest = pin->compute;
    pin->talk = GW_PIN_TALK_FLOATS;
    pin->talks = pin->compute;
    pin->talk_node = pin->node;
}

/* Non-zero if each computing thread gets a core. A process that would get all
   cores need not be bound. */
static int have_cores(const struct gw_pin_host *host,
                      const struct gw_colocated *colocated)
{
    return colocated->place < colocated->workers &&
           gw_pin_threads(colocated) <= host->cores &&
           colocated->worker[colocated->place].threads < host->cores;
}

void gw_pin_worker(const struct gw_pin_host *host,
                   const struct gw_colocated *colocated,
                   struct gw_pin_worker *pin_p)
{
    struct layout layout;
    struct gw_pin_worker pin = {.how = GW_PIN_CORE};
    begin(&layout, host, colocated);
    if (!have_cores(host, colocated)) {
        share(&layout, &pin);
        *pin_p = pin;
        return;
    }
    if (shards_fit(&layout))
        take_shards(&layout, UINT32_MAX);
    for (uint32_t i = 0; i < colocated->workers; i++)
        take_worker(&layout, i, i == colocated->place ? &pin : NULL);
    choose_talk(&layout, &pin);
    if (colocated->worker[colocated->place].threads > 1)
        pin.rest = pin.compute; /* since most other threads compute, too */
    else
        add_node(host, pin.node, &pin.rest);
    *pin_p = pin;
}
