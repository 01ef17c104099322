/* A plan as tables for people. */
#include "config.h"

#include "cli/plan.h"

#include <inttypes.h>
#include <string.h>

#define COLUMN "%-22s"
#define MIB    (1024.0 * 1024)
#define CLOSE  1.02 /* times; nearer than that is no difference */
#define MORE   1.25 /* times; of a chunk more in one shard than in another */

static size_t rows_of(const struct gw_planned *planned,
                      struct gw_need_row *sum,
                      struct gw_need_row row[GW_NEED_ROWS])
{
    size_t n = gw_needs_rows(&planned->needs, row);
    *sum = (struct gw_need_row){.name = "peak RSS"};
    row[n++] = (struct gw_need_row){
        "program", 0, planned->program, planned->program, planned->program, 1};
    if (planned->blas > 0)
        row[n++] = (struct gw_need_row){"BLAS", 0, planned->blas, 0, 0, 1};
    for (size_t i = 0; i < n; i++) {
        sum->worker += row[i].worker;
        sum->server += row[i].server;
        sum->coordinator += row[i].coordinator;
    }
    /* gzipped files are unpacked while they are mapped, and before the rest */
    uint64_t opening = planned->needs.worker.opening + planned->program;
    if (opening > sum->worker) {
        row[n++] = (struct gw_need_row){
            "more while unpacking", 0, opening - sum->worker, 0, 0, 1};
        sum->worker = opening;
    }
    return n;
}

uint64_t gw_plan_worker_bytes(const struct gw_planned *planned)
{
    struct gw_need_row row[GW_NEED_ROWS], sum;
    rows_of(planned, &sum, row);
    return sum.worker;
}

uint64_t gw_plan_server_bytes(const struct gw_planned *planned)
{
    struct gw_need_row row[GW_NEED_ROWS], sum;
    rows_of(planned, &sum, row);
    return sum.server;
}

uint64_t gw_plan_coordinator_bytes(const struct gw_planned *planned)
{
    struct gw_need_row row[GW_NEED_ROWS], sum;
    rows_of(planned, &sum, row);
    return sum.coordinator;
}

/* ---- the job, and what the plan rests on ---- */

static void print_job(const struct gw_plan_options *options,
                      const struct gw_planned *planned,
                      FILE *out)
{
    const struct gw_config *config = options->config;
    fprintf(out, "# gradweir %s, plan of %s\n", PACKAGE_VERSION, options->file);
    fprintf(out,
            "# memory: sizes that the program takes (manual, section 12); "
            "links and all-reduce:\n"
            "# Jiang et al. OSDI 2020, section 4.1, and Patarasuk and Yuan "
            "JPDC 2009; step: %s\n",
            planned->simulated
                ? "the job simulated"
                : "computing + max(0, exchange - 2/3 computing)");
    fprintf(out, COLUMN "%s, %" PRIu64 " worker%s, %" PRIu64 " server%s\n",
            "job", config->cluster.policy, config->cluster.workers,
            gw_plural(config->cluster.workers), config->cluster.servers,
            gw_plural(config->cluster.servers));
    fprintf(out,
            COLUMN "%" PRIu64
                   " weights, %.2f MB, in %zu chunks of %zu keys%s\n",
            "model", planned->map->model_bytes / 4,
            (double)planned->map->model_bytes / 1e6, planned->map->chunks,
            planned->map->keys, gw_encoding_word(config->train.weights));
    fprintf(out,
            COLUMN "%" PRIu64 " samples, %" PRIu64 " of a worker, %.2f GFLOP\n",
            "step", planned->global_batch, planned->batch,
            (double)planned->sample_flop * (double)planned->batch / 1e9);
}

