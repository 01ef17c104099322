/* The real file system, behind the loop's table: names and directories. */
#include "config.h"

#include "transport/link/disk_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/link/disk_file.h"

static mode_t dir_mode(const struct gw_disk *disk)
{
    return disk->access == GW_ACCESS_PRIVATE ? 0700 : 0777;
}

/* ---- names ---- */

static enum gw_status disk_rename(struct gw_disk *disk,
                                  const char *from,
                                  const char *to,
                                  struct gw_error *error)
{
    struct gw_disk_place old, new;
    enum gw_status status =
        gw_disk_place_find(disk, from, GW_LINKS_REFUSED, &old, error);
    if (status != GW_OK)
        return status;
    status = gw_disk_place_find(disk, to, GW_LINKS_REFUSED, &new, error);
    if (status == GW_OK) {
        if (renameat(old.fd, old.last, new.fd, new.last) != 0)
            status = gw_disk_failed_at(disk, error, "write", to);
        gw_disk_place_close(&new);
    }
    gw_disk_place_close(&old);
    return status;
}

static enum gw_status
disk_remove(struct gw_disk *disk, const char *path, struct gw_error *error)
{
    struct gw_disk_place at;
    enum gw_status status =
        gw_disk_place_find(disk, path, GW_LINKS_REFUSED, &at, error);
    if (status != GW_OK)
        return status;
    int failed = unlinkat(at.fd, at.last, 0);
    if (failed && (errno == EISDIR || errno == EPERM))
        failed = unlinkat(at.fd, at.last, AT_REMOVEDIR);
    if (failed)
        status = gw_disk_failed_at(disk, error, "remove", path);
    gw_disk_place_close(&at);
    return status;
}

static int is_own_dir(const struct gw_disk *disk,
                      const struct gw_disk_place *at)
{
    struct stat found;
    return fstatat(at->fd, at->last, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(found.st_mode) && gw_disk_is_familiar(disk, &found);
}

static enum gw_status
disk_make_dir(struct gw_disk *disk, const char *path, struct gw_error *error)
{
    struct gw_disk_place at;
    enum gw_status status =
        gw_disk_place_find(disk, path, GW_LINKS_REFUSED, &at, error);
    if (status != GW_OK)
        return status;
    if (mkdirat(at.fd, at.last, dir_mode(disk)) != 0) {
        if (errno != EEXIST)
            status = gw_disk_failed_at(disk, error, "make directory", path);
        else if (disk->dir && !is_own_dir(disk, &at))
            status = gw_disk_refused_at(
                disk, error, path,
                "is a link, another user's, or no directory");
    }
    gw_disk_place_close(&at);
    return status;
}

/* Opens a directory for reading or syncing; -1 with *status_p. */
static int open_dir(const struct gw_disk *disk,
                    const char *path,
                    const char *verb,
                    enum gw_status *status_p,
                    struct gw_error *error)
{
    struct gw_disk_place at;
    *status_p = gw_disk_place_find(disk, path, GW_LINKS_FOLLOWED, &at, error);
    if (*status_p != GW_OK)
        return -1;
    int fd = openat(at.fd, at.last, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        *status_p = gw_disk_failed_at(disk, error, verb, path);
    gw_disk_place_close(&at);
    return fd;
}

static enum gw_status
disk_sync_dir(struct gw_disk *disk, const char *path, struct gw_error *error)
{
    enum gw_status status;
    int fd = open_dir(disk, path, "open directory", &status, error);
    if (fd < 0)
        return status;
    if (fsync(fd) != 0)
        status = gw_disk_failed_at(disk, error, "sync directory", path);
    close(fd);
    return status;
}

static enum gw_status disk_list(struct gw_disk *disk,
                                const char *path,
                                void (*each)(void *owner, const char *name),
                                void *owner,
                                struct gw_error *error)
{
    enum gw_status status;
    int fd = open_dir(disk, path, "list directory", &status, error);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) {
            status = gw_disk_failed_at(disk, error, "list directory", path);
            close(fd);
        }
        return status;
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            each(owner, entry->d_name);
    }
    closedir(dir);
    return GW_OK;
}

/* ---- directories that are entered ---- */

static enum gw_status disk_enter(struct gw_disk *disk,
                                 const char *path,
                                 struct gw_disk *dir_p,
                                 struct gw_error *error)
{
    enum gw_status status;
    char *name = gw_disk_whole_name(disk, path);
    struct gw_disk_dir *dir =
        name ? malloc(sizeof *dir + strlen(name) + 1) : NULL;
    if (!dir) {
        free(name);
        return gw_fail(error, GW_ENOMEM, "no memory to open %s", path);
    }
    strcpy(dir->name, name);
    free(name);
    dir->fd = open_dir(disk, path, "open directory", &status, error);
    if (dir->fd < 0) {
        free(dir);
        return status;
    }
    *dir_p = (struct gw_disk){.ops = disk->ops,
                              .dir = dir,
                              .name = dir->name,
                              .access = disk->access};
    return GW_OK;
}

static void disk_leave(struct gw_disk *dir)
{
    close(dir->dir->fd);
    free(dir->dir);
    *dir = (struct gw_disk){0};
}

/* Root can do all of that anyway, and in a sticky directory only the owner of a
   file can remove it. */
static int disk_doubt(struct gw_disk *dir, char *text, size_t room)
{
    struct stat found;
    if (fstat(dir->dir->fd, &found) != 0)
        return 0;
    if (found.st_uid != geteuid() && found.st_uid != 0) {
        snprintf(text, room, "%s belongs to another user (%u)", dir->name,
                 (unsigned)found.st_uid);
        return 1;
    }
    if (!(found.st_mode & S_IWOTH) || (found.st_mode & S_ISVTX))
        return 0;
    snprintf(text, room,
             "everybody may write to %s (mode %04o, chmod o-w takes it away)",
             dir->name, (unsigned)found.st_mode & 07777);
    return 1;
}

const struct gw_disk_ops gw_disk_posix_ops = {
    .open = gw_disk_file_open,
    .close = gw_disk_file_close,
    .read = gw_disk_file_read,
    .write = gw_disk_file_write,
    .size = gw_disk_file_size,
    .reserve = gw_disk_file_reserve,
    .flush = gw_disk_file_flush,
    .sync = gw_disk_file_sync,
    .rename = disk_rename,
    .remove = disk_remove,
    .make_dir = disk_make_dir,
    .sync_dir = disk_sync_dir,
    .list = disk_list,
    .enter = disk_enter,
    .leave = disk_leave,
    .doubt = disk_doubt,
};
