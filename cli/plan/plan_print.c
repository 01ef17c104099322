/* A plan as tables for people. */
#include "config.h"

#include "cli/plan/plan.h"

#include <inttypes.h>
#include <string.h>

#define COLUMN "%-22s"
#define MIB    (1024.0 * 1024)
#define CLOSE  1.02 /* factor; below it there is no difference */
#define MORE   1.25 /* factor; a chunk more in one shard than in another */
/* Bytes per second above every link, and every path between host and GPU. */
#define LINK_MOST (1600e9 / 8)
#define WAY_MOST  1e12
#define DISK_MOST 20e9

static size_t rows_of(const struct gw_planned *planned,
                      struct gw_need_row *sum,
                      struct gw_need_row row[GW_NEED_ROWS])
{
    size_t n = gw_needs_rows(&planned->needs, row);
    *sum = (struct gw_need_row){.name = "peak RSS"};
    row[n++] = (struct gw_need_row){"program",
                                    0,
                                    planned->is_external ? 0 : planned->program,
                                    planned->program,
                                    planned->program,
                                    1};
    if (planned->blas > 0)
        row[n++] = (struct gw_need_row){"BLAS", 0, planned->blas, 0, 0, 1};
    for (size_t i = 0; i < n; i++) {
        sum->gpu += row[i].gpu;
        sum->worker += row[i].worker;
        sum->server += row[i].server;
        sum->coordinator += row[i].coordinator;
    }
    /* gzipped files are unpacked from their mapping, before the rest is
       allocated */
    uint64_t opening = planned->needs.worker.opening + planned->program;
    if (!planned->is_external && opening > sum->worker) {
        row[n++] = (struct gw_need_row){
            "more while unpacking", 0, opening - sum->worker, 0, 0, 1};
        sum->worker = opening;
    }
    return n;
}

uint64_t gw_plan_gpu_bytes(const struct gw_planned *planned)
{
    struct gw_need_row row[GW_NEED_ROWS], sum;
    rows_of(planned, &sum, row);
    return sum.gpu;
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

/* ---- the job, and the plan's assumptions ---- */

static void print_model(const struct gw_config *config,
                        const struct gw_planned *planned,
                        FILE *out)
{
    const struct gw_map *map = planned->map;
    fprintf(out, COLUMN "%" PRIu64 " weights, %.2f MB, in %zu chunks", "model",
            map->model_bytes / 4, (double)map->model_bytes / 1e6, map->chunks);
    if (planned->is_external)
        fprintf(out,
                "%s: --weights\n" COLUMN
                "not known: your program has data, batches and arithmetic\n",
                gw_encoding_word(config->train.weights), "step");
    else
        fprintf(out, " of %zu keys%s\n", map->keys,
                gw_encoding_word(config->train.weights));
    if (gw_config_optimizer_is_open(config))
        fprintf(out, COLUMN "the program's, counted as %s (optimizer.kind)\n",
                "optimizer", gw_config_optimizer(config));
}

/* A step of a model of gradweir's. */
static void print_step(const struct gw_planned *planned, FILE *out)
{
    fprintf(out,
            COLUMN "%" PRIu64 " samples, %" PRIu64 " of a worker, %.2f GFLOP\n",
            "step", planned->global_batch, planned->batch,
            (double)planned->sample_flop * (double)planned->batch / 1e9);
    fprintf(out, COLUMN "%s\n", "workers compute on", planned->device);
}

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
    print_model(config, planned, out);
    if (!planned->is_external)
        print_step(planned, out);
}

/* Between a GPU and its host, and between GPUs. */
static void print_routes(const struct gw_planned *planned, FILE *out)
{
    if (planned->device_rate > 0)
        fprintf(out, COLUMN "%.4g GB/s each way: %s\n", "host to GPU",
                planned->device_rate / 1e9, planned->device_rate_from);
    else
        fprintf(out,
                COLUMN "not given, and no GPU is here to be asked: what goes "
                       "there and back takes no\n" COLUMN
                       "time in this plan (--device-link)\n",
                "host to GPU", "");
    if (planned->device_traffic.peers <= 0)
        return;
    if (planned->peer_rate > 0)
        fprintf(out, COLUMN "%.4g GB/s each way: --peer-link\n", "GPU to GPU",
                planned->peer_rate / 1e9);
    else
        fprintf(out, COLUMN "the way between host and GPU (--peer-link)\n",
                "GPU to GPU");
}

