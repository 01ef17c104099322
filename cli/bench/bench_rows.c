/* From times to rows: percentiles, rates, ratios; as a table and as JSON. */
#include "config.h"

#include "cli/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static const char *const op_names[GW_BENCH_OPS] = {
    [GW_BENCH_PUSH] = "push",
    [GW_BENCH_PULL] = "pull",
    [GW_BENCH_BOTH] = "push+pull",
};

static const char *const path_names[GW_BENCH_PATHS] = {
    [GW_BENCH_LIMIT_A] = "limit A",     [GW_BENCH_LIMIT_B] = "limit B",
    [GW_BENCH_PING_PONG] = "ping-pong", [GW_BENCH_TRANSPORT] = "transport",
    [GW_BENCH_TRAINING] = "training",
};

const char *gw_bench_op_name(enum gw_bench_op op)
{
    return op_names[op];
}

static int compare(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Percentile of the times by nearest rank. */
static double percentile(const struct gw_bench_row *row, double share)
{
    size_t rank = (size_t)(share * (double)row->iterations + 0.999999);
    return row->us[rank > 0 ? rank - 1 : 0];
}

void gw_bench_sum_up(struct gw_bench_row *row)
{
    qsort(row->us, row->iterations, sizeof *row->us, compare);
    row->best_us = row->us[0];
    row->p50_us = percentile(row, 0.5);
    row->p99_us = percentile(row, 0.99);
    row->max_us = row->us[row->iterations - 1];
}

/* The best iteration of streams, as for limits; the median of round trips,
   since the best of thousands is a rare accident. */
static double typical_us(const struct gw_bench_row *row)
{
    return row->bytes >= GW_BENCH_STREAM_BYTES ? row->best_us : row->p50_us;
}

static double gb_per_s(const struct gw_bench_row *row, uint64_t bytes)
{
    return (double)bytes / typical_us(row) / 1e3;
}

double gw_bench_ratio(const struct gw_bench_row *row,
                      const struct gw_bench_row *limit)
{
    return gb_per_s(row, row->payload_bytes) /
           gb_per_s(limit, limit->payload_bytes);
}

static const char method[] =
    "# Real processes on this machine, asleep until it is their turn; rows of "
    "a "
    "size take\n"
    "# turns, so that all see the same load. One iteration moves the tensor of "
    "every worker;\n"
    "# the first of each turn is not counted. GB/s payload counts tensor bytes "
    "in one\n"
    "# direction, of the best iteration (below 64 KiB: of the median one); "
    "wire "
    "counts\n"
    "# both directions and headers. Limits: two single-threaded processes, "
    "plain "
    "sockets,\n"
    "# one connection. A polls and echoes each chunk; B does the same "
    "checksums, "
    "reduction\n"
    "# and update as well; ping-pong blocks, and is the limit below 64 KiB by "
    "its median.\n"
    "# transport: puts into windows, no checksum, no update. training: "
    "coordinator, servers\n"
    "# and clients as in a job; its pull is a step without samples, and a push "
    "there is\n"
    "# acknowledged by the weights it made. Times are whole round trips. "
    "errors: "
    "wrong values.\n";

/* "shm", or "shm, tcp". */
static void print_routes(const struct gw_bench_options *options)
{
    for (uint32_t i = 0; i < options->routes; i++)
        fprintf(options->table, "%s%s", i > 0 ? ", " : "",
                options->route[i].transport->name);
}

void gw_bench_print_head(const struct gw_bench_options *options)
{
    struct utsname host = {.nodename = "?"};
    uname(&host);
    if (!options->table)
        return;
    fprintf(options->table, "# gradweir %s, host %s, %s, transport ",
            PACKAGE_VERSION, host.nodename, host.machine);
    print_routes(options);
    fprintf(
        options->table,
        ", host memory, %u worker%s, %u server%s, %u connection%s, %s, %s\n%s",
        options->workers, gw_plural(options->workers), options->servers,
        gw_plural(options->servers), options->connections,
        gw_plural(options->connections), options->optimizer->name,
        gw_update_isa(), method);
    if (options->network || options->put)
        fprintf(options->table,
                "%10s  %-9s  %-9s  %-9s  %6s  %10s  %10s  %10s  %8s  %8s  %6s  "
                "%6s\n",
                "bytes", "op", "path", "transport", "iters", "p50 us", "p99 us",
                "max us", "GB/s", "wire", "ratio", "errors");
}

static const char *transport_of(const struct gw_bench_row *row)
{
    return row->transport ? row->transport : "sockets";
}

static void print_table(const struct gw_bench_options *options,
                        const struct gw_bench_row *row)
{
    char ratio[16] = "-";
    if (row->ratio > 0)
        snprintf(ratio, sizeof ratio, "%.3f", row->ratio);
    fprintf(options->table,
            "%10zu  %-9s  %-9s  %-9s  %6zu  %10.1f  %10.1f  %10.1f  %8.3f  "
            "%8.3f  %6s  %6llu\n",
            row->bytes, op_names[row->op], path_names[row->path],
            transport_of(row), row->iterations, row->p50_us, row->p99_us,
            row->max_us, gb_per_s(row, row->payload_bytes),
            gb_per_s(row, row->wire_bytes), ratio,
            (unsigned long long)row->errors);
    fflush(options->table);
}

void gw_bench_print_beside(const struct gw_bench_options *options,
                           const struct gw_bench_row *row,
                           const struct gw_bench_row *other)
{
    if (options->table)
        fprintf(
            options->table,
            "# %zu bytes, %s, %s: %s is %.2f times as fast as %s, by medians"
            "\n",
            row->bytes, op_names[row->op], path_names[row->path],
            row->transport, other->p50_us / row->p50_us, other->transport);
}

enum gw_status gw_bench_print_json(const struct gw_bench_options *options,
                                   json_t *object,
                                   struct gw_error *error)
{
    int failed = !object ||
                 json_dumpf(object, options->json,
                            JSON_COMPACT | JSON_REAL_PRECISION(9)) ||
                 fputc('\n', options->json) == EOF;
    json_decref(object);
    if (failed)
        return gw_fail(error, GW_EIO, "bench: cannot write to the JSON file");
    return GW_OK;
}

enum gw_status gw_bench_print_row(const struct gw_bench_options *options,
                                  const struct gw_bench_row *row,
                                  struct gw_error *error)
{
    if (options->table)
        print_table(options, row);
    if (!options->json)
        return GW_OK;
    json_t *object = json_pack(
        "{s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, "
        "s:o, s:I}",
        "bytes", (json_int_t)row->bytes, "op", op_names[row->op], "path",
        path_names[row->path], "transport", transport_of(row), "workers",
        (json_int_t)options->workers, "servers", (json_int_t)options->servers,
        "iterations", (json_int_t)row->iterations, "best_us", row->best_us,
        "p50_us", row->p50_us, "p99_us", row->p99_us, "max_us", row->max_us,
        "payload_gb_per_s", gb_per_s(row, row->payload_bytes), "wire_gb_per_s",
        gb_per_s(row, row->wire_bytes), "ratio",
        row->ratio > 0 ? json_real(row->ratio) : json_null(), "errors",
        (json_int_t)row->errors);
    return gw_bench_print_json(options, object, error);
}
