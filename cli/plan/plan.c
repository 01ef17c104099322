#include "config.h"

#include "cli/plan/plan_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/plan/forecast.h"
#include "kernels/update/update.h"
#include "transport/link/transport.h"

/*
 * Share of an Ethernet's rate that TCP leaves for payload: 1448 bytes of the
 * 1538 of a full frame with preamble and gap; for RDMA with frames of 4 KiB.
 */
#define TCP_PAYLOAD  (1448.0 / 1538)
#define RDMA_PAYLOAD 0.97

/* Buffers of OpenBLAS on one thread, if they are not measured. */
#define BLAS_BYTES ((uint64_t)6 << 20)

static uint32_t servers_of(const struct planning *planning)
{
    return (uint32_t)planning->config->cluster.servers;
}

/* Workers of a host. */
static uint32_t per_host(const struct planning *planning)
{
    uint32_t n = planning->options->per_host;
    if (n > 0)
        return n;
    return planning->options->has_link ? 1 : gw_planning_workers(planning);
}

/* ---- memory ---- */

static uint64_t host_bytes(const struct planning *planning)
{
    const struct gw_plan_options *options = planning->options;
    if (options->host_bytes > 0)
        return (uint64_t)options->host_bytes;
    return options->has_link ? UINT64_MAX : planning->planned->available.bytes;
}

static enum gw_status add_host(struct planning *planning,
                               const char *name,
                               uint64_t workers,
                               uint64_t servers)
{
    const struct gw_plan_options *options = planning->options;
    struct gw_planned *planned = planning->planned;
    struct gw_needs_host *host = &planned->host[planned->hosts++];
    *host = (struct gw_needs_host){
        .name = name,
        .workers = workers,
        .servers = servers,
        .all = !options->has_link,
        .bytes = host_bytes(planning),
        .what = options->host_bytes > 0 ? "given"
                                        : planning->planned->available.what,
    };
    enum gw_status status = gw_plan_count_devices(planning, host);
    if (status != GW_OK)
        planned->hosts--;
    return status;
}

static enum gw_status place(struct planning *planning)
{
    struct gw_planned *planned = planning->planned;
    uint32_t each = per_host(planning), servers = servers_of(planning);
    uint32_t hosts = (gw_planning_workers(planning) + each - 1) / each;
    uint64_t threads = planning->config->server.threads, beside = 0;
    planned->worker_hosts = hosts;
    planning->server_host = calloc(servers, sizeof *planning->server_host);
    planning->server_bytes = calloc(servers, sizeof *planning->server_bytes);
    if (!planning->server_host || !planning->server_bytes)
        return gw_fail(planning->error, GW_ENOMEM, "no memory for a plan");
    for (uint32_t s = 0; s < servers * threads; s++)
        planning->server_bytes[s / threads] +=
            (double)planned->map->shard_bytes[s];
    if (!planning->options->has_link)
        return add_host(planning, "this host", gw_planning_workers(planning),
                        servers);
    enum gw_status status = gw_placement_fits(&planning->options->placement,
                                              hosts, planning->error);
    if (status == GW_OK)
        status =
            gw_placement_fill(&planning->options->placement, hosts, servers,
                              planning->server_host, planning->error);
    if (status != GW_OK)
        return status;
    uint32_t most = 0;
    for (uint32_t s = 0; s < servers; s++) {
        beside += planning->server_host[s] == 0;
        if (planning->server_host[s] > most)
            most = planning->server_host[s];
    }
    planned->server_hosts = most >= hosts ? most + 1 - hosts : 0;
    status = add_host(planning, "a host with workers",
                      each < gw_planning_workers(planning)
                          ? each
                          : gw_planning_workers(planning),
                      beside);
    if (status != GW_OK || planned->server_hosts == 0)
        return status;
    uint64_t alone = 0;
    for (uint32_t s = 0; s < servers; s++)
        alone += planning->server_host[s] == hosts;
    return add_host(planning, "a host with servers", 0, alone);
}

static struct gw_estimate_hosts hosts_of(const struct planning *planning)
{
    return (struct gw_estimate_hosts){
        .workers = gw_planning_workers(planning),
        .per_host = per_host(planning),
        .servers = servers_of(planning),
        .server_host = planning->server_host,
        .server_bytes = planning->server_bytes,
        .sums = planning->word.kind == GW_POLICY_SYNC &&
                gw_config_may_sum(planning->config),
        .weights = planning->config->train.weights,
    };
}

