/*
 * The CUDA driver of this machine, asked without being linked: a program that
 * knows GPUs starts where there is none.
 */
#ifndef GW_KERNELS_DRIVER_H
#define GW_KERNELS_DRIVER_H

#include <stddef.h>

#include "proto/status.h"

struct gw_driver {
    unsigned version; /* of CUDA, as it counts: 13000 is 13.0 */
    unsigned devices; /* that this process may use, at least 1 */
};

/*
 * GW_OK, or GW_EUNSUPPORTED with the reason in words: no driver, one that does
 * not start, no device, none that CUDA_VISIBLE_DEVICES leaves. After that the
 * driver stays in the process, which then must not fork to use it. Any thread.
 */
enum gw_status
gw_driver_probe(struct gw_driver *driver_p, char *why, size_t why_bytes);

/* Whether there is a GPU that this process may see, also where the driver does
   not start. Likewise. */
int gw_driver_has_gpu(void);

#endif
