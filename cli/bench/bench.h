/*
 * Inside `gradweir bench`: types and calls that its files share.
 *
 *   cmd_bench.c        options
 *   bench_contest.c    one size: contestants, their turns, and their rows
 *   bench_process.c    processes that take orders, and end with this one
 *   bench_bare.c       limits A and B and the blocking ping-pong: plain sockets
 *   bench_transport.c  puts over a transport: no update, no checksum
 *   bench_training.c   a real coordinator, real servers, no model
 *   bench_values.c     values that show a wrong or misplaced byte
 *   bench_rows.c       times to percentiles, rates and ratios; table and JSON
 *   bench_update.c     reduce and update against a += b
 *   bench_sum.c        the sum inside a node against its own memory traffic
 *
 * All contestants of a size are set up first and sleep until they are ordered
 * to run; the parent runs them in turn, so that all meet the same disturbances.
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
#define GW_BENCH_ITERS_MAX   128 /* per order */
#define GW_BENCH_BYTES_MAX   ((size_t)1 << 30)
#define GW_BENCH_ROUTES_MAX  3

/* Smaller transfers measure latency; their limit is the ping-pong. */
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

/* A transport to measure. */
struct gw_bench_route {
    const struct gw_transport_ops *transport;
    struct gw_routes routes; /* transports of the training path over it */
};

struct gw_bench_options {
    struct gw_bench_route route[GW_BENCH_ROUTES_MAX];
    uint32_t routes;
    const struct gw_optimizer *optimizer;
    uint32_t workers, servers, connections; /* 0 workers: not given */
    uint32_t rounds;
    size_t sizes, size[GW_BENCH_SIZES_MAX]; /* 0: not given */
    int network, put, update, sum;          /* measurements to make */
    int busy;                               /* the transport never sleeps */
    int only_op;                            /* enum gw_bench_op, or -1: all */
    FILE *table, *json;                     /* NULL: not asked for */
};

/* One size over one transport, made before the processes start, which all
   inherit it. */
struct gw_bench_case {
    const struct gw_bench_options *options;
    const struct gw_bench_route *route;
    size_t bytes; /* of a worker's tensor */
    struct gw_map *map;
    uint32_t iterations;     /* timed, per order */
    double *us;              /* shared: [workers][GW_BENCH_ITERS_MAX] */
    struct gw_update update; /* the servers' update for a push */
};

/* Address to listen on for the transport, with any free port of this host. */
enum gw_status gw_bench_address(const struct gw_bench_case *what,
                                char address[GW_ADDRESS_MAX],
                                struct gw_error *error);

/* ---- processes ---- */

enum gw_bench_word {
    GW_BENCH_READY,  /* from a child; text: an address or empty */
    GW_BENCH_ORDER,  /* to a child */
    GW_BENCH_DONE,   /* from a child: the order is done */
    GW_BENCH_FAILED, /* from a child; text: the error line */
};

struct gw_bench_message {
    enum gw_bench_word word;
    enum gw_bench_path path;
    enum gw_bench_op op;
    enum gw_status status;
    uint64_t errors; /* wrong values */
    char text[GW_ERROR_TEXT_BYTES];
};

