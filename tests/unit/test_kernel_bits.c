/*
 * kernels: each instruction set gives the bits of x86-64 that are frozen here
 * as checksums. Results that must be equal on all processors are; sums of
 * products have two rows, for sets with a fused multiply-add and for sets
 * without.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/bf16.h"
#include "kernels/update/blend_isa.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_sums.h"
#include "kernels/update/update_isa.h"
#include "proto/random.h"
#include "proto/wire.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ELEMS        1100
#define ARRAYS       (GW_REDUCE_FAN_IN + 4)

static float value[ARRAYS][ELEMS];

/* Over six decades, by operations that every processor rounds in the same way.
 */
static void fill(void)
{
    static const float decade[] = {1e-3f, 1e-2f, 0.1f, 1, 10, 100, 1000};
    for (uint32_t array = 0; array < ARRAYS; array++)
        for (size_t i = 0; i < ELEMS; i++) {
            uint32_t u[4];
            gw_random4(17, GW_RANDOM_TEST, array, i, u);
            float unit = (float)(int32_t)(u[0] >> 8) / 8388608 - 1;
            value[array][i] = unit * decade[u[1] % COUNT(decade)];
        }
}

static void positive(const float *from, float *to)
{
    for (size_t i = 0; i < ELEMS; i++)
        to[i] = from[i] < 0 ? -from[i] : from[i];
}

/* Sizes with and without a remainder for every vector. */
static const size_t sizes[] = {0, 1, 3, 7, 16, 31, 33, 100, 1024, ELEMS};

static void assert_frozen(const char *what, uint32_t crc, uint32_t frozen)
{
    if (crc != frozen)
        fail_msg("%s: 0x%08xu, and not 0x%08xu", what, crc, frozen);
}

/* ---- the server's arithmetic ---- */

static uint32_t reduce_crc(const struct gw_update_loops *loops, int over)
{
    static float sum[ELEMS];
    uint32_t crc = 0;
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (unsigned n = 1; n <= GW_REDUCE_FAN_IN; n++) {
            const float *in[GW_REDUCE_FAN_IN];
            for (unsigned i = 0; i < n; i++)
                in[i] = value[i];
            memcpy(sum, value[0], sizeof sum);
            if (over)
                in[0] = sum;
            (over ? loops->reduce_over : loops->reduce)(in, n, sizes[s], sum);
            crc = gw_crc32c(crc, sum, sizeof sum);
        }
    return crc;
}

static uint32_t square_sum_crc(const struct gw_update_loops *loops)
{
    uint32_t crc = 0;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        double sum = loops->square_sum(value[1], sizes[s]);
        crc = gw_crc32c(crc, &sum, sizeof sum);
    }
    return crc;
}

static uint32_t rule_crc(const struct gw_update_loops *loops, int rule)
{
    static const struct gw_factors factors = {
        0.33f, 0.013f, 0.017f, 0.91f, 0.999f,  0.9f,  0.997f,
        0.1f,  0.003f, 0.03f,  2.5f,  1.0312f, 1e-8f,
    };
    static float out[ELEMS], m[ELEMS], v[ELEMS];
    uint32_t crc = 0;
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (unsigned n = 1; n <= GW_FUSED_FAN_IN; n++) {
            struct gw_rule_arrays arrays = {.elems = sizes[s],
                                            .w = value[GW_REDUCE_FAN_IN],
                                            .out = out,
                                            .m = m,
                                            .v = v};
            for (unsigned i = 0; i < n; i++)
                arrays.in[i] = value[i];
            memset(out, 0, sizeof out);
            memcpy(m, value[6], sizeof m);
            positive(value[7], v);
            loops->rule[rule][n - 1](&factors, &arrays);
            crc = gw_crc32c(crc, out, sizeof out);
            crc = gw_crc32c(crc, m, sizeof m);
            crc = gw_crc32c(crc, v, sizeof v);
        }
    return crc;
}

