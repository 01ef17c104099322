/*
 * kernels/kernels.h: add_parts of every backend against the documented tree:
 * the same bits, and the parts that are not finite.
 */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/table/backend.h"

#define ALL     UINT64_MAX
#define MARGIN  ((size_t)8) /* unused elements behind each part */
#define VALUES  ((size_t)4099)
#define NOBODYS 0x5a

/* The parts, and their layout in memory. */
struct scene {
    uint32_t n;
    size_t elems;
    uint64_t present; /* bit i: part i is present */
    size_t at;        /* offset of part 0 in MARGIN */
    size_t apart;     /* further offset of each next part */
    int in_place;     /* index of the part that sum overwrites; -1: none */
};

/* Host and device copies of a scene. */
struct stage {
    const struct scene *scene;
    float *values; /* finite values */
    float *host;   /* all parts, NaN between them */
    float *memory; /* the same on the device */
    float *sum;    /* on the device, with a margin */
    uint8_t *bad;  /* on the device, with a margin */
    size_t stride; /* elements from part to part */
};

static size_t place(const struct stage *stage, uint32_t part)
{
    const struct scene *s = stage->scene;
    return part * stage->stride + (s->at + part * s->apart) % MARGIN;
}

/* Some are zeros of both signs, and some very small. */
static float value(const struct stage *stage, uint32_t part, size_t i)
{
    float x = stage->values[(part * 977 + i) % VALUES];
    if (i % 7 == 3)
        return i % 2 ? -0.0f : copysignf(0, x);
    return i % 11 == 5 ? x * FLT_MIN : x;
}

static void open_stage(struct stage *stage, const struct scene *scene)
{
    *stage = (struct stage){.scene = scene};
    stage->stride = scene->elems + MARGIN;
    stage->values = random_host(1, VALUES);
    size_t total = scene->n * stage->stride;
    stage->host = malloc(total * sizeof *stage->host);
    for (size_t i = 0; i < total; i++)
        stage->host[i] = NAN;
    for (uint32_t p = 0; p < scene->n; p++)
        for (size_t i = 0; i < scene->elems; i++)
            stage->host[place(stage, p) + i] = value(stage, p, i);
    stage->memory = ops->alloc(device, total * sizeof *stage->host);
    stage->sum = ops->alloc(device, stage->stride * sizeof *stage->host);
    stage->bad = ops->alloc(device, scene->n + MARGIN);
}

static void close_stage(struct stage *stage)
{
    ops->free(device, stage->memory);
    ops->free(device, stage->sum);
    ops->free(device, stage->bad);
    free(stage->values), free(stage->host);
}

static void list_parts(const struct stage *stage,
                       const float *memory,
                       const float *parts[GW_PARTS_MAX])
{
    for (uint32_t p = 0; p < stage->scene->n; p++)
        parts[p] =
            stage->scene->present >> p & 1 ? memory + place(stage, p) : NULL;
}

/* 0 if no part is present. */
static int
plain_tree(const float *const *parts, uint32_t n, size_t i, float *sum)
{
    uint32_t half = 1;
    float left, right;
    if (n == 1) {
        *sum = parts[0] ? parts[0][i] : 0;
        return parts[0] != NULL;
    }
    while (2 * half < n)
        half *= 2;
    int has_left = plain_tree(parts, half, i, &left);
    int has_right = plain_tree(parts + half, n - half, i, &right);
    *sum = has_left && has_right ? left + right : has_left ? left : right;
    return has_left || has_right;
}

static int is_same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check_sum(const struct stage *stage, const float *got)
{
    const struct scene *s = stage->scene;
    const float *parts[GW_PARTS_MAX];
    float expected;
    list_parts(stage, stage->host, parts);
    for (size_t i = 0; i < s->elems; i++) {
        plain_tree(parts, s->n, i, &expected);
        if (!is_same(got[i], expected))
            fail_msg("element %zu of %zu of %u parts (%#llx): %.9g, not %.9g",
                     i, s->elems, s->n, (unsigned long long)s->present,
                     (double)got[i], (double)expected);
    }
}

