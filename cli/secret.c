#include "config.h"

#include "cli/secret.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum gw_status gw_secret_draw(struct gw_secret *secret, struct gw_error *error)
{
    if (getrandom(secret->byte, sizeof secret->byte, 0) ==
        (ssize_t)sizeof secret->byte)
        return GW_OK;
    return gw_fail(error, GW_EIO, "no random bytes for the job's secret: %s",
                   strerror(errno));
}
