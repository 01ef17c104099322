/* Files of the real file system: opening, reading and writing them. */
#include "config.h"

#include "transport/link/disk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "transport/link/disk_place.h"

/* Limit of one read or write, so that signals are handled in between. */
#define PIECE_BYTES ((size_t)8 << 20)

struct gw_file {
    int fd;
    char *name;                  /* the whole path */
    uint64_t flushed, flushed_n; /* bytes that are being written to the disk */
};

static mode_t file_mode(const struct gw_disk *disk)
{
    return disk->access == GW_ACCESS_PRIVATE ? 0600 : 0666;
}

/* ---- opening ---- */

/* Takes the lock; also 1 if this file system has no locks. */
static int is_ours(int fd)
{
    int failed;
    do {
        failed = flock(fd, LOCK_EX | LOCK_NB);
    } while (failed && errno == EINTR);
    return !failed || errno != EWOULDBLOCK;
}

/* Only a file without a second name may be truncated: a second name may be of
   another user's file, planted to have it destroyed. */
static int has_one_name(const struct stat *info)
{
    return S_ISREG(info->st_mode) && info->st_nlink == 1;
}

/* Like openat(2); EWOULDBLOCK if another process holds the file, ELOOP if it
   must not be touched. */
static int open_held(const struct gw_disk_place *at, mode_t mode)
{
    const int flags =
        O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    for (;;) {
        struct stat info;
        int number = 0, fd = openat(at->fd, at->last, flags, mode);
        if (fd < 0)
            return fd;
        if (!is_ours(fd))
            number = EWOULDBLOCK;
        else if (fstat(fd, &info) != 0)
            number = errno;
        else if (has_one_name(&info) && ftruncate(fd, 0) == 0)
            return fd;
        else if (has_one_name(&info))
            number = errno;
        else if (!S_ISREG(info.st_mode) || info.st_nlink > 0)
            number = ELOOP;
        close(fd);
        errno = number;
        /* its former holder may have removed it after our open: then the next
           process would find another file */
        if (number)
            return -1;
    }
}

