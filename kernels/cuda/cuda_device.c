#include "config.h"

#include "kernels/cuda/cuda.h"

#include <ctype.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OLDEST 80 /* that kernels can be compiled for at all */
#define GIB    (1024.0 * 1024 * 1024)

/* ---- what is here ---- */

/* As cuda.h counts them: 90 is 9.0. */
static int capability_of(int ordinal)
{
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    return 10 * major + minor;
}

int gw_cuda_usable(unsigned ordinal)
{
    return capability_of((int)ordinal) >= GW_CUDA_LEAST;
}

enum gw_status gw_cuda_probe(char *why, size_t why_bytes)
{
    int count = 0, usable = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result != cudaSuccess) {
        snprintf(why, why_bytes, "CUDA says: %s", cudaGetErrorString(result));
        return GW_EUNSUPPORTED;
    }
    for (int i = 0; i < count && !usable; i++)
        usable = gw_cuda_usable((unsigned)i);
    if (!usable) {
        snprintf(why, why_bytes,
                 "this build is for GPUs of compute capability %d.%d and more, "
                 "and none of the %d here is",
                 GW_CUDA_LEAST / 10, GW_CUDA_LEAST % 10, count);
        return GW_EUNSUPPORTED;
    }
    if (why_bytes)
        why[0] = '\0';
    return GW_OK;
}

static enum gw_status too_old(unsigned ordinal, struct gw_error *error)
{
    struct cudaDeviceProp card;
    int capability = capability_of((int)ordinal);
    memset(&card, 0, sizeof card);
    if (cudaGetDeviceProperties(&card, (int)ordinal) != cudaSuccess)
        cudaGetLastError(); /* only its name */
    return gw_fail(
        error, GW_EUNSUPPORTED,
        "worker.device = cuda:%u: the compute capability of %.64s is %d.%d, "
        "this build needs %d.%d: name another GPU, or none%s",
        ordinal, card.name[0] ? card.name : "it", capability / 10,
        capability % 10, GW_CUDA_LEAST / 10, GW_CUDA_LEAST % 10,
        capability < OLDEST ? "" : ", or name it to --with-cuda-arch");
}

static enum gw_status check_ordinal(unsigned ordinal, struct gw_error *error)
{
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result != cudaSuccess)
        return gw_fail(error, GW_EUNSUPPORTED, "CUDA says: %s",
                       cudaGetErrorString(result));
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (ordinal >= (unsigned)count)
        return gw_fail(error, GW_ERANGE,
                       "worker.device = cuda:%u: CUDA sees %d GPU%s%s%s, and "
                       "counts from 0",
                       ordinal, count, gw_plural((uint64_t)count),
                       visible ? " with CUDA_VISIBLE_DEVICES = " : "",
                       visible ? visible : "");
    return gw_cuda_usable(ordinal) ? GW_OK : too_old(ordinal, error);
}

/* They are not used here, but a job should not find out on another device. */
static enum gw_status check_threads(int threads, struct gw_error *error)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (threads >= 1 && threads <= processors)
        return GW_OK;
    return gw_fail(error, GW_ERANGE,
                   "worker.threads = %d: this machine has %ld processor%s",
                   threads, processors, gw_plural((uint64_t)processors));
}

/* ---- failures ---- */

int gw_cuda_enter(struct gw_device *device)
{
    /* threads may take turns, and each has a current device of its own */
    cudaError_t result =
        device->failed ? cudaSuccess : cudaSetDevice(device->ordinal);
    if (result != cudaSuccess)
        gw_cuda_note(device, device->latest, result);
    return !device->failed;
}

void gw_cuda_fail(struct gw_device *device,
                  const char *what,
                  const char *before,
                  const char *text)
{
    if (device->failed)
        return;
    device->failed = 1;
    gw_fail(&device->error, GW_EIO, "GPU %d failed in %s%s: %s",
            device->ordinal, what, before, text);
}

void gw_cuda_note(struct gw_device *device, const char *what, unsigned error)
{
    if (error != cudaSuccess) {
        gw_cuda_fail(device, what,
                     " or before it (CUDA_LAUNCH_BLOCKING=1 tells where)",
                     cudaGetErrorString((cudaError_t)error));
        return;
    }
    device->latest = what;
    device->launches++;
}

/* ---- open and close ---- */

