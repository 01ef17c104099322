/*
 * Emulated memory of device and host. An allocation lies between guard pages
 * and is filled with garbage; the rest of its last page is a fence, which is
 * checked. Device memory is accessible only while an operation runs.
 */
#include "config.h"

#include "tests/cuda/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/answers.h"

#define PAGE_BYTES  ((size_t)4096)
#define GUARD_BYTES ((size_t)1 << 20) /* address space before and behind */
#define ALIGN_BYTES ((size_t)256)     /* CUDA's guarantee */
/* Initial content of device memory: NaN, -1, 255. */
#define GARBAGE 0xff
/* A large allocation is filled at its two ends only: untouched pages cost
   nothing. */
#define GARBAGE_BYTES ((size_t)1 << 20)
/* Content before and behind an allocation. */
#define FENCE 0xa5

static struct emulated_allocation *allocations;

static int is_open = 1;

/* ---- places ---- */

static int
touches(const struct emulated_allocation *a, const char *memory, size_t bytes)
{
    return memory < a->memory + a->bytes && memory + bytes > a->memory;
}

static int
holds(const struct emulated_allocation *a, const char *memory, size_t bytes)
{
    return memory >= a->memory && memory + bytes <= a->memory + a->bytes;
}

enum emulated_kind
emulated_find(const char *who, const void *memory, size_t bytes)
{
    const char *at = memory;
    for (struct emulated_allocation *a = allocations; a; a = a->next) {
        if (holds(a, at, bytes))
            return a->kind;
        if (touches(a, at, bytes))
            emulated_wrong("%s at %p of %zu bytes is only in part in %p of "
                           "%zu bytes",
                           who, memory, bytes, (void *)a->memory, a->bytes);
    }
    return EMULATED_PAGEABLE;
}

static int is_of_device(enum emulated_kind kind)
{
    return kind == EMULATED_DEVICE || kind == EMULATED_SEEN;
}

static int most_of(enum emulated_kind kind)
{
    return kind == EMULATED_SEEN ? PROT_READ : PROT_READ | PROT_WRITE;
}

static void protect_all(int rights)
{
    for (struct emulated_allocation *a = allocations; a; a = a->next)
        if (is_of_device(a->kind))
            mprotect(a->pages, a->page_bytes, rights & most_of(a->kind));
}

void emulated_open_memory(void)
{
    if (!is_open)
        protect_all(PROT_READ | PROT_WRITE);
    is_open = 1;
}

/* Only with late operations: opening and closing for each early one takes long,
   so then memory stays open. */
void emulated_close_memory(void)
{
    if (is_open && emulated_now.pace == EMULATED_LATE) {
        protect_all(PROT_NONE);
        is_open = 0;
    }
}

static void check_fence(const struct emulated_allocation *a,
                        const char *from,
                        const char *to,
                        const char *who)
{
    int changed = 0;
    for (const char *p = from; p < to; p++)
        changed |= *p ^ (char)FENCE;
    if (changed)
        emulated_wrong("%s: something was written right %s the %zu bytes at %p",
                       who, from < a->memory ? "before" : "behind", a->bytes,
                       (void *)a->memory);
}

static void check_fences(const struct emulated_allocation *a, const char *who)
{
    check_fence(a, a->pages, a->memory, who);
    check_fence(a, a->memory + a->bytes, a->pages + a->page_bytes, who);
}

void emulated_check_memory(const char *who)
{
    for (struct emulated_allocation *a = allocations; a; a = a->next)
        if (a->pages)
            check_fences(a, who);
}

/* ---- allocations ---- */

