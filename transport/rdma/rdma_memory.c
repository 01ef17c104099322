/* The ways of registering memory with a device. */
#include "config.h"

#include "transport/rdma/rdma_memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/rdma/rdma_library.h"
#include "transport/rdma/rdma_port.h"

#define PEERMEM_VERSION "/sys/module/nvidia_peermem/version"

/* ---- host ---- */

static enum gw_status probe_host(const struct gw_rdma_library *lib,
                                 struct ibv_context *verbs,
                                 struct ibv_pd *pd,
                                 char *why,
                                 size_t why_bytes)
{
    (void)lib, (void)verbs, (void)pd, (void)why, (void)why_bytes;
    return GW_OK; /* every device can */
}

static struct ibv_mr *take_mapped(const struct gw_rdma_library *lib,
                                  struct ibv_pd *pd,
                                  const struct gw_rdma_part *part)
{
    return lib->reg_mr_iova(pd, part->base, part->bytes, part->offset,
                            (int)part->access);
}

static const struct gw_rdma_registrar host = {
    .name = "host",
    .kinds = 1u << GW_MEMORY_HOST | 1u << GW_MEMORY_SHARED,
    .probe = probe_host,
    .take = take_mapped,
};

/* ---- dma-buf ---- */

/* Registers an invalid descriptor: a driver that knows how says that it is bad,
   others refuse before they check it. */
static enum gw_status probe_dma_buf(const struct gw_rdma_library *lib,
                                    struct ibv_context *verbs,
                                    struct ibv_pd *pd,
                                    char *why,
                                    size_t why_bytes)
{
    (void)verbs;
    errno = 0;
    struct ibv_mr *none =
        lib->reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE);
    int number = errno;
    if (none)
        lib->dereg_mr(none);
    else if (number == EBADF)
        return GW_OK;
    if (number == EOPNOTSUPP || number == EPROTONOSUPPORT)
        snprintf(why, why_bytes,
                 "the driver of the device, or the kernel, does not know it");
    else
        snprintf(why, why_bytes, "asked for it, the device says: %s",
                 none ? "nothing of use" : strerror(number));
    return GW_EUNSUPPORTED;
}

static struct ibv_mr *take_dma_buf(const struct gw_rdma_library *lib,
                                   struct ibv_pd *pd,
                                   const struct gw_rdma_part *part)
{
    const uint8_t *first = part->of->base, *base = part->base;
    return lib->reg_dmabuf_mr(pd, (uint64_t)(base - first), part->bytes,
                              part->offset, part->of->fd, (int)part->access);
}

static const struct gw_rdma_registrar dma_buf = {
    .name = "dma-buf",
    .kinds = 1u << GW_MEMORY_CUDA,
    .needs_fd = 1,
    .probe = probe_dma_buf,
    .take = take_dma_buf,
};

/* ---- peermem ---- */

static enum gw_status probe_peermem(const struct gw_rdma_library *lib,
                                    struct ibv_context *verbs,
                                    struct ibv_pd *pd,
                                    char *why,
                                    size_t why_bytes)
{
    (void)lib, (void)verbs, (void)pd;
    if (access(PEERMEM_VERSION, F_OK) == 0)
        return GW_OK;
    snprintf(why, why_bytes,
             "the module nvidia_peermem is not loaded (modprobe "
             "nvidia_peermem)");
    return GW_EUNSUPPORTED;
}

static const struct gw_rdma_registrar peermem = {
    .name = "peermem",
    .kinds = 1u << GW_MEMORY_CUDA,
    .probe = probe_peermem,
    .take = take_mapped,
};

const struct gw_rdma_registrar
    *const gw_rdma_registrars[GW_RDMA_REGISTRARS + 1] = {
        &host,
        &dma_buf,
        &peermem,
        NULL,
};

/* ---- choosing ---- */

const struct gw_rdma_registrar *
gw_rdma_registrar(const struct gw_rdma_library *lib,
                  struct ibv_context *verbs,
                  struct ibv_pd *pd,
                  enum gw_memory_kind kind,
                  int has_fd,
                  char *why,
                  size_t why_bytes)
{
    struct gw_rdma_probed probed[GW_RDMA_REGISTRARS] = {{.status = GW_OK}};
    for (size_t i = 0; i < GW_RDMA_REGISTRARS; i++)
        if (gw_rdma_registrars[i]->kinds & 1u << kind)
            probed[i].status = gw_rdma_registrars[i]->probe(
                lib, verbs, pd, probed[i].why, sizeof probed[i].why);
    return gw_rdma_choose(gw_rdma_registrars, probed, kind, has_fd, why,
                          why_bytes);
}

struct ibv_mr *gw_rdma_register(const struct gw_rdma_library *lib,
                                struct ibv_context *verbs,
                                struct ibv_pd *pd,
                                const struct gw_rdma_part *part)
{
    char why[2 * GW_RDMA_PROBE_WHY_MAX];
    const struct gw_rdma_registrar *way = gw_rdma_registrar(
        lib, verbs, pd, part->of->kind, part->of->fd >= 0, why, sizeof why);
    if (way)
        return way->take(lib, pd, part);
    errno = EOPNOTSUPP;
    return NULL;
}

/* ---- asking ---- */

static enum gw_status ask(const struct gw_rdma_library *lib,
                          struct ibv_context *verbs,
                          int has_fd,
                          char *text,
                          size_t room)
{
    struct ibv_pd *pd = lib->alloc_pd(verbs);
    if (!pd) {
        snprintf(text, room, "no protection domain: %s", strerror(errno));
        return GW_EIO;
    }
    const struct gw_rdma_registrar *way =
        gw_rdma_registrar(lib, verbs, pd, GW_MEMORY_CUDA, has_fd, text, room);
    lib->dealloc_pd(pd);
    if (!way)
        return GW_EUNSUPPORTED;
    snprintf(text, room, "%s", way->name);
    return GW_OK;
}

static enum gw_status open_and_ask(const struct gw_rdma_library *lib,
                                   struct ibv_device *device,
                                   int has_fd,
                                   char *text,
                                   size_t room)
{
    struct ibv_context *verbs = lib->open_device(device);
    if (!verbs) {
        snprintf(text, room, "it cannot be opened: %s", strerror(errno));
        return GW_EIO;
    }
    enum gw_status status = ask(lib, verbs, has_fd, text, room);
    lib->close_device(verbs);
    return status;
}

enum gw_status gw_rdma_gpu_memory(const char *device,
                                  int has_dma_buf,
                                  char *text,
                                  size_t text_bytes)
{
    struct gw_rdma_library lib;
    int n = 0;
    enum gw_status status = GW_EIO;
    if (gw_rdma_library_load(&lib, text, text_bytes) != GW_OK)
        return GW_EIO;
    struct ibv_device **devices = lib.get_device_list(&n);
    snprintf(text, text_bytes, "libibverbs does not know the device");
    for (int i = 0; devices && i < n; i++)
        if (strcmp(devices[i]->name, device) == 0)
            status =
                open_and_ask(&lib, devices[i], has_dma_buf, text, text_bytes);
    if (devices)
        lib.free_device_list(devices);
    return status;
}
