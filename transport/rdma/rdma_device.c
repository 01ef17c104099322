/*
 * Devices: this transport's own context of each, with one completion queue for
 * all its links, and events of the device itself. A device may vanish under its
 * users; the kernel waits until all have let go of it, so letting go is at
 * once, and complete.
 */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Completions of a link that may wait to be polled. */
#define LINK_COMPLETIONS (GW_RDMA_RECEIVES + GW_RDMA_SENDS)
#define FIRST_ROOM       (4 * LINK_COMPLETIONS)

/* ---- completions ---- */

void gw_rdma_device_arm(struct gw_rdma_device *device)
{
    if (device->armed || !device->cq)
        return;
    device->armed = ibv_req_notify_cq(device->cq, 0) == 0;
}

/* Only wakes the loop: completions are polled after it. */
static void on_completion(uv_poll_t *poll, int status, int events)
{
    struct gw_rdma_device *device = poll->data;
    const struct gw_rdma_library *lib = &device->rdma->lib;
    struct ibv_cq *cq;
    void *owner;
    (void)status, (void)events;
    while (lib->get_cq_event(device->channel, &cq, &owner) == 0) {
        lib->ack_cq_events(cq, 1);
        device->armed = 0;
    }
}

/* ---- events of the device itself ---- */

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct gw_rdma_device *device = poll->data;
    const struct gw_rdma_library *lib = &device->rdma->lib;
    struct ibv_async_event event;
    int fatal = 0;
    (void)status, (void)events;
    while (!fatal && lib->get_async_event(device->verbs, &event) == 0) {
        fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
        gw_log_debug(device->rdma->base.loop->log, "device %s: %s",
                     device->device->name,
                     lib->event_type_str(event.event_type));
        lib->ack_async_event(&event);
    }
    if (fatal)
        gw_rdma_device_lost(device->rdma, device->device, NULL,
                            "the RDMA device failed, or was taken away");
}

/* ---- opening ---- */

static int
watch(struct gw_rdma_device *device, uv_poll_t *poll, int fd, uv_poll_cb call)
{
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
        uv_poll_init(device->rdma->uv, poll, fd) != 0)
        return -1;
    poll->data = device;
    device->handles++;
    uv_poll_start(poll, UV_READABLE, call);
    return 0;
}

/* An id of our own on the device keeps librdmacm's context of it open, however
   many other ids come and go. */
static int drop_anchor(struct gw_rdma_device *device, struct rdma_cm_id *like)
{
    struct gw_rdma *rdma = device->rdma;
    struct sockaddr_storage at;
    struct sockaddr *own = rdma_get_local_addr(like);
    memcpy(&at, own, gw_address_bytes(own));
    if (own->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)&at)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&at)->sin_port = 0;
    if (rdma->lib.create_id(rdma->channel, &device->anchor, NULL,
                            RDMA_PS_TCP) != 0) {
        device->anchor = NULL;
        return -1;
    }
    return rdma->lib.bind_addr(device->anchor, (struct sockaddr *)&at);
}

static enum gw_status open_device(struct gw_rdma_device *device,
                                  struct rdma_cm_id *id,
                                  struct gw_error *error)
{
    const struct gw_rdma_library *lib = &device->rdma->lib;
    const char *name = device->device->name;
    if (drop_anchor(device, id) != 0 || !device->anchor->verbs)
        return gw_fail(error, GW_EIO, "cannot bind to RDMA device %s: %s", name,
                       strerror(errno));
    device->verbs = lib->open_device(device->device);
    if (!device->verbs)
        return gw_fail(error, GW_EIO, "cannot open RDMA device %s: %s", name,
                       strerror(errno));
    device->channel = lib->create_comp_channel(device->verbs);
    if (device->channel)
        device->cq = lib->create_cq(device->verbs, FIRST_ROOM, device,
                                    device->channel, 0);
    if (!device->cq)
        return gw_fail(error, GW_ENOMEM,
                       "cannot make a completion queue on RDMA device %s: %s",
                       name, strerror(errno));
    device->cq_room = device->cq->cqe;
    return GW_OK;
}

static void on_closed(uv_handle_t *handle)
{
    struct gw_rdma_device *device = handle->data;
    struct gw_rdma *rdma = device->rdma;
    if (--device->handles > 0)
        return;
    free(device);
    gw_rdma_handle_gone(rdma);
}

static void let_go(struct gw_rdma_device *device)
{
    const struct gw_rdma_library *lib = &device->rdma->lib;
    if (device->anchor)
        lib->destroy_id(device->anchor);
    if (device->cq)
        lib->destroy_cq(device->cq);
    if (device->channel)
        lib->destroy_comp_channel(device->channel);
    if (device->verbs)
        lib->close_device(device->verbs);
    device->anchor = NULL;
    device->cq = NULL;
    device->channel = NULL;
    device->verbs = NULL;
}