/* Non-zero if links within a host use shared memory, as they do here. */
static int has_shared_links(const struct gw_config *config)
{
    struct gw_routes routes;
    struct gw_error other;
    char why[256];
    return gw_routes_find(config->cluster.transport, &routes, why, sizeof why,
                          &other) == GW_OK &&
           gw_routes_memory(routes.data) == GW_MEMORY_SHARED;
}

static enum gw_status check_memory(struct planning *planning)
{
    struct gw_planned *planned = planning->planned;
    const struct gw_estimate_hosts hosts = hosts_of(planning);
    planned->shared_links = has_shared_links(planning->config);
    enum gw_status status = gw_needs_count(
        &planning->what, planned->map, planned->shared_links ? &hosts : NULL,
        &planned->needs, planning->error);
    for (size_t i = 0; status == GW_OK && i < planned->hosts; i++)
        status =
            gw_needs_check(&planning->what, &planned->host[i], planning->error);
    planned->does_not_fit = status == GW_ENOMEM;
    return status;
}

/* ---- figures ---- */

static uint32_t shared_cores(const struct planning *planning)
{
    long here = sysconf(_SC_NPROCESSORS_ONLN);
    if (planning->options->cores > 0)
        return planning->options->cores;
    return planning->options->has_link ? 0 : (uint32_t)(here > 0 ? here : 1);
}

/* Number of workers that compute at once on this one's host; on devices each
   has its own. */
static unsigned at_once(const struct planning *planning)
{
    if (gw_planning_is_on_device(planning))
        return 1;
    long here = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = planning->options->cores > 0 ? gw_planning_workers(planning)
                                              : per_host(planning);
    uint64_t bytes = gw_needs_worker(&planning->planned->needs) + 1;
    uint64_t room = planning->planned->available.bytes / bytes;
    n = n < gw_planning_workers(planning) ? n : gw_planning_workers(planning);
    n = (long)n < here ? n : (uint32_t)here;
    return n < room ? n : (unsigned)room;
}

static enum gw_status measure_step(struct planning *planning)
{
    struct gw_planned *planned = planning->planned;
    struct gw_calibrate_step step;
    unsigned n = at_once(planning);
    if (!planned->device_is_here)
        return gw_fail(planning->error, GW_EUNSUPPORTED,
                       "a step cannot be measured here, give --step-time or "
                       "--flops: %.300s",
                       planned->why_not_here);
    if (n == 0)
        return gw_fail(planning->error, GW_ENOMEM,
                       "a step cannot be measured here, it needs %.2f GiB; "
                       "give --step-time or --flops",
                       (double)gw_needs_worker(&planned->needs) / (1 << 30));
    enum gw_status status =
        gw_calibrate_step(&planning->what, n, &step, planning->error);
    if (status != GW_OK)
        return status;
    planned->compute_s = step.step_s;
    planned->blas = step.blas_bytes;
    snprintf(planned->compute_from, sizeof planned->compute_from,
             "measured here, %u worker%s at once, %.100s", n, gw_plural(n),
             step.device);
    return GW_OK;
}

static enum gw_status find_compute(struct planning *planning)
{
    const struct gw_plan_options *options = planning->options;
    struct gw_planned *planned = planning->planned;
    planned->blas = planned->is_external || gw_planning_is_on_device(planning)
                        ? 0
                        : BLAS_BYTES;
    if (options->step_s > 0) {
        planned->compute_s = options->step_s;
        strcpy(planned->compute_from, "--step-time");
    } else if (options->flops > 0) {
        planned->compute_s = (double)planned->sample_flop *
                             (double)planned->batch / options->flops;
        strcpy(planned->compute_from, "--flops");
    } else if (!planned->is_external) {
        return measure_step(planning);
    }
    return GW_OK;
}

static double most_bytes(const struct planning *planning)
{
    double most = 0;
    for (size_t s = 0; s < planning->planned->map->shards; s++)
        most = fmax(most, (double)planning->planned->map->shard_bytes[s]);
    return most;
}

/* Bytes of memory traffic per weight; steps applied as a whole keep the sum
   until then. */
static double update_bytes(const struct planning *planning,
                           double slots,
                           const struct gw_optimizer *optimizer)
{
    if (optimizer->two_phase ||
        gw_config_whole_step_under(planning->config, &planning->word))
        return gw_estimate_sum_bytes(slots, 1) +
               gw_estimate_optimizer_bytes(optimizer->states);
    return gw_estimate_update_bytes(slots, optimizer->states);
}

