/* The sum inside a node, against its own memory traffic. */
#include "config.h"

#include "cli/bench/bench_sum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "transport/link/memory.h"

#define WORKERS     4
#define ORDER_BYTES ((size_t)64 << 20) /* of each gradient, per order */
#define ITERS_MAX   16

static const size_t usual_sizes[] = {
    (size_t)1 << 20,
    (size_t)4 << 20,
    (size_t)16 << 20,
    (size_t)64 << 20,
};

/* ---- rows ---- */

struct result {
    struct gw_bench_row row[GW_SUM_CONTESTANTS];
    double ratio[GW_SUM_CONTESTANTS]; /* the sum's, to it */
    uint64_t wrong;
    int huge;
};

static const char method[] =
    "# Each process sums the chunks that it owns, over all gradients, which "
    "are in shared\n"
    "# memory, as a worker does: all at the same time, from the first that "
    "begins to the last\n"
    "# that ends. Before each pass everybody writes his gradient anew.\n"
    "# bound: the same processes read and write the same bytes of the same "
    "memory, and only\n"
    "# mingle their bits. alone: the same in memory that each has for "
    "himself, and wrote\n"
    "# before. They take turns; us and GB/s are of the median pass, a ratio is "
    "the median over\n"
    "# passes that followed each other. pages: of the gradients. errors: wrong "
    "numbers, against\n"
    "# a plain tree, to the bit.\n";

static void print_head(const struct gw_bench_options *options, uint32_t workers)
{
    struct utsname host = {.nodename = "?"};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uname(&host);
    if (!options->table)
        return;
    fprintf(options->table,
            "# gradweir %s, host %s, %s, reduce-scatter of %u workers on %ld "
            "core%s, %s\n%s"
            "# GB/s counts %u reads and 1 write of a gradient's bytes: what is "
            "written was read\n"
            "# before, so that no line is fetched for the write alone.\n"
            "%10s  %6s  %-5s  %10s  %10s  %8s  %8s  %6s  %8s  %6s  %6s\n",
            PACKAGE_VERSION, host.nodename, host.machine, workers, cores,
            gw_plural((uint64_t)cores), gw_update_isa(), method, workers,
            "bytes", "iters", "pages", "p50 us", "best us", "GB/s", "bound",
            "ratio", "alone", "ratio", "errors");
}

/* Counts n reads and a write of all bytes of a gradient, over all processes. */
static double gb_per_s(const struct gw_bench_row *row, uint32_t workers)
{
    return (double)row->bytes * (workers + 1) / row->p50_us / 1e3;
}

static void print_table(const struct gw_bench_options *options,
                        const struct result *result,
                        uint32_t workers)
{
    const struct gw_bench_row *sum = &result->row[GW_SUM_REDUCE];
    fprintf(options->table,
            "%10zu  %6zu  %-5s  %10.1f  %10.1f  %8.2f  %8.2f  %6.3f  %8.2f  "
            "%6.3f  %6llu\n",
            sum->bytes, sum->iterations, result->huge ? "huge" : "small",
            sum->p50_us, sum->best_us, gb_per_s(sum, workers),
            gb_per_s(&result->row[GW_SUM_BOUND], workers),
            result->ratio[GW_SUM_BOUND],
            gb_per_s(&result->row[GW_SUM_ALONE], workers),
            result->ratio[GW_SUM_ALONE], (unsigned long long)result->wrong);
    fflush(options->table);
}

