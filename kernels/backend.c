#include "config.h"

#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/driver.h"
#include "kernels/islands.h"
#include "kernels/module.h"
#include "proto/config.h"
#include "proto/login.h"

static const struct gw_backend_ops *cpu(char *why, size_t why_bytes)
{
    return gw_cpu_ops.probe(why, why_bytes) == GW_OK ? &gw_cpu_ops : NULL;
}

/* In order of preference. */
static const struct {
    enum gw_device_kind kind;
    const struct gw_backend_ops *(*get)(char *why, size_t why_bytes);
} table[] = {
    {GW_DEVICE_CUDA, gw_cuda_backend},
    {GW_DEVICE_CPU, cpu},
};
#define BACKENDS (sizeof table / sizeof *table)

size_t gw_backend_count(void)
{
    return BACKENDS;
}

const char *gw_backend_name(size_t i)
{
    return gw_device_kind_name(table[i].kind);
}

const struct gw_backend_ops *
gw_backend_get(size_t i, char *why, size_t why_bytes)
{
    return table[i].get(why, why_bytes);
}

static void
add_why(struct gw_backend_choice *choice, const char *name, const char *why)
{
    size_t used = strlen(choice->why);
    snprintf(choice->why + used, sizeof choice->why - used, "%sno %s: %s",
             used ? "; " : "", name, why);
}

enum gw_status gw_backend_choose(const char *name,
                                 struct gw_backend_choice *choice_p,
                                 struct gw_error *error)
{
    struct gw_backend_choice choice = {.why = ""};
    struct gw_device_name device;
    char why[GW_WHY_BYTES] = "";
    enum gw_status status = gw_device_parse(name, &device, error);
    if (status != GW_OK)
        return status;
    choice.numbered = device.numbered;
    choice.ordinal = device.number;
    for (size_t i = 0; i < BACKENDS && !choice.ops; i++) {
        if (device.kind != GW_DEVICE_AUTO && device.kind != table[i].kind)
            continue;
        choice.ops = table[i].get(why, sizeof why);
        if (!choice.ops)
            add_why(&choice, gw_backend_name(i), why);
    }
    if (!choice.ops)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "device \"%s\" is not available: %s", name, why);
    choice.leaves_gpu = choice.why[0] && gw_driver_has_gpu();
    *choice_p = choice;
    return GW_OK;
}

const struct gw_backend_ops *gw_backend_find(const char *name,
                                             struct gw_error *error)
{
    struct gw_backend_choice choice = {.ops = NULL};
    return gw_backend_choose(name, &choice, error) == GW_OK ? choice.ops : NULL;
}

const struct gw_backend_ops *gw_backend_outline(const char *name,
                                                struct gw_error *error)
{
    struct gw_backend_choice choice = {.ops = NULL};
    struct gw_device_name device;
    if (gw_device_parse(name, &device, error) != GW_OK)
        return NULL;
    if (device.kind == GW_DEVICE_CUDA)
        return &gw_cuda_outline;
    return gw_backend_choose(name, &choice, error) == GW_OK ? choice.ops : NULL;
}

#define DEVICES_MAX 64 /* per kind and machine */

/* Fills in the devices that this build supports, in the order in which workers
   take them. Returns their number, at least 1. */
static unsigned order_of(const struct gw_backend_ops *ops,
                         unsigned order[DEVICES_MAX])
{
    struct gw_driver driver;
    char why[GW_WHY_BYTES];
    unsigned usable = 0;
    order[0] = 0;
    if (ops == &gw_cpu_ops ||
        gw_driver_probe(&driver, why, sizeof why) != GW_OK)
        return 1;
    unsigned devices =
        driver.devices < DEVICES_MAX ? driver.devices : DEVICES_MAX;
    gw_islands_order(devices, ops->linked, order);
    for (unsigned i = 0; i < devices; i++)
        if (ops->usable(order[i]))
            order[usable++] = order[i];
    return usable ? usable : 1;
}

