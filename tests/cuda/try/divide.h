/* The division of the kernels' indices, to be tried on the host. */
#ifndef GW_TESTS_CUDA_DIVIDE_H
#define GW_TESTS_CUDA_DIVIDE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C"
#endif
    unsigned
    try_divide(unsigned i, size_t by);

#endif
