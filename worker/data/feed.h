/*
 * Batches on their way from a data set to a device: host memory that the data
 * set fills, and the device's that a model reads; on the cpu these are one.
 * Elsewhere the next batch can be filled in while the device computes. Used by
 * one thread at a time.
 */
#ifndef GW_WORKER_FEED_H
#define GW_WORKER_FEED_H

#include "kernels/kernels.h"
#include "worker/data/dataset.h"

struct gw_feed {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    size_t elems; /* of a sample */
    float *x;
    int32_t *labels;
    struct gw_feed_side {
        float *x;
        int32_t *labels;
        const struct gw_dataset *data; /* the set of its samples; NULL: it has
                                          none */
        struct gw_batch_site site;
        size_t filled; /* samples of it */
    } side[2];         /* in host memory; on the cpu one, which is the above */
    unsigned front;    /* the side that was loaded last */
};

/* Bytes of so many samples, in each place that has them. */
struct gw_feed_bytes {
    size_t x, labels;
};
struct gw_feed_bytes gw_feed_bytes(const struct gw_dataset_shape *shape,
                                   size_t max_batch);
/* How often the host has them. */
unsigned gw_feed_sides(const struct gw_backend_ops *ops);

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
   device must be done with the samples of before. */
void gw_feed_load(struct gw_feed *feed,
                  const struct gw_dataset *data,
                  const struct gw_batch_site *site);

/*
 * A piece, of about a quarter of a MiB, of the batch that gw_feed_load will
 * probably be asked for next, into host memory alone: for when the device is
 * busy and the host has little to do. 0: there is no more to fill, as always on
 * the cpu.
 */
int gw_feed_ahead(struct gw_feed *feed,
                  const struct gw_dataset *data,
                  const struct gw_batch_site *site);

#endif
