/* Files of the real file system, as the loop offers them. */
#include "config.h"

#include "transport/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* One write or read is cut to this, so that no signal finds it endless. */
#define PIECE_BYTES ((size_t)8 << 20)

struct gw_file {
    int fd;
    char path[];
};

static enum gw_status
system_error(struct gw_error *error, const char *verb, const char *path)
{
    int number = errno;
    enum gw_status status = GW_EIO;
    if (number == ENOENT)
        status = GW_ENOENT;
    else if (number == EEXIST || number == ENOTEMPTY || number == EWOULDBLOCK)
        status = GW_EEXIST;
    else if (number == ENOSPC || number == EDQUOT)
        status = GW_ENOSPC;
    return gw_fail(error, status, "cannot %s %s: %s", verb, path,
                   strerror(number));
}

/* Whether a lock could be had, or cannot be had of this file system at all. */
static int is_ours(int fd)
{
    int failed;
    do {
        failed = flock(fd, LOCK_EX | LOCK_NB);
    } while (failed && errno == EINTR);
    return !failed || errno != EWOULDBLOCK;
}

/* As open(2); EWOULDBLOCK where another process holds it. */
static int open_held(const char *path)
{
    for (;;) {
        struct stat info;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0)
            return fd;
        if (!is_ours(fd)) {
            close(fd);
            errno = EWOULDBLOCK;
            return -1;
        }
        /* who held it may have removed it after our open: then it is not the
           one that the next process finds */
        if (fstat(fd, &info) != 0 || info.st_nlink > 0) {
            if (ftruncate(fd, 0) == 0)
                return fd;
            int number = errno;
            close(fd);
            errno = number;
            return -1;
        }
        close(fd);
    }
}

static int open_as(const char *path, enum gw_file_mode mode)
{
    if (mode == GW_FILE_HOLD)
        return open_held(path);
    int flags = mode == GW_FILE_READ ? O_RDONLY : O_RDWR | O_CREAT | O_TRUNC;
    return open(path, flags | O_CLOEXEC, 0644);
}

static enum gw_status disk_open(struct gw_disk *disk,
                                const char *path,
                                enum gw_file_mode mode,
                                struct gw_file **file_p,
                                struct gw_error *error)
{
    (void)disk;
    size_t path_bytes = strlen(path) + 1;
    struct gw_file *file = malloc(sizeof *file + path_bytes);
    if (!file)
        return gw_fail(error, GW_ENOMEM, "no memory to open %s", path);
    memcpy(file->path, path, path_bytes);
    file->fd = open_as(path, mode);
    if (file->fd < 0) {
        free(file);
        return system_error(error, mode == GW_FILE_READ ? "open" : "create",
                            path);
    }
    *file_p = file;
    return GW_OK;
}

static enum gw_status disk_close(struct gw_file *file, struct gw_error *error)
{
    enum gw_status status = GW_OK;
    if (close(file->fd) != 0 && errno != EINTR)
        status = system_error(error, "close", file->path);
    free(file);
    return status;
}

static enum gw_status disk_read(struct gw_file *file,
                                uint64_t offset,
                                void *bytes,
                                size_t n,
                                struct gw_error *error)
{
    char *at = bytes;
    while (n > 0) {
        size_t piece = n < PIECE_BYTES ? n : PIECE_BYTES;
        ssize_t got = pread(file->fd, at, piece, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return system_error(error, "read", file->path);
        if (got == 0)
            return gw_fail(error, GW_ECORRUPT,
                           "%s ends at byte %llu, %zu bytes too early",
                           file->path, (unsigned long long)offset, n);
        at += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return GW_OK;
}

static enum gw_status disk_write(struct gw_file *file,
                                 uint64_t offset,
                                 const void *bytes,
                                 size_t n,
                                 struct gw_error *error)
{
    const char *at = bytes;
    while (n > 0) {
        size_t piece = n < PIECE_BYTES ? n : PIECE_BYTES;
        ssize_t put = pwrite(file->fd, at, piece, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return system_error(error, "write", file->path);
        at += put;
        offset += (uint64_t)put;
        n -= (size_t)put;
    }
    return GW_OK;
}

static enum gw_status
disk_size(struct gw_file *file, uint64_t *bytes_p, struct gw_error *error)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0)
        return system_error(error, "examine", file->path);
    *bytes_p = (uint64_t)info.st_size;
    return GW_OK;
}

static enum gw_status
disk_reserve(struct gw_file *file, uint64_t bytes, struct gw_error *error)
{
    int failed;
    do {
        failed = posix_fallocate(file->fd, 0, (off_t)bytes);
    } while (failed == EINTR);
    /* a file system that cannot reserve says so at the write */
    if (!failed || failed == EOPNOTSUPP || failed == EINVAL)
        return GW_OK;
    errno = failed;
    return system_error(error, "reserve room for", file->path);
}

static enum gw_status disk_sync(struct gw_file *file, struct gw_error *error)
{
    if (fsync(file->fd) != 0)
        return system_error(error, "sync", file->path);
    return GW_OK;
}

static enum gw_status disk_rename(struct gw_disk *disk,
                                  const char *from,
                                  const char *to,
                                  struct gw_error *error)
{
    (void)disk;
    if (rename(from, to) != 0)
        return system_error(error, "write", to);
    return GW_OK;
}

static enum gw_status
disk_remove(struct gw_disk *disk, const char *path, struct gw_error *error)
{
    (void)disk;
    if (unlink(path) == 0)
        return GW_OK;
    if ((errno == EISDIR || errno == EPERM) && rmdir(path) == 0)
        return GW_OK;
    return system_error(error, "remove", path);
}

static enum gw_status
disk_make_dir(struct gw_disk *disk, const char *path, struct gw_error *error)
{
    (void)disk;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return system_error(error, "make directory", path);
    return GW_OK;
}

static enum gw_status
disk_sync_dir(struct gw_disk *disk, const char *path, struct gw_error *error)
{
    (void)disk;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return system_error(error, "open directory", path);
    enum gw_status status = GW_OK;
    if (fsync(fd) != 0)
        status = system_error(error, "sync directory", path);
    close(fd);
    return status;
}

static enum gw_status disk_list(struct gw_disk *disk,
                                const char *path,
                                void (*each)(void *owner, const char *name),
                                void *owner,
                                struct gw_error *error)
{
    (void)disk;
    DIR *dir = opendir(path);
    if (!dir)
        return system_error(error, "list directory", path);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            each(owner, entry->d_name);
    }
    closedir(dir);
    return GW_OK;
}

const struct gw_disk_ops gw_disk_posix_ops = {
    .open = disk_open,
    .close = disk_close,
    .read = disk_read,
    .write = disk_write,
    .size = disk_size,
    .reserve = disk_reserve,
    .sync = disk_sync,
    .rename = disk_rename,
    .remove = disk_remove,
    .make_dir = disk_make_dir,
    .sync_dir = disk_sync_dir,
    .list = disk_list,
};
