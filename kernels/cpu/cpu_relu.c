#include "config.h"

#include "kernels/cpu/cpu.h"

#include "kernels/update/isa.h"

GW_INLINE void
backward(size_t elems, const float *y, const float *dy, float *dx)
{
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < elems; i++)
        dx[i] = y[i] > 0 ? dy[i] : 0;
}

#define VARIANT(isa, target)                                                   \
    target static void backward_##isa(size_t elems, const float *y,            \
                                      const float *dy, float *dx)              \
    {                                                                          \
        backward(elems, y, dy, dx);                                            \
    }
GW_FOR_EACH_ISA(VARIANT)

static void (*const backward_table[])(size_t,
                                      const float *,
                                      const float *,
                                      float *) = GW_ISA_TABLE(backward);

void gw_cpu_relu_backward(struct gw_device *device,
                          size_t elems,
                          const float *y,
                          const float *dy,
                          float *dx)
{
    (void)device;
    backward_table[gw_isa_here()](elems, y, dy, dx);
}
