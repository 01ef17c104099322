/*
 * Gradients and weights on a device, for others than the thread that computes
 * with them. Other workers' devices are shown where they lie, and this one sums
 * what it sees of their gradients with its own, over NVLink or whatever lies
 * between them, and puts there the weights that they copy. Devices of the
 * network are told of the gradients' pages; and what neither takes from there
 * is brought to the host. It works with a second one of the same device, so
 * that all this goes on beside the training.
 */
#ifndef GW_WORKER_LENDER_H
#define GW_WORKER_LENDER_H

#include "kernels/kernels.h"
#include "worker/client/client.h"
#include "worker/trainer/trial.h"

struct gw_lender;

/* On the device, and alike the client's on the host. */
struct gw_lender_arena {
    void *on_device, *on_host;
};

struct gw_lender_options {
    const struct gw_backend_ops *ops;
    struct gw_device *device; /* that has the arenas, */
    struct gw_device *beside; /* and another one of it, the lender's in any
                                 case */
    struct gw_lender_arena gradients;
    /* as the client has them sent, and where others find them on theirs: an
       allocation of which only the raw ones are at the beginning */
    struct gw_lender_arena weights[GW_ENCODINGS];
    int shows; /* other workers may see them */
    /* For devices of the network, whose descriptor is the lender's as soon as
       it is open; of 0 bytes: not for them. */
    struct gw_memory pages;
};

/* The device must outlive it. GW_ENOMEM. */
enum gw_status gw_lender_open(const struct gw_lender_options *options,
                              struct gw_lender **lender_p,
                              struct gw_error *error);
void gw_lender_close(struct gw_lender *lender);

/* For gw_client_attach; the lender's. NULL of NULL. */
const struct gw_device_arenas *gw_lender_arenas(const struct gw_lender *lender);

#endif