static enum gw_status find_update(struct planning *planning)
{
    const struct gw_plan_options *options = planning->options;
    struct gw_planned *planned = planning->planned;
    int together = gw_policy_is_together(planning->word.kind);
    double slots = together ? gw_planning_workers(planning) : 1;
    if (options->memory_rate > 0) {
        const struct gw_optimizer *optimizer = gw_optimizer_find(
            gw_config_policy_terms(planning->config, &planning->word).server);
        planned->update_elems_per_s =
            1 / gw_estimate_memory_s(1,
                                     update_bytes(planning, slots, optimizer),
                                     1, options->memory_rate);
        planned->update_from = "--memory-rate";
        return GW_OK;
    }
    planned->update_from = "measured here";
    return gw_calibrate_update(planning->config, (uint64_t)most_bytes(planning),
                               &planned->update_elems_per_s, planning->error);
}

static enum gw_status find_figures(struct planning *planning)
{
    const struct gw_plan_options *options = planning->options;
    struct gw_planned *planned = planning->planned;
    int rdma = strcmp(planning->config->cluster.transport, "rdma") == 0;
    planned->cores = shared_cores(planning);
    if (options->has_link)
        planned->rate = 1e6 * options->link.bytes_per_us *
                        (rdma ? RDMA_PAYLOAD : TCP_PAYLOAD);
    enum gw_status status = find_compute(planning);
    if (status == GW_OK)
        status = find_update(planning);
    if (status == GW_OK)
        status = gw_plan_find_device_rates(planning);
    if (status != GW_OK || planned->cores == 0)
        return status;
    if (planned->shared_links && !options->has_link)
        return gw_calibrate_copy(planned->map->model_bytes,
                                 &planned->move_s_per_byte, planning->error);
    return gw_calibrate_move(&planned->move_s_per_byte, planning->error);
}

/* ---- bytes and time ---- */

static void find_traffic(struct planning *planning)
{
    struct gw_planned *planned = planning->planned;
    const struct gw_estimate_hosts hosts = hosts_of(planning);
    double period = (double)planned->period;
    if (!planning->options->has_link)
        return;
    for (uint32_t host = 0;
         host < planned->worker_hosts + planned->server_hosts; host++) {
        struct gw_estimate_link link = gw_estimate_link_of(&hosts, host);
        struct gw_estimate_link *most = host < planned->worker_hosts
                                            ? &planned->worker_link
                                            : &planned->server_link;
        link.push /= period;
        link.give /= period;
        link.take /= period;
        link.get /= period;
        if (gw_estimate_link_bytes(&link) > gw_estimate_link_bytes(most))
            *most = link;
    }
}

/* Core seconds of a step for servers and for moving bytes, at both ends. */
static double handling_s(const struct planning *planning)
{
    const struct gw_planned *planned = planning->planned;
    double workers = gw_planning_workers(planning),
           period = (double)planned->period;
    double model = (double)planned->map->model_bytes;
    double updates = gw_policy_is_together(planning->word.kind) ? 1 : workers;
    /* per number, as a gradient and as a weight; over shm, too, a gradient that
       is read in place comes from another core's cache */
    double moved =
        sizeof(float) + gw_encoded_bytes(planning->config->train.weights, 1);
    return (workers * model / sizeof(float) * moved * planned->move_s_per_byte +
            updates * model / 4 / planned->update_elems_per_s) /
           period;
}

/* Cores that one worker keeps busy: 0 with a device, and for a program, whose
   time is given as it is beside the others. */
static double cores_of_worker(const struct planning *planning)
{
    return planning->planned->is_external || gw_planning_is_on_device(planning)
               ? 0
               : (double)planning->config->worker.threads;
}

/* Workers that share a device compute in turn. */
static double compute_on_device_s(const struct gw_planned *planned)
{
    uint64_t sharers = gw_needs_sharers(&planned->host[0]);
    return (double)(sharers > 0 ? sharers : 1) * planned->compute_s;
}

/* Times of the parts by themselves. */
static void find_parts(struct planning *planning)
{
    struct gw_planned *planned = planning->planned;
    double workers = gw_planning_workers(planning);
    double period = (double)planned->period;
    int together = gw_policy_is_together(planning->word.kind);
    double *seconds = planned->seconds;
    seconds[GW_BOUND_COMPUTE] = compute_on_device_s(planned);
    if (planned->rate > 0) {
        seconds[GW_BOUND_WORKER_LINK] =
            gw_estimate_link_bytes(&planned->worker_link) / planned->rate;
        seconds[GW_BOUND_SERVER_LINK] =
            gw_estimate_link_bytes(&planned->server_link) / planned->rate;
    }
    seconds[GW_BOUND_UPDATE] = most_bytes(planning) / 4 /
                               planned->update_elems_per_s *
                               (together ? 1 : workers) / period;
    if (planned->cores > 0)
        seconds[GW_BOUND_CORES] =
            (workers * cores_of_worker(planning) * planned->compute_s +
             handling_s(planning)) /
            planned->cores;
}

