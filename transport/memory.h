/*
 * Memory that others than this process's code may reach: a device that reads
 * and writes it by itself, another process of this host. What a transport can
 * do with memory depends on its kind, so whoever has it says so (lend, in
 * transport.h). It is the owner's all the time; only words about it are copied.
 */
#ifndef GW_TRANSPORT_MEMORY_H
#define GW_TRANSPORT_MEMORY_H

#include <stddef.h>

enum gw_memory_kind {
    GW_MEMORY_HOST,   /* of this process alone, as malloc and mmap give it */
    GW_MEMORY_SHARED, /* a mapping of `fd`, which another process may map too */
    GW_MEMORY_CUDA,   /* of a GPU; `fd`: its dma-buf, or -1 */
};

struct gw_memory {
    enum gw_memory_kind kind;
    void *base;
    size_t bytes;
    int fd; /* -1: none; base is its first byte */
};

static inline struct gw_memory gw_memory_host(void *base, size_t bytes)
{
    return (struct gw_memory){GW_MEMORY_HOST, base, bytes, -1};
}

#endif
