/*
 * A listener on a socket that libuv polls (tcp, shm): connections are accepted
 * and handed on, one per turn. On the loop's thread.
 */
#ifndef GW_TRANSPORT_SOCKET_LISTENER_H
#define GW_TRANSPORT_SOCKET_LISTENER_H

#include <uv.h>

#include "transport/link/transport.h"

struct gw_socket_listener {
    struct gw_listener base;
    int fd;
    uv_poll_t poll;
    struct gw_timer rest; /* pauses accepting while there are no descriptors */
    void (*accepted)(struct gw_socket_listener *listener,
                     int fd); /* takes fd over */
    void (*closed)(struct gw_transport *transport);
};

/*
 * Starts a listener, which was allocated by malloc, alone or as first member;
 * `base` but for its place in the list, and fd, are filled in. It owns both
 * from now on: gw_socket_listener_close closes the fd and frees the listener
 * when libuv lets go, and then calls `closed`. GW_EIO: they are the caller's
 * still.
 */
enum gw_status gw_socket_listener_open(
    struct gw_socket_listener *listener,
    struct gw_listener **list,
    void (*accepted)(struct gw_socket_listener *listener, int fd),
    void (*closed)(struct gw_transport *transport),
    struct gw_error *error);
void gw_socket_listener_close(struct gw_socket_listener *listener);

#endif
