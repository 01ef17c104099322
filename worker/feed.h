/*
 * Batches on their way from a data set to a device: host memory that the data
 * set fills, and the device's that a model reads; on the cpu these are one.
 * Used by one thread at a time.
 */
#ifndef GW_WORKER_FEED_H
#define GW_WORKER_FEED_H

#include "kernels/kernels.h"
#include "worker/dataset.h"

struct gw_feed {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    size_t elems; /* of a sample */
    float *host_x, *x;
    int32_t *host_labels, *labels;
};

/* For up to max_batch samples; the device must outlive the feed. GW_ENOMEM. */
enum gw_status gw_feed_open(struct gw_feed *feed,
                            const struct gw_backend_ops *ops,
                            struct gw_device *device,
                            const struct gw_dataset_shape *shape,
                            size_t max_batch,
                            struct gw_error *error);
/* Also of one that is all zeros. */
void gw_feed_close(struct gw_feed *feed);

/* Samples as gw_dataset_batch gives them, into feed->x and feed->labels. The
   device must have done what was to be done with those before. */
void gw_feed_load(struct gw_feed *feed,
                  const struct gw_dataset *data,
                  const struct gw_batch_site *site);

#endif