static unsigned devices_of(const struct gw_backend_ops *ops)
{
    unsigned order[DEVICES_MAX];
    return order_of(ops, order);
}

enum gw_precision gw_precision_of(const struct gw_config *config)
{
    int i = GW_PRECISION_FP16;
    while (i > GW_PRECISION_FP32 &&
           strcmp(config->train.precision,
                  gw_precision_name((enum gw_precision)i)) != 0)
        i--;
    return (enum gw_precision)i;
}

static unsigned ordinal_of(const struct gw_backend_choice *choice,
                           uint32_t place)
{
    unsigned order[DEVICES_MAX];
    if (choice->numbered)
        return choice->ordinal;
    return order[place % order_of(choice->ops, order)];
}

enum gw_status gw_device_open(const struct gw_config *config,
                              uint32_t place,
                              struct gw_backend_choice *choice_p,
                              struct gw_device **device_p,
                              struct gw_error *error)
{
    struct gw_backend_choice choice;
    enum gw_status status =
        gw_backend_choose(config->worker.device, &choice, error);
    if (status != GW_OK)
        return status;
    const struct gw_device_options options = {
        .threads = (int)config->worker.threads,
        .ordinal = ordinal_of(&choice, place),
        .precision = gw_precision_of(config),
    };
    status = choice.ops->open(&options, device_p, error);
    choice.ordinal = options.ordinal;
    if (status == GW_OK)
        *choice_p = choice;
    return status;
}

/* Opens one device only to read its memory, and closes it. */
static enum gw_status measure_room(const struct gw_config *config,
                                   uint32_t place,
                                   struct gw_device_room *room_p,
                                   struct gw_error *error)
{
    struct gw_backend_choice choice;
    struct gw_device *device;
    enum gw_status status =
        gw_device_open(config, place, &choice, &device, error);
    if (status != GW_OK)
        return status;
    choice.ops->memory(device, &room_p->total_bytes, &room_p->free_bytes);
    room_p->free_bytes += choice.ops->takes.open;
    room_p->devices = choice.numbered ? 1 : devices_of(choice.ops);
    choice.ops->close(device);
    return room_p->total_bytes > 0
               ? GW_OK
               : gw_fail(error, GW_EUNSUPPORTED,
                         "%s has no memory that can be told", choice.ops->name);
}

/* Number of workers on one device when they are dealt out over all. */
static uint32_t workers_at(uint32_t workers, unsigned devices, unsigned device)
{
    return (workers - device + devices - 1) / devices;
}

enum gw_status gw_device_look(const struct gw_config *config,
                              uint32_t workers,
                              struct gw_device_room *room_p,
                              struct gw_error *error)
{
    struct gw_device_room least, room;
    enum gw_status status = measure_room(config, 0, &least, error);
    if (status != GW_OK)
        return status;
    uint64_t each = least.free_bytes / workers_at(workers, least.devices, 0);
    for (unsigned i = 1; i < least.devices && i < workers; i++) {
        status = measure_room(config, i, &room, error);
        if (status != GW_OK)
            return status;
        if (room.free_bytes / workers_at(workers, room.devices, i) >= each)
            continue;
        each = room.free_bytes / workers_at(workers, room.devices, i);
        least = room;
    }
    *room_p = least;
    return GW_OK;
}

uint32_t gw_device_locate(const struct gw_config *config,
                          uint32_t place,
                          char address[GW_PCI_ADDRESS_BYTES])
{
    struct gw_backend_choice choice;
    struct gw_error error;
    address[0] = '\0';
    if (gw_backend_choose(config->worker.device, &choice, &error) != GW_OK ||
        choice.ops == &gw_cpu_ops)
        return (uint32_t)config->worker.threads;
    if (choice.numbered || place != GW_RANK_NONE || devices_of(choice.ops) == 1)
        choice.ops->locate(ordinal_of(&choice, place), address);
    return 1;
}
