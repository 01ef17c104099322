/*
 * Completion queues are polled by the loop, and before it sleeps the devices
 * are told to wake it. See loop_uv_poll.c.
 */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Links with something to send, or with new room, post it together; when the
   turn is over the rest waits for the next poll. */
static void flush_dirty(struct gw_rdma *rdma)
{
    for (unsigned done = 0; rdma->dirty; done++) {
        if (done > 0 && gw_loop_turn_is_over(rdma->base.loop)) {
            gw_uv_poll_soon(rdma->base.loop);
            break;
        }
        struct gw_rdma_link *link = rdma->dirty;
        rdma->dirty = link->next_dirty;
        link->dirty = 0;
        if (link->base.up)
            gw_rdma_write(link);
    }
}

/* Handles completions, and sends replies that are due: a batch of each device,
   in its order. When the turn is over, later ones wait. */
static int poll_rdma(struct gw_poller *poller, uint64_t now_us)
{
    struct gw_rdma *rdma = GW_CONTAINER(poller, struct gw_rdma, poller);
    struct gw_rdma_device *next;
    int n = 0;
    rdma->now_us = now_us;
    gw_rdma_free_closed(rdma);
    flush_dirty(rdma);
    for (struct gw_rdma_device *one = rdma->devices; one; one = next) {
        next = one->next;
        n += gw_rdma_device_poll(one);
    }
    flush_dirty(rdma);
    poller->waits = rdma->devices != NULL;
    poller->busy = rdma->busy && poller->waits;
    return n;
}

static void arm(struct gw_poller *poller)
{
    struct gw_rdma *rdma = GW_CONTAINER(poller, struct gw_rdma, poller);
    for (struct gw_rdma_device *one = rdma->devices; one; one = one->next)
        gw_rdma_device_arm(one);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    gw_rdma_on_connection(poll->data);
}

enum gw_status gw_rdma_poll_open(struct gw_rdma *rdma, struct gw_error *error)
{
    char why[256];
    rdma->channel = rdma->lib.create_event_channel();
    if (!rdma->channel) {
        gw_rdma_explain_closed(why, sizeof why);
        return gw_fail(error, GW_EIO, "%s", why);
    }
    int fd = rdma->channel->fd;
    rdma->uv = &gw_uv_loop_of(rdma->base.loop)->uv;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
        uv_poll_init(rdma->uv, &rdma->cm_events, fd) != 0) {
        rdma->lib.destroy_event_channel(rdma->channel);
        return gw_fail(error, GW_EIO, "cannot watch RDMA connections");
    }
    rdma->cm_events.data = rdma;
    rdma->handles = 1;
    rdma->poller.poll = poll_rdma;
    rdma->poller.arm = arm;
    gw_uv_poller_add(rdma->base.loop, &rdma->poller);
    uv_poll_start(&rdma->cm_events, UV_READABLE, on_connection);
    return GW_OK;
}

static void on_closed(uv_handle_t *handle)
{
    gw_rdma_handle_gone(handle->data);
}

void gw_rdma_poll_close(struct gw_rdma *rdma)
{
    gw_uv_poller_remove(rdma->base.loop, &rdma->poller);
    uv_close((uv_handle_t *)&rdma->cm_events, on_closed);
}
