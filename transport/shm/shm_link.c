/* Links in shared memory: making, closing and freeing them, and the fence. */
#include "config.h"

#include "transport/shm/shm.h"

#include <stdlib.h>
#include <unistd.h>

void gw_shm_handle_gone(struct gw_transport *transport)
{
    struct gw_shm *shm = gw_shm_of(transport);
    if (--shm->handles == 0)
        free(shm);
}

struct gw_shm_link *gw_shm_link_new(struct gw_shm *shm)
{
    struct gw_shm_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->shm = shm;
    link->fd = -1;
    gw_connection_begin(&link->connection, &shm->connections, &link->base);
    shm->handles++;
    return link;
}

static void free_link(struct gw_shm_link *link)
{
    struct gw_shm *shm = link->shm;
    if (link->fd >= 0)
        close(link->fd);
    for (uint32_t i = 0; i < GW_WINDOWS_MAX; i++)
        gw_shm_target_close(shm, &link->out.window[i]);
    for (uint32_t i = 0; i < GW_WINDOWS_MAX; i++)
        gw_shm_target_close(shm, &link->in.imported[i]);
    gw_shm_area_drop(link);
    free(link->in.message);
    free(link);
    gw_shm_handle_gone(&shm->base);
}

static void on_link_closed(uv_handle_t *handle)
{
    struct gw_shm_link *link = handle->data;
    link->poll_open = 0;
    if (!link->fenced)
        free_link(link);
}

/* Frees a link as soon as libuv and the fence let go of it. */
static void release(struct gw_link *base)
{
    struct gw_shm_link *link = gw_shm_link_of(base);
    if (link->poll_open && !uv_is_closing((uv_handle_t *)&link->poll))
        uv_close((uv_handle_t *)&link->poll, on_link_closed);
    else if (!link->poll_open && !link->fenced)
        free_link(link);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events; /* the read finds the error */
    gw_shm_socket_receive(poll->data);
}

enum gw_status gw_shm_adopt(struct gw_shm_link *link, int fd)
{
    if (uv_poll_init(link->shm->uv, &link->poll, fd) != 0)
        return GW_EIO;
    link->fd = fd;
    link->poll.data = link;
    link->poll_open = 1;
    uv_poll_start(&link->poll, UV_READABLE, on_poll);
    return GW_OK;
}

/* ---- the fence ---- */

/* Keeps its memory in place, and the socket open, to see the peer's end. */
static void put_behind_fence(struct gw_shm_link *link)
{
    struct gw_shm *shm = link->shm;
    gw_log_warn(shm->base.loop->log,
                "%s has stopped in the middle of a write: nobody else gets "
                "that memory before it goes on or ends",
                link->base.remote);
    link->fenced = 1;
    link->next = shm->fenced;
    if (link->next)
        link->next->back = &link->next;
    link->back = &shm->fenced;
    shm->fenced = link;
}

void gw_shm_drop_fence(struct gw_shm_link *link)
{
    *link->back = link->next;
    if (link->next)
        link->next->back = link->back;
    link->fenced = 0;
    release(&link->base);
}

void gw_shm_unfence(struct gw_shm *shm)
{
    struct gw_shm_link *next;
    for (struct gw_shm_link *one = shm->fenced; one; one = next) {
        next = one->next;
        if (gw_shm_has_finished(one))
            gw_shm_drop_fence(one);
    }
}

/* ---- its end ---- */

/* There is but one address to connect to. */
static int goes_on(struct gw_link *base)
{
    (void)base;
    return 0;
}

static void detach(struct gw_link *base)
{
    struct gw_shm_link *link = gw_shm_link_of(base);
    struct gw_shm *shm = link->shm;
    gw_timer_stop(shm->base.loop, &link->again);
    if (shm->cursor == &link->connection)
        shm->cursor = link->connection.next;
    if (!gw_shm_revoke_all(link))
        put_behind_fence(link);
    gw_shm_give_back(link);
    gw_link_drop_queue(base);
    /* a caller that turns the loop until it is told need not wait for more */
    gw_shm_do_not_sleep(shm);
}

const struct gw_connection_ops gw_shm_connection_ops = {
    .goes_on = goes_on,
    .detach = detach,
    .release = release,
};
