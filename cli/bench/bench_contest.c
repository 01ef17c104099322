/*
 * One size: limits and transports, all set up first, which run in turn.
 *
 *   lanes of an operation   limit A, limit B, ping-pong   plain sockets
 *                           transport of shm, of tcp      an entrant for each
 *                           training of shm, of tcp       transport
 */
#include "config.h"

#include "cli/bench/bench.h"

#include <stdlib.h>
#include <sys/mman.h>

#define ORDER_BYTES ((size_t)16 << 20) /* moved per order, at least */
#define LIMITS      GW_BENCH_TRANSPORT

struct entrant {
    struct gw_bench_case what;
    struct gw_bench_group group[GW_BENCH_PATHS - LIMITS];
    struct gw_bench_row row[GW_BENCH_PATHS - LIMITS][GW_BENCH_OPS];
};

struct contest {
    struct gw_bench_case what;
    struct gw_bench_group bare;
    struct gw_bench_row limit[LIMITS][GW_BENCH_OPS];
    struct entrant entrant[GW_BENCH_ROUTES_MAX];
    uint64_t errors;
};

struct lane {
    struct contest *contest;
    struct entrant *entrant; /* NULL: plain sockets */
    enum gw_bench_path path;
    enum gw_bench_op op;
};

static struct gw_bench_row *row_of(const struct lane *lane)
{
    return lane->entrant ? &lane->entrant->row[lane->path - LIMITS][lane->op]
                         : &lane->contest->limit[lane->path][lane->op];
}

static struct gw_bench_group *group_of(const struct lane *lane)
{
    return lane->entrant ? &lane->entrant->group[lane->path - LIMITS]
                         : &lane->contest->bare;
}

static uint32_t workers_of(const struct lane *lane)
{
    return lane->entrant ? lane->contest->what.options->workers : 1;
}

/* Non-zero if the path has this operation at this size. */
static int takes_part(const struct lane *lane)
{
    const struct gw_bench_case *what = &lane->contest->what;
    if (what->options->only_op >= 0 && what->options->only_op != (int)lane->op)
        return 0;
    if (!what->options->network)
        return lane->path == GW_BENCH_TRANSPORT;
    if (lane->path == GW_BENCH_TRAINING)
        return lane->op != GW_BENCH_PUSH;
    return lane->path != GW_BENCH_PING_PONG ||
           what->bytes < GW_BENCH_STREAM_BYTES;
}

/* The limit to compare a row with. */
static enum gw_bench_path limit_of(const struct lane *lane)
{
    if (lane->contest->what.bytes < GW_BENCH_STREAM_BYTES)
        return GW_BENCH_PING_PONG;
    return lane->path == GW_BENCH_TRAINING ? GW_BENCH_LIMIT_B
                                           : GW_BENCH_LIMIT_A;
}

/* Bytes on the wire for one worker: tensor, frame headers, acks and wants. */
static uint64_t wire_bytes(const struct lane *lane)
{
    const struct gw_bench_case *what = &lane->contest->what;
    uint64_t ways = lane->op == GW_BENCH_BOTH ? 2 : 1;
    uint64_t links = what->options->servers * what->options->connections;
    if (links > what->map->chunks)
        links = what->map->chunks;
    if (!lane->entrant)
        return ways * what->bytes + (lane->op == GW_BENCH_BOTH ? 0 : 1);
    uint64_t frames = ways * what->map->chunks;
    if (lane->path == GW_BENCH_TRAINING)
        return ways * what->bytes + 2 * what->map->chunks * GW_FRAME_BYTES +
               links * (GW_FRAME_BYTES + GW_WANT_BYTES);
    return ways * what->bytes +
           (frames + (lane->op == GW_BENCH_BOTH ? 0 : links)) * GW_FRAME_BYTES;
}

/* ---- rows ---- */

static enum gw_status open_row(const struct lane *lane, struct gw_error *error)
{
    const struct gw_bench_case *what = &lane->contest->what;
    struct gw_bench_row *row = row_of(lane);
    *row = (struct gw_bench_row){
        .transport =
            lane->entrant ? lane->entrant->what.route->transport->name : NULL,
        .bytes = what->bytes,
        .path = lane->path,
        .op = lane->op,
        .payload_bytes = workers_of(lane) * what->bytes,
        .wire_bytes = workers_of(lane) * wire_bytes(lane),
        .us = calloc((size_t)what->options->rounds * what->iterations,
                     sizeof *row->us),
    };
    if (!row->us)
        return gw_fail(error, GW_ENOMEM, "bench: no memory for times");
    return GW_OK;
}

/* An iteration takes as long as its slowest worker. */
static void note_times(const struct lane *lane)
{
    const struct gw_bench_case *what = &lane->contest->what;
    struct gw_bench_row *row = row_of(lane);
    for (uint32_t i = 0; i < what->iterations; i++) {
        double us = 0;
        for (uint32_t w = 0; w < workers_of(lane); w++) {
            double its = what->us[(size_t)w * GW_BENCH_ITERS_MAX + i];
            us = its > us ? its : us;
        }
        row->us[row->iterations++] = us;
    }
}

static enum gw_status take_turn(const struct lane *lane, struct gw_error *error)
{
    struct gw_bench_group *group = group_of(lane);
    size_t takers = lane->entrant ? workers_of(lane) : 2;
    enum gw_status status =
        gw_bench_order(group, group->n - takers, takers, lane->path, lane->op,
                       &row_of(lane)->errors, error);
    if (status == GW_OK)
        note_times(lane);
    return status;
}

static enum gw_status sum_up(const struct lane *lane, struct gw_error *error)
{
    (void)error;
    gw_bench_sum_up(row_of(lane));
    return GW_OK;
}

