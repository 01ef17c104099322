/*
 * A backend that is no part of the program but a file beside it, so that one
 * build runs where the libraries of a device are and where they are not.
 */
#ifndef GW_KERNELS_MODULE_H
#define GW_KERNELS_MODULE_H

#include "kernels/kernels.h"

/* What such a file exports, under the name GW_MODULE_SYMBOL. */
struct gw_module {
    size_t ops_bytes;    /* of struct gw_backend_ops, as it was built */
    const char *version; /* of the program that it was built with */
    unsigned driver;     /* the oldest driver that will do, as CUDA counts */
    const struct gw_backend_ops *ops;
};
#define GW_MODULE_SYMBOL "gw_module"

/*
 * The module in `file`, which stays loaded; NULL with the reason in words: it
 * is not there, cannot be loaded, or was built with another version. The same
 * file gives the same module. Any thread.
 */
const struct gw_module *
gw_module_load(const char *file, char *why, size_t why_bytes);

/*
 * The backend "cuda" of this machine: its driver works, the module is there and
 * knows the devices. NULL with the reason in words. The module is looked for in
 * $GRADWEIR_MODULES; without that in kernels/ beside the program, then where it
 * is installed.
 */
const struct gw_backend_ops *gw_cuda_backend(char *why, size_t why_bytes);

/* Of what that module has, name and sizes (gw_backend_outline). */
extern const struct gw_backend_ops gw_cuda_outline;

#endif
