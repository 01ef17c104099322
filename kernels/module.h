/*
 * A backend in a file of its own, loaded by the program, so that one build runs
 * both with and without the libraries of a device.
 */
#ifndef GW_KERNELS_MODULE_H
#define GW_KERNELS_MODULE_H

#include "kernels/kernels.h"

/* The file exports it under the name GW_MODULE_SYMBOL. */
struct gw_module {
    size_t ops_bytes;    /* sizeof(struct gw_backend_ops) when it was built */
    const char *version; /* version of the program that it was built with */
    unsigned driver;     /* the oldest driver that works, as CUDA counts
                            versions */
    const struct gw_backend_ops *ops;
};
#define GW_MODULE_SYMBOL "gw_module"

/*
 * Loads the module in `file` for the rest of the process; NULL with the reason
 * in words: it is missing, cannot be loaded, or was built with another version.
 * The same file gives the same module. Any thread.
 */
const struct gw_module *
gw_module_load(const char *file, char *why, size_t why_bytes);

/*
 * The backend "cuda" of this machine, if its driver works, and the module is
 * there and supports a device; else NULL with the reason in words. The module
 * is searched in $GRADWEIR_MODULES; without that in kernels/ beside the
 * program, then in the installation.
 */
const struct gw_backend_ops *gw_cuda_backend(char *why, size_t why_bytes);

/* Name and sizes of that module's backend (gw_backend_outline). */
extern const struct gw_backend_ops gw_cuda_outline;

#endif
