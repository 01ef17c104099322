/* The emulated device: settings, counts, errors, and simple queries. */
#include "config.h"

#include "tests/cuda/inside.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda/answers.h"

#define MEMORY_BYTES ((size_t)1 << 30)

struct emulated_settings emulated_now;
struct emulated_counts emulated_count;
cudaError_t emulated_failure;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t driver = PTHREAD_ONCE_INIT;
static int is_set, has_helper;
static uint64_t draws;
static _Thread_local cudaError_t last_error;
static _Thread_local int current_device;

/* ---- settings ---- */

static void defaults(struct emulated_settings *settings)
{
    static const char *const orders[] = {"forward", "reverse", "random"};
    static const char *const paces[] = {"late", "early", "sometimes"};
    char text[64];
    *settings = (struct emulated_settings){
        .seed = (uint64_t)fake_number("seed", 1),
        .memory_bytes = (size_t)fake_number("memory", (long long)MEMORY_BYTES),
        .others_bytes = (size_t)fake_number("others", 0),
        .fail_at = (uint64_t)fake_number("fail_at", 0),
        .fail_with = (int)fake_number("fail_with", cudaErrorIllegalAddress),
        .no_fused_epilogue = !fake_number("fused", 1),
        .no_masks = !fake_number("masks", 1),
        .keeps_nan = (int)fake_number("nan", 0),
        .notes_zero = (int)fake_number("zero", 0),
        .no_pinning = !fake_number("pinning", 1),
        .no_staging = !fake_number("staging", 1),
        .no_ipc = !fake_number("ipc", 1),
        .wrong_peers = !fake_number("peers", 1),
        .peer_us = (unsigned)fake_number("peer_us", 0),
        .no_dma_buf = !fake_number("dmabuf", 1),
        .no_graphs = !fake_number("graphs", 1),
        .orderly = (int)fake_number("orderly", 0),
        .fastest = (unsigned)fake_number("fastest", 0),
    };
    if (fake_word("nvlink", text))
        snprintf(settings->nvlink, sizeof settings->nvlink, "%s", text);
    if (fake_word("apart", text))
        snprintf(settings->apart, sizeof settings->apart, "%s", text);
    for (unsigned i = 0; fake_word("order", text) && i < 3; i++)
        if (strcmp(text, orders[i]) == 0)
            settings->order = (enum emulated_order)i;
    for (unsigned i = 0; fake_word("pace", text) && i < 3; i++)
        if (strcmp(text, paces[i]) == 0)
            settings->pace = (enum emulated_pace)i;
}

static void set_now(const struct emulated_settings *settings)
{
    emulated_now = *settings;
    emulated_count.operations = 0;
    emulated_failure = cudaSuccess;
    last_error = cudaSuccess;
    draws = settings->seed;
    is_set = 1;
}

void emulated_enter(void)
{
    pthread_mutex_lock(&lock);
    struct emulated_settings settings;
    if (!is_set) {
        defaults(&settings);
        set_now(&settings);
    }
}

