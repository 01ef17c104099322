/*
 * Launches a kernel: converts the arguments to its parameter types, and returns
 * the error. Also includes CUDA's declarations for kernels.
 */
#ifndef GW_KERNELS_CUDA_LAUNCH_CUH
#define GW_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

template <typename T> struct gw_cuda_same {
    typedef T type; /* keeps arguments out of type deduction */
};

template <typename... Parameters>
static cudaError_t
gw_cuda_launch(cudaStream_t stream,
               dim3 grid,
               dim3 block,
               void (*kernel)(Parameters...),
               typename gw_cuda_same<Parameters>::type... arguments)
{
    void *list[] = {(void *)&arguments...};
    return cudaLaunchKernel((const void *)kernel, grid, block, list, 0, stream);
}

#endif