static enum gw_status print_json(const struct gw_bench_options *options,
                                 const struct result *result,
                                 uint32_t workers,
                                 struct gw_error *error)
{
    const struct gw_bench_row *sum = &result->row[GW_SUM_REDUCE];
    const struct gw_bench_row *bound = &result->row[GW_SUM_BOUND];
    const struct gw_bench_row *alone = &result->row[GW_SUM_ALONE];
    json_t *object = json_pack(
        "{s:I, s:s, s:I, s:I, s:I, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
        "s:f, s:f, s:f, s:I}",
        "bytes", (json_int_t)sum->bytes, "op", "reduce-scatter", "workers",
        (json_int_t)workers, "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
        "iterations", (json_int_t)sum->iterations, "huge_pages", result->huge,
        "p50_us", sum->p50_us, "best_us", sum->best_us, "max_us", sum->max_us,
        "gb_per_s", gb_per_s(sum, workers), "bound_best_us", bound->best_us,
        "bound_gb_per_s", gb_per_s(bound, workers), "ratio",
        result->ratio[GW_SUM_BOUND], "alone_best_us", alone->best_us,
        "alone_gb_per_s", gb_per_s(alone, workers), "alone_ratio",
        result->ratio[GW_SUM_ALONE], "errors", (json_int_t)result->wrong);
    return gw_bench_print_json(options, object, error);
}

/* ---- one size ---- */

/* The barrier is never destroyed: a killed process may have waited at it. */
static enum gw_status open_shared(struct gw_sum_case *what,
                                  struct gw_error *error)
{
    pthread_barrierattr_t among;
    struct gw_sum_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return gw_fail(error, GW_ENOMEM, "bench: no memory for times");
    what->shared = shared;
    int number = pthread_barrierattr_init(&among);
    if (number == 0) {
        number = pthread_barrierattr_setpshared(&among, PTHREAD_PROCESS_SHARED);
        if (number == 0)
            number =
                pthread_barrier_init(&shared->barrier, &among, what->group.n);
        pthread_barrierattr_destroy(&among);
    }
    if (number != 0)
        return gw_fail(error, GW_EIO, "bench: no barrier between processes: %s",
                       strerror(number));
    return GW_OK;
}

static enum gw_status
open_case(struct gw_sum_case *what, size_t bytes, struct gw_error *error)
{
    struct gw_key key = {.name = "bench",
                         .dtype = GW_DTYPE_F32,
                         .dims = 1,
                         .shape = {bytes / sizeof(float)}};
    size_t iterations = ORDER_BYTES / bytes;
    if (iterations > ITERS_MAX)
        iterations = ITERS_MAX;
    what->bytes = bytes;
    what->iterations = iterations > 0 ? (uint32_t)iterations : 1;
    for (uint32_t i = 0; i < what->group.n; i++) {
        what->fd[i] = gw_memory_file("gradweir-bench", bytes);
        if (what->fd[i] < 0)
            return gw_fail(error, GW_EIO, "bench: no shared memory: %s",
                           strerror(errno));
    }
    enum gw_status status = open_shared(what, error);
    return status == GW_OK ? gw_map_create(&key, 1, 1, &what->map, error)
                           : status;
}

static void close_case(struct gw_sum_case *what)
{
    for (uint32_t i = 0; i < what->group.n; i++)
        if (what->fd[i] >= 0)
            close(what->fd[i]);
    if (what->shared)
        munmap(what->shared, sizeof *what->shared);
    gw_map_destroy(what->map);
}

static enum gw_status start(struct gw_sum_case *what,
                            struct gw_bench_group *group,
                            struct gw_error *error)
{
    struct gw_bench_child child = {.owner = what};
    struct gw_bench_message message;
    enum gw_status status = GW_OK;
    for (uint32_t w = 0; w < what->group.n && status == GW_OK; w++) {
        char name[32];
        child.index = w;
        snprintf(name, sizeof name, "worker %u", w);
        status = gw_bench_start(group, name, &child, gw_sum_process, error);
    }
    for (size_t w = 0; w < group->n && status == GW_OK; w++)
        status = gw_bench_hear(&group->process[w], &message, error);
    return status;
}

static enum gw_status round_of(struct gw_bench_group *group,
                               const struct gw_sum_case *what,
                               struct result *result,
                               struct gw_error *error)
{
    enum gw_status status = gw_bench_order_all(group, &result->wrong, error);
    if (status != GW_OK)
        return status;
    for (int who = 0; who < GW_SUM_CONTESTANTS; who++) {
        struct gw_bench_row *row = &result->row[who];
        memcpy(row->us + row->iterations, what->shared->us[who],
               what->iterations * sizeof *row->us);
        row->iterations += what->iterations;
    }
    if (result->wrong > 0)
        return gw_fail(error, GW_ECORRUPT,
                       "bench: %llu numbers in sums of %zu bytes are not those "
                       "of a plain tree",
                       (unsigned long long)result->wrong, what->bytes);
    return GW_OK;
}