enum gw_status gw_rdma_device_get(struct gw_rdma *rdma,
                                  struct rdma_cm_id *id,
                                  struct gw_rdma_device **device_p,
                                  struct gw_error *error)
{
    struct ibv_device *device = id->verbs->device;
    struct gw_rdma_device *self = rdma->devices;
    while (self && self->device != device)
        self = self->next;
    if (self && !self->closing) {
        *device_p = self;
        return GW_OK;
    }
    if (self)
        return gw_fail(error, GW_EUNREACHABLE, "the RDMA device was lost");
    self = calloc(1, sizeof *self);
    if (!self)
        return gw_fail(error, GW_ENOMEM, "no memory for an RDMA device");
    self->rdma = rdma;
    self->device = device;
    enum gw_status status = open_device(self, id, error);
    if (status == GW_OK &&
        watch(self, &self->completions, self->channel->fd, on_completion) != 0)
        status = gw_fail(error, GW_EIO, "cannot watch an RDMA device");
    if (status != GW_OK) {
        let_go(self);
        free(self);
        return status;
    }
    watch(self, &self->events, self->verbs->async_fd, on_event);
    self->next = rdma->devices;
    rdma->devices = self;
    rdma->handles++;
    *device_p = self;
    return GW_OK;
}

/* ---- closing ---- */

/*
 * librdmacm keeps a context of its own of each device that it has used, and
 * never closes that of the last device, even if it vanishes; the kernel's
 * removal would wait until this process ends. The context's descriptors stay
 * open, since librdmacm may still close them, but they lead nowhere.
 */
static void cut_off(struct ibv_context *verbs)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0)
        return;
    dup3(nowhere, verbs->cmd_fd, O_CLOEXEC);
    dup3(nowhere, verbs->async_fd, O_CLOEXEC);
    close(nowhere);
}

static void finish_close(struct gw_rdma_device *device)
{
    struct gw_rdma_device **at = &device->rdma->devices;
    while (*at != device)
        at = &(*at)->next;
    *at = device->next;
    uv_close((uv_handle_t *)&device->completions, on_closed);
    if (device->handles > 1)
        uv_close((uv_handle_t *)&device->events, on_closed);
    let_go(device);
}

void gw_rdma_device_left(struct gw_rdma_device *device)
{
    if (device->closing && !device->domains && device->verbs)
        finish_close(device);
}

void gw_rdma_device_close(struct gw_rdma_device *device)
{
    device->closing = 1;
    gw_rdma_device_left(device);
}

static int is_on(const struct rdma_cm_id *id, const struct ibv_device *device)
{
    return id && id->verbs && id->verbs->device == device;
}

/* Ends the links that are on the device when it begins: more cannot come. */
static void end_links(struct gw_rdma *rdma,
                      const struct ibv_device *device,
                      const char *why)
{
    struct gw_connection *one = rdma->connections.newest;
    while (one) {
        if (!is_on(gw_rdma_link_of(one->link)->id, device)) {
            one = one->next;
            continue;
        }
        gw_connection_fail(one, GW_EUNSUPPORTED, why);
        one = rdma->connections.newest; /* its owner may have closed others */
    }
}

static void end_listeners(struct gw_rdma *rdma, const struct ibv_device *device)
{
    for (struct gw_listener *one = rdma->listeners; one; one = one->next) {
        struct gw_rdma_listener *its = gw_rdma_listener_of(one);
        if (!is_on(its->id, device))
            continue;
        rdma->lib.destroy_id(its->id);
        its->id = NULL;
        gw_log_warn(rdma->base.loop->log,
                    "does not listen on %s over RDMA any more: its device was "
                    "taken away",
                    one->address);
    }
}

void gw_rdma_device_lost(struct gw_rdma *rdma,
                         struct ibv_device *device,
                         struct ibv_context *theirs,
                         const char *why)
{
    struct gw_rdma_device *own = rdma->devices;
    while (own && own->device != device)
        own = own->next;
    if (own) {
        own->closing = 1;
        theirs = own->anchor->verbs;
    }
    if (theirs) /* while another id still holds it */
        cut_off(theirs);
    end_links(rdma, device, why);
    end_listeners(rdma, device);
    if (own)
        gw_rdma_device_left(own);
}

/* ---- room ---- */

enum gw_status gw_rdma_device_reserve(struct gw_rdma_device *device,
                                      struct gw_error *error)
{
    const struct gw_rdma_library *lib = &device->rdma->lib;
    int wanted = device->cq_used + LINK_COMPLETIONS;
    if (wanted > device->cq_room) {
        int failed = lib->resize_cq(device->cq, 2 * wanted);
        if (failed)
            failed = lib->resize_cq(device->cq, wanted);
        if (failed)
            return gw_fail(error, GW_ENOMEM,
                           "RDMA device %s has no room for the completions of "
                           "one more connection: %s",
                           device->device->name, strerror(failed));
        device->cq_room = device->cq->cqe;
    }
    device->cq_used = wanted;
    return GW_OK;
}

void gw_rdma_device_release(struct gw_rdma_device *device)
{
    device->cq_used -= LINK_COMPLETIONS;
}