static void print_compute(const struct gw_planned *planned, FILE *out)
{
    double flop = (double)planned->sample_flop * (double)planned->batch;
    if (planned->compute_s <= 0)
        fprintf(out, COLUMN "not known: your program's (--step-time)\n",
                "computing");
    else if (planned->is_external)
        fprintf(out, COLUMN "%.3f ms a step: %s\n", "computing",
                1e3 * planned->compute_s, planned->compute_from);
    else
        fprintf(out, COLUMN "%.3f ms a step, %.1f GFLOP/s: %s\n", "computing",
                1e3 * planned->compute_s, flop / planned->compute_s / 1e9,
                planned->compute_from);
}

static void print_figures(const struct gw_plan_options *options,
                          const struct gw_planned *planned,
                          FILE *out)
{
    print_compute(planned, out);
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
    if (planned->host[0].devices > 0)
        print_routes(planned, out);
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

static void print_row(FILE *out, const struct gw_need_row *row, int has_devices)
{
    fprintf(out, COLUMN, row->name);
    if (has_devices)
        print_cell(out, row->gpu);
    print_cell(out, row->worker);
    print_cell(out, row->server);
    print_cell(out, row->coordinator);
    fputc('\n', out);
}

/* The devices of a host with workers. */
static void print_devices(FILE *out,
                          const struct gw_planned *planned,
                          const struct gw_needs_host *host)
{
    uint64_t sharers = gw_needs_sharers(host);
    double needed =
        (double)(sharers * gw_needs_of_sharer(&planned->needs, host)) / MIB;
    fprintf(out,
            COLUMN "%u, with up to %" PRIu64
                   " worker%s each: at least %.2f MiB",
            "its GPUs", host->devices, sharers, gw_plural(sharers), needed);
    if (host->device_bytes == UINT64_MAX)
        fputs("; what they have is not known (--gpu-memory)\n", out);
    else
        fprintf(out, " of %.2f, %s\n", (double)host->device_bytes / MIB,
                host->device_what);
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
            print_devices(out, planned, host);
    }
}

static void print_memory(const struct gw_planned *planned, FILE *out)
{
    struct gw_need_row row[GW_NEED_ROWS], sum;
    size_t n = rows_of(planned, &sum, row);
    int has_devices = planned->host[0].devices > 0;
    const struct gw_need_row device = {.name = "in all, of a GPU",
                                       .gpu = sum.gpu};
    const struct gw_need_row library = {.name = "libgradweir.so, in all",
                                        .worker = sum.worker};
    sum.gpu = 0;
    if (planned->is_external)
        sum.worker = 0;
    fprintf(out, "\n" COLUMN, "memory, MiB");
    if (has_devices)
        fprintf(out, "%12s", "GPU");
    fprintf(out, "%12s%12s%12s\n", "worker", "server", "coordinator");
    for (size_t i = 0; i < n; i++)
        print_row(out, &row[i], has_devices);
    if (has_devices)
        print_row(out, &device, has_devices);
    if (planned->is_external)
        print_row(out, &library, has_devices);
    print_row(out, &sum, has_devices);
    print_hosts(planned, out);
    if (planned->needs.server.landing > 0)
        fprintf(out,
                COLUMN "no more: what workers send ahead waits with them, a "
                       "server has its landing slots\n",
                "under overload");
    if (planned->is_external)
        fputs(
            "of a worker's memory this is the part of libgradweir.so; your "
            "program's own, with its\ncopy of the model, activations and data, "
            "is not known\n",
            out);
    if (has_devices)
        fputs("what CUDA's libraries take of a worker's host is not in this\n",
              out);
}

/* ---- traffic and time ---- */

