/*
 * One source, three instruction sets: a loop is written once as an
 * always-inline body and made three times by GW_FOR_EACH_ISA, and the caller
 * picks one per call from a constant table indexed by gw_isa_here(). No ifunc,
 * no start-up code, no state, so sanitizers and every linker agree with it.
 * None of the sets includes fused multiply-add, so all three give the same
 * bits, except where a file says GW_MAY_FUSE.
 */
#ifndef GW_KERNELS_ISA_H
#define GW_KERNELS_ISA_H

/* "sse2" is what the compiler takes by itself: on another architecture than
   x86-64 it is the plain code, and the only one that is ever chosen. */
enum gw_isa {
    GW_ISA_SSE2,
    GW_ISA_AVX2,
    GW_ISA_AVX512,
    GW_ISAS
};

#define GW_INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)
#define GW_TARGET_AVX2     __attribute__((target("avx2")))
#define GW_TARGET_AVX2_FMA __attribute__((target("avx2,fma")))
#define GW_TARGET_AVX512                                                       \
    __attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define GW_TARGET_AVX2
#define GW_TARGET_AVX2_FMA
#define GW_TARGET_AVX512
#endif

/* variant(suffix, attribute): defines a function per set. */
#define GW_FOR_EACH_ISA(variant)                                               \
    variant(sse2, ) variant(avx2, GW_TARGET_AVX2)                              \
        variant(avx512, GW_TARGET_AVX512)

/* The table that picks among name_sse2, name_avx2, name_avx512. */
#define GW_ISA_TABLE(name)                                                     \
    {                                                                          \
        [GW_ISA_SSE2] = name##_sse2, [GW_ISA_AVX2] = name##_avx2,              \
        [GW_ISA_AVX512] = name##_avx512,                                       \
    }

/* In front of a loop whose arrays overlap only where they are the same. */
#if defined(__clang__)
#define GW_SAME_INDEX_ONLY                                                     \
    _Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")
#else
#define GW_SAME_INDEX_ONLY _Pragma("GCC ivdep")
#endif

/*
 * Once in a file, before its functions: a * b + c may be rounded once. For what
 * a worker computes, whose bits depend on its processor's products anyway.
 */
#if defined(__clang__)
#define GW_MAY_FUSE _Pragma("clang fp contract(fast)")
#else
#define GW_MAY_FUSE _Pragma("GCC optimize(\"fp-contract=fast\")")
#endif

/* The widest set that this processor and its system run. */
GW_INLINE enum gw_isa gw_isa_here(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return GW_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return GW_ISA_AVX2;
#endif
    return GW_ISA_SSE2;
}

#endif
