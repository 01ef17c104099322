/*
 * The memory of a link, and windows that their sender writes itself.
 *
 * A peer cannot be made to unmap memory, so a window is revoked by agreement:
 * the receiver lists the open windows in the link's memory, and the sender
 * announces there that it is about to write, and then checks the list:
 *
 *   receiver   open = 0, then waits while writing      both in one order, so
 *   sender     writing = 1, then checks open           one sees the other
 *
 * A sender writes for some microseconds before it checks again. A sender that
 * was stopped in the middle may go on at any time: the window's memory is
 * fenced, and no other peer gets it as a window before that process has gone on
 * or ended.
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/link/memory.h"

/* Time to wait for a sender that is writing: it may need a processor first. */
#define FINISH_US 5000

/* ---- the area ---- */

static int map_area(struct gw_shm_link *link, int fd)
{
    void *area = mmap(NULL, sizeof *link->area, PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
    if (area == MAP_FAILED)
        return 0;
    link->area = area;
    int opener = !link->connection.listener;
    link->out.queue = &link->area->queue[!opener];
    link->in.queue = &link->area->queue[opener];
    return 1;
}

int gw_shm_area_make(struct gw_shm_link *link)
{
    int fd = gw_memory_file("gradweir-link", sizeof *link->area);
    if (fd < 0 || map_area(link, fd))
        return fd;
    close(fd);
    return -1;
}

enum gw_status gw_shm_area_take(struct gw_shm_link *link, int fd)
{
    if (!gw_memory_is_safe(fd, sizeof *link->area))
        return GW_EPROTO;
    return map_area(link, fd) ? GW_OK : GW_ENOMEM;
}

void gw_shm_area_drop(struct gw_shm_link *link)
{
    if (link->area)
        munmap(link->area, sizeof *link->area);
    link->area = NULL;
    link->in.queue = link->out.queue = NULL;
}

/* ---- windows of ours ---- */

/* Non-zero if the peer is not writing into the window (GW_WINDOW_NONE: any). */
static int has_stopped(const struct gw_shm_link *link, uint32_t window)
{
    uint32_t now = atomic_load(&link->in.queue->writing);
    return now == GW_WINDOW_NONE || (window != GW_WINDOW_NONE && now != window);
}

static int wait_until_stopped(struct gw_shm_link *link, uint32_t window)
{
    struct gw_loop *loop = link->shm->base.loop;
    uint64_t until = gw_loop_now(loop) + FINISH_US;
    while (!has_stopped(link, window)) {
        if (gw_loop_now(loop) >= until)
            return 0;
        sched_yield();
    }
    return 1;
}

static void on_window_closed(struct gw_window_watch *watch, uint32_t id)
{
    struct gw_shm_link *link = watch->owner;
    struct gw_shm_granted *granted = &link->in.granted[id % GW_WINDOWS_MAX];
    if (granted->window != id)
        return;
    atomic_store(&link->in.queue->open[id % GW_WINDOWS_MAX], GW_WINDOW_NONE);
    if (wait_until_stopped(link, id)) {
        *granted = (struct gw_shm_granted){.window = GW_WINDOW_NONE};
        return;
    }
    /* the granted window stays listed: it is fenced with the link */
    link->broken = 1;
    link->broken_why = "the peer does not finish what it writes";
    gw_shm_do_not_sleep(link->shm);
}

void gw_shm_grant(struct gw_shm_link *link, const struct gw_window *window)
{
    uint32_t place = window->id % GW_WINDOWS_MAX;
    struct gw_shm_in *in = &link->in;
    if (!in->watching) {
        in->watching = 1;
        in->watch.closed = on_window_closed;
        in->watch.owner = link;
        gw_windows_watch(link->base.windows, &in->watch);
    }
    in->granted[place] = (struct gw_shm_granted){
        .window = window->id, .base = window->base, .bytes = window->bytes};
    atomic_store(&in->queue->open[place], window->id);
}

int gw_shm_revoke_all(struct gw_shm_link *link)
{
    struct gw_shm_in *in = &link->in;
    if (!in->watching)
        return 1;
    in->watching = 0;
    gw_windows_unwatch(link->base.windows, &in->watch);
    for (uint32_t i = 0; i < GW_WINDOWS_MAX; i++)
        atomic_store(&in->queue->open[i], GW_WINDOW_NONE);
    return link->ended || wait_until_stopped(link, GW_WINDOW_NONE);
}

/* A dead process has closed its socket after it has run last. Messages that it
   sent before are useless, and dropped. */
int gw_shm_has_finished(const struct gw_shm_link *link)
{
    uint8_t word;
    ssize_t got;
    do {
        got = recv(link->fd, &word, sizeof word, MSG_DONTWAIT);
    } while (got > 0 || (got < 0 && errno == ECONNRESET));
    return got == 0 || has_stopped(link, GW_WINDOW_NONE);
}

int gw_shm_is_fenced(const struct gw_shm *shm, const void *base, size_t bytes)
{
    uintptr_t from = (uintptr_t)base;
    for (const struct gw_shm_link *one = shm->fenced; one; one = one->next)
        for (uint32_t i = 0; i < GW_WINDOWS_MAX; i++) {
            const struct gw_shm_granted *its = &one->in.granted[i];
            uintptr_t at = (uintptr_t)its->base;
            if (its->window != GW_WINDOW_NONE && from < at + its->bytes &&
                at < from + bytes)
                return 1;
        }
    return 0;
}

/* ---- windows of the peer ---- */

/* Maps all of the memory that the peer has sent; NULL: it cannot be mapped. */
static struct gw_shm_map *map_get(struct gw_shm *shm, int fd)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return NULL;
    struct gw_shm_map *map = shm->maps;
    while (map && (map->device != file.st_dev || map->inode != file.st_ino))
        map = map->next;
    if (map) {
        map->windows++;
        return map;
    }
    map = calloc(1, sizeof *map);
    if (!map)
        return NULL;
    map->bytes = (size_t)file.st_size;
    map->base = gw_memory_map(fd, map->bytes);
    if (!map->base) {
        free(map);
        return NULL;
    }
    map->windows = 1;
    map->device = file.st_dev;
    map->inode = file.st_ino;
    map->next = shm->maps;
    shm->maps = map;
    return map;
}

static void map_put(struct gw_shm *shm, struct gw_shm_map *map)
{
    struct gw_shm_map **at = &shm->maps;
    if (!map || --map->windows > 0)
        return;
    while (*at != map)
        at = &(*at)->next;
    *at = map->next;
    munmap(map->base, map->bytes);
    free(map);
}

/* The sizes are checked first, so that their sum cannot wrap. */
int gw_shm_target_open(struct gw_shm *shm,
                       struct gw_shm_target *target,
                       uint32_t window,
                       uint64_t offset,
                       uint64_t bytes,
                       int fd)
{
    if (bytes == 0 || bytes > SIZE_MAX / 4 || offset > SIZE_MAX / 4)
        return 0;
    if (fd >= 0 && !gw_memory_is_safe(fd, (size_t)(offset + bytes)))
        return 0;
    *target = (struct gw_shm_target){.window = window, .bytes = bytes};
    if (fd >= 0)
        target->map = map_get(shm, fd);
    if (target->map && offset + bytes > target->map->bytes) {
        gw_shm_target_close(shm, target);
        return 0;
    }
    if (target->map)
        target->base = target->map->base + offset;
    return 1;
}

void gw_shm_target_close(struct gw_shm *shm, struct gw_shm_target *target)
{
    map_put(shm, target->map);
    *target = (struct gw_shm_target){.window = GW_WINDOW_NONE};
}
