/* Kernels, right ones and wrong ones, that try the emulation itself. */
#ifndef GW_TESTS_CUDA_TRY_H
#define GW_TESTS_CUDA_TRY_H

#include <stddef.h>

#include <tests/cuda/include/cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

enum try_mistake {
    TRY_RIGHT,
    TRY_NO_BARRIER,     /* between writing shared memory and reading it */
    TRY_EARLY_RETURN,   /* before a barrier */
    TRY_TWO_BARRIERS,   /* some wait at one, some at another */
    TRY_PART_OF_A_WARP, /* comes to a shuffle */
    TRY_UNWRITTEN,      /* shared memory is read */
    TRY_OUT_OF_SHARED,  /* beside a shared array */
    TRY_MISALIGNED,     /* a vector is loaded */
    TRY_BEHIND,         /* the end of y is written */
    TRY_FAR_BEHIND,     /* another page is */
    TRY_OTHER_BLOCK,    /* reads what another block writes */
};

/* y[i] = sum of 256 floats from x[256 i] on */
cudaError_t try_sums(cudaStream_t stream,
                     unsigned blocks,
                     enum try_mistake mistake,
                     const float *x,
                     float *y);
/* y[i] = a x[i] + y[i] */
cudaError_t
try_axpy(cudaStream_t stream, size_t elems, float a, const float *x, float *y);

#ifdef __cplusplus
}
#endif

#endif
