/* kernels/cuda/cuda_tune: the algorithms of products, on the emulated CUDA. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/table/emulated.h"

#define LAYERS 3
#define ELEMS  (40 * 200)

/* The last one has sums too short for split-K. */
static const struct gw_dense_shape shape[LAYERS] = {
    {40, 200, 30, 0, 0}, {40, 100, 30, 0, 0}, {40, 20, 30, 0, 0}};

static const struct gw_backend_ops *ops;

struct subject {
    struct gw_device *device;
    float *x, *w, *b, *y;
    float got[LAYERS][40 * 30];
    char text[GW_TUNED_BYTES];
    uint64_t operations; /* in both passes */
};

static const char *of = "a job";

static struct emulated_counts counts(void)
{
    struct emulated_counts now;
    emulated_control()->counts(&now);
    return now;
}

static void set_fastest(unsigned fastest)
{
    struct emulated_settings settings;
    emulated_control()->defaults(&settings);
    settings.fastest = fastest;
    emulated_control()->set(&settings);
}

static void *noise(struct gw_device *device, unsigned seed)
{
    float host[ELEMS];
    void *memory = ops->alloc(device, sizeof host);
    for (size_t i = 0; i < ELEMS; i++) {
        seed = seed * 1664525 + 1013904223;
        host[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    ops->upload(device, memory, host, sizeof host);
    return memory;
}

static void forward(struct subject *s, size_t i)
{
    ops->dense_forward(s->device, &shape[i], s->x, s->w, s->b, s->y, NULL,
                       NULL);
}

/* Each layer once while tuning, and once after it; `tunes`: or tuning alone. */
static void open_subject(struct subject *s,
                         enum gw_precision precision,
                         int tunes,
                         const char *known)
{
    const struct gw_device_options options = {.threads = 1,
                                              .precision = precision};
    struct gw_error error;
    if (ops->open(&options, &s->device, &error) != GW_OK)
        fail_msg("%s", error.text);
    s->x = noise(s->device, 1), s->w = noise(s->device, 2);
    s->b = noise(s->device, 3), s->y = noise(s->device, 4);
    assert_int_equal(ops->sync(s->device, &error), GW_OK);
    uint64_t before = counts().operations;
    if (tunes) {
        ops->tune(s->device, of, known);
        for (size_t i = 0; i < LAYERS; i++)
            forward(s, i);
    }
    ops->tuned(s->device, s->text);
    for (size_t i = 0; i < LAYERS; i++) {
        forward(s, i);
        ops->download(s->device, s->got[i], s->y, sizeof s->got[i]);
    }
    assert_int_equal(ops->sync(s->device, &error), GW_OK);
    s->operations = counts().operations - before;
}

static void close_subject(struct subject *s)
{
    void *all[] = {s->x, s->w, s->b, s->y};
    for (size_t i = 0; i < 4; i++)
        ops->free(s->device, all[i]);
    ops->close(s->device);
    emulated_assert_nothing_left();
}

static void run(struct subject *s, int tunes, const char *known)
{
    open_subject(s, GW_PRECISION_FP32, tunes, known);
    close_subject(s);
}

static struct subject plain, first, again;

static void the_fastest_algorithm_is_taken(void **state)
{
    (void)state;
    set_fastest(0);
    run(&plain, 0, NULL);
    assert_string_equal(plain.text, "");
    for (unsigned fastest = 0; fastest < EMULATED_ALGORITHMS; fastest++) {
        /* without the first algorithm, all indices are one lower */
        unsigned before = fastest ? fastest - 1 : 0;
        char choices[16];
        set_fastest(fastest);
        run(&first, 1, NULL);
        snprintf(choices, sizeof choices, ": %u %u %u", fastest, fastest,
                 before);
        const char *end = strrchr(first.text, ':');
        assert_non_null(end);
        assert_string_equal(end, choices);
        int same = memcmp(first.got, plain.got, sizeof plain.got) == 0;
        assert_int_equal(same, fastest < 2);
        assert_true(first.operations > 2 * plain.operations);
    }
}

static void known_algorithms_are_not_timed(void **state)
{
    (void)state;
    set_fastest(3);
    run(&first, 1, NULL);
    set_fastest(1);
    run(&again, 1, first.text);
    assert_string_equal(again.text, first.text);
    assert_memory_equal(again.got, first.got, sizeof first.got);
    set_fastest(0);
    run(&plain, 0, NULL);
    assert_true(again.operations < 2 * plain.operations + 2 * LAYERS);
}

static void choices_for_others_are_not_taken(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "x", "0 0 0", ": 0 0 0"};
    char text[GW_TUNED_BYTES];
    set_fastest(2);
    run(&first, 1, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        run(&again, 1, bad[i]);
        assert_string_equal(again.text, first.text);
    }
    open_subject(&again, GW_PRECISION_TF32, 1, first.text);
    close_subject(&again);
    assert_true(again.operations > 2 * plain.operations);
    of = "another job";
    run(&again, 1, first.text);
    assert_true(again.operations > 2 * plain.operations);
    of = "a job";
    /* the longest valid beginning */
    size_t head = (size_t)(strrchr(first.text, ':') - first.text);
    static const char *const ends[] = {": 1", ": 1 7 0", ": 1 -1", ": 1 x",
                                       ": 1 99999999999999999999"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(text, sizeof text, "%.*s%s", (int)head, first.text, ends[i]);
        run(&again, 1, text);
        assert_int_equal(strncmp(again.text + head, ": 1 2 ", 6), 0);
    }
}

static void later_products_are_not_timed(void **state)
{
    (void)state;
    const struct gw_dense_shape later = {7, 11, 5, 0, 0};
    struct gw_error error;
    char text[GW_TUNED_BYTES];
    set_fastest(2);
    open_subject(&again, GW_PRECISION_FP32, 1, NULL);
    uint64_t before = counts().operations;
    ops->dense_forward(again.device, &later, again.x, again.w, again.b, again.y,
                       NULL, NULL);
    assert_int_equal(ops->sync(again.device, &error), GW_OK);
    assert_true(counts().operations - before <= 2);
    ops->tuned(again.device, text);
    assert_string_equal(text, again.text);
    close_subject(&again);
}

/* Products that do not fit in the text are not tuned. */
static void products_may_be_too_many(void **state)
{
    (void)state;
    const struct gw_device_options options = {.threads = 1};
    struct gw_device *device;
    struct gw_error error;
    char text[GW_TUNED_BYTES];
    set_fastest(1);
    if (ops->open(&options, &device, &error) != GW_OK)
        fail_msg("%s", error.text);
    float *x = noise(device, 1), *w = noise(device, 2), *y = noise(device, 3);
    ops->tune(device, "many", NULL);
    for (size_t i = 1; i < GW_TUNED_BYTES; i++) {
        const struct gw_dense_shape many = {1, i, 1, 0, 0};
        ops->dense_forward(device, &many, x, w, x, y, NULL, NULL);
    }
    ops->tuned(device, text);
    assert_in_range(strlen(text), GW_TUNED_BYTES - 4, GW_TUNED_BYTES - 1);
    void *all[] = {x, w, y};
    for (size_t i = 0; i < 3; i++)
        ops->free(device, all[i]);
    ops->close(device);
    emulated_assert_nothing_left();
}

static void a_device_may_fail_meanwhile(void **state)
{
    (void)state;
    const struct gw_device_options options = {.threads = 1};
    struct emulated_settings settings;
    struct gw_error error;
    for (uint64_t at = 5; at < 60; at += 3) {
        emulated_control()->defaults(&settings);
        settings.fail_at = at;
        emulated_control()->set(&settings);
        struct subject s = {.text = ""};
        if (ops->open(&options, &s.device, &error) != GW_OK)
            fail_msg("%s", error.text);
        s.x = noise(s.device, 1), s.w = noise(s.device, 2);
        s.b = noise(s.device, 3), s.y = noise(s.device, 4);
        ops->tune(s.device, "a job", NULL);
        for (size_t i = 0; i < LAYERS; i++)
            forward(&s, i);
        ops->tuned(s.device, s.text);
        assert_int_equal(ops->sync(s.device, &error), GW_EIO);
        close_subject(&s);
    }
}

int main(void)
{
    char why[GW_WHY_BYTES];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_algorithm_is_taken),
        cmocka_unit_test(known_algorithms_are_not_timed),
        cmocka_unit_test(choices_for_others_are_not_taken),
        cmocka_unit_test(later_products_are_not_timed),
        cmocka_unit_test(products_may_be_too_many),
        cmocka_unit_test(a_device_may_fail_meanwhile),
    };
    ops = emulated_backend(why, sizeof why);
    if (!ops) {
        printf("1..0 # SKIP %s\n", why);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
