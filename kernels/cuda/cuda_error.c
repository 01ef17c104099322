/* Failures of a device: keeps the first, and queues nothing after it. */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <cuda_runtime_api.h>

int gw_cuda_enter(struct gw_device *device)
{
    /* threads may take turns, and each has its own current device */
    cudaError_t result =
        device->failed ? cudaSuccess : cudaSetDevice(device->ordinal);
    if (result != cudaSuccess)
        gw_cuda_check(device, device->latest, result);
    return !device->failed;
}

void gw_cuda_fail(struct gw_device *device,
                  const char *op,
                  const char *before,
                  const char *text)
{
    if (device->failed)
        return;
    device->failed = 1;
    gw_fail(&device->error, GW_EIO, "GPU %d failed in %s%s: %s",
            device->ordinal, op, before, text);
}

void gw_cuda_check(struct gw_device *device, const char *op, unsigned error)
{
    if (error != cudaSuccess) {
        gw_cuda_fail(device, op,
                     " or before it (CUDA_LAUNCH_BLOCKING=1 tells where)",
                     cudaGetErrorString((cudaError_t)error));
        return;
    }
    device->latest = op;
    device->launches++;
}
