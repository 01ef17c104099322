/*
 * An emulated CUDA driver, libcuda.so.1, for the program's probe. GW_FAKE_CUDA
 * sets its answers: init=100 (result of cuInit), version=12040, devices=0,
 * memory=BYTES; the defaults are one device "Emulated" and version 13000.
 */
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/cuda/answers.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101
};

EXPORT int cuInit(unsigned flags);
EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuDeviceGet(int *device, int ordinal);
EXPORT int cuDeviceGetName(char *name, int bytes, int device);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
EXPORT int cuGetErrorName(int error, const char **name);
EXPORT int cuGetErrorString(int error, const char **text);

EXPORT int cuMemGetHandleForAddressRange(
    void *handle, uintptr_t at, size_t bytes, int type, uint64_t flags);
extern fake_range *fake_get_range;
EXPORT fake_range *fake_get_range; /* the pointer of FAKE_RANGE_SYMBOL */

static int devices(void)
{
    return (int)fake_number("devices", 1);
}

static int ready(void)
{
    int init = (int)fake_number("init", SUCCESS);
    return init == SUCCESS ? SUCCESS : NOT_INITIALIZED;
}

int cuInit(unsigned flags)
{
    int init = (int)fake_number("init", SUCCESS);
    if (flags != 0)
        return INVALID_VALUE;
    return init == SUCCESS && devices() == 0 ? NO_DEVICE : init;
}

int cuDriverGetVersion(int *version)
{
    *version = (int)fake_number("version", 13000);
    return SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    if (ready() != SUCCESS)
        return ready();
    *count = devices();
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    if (ready() != SUCCESS)
        return ready();
    if (ordinal < 0 || ordinal >= devices())
        return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    if (device < 0 || device >= devices() || bytes <= 0)
        return INVALID_DEVICE;
    snprintf(name, (size_t)bytes, "Emulated");
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    if (device < 0 || device >= devices())
        return INVALID_DEVICE;
    /* attributes of cuda.h: compute capability 9.0, 4 multiprocessors */
    static const int known[][2] = {{75, 9}, {76, 0}, {16, 4}, {10, 32}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i][0] == attribute) {
            *value = known[i][1];
            return SUCCESS;
        }
    return INVALID_VALUE;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    if (device < 0 || device >= devices())
        return INVALID_DEVICE;
    *bytes = (size_t)fake_number("memory", 1LL << 30);
    return SUCCESS;
}

int cuMemGetHandleForAddressRange(
    void *handle, uintptr_t at, size_t bytes, int type, uint64_t flags)
{
    return fake_get_range ? fake_get_range(handle, at, bytes, type, flags)
                          : NOT_INITIALIZED;
}

static const struct {
    int error;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int say(int error, const char **name, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) {
            *name = errors[i].name;
            *text = errors[i].text;
            return SUCCESS;
        }
    *name = *text = NULL;
    return INVALID_VALUE;
}

int cuGetErrorName(int error, const char **name)
{
    const char *text;
    return say(error, name, &text);
}

int cuGetErrorString(int error, const char **text)
{
    const char *name;
    return say(error, &name, text);
}
