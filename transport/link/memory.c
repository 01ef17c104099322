#include "config.h"

#include "transport/link/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Missing in some C libraries: none of our descriptors is a program. */
#define NO_PROGRAM 0x0008U
/* Missing, too: allocate pages, with an error if there are none; and make huge
   pages now. */
#define POPULATE_WRITE 23
#define COLLAPSE       25

#define HUGE_PAGE GW_MEMORY_HUGE_BYTES

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

/* Reserved huge pages (MFD_HUGETLB) are not kept by a seal: their owner may
   give them back, and a read then kills the reading process. */
int gw_memory_is_safe(int fd, size_t bytes)
{
    struct stat file;
    struct statfs where;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &file) == 0 &&
           file.st_size > 0 && (uint64_t)file.st_size >= bytes &&
           fstatfs(fd, &where) == 0 && where.f_type == TMPFS_MAGIC;
}

/* A huge page of the file is mapped as one only at an aligned address. */
void *gw_memory_map(int fd, size_t bytes)
{
    const int both = PROT_READ | PROT_WRITE;
    if (bytes < HUGE_PAGE || bytes > SIZE_MAX - HUGE_PAGE) {
        void *base = mmap(NULL, bytes, both, MAP_SHARED, fd, 0);
        return base == MAP_FAILED ? NULL : base;
    }
    char *room = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = -(uintptr_t)room % HUGE_PAGE;
    size_t whole = (bytes + page - 1) / page * page;
    char *base = room + before, *end = base + whole;
    if (mmap(base, bytes, both, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int number = errno;
        munmap(room, bytes + HUGE_PAGE);
        errno = number;
        return NULL;
    }
    if (before > 0)
        munmap(room, before);
    if (before + whole < bytes + HUGE_PAGE)
        munmap(end, bytes + HUGE_PAGE - before - whole);
    return base;
}

/*
 * A kernel that gives shared memory no huge pages by itself collapses small
 * pages into huge ones on request; one small page of each must be there first.
 * 0: some pages could not be collapsed because they were held; -1: there are no
 * huge pages, or no more.
 */
static int settle_pages(char *first, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += HUGE_PAGE)
        if (madvise(first + at, page, POPULATE_WRITE) != 0)
            return -1;
    if (madvise(first, bytes, COLLAPSE) == 0)
        return 1;
    return errno == EAGAIN || errno == EBUSY ? 0 : -1;
}

/* Kernels that cannot be asked for pages allocate them at the first write. */
static void touch_pages(char *first, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (madvise(first, bytes, POPULATE_WRITE) == 0)
        return;
    for (size_t at = 0; at < bytes; at += page) {
        volatile char *byte = first + at;
        *byte = *byte;
    }
}

/* Memory private to this process: huge pages come by themselves, if there are
   any. */
static int touch_part(const struct gw_memory *memory, size_t *at, size_t most)
{
    size_t left = memory->bytes - *at;
    size_t n = most < HUGE_PAGE ? HUGE_PAGE : most;
    if (n > left)
        n = left;
    touch_pages((char *)memory->base + *at, n);
    *at += n;
    return 0;
}

int gw_memory_prefault_part(const struct gw_memory *memory,
                            size_t *at,
                            size_t most)
{
    if (memory->kind == GW_MEMORY_HOST)
        return touch_part(memory, at, most);
    size_t before = -(uintptr_t)memory->base % HUGE_PAGE;
    size_t room = memory->bytes > before ? memory->bytes - before : 0;
    size_t end = before + room / HUGE_PAGE * HUGE_PAGE;
    size_t from = *at > before ? *at : before;
    size_t n = most < HUGE_PAGE ? HUGE_PAGE : most / HUGE_PAGE * HUGE_PAGE;
    int settled = -1;
    if (from < end && n > end - from)
        n = end - from;
    if (from < end && memory->kind == GW_MEMORY_SHARED)
        settled = settle_pages((char *)memory->base + from, n);
    *at = settled >= 0 && n < end - from ? from + n : memory->bytes;
    return settled > 0;
}

int gw_memory_prefault(const struct gw_memory *memory)
{
    size_t at = 0;
    if (memory->kind != GW_MEMORY_SHARED)
        return 0;
    return gw_memory_prefault_part(memory, &at, SIZE_MAX);
}

static enum gw_status open_shared(size_t bytes, struct gw_memory *memory)
{
    int fd = gw_memory_file("gradweir", bytes);
    if (fd < 0)
        return GW_EIO;
    void *base = gw_memory_map(fd, bytes);
    if (!base) {
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
    /* only advice: saves cache misses, and not every kernel has it for both */
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

int gw_registered_add(struct gw_registered **list,
                      const struct gw_memory *memory)
{
    struct gw_registered *lent = malloc(sizeof *lent);
    if (!lent)
        return 0;
    *lent = (struct gw_registered){.memory = *memory, .next = *list};
    *list = lent;
    return 1;
}

static void take_out(struct gw_registered **at)
{
    struct gw_registered *lent = *at;
    *at = lent->next;
    free(lent);
}

int gw_registered_take(struct gw_registered **list,
                       const void *base,
                       struct gw_memory *memory_p)
{
    struct gw_registered **at = list;
    while (*at && (*at)->memory.base != base)
        at = &(*at)->next;
    if (!*at)
        return 0;
    *memory_p = (*at)->memory;
    take_out(at);
    return 1;
}

const struct gw_memory *
gw_registered_at(const struct gw_registered *list, const void *bytes, size_t n)
{
    for (const struct gw_registered *one = list; one; one = one->next)
        if (gw_memory_contains(one->memory.base, one->memory.bytes, bytes, n))
            return &one->memory;
    return NULL;
}

void gw_registered_free(struct gw_registered **list)
{
    while (*list)
        take_out(list);
}
