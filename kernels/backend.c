#include "config.h"

#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu.h"

const struct gw_backend_ops *const gw_backends[] = {
    &gw_cpu_ops,
    NULL,
};

static enum gw_status unknown(const char *name, struct gw_error *error)
{
    char names[128] = "auto";
    for (size_t i = 0; gw_backends[i]; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, ", %s",
                 gw_backends[i]->name);
    }
    return gw_fail(error, GW_ENOENT,
                   "no device is called \"%s\": it is one of %s", name, names);
}

const struct gw_backend_ops *gw_backend_find(const char *name,
                                             struct gw_error *error)
{
    char why[256] = "this build has no backend";
    int any = !strcmp(name, "auto"), known = any;
    for (size_t i = 0; gw_backends[i]; i++) {
        const struct gw_backend_ops *backend = gw_backends[i];
        if (!any && strcmp(name, backend->name))
            continue;
        known = 1;
        if (backend->probe(why, sizeof why) == GW_OK)
            return backend;
    }
    if (!known)
        unknown(name, error);
    else
        gw_fail(error, GW_EUNSUPPORTED, "device \"%s\" is not available: %s",
                name, why);
    return NULL;
}
