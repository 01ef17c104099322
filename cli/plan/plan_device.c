/* GPUs of a plan: their number and their traffic. */
#include "config.h"

#include "cli/plan/plan_state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- devices ---- */

int gw_plan_gives_gpus(const struct gw_plan_options *options)
{
    return options->device_bytes > 0 || options->gpus > 0 ||
           options->device_rate > 0 || options->peer_rate > 0;
}

static void say_device(struct gw_planned *planned,
                       const char *name,
                       const char *how,
                       const char *why)
{
    if (why[0])
        snprintf(planned->device, sizeof planned->device, "%s (%s%.400s)", name,
                 how, why);
    else
        snprintf(planned->device, sizeof planned->device, "%s", name);
}

enum gw_status gw_plan_choose_device(struct planning *planning)
{
    struct gw_planned *planned = planning->planned;
    const char *name = planning->config->worker.device;
    struct gw_backend_choice choice;
    struct gw_device_name device;
    enum gw_status status = gw_device_parse(name, &device, planning->error);
    if (status != GW_OK)
        return status;
    if (device.kind == GW_DEVICE_CPU && gw_plan_gives_gpus(planning->options))
        return gw_fail(planning->error, GW_EUSAGE,
                       "plan: --gpu-memory, --gpus, --device-link and "
                       "--peer-link are about GPUs, but worker.device = "
                       "\"cpu\"");
    if (device.kind == GW_DEVICE_AUTO && gw_plan_gives_gpus(planning->options))
        name = gw_device_kind_name(GW_DEVICE_CUDA);
    planned->has_one_device = device.numbered;
    status = gw_backend_choose(name, &choice, planning->error);
    planned->device_is_here = status == GW_OK;
    if (status == GW_OK) {
        planning->what.backend = choice.ops;
        say_device(planned, choice.ops->name, "auto: ", choice.why);
        return GW_OK;
    }
    snprintf(planned->why_not_here, sizeof planned->why_not_here, "%.400s",
             planning->error->text);
    planning->what.backend = gw_backend_outline(name, planning->error);
    if (!planning->what.backend)
        return planning->error->status;
    say_device(planned, planning->what.backend->name, "", "there is none here");
    return GW_OK;
}

enum gw_status gw_plan_count_devices(struct planning *planning,
                                     struct gw_needs_host *host)
{
    const struct gw_plan_options *options = planning->options;
    const struct gw_planned *planned = planning->planned;
    struct gw_device_room room;
    uint32_t workers = (uint32_t)host->workers;
    host->device_bytes = UINT64_MAX;
    if (!gw_planning_is_on_device(planning) || workers == 0)
        return GW_OK;
    host->devices = planned->has_one_device ? 1 : workers;
    host->device_is_bare = 1;
    if (planned->device_is_here && !options->has_link) {
        enum gw_status status =
            gw_device_look(planning->config, workers, &room, planning->error);
        if (status == GW_ENOMEM)
            room = (struct gw_device_room){.devices = 1};
        else if (status != GW_OK)
            return status;
        host->devices = room.devices;
        host->device_bytes = room.free_bytes;
        host->device_what = "free";
        host->device_is_bare = 0;
    }
    if (options->gpus > 0)
        host->devices = options->gpus;
    if (options->device_bytes > 0) {
        host->device_bytes = (uint64_t)options->device_bytes;
        host->device_what = "given";
        host->device_is_bare = 1;
    }
    return GW_OK;
}

/* ---- traffic ---- */

enum gw_status gw_plan_find_device_rates(struct planning *planning)
{
    const struct gw_plan_options *options = planning->options;
    struct gw_planned *planned = planning->planned;
    if (!gw_planning_is_on_device(planning))
        return GW_OK;
    planned->peer_rate = options->peer_rate;
    planned->device_rate = options->device_rate;
    planned->device_rate_from = "--device-link";
    if (planned->device_rate > 0 || !planned->device_is_here)
        return GW_OK;
    planned->device_rate_from = "measured here";
    return gw_calibrate_device(planning->config, &planned->device_rate,
                               planning->error);
}

/* Non-zero if workers of a host sum on its devices: a server is elsewhere, or
   the job sums in any case. */
static int sums(const struct planning *planning)
{
    int apart = gw_config_sums_anyway(planning->config);
    for (uint64_t s = 0; s < planning->config->cluster.servers; s++)
        apart |= planning->server_host[s] != 0;
    return planning->word.kind == GW_POLICY_SYNC && apart &&
           gw_config_may_sum_on_devices(planning->config);
}

/* Own steps of workers are applied on the host, so their gradients go there in
   every step. */
void gw_plan_find_device_traffic(struct planning *planning)
{
    struct gw_planned *planned = planning->planned;
    const struct gw_needs_host *host = &planned->host[0];
    double bytes = (double)planned->map->model_bytes;
    if (host->devices == 0)
        return;
    const struct gw_dataset_shape *shape = gw_dataset_shape(planning->train);
    double sample = (double)(shape->channels * shape->height * shape->width) *
                        sizeof(float) +
                    sizeof(int32_t);
    const struct gw_estimate_devices what = {
        .workers = (uint32_t)host->workers,
        .devices = host->devices,
        .sums = sums(planning),
        .gradients = bytes,
        .weights = bytes / sizeof(float) *
                   gw_encoded_bytes(planning->config->train.weights, 1),
        .batch = sample * (double)planned->batch,
    };
    planned->device_traffic = gw_estimate_device_of(&what);
    struct gw_estimate_device moved = planned->device_traffic;
    if (planned->peer_rate > 0) {
        planned->seconds[GW_BOUND_PEER_LINK] = moved.peers / planned->peer_rate;
        moved.peers = 0;
    }
    if (planned->device_rate > 0)
        planned->seconds[GW_BOUND_DEVICE_LINK] =
            (fmax(moved.in, moved.out) + moved.peers) / planned->device_rate;
}

double gw_plan_device_s(const struct gw_planned *planned)
{
    return fmax(planned->seconds[GW_BOUND_DEVICE_LINK],
                planned->seconds[GW_BOUND_PEER_LINK]);
}
