#include "config.h"

#include "transport/member/secret_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/link/limits.h"

enum gw_status gw_secret_lend(const struct gw_secret *secret,
                              int *fd_p,
                              struct gw_error *error)
{
    char why[GW_LIMITS_WHY_BYTES];
    int fd = memfd_create("secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return gw_fail(error, GW_EIO, "no file for the job's secret: %s",
                       gw_limits_why_no_file(errno, why));
    if (write(fd, secret->byte, sizeof secret->byte) ==
            (ssize_t)sizeof secret->byte &&
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0) {
        *fd_p = fd;
        return GW_OK;
    }
    int number = errno;
    close(fd);
    return gw_fail(error, GW_EIO, "the job's secret cannot be handed on: %s",
                   strerror(number));
}

enum gw_status
gw_secret_read(int fd, struct gw_secret *secret, struct gw_error *error)
{
    ssize_t n;
    do
        n = pread(fd, secret->byte, sizeof secret->byte, 0);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof secret->byte)
        return GW_OK;
    int number = n < 0 ? errno : 0;
    gw_secret_forget(secret);
    return gw_fail(error, GW_EIO,
                   "descriptor %d has no secret of a launcher%s%s", fd,
                   number ? ": " : "", number ? strerror(number) : "");
}

enum gw_status
gw_secret_take(int fd, struct gw_secret *secret, struct gw_error *error)
{
    enum gw_status status = gw_secret_read(fd, secret, error);
    close(fd);
    return status;
}
