/*
 * Asks this machine's CUDA driver without linking to it, so that the program
 * starts on machines without one.
 */
#ifndef GW_KERNELS_DRIVER_H
#define GW_KERNELS_DRIVER_H

#include <stddef.h>

#include "proto/status.h"

struct gw_driver {
    unsigned version; /* CUDA version: 13000 is 13.0 */
    unsigned devices; /* usable by this process, at least 1 */
};

/*
 * GW_OK, or GW_EUNSUPPORTED with the reason in words: no driver, one that does
 * not start, no device, none left by CUDA_VISIBLE_DEVICES. Afterwards the
 * driver stays in the process, which must not fork to use it. Any thread.
 */
enum gw_status
gw_driver_probe(struct gw_driver *driver_p, char *why, size_t why_bytes);

/* 1 if this process may see a GPU, even if the driver does not start. Any
   thread; the driver stays, as above. */
int gw_driver_has_gpu(void);

#endif
