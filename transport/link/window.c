#include "config.h"

#include "transport/link/window.h"

#include "proto/wire.h"

enum gw_status gw_window_open(struct gw_windows *windows,
                              uint8_t kind,
                              void *base,
                              size_t bytes,
                              uint32_t *id_p)
{
    for (uint32_t slot = 0; slot < GW_WINDOWS_MAX; slot++) {
        struct gw_window *window = &windows->window[slot];
        if (window->id != GW_WINDOW_NONE)
            continue;
        /* an id contains its slot, and is never used again */
        if (windows->opened == UINT32_MAX / GW_WINDOWS_MAX)
            return GW_ENOMEM;
        windows->opened++;
        *window = (struct gw_window){
            .id = windows->opened * GW_WINDOWS_MAX + slot,
            .kind = kind,
            .base = base,
            .bytes = bytes,
        };
        *id_p = window->id;
        return GW_OK;
    }
    return GW_ENOMEM;
}

void gw_window_close(struct gw_windows *windows, uint32_t id)
{
    struct gw_window *window = &windows->window[id % GW_WINDOWS_MAX];
    if (id == GW_WINDOW_NONE || window->id != id)
        return;
    for (struct gw_window_watch *one = windows->watches; one; one = one->next)
        one->closed(one, id);
    *window = (struct gw_window){.id = GW_WINDOW_NONE};
}

void gw_windows_watch(struct gw_windows *windows, struct gw_window_watch *watch)
{
    watch->next = windows->watches;
    windows->watches = watch;
}

void gw_windows_unwatch(struct gw_windows *windows,
                        struct gw_window_watch *watch)
{
    struct gw_window_watch **at = &windows->watches;
    while (*at && *at != watch)
        at = &(*at)->next;
    if (*at)
        *at = watch->next;
}

void *gw_window_at(const struct gw_windows *windows,
                   uint8_t kind,
                   uint32_t id,
                   uint64_t offset,
                   uint32_t length)
{
    const struct gw_window *window = &windows->window[id % GW_WINDOWS_MAX];
    if (id == GW_WINDOW_NONE || window->id != id || window->kind != kind ||
        offset > window->bytes || length > window->bytes - offset)
        return NULL;
    return window->base + offset;
}
