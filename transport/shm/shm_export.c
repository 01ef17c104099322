/* Windows that are read in place: exporting ours, importing the peer's. */
#include "config.h"

#include "transport/shm/shm.h"

enum gw_status gw_shm_export(struct gw_link *base, uint32_t id)
{
    struct gw_shm_link *link = gw_shm_link_of(base);
    const struct gw_window *window =
        &base->windows->window[id % GW_WINDOWS_MAX];
    uint8_t bytes[GW_SHM_GRANT_BYTES];
    if (id == GW_WINDOW_NONE || window->id != id)
        return GW_EINVAL;
    const struct gw_memory *lent =
        gw_registered_at(link->shm->registered, window->base, window->bytes);
    if (!lent)
        return GW_EUNSUPPORTED;
    gw_put_u32(bytes, GW_SHM_EXPORT);
    gw_put_u32(bytes + 4, id);
    gw_put_u64(bytes + 8, (uint64_t)(window->base - (uint8_t *)lent->base));
    gw_put_u64(bytes + 16, window->bytes);
    if (gw_shm_socket_send(link, bytes, sizeof bytes, lent->fd))
        return GW_OK;
    gw_shm_socket_failed(
        link); /* without it the window would not be exported again */
    return GW_ECLOSED;
}

void gw_shm_got_export(struct gw_shm_link *link,
                       const uint8_t *bytes,
                       size_t n,
                       int fd)
{
    uint32_t window = n == GW_SHM_GRANT_BYTES ? gw_get_u32(bytes + 4) : 0;
    struct gw_shm_target *imported =
        &link->in.imported[window % GW_WINDOWS_MAX];
    if (window == GW_WINDOW_NONE || fd < 0) {
        gw_shm_fail(link, GW_EPROTO, "shows nothing");
        return;
    }
    if (gw_get_u64(bytes + 8) % sizeof(float) != 0) {
        gw_shm_fail(link, GW_EPROTO, "shows numbers that are not aligned");
        return;
    }
    gw_shm_target_close(link->shm, imported);
    if (!gw_shm_target_open(link->shm, imported, window, gw_get_u64(bytes + 8),
                            gw_get_u64(bytes + 16), fd))
        gw_shm_fail(link, GW_EPROTO, "shows memory that it could take away");
}

/* The export was sent over the socket before the frame was put into the queue,
   but the queue may have been polled first. */
const void *gw_shm_import(struct gw_link *base, uint32_t window, size_t bytes)
{
    struct gw_shm_link *link = gw_shm_link_of(base);
    const struct gw_shm_target *imported =
        &link->in.imported[window % GW_WINDOWS_MAX];
    if (window == GW_WINDOW_NONE)
        return NULL;
    if (imported->window != window)
        gw_shm_socket_receive(link);
    return link->base.up && imported->window == window &&
                   imported->bytes >= bytes
               ? imported->base
               : NULL;
}
