/*
 * Shares the gradients and weights of a device with threads and processes other
 * than the one that computes with them. Other workers' devices import them in
 * place. This device sums the gradients that it sees of other workers with its
 * own, over NVLink or any other link, and uploads the weights that they copy.
 * Devices of the network get the gradients' pages; gradients that neither reads
 * there are brought to the host. The share has a second handle of the device,
 * so that all this goes on during the training.
 */
#ifndef GW_WORKER_DEVICE_SHARE_H
#define GW_WORKER_DEVICE_SHARE_H

#include "kernels/kernels.h"
#include "worker/client/client.h"
#include "worker/trainer/trial.h"

struct gw_device_share;

/* An arena on the device, and the client's on the host, in the same layout. */
struct gw_device_share_arena {
    void *on_device, *on_host;
};

struct gw_device_share_options {
    const struct gw_backend_ops *ops;
    struct gw_device *device; /* with the arenas, */
    struct gw_device *second; /* another handle, always the share's */
    struct gw_device_share_arena gradients;
    /* by the encoding in which the client has them sent; others find them in
       the same layout on their devices: in one allocation, which begins with
       the raw ones */
    struct gw_device_share_arena weights[GW_ENCODINGS];
    int exports; /* other workers may import them */
    /* For devices of the network; the descriptor is the share's as soon as it
       is open. 0 bytes: not for them. */
    struct gw_memory pages;
};

/* The device must outlive it. GW_ENOMEM. */
enum gw_status
gw_device_share_open(const struct gw_device_share_options *options,
                     struct gw_device_share **share_p,
                     struct gw_error *error);
void gw_device_share_close(struct gw_device_share *share);

/* For gw_client_attach; the share's. NULL for NULL. */
const struct gw_device_arenas *
gw_device_share_arenas(const struct gw_device_share *share);

#endif
