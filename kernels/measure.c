#include "config.h"

#include "kernels/measure.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/update/isa.h"

#define SLOTS_MAX  16
#define ARRAYS_MAX (SLOTS_MAX + GW_STATE_MAX + 2)
#define HUGE_PAGE  ((size_t)2 << 20)
#define ROUND_NS   4e6 /* long for the clock, short to alternate */

struct arrays {
    void *memory;
    size_t elems;
    float *slot[SLOTS_MAX];
    float *state[GW_STATE_MAX];
    float *w, *w_next;
};

GW_INLINE void add(float *a, const float *b, size_t elems)
{
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < elems; i++)
        a[i] += b[i];
}

#define VARIANT(isa, target)                                                   \
    target static void add_##isa(float *a, const float *b, size_t elems)       \
    {                                                                          \
        add(a, b, elems);                                                      \
    }
GW_FOR_EACH_ISA(VARIANT)

static void (*const add_table[])(float *,
                                 const float *,
                                 size_t) = GW_ISA_TABLE(add);

typedef uint32_t __attribute__((may_alias)) word;

GW_INLINE word bits_of_four(word *const *in, size_t i)
{
    return in[0][i] ^ in[1][i] ^ in[2][i] ^ in[3][i];
}

/* Xors all arrays into in[0]; n is a compile-time constant of the caller. */
GW_INLINE void xor_into(word *const *from, unsigned n, size_t elems)
{
    word *in[SLOTS_MAX]; /* a copy, which no store through in[] can change */
    memcpy(in, from, n * sizeof *in);
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < elems; i++) {
        word bits = n == 2 ? in[0][i] ^ in[1][i] : bits_of_four(in, i);
        if (n >= 8)
            bits ^= bits_of_four(in + 4, i);
        if (n == 16)
            bits ^= bits_of_four(in + 8, i) ^ bits_of_four(in + 12, i);
        in[0][i] = bits;
    }
}

GW_INLINE void xor_some(word *const *in, unsigned n, size_t elems)
{
    switch (n) {
    case 2:
        xor_into(in, 2, elems);
        break;
    case 4:
        xor_into(in, 4, elems);
        break;
    case 8:
        xor_into(in, 8, elems);
        break;
    default:
        xor_into(in, 16, elems);
    }
}

/* clang-format off */
#define XOR(isa, target)                                                       \
    target static void xor_into_##isa(word *const *in, unsigned n,             \
                                  size_t elems)                                \
    {                                                                          \
        xor_some(in, n, elems);                                                \
    }
/* clang-format on */
GW_FOR_EACH_ISA(XOR)

static void (*const xor_table[])(word *const *,
                                 unsigned,
                                 size_t) = GW_ISA_TABLE(xor_into);

