/* Chooses the way of registering memory by its kind and the probes' answers. */
#include "config.h"

#include "transport/rdma/rdma_memory.h"

#include <stdio.h>
#include <string.h>

/* Adds the reason against one of the ways. */
static void add_reason(char *why,
                       size_t why_bytes,
                       const struct gw_rdma_registrar *one,
                       const char *reason)
{
    size_t used = strlen(why);
    snprintf(why + used, why_bytes - used, "%snot by %s: %s", used ? "; " : "",
             one->name, reason);
}

const struct gw_rdma_registrar *
gw_rdma_choose(const struct gw_rdma_registrar *const *table,
               const struct gw_rdma_probed *probed,
               enum gw_memory_kind kind,
               int has_fd,
               char *why,
               size_t why_bytes)
{
    why[0] = '\0';
    for (size_t i = 0; table[i]; i++) {
        const struct gw_rdma_registrar *one = table[i];
        if (!(one->kinds & 1u << kind))
            continue;
        if (one->needs_fd && !has_fd)
            add_reason(why, why_bytes, one, "the memory has no descriptor");
        else if (probed[i].status != GW_OK)
            add_reason(why, why_bytes, one, probed[i].why);
        else
            return one;
    }
    if (!why[0])
        snprintf(why, why_bytes, "no way is known for memory of that kind");
    return NULL;
}