/* For more workers than cores or devices. */
static double compute_in_turn_s(const struct planning *planning)
{
    const struct gw_planned *planned = planning->planned;
    double busy = gw_planning_workers(planning) * cores_of_worker(planning);
    if (planned->cores > 0 && busy > planned->cores)
        return planned->compute_s * busy / planned->cores;
    return compute_on_device_s(planned);
}

/* The ring's bytes also pass between host and GPU. */
static double ring_on_device_s(const struct gw_planned *planned)
{
    return planned->device_rate > 0
               ? gw_estimate_ring_s(planned->worker_hosts,
                                    (double)planned->map->model_bytes,
                                    planned->device_rate)
               : 0;
}

/* An all-reduce on the same links. */
static void find_ring(struct gw_planned *planned, double compute_s)
{
    if (planned->rate <= 0)
        return;
    planned->ring_s =
        gw_estimate_ring_s(planned->worker_hosts,
                           (double)planned->map->model_bytes, planned->rate);
    planned->ring_step_s = gw_estimate_step_s(
        compute_s, fmax(planned->ring_s, ring_on_device_s(planned)), 1);
}

/* A step whose computing is unknown was counted without any: what it takes is
   the exchange alone. */
static void keep_exchange(struct gw_planned *planned)
{
    planned->exchange_s = planned->step_s;
    planned->step_s = planned->ring_step_s = 0;
}

static enum gw_status find_step(struct planning *planning)
{
    const struct gw_plan_options *options = planning->options;
    struct gw_planned *planned = planning->planned;
    struct gw_forecast_case what = {
        .config = planning->config,
        .map = planned->map,
        .train = planning->train,
        .placement = options->placement,
        .per_host = per_host(planning),
        .compute_s = compute_in_turn_s(planning),
    };
    if (options->has_link) {
        what.link = options->link;
        what.link.bytes_per_us = planned->rate / 1e6;
    } else {
        what.placement = (struct gw_placement){.shared = 1};
    }
    planned->bound = gw_bound_of(planned->seconds);
    double net_s = fmax(planned->seconds[GW_BOUND_WORKER_LINK],
                        planned->seconds[GW_BOUND_SERVER_LINK]);
    enum gw_status status =
        gw_forecast_step(&what, &planned->step_s, planning->error);
    planned->simulated = status == GW_OK;
    if (status == GW_ERANGE) {
        planned->step_s = gw_estimate_step_s(what.compute_s, net_s, 1);
        status = GW_OK;
    }
    if (status != GW_OK)
        return status;
    /* the simulation has no devices: the exchange takes its slowest link */
    planned->step_s =
        fmax(planned->step_s,
             gw_estimate_step_s(what.compute_s, gw_plan_device_s(planned), 1));
    /* the simulation handles bytes in no time; with shared cores lines wait for
       cores as often as cores for lines */
    if (planned->cores > 0)
        planned->step_s += handling_s(planning) / planned->cores;
    planned->step_s = fmax(planned->step_s, planned->seconds[planned->bound]);
    find_ring(planned, what.compute_s);
    if (planned->compute_s <= 0)
        keep_exchange(planned);
    planned->has_times = 1;
    return GW_OK;
}

enum gw_status gw_plan_find(const struct gw_plan_options *options,
                            struct gw_planned *planned,
                            struct gw_error *error)
{
    struct planning planning = {.options = options,
                                .config = options->config,
                                .planned = planned,
                                .error = error};
    *planned = (struct gw_planned){.program = gw_calibrate_program(),
                                   .available = gw_available_here("")};
    enum gw_status status = gw_plan_open_job(&planning);
    if (status == GW_OK)
        status = place(&planning);
    if (status == GW_OK)
        status = check_memory(&planning);
    if (status == GW_OK)
        status = find_figures(&planning);
    if (status == GW_OK) {
        find_traffic(&planning);
        find_parts(&planning);
        gw_plan_find_device_traffic(&planning);
        status = find_step(&planning);
    }
    free(planning.server_bytes);
    free(planning.server_host);
    gw_plan_close_job(&planning);
    return status;
}

void gw_plan_free(struct gw_planned *planned)
{
    gw_map_destroy(planned->map);
    planned->map = NULL;
}