static const struct {
    const char *name;
    uint32_t crc;
} rules[GW_RULES] = {
    [GW_RULE_SGD] = {"sgd", 0xbf672c7b},
    [GW_RULE_MOMENTUM] = {"momentum", 0x037a7b84},
    [GW_RULE_NESTEROV] = {"nesterov", 0x18d75612},
    [GW_RULE_ADAM] = {"adam", 0xcf733535},
    [GW_RULE_ADAMW] = {"adamw", 0xf4496bf3},
    [GW_RULE_LAMB_DIRECTION] = {"lamb's direction", 0x6de85150},
    [GW_RULE_LAMB_APPLY] = {"lamb", 0x36275987},
    [GW_RULE_NONE] = {"none", 0xec3c1cef},
};

static void sums_and_updates_have_the_frozen_bits(void **state)
{
    (void)state;
    fill();
    for (int isa = 0; isa <= (int)gw_isa_here(); isa++) {
        const struct gw_update_loops *loops = &gw_update_loops[isa];
        print_message("# %s\n", loops->name);
        assert_frozen("reduce", reduce_crc(loops, 0), 0x145f35f5);
        assert_frozen("reduce over", reduce_crc(loops, 1), 0x145f35f5);
        assert_frozen("square sum", square_sum_crc(loops), 0xed4932c3);
        for (int rule = 0; rule < GW_RULES; rule++)
            assert_frozen(rules[rule].name, rule_crc(loops, rule),
                          rules[rule].crc);
    }
}

static const struct {
    const char *name;
    uint32_t crc;
} blends[GW_BLENDS] = {
    [GW_BLEND_COMPENSATE] = {"compensate", 0x47909e8b},
    [GW_BLEND_ADAPT] = {"adapt", 0x5894f163},
    [GW_BLEND_ELASTIC] = {"elastic", 0x4abfbc42},
    [GW_BLEND_DIFFERENCE] = {"difference", 0x36393f73},
    [GW_BLEND_MIX] = {"mix", 0x178f99f3},
    [GW_BLEND_ADD] = {"add", 0x8f6fc0c4},
};

static uint32_t blend_crc(int blend, int isa)
{
    static const struct gw_blend_factors factors = {
        .scale = 0.37f,
        .lambda = 0.7f,
        .decay = 0.95f,
        .fresh = 0.05f,
        .eps = 1e-3f,
        .alpha = 0.23f,
        .keep = 0.6f,
        .take = 0.4f,
        .weight = 0.3f,
    };
    static float out[2][ELEMS];
    uint32_t crc = 0;
    for (size_t s = 0; s < COUNT(sizes); s++) {
        struct gw_blend_arrays arrays = {
            .elems = sizes[s],
            .in = {value[0], value[1], value[2]},
            .out = {out[0], out[1]},
        };
        memcpy(out[0], value[3], sizeof out[0]);
        positive(value[4], out[1]);
        gw_blend_loops[blend][isa](&factors, &arrays);
        crc = gw_crc32c(crc, out, sizeof out);
    }
    return crc;
}

static void blends_have_the_frozen_bits(void **state)
{
    (void)state;
    fill();
    for (int isa = 0; isa <= (int)gw_isa_here(); isa++)
        for (int blend = 0; blend < GW_BLENDS; blend++)
            assert_frozen(blends[blend].name, blend_crc(blend, isa),
                          blends[blend].crc);
}

static void bf16_has_the_frozen_bits(void **state)
{
    static uint16_t half[ELEMS];
    static float whole[ELEMS];
    (void)state;
    fill();
    gw_bf16_round(ELEMS, value[0], half);
    gw_bf16_widen(ELEMS, half, whole);
    uint32_t crc = gw_crc32c(0, half, sizeof half);
    crc = gw_crc32c(crc, whole, sizeof whole);
    assert_frozen("bf16", crc, 0x066c120f);
}

/* ---- a worker's sums of products ---- */

#define TERMS   70
#define COLUMNS 32
#define PLACES  5

/* All columns, in as many blocks as the set's vectors need. */
static void multiply(const struct gw_sum_loops *loops, float *c)
{
    static _Alignas(64) float panel[TERMS * COLUMNS];
    int32_t place[GW_GROUP], term[TERMS];
    size_t width;
    for (int j = 0; j < GW_GROUP; j++)
        place[j] = j * TERMS;
    for (int t = 0; t < TERMS; t++)
        term[t] = TERMS - 1 - t;
    for (size_t at = 0; at < COLUMNS; at += width) {
        width = gw_sums_width(loops, COLUMNS - at);
        loops->pack(value[1] + at, 8, TERMS, width, width, panel);
        const struct gw_group group = {.x = value[0],
                                       .place = place,
                                       .term = term,
                                       .terms = TERMS,
                                       .w = panel,
                                       .c = c + at,
                                       .ld = COLUMNS};
        loops->product[width > loops->lanes](&group, PLACES, 0);
    }
}

