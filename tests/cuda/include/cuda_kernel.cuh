/*
 * CUDA's built-ins, for kernels that are compiled as host C++: keywords,
 * variables and types, barriers and shuffles. A block's threads are fibers of
 * tests/cuda/block.c.
 */
#ifndef GW_TESTS_CUDA_KERNEL_CUH
#define GW_TESTS_CUDA_KERNEL_CUH

#include <math.h>
#include <string.h>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
/* One block runs at a time, so its memory is static; a section of its own, so
   that it is filled with garbage before each block. */
#define __shared__ static __attribute__((section("emulated_shared")))

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1)
        : x(vx), y(vy), z(vz)
    {
    }
};

#define EMULATED_VECTORS(type, name, size2, size4)                             \
    struct alignas(size2) name##2                                              \
    {                                                                          \
        type x, y;                                                             \
    };                                                                         \
    struct alignas(size4) name##4                                              \
    {                                                                          \
        type x, y, z, w;                                                       \
    };                                                                         \
    static inline name##2 make_##name##2(type x, type y)                       \
    {                                                                          \
        return name##2 {x, y};                                                 \
    }                                                                          \
    static inline name##4 make_##name##4(type x, type y, type z, type w)       \
    {                                                                          \
        return name##4 {x, y, z, w};                                           \
    }
EMULATED_VECTORS(float, float, 8, 16)
EMULATED_VECTORS(int, int, 8, 16)
EMULATED_VECTORS(unsigned, uint, 8, 16)
EMULATED_VECTORS(unsigned char, uchar, 2, 4)
struct alignas(16) double2 {
    double x, y;
};
static inline double2 make_double2(double x, double y)
{
    return double2{x, y};
}

extern "C" {
/* indices of the running thread */
extern struct uint3 emulated_thread, emulated_block;
extern struct uint3 emulated_block_dim, emulated_grid_dim;
void emulated_barrier(const char *file, int line);
/* The 64 bits that lane `source` of this warp passed to the same call. */
uint64_t emulated_shuffle(
    const char *file, int line, unsigned mask, uint64_t bits, unsigned source);
}

#define threadIdx (::emulated_thread)
#define blockIdx  (::emulated_block)
#define blockDim  (::emulated_block_dim)
#define gridDim   (::emulated_grid_dim)
static const int warpSize = 32;

static inline void __syncthreads(const char *file = __builtin_FILE(),
                                 int line = __builtin_LINE())
{
    emulated_barrier(file, line);
}

template <typename T>
static inline T emulated_exchange(
    const char *file, int line, unsigned mask, T value, unsigned source)
{
    static_assert(sizeof value <= sizeof(uint64_t), "too large to shuffle");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emulated_shuffle(file, line, mask, bits, source);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Whole warps only: there is no argument for a width. */
template <typename T>
static inline T __shfl_sync(unsigned mask,
                            T value,
                            int source,
                            const char *file = __builtin_FILE(),
                            int line = __builtin_LINE())
{
    return emulated_exchange(file, line, mask, value, (unsigned)source % 32);
}

template <typename T>
static inline T __shfl_down_sync(unsigned mask,
                                 T value,
                                 unsigned delta,
                                 const char *file = __builtin_FILE(),
                                 int line = __builtin_LINE())
{
    unsigned lane = threadIdx.x % 32, source = lane + delta;
    return emulated_exchange(file, line, mask, value,
                             source < 32 ? source : lane);
}

template <typename T>
static inline T __shfl_xor_sync(unsigned mask,
                                T value,
                                int lanes,
                                const char *file = __builtin_FILE(),
                                int line = __builtin_LINE())
{
    unsigned source = threadIdx.x % 32 ^ (unsigned)lanes;
    return emulated_exchange(file, line, mask, value, source % 32);
}

template <typename T> static inline T __ldg(const T *memory)
{
    return *memory;
}

#define EMULATED_MIN_MAX(type)                                                 \
    static inline type min(type a, type b)                                     \
    {                                                                          \
        return b < a ? b : a;                                                  \
    }                                                                          \
    static inline type max(type a, type b)                                     \
    {                                                                          \
        return a < b ? b : a;                                                  \
    }
EMULATED_MIN_MAX(int)
EMULATED_MIN_MAX(unsigned)
EMULATED_MIN_MAX(long)
EMULATED_MIN_MAX(unsigned long)
EMULATED_MIN_MAX(long long)
EMULATED_MIN_MAX(unsigned long long)
/* fminf and fmaxf of CUDA: if one operand is NaN, the other. */
static inline float min(float a, float b)
{
    return fminf(a, b);
}
static inline float max(float a, float b)
{
    return fmaxf(a, b);
}
static inline double min(double a, double b)
{
    return fmin(a, b);
}
static inline double max(double a, double b)
{
    return fmax(a, b);
}

#endif
