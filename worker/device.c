/* The device of a worker. */
#include "config.h"

#include "worker/worker_state.h"

#include <stdio.h>

#include "worker/need.h"

static uint32_t place_of(const struct gw_worker *worker)
{
    uint32_t place = worker->options->place;
    return place == GW_RANK_NONE ? gw_rank_number(worker->rank) : place;
}

enum gw_status gw_worker_open_device(struct gw_worker *worker,
                                     struct gw_backend_choice *choice_p,
                                     struct gw_device **device_p,
                                     struct gw_error *error)
{
    const struct gw_device_options options = {
        .threads = 1, .precision = gw_precision_of(worker->config)};
    const struct gw_backend_ops *given =
        worker->payload_free ? &gw_no_arithmetic : worker->options->backend;
    if (!given)
        return gw_device_open(worker->config, place_of(worker), choice_p,
                              device_p, error);
    *choice_p = (struct gw_backend_choice){.ops = given};
    return given->open(&options, device_p, error);
}

/* The description leaves out the number of the device: a job that goes on
   compares descriptions to know if its bits will be the same. */
static void tell_device(const struct gw_worker *worker,
                        const struct gw_backend_choice *choice)
{
    char where[64] = "", address[GW_PCI_ADDRESS_BYTES];
    choice->ops->locate(choice->ordinal, address);
    if (address[0])
        snprintf(where, sizeof where, ", GPU %u at %s", choice->ordinal,
                 address);
    gw_log_info(worker->options->client.log, "device %s: %s%s%s%s",
                worker->backend->name, worker->description, where,
                choice->why[0] ? "; " : "", choice->why);
    if (choice->leaves_gpu)
        gw_log_warn(worker->options->client.log,
                    "a GPU is here, and the CPU computes: %s; worker.device = "
                    "\"cpu\" if that is meant",
                    choice->why);
}

enum gw_status gw_worker_find_device(struct gw_worker *worker)
{
    struct gw_backend_choice choice;
    enum gw_status status =
        gw_worker_open_device(worker, &choice, &worker->device, worker->error);
    if (status != GW_OK)
        return status;
    worker->backend = choice.ops;
    worker->backend->describe(worker->device, worker->description,
                              sizeof worker->description);
    tell_device(worker, &choice);
    return GW_OK;
}

enum gw_status gw_worker_check_room(const struct gw_worker *worker,
                                    struct gw_error *error)
{
    const struct gw_worker_case what = {.config = worker->config,
                                        .train = worker->train,
                                        .test = worker->test,
                                        .backend = worker->backend};
    struct gw_device_room room = {.devices = 1};
    if (worker->payload_free || worker->backend->on_host)
        return GW_OK;
    worker->backend->memory(worker->device, &room.total_bytes,
                            &room.free_bytes);
    room.free_bytes += worker->backend->takes.open + worker->device_bytes;
    if (room.total_bytes == 0) /* the device does not tell */
        return GW_OK;
    return gw_worker_check_device(&what, &room, error);
}

void gw_worker_close_device(struct gw_worker *worker)
{
    char report[GW_REPORT_BYTES];
    if (!worker->device)
        return;
    worker->backend->report(worker->device, report, sizeof report);
    if (report[0])
        gw_log_info(worker->options->client.log, "device %s, at the end: %s",
                    worker->backend->name, report);
    worker->backend->close(worker->device);
}
