#include "config.h"

#include "worker/feed.h"

/* Device memory for what the host fills: the same, where it can be. */
static void *beside(const struct gw_feed *feed, void *host, size_t bytes)
{
    if (!host)
        return NULL;
    return feed->ops->on_host ? feed->ops->adopt(feed->device, host, bytes)
                              : feed->ops->alloc(feed->device, bytes);
}

enum gw_status gw_feed_open(struct gw_feed *feed,
                            const struct gw_backend_ops *ops,
                            struct gw_device *device,
                            const struct gw_dataset_shape *shape,
                            size_t max_batch,
                            struct gw_error *error)
{
    size_t elems = shape->channels * shape->height * shape->width;
    size_t bytes = max_batch * elems * sizeof(float);
    size_t label_bytes = max_batch * sizeof(int32_t);
    *feed = (struct gw_feed){.ops = ops, .device = device, .elems = elems};
    feed->host_x = ops->alloc_host(device, bytes);
    feed->host_labels = ops->alloc_host(device, label_bytes);
    feed->x = beside(feed, feed->host_x, bytes);
    feed->labels = beside(feed, feed->host_labels, label_bytes);
    if (feed->x && feed->labels)
        return GW_OK;
    gw_feed_close(feed);
    return gw_fail(error, GW_ENOMEM,
                   "no memory for batches of %zu samples: lower train.batch",
                   max_batch);
}

void gw_feed_close(struct gw_feed *feed)
{
    if (!feed->ops)
        return;
    if (feed->x != feed->host_x)
        feed->ops->free(feed->device, feed->x);
    if (feed->labels != feed->host_labels)
        feed->ops->free(feed->device, feed->labels);
    feed->ops->free_host(feed->device, feed->host_x);
    feed->ops->free_host(feed->device, feed->host_labels);
    *feed = (struct gw_feed){0};
}

void gw_feed_load(struct gw_feed *feed,
                  const struct gw_dataset *data,
                  const struct gw_batch_site *site)
{
    gw_dataset_batch(data, site, feed->host_x, feed->host_labels);
    if (feed->x != feed->host_x)
        feed->ops->upload(feed->device, feed->x, feed->host_x,
                          site->n * feed->elems * sizeof(float));
    if (feed->labels != feed->host_labels)
        feed->ops->upload(feed->device, feed->labels, feed->host_labels,
                          site->n * sizeof(int32_t));
}
