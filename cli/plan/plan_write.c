/* A plan as one JSON object. */
#include "config.h"

#include "cli/plan/plan.h"
#include "cli/json.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Turns "data files, mapped" into data_files_mapped. */
static void name_row(const char *name, char text[32])
{
    size_t n = 0;
    for (; *name && n < 31; name++)
        if (*name == ' ')
            text[n++] = '_';
        else if (*name != ',')
            text[n++] = (char)tolower((unsigned char)*name);
    text[n] = '\0';
}

static json_t *memory_of(const struct gw_planned *planned)
{
    struct gw_need_row row[GW_NEED_ROWS];
    size_t n = gw_needs_rows(&planned->needs, row);
    json_t *worker = json_object(), *server = json_object();
    json_t *gpu = json_object();
    char name[32];
    for (size_t i = 0; i < n; i++) {
        name_row(row[i].name, name);
        if (row[i].gpu)
            gpu = gw_json_with(gpu, name, gw_json_count(row[i].gpu));
        if (row[i].worker)
            worker = gw_json_with(worker, name, gw_json_count(row[i].worker));
        if (row[i].server)
            server = gw_json_with(server, name, gw_json_count(row[i].server));
    }
    if (!planned->is_external) {
        worker =
            gw_json_with(worker, "program", gw_json_count(planned->program));
        worker = gw_json_with(worker, "blas", gw_json_count(planned->blas));
    }
    server = gw_json_with(server, "program", gw_json_count(planned->program));
    json_t *memory = gw_json_with(json_object(), "worker", worker);
    memory = gw_json_with(memory, "server", server);
    return gw_json_with(memory, "gpu", gpu);
}

/* null for a number that only a program of the user's knows. */
static json_t *builtin_count(const struct gw_planned *planned, uint64_t value)
{
    return planned->is_external ? json_null() : gw_json_count(value);
}

/* null for a time that is unknown. */
static json_t *time_of(double seconds)
{
    return seconds > 0 ? json_real(seconds) : json_null();
}

/* null for an unknown limit. */
static json_t *limit_of(uint64_t bytes)
{
    return bytes == UINT64_MAX ? json_null() : gw_json_count(bytes);
}

/* Kinds of hosts, their needs and their limits. */
static json_t *hosts_of(const struct gw_planned *planned)
{
    json_t *hosts = json_array();
    for (size_t i = 0; i < planned->hosts; i++) {
        const struct gw_needs_host *host = &planned->host[i];
        json_t *one = gw_json_with(json_object(), "workers",
                                   gw_json_count(host->workers));
        one = gw_json_with(one, "servers", gw_json_count(host->servers));
        one = gw_json_with(
            one, "needs_bytes",
            gw_json_count(gw_needs_of_host(&planned->needs, host)));
        one = gw_json_with(one, "has_bytes", limit_of(host->bytes));
        if (host->devices > 0) {
            uint64_t sharers = gw_needs_sharers(host);
            one = gw_json_with(one, "gpus", gw_json_count(host->devices));
            one = gw_json_with(
                one, "gpu_needs_bytes",
                gw_json_count(sharers *
                              gw_needs_of_sharer(&planned->needs, host)));
            one = gw_json_with(one, "gpu_has_bytes",
                               limit_of(host->device_bytes));
        }
        if (json_array_append_new(hosts, one) != 0) {
            json_decref(hosts);
            return NULL;
        }
    }
    return hosts;
}

static json_t *moved_of(const struct gw_estimate_device *moved)
{
    json_t *object =
        gw_json_with(json_object(), "bytes_in", json_real(moved->in));
    object = gw_json_with(object, "bytes_out", json_real(moved->out));
    return gw_json_with(object, "bytes_peers", json_real(moved->peers));
}

static json_t *peaks_of(const struct gw_planned *planned)
{
    json_t *peak =
        gw_json_with(json_object(), "coordinator",
                     gw_json_count(gw_plan_coordinator_bytes(planned)));
    peak = gw_json_with(peak, "server",
                        gw_json_count(gw_plan_server_bytes(planned)));
    return gw_json_with(peak, "worker",
                        builtin_count(planned, gw_plan_worker_bytes(planned)));
}

static json_t *link_of(const struct gw_estimate_link *link)
{
    json_t *object = gw_json_with(json_object(), "bytes_out",
                                  json_real(link->push + link->give));
    return gw_json_with(object, "bytes_in", json_real(link->take + link->get));
}