void gw_measure_stream(
    float *const *arrays, uint32_t n, uint32_t own, size_t offset, size_t elems)
{
    word *in[SLOTS_MAX];
    assert(n == 2 || n == 4 || n == 8 || n == 16);
    for (uint32_t i = 0; i < n; i++)
        in[i] = (word *)(arrays[(own + i) % n] + offset);
    xor_table[gw_isa_here()](in, n, elems);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static float *take(char **at, size_t bytes, float value)
{
    float *array = (float *)(void *)*at;
    for (size_t i = 0; i < bytes / sizeof *array; i++)
        array[i] = value;
    *at += (bytes + 63) / 64 * 64 + GW_STAGGER_BYTES;
    return array;
}

static enum gw_status make_arrays(const struct gw_update_case *spec,
                                  struct arrays *arrays,
                                  struct gw_error *error)
{
    size_t bytes = spec->array_bytes;
    size_t total = ARRAYS_MAX * (bytes + 64 + GW_STAGGER_BYTES);
    total = (total + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    arrays->memory = aligned_alloc(HUGE_PAGE, total);
    if (!arrays->memory)
        return gw_fail(error, GW_ENOMEM, "no memory for arrays of %zu bytes",
                       bytes);
    madvise(arrays->memory, total, MADV_HUGEPAGE); /* only advice */
    char *at = arrays->memory;
    arrays->elems = bytes / sizeof(float);
    for (uint32_t i = 0; i < spec->slots; i++)
        arrays->slot[i] = take(&at, bytes, 1e-3f);
    for (unsigned i = 0; i < spec->optimizer->states; i++)
        arrays->state[i] = take(&at, bytes, 1e-3f);
    arrays->w = take(&at, bytes, 1);
    arrays->w_next = spec->in_place ? arrays->w : take(&at, bytes, 1);
    return GW_OK;
}

/* One pass over all arrays as a shard makes it: fused, or block by block. */
static void update_once(const struct gw_update_case *spec,
                        const struct arrays *arrays,
                        const struct gw_update *update)
{
    const struct gw_optimizer *optimizer = spec->optimizer;
    float sum[GW_BLOCK_ELEMS] __attribute__((aligned(64)));
    const float *slots[SLOTS_MAX];
    memcpy(slots, arrays->slot, sizeof slots);
    if (spec->fused) {
        gw_update_reduce_apply(optimizer, update, slots, spec->slots, 0,
                               arrays->elems, arrays->w, arrays->w_next,
                               arrays->state);
        return;
    }
    for (size_t at = 0; at < arrays->elems; at += GW_BLOCK_ELEMS) {
        size_t elems = arrays->elems - at;
        if (elems > GW_BLOCK_ELEMS)
            elems = GW_BLOCK_ELEMS;
        gw_reduce_block(slots, spec->slots, at, elems, sum);
        float *states[GW_STATE_MAX] = {0};
        for (unsigned i = 0; i < optimizer->states; i++)
            states[i] = arrays->state[i] + at;
        const float *w = arrays->w + at;
        if (optimizer->two_phase)
            gw_update_direction(optimizer, update, elems, sum, w, states);
        gw_update_apply(optimizer, update, elems, sum, w, arrays->w_next + at,
                        states);
    }
}

static double time_add(const struct arrays *arrays, int repeats)
{
    double start = now_ns();
    for (int i = 0; i < repeats; i++)
        add_table[gw_isa_here()](arrays->slot[0], arrays->w, arrays->elems);
    return (now_ns() - start) / repeats;
}

static double time_update(const struct gw_update_case *spec,
                          const struct arrays *arrays,
                          const struct gw_update *update,
                          int repeats)
{
    double start = now_ns();
    for (int i = 0; i < repeats; i++)
        update_once(spec, arrays, update);
    return (now_ns() - start) / repeats;
}

static int repeats_for(double ns)
{
    return ns >= ROUND_NS ? 1 : (int)(ROUND_NS / (ns + 1)) + 1;
}

enum gw_status gw_measure_update(const struct gw_update_case *spec,
                                 struct gw_update_rate *rate_p,
                                 struct gw_error *error)
{
    if ((spec->fused && spec->optimizer->two_phase) || spec->slots < 1 ||
        spec->slots > SLOTS_MAX || spec->rounds < 1 ||
        spec->array_bytes < sizeof(float))
        return gw_fail(error, GW_EINVAL,
                       "cannot measure %u slots of %zu bytes in %d rounds",
                       spec->slots, spec->array_bytes, spec->rounds);
    struct arrays arrays = {0};
    enum gw_status status = make_arrays(spec, &arrays, error);
    if (status != GW_OK)
        return status;

    /* a tiny learning rate keeps every value finite */
    struct gw_update update = {
        .scale = 1,
        .lr = 1e-9,
        .momentum = 0.9,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .weight_decay = 0.01,
        .t = 10,
        .trust_ratio = 1,
    };
    gw_update_prepare(&update);
    double add_ns = time_add(&arrays, 1);
    double update_ns = time_update(spec, &arrays, &update, 1);
    int adds = repeats_for(add_ns), updates = repeats_for(update_ns);
    for (int round = 0; round < spec->rounds; round++) {
        double ns = time_add(&arrays, adds);
        add_ns = ns < add_ns ? ns : add_ns;
        ns = time_update(spec, &arrays, &update, updates);
        update_ns = ns < update_ns ? ns : update_ns;
    }
    free(arrays.memory);

    double bytes = (double)spec->array_bytes;
    double passes = spec->slots + 2 * spec->optimizer->states + 2;
    rate_p->add_bytes_per_s = 3 * bytes / add_ns * 1e9;
    rate_p->update_bytes_per_s = passes * bytes / update_ns * 1e9;
    rate_p->update_elems_per_s = (double)arrays.elems / update_ns * 1e9;
    rate_p->ratio = rate_p->update_bytes_per_s / rate_p->add_bytes_per_s;
    return GW_OK;
}
