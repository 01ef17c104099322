/* The GPUs of this host by ordinal, and the description of an open one. */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <ctype.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST 80 /* oldest capability that kernels can be compiled for */
#define GIB    (1024.0 * 1024 * 1024)

/* Compute capability times ten: 90 is 9.0. */
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
        cudaGetLastError(); /* only the name is missing */
    return gw_fail(
        error, GW_EUNSUPPORTED,
        "worker.device = cuda:%u: the compute capability of %.64s is %d.%d, "
        "this build needs %d.%d: name another GPU, or none%s",
        ordinal, card.name[0] ? card.name : "it", capability / 10,
        capability % 10, GW_CUDA_LEAST / 10, GW_CUDA_LEAST % 10,
        capability < OLDEST ? "" : ", or name it to --with-cuda-arch");
}

enum gw_status gw_cuda_check_ordinal(unsigned ordinal, struct gw_error *error)
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

/* Only NVLink has native atomics between two GPUs. */
int gw_cuda_linked(unsigned one, unsigned other)
{
    int atomics = 0;
    if (one != other &&
        cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported,
                                  (int)one, (int)other) != cudaSuccess)
        cudaGetLastError(); /* no failure of an open device */
    return atomics != 0;
}

void gw_cuda_describe(struct gw_device *device, char *text, size_t text_bytes)
{
    struct cudaDeviceProp card;
    int runtime = 0, blas = (int)cublasLtGetVersion();
    memset(&card, 0, sizeof card);
    if (gw_cuda_enter(device))
        gw_cuda_check(device, "cudaGetDeviceProperties",
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
        cudaGetLastError(); /* no failure of an open device */
        address[0] = '\0';
    }
    for (char *at = address; *at; at++)
        *at = (char)tolower((unsigned char)*at);
}
