#include "tests/cuda/try/divide.h"

#include "kernels/cuda/cuda_index.cuh"

unsigned try_divide(unsigned i, size_t by)
{
    return gw_divide(i, gw_divisor_of(by));
}
