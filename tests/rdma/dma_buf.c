/*
 * Loaded before libibverbs (LD_PRELOAD): RDMA devices that take memory by its
 * dma-buf, as soft-RoCE does not. The emulated CUDA's are files, which are
 * mapped a second time and registered there; in the process itself the memory
 * stays out of reach. GW_FAKE_DMA_BUF=late: they say that they do, and then
 * they do not; short: they take it, and reading most of it fails.
 */
#include "config.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The mapping is left to the end of the process: what a device reads must not
   go before it. */
__attribute__((visibility("default"))) struct ibv_mr *
ibv_reg_dmabuf_mr(struct ibv_pd *pd,
                  uint64_t offset,
                  size_t length,
                  uint64_t iova,
                  int fd,
                  int access)
{
    const char *how = getenv("GW_FAKE_DMA_BUF");
    if (fd < 0) {
        errno = EBADF;
        return NULL;
    }
    if (how && strcmp(how, "late") == 0) {
        errno = ENOSPC;
        return NULL;
    }
    void *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     (off_t)offset);
    if (map == MAP_FAILED)
        return NULL;
    if (how && strcmp(how, "short") == 0)
        length = (size_t)sysconf(_SC_PAGESIZE);
    return ibv_reg_mr_iova2(pd, map, length, iova, (unsigned)access);
}
