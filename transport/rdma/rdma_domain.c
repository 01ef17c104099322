/*
 * State of a peer on a device: a protection domain, which no other peer shares,
 * and in it the memory that this peer may write to (its windows, nothing else
 * of this process), or that is read for it. Registering memory takes as long as
 * touching every page of it, so another thread does it.
 */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rdma/rdma_memory.h"

/* ---- registering ---- */

static void run_register(struct gw_work *work)
{
    struct gw_rdma_region *region = work->owner;
    int window = region->window != GW_WINDOW_NONE;
    const struct gw_rdma_part part = {
        .of = &region->memory,
        .base = region->base,
        .bytes = region->bytes,
        .offset = region->offset,
        .access = window ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0,
    };
    const struct gw_rdma_device *device = region->domain->device;
    region->mr = gw_rdma_register(&device->rdma->lib, device->verbs,
                                  region->domain->pd, &part);
    region->number = region->mr ? 0 : errno;
}

static void free_region(struct gw_rdma_region *region)
{
    if (region->mr)
        region->domain->device->rdma->lib.dereg_mr(region->mr);
    free(region);
}

static void free_if_left(struct gw_rdma_domain *domain);

static void done_register(struct gw_work *work)
{
    struct gw_rdma_region *region = work->owner;
    struct gw_rdma_domain *domain = region->domain;
    struct gw_rdma *rdma = domain->device->rdma;
    domain->busy--;
    for (struct gw_rdma_link *one = domain->links; one; one = one->beside)
        gw_rdma_make_dirty(one);
    if (region->orphan) {
        free_region(region);
        free_if_left(domain);
        gw_rdma_handle_gone(rdma);
        return;
    }
    region->state = region->mr ? GW_RDMA_REGION_READY : GW_RDMA_REGION_FAILED;
    gw_rdma_handle_gone(rdma);
}

static struct gw_rdma_region *region_new(struct gw_rdma_domain *domain,
                                         uint32_t window,
                                         void *base,
                                         size_t bytes)
{
    struct gw_rdma_region *region = calloc(1, sizeof *region);
    if (!region)
        return NULL;
    struct gw_rdma *rdma = domain->device->rdma;
    /* unregistered memory is private to this process */
    const struct gw_memory *lent =
        gw_registered_at(rdma->registered, base, bytes);
    region->memory = lent ? *lent : gw_memory_host(base, bytes);
    region->domain = domain;
    region->window = window;
    region->base = base;
    region->bytes = bytes;
    region->offset = gw_rdma_first_offset(base);
    region->state = GW_RDMA_REGION_BUSY;
    region->work = (struct gw_work){
        .run = run_register, .done = done_register, .owner = region};
    region->next = domain->regions;
    domain->regions = region;
    domain->busy++;
    rdma->handles++;
    gw_loop_work(rdma->base.loop, &region->work);
    return region;
}

/* Removes a region that is not wanted any more; a thread may still be at it. */
static void region_end(struct gw_rdma_region *region)
{
    struct gw_rdma_region **at = &region->domain->regions;
    while (*at != region)
        at = &(*at)->next;
    *at = region->next;
    if (region->state == GW_RDMA_REGION_BUSY)
        region->orphan = 1;
    else
        free_region(region);
}

/* ---- windows ---- */

static struct gw_rdma_region *find_window(const struct gw_rdma_domain *domain,
                                          uint32_t window)
{
    struct gw_rdma_region *region = domain->regions;
    while (region && region->window != window)
        region = region->next;
    return region;
}

static void on_window_closed(struct gw_window_watch *watch, uint32_t id)
{
    struct gw_rdma_region *region = find_window(watch->owner, id);
    if (region)
        region_end(region);
}

struct gw_rdma_region *gw_rdma_domain_window(struct gw_rdma_domain *domain,
                                             uint32_t window)
{
    struct gw_rdma_region *region = find_window(domain, window);
    if (region)
        return region;
    const struct gw_window *of =
        &domain->windows->window[window % GW_WINDOWS_MAX];
    return region_new(domain, window, of->base, of->bytes);
}

