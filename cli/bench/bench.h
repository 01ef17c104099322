/*
 * Inside `gradweir bench`: what its files share.
 *
 *   cmd_bench.c        options
 *   bench_contest.c    one size: contestants, their turns, and their rows
 *   bench_process.c    processes that wait for orders, and never outlive us
 *   bench_bare.c       limits A and B and the blocking ping-pong: plain sockets
 *   bench_transport.c  puts over a transport: no update, no checksum
 *   bench_training.c   a real coordinator, real servers, no model
 *   bench_values.c     values that show a wrong or misplaced byte
 *   bench_rows.c       times to percentiles, rates and ratios; table and JSON
 *   bench_update.c     reduce and update against a += b
 *   bench_sum.c        the sum inside a node against the traffic that it is
 *
 * Every contestant of a size is set up at once and sleeps until it is ordered
 * to run; the parent lets them run in turn, so that all meet the same weather.
 */
#ifndef GW_CLI_BENCH_H
#define GW_CLI_BENCH_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "kernels/update/update.h"
#include "proto/map.h"
#include "proto/status.h"
#include "transport/link/transport.h"

#define GW_BENCH_MEMBERS_MAX 16 /* workers, and servers */
#define GW_BENCH_SIZES_MAX   32
#define GW_BENCH_ITERS_MAX   128 /* of one order */
#define GW_BENCH_BYTES_MAX   ((size_t)1 << 30)
#define GW_BENCH_ROUTES_MAX  3

/* Smaller transfers are about latency: their limit is the ping-pong. */
#define GW_BENCH_STREAM_BYTES ((size_t)64 << 10)

/* Tensor bytes from workers, to workers, or both. */
enum gw_bench_op {
    GW_BENCH_PUSH,
    GW_BENCH_PULL,
    GW_BENCH_BOTH,
    GW_BENCH_OPS
};

enum gw_bench_path {
    GW_BENCH_LIMIT_A,
    GW_BENCH_LIMIT_B,
    GW_BENCH_PING_PONG,
    GW_BENCH_TRANSPORT,
    GW_BENCH_TRAINING,
    GW_BENCH_PATHS
};

/* A transport that is measured. */
struct gw_bench_route {
    const struct gw_transport_ops *transport;
    struct gw_ways ways; /* of the training path, with it */
};

struct gw_bench_options {
    struct gw_bench_route route[GW_BENCH_ROUTES_MAX];
    uint32_t routes;
    const struct gw_optimizer *optimizer;
    uint32_t workers, servers, connections; /* 0 workers: not given */
    uint32_t rounds;
    size_t sizes, size[GW_BENCH_SIZES_MAX]; /* 0: not given */
    int network, put, update, sum;          /* what to measure */
    int busy;                               /* the transport never sleeps */
    int only_op;                            /* enum gw_bench_op, or -1: all */
    FILE *table, *json;                     /* NULL: not asked for */
};

/* One size, over one of the transports. Made before the processes start, so
   they all have it. */
struct gw_bench_case {
    const struct gw_bench_options *options;
    const struct gw_bench_route *route;
    size_t bytes; /* of one worker's tensor */
    struct gw_map *map;
    uint32_t iterations;     /* timed ones of an order */
    double *us;              /* shared: [workers][GW_BENCH_ITERS_MAX] */
    struct gw_update update; /* what the servers do with a push */
};

/* Where what the transport carries is listened for, any port of this host. */
enum gw_status gw_bench_address(const struct gw_bench_case *what,
                                char address[GW_ADDRESS_MAX],
                                struct gw_error *error);

/* ---- processes ---- */

enum gw_bench_word {
    GW_BENCH_READY,  /* from a child: text is an address or empty */
    GW_BENCH_ORDER,  /* to a child */
    GW_BENCH_DONE,   /* from a child: an order is carried out */
    GW_BENCH_FAILED, /* from a child: text says why */
};

struct gw_bench_message {
    enum gw_bench_word word;
    enum gw_bench_path path;
    enum gw_bench_op op;
    enum gw_status status;
    uint64_t errors; /* wrong values */
    char text[GW_ERROR_TEXT_BYTES];
};

/* What a child knows of itself. */
struct gw_bench_child {
    int fd; /* to the parent */
    uint32_t index;
    const struct gw_bench_case *what;
    void *owner; /* of its group, as given at the start */
};

struct gw_bench_process {
    pid_t pid;
    int fd;
    char name[48]; /* for people */
};

struct gw_bench_group {
    size_t n;
    struct gw_bench_process process[2 * GW_BENCH_MEMBERS_MAX + 1];
};

/*
 * Starts a process that runs `run` and ends. It is killed when we die. The
 * group is ended by the caller, also after a failure.
 */
enum gw_status gw_bench_start(struct gw_bench_group *group,
                              const char *name,
                              const struct gw_bench_child *child,
                              void (*run)(struct gw_bench_child *child),
                              struct gw_error *error);

/* The next word of a process. GW_EDEAD, GW_ETIMEOUT, or what it failed with. */
enum gw_status gw_bench_hear(struct gw_bench_process *process,
                             struct gw_bench_message *message,
                             struct gw_error *error);

/* Tells processes [first, first + n) of a group to run; waits for all of them,
   and ends with the first that fails. *errors_p grows by the wrong values that
   they found. */
enum gw_status gw_bench_order(struct gw_bench_group *group,
                              size_t first,
                              size_t n,
                              enum gw_bench_path path,
                              enum gw_bench_op op,
                              uint64_t *errors_p,
                              struct gw_error *error);

