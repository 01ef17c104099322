/*
 * Links of a transport: found by the serial of a completion, marked as dirty to
 * be written at the next poll, and freed.
 */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <stdlib.h>

static void enter_bucket(struct gw_rdma *rdma, struct gw_rdma_link *link)
{
    struct gw_rdma_link **bucket =
        &rdma->bucket[link->serial % GW_RDMA_BUCKETS];
    link->same = *bucket;
    if (link->same)
        link->same->same_back = &link->same;
    link->same_back = bucket;
    *bucket = link;
}

struct gw_rdma_link *gw_rdma_link_find(struct gw_rdma *rdma, uint32_t serial)
{
    struct gw_rdma_link *link = rdma->bucket[serial % GW_RDMA_BUCKETS];
    while (link && link->serial != serial)
        link = link->same;
    return link;
}

struct gw_rdma_link *gw_rdma_link_new(struct gw_rdma *rdma)
{
    struct gw_rdma_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->rdma = rdma;
    link->serial = ++rdma->serial;
    link->out.asked = GW_WINDOW_NONE;
    gw_connection_begin(&link->connection, &rdma->connections, &link->base);
    enter_bucket(rdma, link);
    return link;
}

void gw_rdma_make_dirty(struct gw_rdma_link *link)
{
    if (link->dirty || !link->base.up)
        return;
    link->dirty = 1;
    /* may be called after the loop has polled */
    gw_uv_poll_soon(link->rdma->base.loop);
    link->next_dirty = link->rdma->dirty;
    link->rdma->dirty = link;
}

void gw_rdma_link_take_out(struct gw_rdma_link *link)
{
    struct gw_rdma *rdma = link->rdma;
    *link->same_back = link->same;
    if (link->same)
        link->same->same_back = link->same_back;
    if (!link->dirty)
        return;
    struct gw_rdma_link **at = &rdma->dirty;
    while (*at != link)
        at = &(*at)->next_dirty;
    *at = link->next_dirty;
}

void gw_rdma_free_closed(struct gw_rdma *rdma)
{
    struct gw_rdma_link **at = &rdma->closed;
    while (*at) {
        struct gw_rdma_link *link = *at;
        if (link->resolving || link->qp) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free(link->found);
        free(link->in.message);
        free(link);
    }
}

void gw_rdma_handle_gone(struct gw_rdma *rdma)
{
    if (--rdma->handles > 0)
        return;
    gw_rdma_free_closed(rdma);
    rdma->lib.destroy_event_channel(rdma->channel);
    free(rdma);
}
