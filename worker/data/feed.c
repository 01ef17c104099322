#include "config.h"

#include "worker/data/feed.h"

#define PIECE_BYTES ((size_t)256 << 10)

struct gw_feed_bytes gw_feed_bytes(const struct gw_dataset_shape *shape,
                                   size_t max_batch)
{
    size_t elems = shape->channels * shape->height * shape->width;
    return (struct gw_feed_bytes){.x = max_batch * elems * sizeof(float),
                                  .labels = max_batch * sizeof(int32_t)};
}

unsigned gw_feed_sides(const struct gw_backend_ops *ops)
{
    return ops->on_host ? 1 : 2;
}

static int open_sides(struct gw_feed *feed, const struct gw_feed_bytes *bytes)
{
    for (unsigned i = 0; i < gw_feed_sides(feed->ops); i++) {
        feed->side[i].x = feed->ops->alloc_host(feed->device, bytes->x);
        feed->side[i].labels =
            feed->ops->alloc_host(feed->device, bytes->labels);
        if (!feed->side[i].x || !feed->side[i].labels)
            return 0;
    }
    return 1;
}

/* Device memory for the samples that the host fills: the same memory, if it can
   be. */
static void *beside(const struct gw_feed *feed, void *host, size_t bytes)
{
    return feed->ops->on_host ? host : feed->ops->alloc(feed->device, bytes);
}

enum gw_status gw_feed_open(struct gw_feed *feed,
                            const struct gw_backend_ops *ops,
                            struct gw_device *device,
                            const struct gw_dataset_shape *shape,
                            size_t max_batch,
                            struct gw_error *error)
{
    const struct gw_feed_bytes bytes = gw_feed_bytes(shape, max_batch);
    *feed = (struct gw_feed){
        .ops = ops,
        .device = device,
        .elems = shape->channels * shape->height * shape->width,
    };
    int on_host = open_sides(feed, &bytes);
    if (on_host) {
        feed->x = beside(feed, feed->side[0].x, bytes.x);
        feed->labels = beside(feed, feed->side[0].labels, bytes.labels);
    }
    if (feed->x && feed->labels)
        return GW_OK;
    gw_feed_close(feed);
    return gw_fail(error, GW_ENOMEM,
                   "no memory on the %s for batches of %zu samples: lower "
                   "train.batch",
                   on_host ? "device" : "host", max_batch);
}

void gw_feed_close(struct gw_feed *feed)
{
    if (!feed->ops)
        return;
    if (!feed->ops->on_host) {
        feed->ops->free(feed->device, feed->x);
        feed->ops->free(feed->device, feed->labels);
    }
    for (unsigned i = 0; i < 2; i++) {
        feed->ops->free_host(feed->device, feed->side[i].x);
        feed->ops->free_host(feed->device, feed->side[i].labels);
    }
    *feed = (struct gw_feed){0};
}

static int is_of(const struct gw_feed_side *side,
                 const struct gw_dataset *data,
                 const struct gw_batch_site *site)
{
    const struct gw_batch_site *its = &side->site;
    return side->data == data && its->seed == site->seed &&
           its->epoch == site->epoch && its->first == site->first &&
           its->n == site->n && its->train == site->train;
}

/* Up to `most` samples more of a batch; samples of another batch are dropped.
   Returns 0 when it has all of it. */
static int fill(const struct gw_feed *feed,
                struct gw_feed_side *side,
                const struct gw_dataset *data,
                const struct gw_batch_site *site,
                size_t most)
{
    struct gw_batch_site piece = *site;
    if (!is_of(side, data, site)) {
        side->data = data;
        side->site = *site;
        side->filled = 0;
    }
    piece.first += side->filled;
    piece.n -= side->filled;
    if (piece.n > most)
        piece.n = most;
    gw_dataset_batch(data, &piece, side->x + side->filled * feed->elems,
                     side->labels + side->filled);
    side->filled += piece.n;
    return side->filled < site->n;
}

void gw_feed_load(struct gw_feed *feed,
                  const struct gw_dataset *data,
                  const struct gw_batch_site *site)
{
    if (feed->ops->on_host) {
        gw_dataset_batch(data, site, feed->x, feed->labels);
        return;
    }
    if (is_of(&feed->side[!feed->front], data, site))
        feed->front = !feed->front;
    struct gw_feed_side *side = &feed->side[feed->front];
    fill(feed, side, data, site, site->n);
    feed->ops->upload(feed->device, feed->x, side->x,
                      site->n * feed->elems * sizeof(float));
    feed->ops->upload(feed->device, feed->labels, side->labels,
                      site->n * sizeof(int32_t));
}

int gw_feed_ahead(struct gw_feed *feed,
                  const struct gw_dataset *data,
                  const struct gw_batch_site *site)
{
    size_t piece = PIECE_BYTES / (feed->elems * sizeof(float));
    return !feed->ops->on_host && fill(feed, &feed->side[!feed->front], data,
                                       site, piece > 0 ? piece : 1);
}
