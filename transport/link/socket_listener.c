#include "config.h"

#include "transport/link/socket_listener.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/link/loop_uv.h"

#define REST_US 100000

static void on_rested(struct gw_timer *timer);

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct gw_socket_listener *listener = poll->data;
    (void)events;
    if (status != 0)
        return;
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        listener->accepted(listener, fd);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        /* without descriptors the poll would come back at once, for ever */
        gw_listener_lacks(&listener->base, errno);
        uv_poll_stop(poll);
        listener->rest =
            (struct gw_timer){.fire = on_rested, .owner = listener};
        gw_timer_start(listener->base.transport->loop, &listener->rest,
                       REST_US);
    }
}

static void on_rested(struct gw_timer *timer)
{
    struct gw_socket_listener *listener = timer->owner;
    uv_poll_start(&listener->poll, UV_READABLE, on_acceptable);
}

enum gw_status gw_socket_listener_open(
    struct gw_socket_listener *listener,
    struct gw_listener **list,
    void (*accepted)(struct gw_socket_listener *listener, int fd),
    void (*closed)(struct gw_transport *transport),
    struct gw_error *error)
{
    uv_loop_t *uv = &gw_uv_loop_of(listener->base.transport->loop)->uv;
    if (uv_poll_init(uv, &listener->poll, listener->fd) != 0)
        return gw_fail(error, GW_EIO, "cannot watch %s",
                       listener->base.address);
    listener->accepted = accepted;
    listener->closed = closed;
    listener->poll.data = listener;
    gw_listener_enter(list, &listener->base);
    uv_poll_start(&listener->poll, UV_READABLE, on_acceptable);
    return GW_OK;
}

static void on_closed(uv_handle_t *handle)
{
    struct gw_socket_listener *listener = handle->data;
    struct gw_transport *transport = listener->base.transport;
    void (*closed)(struct gw_transport * transport) = listener->closed;
    close(listener->fd);
    free(listener);
    closed(transport);
}

void gw_socket_listener_close(struct gw_socket_listener *listener)
{
    gw_listener_leave(&listener->base);
    gw_timer_stop(listener->base.transport->loop, &listener->rest);
    uv_close((uv_handle_t *)&listener->poll, on_closed);
}
