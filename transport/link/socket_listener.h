/*
 * A listener that is a socket which libuv polls (tcp, shm): who connects is
 * accepted and handed on, one in a turn. On the loop's thread.
 */
#ifndef GW_TRANSPORT_SOCKET_LISTENER_H
#define GW_TRANSPORT_SOCKET_LISTENER_H

#include <uv.h>

#include "transport/link/transport.h"

struct gw_socket_listener {
    struct gw_listener base;
    int fd;
    uv_poll_t poll;
    struct gw_timer rest; /* while there are no descriptors */
    void (*accepted)(struct gw_socket_listener *listener,
                     int fd); /* whose fd it is now */
    void (*closed)(struct gw_transport *transport);
};

/*
 * Opens a listener, which is what malloc gave, or the begin of it; `base` but
 * for its place in the list, and fd, are filled in. They are the listener's
 * from now on: after gw_socket_listener_close it closes and frees them when
 * libuv lets go, and then calls `gone`. GW_EIO: they are the caller's still.
 */
enum gw_status gw_socket_listener_open(
    struct gw_socket_listener *listener,
    struct gw_listener **list,
    void (*accepted)(struct gw_socket_listener *listener, int fd),
    void (*closed)(struct gw_transport *transport),
    struct gw_error *error);
void gw_socket_listener_close(struct gw_socket_listener *listener);

#endif
