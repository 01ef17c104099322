/*
 * How memory is made known to an RDMA device: a table of ways, of which the
 * memory's kind and what the device can do choose one.
 *
 *   host      plain registration, of memory that this process has mapped
 *   dma-buf   a GPU's memory, by the descriptor that its driver gives for it
 *   peermem   a GPU's memory, by its address; the module nvidia_peermem makes
 *             the kernel understand that
 *
 * Where none of them does, whoever owns the memory keeps a mirror of it in host
 * memory: see `takes` in transport.h.
 */
#ifndef GW_TRANSPORT_RDMA_MEMORY_H
#define GW_TRANSPORT_RDMA_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"
#include "transport/link/memory.h"

struct ibv_context;
struct ibv_mr;
struct ibv_pd;

/* A part of memory, all of it or a window of it. */
struct gw_rdma_part {
    const struct gw_memory *of;
    void *base;
    size_t bytes;
    uint64_t offset; /* of its first byte, for the device */
    unsigned access;
};

struct gw_rdma_registrar {
    const char *name;
    unsigned kinds; /* a bit for each that it is for, 1 << kind */
    int needs_fd;   /* registers what has a descriptor, and nothing else */
    /* GW_OK, or GW_EUNSUPPORTED with the reason in words. Asks the device and
       the kernel, and no GPU. */
    enum gw_status (*probe)(struct ibv_context *verbs,
                            struct ibv_pd *pd,
                            char *why,
                            size_t why_bytes);
    /* NULL, and errno. */
    struct ibv_mr *(*take)(struct ibv_pd *pd, const struct gw_rdma_part *part);
};

/* What a probe has said. */
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
 * The first of a table's ways for memory of that kind, with a descriptor or
 * without, that its probe has not refused; `probed` is in the table's order.
 * NULL: none, and *why says of each why not. Pure; any thread.
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
const struct gw_rdma_registrar *gw_rdma_registrar(struct ibv_context *verbs,
                                                  struct ibv_pd *pd,
                                                  enum gw_memory_kind kind,
                                                  int has_fd,
                                                  char *why,
                                                  size_t why_bytes);

/* Registers a part in the way that its memory's kind asks for. NULL, and errno:
   EOPNOTSUPP where there is no such way here. Thread: any. */
struct ibv_mr *gw_rdma_register(struct ibv_context *verbs,
                                struct ibv_pd *pd,
                                const struct gw_rdma_part *part);

#endif
