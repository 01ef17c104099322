/*
 * Memory that others read: processes of the same host, and devices of the
 * network. A handle has CUDA's IPC handle, which stands for a whole allocation,
 * the offset in it, and the GPU's PCI address, since each process has its own
 * ordinals; network devices get pages.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct exported {
    cudaIpcMemHandle_t handle;
    uint64_t offset;
    char address[GW_PCI_ADDRESS_BYTES]; /* of the owner's GPU */
};
static_assert(sizeof(struct exported) == GW_MEMORY_WORDS, "all words");

/* Imported memory. An allocation is opened once for all imports from it. */
struct gw_cuda_import {
    struct gw_cuda_import *next;
    const char *memory;
    void *base;
    cudaIpcMemHandle_t handle;
    char address[GW_PCI_ADDRESS_BYTES];
};

/* ---- export ---- */

int gw_cuda_export_memory(struct gw_device *device,
                          const void *memory,
                          uint8_t handle[GW_MEMORY_WORDS])
{
    struct exported exported;
    memset(&exported, 0, sizeof exported);
    const struct gw_cuda_block *block =
        gw_cuda_find_block(device->blocks, memory, 1);
    if (!block || !gw_cuda_enter(device))
        return 0;
    if (cudaIpcGetMemHandle(&exported.handle,
                            (void *)(uintptr_t)block->memory) != cudaSuccess) {
        cudaGetLastError(); /* clears it: the device works */
        return 0;
    }
    exported.offset = (uint64_t)((const char *)memory - block->memory);
    gw_cuda_locate((unsigned)device->ordinal, exported.address);
    memcpy(handle, &exported, sizeof exported);
    return 1;
}

/* ---- import ---- */

static const struct gw_cuda_import *import_of(const struct gw_device *device,
                                              const cudaIpcMemHandle_t *handle)
{
    const struct gw_cuda_import *import = device->imports;
    while (import && memcmp(&import->handle, handle, sizeof *handle) != 0)
        import = import->next;
    return import;
}

/* NULL with a line. */
static void *open_handle(struct gw_device *device,
                         cudaIpcMemHandle_t handle,
                         struct gw_error *error)
{
    const struct gw_cuda_import *other = import_of(device, &handle);
    void *base = NULL;
    if (other)
        return other->base;
    cudaError_t result =
        cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess);
    if (result == cudaSuccess)
        return base;
    cudaGetLastError(); /* clears it: the device works */
    gw_fail(error, GW_EUNSUPPORTED,
            "GPU %d does not reach what another process of this host has in "
            "its GPU's memory: %s",
            device->ordinal, cudaGetErrorString(result));
    return NULL;
}

const void *gw_cuda_import_memory(struct gw_device *device,
                                  const uint8_t handle[GW_MEMORY_WORDS],
                                  struct gw_error *error)
{
    struct exported exported;
    memcpy(&exported, handle, sizeof exported);
    if (!gw_cuda_enter(device)) {
        gw_fail(error, GW_EIO, "%s", device->error.text);
        return NULL;
    }
    struct gw_cuda_import *import = malloc(sizeof *import);
    if (!import) {
        gw_fail(error, GW_ENOMEM, "no memory for what another GPU shows");
        return NULL;
    }
    void *base = open_handle(device, exported.handle, error);
    if (!base) {
        free(import);
        return NULL;
    }
    *import = (struct gw_cuda_import){
        .next = device->imports,
        .memory = (const char *)base + exported.offset,
        .base = base,
        .handle = exported.handle,
    };
    memcpy(import->address, exported.address, sizeof import->address);
    import->address[sizeof import->address - 1] = '\0';
    device->imports = import;
    return import->memory;
}

/* 1 if the owner's GPU is this one, by PCI address. */
static int is_same_gpu(const struct gw_device *device, const void *imported)
{
    char own[GW_PCI_ADDRESS_BYTES];
    const struct gw_cuda_import *import = device->imports;
    while (import && import->memory != imported)
        import = import->next;
    gw_cuda_locate((unsigned)device->ordinal, own);
    return import && own[0] && strcmp(import->address, own) == 0;
}

const char *gw_cuda_path(struct gw_device *device, const void *imported)
{
    struct cudaPointerAttributes about;
    if (!gw_cuda_enter(device))
        return "";
    if (is_same_gpu(device, imported))
        return "the same GPU";
    if (cudaPointerGetAttributes(&about, imported) != cudaSuccess) {
        cudaGetLastError(); /* clears it: the device works */
        return "";
    }
    if (about.type != cudaMemoryTypeDevice || about.device < 0)
        return "";
    /* CUDA has no ordinal for a GPU that this process may not use */
    if (about.device == device->ordinal)
        return "a GPU that this process does not see";
    return gw_cuda_linked((unsigned)about.device, (unsigned)device->ordinal)
               ? "NVLink"
               : "PCIe";
}

void gw_cuda_release_import(struct gw_device *device, const void *memory)
{
    struct gw_cuda_import **at = &device->imports;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    if (!*at)
        return;
    struct gw_cuda_import import = **at;
    free(*at);
    *at = import.next;
    if (import_of(device, &import.handle))
        return;
    gw_cuda_sync(device, NULL); /* queued operations may read it */
    cudaSetDevice(device->ordinal);
    gw_cuda_check(device, "cudaIpcCloseMemHandle",
                  cudaIpcCloseMemHandle(import.base));
}

/* ---- network devices ---- */

/* cuMemGetHandleForAddressRange, with CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
typedef int
get_range(void *handle, uintptr_t at, size_t bytes, int type, uint64_t flags);
#define DMA_BUF_FD 1

/* The driver stays loaded. Its symbol is looked up by name, since no call that
   returns driver symbols is in both CUDA 12.0 and CUDA 13. */
static get_range *find_get_range(void)
{
    get_range *get = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver)
        return NULL;
    void *call = dlsym(driver, "cuMemGetHandleForAddressRange");
    memcpy(&get, &call, sizeof get);
    dlclose(driver);
    return get;
}

/* -1: the driver or the device does not support it. */
static int dma_buf_of(const struct gw_pages *pages)
{
    int fd = -1;
    get_range *get = find_get_range();
    if (!get)
        return -1;
    int result = get(&fd, (uintptr_t)pages->base, pages->bytes, DMA_BUF_FD, 0);
    return result == cudaSuccess ? fd : -1;
}

void gw_cuda_pages(struct gw_device *device,
                   const void *memory,
                   size_t bytes,
                   struct gw_pages *pages_p)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)memory, first = at / page * page;
    *pages_p = (struct gw_pages){
        .base = (void *)first,
        .bytes = (at + bytes - first + page - 1) / page * page,
        .fd = -1,
    };
    if (gw_cuda_enter(device))
        pages_p->fd = dma_buf_of(pages_p);
}

void gw_cuda_drop_imports(struct gw_device *device)
{
    while (device->imports)
        gw_cuda_release_import(device, device->imports->memory);
}
