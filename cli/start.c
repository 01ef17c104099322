#include "config.h"

#include "cli/start.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "transport/link/limits.h"

/* open returns the lowest free number, the missing one. */
static void open_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", O_RDWR) != fd)
            return; /* without /dev/null there is no alternative */
}

void gw_start(void)
{
    open_standard();
    gw_limits_raise_files();
}
