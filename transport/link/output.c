#include "config.h"

#include "transport/link/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "transport/link/disk_place.h"

/* The kernel's limit. */
#define LINKS_MAX 40

/* ---- resolving a path ---- */

/* A link of /proc stands for an open file, not for the name that it shows. */
static int is_of_proc(const char *link)
{
    struct statfs found;
    int fd = open(link, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int is =
        fd >= 0 && fstatfs(fd, &found) == 0 && found.f_type == PROC_SUPER_MAGIC;
    if (fd >= 0)
        close(fd);
    return is;
}

/* Replaces the path of a link by its target. Non-zero: errno. */
static int follow(char path[PATH_MAX])
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return errno;
    target[n] = '\0';
    char *slash = strrchr(path, '/');
    size_t kept = target[0] == '/' || !slash ? 0 : (size_t)(slash - path) + 1;
    if (kept + (size_t)n >= PATH_MAX)
        return ENAMETOOLONG;
    memcpy(path + kept, target, (size_t)n + 1);
    return 0;
}

/*
 * Follows the links of the last part of a path: to a regular file, *info_p, or
 * to a name that does not exist, with mode 0; a rename may replace either.
 * Returns 0 for anything that has to be written into, -1 with errno.
 */
static int
find_place(const char *path, char place[PATH_MAX], struct stat *info_p)
{
    memset(info_p, 0, sizeof *info_p);
    if (strlen(path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(place, path);
    for (int links = 0; links < LINKS_MAX; links++) {
        if (lstat(place, info_p) != 0) {
            memset(info_p, 0, sizeof *info_p);
            return errno == ENOENT ? 1 : -1;
        }
        if (!S_ISLNK(info_p->st_mode))
            return S_ISREG(info_p->st_mode);
        if (is_of_proc(place))
            return 0;
        errno = follow(place);
        if (errno)
            return -1;
    }
    errno = ELOOP;
    return -1;
}

/* ---- opening ---- */

/* Creates a file that no other user can have planted; an existing one of this
   name is left from a dead process with our number. */
static int create(const char *temporary)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(temporary, flags, 0666);
    if (fd < 0 && errno == EEXIST && unlink(temporary) == 0)
        fd = open(temporary, flags, 0666);
    return fd;
}

static int open_beside(struct gw_output *output,
                       const char *place,
                       const struct stat *before)
{
    size_t room = strlen(place) + 24;
    output->place = strdup(place);
    output->temporary = malloc(room);
    if (!output->place || !output->temporary)
        return -1;
    snprintf(output->temporary, room, "%s.%ld.tmp", place, (long)getpid());
    int fd = create(output->temporary);
    /* keeps the mode of the file that it replaces */
    if (fd >= 0 && before->st_mode && fchmod(fd, before->st_mode & 0777) != 0) {
        close(fd);
        unlink(output->temporary);
        return -1;
    }
    return fd;
}

enum gw_status gw_output_open(const char *path,
                              struct gw_output *output,
                              struct gw_error *error)
{
    char place[PATH_MAX];
    struct stat before;
    *output = (struct gw_output){.path = strdup(path)};
    if (!output->path)
        return gw_fail(error, GW_ENOMEM, "no memory to write %s", path);
    int found = find_place(path, place, &before), fd = -1;
    if (found > 0)
        fd = open_beside(output, place, &before);
    else if (found == 0)
        fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
    output->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (output->file)
        return GW_OK;
    enum gw_status status = gw_disk_failed(error, "write", path);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && output->temporary)
        unlink(output->temporary);
    gw_output_abandon(output);
    return status;
}

/* ---- the end ---- */

static void forget(struct gw_output *output)
{
    free(output->path);
    free(output->place);
    free(output->temporary);
    *output = (struct gw_output){0};
}

int gw_output_put(struct gw_output *output, const void *bytes, size_t n)
{
    if (output->number)
        return 0;
    if (fwrite(bytes, 1, n, output->file) != n)
        output->number = errno;
    return output->number == 0;
}

/* Syncs the file; a device or a FIFO has nothing to sync. */
static int make_safe(struct gw_output *output)
{
    errno = output->number ? output->number : EIO;
    if (ferror(output->file) || fflush(output->file) != 0)
        return -1;
    return output->temporary ? fsync(fileno(output->file)) : 0;
}

/* Syncs the new name; a file system without that call keeps it as it can. */
static int sync_name(const char *place)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", place);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* a user may write to a directory and not read it */
    int failed = fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP;
    int number = errno;
    close(fd);
    errno = number;
    return failed ? -1 : 0;
}

enum gw_status gw_output_commit(struct gw_output *output,
                                struct gw_error *error)
{
    enum gw_status status = GW_OK;
    int failed = make_safe(output) != 0, number = errno;
    if (fclose(output->file) != 0 && !failed) {
        failed = 1;
        number = errno;
    }
    output->file = NULL;
    if (!failed && output->temporary &&
        (rename(output->temporary, output->place) != 0 ||
         sync_name(output->place) != 0)) {
        failed = 1;
        number = errno;
    }
    if (failed) {
        errno = number;
        status = gw_disk_failed(error, "write", output->path);
        if (output->temporary)
            unlink(output->temporary);
    }
    forget(output);
    return status;
}

void gw_output_abandon(struct gw_output *output)
{
    if (output->file) {
        fclose(output->file);
        if (output->temporary)
            unlink(output->temporary);
    }
    forget(output);
}