static void print_figures(const struct gw_plan_options *options,
                          const struct gw_planned *planned,
                          FILE *out)
{
    double flops = (double)planned->sample_flop * (double)planned->batch /
                   planned->compute_s;
    fprintf(out, COLUMN "%.3f ms a step, %.1f GFLOP/s: %s\n", "computing",
            1e3 * planned->compute_s, flops / 1e9, planned->compute_from);
    fprintf(out, COLUMN "%.2f G weights/s of a server's thread: %s\n",
            "reduce+update", planned->update_elems_per_s / 1e9,
            planned->update_from);
    if (options->has_link)
        fprintf(out,
                COLUMN "%.0f Mbit/s of each of %" PRIu32
                       " hosts, %.1f MB/s of payload, %" PRIu64 " us\n",
                "links", 8 * options->link.bytes_per_us,
                planned->worker_hosts + planned->server_hosts,
                planned->rate / 1e6, 2 * options->link.latency_us);
    else
        fprintf(out, COLUMN "none: all are on one machine%s\n", "links",
                planned->shared_links ? ", over shm" : "");
    if (planned->cores > 0)
        fprintf(out,
                COLUMN "%" PRIu32 ", shared by all; %.2f GB/s moved by one\n",
                "cores", planned->cores, 1e-9 / planned->move_s_per_byte);
}

/* ---- memory ---- */

static void print_cell(FILE *out, uint64_t bytes)
{
    if (bytes > 0)
        fprintf(out, "%12.2f", (double)bytes / MIB);
    else
        fprintf(out, "%12s", "");
}

static void print_row(FILE *out, const struct gw_need_row *row)
{
    fprintf(out, COLUMN, row->name);
    print_cell(out, row->worker);
    print_cell(out, row->server);
    print_cell(out, row->coordinator);
    fputc('\n', out);
}

static void print_device(FILE *out,
                         const struct gw_planned *planned,
                         const struct gw_needs_host *host)
{
    fprintf(out, COLUMN "each %.2f", "GPU",
            (double)gw_needs_of_sharer(&planned->needs, host) / MIB);
    if (host->device_bytes != UINT64_MAX)
        fprintf(out, " of %.2f", (double)host->device_bytes / MIB);
    fprintf(out,
            " MiB; its host has a pinned copy of weights, gradients and "
            "batch%s\n",
            host->device_bytes == UINT64_MAX
                ? "; what it has is not known (--device-memory)"
                : "");
}

static void print_hosts(const struct gw_planned *planned, FILE *out)
{
    for (size_t i = 0; i < planned->hosts; i++) {
        const struct gw_needs_host *host = &planned->host[i];
        fprintf(out,
                COLUMN "%" PRIu64 " worker%s, %" PRIu64
                       " server%s: at least %.2f MiB",
                host->name, host->workers, gw_plural(host->workers),
                host->servers, gw_plural(host->servers),
                (double)gw_needs_of_host(&planned->needs, host) / MIB);
        if (host->bytes == UINT64_MAX)
            fputs("; what it has is not known (--host-memory)\n", out);
        else
            fprintf(out, " of %.2f, %s\n", (double)host->bytes / MIB,
                    host->what);
        if (host->devices > 0)
            print_device(out, planned, host);
    }
}

static void print_memory(const struct gw_planned *planned, FILE *out)
{
    struct gw_need_row row[GW_NEED_ROWS], sum;
    size_t n = rows_of(planned, &sum, row);
    fprintf(out, "\n" COLUMN "%12s%12s%12s\n", "memory, MiB", "worker",
            "server", "coordinator");
    for (size_t i = 0; i < n; i++)
        print_row(out, &row[i]);
    print_row(out, &sum);
    print_hosts(planned, out);
}

/* ---- traffic and time ---- */

static void
print_link(FILE *out, const char *name, const struct gw_estimate_link *link)
{
    fprintf(out, COLUMN "%12.3f%12.3f%12.3f%12.3f\n", name, link->push / 1e6,
            link->give / 1e6, link->take / 1e6, link->get / 1e6);
}

