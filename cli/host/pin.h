/*
 * Assigns cores of one host to the threads of a job's members. Pure: the host
 * (pin_host.h reads it) and the members (colocated.h) are given as numbers.
 * Every member computes the same layout from the needs of all, and finds its
 * own place in it:
 *
 *   shards   if cores are left beside the workers': one each, the last ones of
 *            the nodes near the network
 *   workers  whole cores for computing threads, all of one node: near the GPU,
 *            else of the node with the least load
 *   and for the communicating thread one of the remaining cores: near the
 *            network, a sibling of its own cores, elsewhere, or none
 *
 * A thread without a core is never bound to another member's: it floats over
 * all cores near the network. Cpus have the system's numbers; hardware threads
 * of one core are several cpus.
 */
#ifndef GW_CLI_PIN_H
#define GW_CLI_PIN_H

#include <stddef.h>
#include <stdint.h>

#include "proto/colocated.h"

#define GW_PIN_CPUS_MAX  4096
#define GW_PIN_CORES_MAX 2048
#define GW_PIN_NODES_MAX 64
#define GW_PIN_SIBLINGS  8

struct gw_cpus {
    uint64_t word[GW_PIN_CPUS_MAX / 64];
};

struct gw_pin_core {
    uint16_t cpu[GW_PIN_SIBLINGS]; /* usable by the process, at least one */
    uint8_t cpus;
    uint8_t node;     /* index */
    uint8_t strength; /* larger for faster cores */
};

/* The part of its host that a process may use. */
struct gw_pin_host {
    uint32_t cores, nodes;
    uint32_t number[GW_PIN_NODES_MAX]; /* numbers of the nodes, in the system's
                                          numbering */
    struct gw_pin_core core[GW_PIN_CORES_MAX];
};

enum gw_pin_how {
    GW_PIN_CORE, /* own cores */
    GW_PIN_NEAR, /* floats over cores of some nodes */
    GW_PIN_LEFT, /* unbound, over all usable cores */
};

enum gw_pin_talk {
    GW_PIN_TALK_NEAR,    /* own core near the network, or near the worker */
    GW_PIN_TALK_SIBLING, /* other hardware threads of the worker's cores */
    GW_PIN_TALK_FAR,     /* a core of its own */
    GW_PIN_TALK_FLOATS,  /* no core is left: unbound */
};

struct gw_pin_worker {
    enum gw_pin_how how;
    struct gw_cpus compute; /* the first hardware thread of each core */
    struct gw_cpus rest;    /* for its other threads */
    int node;               /* of `compute`, index; -1: several */
    enum gw_pin_talk talk;
    struct gw_cpus talks;
    int talk_node; /* -1: several */
};

struct gw_pin_shard {
    enum gw_pin_how how;
    struct gw_cpus cpus;
    int node; /* -1: several */
};

/* Computes the cores of colocated->worker[colocated->place], or of the shard; a
   member that is not listed gets none. Thread: any. */
void gw_pin_worker(const struct gw_pin_host *host,
                   const struct gw_colocated *colocated,
                   struct gw_pin_worker *pin_p);

void gw_pin_shard(const struct gw_pin_host *host,
                  const struct gw_colocated *colocated,
                  struct gw_pin_shard *pin_p);

/* Number of computing threads of all workers. */
uint64_t gw_pin_threads(const struct gw_colocated *colocated);

/* Non-zero if a node, by its index, is in a mask of nodes (gw_need). */
int gw_pin_is_in(const struct gw_pin_host *host, uint64_t nodes, int node);

/* All cpus of the nodes in a mask; an empty mask means all nodes. */
void gw_pin_near(const struct gw_pin_host *host,
                 uint64_t nodes,
                 struct gw_cpus *cpus_p);

void gw_cpus_add(struct gw_cpus *cpus, uint32_t cpu);
int gw_cpus_has(const struct gw_cpus *cpus, uint32_t cpu);

/* "0-3,8", as in /proc/PID/status; "0-3,.." if it does not fit. */
void gw_cpus_print(const struct gw_cpus *cpus, char *text, size_t text_bytes);

#endif
