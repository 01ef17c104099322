/*
 * One source, several instruction sets: a loop is written once as an
 * always-inline body, GW_FOR_EACH_ISA instantiates it per set, and the caller
 * picks an instance per call from a constant table indexed by gw_isa_here(). No
 * ifunc, no start-up code, no state: it works with sanitizers and every linker.
 * No instance has a fused multiply-add, because the set lacks it or because the
 * compiler must not use it (-ffp-contract=off): all sets of all processors give
 * the same bits, except where a file says GW_MAY_FUSE.
 *
 *   x86-64    sse2, avx2, avx512
 *   aarch64   neon
 *   others    plain
 *
 * The first set of an architecture is the compiler's default; a processor that
 * runs a set also runs the sets before it.
 */
#ifndef GW_KERNELS_ISA_H
#define GW_KERNELS_ISA_H

#define GW_INLINE static inline __attribute__((always_inline))

/*
 * GW_FOR_EACH_ISA(variant): variant(name, attribute) defines the functions of
 * one set. GW_ISA_TABLE(name): the table of name_sse2, name_avx2 and so on.
 * GW_ISA_ROWS(row): the table of row(sse2), row(avx2) and so on. GW_ISA_FIRST:
 * the name of the first set.
 */
#if defined(__x86_64__)

enum gw_isa {
    GW_ISA_SSE2,
    GW_ISA_AVX2,
    GW_ISA_AVX512,
    GW_ISAS
};

#define GW_TARGET_AVX2     __attribute__((target("avx2")))
#define GW_TARGET_AVX2_FMA __attribute__((target("avx2,fma")))
#define GW_TARGET_AVX512                                                       \
    __attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl")))
#define GW_FOR_EACH_ISA(variant)                                               \
    variant(sse2, ) variant(avx2, GW_TARGET_AVX2)                              \
        variant(avx512, GW_TARGET_AVX512)
#define GW_ISA_TABLE(name)                                                     \
    {                                                                          \
        [GW_ISA_SSE2] = name##_sse2, [GW_ISA_AVX2] = name##_avx2,              \
        [GW_ISA_AVX512] = name##_avx512,                                       \
    }
#define GW_ISA_ROWS(row)                                                       \
    {                                                                          \
        [GW_ISA_SSE2] = row(sse2), [GW_ISA_AVX2] = row(avx2),                  \
        [GW_ISA_AVX512] = row(avx512),                                         \
    }
#define GW_ISA_FIRST sse2

/* The widest set that the processor and the operating system support. */
GW_INLINE enum gw_isa gw_isa_here(void)
{
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return GW_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return GW_ISA_AVX2;
    return GW_ISA_SSE2;
}

/* 1 if GW_MAY_FUSE loops of the set fuse. Sums of products have the same bits
   on all sets that do, independent of vector size. */
GW_INLINE int gw_isa_fuses(enum gw_isa isa)
{
    return isa != GW_ISA_SSE2;
}

#else

#if defined(__aarch64__)
#define GW_ISA_FIRST             neon
#define GW_ISA_FIRST_FUSES       1
#define GW_FOR_EACH_ISA(variant) variant(neon, )
#define GW_ISA_TABLE(name)                                                     \
    {                                                                          \
        name##_neon                                                            \
    }
#define GW_ISA_ROWS(row)                                                       \
    {                                                                          \
        row(neon)                                                              \
    }
#else
#define GW_ISA_FIRST             plain
#define GW_ISA_FIRST_FUSES       0
#define GW_FOR_EACH_ISA(variant) variant(plain, )
#define GW_ISA_TABLE(name)                                                     \
    {                                                                          \
        name##_plain                                                           \
    }
#define GW_ISA_ROWS(row)                                                       \
    {                                                                          \
        row(plain)                                                             \
    }
#endif

enum gw_isa {
    GW_ISA_ONLY,
    GW_ISAS
};

GW_INLINE enum gw_isa gw_isa_here(void)
{
    return GW_ISA_ONLY;
}

GW_INLINE int gw_isa_fuses(enum gw_isa isa)
{
    (void)isa;
    return GW_ISA_FIRST_FUSES;
}

#endif

/* In front of a loop whose arrays do not overlap, or are the same array. */
#if defined(__clang__)
#define GW_SAME_INDEX_ONLY                                                     \
    _Pragma("clang loop vectorize(assume_safety) interleave(assume_safety)")
#else
#define GW_SAME_INDEX_ONLY _Pragma("GCC ivdep")
#endif

/*
 * Once in a file, before its functions: a * b + c may be rounded once. For the
 * worker's computation, whose bits depend on its processor's matrix products
 * anyway.
 */
#if defined(__clang__)
#define GW_MAY_FUSE _Pragma("clang fp contract(fast)")
#else
#define GW_MAY_FUSE _Pragma("GCC optimize(\"fp-contract=fast\")")
#endif

#endif
