/*
 * Where the loop looks for completions. Before it would sleep, the queues are
 * looked at; where messages come one soon after the other, it goes on looking
 * for a while, since to be woken takes longer than many of them. How long is
 * learnt: a wait that was in vain halves it, one that was too short by little
 * doubles it. Then the device is told to wake the loop.
 *
 *   prepare   send, look (and look), or arm      then libuv sleeps, or not
 *   check     look, send
 */
#include "config.h"

#include "transport/rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define SPIN_MOST_US  100
#define SPIN_LEAST_US 5

/* So long, before libuv looks at everything else. */
#define LOOK_US 50

static void do_not_sleep(uv_idle_t *spin)
{
    (void)spin;
}

static void do_not_wait(struct gw_rdma *rdma)
{
    if (!uv_is_closing((uv_handle_t *)&rdma->spin))
        uv_idle_start(&rdma->spin, do_not_sleep);
}

void gw_rdma_make_dirty(struct gw_rdma_link *link)
{
    if (link->dirty || link->state != GW_RDMA_UP)
        return;
    link->dirty = 1;
    /* who made it so may be called after our prepare */
    do_not_wait(link->rdma);
    link->next_dirty = link->rdma->dirty;
    link->rdma->dirty = link;
}

/* Links that got something to send, or room for it, post it together. */
static void flush_dirty(struct gw_rdma *rdma)
{
    while (rdma->dirty) {
        struct gw_rdma_link *link = rdma->dirty;
        rdma->dirty = link->next_dirty;
        link->dirty = 0;
        if (link->state == GW_RDMA_UP)
            gw_rdma_write(link);
    }
}

/* What has completed, and what is to be sent for it. */
static int look(struct gw_rdma *rdma)
{
    int n = 0;
    struct gw_rdma_device *next;
    flush_dirty(rdma);
    for (struct gw_rdma_device *one = rdma->devices; one; one = next) {
        next = one->next;
        n += gw_rdma_device_poll(one);
    }
    flush_dirty(rdma);
    if (n > 0)
        rdma->seen_us = gw_loop_now(rdma->base.loop);
    return n;
}

/* The next completion came, after the loop had armed and slept. */
static void learn_more(struct gw_rdma *rdma, uint64_t now)
{
    if (rdma->armed_us && now - rdma->armed_us < SPIN_MOST_US)
        rdma->spin_us =
            rdma->spin_us * 2 < SPIN_MOST_US ? rdma->spin_us * 2 : SPIN_MOST_US;
    rdma->armed_us = 0;
}

static void arm(struct gw_rdma *rdma, uint64_t now)
{
    if (!rdma->armed_us && rdma->seen_us)
        rdma->spin_us = rdma->spin_us / 2 > SPIN_LEAST_US ? rdma->spin_us / 2
                                                          : SPIN_LEAST_US;
    rdma->armed_us = now;
    for (struct gw_rdma_device *one = rdma->devices; one; one = one->next)
        gw_rdma_device_arm(one);
}

/* Whether it is worth while to look again, and not to sleep. */
static int is_busy(const struct gw_rdma *rdma, uint64_t now)
{
    return rdma->devices &&
           (rdma->config.busy || now < rdma->seen_us + rdma->spin_us);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct gw_rdma *rdma = prepare->data;
    struct gw_loop *loop = rdma->base.loop;
    uint64_t now = gw_loop_now(loop), began = now;
    gw_rdma_bury(rdma);
    int n = look(rdma);
    while (n == 0 && is_busy(rdma, now) && now < began + LOOK_US) {
        n = look(rdma);
        now = gw_loop_now(loop);
    }
    if (n > 0)
        learn_more(rdma, rdma->seen_us);
    if (n == 0 && !is_busy(rdma, now)) {
        arm(rdma, now);
        n = look(rdma); /* what came before it was armed tells nobody */
    }
    if (n > 0 || is_busy(rdma, now))
        do_not_wait(rdma);
    else
        uv_idle_stop(&rdma->spin);
}

static void on_check(uv_check_t *check)
{
    look(check->data);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    gw_rdma_on_connection(poll->data);
}

enum gw_status gw_rdma_poll_open(struct gw_rdma *rdma, struct gw_error *error)
{
    rdma->channel = rdma_create_event_channel();
    if (!rdma->channel)
        return gw_fail(error, GW_EIO,
                       "cannot open /dev/infiniband/rdma_cm: %s (is the module "
                       "rdma_ucm loaded?)",
                       strerror(errno));
    int fd = rdma->channel->fd;
    rdma->uv = &gw_uv_loop_of(rdma->base.loop)->uv;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
        uv_poll_init(rdma->uv, &rdma->connections, fd) != 0) {
        rdma_destroy_event_channel(rdma->channel);
        return gw_fail(error, GW_EIO, "cannot watch RDMA connections");
    }
    uv_prepare_init(rdma->uv, &rdma->before_poll);
    uv_check_init(rdma->uv, &rdma->after_poll);
    uv_idle_init(rdma->uv, &rdma->spin);
    rdma->before_poll.data = rdma->after_poll.data = rdma;
    rdma->spin.data = rdma->connections.data = rdma;
    rdma->handles = 4;
    rdma->spin_us = SPIN_MOST_US;
    uv_prepare_start(&rdma->before_poll, on_prepare);
    uv_check_start(&rdma->after_poll, on_check);
    uv_poll_start(&rdma->connections, UV_READABLE, on_connection);
    return GW_OK;
}

static void on_closed(uv_handle_t *handle)
{
    gw_rdma_handle_gone(handle->data);
}

void gw_rdma_poll_close(struct gw_rdma *rdma)
{
    uv_close((uv_handle_t *)&rdma->before_poll, on_closed);
    uv_close((uv_handle_t *)&rdma->after_poll, on_closed);
    uv_close((uv_handle_t *)&rdma->spin, on_closed);
    uv_close((uv_handle_t *)&rdma->connections, on_closed);
    rdma_destroy_event_channel(rdma->channel);
    rdma->channel = NULL;
}