static void check_nonfinite(const struct stage *stage, const uint8_t *bad)
{
    const float *parts[GW_PARTS_MAX];
    uint32_t n = stage->scene->n;
    list_parts(stage, stage->host, parts);
    for (uint32_t p = 0; p < n; p++) {
        uint8_t expected = 0;
        for (size_t i = 0; parts[p] && i < stage->scene->elems; i++)
            expected = expected || !isfinite(parts[p][i]);
        if (bad[p] != expected)
            fail_msg("part %u of %u is said to be %s", p, n,
                     bad[p] ? "bad" : "finite");
    }
    for (size_t i = 0; i < MARGIN; i++)
        assert_int_equal(bad[n + i], NOBODYS);
}

/* The memory around the sum is unchanged. */
static void check_margins(const struct stage *stage,
                          const float *now,
                          const float *before,
                          size_t total,
                          size_t at)
{
    for (size_t i = 0; i < total; i++)
        if (i < at || i >= at + stage->scene->elems)
            assert_memory_equal(&now[i], &before[i], sizeof *now);
}

static void act(struct stage *stage)
{
    const struct scene *s = stage->scene;
    int own = s->in_place < 0;
    size_t total = own ? stage->stride : s->n * stage->stride;
    size_t at = own ? s->at % MARGIN : place(stage, (uint32_t)s->in_place);
    float *memory = own ? stage->sum : stage->memory;
    const float *parts[GW_PARTS_MAX];
    uint8_t bad[GW_PARTS_MAX + MARGIN];
    memset(bad, NOBODYS, sizeof bad);
    ops->upload(device, stage->bad, bad, s->n + MARGIN);
    ops->upload(device, stage->memory, stage->host,
                s->n * stage->stride * sizeof *memory);
    if (own)
        ops->upload(device, stage->sum, stage->host, total * sizeof *memory);
    list_parts(stage, stage->memory, parts);
    ops->add_parts(device, parts, s->n, s->elems, memory + at, stage->bad);
    memset(parts, 0xff, sizeof parts);
    float *got = to_host(memory, total);
    ops->download(device, bad, stage->bad, s->n + MARGIN);
    finish();
    check_sum(stage, got + at);
    check_nonfinite(stage, bad);
    check_margins(stage, got, stage->host, total, at);
    free(got);
}

static void play(const struct scene *scene)
{
    struct stage stage;
    open_stage(&stage, scene);
    act(&stage);
    close_stage(&stage);
}

static const uint32_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64};

static void sums_are_the_servers(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 3, 4, 257, 1024, 1025, 3001};
    for (size_t c = 0; c < COUNT(counts); c++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            play(&(struct scene){counts[c], sizes[i], ALL, 0, 0, -1});
}

static void absent_parts_leave_their_place(void **state)
{
    (void)state;
    const uint64_t masks[] = {
        0,
        1,
        0x5555555555555555,
        0xaaaaaaaaaaaaaaaa,
        0xfffffffffffffffe,
        0x8000000100000180,
        0x00ff00f00f00f00f,
        0xffffffff00000000,
        0x0123456789abcdef,
    };
    for (size_t c = 0; c < COUNT(counts); c++)
        for (size_t i = 0; i < COUNT(masks); i++)
            play(&(struct scene){counts[c], 1031, masks[i], 0, 0, -1});
    for (uint64_t mask = 0; mask < 1 << 5; mask++)
        play(&(struct scene){5, 9, mask, 0, 0, -1});
}

static void parts_may_lie_anywhere(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(counts); c++)
        for (size_t at = 0; at < MARGIN; at++)
            for (size_t apart = 0; apart < 3; apart++)
                play(&(struct scene){counts[c], 1 + 5 * c + at, ALL, at, apart,
                                     -1});
}