static void
print_link(FILE *out, const char *name, const struct gw_estimate_link *link)
{
    fprintf(out, COLUMN "%12.3f%12.3f%12.3f%12.3f\n", name, link->push / 1e6,
            link->give / 1e6, link->take / 1e6, link->get / 1e6);
}

static void print_device_traffic(const struct gw_planned *planned, FILE *out)
{
    const struct gw_estimate_device *moved = &planned->device_traffic;
    if (planned->host[0].devices == 0)
        return;
    fprintf(out, "\n" COLUMN "%12s%12s%12s%12s\n", "MB in a step, of a",
            "from host", "to host", "from GPUs", "to GPUs");
    fprintf(out, COLUMN "%12.3f%12.3f%12.3f%12.3f\n", "GPU", moved->in / 1e6,
            moved->out / 1e6, moved->peers / 1e6, moved->peers / 1e6);
}

/* A worker's bytes, under each of the job's policies. */
static void print_exchanges(const struct gw_planned *planned, FILE *out)
{
    char word[GW_WORD_BYTES], name[sizeof "worker, " + GW_WORD_BYTES];
    for (size_t i = 0; i < planned->exchanges; i++) {
        const struct gw_plan_exchange *exchange = &planned->exchange[i];
        const struct gw_estimate_link link = {.push = exchange->push,
                                              .get = exchange->get};
        gw_policy_word_print(&exchange->word, word);
        snprintf(name, sizeof name, "worker, %s", word);
        print_link(out, name, &link);
    }
}

