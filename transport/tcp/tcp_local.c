/*
 * Local addresses: stream sockets of this host's file system, "unix:PATH". The
 * file is made for its user alone. A file left by a dead process is replaced,
 * that of a live one is not; a lock of the directory keeps other processes from
 * doing the same between the check and the replacement.
 */
#include "config.h"

#include "transport/tcp/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "transport/link/limits.h"

#define PREFIX       "unix:"
#define PREFIX_BYTES (sizeof PREFIX - 1)

/* Other processes hold the lock for a few system calls. */
#define LOCK_TRIES 50
#define LOCK_NS    10000000

int gw_tcp_is_unix(const char *address)
{
    return strncmp(address, PREFIX, PREFIX_BYTES) == 0;
}

enum gw_status gw_tcp_local_place(const char *address,
                                  struct sockaddr_un *at,
                                  struct gw_error *error)
{
    const char *path = address + PREFIX_BYTES;
    if (!path[0])
        return gw_fail(error, GW_EINVAL,
                       "\"%s\" is no address: expected unix:PATH", address);
    if (strlen(path) >= sizeof at->sun_path)
        return gw_fail(error, GW_EINVAL,
                       "\"%.40s..\" is too long for the path of a socket: at "
                       "most %zu bytes",
                       path, sizeof at->sun_path - 1);
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    strcpy(at->sun_path, path);
    return GW_OK;
}

/* Opens and locks the directory of `path`; a close unlocks it. -1: errno. */
static int lock_directory(const char *path)
{
    char name[sizeof((struct sockaddr_un *)0)->sun_path];
    const char *slash = strrchr(path, '/');
    size_t bytes = slash ? (size_t)(slash - path) : 0;
    memcpy(name, path, bytes);
    name[bytes] = '\0';
    int fd = open(bytes > 0 ? name
                  : slash   ? "/"
                            : ".",
                  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        const struct timespec moment = {.tv_nsec = LOCK_NS};
        nanosleep(&moment, NULL);
    }
    int number = errno;
    close(fd);
    errno = number;
    return -1;
}

/* Non-zero if this user's socket is there and nobody listens at it any more. */
static int is_dead(const struct sockaddr_un *at)
{
    struct stat file;
    if (lstat(at->sun_path, &file) != 0 || !S_ISSOCK(file.st_mode) ||
        file.st_uid != geteuid())
        return 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    int dead = connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 &&
               errno == ECONNREFUSED;
    close(fd);
    return dead;
}

/* Under the lock. 0, or -1 with errno. */
static int bind_and_listen(int fd, const struct sockaddr_un *at)
{
    const struct sockaddr *address = (const struct sockaddr *)at;
    /* the file is created with the socket's mode, never with another one */
    if (fchmod(fd, S_IRUSR | S_IWUSR) != 0)
        return -1;
    int failed = bind(fd, address, sizeof *at);
    if (failed && errno == EADDRINUSE) {
        if (!is_dead(at)) {
            errno = EADDRINUSE;
            return -1;
        }
        failed = unlink(at->sun_path) != 0 || bind(fd, address, sizeof *at);
    }
    if (failed)
        return -1;
    if (listen(fd, GW_LISTEN_BACKLOG) == 0)
        return 0;
    int number = errno;
    unlink(at->sun_path);
    errno = number;
    return -1;
}

static enum gw_status
say_why(const char *address, int number, struct gw_error *error)
{
    char why[GW_LIMITS_WHY_BYTES];
    if (number == EADDRINUSE)
        return gw_fail(error, GW_EADDRINUSE,
                       "cannot listen on %s: a process listens there, or the "
                       "file is no socket of this user's",
                       address);
    return gw_fail(error, GW_EIO, "cannot listen on %s: %s", address,
                   gw_limits_why_no_file(number, why));
}

enum gw_status gw_tcp_local_listen(const char *address,
                                   int *fd_p,
                                   struct gw_tcp_file *file_p,
                                   struct gw_error *error)
{
    struct sockaddr_un at;
    struct stat file;
    enum gw_status status = gw_tcp_local_place(address, &at, error);
    if (status != GW_OK)
        return status;
    int lock = lock_directory(at.sun_path);
    if (lock < 0)
        return say_why(address, errno, error);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind_and_listen(fd, &at) != 0 ||
        lstat(at.sun_path, &file) != 0) {
        status = say_why(address, errno, error);
        if (fd >= 0)
            close(fd);
        close(lock);
        return status;
    }
    close(lock);
    *fd_p = fd;
    *file_p = (struct gw_tcp_file){.device = file.st_dev, .inode = file.st_ino};
    strcpy(file_p->path, at.sun_path);
    return GW_OK;
}

void gw_tcp_local_remove(const struct gw_tcp_file *file)
{
    struct stat now;
    if (file->path[0] && lstat(file->path, &now) == 0 &&
        now.st_dev == file->device && now.st_ino == file->inode)
        unlink(file->path);
}

int gw_tcp_local_may(int fd)
{
    struct ucred who;
    socklen_t bytes = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}

void gw_tcp_local_name(int fd, int peer, char text[GW_ADDRESS_MAX])
{
    struct sockaddr_un own = {.sun_path = ""};
    struct ucred who = {.pid = 0};
    socklen_t bytes = peer ? sizeof who : sizeof own;
    if (peer) {
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
        snprintf(text, GW_ADDRESS_MAX, "local, pid %d", (int)who.pid);
    } else {
        getsockname(fd, (struct sockaddr *)&own, &bytes);
        snprintf(text, GW_ADDRESS_MAX, PREFIX "%.*s",
                 (int)sizeof own.sun_path - 1, own.sun_path);
    }
}