static void make_streams(struct gw_device *device)
{
    struct CUstream_st **streams[] = {&device->compute, &device->uploads,
                                      &device->fetches};
    struct CUevent_st **events[] = {&device->uploaded, &device->computed};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        gw_cuda_note(
            device, "cudaStreamCreateWithFlags",
            cudaStreamCreateWithFlags(streams[i], cudaStreamNonBlocking));
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        gw_cuda_note(
            device, "cudaEventCreateWithFlags",
            cudaEventCreateWithFlags(events[i], cudaEventDisableTiming));
    for (size_t i = 0; i < GW_CUDA_POINTS && !device->failed; i++)
        gw_cuda_note(device, "cudaEventCreateWithFlags",
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
        status = check_ordinal(options->ordinal, error);
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

/* Also of what was only half opened. Nobody asks any more how it went. */
void gw_cuda_close(struct gw_device *device)
{
    struct CUstream_st *streams[] = {device->uploads, device->compute,
                                     device->fetches};
    struct CUevent_st *events[] = {device->uploaded, device->computed};
    cudaSetDevice(device->ordinal);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            cudaStreamSynchronize(streams[i]);
    gw_cuda_drop_shared(device);
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

void gw_cuda_describe(struct gw_device *device, char *text, size_t text_bytes)
{
    struct cudaDeviceProp card;
    int runtime = 0, blas = (int)cublasLtGetVersion();
    memset(&card, 0, sizeof card);
    if (gw_cuda_enter(device))
        gw_cuda_note(device, "cudaGetDeviceProperties",
                     cudaGetDeviceProperties(&card, device->ordinal));
    cudaRuntimeGetVersion(&runtime);
    snprintf(text, text_bytes,
             "%s, %d SMs, %.1f GiB, CUDA %d.%d, cublasLt %d.%d.%d, %s products",
             card.name[0] ? card.name : "a GPU that has failed",
             card.multiProcessorCount, (double)card.totalGlobalMem / GIB,
             runtime / 1000, runtime % 1000 / 10, blas / 10000,
             blas / 100 % 100, blas % 100,
             gw_precision_name(device->precision));
}

void gw_cuda_locate(unsigned ordinal, char address[GW_PCI_ADDRESS_BYTES])
{
    if (cudaDeviceGetPCIBusId(address, GW_PCI_ADDRESS_BYTES, (int)ordinal) !=
        cudaSuccess) {
        cudaGetLastError(); /* no failure of what is opened */
        address[0] = '\0';
    }
    for (char *at = address; *at; at++)
        *at = (char)tolower((unsigned char)*at);
}

/* ---- memory ---- */

void gw_cuda_memory(struct gw_device *device,
                    uint64_t *total_p,
                    uint64_t *free_p)
{
    size_t total_bytes = 0, free_bytes = 0;
    if (gw_cuda_enter(device))
        gw_cuda_note(device, "cudaMemGetInfo",
                     cudaMemGetInfo(&free_bytes, &total_bytes));
    *total_p = total_bytes;
    *free_p = free_bytes;
}

/* That there is no memory is no failure of the device; later calls must not
   find it as the last error. */
static int
got_memory(struct gw_device *device, const char *what, cudaError_t result)
{
    if (result == cudaErrorMemoryAllocation)
        cudaGetLastError();
    else
        gw_cuda_note(device, what, result);
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
    /* in the order of uploads, since one may be next, and before the rest */
    gw_cuda_note(device, "alloc",
                 cudaMemsetAsync(memory, 0, bytes, device->uploads));
    gw_cuda_note(device, "alloc",
                 cudaEventRecord(device->uploaded, device->uploads));
    gw_cuda_note(device, "alloc",
                 cudaStreamWaitEvent(device->compute, device->uploaded, 0));
    return memory;
}

void gw_cuda_free(struct gw_device *device, void *memory)
{
    cudaSetDevice(device->ordinal);
    gw_cuda_drop_block(&device->blocks, memory);
    if (memory)
        gw_cuda_note(device, "cudaFree", cudaFree(memory));
}

void *gw_cuda_alloc_host(struct gw_device *device, size_t bytes)
{
    void *memory = NULL;
    if (!gw_cuda_enter(device) ||
        !got_memory(
            device, "cudaHostAlloc",
            cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocPortable)))
        return NULL;
    gw_cuda_add_block(&device->pinned, memory, bytes); /* or it is asked for */
    return memset(memory, 0, bytes);
}

void gw_cuda_free_host(struct gw_device *device, void *memory)
{
    cudaSetDevice(device->ordinal);
    gw_cuda_drop_block(&device->pinned, memory);
    if (memory)
        gw_cuda_note(device, "cudaFreeHost", cudaFreeHost(memory));
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
        gw_cuda_add_block(&device->pinned, host, bytes); /* as in alloc_host */
        return GW_OK;
    }
    cudaGetLastError(); /* the device works all the same */
    return gw_fail(error, GW_EUNSUPPORTED,
                   "GPU %d cannot pin %zu bytes of host memory: %s",
                   device->ordinal, bytes, cudaGetErrorString(result));
}

void gw_cuda_unpin(struct gw_device *device, void *host)
{
    cudaSetDevice(device->ordinal);
    gw_cuda_drop_block(&device->pinned, host);
    gw_cuda_note(device, "cudaHostUnregister", cudaHostUnregister(host));
}
