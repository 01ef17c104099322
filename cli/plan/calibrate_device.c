/* Measurement of a device for a plan: transfer rates in both directions. */
#include "config.h"

#include "cli/plan/calibrate.h"

#include <time.h>

#define BYTES  ((size_t)16 << 20)
#define ROUNDS 8

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Seconds of ROUNDS copies, after one to warm up. */
static enum gw_status copy(const struct gw_backend_ops *ops,
                           struct gw_device *device,
                           void *memory,
                           void *host,
                           int there,
                           double *took_s_p,
                           struct gw_error *error)
{
    double begin_s = 0;
    for (int i = 0; i <= ROUNDS; i++) {
        if (there)
            ops->upload(device, memory, host, BYTES);
        else
            ops->fetch(device, host, memory, BYTES);
        if (i > 0 && i < ROUNDS)
            continue;
        enum gw_status status = ops->sync(device, error);
        if (status != GW_OK)
            return status;
        if (i == 0)
            begin_s = now_s();
    }
    *took_s_p = now_s() - begin_s;
    return GW_OK;
}

enum gw_status gw_calibrate_device(const struct gw_config *config,
                                   double *bytes_per_s_p,
                                   struct gw_error *error)
{
    struct gw_backend_choice choice;
    struct gw_device *device;
    double there_s = 0, back_s = 0;
    enum gw_status status = gw_device_open(config, 0, &choice, &device, error);
    if (status != GW_OK)
        return status;
    void *memory = choice.ops->alloc(device, BYTES);
    void *host = choice.ops->alloc_host(device, BYTES);
    if (!memory || !host)
        status = gw_fail(error, GW_ENOMEM,
                         "no memory to measure how fast bytes come to the "
                         "GPU: give --device-link");
    if (status == GW_OK)
        status = copy(choice.ops, device, memory, host, 1, &there_s, error);
    if (status == GW_OK)
        status = copy(choice.ops, device, memory, host, 0, &back_s, error);
    if (status == GW_OK)
        *bytes_per_s_p =
            (double)(ROUNDS * BYTES) / (there_s > back_s ? there_s : back_s);
    choice.ops->free(device, memory);
    choice.ops->free_host(device, host);
    choice.ops->close(device);
    return status;
}