/* Makes a new file, after removing an existing one of that name. */
static int open_new(const struct gw_disk_place *at, mode_t mode)
{
    if (unlinkat(at->fd, at->last, 0) != 0 && errno != ENOENT)
        return -1;
    return openat(at->fd, at->last,
                  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

/* Opens without waiting for the writer of a FIFO; EINVAL if it is no file. */
static int open_to_read(const struct gw_disk_place *at)
{
    struct stat info;
    int fd = openat(at->fd, at->last, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fd;
    int number = fstat(fd, &info) != 0   ? errno
                 : S_ISREG(info.st_mode) ? 0
                 : S_ISDIR(info.st_mode) ? EISDIR
                                         : EINVAL;
    if (number == 0)
        return fd;
    close(fd);
    errno = number;
    return -1;
}

static int
open_at(const struct gw_disk_place *at, enum gw_file_mode mode, mode_t bits)
{
    switch (mode) {
    case GW_FILE_HOLD:
        return open_held(at, bits);
    case GW_FILE_CREATE:
        return open_new(at, bits);
    default:
        return open_to_read(at);
    }
}

enum gw_status gw_disk_file_open(struct gw_disk *disk,
                                 const char *path,
                                 enum gw_file_mode mode,
                                 struct gw_file **file_p,
                                 struct gw_error *error)
{
    struct gw_disk_place at;
    int reads = mode == GW_FILE_READ;
    enum gw_status status = gw_disk_place_find(
        disk, path, reads ? GW_LINKS_FOLLOWED : GW_LINKS_REFUSED, &at, error);
    if (status != GW_OK)
        return status;
    struct gw_file *file = malloc(sizeof *file);
    char *name = gw_disk_whole_name(disk, path);
    if (!file || !name) {
        status = gw_fail(error, GW_ENOMEM, "no memory to open %s", path);
        goto free_file;
    }
    *file = (struct gw_file){.fd = open_at(&at, mode, file_mode(disk)),
                             .name = name};
    if (file->fd < 0 && errno == ELOOP && mode == GW_FILE_HOLD)
        status = gw_disk_refused_at(disk, error, path,
                                    "is a link, or no file of its own");
    else if (file->fd < 0 && errno == EINVAL && reads)
        status = gw_fail(error, GW_EIO, "%s is no regular file", name);
    else if (file->fd < 0)
        status =
            gw_disk_failed_at(disk, error, reads ? "open" : "create", path);
    if (status != GW_OK)
        goto free_file;
    gw_disk_place_close(&at);
    *file_p = file;
    return GW_OK;

free_file:
    free(name);
    free(file);
    gw_disk_place_close(&at);
    return status;
}

int gw_disk_is_familiar(const struct gw_disk *disk, const struct stat *found)
{
    struct stat around;
    return found->st_uid == geteuid() || (fstat(disk->dir->fd, &around) == 0 &&
                                          found->st_uid == around.st_uid);
}

enum gw_status gw_disk_append(struct gw_disk *dir,
                              const char *path,
                              int *fd_p,
                              struct gw_error *error)
{
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
                      O_NOCTTY | O_CLOEXEC;
    struct gw_disk_place at;
    struct stat info;
    enum gw_status status =
        gw_disk_place_find(dir, path, GW_LINKS_REFUSED, &at, error);
    if (status != GW_OK)
        return status;
    int fd = openat(at.fd, at.last, flags, file_mode(dir)), number = errno;
    gw_disk_place_close(&at);
    errno = number;
    if (fd < 0 && number != ELOOP)
        return gw_disk_failed_at(dir, error, "open", path);
    if (fd >= 0 && fstat(fd, &info) == 0 && has_one_name(&info) &&
        gw_disk_is_familiar(dir, &info)) {
        *fd_p = fd;
        return GW_OK;
    }
    if (fd >= 0)
        close(fd);
    return gw_disk_refused_at(dir, error, path,
                              "is a link, or no file of this user's own");
}

/* ---- an open file ---- */

enum gw_status gw_disk_file_close(struct gw_file *file, struct gw_error *error)
{
    enum gw_status status = GW_OK;
    if (close(file->fd) != 0 && errno != EINTR)
        status = gw_disk_failed(error, "close", file->name);
    free(file->name);
    free(file);
    return status;
}

enum gw_status gw_disk_file_read(struct gw_file *file,
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
            return gw_disk_failed(error, "read", file->name);
        if (got == 0)
            return gw_fail(error, GW_ECORRUPT,
                           "%s ends at byte %llu, %zu bytes too early",
                           file->name, (unsigned long long)offset, n);
        at += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return GW_OK;
}

enum gw_status gw_disk_file_write(struct gw_file *file,
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
            return gw_disk_failed(error, "write", file->name);
        at += put;
        offset += (uint64_t)put;
        n -= (size_t)put;
    }
    return GW_OK;
}

enum gw_status gw_disk_file_size(struct gw_file *file,
                                 uint64_t *bytes_p,
                                 struct gw_error *error)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0)
        return gw_disk_failed(error, "examine", file->name);
    *bytes_p = (uint64_t)info.st_size;
    return GW_OK;
}

enum gw_status gw_disk_file_reserve(struct gw_file *file,
                                    uint64_t bytes,
                                    struct gw_error *error)
{
    int failed;
    do {
        failed = posix_fallocate(file->fd, 0, (off_t)bytes);
    } while (failed == EINTR);
    /* a file system that cannot reserve reports it at the write */
    if (!failed || failed == EOPNOTSUPP || failed == EINVAL)
        return GW_OK;
    errno = failed;
    return gw_disk_failed(error, "reserve room for", file->name);
}

/* A file system without this call leaves all of it to the sync. */
static int flush_range(const struct gw_file *file,
                       uint64_t offset,
                       uint64_t n,
                       unsigned how)
{
    return sync_file_range(file->fd, (off_t)offset, (off_t)n, how) == 0 ||
           errno == EINVAL || errno == ENOSYS || errno == ESPIPE ||
           errno == EOPNOTSUPP;
}

enum gw_status gw_disk_file_flush(struct gw_file *file,
                                  uint64_t offset,
                                  uint64_t n,
                                  struct gw_error *error)
{
    int done = flush_range(file, offset, n, SYNC_FILE_RANGE_WRITE);
    if (done && file->flushed_n > 0)
        done = flush_range(file, file->flushed, file->flushed_n,
                           SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                               SYNC_FILE_RANGE_WAIT_AFTER);
    if (!done)
        return gw_disk_failed(error, "write", file->name);
    file->flushed = offset;
    file->flushed_n = n;
    return GW_OK;
}

enum gw_status gw_disk_file_sync(struct gw_file *file, struct gw_error *error)
{
    if (fsync(file->fd) != 0)
        return gw_disk_failed(error, "sync", file->name);
    return GW_OK;
}
