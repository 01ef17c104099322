/*
 * Which cores the threads of a job's members get on one host. Pure: what the
 * host has comes in as numbers (pin_host.h looks), and so does who is there
 * (mates.h). Every member works out the same layout by itself, out of what each
 * has said that it needs, with its own place in it:
 *
 *   shards   if cores are left beside the workers': one each, the last ones of
 *            the nodes near the network
 *   workers  whole cores for the threads that compute, all of one node: near
 *            its GPU, else of the node that has the least of them
 *   and for the thread that communicates, of what is left: a core near the
 *            network, a sibling of its own cores, a core elsewhere, or none
 *
 * A thread that gets no core is not bound to somebody else's: it floats over
 * all that is near the network. Cpus are numbered as the system does, hardware
 * threads of one core are several.
 */
#ifndef GW_CLI_PIN_H
#define GW_CLI_PIN_H

#include <stddef.h>
#include <stdint.h>

#include "proto/mates.h"

#define GW_PIN_CPUS_MAX  4096
#define GW_PIN_CORES_MAX 2048
#define GW_PIN_NODES_MAX 64
#define GW_PIN_SIBLINGS  8

struct gw_cpus {
    uint64_t word[GW_PIN_CPUS_MAX / 64];
};

struct gw_pin_core {
    uint16_t cpu[GW_PIN_SIBLINGS]; /* that the process may use, at least one */
    uint8_t cpus;
    uint8_t node;     /* index */
    uint8_t strength; /* of unlike cores the greater is the faster */
};

/* What a process may use of its host. */
struct gw_pin_host {
    uint32_t cores, nodes;
    uint32_t number[GW_PIN_NODES_MAX]; /* of the nodes, as the system has it */
    struct gw_pin_core core[GW_PIN_CORES_MAX];
};

enum gw_pin_how {
    GW_PIN_CORE, /* on cores of its own */
    GW_PIN_NEAR, /* floats over the cores of some nodes */
    GW_PIN_LEFT, /* as it is, over all that the process may use */
};

enum gw_pin_talk {
    GW_PIN_TALK_NEAR,    /* a core of its own near the network, or the worker */
    GW_PIN_TALK_SIBLING, /* the other hardware threads of the worker's cores */
    GW_PIN_TALK_FAR,     /* a core of its own */
    GW_PIN_TALK_FLOATS,  /* none is left */
};

struct gw_pin_worker {
    enum gw_pin_how how;
    struct gw_cpus compute; /* the first hardware thread of each core */
    struct gw_cpus rest;    /* of its threads that do neither */
    int node;               /* index of compute's; -1: several */
    enum gw_pin_talk talk;
    struct gw_cpus talks;
    int talk_node; /* -1: several */
};

struct gw_pin_shard {
    enum gw_pin_how how;
    struct gw_cpus cpus;
    int node; /* -1: several */
};

/* Of mates->worker[mates->place], or shard; whoever is not among them has no
   core. Thread: any. */
void gw_pin_worker(const struct gw_pin_host *host,
                   const struct gw_mates *mates,
                   struct gw_pin_worker *pin_p);

void gw_pin_shard(const struct gw_pin_host *host,
                  const struct gw_mates *mates,
                  struct gw_pin_shard *pin_p);

/* How many threads of workers are to compute. */
uint64_t gw_pin_threads(const struct gw_mates *mates);

/* Whether a node, by its index, is in a mask such as gw_need has. */
int gw_pin_is_in(const struct gw_pin_host *host, uint64_t nodes, int node);

/* All cpus of the nodes in such a mask; of none of them: all. */
void gw_pin_near(const struct gw_pin_host *host,
                 uint64_t nodes,
                 struct gw_cpus *cpus_p);

void gw_cpus_add(struct gw_cpus *cpus, uint32_t cpu);
int gw_cpus_has(const struct gw_cpus *cpus, uint32_t cpu);

/* "0-3,8", as in /proc/PID/status; "0-3,.." where there is no room. */
void gw_cpus_print(const struct gw_cpus *cpus, char *text, size_t text_bytes);

#endif
