/*
 * Memory that others than this process's code may reach: a device that reads
 * and writes it by itself, another process of this host. What a transport can
 * do with memory depends on its kind, so whoever has it says so (lend, in
 * transport.h). It is the owner's all the time; only words about it are copied.
 */
#ifndef GW_TRANSPORT_MEMORY_H
#define GW_TRANSPORT_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

/* Of a huge page. Whoever touches a byte of one has all of it. */
#define GW_MEMORY_HUGE_BYTES ((size_t)2 << 20)

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

/* Whether this process's code reads and writes it. */
static inline int gw_memory_is_host_accessible(enum gw_memory_kind kind)
{
    return kind == GW_MEMORY_HOST || kind == GW_MEMORY_SHARED;
}

/* Whether a range of memory has all of another one. */
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
 * Takes memory, zeros, whole pages of it. Of GW_MEMORY_SHARED where it is asked
 * for and the system gives it, else of GW_MEMORY_HOST. No name and no file is
 * left of it when the last process that has it is gone. Its pages are there
 * when they are touched, or settled. GW_ENOMEM.
 */
enum gw_status gw_memory_open(enum gw_memory_kind kind,
                              size_t bytes,
                              struct gw_memory *memory_p);

/* Of gw_memory_open; who else has mapped it keeps it. Also where base is NULL.
 */
void gw_memory_close(struct gw_memory *memory);

/*
 * A descriptor of so many bytes, zeros, that nobody can make smaller or larger:
 * who maps it is safe whatever another process does to it. -1 with errno.
 */
int gw_memory_file(const char *name, size_t bytes);

/* All of such a descriptor, where huge pages of it are mapped as such; munmap
   ends it. NULL with errno. */
void *gw_memory_map(int fd, size_t bytes);

/* Gives shared memory its pages, by its owner and before it is used, near the
   caller: huge ones, without which a sum over many arrays takes twice as long.
   0: not all of it has such, which stops nothing, or it is not shared. A
   gigabyte takes a second or several; who must be heard meanwhile takes
   settle.h. */
int gw_memory_settle(const struct gw_memory *memory);

/* The same for `most` bytes, or a huge page, from *at on, at first 0; memory of
   this process alone, whole pages, gets such as there are. *at becomes where
   the next part begins; `bytes` where none does. */
int gw_memory_settle_part(const struct gw_memory *memory,
                          size_t *at,
                          size_t most);

/* Whether a descriptor that another process has sent is such a one, of `bytes`
   at least, and of ordinary pages. What its owner punches holes into reads as
   zeros, of new pages: it can take this host's memory, as who may write to it
   can in any case. */
int gw_memory_is_safe(int fd, size_t bytes);

/* For transports: what was lent to one (lend, in transport.h), in a list that
   is its own; NULL: nothing. */
struct gw_lent {
    struct gw_memory memory;
    struct gw_lent *next;
};

/* 0: no memory. */
int gw_lent_add(struct gw_lent **list, const struct gw_memory *memory);
/* What begins at `base`, out of the list. 0: nothing does. */
int gw_lent_take(struct gw_lent **list,
                 const void *base,
                 struct gw_memory *memory_p);
/* What has all of these bytes, or NULL; the list's. */
const struct gw_memory *
gw_lent_at(const struct gw_lent *list, const void *bytes, size_t n);
void gw_lent_free(struct gw_lent **list);

#endif
