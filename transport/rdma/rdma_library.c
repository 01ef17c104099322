#include "config.h"

#include "transport/rdma/rdma_library.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct entry {
    const char *symbol;
    size_t at; /* in struct gw_rdma_library */
};

#define ENTRY(symbol, name) {#symbol, offsetof(struct gw_rdma_library, name)},
static const struct entry verbs_entries[] = {GW_RDMA_VERBS(ENTRY)};
static const struct entry cm_entries[] = {GW_RDMA_CM(ENTRY)};

/* A definition that the process has already comes first, as it does for a
   program that is linked with the library: a wrapper that is preloaded. */
static void *find(void *file, const char *symbol)
{
    void *found = dlsym(RTLD_DEFAULT, symbol);
    return found ? found : dlsym(file, symbol);
}

static enum gw_status load(const char *name,
                           const struct entry *entries,
                           size_t n,
                           struct gw_rdma_library *library,
                           char *why,
                           size_t why_bytes)
{
    void *file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
        snprintf(why, why_bytes,
                 "rdma-core cannot be loaded: %s (Debian: librdmacm1, "
                 "ibverbs-providers)",
                 dlerror());
        return GW_EUNSUPPORTED;
    }
    for (size_t i = 0; i < n; i++) {
        void *found = find(file, entries[i].symbol);
        if (!found) {
            snprintf(why, why_bytes,
                     "rdma-core is too old: %s has no %s, 34 or later is "
                     "needed",
                     name, entries[i].symbol);
            return GW_EUNSUPPORTED;
        }
        memcpy((uint8_t *)library + entries[i].at, &found, sizeof found);
    }
    return GW_OK;
}

enum gw_status gw_rdma_library_load(struct gw_rdma_library *library,
                                    char *why,
                                    size_t why_bytes)
{
    struct gw_rdma_library found;
    enum gw_status status = load("libibverbs.so.1", verbs_entries,
                                 sizeof verbs_entries / sizeof *verbs_entries,
                                 &found, why, why_bytes);
    if (status == GW_OK)
        status = load("librdmacm.so.1", cm_entries,
                      sizeof cm_entries / sizeof *cm_entries, &found, why,
                      why_bytes);
    if (status == GW_OK)
        *library = found;
    return status;
}

int gw_rdma_query_port(const struct gw_rdma_library *library,
                       struct ibv_context *verbs,
                       uint8_t number,
                       struct ibv_port_attr *port)
{
    void *begin = port; /* the older struct is the beginning of this one */
    memset(port, 0, sizeof *port);
    return library->query_port(verbs, number, begin);
}
