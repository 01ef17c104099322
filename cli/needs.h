/*
 * The memory of a whole job: of each role by what it is for, of hosts, and what
 * would fit where it does not. The rooms say what they take (worker/need.h,
 * server/need.h). Pure, any thread.
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
 * `map` is that of the case's job. `near`: who is on a host with whom, where
 * their links are in shared memory; NULL: no link is. Errors of both rooms.
 */
enum gw_status gw_needs_count(const struct gw_worker_case *what,
                              const struct gw_map *map,
                              const struct gw_estimate_hosts *near,
                              struct gw_needs *needs_p,
                              struct gw_error *error);

/* The rows of a table; returns how many. */
size_t gw_needs_rows(const struct gw_needs *needs,
                     struct gw_need_row row[GW_NEED_ROWS]);

/* What a process must have and cannot share, without what is small beside it:
   a limit below this is too small for certain. What another process has as well
   is there once, and is that one's. */
uint64_t gw_needs_worker(const struct gw_needs *needs);

/* A kind of host: what is on it, and what it has. */
struct gw_needs_host {
    const char *name; /* "this host", "a host with a server" */
    uint64_t workers, servers;
    int all;               /* the whole job is on it, however many there are */
    uint64_t bytes;        /* of memory; UINT64_MAX: no limit is known */
    const char *what;      /* its memory in words: "available on this host" */
    unsigned devices;      /* that its workers go round; 0: they compute in that
                              memory */
    uint64_t device_bytes; /* of each; UINT64_MAX: it is not known, */
    const char *device_what; /* in words: "free" */
    int device_is_bare;      /* CUDA itself has taken nothing of it yet */
};

/* Bytes that a host must have for what is on it. */
uint64_t gw_needs_of_host(const struct gw_needs *needs,
                          const struct gw_needs_host *host);

/* Workers on the fullest of its devices, and bytes that it must have for each.
 */
uint64_t gw_needs_sharers(const struct gw_needs_host *host);
uint64_t gw_needs_of_sharer(const struct gw_needs *needs,
                            const struct gw_needs_host *host);

/*
 * GW_ENOMEM with one line where it cannot fit: what needs how much, what is
 * there, and the largest batch, or number of workers, or the smallest number of
 * servers with which it does. Other errors as above.
 */
enum gw_status gw_needs_check(const struct gw_worker_case *what,
                              const struct gw_needs_host *host,
                              struct gw_error *error);

#endif