/* The same for a whole group that has but one thing to do. */
enum gw_status gw_bench_order_all(struct gw_bench_group *group,
                                  uint64_t *errors_p,
                                  struct gw_error *error);

/* Ends what is left of a group. */
void gw_bench_end(struct gw_bench_group *group);

/* The child's side. The second one waits; 0 when the parent is gone. */
void gw_bench_say(const struct gw_bench_child *child,
                  enum gw_bench_word word,
                  const char *text,
                  uint64_t errors);
void gw_bench_say_failed(const struct gw_bench_child *child,
                         const struct gw_error *error);
int gw_bench_listen(const struct gw_bench_child *child,
                    struct gw_bench_message *order);

/* Where a worker notes how long iteration i took. */
double *gw_bench_times(const struct gw_bench_child *child);
double gw_bench_now_us(void);

/* ---- contestants ---- */

/* All of one size, in turn, and prints their rows. *errors_p grows by the wrong
   values that were found. */
enum gw_status gw_bench_size(const struct gw_bench_options *options,
                             size_t bytes,
                             uint64_t *errors_p,
                             struct gw_error *error);

/* Two processes: process 0 measures. Carry out limit and ping-pong orders. */
enum gw_status gw_bench_bare_open(const struct gw_bench_case *what,
                                  struct gw_bench_group *group,
                                  struct gw_error *error);

/* Servers first, then workers, who take orders. */
enum gw_status gw_bench_transport_open(const struct gw_bench_case *what,
                                       struct gw_bench_group *group,
                                       struct gw_error *error);

/* A coordinator, servers, workers, who take orders (not GW_BENCH_PUSH). */
enum gw_status gw_bench_training_open(const struct gw_bench_case *what,
                                      struct gw_bench_group *group,
                                      struct gw_error *error);

/* ---- values ---- */

/* A prime, so that no chunk begins where another one did. */
#define GW_BENCH_PERIOD 4093

/* Arrays are repetitions of a pattern; another seed is another pattern. */
struct gw_bench_pattern {
    float value[GW_BENCH_PERIOD];
};

void gw_bench_pattern(uint32_t seed, struct gw_bench_pattern *pattern);
void gw_bench_fill(const struct gw_bench_pattern *pattern,
                   size_t elems,
                   float *array);

/* How many elements differ from the pattern in any bit. */
uint64_t gw_bench_wrong(const struct gw_bench_pattern *pattern,
                        size_t elems,
                        const float *array);

/* The same of an array that begins `at` elements after the pattern. */
uint64_t gw_bench_wrong_from(const struct gw_bench_pattern *pattern,
                             size_t at,
                             size_t elems,
                             const float *array);

/* What a rank adds to a sum, and the plain tree over the first n ranks, number
   by number: nearly every addition rounds, so that its bits tell the order. */
void gw_bench_summand(uint32_t rank, struct gw_bench_pattern *pattern);
void gw_bench_summed(uint32_t n, struct gw_bench_pattern *pattern);

/* Arrays like a shard's: huge pages where the system gives them, and staggered.
   NULL: no memory. Never given back before the process ends. */
float *gw_bench_array(size_t bytes, unsigned number);

/* The same for a window: `shared` with other processes of this host, where that
   can be had. */
float *gw_bench_window(size_t bytes,
                       unsigned number,
                       int shared,
                       struct gw_memory *memory);

/* ---- rows ---- */

struct gw_bench_row {
    const char *transport; /* NULL: plain sockets */
    size_t bytes;
    enum gw_bench_path path;
    enum gw_bench_op op;
    size_t iterations;
    uint64_t wire_bytes; /* of one iteration, both directions, with headers */
    uint64_t payload_bytes;
    uint64_t errors;
    double p50_us, p99_us, max_us, best_us;
    double ratio; /* to its limit; 0: it is a limit itself */
    double *us;   /* what was measured, [iterations] */
};

/* Sorts row->us and fills in what follows from it. */
void gw_bench_sum_up(struct gw_bench_row *row);

/* How near a row comes to its limit: above 1 it is faster. */
double gw_bench_ratio(const struct gw_bench_row *row,
                      const struct gw_bench_row *limit);

const char *gw_bench_op_name(enum gw_bench_op op);

void gw_bench_print_head(const struct gw_bench_options *options);
enum gw_status gw_bench_print_row(const struct gw_bench_options *options,
                                  const struct gw_bench_row *row,
                                  struct gw_error *error);

/* In the table: how fast one transport is beside another, by the same row and
   by medians, since the best of few is chance. */
void gw_bench_print_beside(const struct gw_bench_options *options,
                           const struct gw_bench_row *row,
                           const struct gw_bench_row *other);

/* An object as a line of options->json; takes it. GW_EIO, also of NULL, for
   which there was no memory. */
enum gw_status gw_bench_print_json(const struct gw_bench_options *options,
                                   json_t *object,
                                   struct gw_error *error);

/* ---- reduce and update ---- */

enum gw_status gw_bench_update(const struct gw_bench_options *options,
                               struct gw_error *error);

/* ---- the sum inside a node ---- */

/* GW_EUSAGE: so many workers are no group. */
enum gw_status gw_bench_sum_check(const struct gw_bench_options *options,
                                  struct gw_error *error);
enum gw_status gw_bench_sum(const struct gw_bench_options *options,
                            struct gw_error *error);

#endif
