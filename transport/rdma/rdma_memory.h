/*
 * Registering memory with an RDMA device: a table of ways, chosen by the
 * memory's kind and the device's abilities.
 *
 *   host      plain registration of memory that this process has mapped
 *   dma-buf   a GPU's memory, by the descriptor that its driver gives for it
 *   peermem   a GPU's memory, by its address; the module nvidia_peermem makes
 *             the kernel understand that
 *
 * If none of them works, the owner of the memory keeps a mirror of it in host
 * memory: see `takes` in transport.h.
 */
#ifndef GW_TRANSPORT_RDMA_MEMORY_H
#define GW_TRANSPORT_RDMA_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"
#include "transport/link/memory.h"

struct gw_rdma_library;
struct ibv_context;
struct ibv_mr;
struct ibv_pd;

/* A part of memory, all of it or a window of it. */
struct gw_rdma_part {
    const struct gw_memory *of;
    void *base;
    size_t bytes;
    uint64_t offset; /* offset of its first byte, as the device counts */
    unsigned access;
};

struct gw_rdma_registrar {
    const char *name;
    unsigned kinds; /* set of kinds that it takes, 1 << kind */
    int needs_fd;   /* takes memory with a descriptor only */
    /* GW_OK, or GW_EUNSUPPORTED with the reason in words. Asks the device and
       the kernel, and no GPU. */
    enum gw_status (*probe)(const struct gw_rdma_library *lib,
                            struct ibv_context *verbs,
                            struct ibv_pd *pd,
                            char *why,
                            size_t why_bytes);
    /* NULL, and errno. */
    struct ibv_mr *(*take)(const struct gw_rdma_library *lib,
                           struct ibv_pd *pd,
                           const struct gw_rdma_part *part);
};

/* The answer of a probe. */
#define GW_RDMA_PROBE_WHY_MAX 160
struct gw_rdma_probed {
    enum gw_status status;
    char why[GW_RDMA_PROBE_WHY_MAX];
};

/* In order of preference, ended by NULL. */
#define GW_RDMA_REGISTRARS 3
extern const struct gw_rdma_registrar
    *const gw_rdma_registrars[GW_RDMA_REGISTRARS + 1];

/*
 * Chooses the first way of a table for memory of that kind, with a descriptor
 * or without, whose probe has not refused; `probed` is in the table's order.
 * NULL: none, and *why has the reason for each. Pure; any thread.
 */
const struct gw_rdma_registrar *
gw_rdma_choose(const struct gw_rdma_registrar *const *table,
               const struct gw_rdma_probed *probed,
               enum gw_memory_kind kind,
               int has_fd,
               char *why,
               size_t why_bytes);

/*
 * The same of this build's table, for a device: probes it. Thread: any.
 */
const struct gw_rdma_registrar *
gw_rdma_registrar(const struct gw_rdma_library *lib,
                  struct ibv_context *verbs,
                  struct ibv_pd *pd,
                  enum gw_memory_kind kind,
                  int has_fd,
                  char *why,
                  size_t why_bytes);

/* Registers a part in the way that is chosen for its kind. NULL, and errno:
   EOPNOTSUPP if there is none here. Thread: any. */
struct ibv_mr *gw_rdma_register(const struct gw_rdma_library *lib,
                                struct ibv_context *verbs,
                                struct ibv_pd *pd,
                                const struct gw_rdma_part *part);

#endif
