#include "config.h"

#include "tests/table/emulated.h"

#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernels/module.h"

#define FNV_START 14695981039346656037u
#define FNV_PRIME 1099511628211u

const struct emulated_way emulated_ways[EMULATED_WAYS] = {
    {"cuda-emulated", EMULATED_FORWARD, EMULATED_LATE},
    {"cuda-emulated-back", EMULATED_REVERSE, EMULATED_EARLY},
    {"cuda-emulated-mixed", EMULATED_RANDOM, EMULATED_SOMETIMES},
};

static const struct emulated_cuda *control;
static const struct gw_backend_ops *original;
static struct gw_backend_ops counted;
static uint64_t digest = FNV_START;

static void
download(struct gw_device *device, void *host, const void *from, size_t bytes)
{
    original->download(device, host, from, bytes);
    for (size_t i = 0; i < bytes; i++)
        digest = (digest ^ ((const uint8_t *)host)[i]) * FNV_PRIME;
}

const struct gw_backend_ops *emulated_backend(char *why, size_t why_bytes)
{
    char file[PATH_MAX];
    const char *dir = getenv("GW_BUILDDIR");
    snprintf(file, sizeof file, "%s/tests/cuda/gradweir-cuda.so",
             dir ? dir : ".");
    if (access(file, F_OK) != 0) {
        snprintf(why, why_bytes, "%s is not built: configure says why", file);
        return NULL;
    }
    const struct gw_module *module = gw_module_load(file, why, why_bytes);
    if (!module)
        return NULL;
    void *library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    control = library ? dlsym(library, EMULATED_SYMBOL) : NULL;
    if (!control) {
        snprintf(why, why_bytes, "%s has no emulated CUDA in it", file);
        return NULL;
    }
    original = module->ops;
    counted = *original;
    counted.download = download;
    return &counted;
}

const struct emulated_cuda *emulated_control(void)
{
    return control;
}

uint64_t emulated_digest(void)
{
    uint64_t result = digest;
    digest = FNV_START;
    return result;
}

void emulated_assert_nothing_left(void)
{
    struct emulated_counts counts;
    control->counts(&counts);
    if (counts.live_allocations || counts.live_host_allocations ||
        counts.live_pinned || counts.live_seen || counts.live_streams ||
        counts.live_events || counts.live_handles)
        fail_msg(
            "left on the device: %zu allocations, %zu of the host, %zu "
            "pinned, %zu of others, %zu streams, %zu events, %zu of cublasLt",
            counts.live_allocations, counts.live_host_allocations,
            counts.live_pinned, counts.live_seen, counts.live_streams,
            counts.live_events, counts.live_handles);
}

struct gw_device *emulated_open(const struct gw_backend_ops *ops,
                                enum gw_precision precision)
{
    const struct gw_device_options options = {.threads = 1,
                                              .precision = precision};
    struct gw_device *device = NULL;
    struct gw_error error;
    if (ops->open(&options, &device, &error) != GW_OK)
        fail_msg("%s", error.text);
    return device;
}

void emulated_fill(float *host, size_t elems, unsigned from)
{
    for (size_t i = 0; i < elems; i++)
        host[i] = (float)((i * 29 + from) % 31) / 16 - 1;
}
