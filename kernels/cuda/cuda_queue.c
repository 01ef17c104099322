/*
 * Copies that overlap with computation, and the device's progress. The host
 * waits for points, which are on the stream of fetches.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <assert.h>
#include <cuda_runtime_api.h>

static void copy_in(struct gw_device *device,
                    const char *op,
                    void *to,
                    const void *from,
                    size_t bytes,
                    enum cudaMemcpyKind kind)
{
    if (!gw_cuda_enter(device))
        return;
    gw_cuda_check(device, op,
                  cudaMemcpyAsync(to, from, bytes, kind, device->uploads));
    gw_cuda_check(device, op,
                  cudaEventRecord(device->uploaded, device->uploads));
    gw_cuda_check(device, op,
                  cudaStreamWaitEvent(device->compute, device->uploaded, 0));
}

static int is_host(const void *memory)
{
    struct cudaPointerAttributes about;
    if (cudaPointerGetAttributes(&about, memory) == cudaSuccess)
        return about.type == cudaMemoryTypeHost;
    cudaGetLastError(); /* clears it: the device works */
    return 0;
}

/* Another device of this process may have pinned it, so CUDA is asked too. */
static int
is_pinned(const struct gw_device *device, const void *host, size_t bytes)
{
    return gw_cuda_find_block(device->pinned, host, bytes) ||
           (is_host(host) && is_host((const char *)host + bytes - 1));
}

/* From pageable memory CUDA may copy before it returns, but does not promise
   to. */
void gw_cuda_upload(struct gw_device *device,
                    void *to,
                    const void *host,
                    size_t bytes)
{
    copy_in(device, "upload", to, host, bytes, cudaMemcpyHostToDevice);
    if (bytes > 0 && !device->failed && !is_pinned(device, host, bytes))
        gw_cuda_check(device, "upload", cudaStreamSynchronize(device->uploads));
}

void gw_cuda_copy_import(struct gw_device *device,
                         void *to,
                         const void *imported,
                         size_t bytes)
{
    copy_in(device, "copy from another GPU", to, imported, bytes,
            cudaMemcpyDeviceToDevice);
}

uint64_t gw_cuda_fetch(struct gw_device *device,
                       void *host,
                       const void *from,
                       size_t bytes)
{
    uint64_t point = ++device->last;
    if (!gw_cuda_enter(device))
        return point;
    gw_cuda_check(device, "fetch",
                  cudaEventRecord(device->computed, device->compute));
    gw_cuda_check(device, "fetch",
                  cudaStreamWaitEvent(device->fetches, device->computed, 0));
    if (bytes > 0)
        gw_cuda_check(device, "fetch",
                      cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost,
                                      device->fetches));
    gw_cuda_check(device, "fetch",
                  cudaEventRecord(device->points[point % GW_CUDA_POINTS],
                                  device->fetches));
    return point;
}

static enum gw_status failure(const struct gw_device *device,
                              struct gw_error *error)
{
    return gw_fail(error, device->error.status, "%s", device->error.text);
}

enum gw_status gw_cuda_reach(struct gw_device *device,
                             uint64_t point,
                             int wait,
                             struct gw_error *error)
{
    assert(point <= device->last);
    if (!gw_cuda_enter(device))
        return failure(device, error);
    if (point <= device->reached)
        return GW_OK;
    /* the event may have been reused by a later point */
    uint64_t latest = device->last - (device->last - point) % GW_CUDA_POINTS;
    struct CUevent_st *event = device->points[latest % GW_CUDA_POINTS];
    cudaError_t result =
        wait ? cudaEventSynchronize(event) : cudaEventQuery(event);
    if (result == cudaErrorNotReady)
        return GW_EAGAIN;
    gw_cuda_check(device, device->latest, result);
    if (device->failed)
        return failure(device, error);
    device->reached = latest;
    return GW_OK;
}

void gw_cuda_download(struct gw_device *device,
                      void *host,
                      const void *from,
                      size_t bytes)
{
    uint64_t point = gw_cuda_fetch(device, host, from, bytes);
    gw_cuda_reach(device, point, 1, NULL);
}

enum gw_status gw_cuda_sync(struct gw_device *device, struct gw_error *error)
{
    uint64_t last = device->last;
    if (gw_cuda_enter(device)) /* compute waits for the uploads */
        gw_cuda_check(device, device->latest,
                      cudaStreamSynchronize(device->compute));
    if (gw_cuda_enter(device))
        gw_cuda_check(device, device->latest,
                      cudaStreamSynchronize(device->fetches));
    if (device->failed)
        return failure(device, error);
    device->reached = last;
    return GW_OK;
}