static void print_traffic(const struct gw_planned *planned, FILE *out)
{
    print_device_traffic(planned, out);
    fprintf(out, "\n" COLUMN "%12s%12s%12s%12s\n", "MB in a step, of a",
            "out: pushes", "weights", "in: pushes", "weights");
    print_exchanges(planned, out);
    if (planned->rate <= 0)
        return;
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

/* Prints the rate of a link that would not be waited for. */
static void print_hiding(const struct gw_planned *planned, FILE *out)
{
    const struct gw_estimate_device *moved = &planned->device_traffic;
    double bytes = gw_estimate_link_bytes(&planned->worker_link);
    int of_link = planned->bound == GW_BOUND_WORKER_LINK ||
                  planned->bound == GW_BOUND_SERVER_LINK;
    if (planned->bound == GW_BOUND_DEVICE_LINK)
        bytes = (moved->in > moved->out ? moved->in : moved->out) +
                (planned->peer_rate > 0 ? 0 : moved->peers);
    else if (!of_link)
        return;
    if (planned->compute_s <= 0) {
        fprintf(out,
                COLUMN "%12.3f ms and more hides the exchange in backward\n",
                "computing of",
                1e3 * 3 / 2 * planned->exchange_s * (double)planned->period);
        return;
    }
    double rate = gw_estimate_hiding_rate(bytes, planned->compute_s);
    if (rate > (of_link ? LINK_MOST : WAY_MOST))
        fprintf(out, COLUMN "none hides %.2f MB in the %.3f ms of backward\n",
                of_link ? "links that" : "ways to GPUs that", bytes / 1e6,
                1e3 * planned->compute_s * 2 / 3);
    else if (of_link)
        fprintf(out,
                COLUMN "%12.0f Mbit/s of payload hide the exchange in "
                       "backward\n",
                "links that", 8e-6 * rate);
    else
        fprintf(out,
                COLUMN "%12.2f GB/s each way hide the exchange in backward\n",
                "ways to GPUs that", 1e-9 * rate);
}

/* Also for the number of servers. */
static void print_remedies(const struct gw_planned *planned, FILE *out)
{
    print_hiding(planned, out);
    if (planned->seconds[GW_BOUND_SERVER_LINK] >
        MORE * planned->seconds[GW_BOUND_WORKER_LINK])
        fprintf(out,
                COLUMN "%12" PRIu64 " on hosts of their own have links for "
                       "what workers send\n",
                "servers that",
                gw_estimate_servers(planned->worker_hosts, 1, 1));
}

/* Seconds between checkpoints; 0: none is due. */
static double checkpoint_s(const struct gw_config *config,
                           const struct gw_planned *planned)
{
    const struct gw_every *every = &config->checkpoint.every;
    switch (every->unit) {
    case GW_STEPS:
        return (double)every->n * planned->step_s;
    case GW_EPOCHS:
        return (double)(every->n * planned->steps_per_epoch) * planned->step_s;
    case GW_SECONDS:
        return (double)every->n;
    default:
        return 0;
    }
}

static void print_checkpoint(const struct gw_config *config,
                             const struct gw_planned *planned,
                             FILE *out)
{
    double bytes = (double)planned->needs.server.snapshot;
    double every_s = checkpoint_s(config, planned);
    if (bytes <= 0 || every_s <= 0)
        return;
    double rate = 100 * bytes / every_s;
    fprintf(out, COLUMN "%.2f MB of a server every %.3g s: ", "checkpoint",
            bytes / 1e6, every_s);
    if (rate > DISK_MOST)
        fprintf(out, "no disk takes less than 1 %% of the time for that\n");
    else
        fprintf(out, "a disk of %.1f MB/s takes 1 %% of the time\n",
                rate / 1e6);
}

/* Compares the parameter server with an all-reduce, also where it loses. */
static void print_ring(const struct gw_planned *planned, FILE *out)
{
    double times = planned->step_s > 0 ? planned->ring_step_s / planned->step_s
                                       : planned->ring_s / planned->exchange_s;
    const char *what = planned->step_s > 0 ? "a step" : "the exchange";
    if (planned->rate <= 0)
        return;
    if (planned->worker_hosts < 2) {
        fprintf(out,
                COLUMN "one host has all workers: it needs no network, "
                       "and no server elsewhere\n",
                "all-reduce");
        return;
    }
    fprintf(out, COLUMN "%12.3f ms for the exchange", "all-reduce",
            1e3 * planned->ring_s);
    if (planned->step_s > 0)
        fprintf(out, ", %.3f ms a step", 1e3 * planned->ring_step_s);
    fprintf(out, ": a ring of the workers' %" PRIu32 " hosts\n",
            planned->worker_hosts);
    if (times > CLOSE)
        fprintf(out, COLUMN "servers make %s %.2f times as fast\n", "", what,
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

/* The part of a step that is known if a program's computing is not. */
static void print_exchange(const struct gw_planned *planned, FILE *out)
{
    fprintf(out, COLUMN "%12.3f ms, bound by %s\n", "exchange",
            1e3 * planned->exchange_s, gw_bound_name(planned->bound));
    fprintf(out,
            COLUMN
            "not known: computing alone, if the exchange hides in it, up "
            "to the sum of both\n",
            "step");
}

/* A program's samples are unknown. */
static void print_whole(const struct gw_planned *planned, FILE *out)
{
    const char *bound = gw_bound_name(planned->bound);
    if (planned->step_s <= 0)
        print_exchange(planned, out);
    else if (planned->is_external)
        fprintf(out, COLUMN "%12.3f ms, %.4g steps/s; bound by %s\n", "step",
                1e3 * planned->step_s, 1 / planned->step_s, bound);
    else
        fprintf(out,
                COLUMN "%12.3f ms, %.0f samples/s, an epoch in %.1f s; bound "
                       "by %s\n",
                "step", 1e3 * planned->step_s,
                (double)planned->global_batch / planned->step_s,
                planned->step_s * (double)planned->steps_per_epoch, bound);
}

static void print_time(const struct gw_config *config,
                       const struct gw_planned *planned,
                       FILE *out)
{
    print_parts(planned, out);
    print_whole(planned, out);
    print_remedies(planned, out);
    print_checkpoint(config, planned, out);
    print_ring(planned, out);
}

void gw_plan_print(const struct gw_plan_options *options,
                   const struct gw_planned *planned,
                   FILE *out)
{
    print_job(options, planned, out);
    if (planned->has_times)
        print_figures(options, planned, out);
    print_memory(planned, out);
    if (planned->has_times) {
        print_traffic(planned, out);
        print_time(options->config, planned, out);
    }
}
