/* Values that tell their position, and arrays of them. */
#include "config.h"

#include "cli/bench/bench.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

void gw_bench_pattern(uint32_t seed, struct gw_bench_pattern *pattern)
{
    /* steps of 1/4096 in [-1, 1): exact, and neighbours always differ */
    for (uint32_t i = 0; i < GW_BENCH_PERIOD; i++) {
        uint32_t mixed = (i * 2654435761u + seed * 40503u) >> 7;
        pattern->value[i] = (float)(int)(mixed % 8192) / 4096 - 1;
    }
}

void gw_bench_fill(const struct gw_bench_pattern *pattern,
                   size_t elems,
                   float *array)
{
    for (size_t at = 0; at < elems; at += GW_BENCH_PERIOD) {
        size_t n = elems - at < GW_BENCH_PERIOD ? elems - at : GW_BENCH_PERIOD;
        memcpy(array + at, pattern->value, n * sizeof *array);
    }
}

uint64_t gw_bench_wrong_from(const struct gw_bench_pattern *pattern,
                             size_t at,
                             size_t elems,
                             const float *array)
{
    uint64_t wrong = 0;
    for (size_t i = 0, n; i < elems; i += n) {
        size_t from = (at + i) % GW_BENCH_PERIOD;
        const float *right = pattern->value + from;
        n = elems - i < GW_BENCH_PERIOD - from ? elems - i
                                               : GW_BENCH_PERIOD - from;
        if (memcmp(array + i, right, n * sizeof *array) == 0)
            continue;
        for (size_t k = 0; k < n; k++)
            wrong += memcmp(&array[i + k], &right[k], sizeof *array) != 0;
    }
    return wrong;
}

uint64_t gw_bench_wrong(const struct gw_bench_pattern *pattern,
                        size_t elems,
                        const float *array)
{
    return gw_bench_wrong_from(pattern, 0, elems, array);
}

/* Thirds use all mantissa bits. */
void gw_bench_summand(uint32_t rank, struct gw_bench_pattern *pattern)
{
    gw_bench_pattern(rank, pattern);
    for (size_t i = 0; i < GW_BENCH_PERIOD; i++)
        pattern->value[i] /= 3;
}

static float tree(const struct gw_bench_pattern *patterns, uint32_t n, size_t i)
{
    uint32_t half = 1;
    if (n == 1)
        return patterns->value[i];
    while (2 * half < n)
        half *= 2;
    return tree(patterns, half, i) + tree(patterns + half, n - half, i);
}

void gw_bench_summed(uint32_t n, struct gw_bench_pattern *pattern)
{
    struct gw_bench_pattern summand[GW_BENCH_MEMBERS_MAX];
    for (uint32_t rank = 0; rank < n; rank++)
        gw_bench_summand(rank, &summand[rank]);
    for (size_t i = 0; i < GW_BENCH_PERIOD; i++)
        pattern->value[i] = tree(summand, n, i);
}

float *gw_bench_window(size_t bytes,
                       unsigned number,
                       int shared,
                       struct gw_memory *memory)
{
    size_t stagger = number * GW_STAGGER_BYTES % PAGE;
    enum gw_memory_kind kind = shared ? GW_MEMORY_SHARED : GW_MEMORY_HOST;
    if (gw_memory_open(kind, bytes + stagger, memory) != GW_OK)
        return NULL;
    gw_memory_prefault(memory);
    return (float *)(void *)((char *)memory->base + stagger);
}

float *gw_bench_array(size_t bytes, unsigned number)
{
    size_t stagger = number * GW_STAGGER_BYTES % PAGE;
    size_t whole = (bytes + stagger) / PAGE * PAGE + PAGE;
    char *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, whole, MADV_HUGEPAGE); /* only advice */
    return (float *)(void *)(memory + stagger);
}