static void print_traffic(const struct gw_planned *planned, FILE *out)
{
    if (planned->rate <= 0)
        return;
    fprintf(out, "\n" COLUMN "%12s%12s%12s%12s\n", "MB in a step, of a",
            "out: pushes", "weights", "in: pushes", "weights");
    print_link(out, "host with workers", &planned->worker_link);
    if (planned->server_hosts > 0)
        print_link(out, "host with servers", &planned->server_link);
    if (planned->period > 1)
        fprintf(out, COLUMN "one exchange in %" PRIu64 " steps, the mean\n", "",
                planned->period);
}

static void print_parts(const struct gw_planned *planned, FILE *out)
{
    fprintf(out, "\n" COLUMN "%12s\n", "by itself, a step", "ms");
    for (enum gw_bound i = GW_BOUND_COMPUTE; i < GW_BOUNDS; i++)
        if (planned->seconds[i] > 0)
            fprintf(out, COLUMN "%12.3f%s\n", gw_bound_name(i),
                    1e3 * planned->seconds[i],
                    i == planned->bound ? "  this bounds the step" : "");
}

/* Links that would not be waited for, and servers that others' links are not.
 */
static void print_remedies(const struct gw_planned *planned, FILE *out)
{
    const struct gw_estimate_link *link = &planned->worker_link;
    if (planned->bound == GW_BOUND_WORKER_LINK ||
        planned->bound == GW_BOUND_SERVER_LINK)
        fprintf(out,
                COLUMN "%12.0f Mbit/s of payload hide the exchange in "
                       "backward\n",
                "links that",
                8e-6 * gw_estimate_hiding_rate(gw_estimate_link_bytes(link),
                                               planned->compute_s));
    if (planned->seconds[GW_BOUND_SERVER_LINK] >
        MORE * planned->seconds[GW_BOUND_WORKER_LINK])
        fprintf(out,
                COLUMN "%12" PRIu64 " on hosts of their own have links for "
                       "what workers send\n",
                "servers that",
                gw_estimate_servers(planned->worker_hosts, 1, 1));
}

/* A parameter server beside what it competes with, also where it loses. */
static void print_ring(const struct gw_planned *planned, FILE *out)
{
    double times = planned->ring_step_s / planned->step_s;
    if (planned->rate <= 0)
        return;
    if (planned->worker_hosts < 2) {
        fprintf(out,
                COLUMN "one host has all workers: it needs no network, "
                       "and no server elsewhere\n",
                "all-reduce");
        return;
    }
    fprintf(out,
            COLUMN "%12.3f ms for the exchange, %.3f ms a step: a ring of "
                   "the workers' %" PRIu32 " hosts\n",
            "all-reduce", 1e3 * planned->ring_s, 1e3 * planned->ring_step_s,
            planned->worker_hosts);
    if (times > CLOSE)
        fprintf(out, COLUMN "servers make a step %.2f times as fast\n", "",
                times);
    else
        fprintf(out,
                COLUMN "for speed alone a parameter server is the wrong tool "
                       "here: all-reduce takes\n" COLUMN
                       "%.2f of its time%s; it is for unlike machines, other "
                       "policies, survival\n",
                "", "", times,
                planned->server_hosts > 0 ? " without the servers' hosts" : "");
}

static void print_time(const struct gw_planned *planned, FILE *out)
{
    double rate = (double)planned->global_batch / planned->step_s;
    print_parts(planned, out);
    fprintf(out,
            COLUMN "%12.3f ms, %.0f samples/s, an epoch in %.1f s; bound by "
                   "%s\n",
            "step", 1e3 * planned->step_s, rate,
            planned->step_s * (double)planned->steps_per_epoch,
            gw_bound_name(planned->bound));
    print_remedies(planned, out);
    print_ring(planned, out);
}

void gw_plan_print(const struct gw_plan_options *options,
                   const struct gw_planned *planned,
                   FILE *out)
{
    print_job(options, planned, out);
    if (planned->step_s > 0)
        print_figures(options, planned, out);
    print_memory(planned, out);
    if (planned->step_s > 0) {
        print_traffic(planned, out);
        print_time(planned, out);
    }
}