static size_t used_by(size_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* Reserves addresses only. */
static struct emulated_allocation *reserve(enum emulated_kind kind,
                                           size_t bytes)
{
    struct emulated_allocation *a = calloc(1, sizeof *a);
    size_t used = used_by(bytes);
    size_t pages = (used + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    char *map = mmap(NULL, pages + 2 * GUARD_BYTES, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!a || map == MAP_FAILED)
        emulated_wrong("the host has no memory for %zu bytes", bytes);
    *a = (struct emulated_allocation){
        .next = allocations,
        .kind = kind,
        .device = emulated_device(),
        .bytes = bytes,
        .pages = map + GUARD_BYTES,
        .page_bytes = pages,
        .memory = map + GUARD_BYTES + pages - used,
        .file = -1,
    };
    allocations = a;
    return a;
}

static void *allocate(enum emulated_kind kind, size_t bytes)
{
    struct emulated_allocation *a = reserve(kind, bytes);
    mprotect(a->pages, a->page_bytes, PROT_READ | PROT_WRITE);
    memset(a->pages, FENCE, (size_t)(a->memory - a->pages));
    memset(a->memory + bytes, FENCE, used_by(bytes) - bytes);
    if (bytes > 2 * GARBAGE_BYTES) {
        memset(a->memory, GARBAGE, GARBAGE_BYTES);
        memset(a->memory + bytes - GARBAGE_BYTES, GARBAGE, GARBAGE_BYTES);
    } else {
        memset(a->memory, GARBAGE, bytes);
    }
    if (kind == EMULATED_DEVICE && !is_open)
        mprotect(a->pages, a->page_bytes, PROT_NONE);
    return a->memory;
}

struct emulated_allocation *emulated_allocation_at(enum emulated_kind kind,
                                                   const char *memory)
{
    struct emulated_allocation *a = allocations;
    while (a && (a->kind != kind || a->memory != memory))
        a = a->next;
    return a;
}

struct emulated_allocation *emulated_allocation_with(uintptr_t at, size_t bytes)
{
    struct emulated_allocation *a = allocations;
    while (a && (a->kind != EMULATED_DEVICE || at < (uintptr_t)a->pages ||
                 at + bytes > (uintptr_t)a->pages + a->page_bytes))
        a = a->next;
    return a;
}

struct emulated_allocation *
emulated_allocation_of(const cudaIpcMemHandle_t *handle)
{
    struct emulated_allocation *a = allocations;
    while (a && (a->kind != EMULATED_SEEN ||
                 memcmp(&a->handle, handle, sizeof *handle) != 0))
        a = a->next;
    return a;
}

/* Others may still have imported it, which CUDA leaves undefined. It is an
   error only in an orderly run: a job that fails cannot prevent it. */
static void end_sight(const struct emulated_allocation *a)
{
    if (emulated_now.orderly && flock(a->file, LOCK_EX | LOCK_NB) != 0)
        emulated_wrong("%p is freed while another process has it open",
                       (void *)a->memory);
    memset(a->memory, GARBAGE, a->bytes);
}

void emulated_release(struct emulated_allocation *a)
{
    struct emulated_allocation **at = &allocations;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    if (a->pages) {
        mprotect(a->pages, a->page_bytes, most_of(a->kind));
        check_fences(a, "when it was freed");
        if (a->file >= 0 && a->kind == EMULATED_DEVICE)
            end_sight(a);
        munmap(a->pages - GUARD_BYTES, a->page_bytes + 2 * GUARD_BYTES);
    }
    if (a->file >= 0)
        close(a->file);
    free(a);
}

/* ---- files ---- */

/* Zeros stay holes in the file. */
static void copy_pages(char *to, const char *from, size_t bytes)
{
    static const char zeros[PAGE_BYTES];
    for (size_t at = 0; at < bytes; at += PAGE_BYTES)
        if (memcmp(from + at, zeros, PAGE_BYTES) != 0)
            memcpy(to + at, from + at, PAGE_BYTES);
}

void emulated_move_to_file(struct emulated_allocation *a, int file)
{
    int was_open = is_open;
    char *to =
        mmap(NULL, a->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (to == MAP_FAILED)
        emulated_wrong("%zu bytes cannot be mapped", a->page_bytes);
    emulated_open_memory();
    copy_pages(to, a->pages, a->page_bytes);
    munmap(to, a->page_bytes);
    if (mmap(a->pages, a->page_bytes, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        emulated_wrong("%zu bytes cannot be mapped", a->page_bytes);
    a->file = file;
    if (!was_open)
        emulated_close_memory();
}

struct emulated_allocation *emulated_map_file(const cudaIpcMemHandle_t *handle,
                                              size_t bytes,
                                              int file,
                                              int device)
{
    struct emulated_allocation *a = reserve(EMULATED_SEEN, bytes);
    if (mmap(a->pages, a->page_bytes, is_open ? PROT_READ : PROT_NONE,
             MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        emulated_wrong("%zu bytes cannot be mapped", a->page_bytes);
    a->handle = *handle;
    a->file = file;
    a->device = device;
    return a;
}

/* Free bytes. The other processes' count only after the first allocation, the
   workspace. */
static size_t free_bytes(void)
{
    size_t others =
        emulated_count.allocations > 1 ? emulated_now.others_bytes : 0;
    size_t used = emulated_count.live_bytes + others;
    return used < emulated_now.memory_bytes ? emulated_now.memory_bytes - used
                                            : 0;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    cudaError_t error = emulated_enter_device();
    if (error != cudaSuccess)
        return emulated_leave(error);
    *total = emulated_now.memory_bytes;
    *available = free_bytes();
    return emulated_leave(cudaSuccess);
}

/* Writes the peak to the file of "most=", for the parent process. */
static void note_most(void)
{
    char path[64];
    FILE *file = NULL;
    if (emulated_count.live_bytes <= emulated_count.most_bytes)
        return;
    emulated_count.most_bytes = emulated_count.live_bytes;
    if (fake_word("most", path))
        file = fopen(path, "we");
    if (file) {
        fprintf(file, "%zu\n", emulated_count.most_bytes);
        fclose(file);
    }
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    cudaError_t error = emulated_enter_device();
    emulated_must_not_record("cudaMalloc");
    if (error != cudaSuccess)
        return emulated_leave(error);
    if (bytes == 0) {
        *memory = NULL;
        return emulated_leave(cudaSuccess);
    }
    emulated_count.allocations++;
    if (bytes > free_bytes())
        return emulated_leave(cudaErrorMemoryAllocation);
    *memory = allocate(EMULATED_DEVICE, bytes);
    emulated_close_memory();
    emulated_count.live_allocations++;
    emulated_count.live_bytes += bytes;
    note_most();
    return emulated_leave(cudaSuccess);
}

/* Waits for queued operations, as CUDA does, so that none finds it freed. */
cudaError_t cudaFree(void *memory)
{
    cudaError_t error = emulated_enter_device();
    emulated_must_not_record("cudaFree");
    if (!memory)
        return emulated_leave(error);
    emulated_drain_all();
    struct emulated_allocation *a =
        emulated_allocation_at(EMULATED_DEVICE, memory);
    if (!a)
        emulated_wrong("cudaFree of %p, which is not there", memory);
    emulated_count.live_allocations--;
    emulated_count.live_bytes -= a->bytes;
    emulated_release(a);
    return emulated_leave(emulated_failure);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    cudaError_t error = emulated_enter_device();
    emulated_must_not_record("cudaHostAlloc");
    if (error != cudaSuccess || flags > cudaHostAllocPortable)
        return emulated_leave(error ? error : cudaErrorInvalidValue);
    emulated_count.host_allocations++;
    emulated_count.live_host_allocations++;
    *memory = allocate(EMULATED_PINNED, bytes);
    return emulated_leave(cudaSuccess);
}

/* Does not wait: a copy that is still queued will not find it, and abort. */
cudaError_t cudaFreeHost(void *memory)
{
    cudaError_t error = emulated_enter_device();
    emulated_must_not_record("cudaFreeHost");
    if (!memory)
        return emulated_leave(error);
    struct emulated_allocation *a =
        emulated_allocation_at(EMULATED_PINNED, memory);
    if (!a)
        emulated_wrong("cudaFreeHost of %p, which is not there", memory);
    emulated_count.live_host_allocations--;
    emulated_release(a);
    return emulated_leave(error);
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    cudaError_t error = emulated_enter_device();
    emulated_must_not_record("cudaHostRegister");
    if (error != cudaSuccess)
        return emulated_leave(error);
    if (!memory || bytes == 0 || flags > cudaHostRegisterPortable)
        return emulated_leave(cudaErrorInvalidValue);
    if (emulated_now.no_pinning)
        return emulated_leave(cudaErrorNotSupported);
    for (struct emulated_allocation *a = allocations; a; a = a->next)
        if (touches(a, memory, bytes))
            return emulated_leave(cudaErrorHostMemoryAlreadyRegistered);
    struct emulated_allocation *a = calloc(1, sizeof *a);
    if (!a)
        emulated_wrong("no memory");
    *a = (struct emulated_allocation){.next = allocations,
                                      .kind = EMULATED_REGISTERED,
                                      .memory = memory,
                                      .bytes = bytes,
                                      .file = -1};
    allocations = a;
    emulated_count.live_pinned++;
    return emulated_leave(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *memory)
{
    cudaError_t error = emulated_enter_device();
    struct emulated_allocation *a =
        emulated_allocation_at(EMULATED_REGISTERED, memory);
    if (!a)
        return emulated_leave(cudaErrorHostMemoryNotRegistered);
    emulated_count.live_pinned--;
    emulated_release(a);
    return emulated_leave(error);
}

/* For imported memory, the device is its owner's. */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *memory)
{
    static const enum cudaMemoryType types[] = {
        [EMULATED_PAGEABLE] = cudaMemoryTypeUnregistered,
        [EMULATED_DEVICE] = cudaMemoryTypeDevice,
        [EMULATED_SEEN] = cudaMemoryTypeDevice,
        [EMULATED_PINNED] = cudaMemoryTypeHost,
        [EMULATED_REGISTERED] = cudaMemoryTypeHost,
    };
    const struct emulated_allocation *a;
    cudaError_t error = emulated_enter_device();
    emulated_count.questions++;
    if (error != cudaSuccess)
        return emulated_leave(error);
    for (a = allocations; a && !holds(a, memory, 1);)
        a = a->next;
    *attributes = (struct cudaPointerAttributes){
        .type = types[a ? a->kind : EMULATED_PAGEABLE],
        .device = a ? a->device : -1};
    return emulated_leave(cudaSuccess);
}

/* ---- copies ---- */

struct fill {
    char *to;
    int value;
    size_t bytes;
};

static void run_fill(const void *argument)
{
    const struct fill *f = argument;
    if (emulated_find("cudaMemsetAsync", f->to, f->bytes) != EMULATED_DEVICE)
        emulated_wrong("cudaMemsetAsync of %p, which is not on the device",
                       (void *)f->to);
    memset(f->to, f->value, f->bytes);
}

cudaError_t
cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    cudaError_t error = emulated_enter_device();
    struct fill fill = {memory, value, bytes};
    if (error == cudaSuccess && bytes > 0)
        error = emulated_queue(stream, "cudaMemsetAsync", run_fill, &fill,
                               sizeof fill);
    return emulated_leave(error);
}

struct copy {
    char *to;
    const char *from; /* NULL: the staged bytes */
    size_t bytes;
    enum emulated_kind to_kind, from_kind;
    char staged[];
};

static void run_copy(const void *argument)
{
    const struct copy *c = argument;
    const char *from = c->from ? c->from : c->staged;
    if (emulated_find("where a copy goes", c->to, c->bytes) != c->to_kind)
        emulated_wrong("a copy to %p, which has been freed or unpinned since",
                       (void *)c->to);
    if (c->from &&
        emulated_find("what is copied", from, c->bytes) != c->from_kind)
        emulated_wrong("a copy from %p, which has been freed or unpinned since",
                       (const void *)from);
    if (from < c->to + c->bytes && c->to < from + c->bytes)
        emulated_wrong("a copy onto itself");
    if (c->from && c->from_kind == EMULATED_SEEN && emulated_now.peer_us)
        usleep(emulated_now.peer_us);
    memcpy(c->to, from, c->bytes);
}

static cudaError_t
queue_copy(const struct copy *plan, int staged, cudaStream_t stream)
{
    size_t bytes = sizeof *plan + (staged ? plan->bytes : 0);
    struct copy *copy = malloc(bytes);
    if (!copy)
        emulated_wrong("no memory for a copy");
    *copy = *plan;
    if (staged) {
        memcpy(copy->staged, plan->from, plan->bytes);
        copy->from = NULL;
    }
    cudaError_t error =
        emulated_queue(stream, "cudaMemcpyAsync", run_copy, copy, bytes);
    free(copy);
    return error;
}

static int agrees(enum cudaMemcpyKind kind, int to_device, int from_device)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
        return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
        return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
        return to_device && from_device;
    case cudaMemcpyDefault:
        return 1;
    }
    return 0;
}

/*
 * A copy from pageable memory either is staged, before or after earlier
 * operations of the stream, or reads the memory when it runs: CUDA promises
 * neither. A copy to pageable memory blocks the host until it is done.
 */
cudaError_t cudaMemcpyAsync(void *to,
                            const void *from,
                            size_t bytes,
                            enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    cudaError_t error = emulated_enter_device();
    if (error != cudaSuccess || bytes == 0)
        return emulated_leave(error);
    struct copy plan = {
        .to = to,
        .from = from,
        .bytes = bytes,
        .to_kind = emulated_find("where a copy goes", to, bytes),
        .from_kind = emulated_find("what is copied", from, bytes),
    };
    if (!agrees(kind, is_of_device(plan.to_kind), is_of_device(plan.from_kind)))
        emulated_wrong("cudaMemcpyAsync of kind %d from %p to %p, which are "
                       "not what it says",
                       (int)kind, from, to);
    int waits = plan.to_kind == EMULATED_PAGEABLE;
    int staged = plan.from_kind == EMULATED_PAGEABLE && !waits &&
                 !emulated_now.no_staging;
    if (staged && emulated_draw(2))
        emulated_drain(stream);
    error = queue_copy(&plan, staged, stream);
    if (error == cudaSuccess && waits) {
        emulated_drain(stream);
        error = emulated_failure;
    }
    return emulated_leave(error);
}
