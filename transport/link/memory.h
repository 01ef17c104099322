/*
 * Memory that devices or other processes of this host may access directly. The
 * kind decides about the use that a transport can make of memory, so the owner
 * tells it (register_memory, in transport.h). The memory stays the owner's;
 * only its description is copied.
 */
#ifndef GW_TRANSPORT_MEMORY_H
#define GW_TRANSPORT_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

/* Size of a huge page. Touching one byte allocates all of it. */
#define GW_MEMORY_HUGE_BYTES ((size_t)2 << 20)

enum gw_memory_kind {
    GW_MEMORY_HOST,   /* private to this process, from malloc or mmap */
    GW_MEMORY_SHARED, /* a mapping of `fd`, which another process may map too */
    GW_MEMORY_CUDA,   /* on a GPU; `fd`: its dma-buf, or -1 */
};

struct gw_memory {
    enum gw_memory_kind kind;
    void *base;
    size_t bytes;
    int fd; /* -1: none; base is its first byte */
};

/* Non-zero if this process's code can read and write the memory. */
static inline int gw_memory_is_host_accessible(enum gw_memory_kind kind)
{
    return kind == GW_MEMORY_HOST || kind == GW_MEMORY_SHARED;
}

/* Non-zero if the range [base, base + bytes) contains [at, at + n). */
static inline int
gw_memory_contains(const void *base, size_t bytes, const void *at, size_t n)
{
    uintptr_t begin = (uintptr_t)base, from = (uintptr_t)at;
    return from >= begin && n <= bytes && from - begin <= bytes - n;
}

static inline struct gw_memory gw_memory_host(void *base, size_t bytes)
{
    return (struct gw_memory){GW_MEMORY_HOST, base, bytes, -1};
}

/*
 * Allocates whole pages of zeroed memory: GW_MEMORY_SHARED if that is asked for
 * and the system provides it, else GW_MEMORY_HOST. No name and no file is left
 * when the last process that maps it is gone. Pages are allocated when they are
 * touched, or by gw_memory_prefault. GW_ENOMEM.
 */
enum gw_status gw_memory_open(enum gw_memory_kind kind,
                              size_t bytes,
                              struct gw_memory *memory_p);

/* Frees memory of gw_memory_open; mappings of other processes stay. Also with
   base NULL. */
void gw_memory_close(struct gw_memory *memory);

/*
 * A descriptor of so many zero bytes, sealed against resizing: a mapping of it
 * is safe, however another process uses it. -1 with errno.
 */
int gw_memory_file(const char *name, size_t bytes);

/* Maps all of such a descriptor, with huge pages where possible; munmap ends
   it. NULL with errno. */
void *gw_memory_map(int fd, size_t bytes);

/* Allocates the pages of shared memory, near the caller: huge pages, because
   with small ones a sum over many arrays takes twice as long. To be called by
   the owner before the first use. 0: some of it has no huge pages, which stops
   nothing, or it is not shared. A gigabyte takes a second or several; a process
   that must send heartbeats meanwhile uses prefault.h. */
int gw_memory_prefault(const struct gw_memory *memory);

/* The same for `most` bytes, or one huge page, from *at on, at first 0; memory
   private to this process gets whole pages of any size. *at becomes the begin
   of the next part, or `bytes` after the last one. */
int gw_memory_prefault_part(const struct gw_memory *memory,
                            size_t *at,
                            size_t most);

/* Non-zero if a descriptor from another process is sealed like that, of at
   least `bytes` bytes, and of ordinary pages. Holes punched by its owner read
   as zeros, of new pages: it can use up this host's memory, as any process can
   that may write to it. */
int gw_memory_is_safe(int fd, size_t bytes);

/* For transports: the memory registered with one (register_memory, in
   transport.h), in a list of its own; NULL: none. */
struct gw_registered {
    struct gw_memory memory;
    struct gw_registered *next;
};

/* 0: no memory. */
int gw_registered_add(struct gw_registered **list,
                      const struct gw_memory *memory);
/* Takes the entry that begins at `base` out of the list. 0: there is none. */
int gw_registered_take(struct gw_registered **list,
                       const void *base,
                       struct gw_memory *memory_p);
/* The entry that contains all of these bytes, or NULL; owned by the list. */
const struct gw_memory *
gw_registered_at(const struct gw_registered *list, const void *bytes, size_t n);
void gw_registered_free(struct gw_registered **list);

#endif
