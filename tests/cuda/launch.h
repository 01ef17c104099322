/* Between the emulated launch of a kernel and what runs it later. */
#ifndef GW_TESTS_CUDA_LAUNCH_H
#define GW_TESTS_CUDA_LAUNCH_H

#include <tests/cuda/include/cuda_runtime.h>

struct emulated_launch {
    const char *text; /* the arguments of gw_cuda_launch as they are written */
    const char *file;
    int line;
    unsigned grid[3], block[3];
    void (*thread)(const void *call); /* runs the kernel once */
    const void *call;                 /* copied */
    size_t call_bytes;
    const void *const *pointers; /* among its arguments; copied, NULL is none */
    unsigned pointer_count;
};

#ifdef __cplusplus
extern "C"
#endif
    cudaError_t
    emulated_queue_launch(const struct emulated_launch *launch,
                          cudaStream_t stream);

#endif
