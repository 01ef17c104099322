#include "config.h"

#include "transport/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Newer than some C libraries: no descriptor of ours is a program. */
#define NO_PROGRAM 0x0008U

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int gw_memory_file(const char *name, size_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | NO_PROGRAM);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0)
        return fd;
    int number = errno;
    close(fd);
    errno = number;
    return -1;
}

int gw_memory_is_safe(int fd, size_t bytes)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &file) == 0 &&
           file.st_size > 0 && (uint64_t)file.st_size >= bytes;
}

static enum gw_status open_shared(size_t bytes, struct gw_memory *memory)
{
    int fd = gw_memory_file("gradweir", bytes);
    if (fd < 0)
        return GW_EIO;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        close(fd);
        return GW_EIO;
    }
    *memory = (struct gw_memory){GW_MEMORY_SHARED, base, bytes, fd};
    return GW_OK;
}

enum gw_status gw_memory_open(enum gw_memory_kind kind,
                              size_t bytes,
                              struct gw_memory *memory_p)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX / 2)
        return GW_ENOMEM;
    bytes = bytes ? (bytes + page - 1) / page * page : page;
    if (kind != GW_MEMORY_SHARED || open_shared(bytes, memory_p) != GW_OK) {
        void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED)
            return GW_ENOMEM;
        *memory_p = gw_memory_host(base, bytes);
    }
    /* only advice: spares misses, and not every kernel has them for both */
    madvise(memory_p->base, bytes, MADV_HUGEPAGE);
    return GW_OK;
}

void gw_memory_close(struct gw_memory *memory)
{
    if (memory->base)
        munmap(memory->base, memory->bytes);
    if (memory->base && memory->fd >= 0)
        close(memory->fd);
    *memory = gw_memory_host(NULL, 0);
}

int gw_lent_add(struct gw_lent **list, const struct gw_memory *memory)
{
    struct gw_lent *lent = malloc(sizeof *lent);
    if (!lent)
        return 0;
    *lent = (struct gw_lent){.memory = *memory, .next = *list};
    *list = lent;
    return 1;
}

static void take_out(struct gw_lent **at)
{
    struct gw_lent *lent = *at;
    *at = lent->next;
    free(lent);
}

int gw_lent_take(struct gw_lent **list,
                 const void *base,
                 struct gw_memory *memory_p)
{
    struct gw_lent **at = list;
    while (*at && (*at)->memory.base != base)
        at = &(*at)->next;
    if (!*at)
        return 0;
    *memory_p = (*at)->memory;
    take_out(at);
    return 1;
}

const struct gw_memory *
gw_lent_at(const struct gw_lent *list, const void *bytes, size_t n)
{
    for (const struct gw_lent *one = list; one; one = one->next)
        if (gw_memory_holds(one->memory.base, one->memory.bytes, bytes, n))
            return &one->memory;
    return NULL;
}

void gw_lent_free(struct gw_lent **list)
{
    while (*list)
        take_out(list);
}
