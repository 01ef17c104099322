/* The shm transport's table, and how its links and listeners live and die. */
#include "config.h"

#include "transport/shm/shm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/link/limits.h"

#define BACKLOG 1024

const struct gw_transport_ops gw_shm_transport;

/* ---- the transport ---- */

/* The last handle to close takes the transport with it. */
void gw_shm_handle_gone(struct gw_transport *transport)
{
    struct gw_shm *shm = gw_shm_of(transport);
    if (--shm->handles == 0)
        free(shm);
}

static const struct gw_life_ops life_ops;

static enum gw_status open_shm(struct gw_loop *loop,
                               const struct gw_transport_config *config,
                               struct gw_transport **transport_p,
                               struct gw_error *error)
{
    struct gw_shm *shm = calloc(1, sizeof *shm);
    if (!shm)
        return gw_fail(error, GW_ENOMEM, "no memory for the shm transport");
    shm->busy = config && config->busy;
    shm->base.ops = &gw_shm_transport;
    shm->base.loop = loop;
    gw_lives_open(&shm->lives, &shm->base, &life_ops, config);
    shm->handles = 1;
    gw_shm_poll_open(shm);
    *transport_p = &shm->base;
    return GW_OK;
}

static void close_listener(struct gw_listener *listener);
static void release(struct gw_link *base);

static void drop_fence(struct gw_shm_link *link)
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
            drop_fence(one);
    }
}

static void close_shm(struct gw_transport *transport)
{
    struct gw_shm *shm = gw_shm_of(transport);
    while (shm->listeners)
        close_listener(shm->listeners);
    gw_lives_close(&shm->lives);
    while (shm->fenced)
        drop_fence(shm->fenced);
    gw_lent_free(&shm->lent);
    gw_shm_poll_close(shm);
    gw_shm_handle_gone(&shm->base);
}

/* Without memory for it: what lies there goes through the ring. */
static void lend(struct gw_transport *transport, const struct gw_memory *memory)
{
    struct gw_shm *shm = gw_shm_of(transport);
    if (memory->kind == GW_MEMORY_SHARED && memory->fd >= 0 &&
        !gw_lent_at(shm->lent, memory->base, memory->bytes))
        gw_lent_add(&shm->lent, memory);
}

static void take_back(struct gw_transport *transport, void *base)
{
    struct gw_memory memory;
    gw_lent_take(&gw_shm_of(transport)->lent, base, &memory);
}

/* ---- links ---- */

struct gw_shm_link *gw_shm_link_new(struct gw_shm *shm)
{
    struct gw_shm_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->shm = shm;
    link->fd = -1;
    gw_life_begin(&link->life, &shm->lives, &link->base);
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
        gw_shm_target_close(shm, &link->in.seen[i]);
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
    (void)status, (void)events; /* the read tells what the matter is */
    gw_shm_hear(poll->data);
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

/* Its memory stays where it is, and the socket open, to see the peer's end. */
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

/* There is but one way to connect. */
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
    if (shm->cursor == &link->life)
        shm->cursor = link->life.next;
    if (!gw_shm_revoke_all(link))
        put_behind_fence(link);
    gw_shm_give_back(link);
    gw_link_drop_queue(base);
    /* whoever turns the loop until it is told of this is not to wait for more
     */
    gw_shm_do_not_sleep(shm);
}

static const struct gw_life_ops life_ops = {
    .goes_on = goes_on,
    .detach = detach,
    .release = release,
};

static void close_link(struct gw_link *base)
{
    gw_life_drop(&gw_shm_link_of(base)->life);
}

static void kick(struct gw_link *base)
{
    gw_shm_do_not_sleep(gw_shm_link_of(base)->shm);
}