/* A child's own data. */
struct gw_bench_child {
    int fd; /* to the parent */
    uint32_t index;
    const struct gw_bench_case *what;
    void *owner; /* the group's, given at the start */
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
 * Starts a process that calls `run` and exits. It is killed when this process
 * dies. The caller ends the group, also after a failure.
 */
enum gw_status gw_bench_start(struct gw_bench_group *group,
                              const char *name,
                              const struct gw_bench_child *child,
                              void (*run)(struct gw_bench_child *child),
                              struct gw_error *error);

/* Receives the next message of a process. GW_EDEAD, GW_ETIMEOUT, or its own
   error. */
enum gw_status gw_bench_hear(struct gw_bench_process *process,
                             struct gw_bench_message *message,
                             struct gw_error *error);

/* Orders processes [first, first + n) of a group to run, and waits for all;
   returns the first error. Adds their wrong values to *errors_p. */
enum gw_status gw_bench_order(struct gw_bench_group *group,
                              size_t first,
                              size_t n,
                              enum gw_bench_path path,
                              enum gw_bench_op op,
                              uint64_t *errors_p,
                              struct gw_error *error);

/* The same for a whole group with a single kind of order. */
enum gw_status gw_bench_order_all(struct gw_bench_group *group,
                                  uint64_t *errors_p,
                                  struct gw_error *error);

/* Ends the group's remaining processes. */
void gw_bench_end(struct gw_bench_group *group);

/* The child's side. gw_bench_listen waits, and returns 0 when the parent is
   gone. */
void gw_bench_say(const struct gw_bench_child *child,
                  enum gw_bench_word word,
                  const char *text,
                  uint64_t errors);
void gw_bench_say_failed(const struct gw_bench_child *child,
                         const struct gw_error *error);
int gw_bench_listen(const struct gw_bench_child *child,
                    struct gw_bench_message *order);

/* A worker's times, in us, per iteration. */
double *gw_bench_times(const struct gw_bench_child *child);
double gw_bench_now_us(void);

/* ---- contestants ---- */

/* Runs all contestants of one size in turn and prints their rows. Adds wrong
   values to *errors_p. */
enum gw_status gw_bench_size(const struct gw_bench_options *options,
                             size_t bytes,
                             uint64_t *errors_p,
                             struct gw_error *error);

/* Two processes, of which process 0 measures; they take orders for the limits
   and the ping-pong. */
enum gw_status gw_bench_bare_open(const struct gw_bench_case *what,
                                  struct gw_bench_group *group,
                                  struct gw_error *error);

/* Servers first, then workers, which take orders. */
enum gw_status gw_bench_transport_open(const struct gw_bench_case *what,
                                       struct gw_bench_group *group,
                                       struct gw_error *error);

/* A coordinator, servers, then workers, which take orders (not
   GW_BENCH_PUSH). */
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

/* Counts elements that differ from the pattern in any bit. */
uint64_t gw_bench_wrong(const struct gw_bench_pattern *pattern,
                        size_t elems,
                        const float *array);

/* The same for an array that begins `at` elements into the pattern. */
uint64_t gw_bench_wrong_from(const struct gw_bench_pattern *pattern,
                             size_t at,
                             size_t elems,
                             const float *array);

/* A rank's summand, and the sums of the first n ranks in the order of the
   tree, number by number: nearly every addition rounds, so the bits prove
   the order. */
void gw_bench_summand(uint32_t rank, struct gw_bench_pattern *pattern);
void gw_bench_summed(uint32_t n, struct gw_bench_pattern *pattern);

/* Allocates an array like a shard's: staggered, in huge pages if the system has
   them. NULL: no memory. Freed only by the end of the process. */
float *gw_bench_array(size_t bytes, unsigned number);

/* The same for a window, in memory `shared` with other processes of this host
   if possible. */
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
    uint64_t wire_bytes; /* per iteration, both directions, with headers */
    uint64_t payload_bytes;
    uint64_t errors;
    double p50_us, p99_us, max_us, best_us;
    double ratio; /* to its limit; 0: the row is a limit */
    double *us;   /* measured times, [iterations] */
};

/* Sorts row->us and derives the other figures. */
void gw_bench_sum_up(struct gw_bench_row *row);

/* Speed of a row relative to its limit: above 1 the row is faster. */
double gw_bench_ratio(const struct gw_bench_row *row,
                      const struct gw_bench_row *limit);

const char *gw_bench_op_name(enum gw_bench_op op);

void gw_bench_print_head(const struct gw_bench_options *options);
enum gw_status gw_bench_print_row(const struct gw_bench_options *options,
                                  const struct gw_bench_row *row,
                                  struct gw_error *error);

/* Compares two transports in the table, by their medians: the best of a few
   runs is chance. */
void gw_bench_print_beside(const struct gw_bench_options *options,
                           const struct gw_bench_row *row,
                           const struct gw_bench_row *other);

/* Writes an object as a line of options->json, and frees it. GW_EIO, also for
   NULL (no memory). */
enum gw_status gw_bench_print_json(const struct gw_bench_options *options,
                                   json_t *object,
                                   struct gw_error *error);

/* ---- reduce and update ---- */

enum gw_status gw_bench_update(const struct gw_bench_options *options,
                               struct gw_error *error);

/* ---- the sum inside a node ---- */

/* GW_EUSAGE: no group has that number of workers. */
enum gw_status gw_bench_sum_check(const struct gw_bench_options *options,
                                  struct gw_error *error);
enum gw_status gw_bench_sum(const struct gw_bench_options *options,
                            struct gw_error *error);

#endif
