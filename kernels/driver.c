#include "config.h"

#include "kernels/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* CUDA_ERROR_NO_DEVICE of cuda.h, the only result that is told apart here. */
#define NO_DEVICE 100
/* our own results, outside the driver's range */
#define NOT_HERE  (-1)
#define NO_DRIVER (-2)

/* The driver's calls that are needed, found by name. */
struct calls {
    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*count)(int *count);
    int (*name)(int result, const char **text);
    int (*string)(int result, const char **text);
};

static int find(void *library, const char *symbol, void *call)
{
    void *at = dlsym(library, symbol);
    *(void **)call = at;
    return at != NULL;
}

static int find_calls(void *library, struct calls *calls)
{
    return find(library, "cuInit", &calls->init) &&
           find(library, "cuDriverGetVersion", &calls->version) &&
           find(library, "cuDeviceGetCount", &calls->count) &&
           find(library, "cuGetErrorName", &calls->name) &&
           find(library, "cuGetErrorString", &calls->string);
}

static enum gw_status
explain(const struct calls *calls, int result, char *why, size_t why_bytes)
{
    const char *name = NULL, *string = NULL;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (result == NO_DEVICE && visible) {
        snprintf(why, why_bytes,
                 "CUDA_VISIBLE_DEVICES = \"%s\" leaves no GPU of this machine: "
                 "correct or unset it (nvidia-smi -L lists what is there)",
                 visible);
        return GW_EUNSUPPORTED;
    }
    if (result == NO_DEVICE) {
        snprintf(why, why_bytes,
                 "the NVIDIA driver is here, but no GPU; in a container, start "
                 "it with its GPUs");
        return GW_EUNSUPPORTED;
    }
    calls->name(result, &name);
    calls->string(result, &string);
    snprintf(why, why_bytes,
             "the NVIDIA driver does not start: %s (%s, %d); see what "
             "nvidia-smi says",
             string ? string : "an unknown error", name ? name : "?", result);
    return GW_EUNSUPPORTED;
}

/* Returns 0 and sets *driver_p if the driver works, else the driver's error, or
   NOT_HERE or NO_DRIVER, which are negative. */
static int ask(struct calls *calls, struct gw_driver *driver_p)
{
    int version = 0, devices = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return NOT_HERE;
    if (!find_calls(library, calls)) {
        dlclose(library);
        return NO_DRIVER;
    }
    int result = calls->init(0);
    if (result == 0)
        result = calls->version(&version);
    if (result == 0)
        result = calls->count(&devices);
    if (result == 0 && devices <= 0)
        result = NO_DEVICE;
    if (result == 0)
        *driver_p = (struct gw_driver){.version = (unsigned)version,
                                       .devices = (unsigned)devices};
    return result;
}

enum gw_status
gw_driver_probe(struct gw_driver *driver_p, char *why, size_t why_bytes)
{
    struct calls calls;
    int result = ask(&calls, driver_p);
    if (result == 0)
        return GW_OK;
    if (result > 0)
        return explain(&calls, result, why, why_bytes);
    snprintf(why, why_bytes, "%s",
             result == NOT_HERE ? "no NVIDIA driver is here (no libcuda.so.1)"
                                : "libcuda.so.1 is no driver of CUDA");
    return GW_EUNSUPPORTED;
}

int gw_driver_has_gpu(void)
{
    struct calls calls;
    struct gw_driver driver;
    int result = ask(&calls, &driver);
    return result >= 0 && result != NO_DEVICE;
}