static void sums_may_be_over_a_part(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(counts); c++)
        for (size_t at = 0; at < 4; at++) {
            int n = (int)counts[c];
            const int over[] = {0, n / 2, n - 1};
            for (size_t i = 0; i < COUNT(over); i++) {
                struct scene s = {counts[c], 1027, ALL, at, 0, over[i]};
                play(&s);
                s.apart = 1;
                play(&s);
                /* also over an absent one */
                s.present ^= UINT64_C(1) << over[i];
                play(&s);
            }
        }
}

static void nonfinite_parts_are_named(void **state)
{
    (void)state;
    const float spoilers[] = {NAN, INFINITY, -INFINITY};
    for (size_t c = 0; c < COUNT(counts); c++)
        for (uint32_t p = 0; p < counts[c]; p++) {
            struct scene s = {counts[c], 1029, ALL, p % 4, 0, -1};
            s.in_place = p % 2 ? (int)((p + p / 2) % s.n) : -1;
            struct stage stage;
            open_stage(&stage, &s);
            size_t at = place(&stage, p) + p * 37 % s.elems;
            stage.host[at] = spoilers[p % 3];
            act(&stage);
            /* and another one, so that they cancel in the sum */
            uint32_t other = p * 5 % s.n;
            stage.host[place(&stage, other) + p * 37 % s.elems] = -INFINITY;
            stage.host[at] = INFINITY;
            act(&stage);
            close_stage(&stage);
        }
}

/* The sum of finite parts may overflow: then no part is named. An absent part
   is never named. */
static void finite_parts_are_not_named(void **state)
{
    (void)state;
    for (size_t c = 1; c < COUNT(counts); c++) {
        struct scene s = {counts[c], 61, ALL, 1, 0, -1};
        struct stage stage;
        open_stage(&stage, &s);
        for (uint32_t p = 0; p < s.n; p++)
            stage.host[place(&stage, p) + 60] = FLT_MAX;
        act(&stage);
        stage.host[place(&stage, 1)] = NAN;
        s.present ^= 2;
        act(&stage);
        close_stage(&stage);
    }
}

/* All bf16 values, at each alignment, and nothing outside the array. */
static void bf16_is_widened(void **state)
{
    enum {
        N = 65536
    };
    static uint16_t half[N + MARGIN];
    static float back[N + 2 * MARGIN];
    uint16_t *x = ops->alloc(device, sizeof half);
    float *out = ops->alloc(device, sizeof back);
    (void)state;
    for (uint32_t i = 0; i < N; i++)
        half[i] = (uint16_t)i;
    ops->upload(device, x, half, sizeof half);
    for (size_t at = 0; at < 5; at++) {
        size_t n = N - 7 * at;
        for (size_t i = 0; i < N + 2 * MARGIN; i++)
            back[i] = -7;
        ops->upload(device, out, back, sizeof back);
        ops->widen(device, n, x + at, out + at);
        ops->download(device, back, out, sizeof back);
        struct gw_error error;
        assert_int_equal(ops->sync(device, &error), GW_OK);
        for (size_t i = 0; i < n; i++) {
            uint32_t bits, is = (uint32_t)(at + i) << 16;
            memcpy(&bits, &back[at + i], sizeof bits);
            if ((is & 0x7fffffff) > 0x7f800000)
                assert_true(isnan(back[at + i]));
            else
                assert_int_equal(bits, is);
        }
        assert_true(back[at + n] == -7 && (at == 0 || back[at - 1] == -7));
    }
    ops->free(device, x);
    ops->free(device, out);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(bf16_is_widened),
        cmocka_unit_test(sums_are_the_servers),
        cmocka_unit_test(absent_parts_leave_their_place),
        cmocka_unit_test(parts_may_lie_anywhere),
        cmocka_unit_test(sums_may_be_over_a_part),
        cmocka_unit_test(nonfinite_parts_are_named),
        cmocka_unit_test(finite_parts_are_not_named),
    };
    return run_on_backends("backends add parts", cases, COUNT(cases));
}
