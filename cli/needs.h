/*
 * Memory of a whole job, per role and purpose and per host, and the largest job
 * that would fit. The rooms count their own (worker/need.h, server/need.h).
 * Pure, any thread.
 */
#ifndef GW_CLI_NEEDS_H
#define GW_CLI_NEEDS_H

#include <stdint.h>

#include "cli/plan/estimate.h"
#include "proto/map.h"
#include "server/need.h"
#include "worker/need.h"

/* One process of each role; of servers the one that has most. */
struct gw_needs {
    struct gw_worker_need worker;
    struct gw_server_need server;
    uint64_t coordinator; /* messages, connections, keys */
};

struct gw_need_row {
    const char *name;
    uint64_t gpu, worker, server, coordinator; /* gpu: of one for a worker */
    int may_differ;                            /* 0: it is sure to be needed */
};
#define GW_NEED_ROWS 24 /* and some of the caller's */

/*
 * Counts the memory of a case. `map` is the map of its job; `near` says which
 * members share a host, if their links are in shared memory; NULL: no link is.
 * Errors of both rooms.
 */
enum gw_status gw_needs_count(const struct gw_worker_case *what,
                              const struct gw_map *map,
                              const struct gw_estimate_hosts *near,
                              struct gw_needs *needs_p,
                              struct gw_error *error);

/* The rows of a table; returns how many. */
size_t gw_needs_rows(const struct gw_needs *needs,
                     struct gw_need_row row[GW_NEED_ROWS]);

/* Memory that a worker cannot do without and shares with no other process,
   small things left out: a lower limit is certainly too low. */
uint64_t gw_needs_worker(const struct gw_needs *needs);

/* A kind of host: its members and its memory. */
struct gw_needs_host {
    const char *name; /* "this host", "a host with a server" */
    uint64_t workers, servers;
    int all;               /* the whole job is on it, however many there are */
    uint64_t bytes;        /* memory; UINT64_MAX: no known limit */
    const char *what;      /* its memory in words: "available on this host" */
    unsigned devices;      /* its workers take them in turn; 0: no devices */
    uint64_t device_bytes; /* memory of each; UINT64_MAX: unknown */
    const char *device_what; /* "free" */
    int device_is_bare;      /* CUDA itself has taken nothing of it yet */
};

/* Bytes that a host needs for its members. */
uint64_t gw_needs_of_host(const struct gw_needs *needs,
                          const struct gw_needs_host *host);

/* Workers on the fullest of its devices, and bytes that it must have for each.
 */
uint64_t gw_needs_sharers(const struct gw_needs_host *host);
uint64_t gw_needs_of_sharer(const struct gw_needs *needs,
                            const struct gw_needs_host *host);

/*
 * Checks that a job fits. GW_ENOMEM with a line that names the largest need,
 * the memory there is, and the largest batch or number of workers, or the
 * smallest number of servers, that fits. Other errors as above.
 */
enum gw_status gw_needs_check(const struct gw_worker_case *what,
                              const struct gw_needs_host *host,
                              struct gw_error *error);

#endif