int gw_rdma_domain_bind(struct gw_rdma_domain *domain,
                        struct gw_windows *windows)
{
    if (domain->windows)
        return domain->windows == windows;
    domain->windows = windows;
    domain->watch.closed = on_window_closed;
    domain->watch.owner = domain;
    gw_windows_watch(windows, &domain->watch);
    return 1;
}

/* ---- lent memory ---- */

void gw_rdma_domain_deregister(struct gw_rdma_domain *domain,
                               const struct gw_memory *lent)
{
    struct gw_rdma_region *region = domain->regions;
    while (region &&
           (region->window != GW_WINDOW_NONE || region->base != lent->base))
        region = region->next;
    if (region)
        region_end(region);
}

/* A window that is registered may be read from as well. */
struct gw_rdma_region *gw_rdma_domain_registered(struct gw_rdma_domain *domain,
                                                 const void *bytes,
                                                 size_t n)
{
    for (struct gw_rdma_region *one = domain->regions; one; one = one->next)
        if (gw_memory_contains(one->base, one->bytes, bytes, n) &&
            (one->window == GW_WINDOW_NONE ||
             one->state == GW_RDMA_REGION_READY))
            return one;
    const struct gw_memory *lent =
        gw_registered_at(domain->device->rdma->registered, bytes, n);
    if (!lent)
        return NULL;
    return region_new(domain, GW_WINDOW_NONE, lent->base, lent->bytes);
}

/* ---- coming and going ---- */

static struct gw_rdma_domain *find(const struct gw_rdma_device *device,
                                   const struct gw_rdma_link *link,
                                   uint64_t incarnation)
{
    struct gw_rdma_domain *one = device->domains;
    for (; one; one = one->next)
        if (one->links && one->incarnation == incarnation &&
            (incarnation || one->windows == link->base.windows))
            break;
    return one;
}

enum gw_status gw_rdma_domain_get(struct gw_rdma_device *device,
                                  struct gw_rdma_link *link,
                                  uint64_t incarnation,
                                  struct gw_error *error)
{
    struct gw_rdma_domain *domain = find(device, link, incarnation);
    if (!domain) {
        domain = calloc(1, sizeof *domain);
        if (domain)
            domain->pd = device->rdma->lib.alloc_pd(device->verbs);
        if (!domain || !domain->pd) {
            free(domain);
            return gw_fail(error, GW_ENOMEM,
                           "no protection domain on RDMA device %s",
                           device->device->name);
        }
        domain->device = device;
        domain->incarnation = incarnation;
        domain->next = device->domains;
        device->domains = domain;
    }
    link->domain = domain;
    link->beside = domain->links;
    domain->links = link;
    return GW_OK;
}

static void free_if_left(struct gw_rdma_domain *domain)
{
    struct gw_rdma_device *device = domain->device;
    if (domain->links || domain->busy)
        return;
    struct gw_rdma_domain **at = &device->domains;
    while (*at != domain)
        at = &(*at)->next;
    *at = domain->next;
    device->rdma->lib.dealloc_pd(domain->pd);
    free(domain);
    gw_rdma_device_left(device);
}

void gw_rdma_domain_hold(struct gw_rdma_domain *domain)
{
    domain->busy++;
}

void gw_rdma_domain_release(struct gw_rdma_domain *domain)
{
    domain->busy--;
    free_if_left(domain);
}

static int serves_windows(const struct gw_rdma_domain *domain)
{
    for (const struct gw_rdma_link *one = domain->links; one; one = one->beside)
        if (domain->windows && one->base.windows == domain->windows)
            return 1;
    return 0;
}

static void unbind(struct gw_rdma_domain *domain)
{
    if (domain->windows)
        gw_windows_unwatch(domain->windows, &domain->watch);
    domain->windows = NULL;
    while (domain->regions)
        region_end(domain->regions);
}

void gw_rdma_domain_put(struct gw_rdma_link *link)
{
    struct gw_rdma_domain *domain = link->domain;
    if (!domain)
        return;
    link->domain = NULL;
    if (!link->left) /* else completions of its queue pair may still come */
        gw_rdma_device_release(domain->device);
    struct gw_rdma_link **at = &domain->links;
    while (*at != link)
        at = &(*at)->beside;
    *at = link->beside;
    /* a link that claims the same peer, but has not logged in, does not keep
       them */
    if (!serves_windows(domain))
        unbind(domain);
    free_if_left(domain);
}
