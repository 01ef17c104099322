#include "config.h"

#include "kernels/module.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda.h"

static const struct gw_backend_ops cuda_ops = {
    .name = "cuda",
    .takes = GW_CUDA_TAKES,
    .probe = gw_cuda_probe,
    .open = gw_cuda_open,
    .close = gw_cuda_close,
    .describe = gw_cuda_describe,
    .report = gw_cuda_report,
    .locate = gw_cuda_locate,
    .usable = gw_cuda_usable,
    .linked = gw_cuda_linked,
    .memory = gw_cuda_memory,
    .alloc = gw_cuda_alloc,
    .free = gw_cuda_free,
    .alloc_host = gw_cuda_alloc_host,
    .free_host = gw_cuda_free_host,
    .pin = gw_cuda_pin,
    .unpin = gw_cuda_unpin,
    .export_memory = gw_cuda_export_memory,
    .import_memory = gw_cuda_import_memory,
    .path = gw_cuda_path,
    .release_import = gw_cuda_release_import,
    .pages = gw_cuda_pages,
    .upload = gw_cuda_upload,
    .copy_import = gw_cuda_copy_import,
    .fetch = gw_cuda_fetch,
    .reach = gw_cuda_reach,
    .download = gw_cuda_download,
    .sync = gw_cuda_sync,
    .tune = gw_cuda_tune,
    .tuned = gw_cuda_tuned,
#define GW_SIZE_OPERATION(name, parameters, arguments) .name = gw_cuda_##name,
#define GW_OPERATION(name, parameters, arguments)      .name = gw_cuda_##name,
#include "kernels/operations.h"
};

/* The only exported symbol. Any driver of the same major version runs the code
   that this build's CUDA compiled for a GPU. Newer GPUs get PTX, which the
   driver compiles; an older driver of the same major version may refuse it, and
   its error is reported when the first kernel is to run. */
extern const struct gw_module gw_module;
__attribute__((visibility("default"))) const struct gw_module gw_module = {
    .ops_bytes = sizeof(struct gw_backend_ops),
    .version = PACKAGE_VERSION,
    .driver = CUDART_VERSION / 1000 * 1000,
    .ops = &cuda_ops,
};
