#include "config.h"

#include "cli/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "transport/link/limits.h"

enum gw_status gw_secret_draw(struct gw_secret *secret, struct gw_error *error)
{
    if (getrandom(secret->byte, sizeof secret->byte, 0) ==
        (ssize_t)sizeof secret->byte)
        return GW_OK;
    return gw_fail(error, GW_EIO, "no random bytes for the job's secret: %s",
                   strerror(errno));
}

enum gw_status gw_secret_lend(const struct gw_secret *secret,
                              int *fd_p,
                              struct gw_error *error)
{
    char why[GW_LIMITS_WHY_BYTES];
    int end[2];
    if (pipe2(end, O_CLOEXEC) != 0)
        return gw_fail(error, GW_EIO, "no pipe for the job's secret: %s",
                       gw_limits_why_no_file(errno, why));
    /* fits into an empty pipe */
    ssize_t written = write(end[1], secret->byte, sizeof secret->byte);
    int number = errno;
    close(end[1]);
    if (written != (ssize_t)sizeof secret->byte) {
        close(end[0]);
        return gw_fail(error, GW_EIO,
                       "the job's secret cannot be handed on: %s",
                       strerror(number));
    }
    *fd_p = end[0];
    return GW_OK;
}

enum gw_status
gw_secret_take(int fd, struct gw_secret *secret, struct gw_error *error)
{
    size_t got = 0;
    ssize_t n = 1;
    while (got < sizeof secret->byte && n > 0) {
        do
            n = read(fd, secret->byte + got, sizeof secret->byte - got);
        while (n < 0 && errno == EINTR);
        got += n > 0 ? (size_t)n : 0;
    }
    int number = n < 0 ? errno : 0;
    close(fd);
    if (got == sizeof secret->byte)
        return GW_OK;
    gw_secret_forget(secret);
    return gw_fail(error, GW_EIO,
                   "--secret: descriptor %d has no secret of a launcher%s%s",
                   fd, number ? ": " : "", number ? strerror(number) : "");
}
