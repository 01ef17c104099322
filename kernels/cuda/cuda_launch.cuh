/*
 * How every kernel is launched: with its arguments converted to what it takes,
 * and the error as a value. Also what CUDA declares for kernels.
 */
#ifndef GW_KERNELS_CUDA_LAUNCH_CUH
#define GW_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

template <typename T> struct gw_cuda_same {
    typedef T type; /* keeps arguments out of the choice of a kernel's types */
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