static void products_have_the_frozen_bits(void **state)
{
    static float c[PLACES * COLUMNS], y[COLUMNS * PLACES], db[COLUMNS];
    static float panel[PLACES * COLUMNS];
    (void)state;
    fill();
    for (int isa = 0; isa <= (int)gw_isa_here(); isa++) {
        const struct gw_sum_loops *loops = &gw_sum_loops[isa];
        int fuses = gw_isa_fuses((enum gw_isa)isa);
        multiply(loops, c);
        assert_frozen(fuses ? "fused products" : "products",
                      gw_crc32c(0, c, sizeof c),
                      fuses ? 0x669e4d37 : 0xdd94b354);
        memset(db, 0, sizeof db);
        loops->spread(value[2], COLUMNS, PLACES, COLUMNS, value[3], 1, y,
                      PLACES);
        loops->gather(value[4], PLACES, PLACES, COLUMNS, COLUMNS, panel, db);
        uint32_t crc = gw_crc32c(0, y, sizeof y);
        crc = gw_crc32c(crc, panel, sizeof panel);
        crc = gw_crc32c(crc, db, sizeof db);
        assert_frozen("panels", crc, 0xb1e61828);
    }
}

/* Both passes of a layer, on the widest set of this processor. */
static void layers_have_the_frozen_bits(void **state)
{
    const struct gw_device_options options = {.threads = 1};
    const struct gw_conv_shape conv = {3, 2, 7, 6, 5, 3, 3, 1, 1, 1, 0};
    const struct gw_dense_shape dense = {9, 33, 13, 1, 0};
    static float y[3 * 5 * 7 * 6], dx[3 * 2 * 7 * 6], dk[5 * 2 * 3 * 3], db[13];
    static float dw[33 * 13];
    struct gw_device *device;
    struct gw_error error;
    uint32_t crc = 0;
    (void)state;
    if (!gw_isa_fuses(gw_isa_here()))
        skip(); /* the CBLAS computes dense layers here */
    fill();
    assert_int_equal(gw_cpu_ops.open(&options, &device, &error), GW_OK);
    void *scratch = gw_cpu_ops.alloc(device, 1 << 20);
    assert_true(
        gw_cpu_ops.conv_scratch_bytes(&conv, GW_PRECISION_FP32) <= 1 << 20 &&
        gw_cpu_ops.dense_scratch_bytes(&dense, GW_PRECISION_FP32) <= 1 << 20);
    gw_cpu_conv_forward(device, &conv, value[0], value[1], value[2], y,
                        scratch);
    crc = gw_crc32c(crc, y, sizeof y);
    gw_cpu_conv_backward(device, &conv, value[0], value[1], value[3], 0, dx, dk,
                         db, scratch);
    crc = gw_crc32c(crc, dx, sizeof dx);
    crc = gw_crc32c(crc, dk, sizeof dk);
    crc = gw_crc32c(crc, db, 5 * sizeof *db);
    assert_frozen("convolution", crc, 0x3ae36439);
    gw_cpu_dense_forward(device, &dense, value[0], value[1], value[2], y, NULL,
                         scratch);
    gw_cpu_dense_backward(device, &dense, value[0], NULL, value[1], value[3], 0,
                          NULL, dw, db, scratch);
    crc = gw_crc32c(0, y, dense.n * dense.out * sizeof *y);
    crc = gw_crc32c(crc, dw, sizeof dw);
    crc = gw_crc32c(crc, db, sizeof db);
    assert_frozen("dense layer", crc, 0x203ba847);
    gw_cpu_ops.free(device, scratch);
    gw_cpu_ops.close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_updates_have_the_frozen_bits),
        cmocka_unit_test(blends_have_the_frozen_bits),
        cmocka_unit_test(bf16_has_the_frozen_bits),
        cmocka_unit_test(products_have_the_frozen_bits),
        cmocka_unit_test(layers_have_the_frozen_bits),
    };
    return cmocka_run_group_tests_name("kernel bits", tests, NULL, NULL);
}