static json_t *parts_of(const struct gw_planned *planned)
{
    static const char *const names[GW_BOUNDS] = {
        [GW_BOUND_COMPUTE] = "compute",
        [GW_BOUND_DEVICE_LINK] = "device_link",
        [GW_BOUND_PEER_LINK] = "peer_link",
        [GW_BOUND_WORKER_LINK] = "worker_link",
        [GW_BOUND_SERVER_LINK] = "server_link",
        [GW_BOUND_UPDATE] = "update",
        [GW_BOUND_CORES] = "cores",
    };
    json_t *parts = json_object();
    for (enum gw_bound i = GW_BOUND_COMPUTE; i < GW_BOUNDS; i++)
        parts = gw_json_with(parts, names[i],
                             i == GW_BOUND_COMPUTE && planned->compute_s <= 0
                                 ? json_null()
                                 : json_real(planned->seconds[i]));
    return gw_json_with(parts, "bound", json_string(names[planned->bound]));
}

/* A worker's bytes in a step, under each of the job's policies. */
static json_t *exchanges_of(const struct gw_planned *planned)
{
    json_t *exchanges = json_array();
    char word[GW_WORD_BYTES];
    for (size_t i = 0; i < planned->exchanges; i++) {
        const struct gw_plan_exchange *exchange = &planned->exchange[i];
        gw_policy_word_print(&exchange->word, word);
        json_t *one = gw_json_with(json_object(), "policy", json_string(word));
        one = gw_json_with(one, "bytes_pushed", json_real(exchange->push));
        one = gw_json_with(one, "bytes_pulled", json_real(exchange->get));
        if (json_array_append_new(exchanges, one) != 0) {
            json_decref(exchanges);
            return NULL;
        }
    }
    return exchanges;
}

/* The job and its needs. */
static json_t *job_of(const struct gw_plan_options *options,
                      const struct gw_planned *planned)
{
    const struct gw_config *config = options->config;
    json_t *object =
        gw_json_with(json_object(), "job", json_string(options->file));
    object =
        gw_json_with(object, "workers", gw_json_count(config->cluster.workers));
    object =
        gw_json_with(object, "servers", gw_json_count(config->cluster.servers));
    object =
        gw_json_with(object, "policy", json_string(config->cluster.policy));
    object = gw_json_with(object, "device",
                          planned->is_external ? json_null()
                                               : json_string(planned->device));
    object = gw_json_with(object, "model_bytes",
                          gw_json_count(planned->map->model_bytes));
    object = gw_json_with(object, "global_batch",
                          builtin_count(planned, planned->global_batch));
    object = gw_json_with(object, "sample_flop",
                          builtin_count(planned, planned->sample_flop));
    object = gw_json_with(object, "exchange", exchanges_of(planned));
    object = gw_json_with(object, "memory_bytes", memory_of(planned));
    object = gw_json_with(object, "peak_rss_bytes", peaks_of(planned));
    object = gw_json_with(object, "gpu_bytes",
                          gw_json_count(gw_plan_gpu_bytes(planned)));
    return gw_json_with(object, "hosts", hosts_of(planned));
}

/* Times and traffic of its steps. */
static json_t *with_times(json_t *object, const struct gw_planned *planned)
{
    if (planned->host[0].devices > 0)
        object =
            gw_json_with(object, "gpu", moved_of(&planned->device_traffic));
    if (planned->rate > 0) {
        object = gw_json_with(object, "payload_bytes_per_s",
                              json_real(planned->rate));
        object =
            gw_json_with(object, "worker_host", link_of(&planned->worker_link));
        object =
            gw_json_with(object, "server_host", link_of(&planned->server_link));
        object =
            gw_json_with(object, "all_reduce_s", json_real(planned->ring_s));
        object = gw_json_with(object, "all_reduce_step_s",
                              planned->compute_s > 0
                                  ? json_real(planned->ring_step_s)
                                  : json_null());
    }
    object = gw_json_with(object, "seconds", parts_of(planned));
    object = gw_json_with(object, "step_s", time_of(planned->step_s));
    if (planned->is_external)
        object =
            gw_json_with(object, "exchange_s", time_of(planned->exchange_s));
    object = gw_json_with(
        object, "samples_per_s",
        planned->is_external
            ? json_null()
            : json_real((double)planned->global_batch / planned->step_s));
    return gw_json_with(object, "simulated", json_boolean(planned->simulated));
}

enum gw_status gw_plan_write(const struct gw_plan_options *options,
                             const struct gw_planned *planned,
                             const char *refused,
                             FILE *out,
                             struct gw_error *error)
{
    json_t *object = job_of(options, planned);
    object = refused ? gw_json_with(object, "refused", json_string(refused))
                     : with_times(object, planned);
    if (!object)
        return gw_fail(error, GW_ENOMEM, "no memory for a plan as JSON");
    int failed = json_dumpf(object, out, JSON_COMPACT) != 0;
    failed |= fputc('\n', out) == EOF || fflush(out) != 0;
    json_decref(object);
    return failed ? gw_fail(error, GW_EIO, "--json: cannot write: %s",
                            strerror(errno))
                  : GW_OK;
}