/* Compares by the median of consecutive pairs, which met the same
   disturbances. */
static enum gw_status compare(struct result *result, struct gw_error *error)
{
    const struct gw_bench_row *sum = &result->row[GW_SUM_REDUCE];
    struct gw_bench_row pairs = {.iterations = sum->iterations};
    pairs.us = calloc(pairs.iterations, sizeof *pairs.us);
    if (!pairs.us)
        return gw_fail(error, GW_ENOMEM, "bench: no memory for ratios");
    for (int who = 0; who < GW_SUM_CONTESTANTS; who++) {
        for (size_t i = 0; i < pairs.iterations; i++)
            pairs.us[i] = result->row[who].us[i] / sum->us[i];
        gw_bench_sum_up(&pairs);
        result->ratio[who] = pairs.p50_us;
    }
    free(pairs.us);
    return GW_OK;
}

static enum gw_status measure(const struct gw_bench_options *options,
                              struct gw_sum_case *what,
                              struct result *result,
                              struct gw_error *error)
{
    struct gw_bench_group group = {0};
    for (int who = 0; who < GW_SUM_CONTESTANTS; who++) {
        struct gw_bench_row *row = &result->row[who];
        row->bytes = what->bytes;
        row->us =
            calloc((size_t)options->rounds * what->iterations, sizeof *row->us);
        if (!row->us)
            return gw_fail(error, GW_ENOMEM, "bench: no memory for times");
    }
    enum gw_status status = start(what, &group, error);
    for (uint32_t r = 0; r < options->rounds && status == GW_OK; r++)
        status = round_of(&group, what, result, error);
    gw_bench_end(&group);
    if (status != GW_OK)
        return status;
    result->huge = 1;
    for (uint32_t i = 0; i < what->group.n; i++)
        result->huge &= what->shared->huge[i];
    status = compare(result, error); /* before they are sorted */
    for (int who = 0; who < GW_SUM_CONTESTANTS; who++)
        gw_bench_sum_up(&result->row[who]);
    return status;
}

static enum gw_status run_size(const struct gw_bench_options *options,
                               uint32_t workers,
                               size_t bytes,
                               struct gw_error *error)
{
    struct gw_sum_case what = {.group = {.n = workers}};
    struct result result = {0};
    for (uint32_t i = 0; i < workers; i++)
        what.fd[i] = -1;
    enum gw_status status = open_case(&what, bytes, error);
    if (status == GW_OK)
        status = measure(options, &what, &result, error);
    if (status == GW_OK && options->table)
        print_table(options, &result, workers);
    if (status == GW_OK && options->json)
        status = print_json(options, &result, workers, error);
    for (int who = 0; who < GW_SUM_CONTESTANTS; who++)
        free(result.row[who].us);
    close_case(&what);
    return status;
}

enum gw_status gw_bench_sum_check(const struct gw_bench_options *options,
                                  struct gw_error *error)
{
    uint32_t n = options->workers;
    if (options->sum && n > 0 && (n == 1 || (n & (n - 1)) != 0))
        return gw_fail(error, GW_EUSAGE,
                       "bench: sum: --workers %u: takes 2, 4, 8 or 16, as a "
                       "group has them",
                       n);
    return GW_OK;
}

enum gw_status gw_bench_sum(const struct gw_bench_options *options,
                            struct gw_error *error)
{
    uint32_t workers = options->workers > 0 ? options->workers : WORKERS;
    int usual = options->sizes == 0;
    const size_t *size = usual ? usual_sizes : options->size;
    size_t sizes =
        usual ? sizeof usual_sizes / sizeof *usual_sizes : options->sizes;
    enum gw_status status = GW_OK;
    print_head(options, workers);
    for (size_t i = 0; i < sizes && status == GW_OK; i++)
        status = run_size(options, workers, size[i], error);
    return status;
}
