/*
 * Windows: ranges of this process's memory into which one peer may put bytes.
 * An id and an offset cross the wire, an address never does; ids, offsets and
 * lengths from outside are checked against this table before a byte is written.
 * One table per peer. One thread.
 */
#ifndef GW_TRANSPORT_WINDOW_H
#define GW_TRANSPORT_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

#define GW_WINDOWS_MAX 8 /* open at once per peer */

struct gw_window {
    uint32_t id;  /* GW_WINDOW_NONE: not open */
    uint8_t kind; /* the only enum gw_frame_kind that may land here */
    uint8_t *base;
    size_t bytes;
};

struct gw_windows {
    struct gw_window window[GW_WINDOWS_MAX];
    uint32_t opened; /* number of windows ever opened: makes every id new */
    struct gw_window_watch *watches;
};

/* For a transport that gives a device or a peer access to windows, and must
   take it back. */
struct gw_window_watch {
    void (*closed)(struct gw_window_watch *watch, uint32_t id);
    void *owner;
    struct gw_window_watch *next; /* the table's */
};

/* `closed` is called before a window closes, while its memory is there. */
void gw_windows_watch(struct gw_windows *windows,
                      struct gw_window_watch *watch);
void gw_windows_unwatch(struct gw_windows *windows,
                        struct gw_window_watch *watch);

/*
 * Opens `bytes` at `base`, which the caller owns and keeps until the close, for
 * frames of `kind`. GW_ENOMEM: GW_WINDOWS_MAX are open, or all ids are used up.
 */
enum gw_status gw_window_open(struct gw_windows *windows,
                              uint8_t kind,
                              void *base,
                              size_t bytes,
                              uint32_t *id_p);

/* Also for an id that is not open. */
void gw_window_close(struct gw_windows *windows, uint32_t id);

/*
 * The place of `length` bytes at `offset` of window `id`, or NULL when there is
 * no such window, it is not for this kind, or the range leaves it.
 */
void *gw_window_at(const struct gw_windows *windows,
                   uint8_t kind,
                   uint32_t id,
                   uint64_t offset,
                   uint32_t length);

#endif
