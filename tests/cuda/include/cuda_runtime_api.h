/* The emulation has one header for both. */
#ifndef GW_TESTS_CUDA_RUNTIME_API_H
#define GW_TESTS_CUDA_RUNTIME_API_H

#include <tests/cuda/include/cuda_runtime.h>

#endif