cudaError_t emulated_leave(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t emulated_enter_device(void)
{
    emulated_enter();
    return emulated_failure;
}

static void set(const struct emulated_settings *settings)
{
    emulated_enter();
    emulated_forget();
    set_now(settings);
    emulated_leave(cudaSuccess);
}

static void counts(struct emulated_counts *to)
{
    emulated_enter();
    *to = emulated_count;
    emulated_leave(cudaSuccess);
}

__attribute__((visibility("default")))
const struct emulated_cuda emulated_cuda = {
    .defaults = defaults,
    .set = set,
    .counts = counts,
};

/* splitmix64 */
uint32_t emulated_draw(uint32_t n)
{
    draws += 0x9e3779b97f4a7c15;
    uint64_t z = draws;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

void emulated_wrong(const char *format, ...)
{
    char line[1024], where[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    emulated_where(where, sizeof where);
    dprintf(STDERR_FILENO, "emulated CUDA: %s%s%s\n", where, *where ? ": " : "",
            line);
    abort();
}

/* ---- queries ---- */

static int devices(void)
{
    return (int)fake_number("devices", 1);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    emulated_enter();
    *count = devices();
    return emulated_leave(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

/* As CUDA, which starts threads of its own with the first device. */
static void *help(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

static void start_helper(void)
{
    pthread_t thread;
    sigset_t all, before;
    if (has_helper || !fake_number("helper", 0))
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    has_helper = pthread_create(&thread, NULL, help, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (has_helper) {
        pthread_setname_np(thread, "cuda-helper");
        pthread_detach(thread);
    }
}

cudaError_t cudaSetDevice(int device)
{
    emulated_enter();
    pthread_once(&driver, emulated_load_driver);
    start_helper();
    if (device < 0 || device >= devices())
        return emulated_leave(cudaErrorInvalidDevice);
    current_device = device;
    return emulated_leave(cudaSuccess);
}

int emulated_device(void)
{
    return current_device;
}

/* "01,23": pairs 0 and 1, 2 and 3, in any order. */
static int is_pair(const char *pairs, int one, int other)
{
    for (const char *at = pairs; at[0] && at[1]; at += at[2] ? 3 : 2)
        if ((at[0] - '0' == one && at[1] - '0' == other) ||
            (at[0] - '0' == other && at[1] - '0' == one))
            return 1;
    return 0;
}

int emulated_reaches(int one, int other)
{
    return one == other || !is_pair(emulated_now.apart, one, other);
}

/* NVLink has native atomics, PCIe has none. */
cudaError_t cudaDeviceGetP2PAttribute(int *value,
                                      enum cudaDeviceP2PAttr attribute,
                                      int from,
                                      int to)
{
    emulated_enter();
    if (from < 0 || from >= devices() || to < 0 || to >= devices() ||
        from == to)
        return emulated_leave(cudaErrorInvalidDevice);
    int reaches = emulated_reaches(from, to);
    int nvlink = reaches && is_pair(emulated_now.nvlink, from, to);
    switch (attribute) {
    case cudaDevP2PAttrPerformanceRank:
        *value = nvlink ? 0 : 1;
        return emulated_leave(cudaSuccess);
    case cudaDevP2PAttrAccessSupported:
        *value = reaches;
        return emulated_leave(cudaSuccess);
    case cudaDevP2PAttrNativeAtomicSupported:
        *value = nvlink;
        return emulated_leave(cudaSuccess);
    }
    return emulated_leave(cudaErrorInvalidValue);
}

/* The first device is on bus "bus", others on the following buses; in capitals,
   as CUDA writes it. */
cudaError_t cudaDeviceGetPCIBusId(char *address, int bytes, int device)
{
    emulated_enter();
    if (device < 0 || device >= devices())
        return emulated_leave(cudaErrorInvalidDevice);
    if (bytes < 13)
        return emulated_leave(cudaErrorInvalidValue);
    unsigned bus = (unsigned)fake_number("bus", 0xc1) + (unsigned)device;
    snprintf(address, (size_t)bytes, "0000:%02X:00.0", bus & 0xff);
    return emulated_leave(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    emulated_enter();
    if (device < 0 || device >= devices())
        return emulated_leave(cudaErrorInvalidDevice);
    *prop = (struct cudaDeviceProp){
        .name = "Emulated",
        .totalGlobalMem = emulated_now.memory_bytes,
        .sharedMemPerBlock = 48 << 10,
        .warpSize = 32,
        .maxThreadsPerBlock = 1024,
        .maxGridSize = {INT32_MAX, 65535, 65535},
        .major = 9,
        .multiProcessorCount = 4,
        .maxThreadsPerMultiProcessor = 2048,
        .l2CacheSize = 1 << 20,
        .memoryBusWidth = 64,
        .asyncEngineCount = 2,
        .unifiedAddressing = 1,
    };
    return emulated_leave(cudaSuccess);
}

static int is_old(int device)
{
    char text[64];
    return fake_word("old", text) && strchr(text, '0' + device) != NULL;
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    static const struct {
        enum cudaDeviceAttr attr;
        int value;
    } known[] = {
        {cudaDevAttrMaxThreadsPerBlock, 1024},
        {cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10},
        {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMultiProcessorCount, 4},
        {cudaDevAttrL2CacheSize, 1 << 20},
        {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
        {cudaDevAttrComputeCapabilityMajor, 9},
        {cudaDevAttrComputeCapabilityMinor, 0},
    };
    emulated_enter();
    if (device < 0 || device >= devices())
        return emulated_leave(cudaErrorInvalidDevice);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attr == attr) {
            *value = known[i].value;
            if (attr == cudaDevAttrComputeCapabilityMajor && is_old(device))
                *value = 6;
            return emulated_leave(cudaSuccess);
        }
    return emulated_leave(cudaErrorInvalidValue);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = (int)fake_number("version", 13000);
    return cudaSuccess;
}

/* A failure of the device is sticky. */
cudaError_t cudaGetLastError(void)
{
    emulated_enter();
    cudaError_t error = emulated_failure ? emulated_failure : last_error;
    last_error = cudaSuccess;
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    emulated_enter();
    cudaError_t error = emulated_failure ? emulated_failure : last_error;
    pthread_mutex_unlock(&lock);
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    static const struct {
        cudaError_t error;
        const char *text;
    } texts[] = {
        {cudaSuccess, "no error"},
        {cudaErrorInvalidValue, "invalid argument"},
        {cudaErrorMemoryAllocation, "out of memory"},
        {cudaErrorInitializationError, "initialization error"},
        {cudaErrorInvalidConfiguration, "invalid configuration argument"},
        {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
        {cudaErrorInsufficientDriver,
         "CUDA driver version is insufficient for CUDA runtime version"},
        {cudaErrorNoDevice, "no CUDA-capable device is detected"},
        {cudaErrorInvalidDevice, "invalid device ordinal"},
        {cudaErrorDeviceUninitialized, "invalid device context"},
        {cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"},
        {cudaErrorPeerAccessUnsupported,
         "peer access is not supported between these two devices"},
        {cudaErrorInvalidResourceHandle, "invalid resource handle"},
        {cudaErrorNotReady, "device not ready"},
        {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
        {cudaErrorLaunchTimeout, "the launch timed out and was terminated"},
        {cudaErrorHostMemoryAlreadyRegistered,
         "part or all of the requested memory range is already mapped"},
        {cudaErrorHostMemoryNotRegistered,
         "pointer does not correspond to a registered memory region"},
        {cudaErrorMisalignedAddress, "misaligned address"},
        {cudaErrorLaunchFailure, "unspecified launch failure"},
        {cudaErrorNotSupported, "operation not supported"},
        {cudaErrorStreamCaptureInvalidated,
         "operation failed due to a previous error during capture"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].error == error)
            return texts[i].text;
    return "unrecognized error code";
}
