#include "config.h"

#include "transport/link/disk_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/link/limits.h"

/* ---- words ---- */

char *gw_disk_whole_name(const struct gw_disk *disk, const char *path)
{
    const char *dir = disk->dir ? disk->name : "";
    size_t room = strlen(dir) + strlen(path) + 2;
    char *name = malloc(room);
    if (name && disk->dir && strcmp(path, ".") == 0)
        strcpy(name, dir);
    else if (name)
        snprintf(name, room, "%s%s%s", dir, disk->dir ? "/" : "", path);
    return name;
}

enum gw_status
gw_disk_failed(struct gw_error *error, const char *verb, const char *name)
{
    int number = errno;
    char why[GW_LIMITS_WHY_BYTES];
    enum gw_status status = GW_EIO;
    if (number == ENOENT)
        status = GW_ENOENT;
    else if (number == EEXIST || number == ENOTEMPTY || number == EWOULDBLOCK)
        status = GW_EEXIST;
    else if (number == ENOSPC || number == EDQUOT)
        status = GW_ENOSPC;
    return gw_fail(error, status, "cannot %s %s: %s", verb, name,
                   gw_limits_why_no_file(number, why));
}

/* Non-zero for a removed directory: nothing can be made in it. */
static int is_gone(const struct gw_disk *disk)
{
    struct stat found;
    return disk->dir && fstat(disk->dir->fd, &found) == 0 &&
           found.st_nlink == 0;
}

enum gw_status gw_disk_failed_at(const struct gw_disk *disk,
                                 struct gw_error *error,
                                 const char *verb,
                                 const char *path)
{
    int number = errno;
    char *name = gw_disk_whole_name(disk, path);
    enum gw_status status;
    errno = number;
    if (number == ENOENT && is_gone(disk))
        status = gw_fail(error, GW_ENOENT,
                         "cannot %s %s: the directory %s was removed", verb,
                         name ? name : path, disk->name);
    else
        status = gw_disk_failed(error, verb, name ? name : path);
    free(name);
    return status;
}

enum gw_status gw_disk_refused_at(const struct gw_disk *disk,
                                  struct gw_error *error,
                                  const char *path,
                                  const char *why)
{
    char *name = gw_disk_whole_name(disk, path);
    enum gw_status status =
        gw_fail(error, GW_EREFUSED, "%s %s; see what it is, and remove it",
                name ? name : path, why);
    free(name);
    return status;
}

/* ---- places ---- */

/* Enters one directory, in *fd_p. A link is opened as itself, through which no
   path leads: ENOTDIR. */
static int
step_down(int *fd_p, const char *part, size_t n, enum gw_disk_links links)
{
    char name[NAME_MAX + 1];
    int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    if (n > NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(name, n + 1, "%s", part);
    if (links == GW_LINKS_REFUSED)
        flags |= O_NOFOLLOW;
    *fd_p = openat(*fd_p, name, flags);
    return *fd_p;
}

enum gw_status gw_disk_place_find(const struct gw_disk *disk,
                                  const char *path,
                                  enum gw_disk_links links,
                                  struct gw_disk_place *place,
                                  struct gw_error *error)
{
    *place = (struct gw_disk_place){.fd = AT_FDCWD, .last = path};
    if (!disk->dir)
        return GW_OK;
    place->fd = disk->dir->fd;
    for (const char *slash = strchr(path, '/'); slash;
         slash = strchr(place->last, '/')) {
        int fd = place->fd;
        int failed =
            step_down(&fd, place->last, (size_t)(slash - place->last), links);
        int number = errno;
        gw_disk_place_close(place);
        errno = number;
        if (failed < 0 && number == ENOTDIR && links == GW_LINKS_REFUSED)
            return gw_disk_refused_at(disk, error, path,
                                      "lies behind a symbolic link or in what "
                                      "is no directory");
        if (failed < 0)
            return gw_disk_failed_at(disk, error, "reach", path);
        *place = (struct gw_disk_place){fd, 1, slash + 1};
    }
    return GW_OK;
}

void gw_disk_place_close(struct gw_disk_place *place)
{
    if (place->is_own)
        close(place->fd);
    place->is_own = 0;
}