/* Adds the comparison of the first of several transports with this one. */
static enum gw_status print_row(const struct lane *lane, struct gw_error *error)
{
    const struct contest *contest = lane->contest;
    const struct gw_bench_options *options = contest->what.options;
    struct gw_bench_row *row = row_of(lane);
    if (lane->entrant && options->network)
        row->ratio =
            gw_bench_ratio(row, &contest->limit[limit_of(lane)][lane->op]);
    enum gw_status status = gw_bench_print_row(options, row, error);
    if (status == GW_OK && lane->entrant && lane->entrant != contest->entrant)
        gw_bench_print_beside(
            options, &contest->entrant->row[lane->path - LIMITS][lane->op],
            row);
    return status;
}

static enum gw_status each_lane(struct contest *contest,
                                enum gw_status (*call)(const struct lane *lane,
                                                       struct gw_error *error),
                                struct gw_error *error)
{
    enum gw_status status = GW_OK;
    for (int op = 0; op < GW_BENCH_OPS; op++)
        for (int path = 0; path < GW_BENCH_PATHS; path++) {
            uint32_t n = path < LIMITS ? 1 : contest->what.options->routes;
            for (uint32_t i = 0; i < n && status == GW_OK; i++) {
                const struct lane lane = {
                    .contest = contest,
                    .entrant = path < LIMITS ? NULL : &contest->entrant[i],
                    .path = (enum gw_bench_path)path,
                    .op = (enum gw_bench_op)op,
                };
                if (takes_part(&lane))
                    status = call(&lane, error);
            }
        }
    return status;
}

/* ---- set-up and turns ---- */

static enum gw_status open_case(const struct gw_bench_options *options,
                                size_t bytes,
                                struct gw_bench_case *what,
                                struct gw_error *error)
{
    struct gw_key key = {.name = "bench",
                         .dtype = GW_DTYPE_F32,
                         .dims = 1,
                         .shape = {bytes / sizeof(float)}};
    size_t shared = options->workers * GW_BENCH_ITERS_MAX * sizeof *what->us;
    size_t iterations = ORDER_BYTES / bytes;
    if (iterations > GW_BENCH_ITERS_MAX)
        iterations = GW_BENCH_ITERS_MAX;
    *what = (struct gw_bench_case){
        .options = options,
        .bytes = bytes,
        .iterations = iterations > 0 ? (uint32_t)iterations : 1,
        .update = {.scale = 1,
                   .lr = 0.001,
                   .momentum = 0.9,
                   .beta1 = 0.9,
                   .beta2 = 0.999,
                   .eps = 1e-8,
                   .t = 1,
                   .trust_ratio = 1},
    };
    gw_update_prepare(&what->update);
    what->us = mmap(NULL, shared, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (what->us == MAP_FAILED) {
        what->us = NULL;
        return gw_fail(error, GW_ENOMEM, "bench: no memory for times");
    }
    return gw_map_create(&key, 1, options->servers, &what->map, error);
}

static void close_case(struct gw_bench_case *what)
{
    if (what->us)
        munmap(what->us,
               what->options->workers * GW_BENCH_ITERS_MAX * sizeof *what->us);
    gw_map_destroy(what->map);
}

/* Starts all processes, which wait for their turn. */
static enum gw_status open_groups(struct contest *contest,
                                  struct gw_error *error)
{
    const struct gw_bench_options *options = contest->what.options;
    enum gw_status status = GW_OK;
    if (options->network)
        status = gw_bench_bare_open(&contest->what, &contest->bare, error);
    for (uint32_t i = 0; i < options->routes && status == GW_OK; i++) {
        struct entrant *entrant = &contest->entrant[i];
        entrant->what = contest->what;
        entrant->what.route = &options->route[i];
        status =
            gw_bench_transport_open(&entrant->what, &entrant->group[0], error);
        if (status == GW_OK && options->network)
            status = gw_bench_training_open(&entrant->what, &entrant->group[1],
                                            error);
    }
    return status;
}

static enum gw_status count_errors(const struct lane *lane,
                                   struct gw_error *error)
{
    (void)error;
    lane->contest->errors += row_of(lane)->errors;
    free(row_of(lane)->us);
    return GW_OK;
}

static void close_groups(struct contest *contest)
{
    for (uint32_t i = contest->what.options->routes; i-- > 0;) {
        gw_bench_end(&contest->entrant[i].group[1]);
        gw_bench_end(&contest->entrant[i].group[0]);
    }
    gw_bench_end(&contest->bare);
}

static enum gw_status run(struct contest *contest, struct gw_error *error)
{
    enum gw_status status = open_groups(contest, error);
    if (status == GW_OK)
        status = each_lane(contest, open_row, error);
    for (uint32_t r = 0; r < contest->what.options->rounds && status == GW_OK;
         r++)
        status = each_lane(contest, take_turn, error);
    if (status == GW_OK)
        status = each_lane(contest, sum_up, error);
    if (status == GW_OK)
        status = each_lane(contest, print_row, error);
    return status;
}

enum gw_status gw_bench_size(const struct gw_bench_options *options,
                             size_t bytes,
                             uint64_t *errors_p,
                             struct gw_error *error)
{
    struct gw_error none;
    struct contest *contest = calloc(1, sizeof *contest);
    if (!contest)
        return gw_fail(error, GW_ENOMEM, "bench: no memory for a size");
    enum gw_status status = open_case(options, bytes, &contest->what, error);
    if (status == GW_OK)
        status = run(contest, error);
    each_lane(contest, count_errors, &none);
    *errors_p += contest->errors;
    close_groups(contest);
    close_case(&contest->what);
    free(contest);
    return status;
}