static enum gw_status dial(struct gw_transport *transport,
                           const char *address,
                           const struct gw_hello *hello,
                           const struct gw_link_handler *handler,
                           void *owner,
                           struct gw_windows *windows,
                           struct gw_link **link_p,
                           struct gw_error *error)
{
    struct sockaddr_un at;
    socklen_t bytes;
    enum gw_status status = gw_shm_place(address, &at, &bytes, error);
    if (status != GW_OK && status != GW_EUNREACHABLE)
        return status;
    struct gw_shm_link *link = gw_shm_link_new(gw_shm_of(transport));
    if (!link)
        return gw_fail(error, GW_ENOMEM, "no memory for a link to %s", address);
    gw_put_u32(link->hello, GW_SHM_HELLO);
    gw_put_u32(link->hello + 4, GW_SHM_VERSION);
    gw_hello_encode(hello, link->hello + 8);
    gw_life_dial(&link->life, address, handler, owner, windows);
    gw_shm_dial(link);
    *link_p = &link->base;
    return GW_OK;
}

/* ---- listeners ---- */

static void close_listener(struct gw_listener *base)
{
    gw_door_close(GW_CONTAINER(base, struct gw_door, base));
}

/* "HOST:0" gets a name that nobody guesses by chance. */
static void name_listener(struct gw_shm *shm, const char *address, char *name)
{
    const char *colon = strrchr(address, ':');
    uint64_t random;
    snprintf(name, GW_ADDRESS_MAX, "%s", address);
    if (!colon || strcmp(colon, ":0") != 0)
        return;
    gw_loop_random(shm->base.loop, &random, sizeof random);
    snprintf(name, GW_ADDRESS_MAX, "%.*s:%016" PRIx64, (int)(colon - address),
             address, random);
}

static enum gw_status
bind_name(const char *address, int *fd_p, struct gw_error *error)
{
    struct sockaddr_un at;
    socklen_t bytes;
    enum gw_status status = gw_shm_place(address, &at, &bytes, error);
    if (status == GW_EUNREACHABLE)
        return gw_fail(error, GW_EINVAL,
                       "cannot listen on %s in shared memory: %s", address,
                       "it is another host's");
    if (status != GW_OK)
        return status;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, bytes) == 0 &&
        listen(fd, BACKLOG) == 0) {
        *fd_p = fd;
        return GW_OK;
    }
    int number = errno;
    char why[GW_LIMITS_WHY_BYTES];
    if (fd >= 0)
        close(fd);
    if (number == EADDRINUSE)
        return gw_fail(error, GW_EADDRINUSE,
                       "cannot listen on %s: a process listens there (ss -xlp "
                       "shows it)",
                       address);
    return gw_fail(error, GW_EIO, "cannot listen on %s: %s", address,
                   gw_limits_why_no_file(number, why));
}

static enum gw_status listen_shm(struct gw_transport *transport,
                                 const char *address,
                                 struct gw_acceptor *acceptor,
                                 struct gw_listener **listener_p,
                                 struct gw_error *error)
{
    struct gw_shm *shm = gw_shm_of(transport);
    struct gw_door *door = calloc(1, sizeof *door);
    if (!door)
        return gw_fail(error, GW_ENOMEM, "no memory to listen on %s", address);
    name_listener(shm, address, door->base.address);
    enum gw_status status = bind_name(door->base.address, &door->fd, error);
    if (status != GW_OK)
        goto free_door;
    door->base.transport = transport;
    door->base.acceptor = acceptor;
    status = gw_door_open(door, &shm->listeners, gw_shm_accept,
                          gw_shm_handle_gone, error);
    if (status != GW_OK)
        goto close_socket;
    shm->handles++;
    *listener_p = &door->base;
    return GW_OK;

close_socket:
    close(door->fd);
free_door:
    free(door);
    return status;
}

const struct gw_transport_ops gw_shm_transport = {
    .name = "shm",
    .within_host = 1,
    .probe = gw_shm_probe,
    .meet = gw_shm_meet,
    .reaches = gw_shm_reaches,
    .open = open_shm,
    .close = close_shm,
    .listen = listen_shm,
    .close_listener = close_listener,
    .listener_address = gw_listener_address,
    .dial = dial,
    .kick = kick,
    .pulse = gw_shm_pulse,
    .close_link = close_link,
    .lend = lend,
    .take_back = take_back,
    .show = gw_shm_show,
    .see = gw_shm_see,
    .takes = gw_transport_takes_host,
};
