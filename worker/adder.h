/*
 * Sums of what several workers' devices have, made by this worker's: it reads
 * the others' memory as its own, over NVLink or whatever lies between them. It
 * is a second one of the same device, so that sums go on beside the training.
 */
#ifndef GW_WORKER_ADDER_H
#define GW_WORKER_ADDER_H

#include "kernels/kernels.h"
#include "worker/client.h"

struct gw_config;
struct gw_adder;

struct gw_adder_options {
    const struct gw_config *config; /* and place: as gw_device_open has them */
    uint32_t place;
    const struct gw_backend_ops *ops;
    struct gw_device *device; /* that has the gradients, */
    float *on_device;         /* in an arena, */
    float *on_host;           /* which the client has alike on the host */
};

/* The device must outlive it. GW_EUNSUPPORTED: it shows no memory to others.
   GW_ENOMEM; errors of gw_device_open. */
enum gw_status gw_adder_open(const struct gw_adder_options *options,
                             struct gw_adder **adder_p,
                             struct gw_error *error);
void gw_adder_close(struct gw_adder *adder);

/* For gw_client_attach; the adder's. NULL of NULL. */
const struct gw_device_sums *gw_adder_sums(const struct gw_adder *adder);

#endif
