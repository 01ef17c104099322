/*
 * Emulated memory shared between processes, and with network devices. An
 * exported allocation moves to an unnamed file, which others open through its
 * owner's descriptor, and which also is the dma-buf: nothing remains when all
 * have gone. Accesses are not synchronised.
 */
#include "config.h"

#include "tests/cuda/inside.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cuda/answers.h"

#define MAGIC UINT64_C(0x6461636564756d65)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Content of a handle. The file tells whether the owner still has it open. */
struct ticket {
    uint64_t magic;
    int32_t pid, file;
    uint64_t disk, inode;
    uint64_t bytes;
    int64_t device; /* owner of the memory */
};
_Static_assert(sizeof(struct ticket) <= sizeof(cudaIpcMemHandle_t), "too long");

static void move(struct emulated_allocation *a)
{
    int file = memfd_create("emulated CUDA", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || ftruncate(file, (off_t)a->page_bytes) != 0 ||
        fcntl(file, F_ADD_SEALS, SEALS) != 0)
        emulated_wrong("no file of %zu bytes", a->page_bytes);
    emulated_move_to_file(a, file);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
    cudaError_t error = emulated_enter_device();
    struct stat file;
    if (error != cudaSuccess)
        return emulated_leave(error);
    struct emulated_allocation *a =
        emulated_allocation_at(EMULATED_DEVICE, memory);
    if (!a)
        emulated_wrong("cudaIpcGetMemHandle of %p, where no allocation begins",
                       memory);
    if (a->file < 0)
        move(a);
    if (fstat(a->file, &file) != 0)
        emulated_wrong("the file of %p is gone", memory);
    struct ticket ticket = {
        .magic = MAGIC,
        .pid = (int32_t)getpid(),
        .file = a->file,
        .disk = file.st_dev,
        .inode = file.st_ino,
        .bytes = a->bytes,
        .device = a->device,
    };
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &ticket, sizeof ticket);
    return emulated_leave(cudaSuccess);
}

/* -1: its owner has exited or has freed it. */
static int open_file(const struct ticket *ticket)
{
    char path[64];
    struct stat file;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)ticket->pid,
             (int)ticket->file);
    if (stat(path, &file) != 0 || file.st_dev != ticket->disk ||
        file.st_ino != ticket->inode)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Emulates a machine on which peer reads give zeros without an error. */
static int open_zeros(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int file = memfd_create("zeros", MFD_CLOEXEC);
    if (file < 0 ||
        ftruncate(file, (off_t)((bytes + page - 1) / page * page)) != 0)
        emulated_wrong("no file of %zu bytes", bytes);
    return file;
}

static cudaError_t see(void **memory, const cudaIpcMemHandle_t *handle)
{
    struct ticket ticket;
    struct emulated_allocation *a = emulated_allocation_of(handle);
    memcpy(&ticket, handle, sizeof ticket);
    if (ticket.magic != MAGIC)
        return cudaErrorInvalidValue;
    if (ticket.pid == getpid())
        return cudaErrorDeviceUninitialized;
    if (emulated_now.no_ipc ||
        !emulated_reaches(emulated_device(), (int)ticket.device))
        return cudaErrorPeerAccessUnsupported;
    if (!a) {
        int file = emulated_now.wrong_peers ? open_zeros(ticket.bytes)
                                            : open_file(&ticket);
        if (file < 0)
            return cudaErrorInvalidResourceHandle;
        flock(file, LOCK_SH); /* until the import is closed or this process
                                 exits */
        a = emulated_map_file(handle, ticket.bytes, file, (int)ticket.device);
        emulated_count.live_seen++;
    }
    a->opened++;
    *memory = a->memory;
    return cudaSuccess;
}

/* A second import of the same handle gives the same address, counted. */
cudaError_t
cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
    cudaError_t error = emulated_enter_device();
    if (error == cudaSuccess && flags != cudaIpcMemLazyEnablePeerAccess)
        error = cudaErrorInvalidValue;
    return emulated_leave(error ? error : see(memory, &handle));
}

/* Does not wait: a queued operation that uses it will not find it, and abort.
 */
cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    cudaError_t error = emulated_enter_device();
    struct emulated_allocation *a =
        emulated_allocation_at(EMULATED_SEEN, memory);
    if (!a)
        emulated_wrong("cudaIpcCloseMemHandle of %p, which is not open",
                       memory);
    if (--a->opened == 0) {
        emulated_count.live_seen--;
        emulated_release(a);
    }
    return emulated_leave(error);
}

/* ---- dma-buf ---- */

/* The driver's rule: whole pages of one allocation. */
static int
get_range(void *handle, uintptr_t at, size_t bytes, int type, uint64_t flags)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (type != 1 || flags != 0 || at % page || bytes == 0 || bytes % page)
        return cudaErrorInvalidValue;
    emulated_enter();
    struct emulated_allocation *a = emulated_allocation_with(at, bytes);
    int *fd = handle, result = cudaErrorInvalidValue;
    if (emulated_now.no_dma_buf) {
        result = cudaErrorNotSupported;
    } else if (a && at == (uintptr_t)a->pages) {
        if (a->file < 0)
            move(a);
        *fd = fcntl(a->file, F_DUPFD_CLOEXEC, 0);
        result = *fd < 0 ? cudaErrorUnknown : cudaSuccess;
    }
    emulated_leave(cudaSuccess);
    return result;
}

/* Loads the driver beside this module and gives it our get_range, which it
   exports by CUDA's name. */
void emulated_load_driver(void)
{
    char file[PATH_MAX];
    Dl_info self;
    if (!dladdr((void *)(uintptr_t)get_range, &self))
        return;
    const char *slash = strrchr(self.dli_fname, '/');
    snprintf(file, sizeof file, "%.*s/libcuda.so.1",
             slash ? (int)(slash - self.dli_fname) : 1,
             slash ? self.dli_fname : ".");
    void *driver = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    void *range = driver ? dlsym(driver, FAKE_RANGE_SYMBOL) : NULL;
    if (range)
        *(fake_range **)range = get_range;
}
