/* A queued kernel: written by the emulated launch, run later by block.c. */
#ifndef GW_TESTS_CUDA_LAUNCH_H
#define GW_TESTS_CUDA_LAUNCH_H

#include <tests/cuda/include/cuda_runtime.h>

struct emulated_launch {
    const char *text; /* source text of gw_cuda_launch's arguments */
    const char *file;
    int line;
    unsigned grid[3], block[3];
    void (*thread)(const void *call); /* runs the kernel for one thread */
    const void *call;                 /* copy of the arguments */
    size_t call_bytes;
    const void *const *pointers; /* among them, copied; some may be NULL */
    unsigned pointer_count;
};

#ifdef __cplusplus
extern "C"
#endif
    cudaError_t
    emulated_queue_launch(const struct emulated_launch *launch,
                          cudaStream_t stream);

#endif
