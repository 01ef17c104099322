#include "config.h"

#include "transport/link/door.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/link/loop_uv.h"

#define REST_US 100000

static void on_rested(struct gw_timer *timer);

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct gw_door *door = poll->data;
    (void)events;
    if (status != 0)
        return;
    int fd = accept4(door->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        door->come(door, fd);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        /* out of descriptors the poll would come back at once, for ever */
        gw_listener_lacks(&door->base, errno);
        uv_poll_stop(poll);
        door->rest = (struct gw_timer){.fire = on_rested, .owner = door};
        gw_timer_start(door->base.transport->loop, &door->rest, REST_US);
    }
}

static void on_rested(struct gw_timer *timer)
{
    struct gw_door *door = timer->owner;
    uv_poll_start(&door->poll, UV_READABLE, on_acceptable);
}

enum gw_status gw_door_open(struct gw_door *door,
                            struct gw_listener **list,
                            void (*come)(struct gw_door *door, int fd),
                            void (*gone)(struct gw_transport *transport),
                            struct gw_error *error)
{
    uv_loop_t *uv = &gw_uv_loop_of(door->base.transport->loop)->uv;
    if (uv_poll_init(uv, &door->poll, door->fd) != 0)
        return gw_fail(error, GW_EIO, "cannot watch %s", door->base.address);
    door->come = come;
    door->gone = gone;
    door->poll.data = door;
    gw_listener_enter(list, &door->base);
    uv_poll_start(&door->poll, UV_READABLE, on_acceptable);
    return GW_OK;
}

static void on_closed(uv_handle_t *handle)
{
    struct gw_door *door = handle->data;
    struct gw_transport *transport = door->base.transport;
    void (*gone)(struct gw_transport * transport) = door->gone;
    close(door->fd);
    free(door);
    gone(transport);
}

void gw_door_close(struct gw_door *door)
{
    gw_listener_leave(&door->base);
    gw_timer_stop(door->base.transport->loop, &door->rest);
    uv_close((uv_handle_t *)&door->poll, on_closed);
}
