/* Opens and closes a GPU: its streams, its workspace, its memory. */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- open and close ---- */

/* The GPU does not use them, but a job must be valid on the CPU too. */
static enum gw_status check_threads(int threads, struct gw_error *error)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (threads >= 1 && threads <= processors)
        return GW_OK;
    return gw_fail(error, GW_ERANGE,
                   "worker.threads = %d: this machine has %ld processor%s",
                   threads, processors, gw_plural((uint64_t)processors));
}

static void make_streams(struct gw_device *device)
{
    struct CUstream_st **streams[] = {&device->compute, &device->uploads,
                                      &device->fetches};
    struct CUevent_st **events[] = {&device->uploaded, &device->computed};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        gw_cuda_check(
            device, "cudaStreamCreateWithFlags",
            cudaStreamCreateWithFlags(streams[i], cudaStreamNonBlocking));
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        gw_cuda_check(
            device, "cudaEventCreateWithFlags",
            cudaEventCreateWithFlags(events[i], cudaEventDisableTiming));
    for (size_t i = 0; i < GW_CUDA_POINTS && !device->failed; i++)
        gw_cuda_check(device, "cudaEventCreateWithFlags",
                      cudaEventCreateWithFlags(&device->points[i],
                                               cudaEventDisableTiming));
}

static enum gw_status set_up(struct gw_device *device, struct gw_error *error)
{
    if (gw_cuda_enter(device))
        make_streams(device);
    if (device->failed)
        return gw_fail(error, GW_EUNSUPPORTED, "%s", device->error.text);
    void *workspace = NULL;
    if (cudaMalloc(&workspace, GW_CUDA_WORKSPACE) != cudaSuccess)
        return gw_fail(error, GW_ENOMEM,
                       "GPU %d has no memory for %zu MiB of workspace: see in "
                       "nvidia-smi who uses it",
                       device->ordinal, GW_CUDA_WORKSPACE >> 20);
    device->workspace = workspace;
    cublasStatus_t status = cublasLtCreate(&device->blas);
    if (status != CUBLAS_STATUS_SUCCESS)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "GPU %d: cublasLt does not start: %s", device->ordinal,
                       cublasLtGetStatusString(status));
    return GW_OK;
}

enum gw_status gw_cuda_open(const struct gw_device_options *options,
                            struct gw_device **device_p,
                            struct gw_error *error)
{
    enum gw_status status = check_threads(options->threads, error);
    if (status == GW_OK)
        status = gw_cuda_check_ordinal(options->ordinal, error);
    if (status != GW_OK)
        return status;
    struct gw_device *device = calloc(1, sizeof *device);
    if (!device)
        return gw_fail(error, GW_ENOMEM, "no memory for a cuda device");
    device->ordinal = (int)options->ordinal;
    device->precision = options->precision;
    device->latest = "open";
    status = set_up(device, error);
    if (status != GW_OK) {
        gw_cuda_close(device);
        return status;
    }
    *device_p = device;
    return GW_OK;
}

/* Also closes a half-opened device. Errors are of no interest any more. */
void gw_cuda_close(struct gw_device *device)
{
    struct CUstream_st *streams[] = {device->uploads, device->compute,
                                     device->fetches};
    struct CUevent_st *events[] = {device->uploaded, device->computed};
    cudaSetDevice(device->ordinal);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            cudaStreamSynchronize(streams[i]);
    gw_cuda_drop_imports(device);
    gw_cuda_drop_blocks(&device->blocks);
    gw_cuda_drop_blocks(&device->pinned);
    gw_cuda_drop_graphs(device);
    gw_cuda_drop_plans(device);
    gw_cuda_drop_masks(device);
    if (device->blas)
        cublasLtDestroy(device->blas);
    if (device->workspace)
        cudaFree(device->workspace);
    for (size_t i = 0; i < GW_CUDA_POINTS; i++)
        if (device->points[i])
            cudaEventDestroy(device->points[i]);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            cudaStreamDestroy(streams[i]);
    free(device);
}

/* ---- memory ---- */

void gw_cuda_memory(struct gw_device *device,
                    uint64_t *total_p,
                    uint64_t *free_p)
{
    size_t total_bytes = 0, free_bytes = 0;
    if (gw_cuda_enter(device))
        gw_cuda_check(device, "cudaMemGetInfo",
                      cudaMemGetInfo(&free_bytes, &total_bytes));
    *total_p = total_bytes;
    *free_p = free_bytes;
}

/* A lack of memory is no failure of the device; cudaGetLastError clears it for
   later calls. */
static int
got_memory(struct gw_device *device, const char *op, cudaError_t result)
{
    if (result == cudaErrorMemoryAllocation)
        cudaGetLastError();
    else
        gw_cuda_check(device, op, result);
    return result == cudaSuccess;
}

void *gw_cuda_alloc(struct gw_device *device, size_t bytes)
{
    void *memory = NULL;
    if (!gw_cuda_enter(device) ||
        !got_memory(device, "cudaMalloc",
                    cudaMalloc(&memory, bytes ? bytes : 1)))
        return NULL;
    if (!gw_cuda_add_block(&device->blocks, memory, bytes ? bytes : 1)) {
        cudaFree(memory);
        return NULL;
    }
    /* on `uploads`, since an upload may be next; compute waits for it */
    gw_cuda_check(device, "alloc",
                  cudaMemsetAsync(memory, 0, bytes, device->uploads));
    gw_cuda_check(device, "alloc",
                  cudaEventRecord(device->uploaded, device->uploads));
    gw_cuda_check(device, "alloc",
                  cudaStreamWaitEvent(device->compute, device->uploaded, 0));
    return memory;
}

void gw_cuda_free(struct gw_device *device, void *memory)
{
    cudaSetDevice(device->ordinal);
    gw_cuda_drop_block(&device->blocks, memory);
    if (memory)
        gw_cuda_check(device, "cudaFree", cudaFree(memory));
}

void *gw_cuda_alloc_host(struct gw_device *device, size_t bytes)
{
    void *memory = NULL;
    if (!gw_cuda_enter(device) ||
        !got_memory(
            device, "cudaHostAlloc",
            cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocPortable)))
        return NULL;
    gw_cuda_add_block(&device->pinned, memory,
                      bytes); /* or ask CUDA each time */
    return memset(memory, 0, bytes);
}

void gw_cuda_free_host(struct gw_device *device, void *memory)
{
    cudaSetDevice(device->ordinal);
    gw_cuda_drop_block(&device->pinned, memory);
    if (memory)
        gw_cuda_check(device, "cudaFreeHost", cudaFreeHost(memory));
}

enum gw_status gw_cuda_pin(struct gw_device *device,
                           void *host,
                           size_t bytes,
                           struct gw_error *error)
{
    if (!gw_cuda_enter(device))
        return gw_fail(error, GW_EUNSUPPORTED, "%s", device->error.text);
    cudaError_t result =
        cudaHostRegister(host, bytes, cudaHostRegisterPortable);
    if (result == cudaSuccess) {
        gw_cuda_add_block(&device->pinned, host, bytes); /* likewise */
        return GW_OK;
    }
    cudaGetLastError(); /* clears it: the device works */
    return gw_fail(error, GW_EUNSUPPORTED,
                   "GPU %d cannot pin %zu bytes of host memory: %s",
                   device->ordinal, bytes, cudaGetErrorString(result));
}

void gw_cuda_unpin(struct gw_device *device, void *host)
{
    cudaSetDevice(device->ordinal);
    gw_cuda_drop_block(&device->pinned, host);
    gw_cuda_check(device, "cudaHostUnregister", cudaHostUnregister(host));
}
