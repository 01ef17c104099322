/*
 * A listener that is a socket which libuv polls (tcp, shm): who connects is
 * accepted and handed on, one in a turn. On the loop's thread.
 */
#ifndef GW_TRANSPORT_DOOR_H
#define GW_TRANSPORT_DOOR_H

#include <uv.h>

#include "transport/link/transport.h"

struct gw_door {
    struct gw_listener base;
    int fd;
    uv_poll_t poll;
    struct gw_timer rest; /* while there are no descriptors */
    void (*come)(struct gw_door *door, int fd); /* whose fd it is now */
    void (*gone)(struct gw_transport *transport);
};

/*
 * Opens a door, which is what malloc gave, or the begin of it; `base` but for
 * its place in the list, and fd, are filled in. They are the door's from now
 * on: after gw_door_close it closes and frees them when libuv lets go, and then
 * calls `gone`. GW_EIO: they are the caller's still.
 */
enum gw_status gw_door_open(struct gw_door *door,
                            struct gw_listener **list,
                            void (*come)(struct gw_door *door, int fd),
                            void (*gone)(struct gw_transport *transport),
                            struct gw_error *error);
void gw_door_close(struct gw_door *door);

#endif
