#include "config.h"

#include "kernels/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/driver.h"

#define CUDA_FILE "gradweir-cuda.so"

static const struct gw_module *
check(const char *file, const struct gw_module *module, char *why, size_t bytes)
{
    if (!module)
        snprintf(why, bytes, "%s is no module of gradweir", file);
    else if (strcmp(module->version, PACKAGE_VERSION) != 0)
        snprintf(why, bytes,
                 "%s is of gradweir %s, this is %s: install both together",
                 file, module->version, PACKAGE_VERSION);
    else if (module->ops_bytes != sizeof(struct gw_backend_ops))
        snprintf(why, bytes,
                 "%s was not built together with this program: build or "
                 "install both",
                 file);
    else
        return module;
    return NULL;
}

const struct gw_module *
gw_module_load(const char *file, char *why, size_t why_bytes)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, why_bytes, "%s", dlerror());
        return NULL;
    }
    const struct gw_module *module =
        check(file, dlsym(library, GW_MODULE_SYMBOL), why, why_bytes);
    if (!module)
        dlclose(library);
    return module;
}

/* Directory of the running program; "" if it is not known. */
static void own_directory(char dir[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", dir, PATH_MAX - 1);
    dir[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(dir, '/');
    *(slash ? slash : dir) = '\0';
}

/* The first candidate that exists, else the last one. */
static void find_file(const char *name, char file[PATH_MAX + 64])
{
    const char *told = getenv("GRADWEIR_MODULES");
    char dir[PATH_MAX];
    own_directory(dir);
    if (told) {
        snprintf(file, PATH_MAX + 64, "%s/%s", told, name);
        return;
    }
    snprintf(file, PATH_MAX + 64, "%s/kernels/%s", dir, name);
    if (access(file, F_OK) != 0)
        snprintf(file, PATH_MAX + 64, "%s/%s", GW_MODULE_DIR, name);
}

/* NVIDIA's first driver for each major version of CUDA. */
static const struct {
    unsigned cuda;
    const char *driver;
} drivers[] = {{12000, "525"}, {13000, "580"}};

static void say_too_old(const struct gw_driver *driver,
                        const struct gw_module *module,
                        char *why,
                        size_t why_bytes)
{
    const char *from = "a newer one";
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (drivers[i].cuda == module->driver)
            from = drivers[i].driver;
    int used = snprintf(
        why, why_bytes,
        "the NVIDIA driver is for CUDA %u.%u, %u.%u is needed: install a newer "
        "driver (%s or later), or on data-centre GPUs the package "
        "cuda-compat-%u-%u",
        driver->version / 1000, driver->version % 1000 / 10,
        module->driver / 1000, module->driver % 1000 / 10, from,
        module->driver / 1000, module->driver % 1000 / 10);
    /* our kernels need CUDA 12.0 or later */
    if (driver->version >= drivers[0].cuda && (size_t)used < why_bytes)
        snprintf(why + used, why_bytes - (size_t)used,
                 ", or a build with CUDA %u", driver->version / 1000);
}

static const struct gw_backend_ops *
open_module(const struct gw_driver *driver, char *why, size_t why_bytes)
{
    char file[PATH_MAX + 64];
    find_file(CUDA_FILE, file);
    if (access(file, F_OK) != 0) {
        snprintf(why, why_bytes,
                 "a GPU is here, but not the module for it (%s): configure "
                 "says whether it is built, make install puts it there",
                 file);
        return NULL;
    }
    const struct gw_module *module = gw_module_load(file, why, why_bytes);
    if (!module)
        return NULL;
    if (driver->version < module->driver) {
        say_too_old(driver, module, why, why_bytes);
        return NULL;
    }
    return module->ops->probe(why, why_bytes) == GW_OK ? module->ops : NULL;
}

const struct gw_backend_ops *gw_cuda_backend(char *why, size_t why_bytes)
{
    struct gw_driver driver;
    if (gw_driver_probe(&driver, why, why_bytes) != GW_OK)
        return NULL;
    return open_module(&driver, why, why_bytes);
}
