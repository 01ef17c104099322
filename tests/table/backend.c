#include "config.h"

#include "tests/table/backend.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/random.h"
#include "tests/cuda/narrow.h"
#include "tests/table/emulated.h"

/* Rounding of fp32 sums, relative to the sum of the terms' magnitudes. */
#define TOLERANCE 2e-6

#define SUBJECTS_MAX 12
#define CASES_MAX    32
#define RUNS_MAX     (SUBJECTS_MAX * CASES_MAX)

const struct gw_backend_ops *ops;
struct gw_device *device;
enum gw_precision precision;

float rounded(float value)
{
    if (precision == GW_PRECISION_BF16)
        return narrow_of_bf16(narrow_bf16(value));
    if (precision == GW_PRECISION_FP16)
        return narrow_of_half(narrow_half(value));
    return value;
}

static float normal(uint32_t array, size_t i)
{
    uint32_t u[4];
    float z[2];
    gw_random4(5, GW_RANDOM_TEST, array, i, u);
    gw_random_normal2(u[0], u[1], z);
    return z[0];
}

float *random_host(uint32_t array, size_t elems)
{
    float *host = malloc(elems * sizeof *host + 1);
    for (size_t i = 0; i < elems; i++)
        host[i] = rounded(normal(array, i));
    return host;
}

float *to_device(const float *host, size_t elems)
{
    float *memory = ops->alloc(device, elems * sizeof *host);
    assert_non_null(memory);
    ops->upload(device, memory, host, elems * sizeof *host);
    return memory;
}

float *random_device(uint32_t array, size_t elems)
{
    float *host = random_host(array, elems);
    float *memory = to_device(host, elems);
    free(host);
    return memory;
}

float *poisoned(size_t elems)
{
    float *host = malloc(elems * sizeof *host + 1);
    for (size_t i = 0; i < elems; i++)
        host[i] = NAN;
    float *memory = to_device(host, elems);
    free(host);
    return memory;
}

void finish(void)
{
    struct gw_error error;
    if (ops->sync(device, &error) != GW_OK)
        fail_msg("%s", error.text);
}

float *to_host(const float *memory, size_t elems)
{
    float *host = malloc(elems * sizeof *host + 1);
    ops->download(device, host, memory, elems * sizeof *host);
    finish();
    return host;
}

void assert_near(const float *memory,
                 const struct value *expected,
                 float beta,
                 const float *base,
                 size_t elems)
{
    float *host = to_host(memory, elems);
    for (size_t i = 0; i < elems; i++) {
        double want = expected[i].sum, size = expected[i].size + FLT_MIN;
        if (beta > 0) {
            want += (double)base[i];
            size += fabs((double)base[i]);
        }
        if (!(fabs((double)host[i] - want) <= TOLERANCE * size))
            fail_msg("element %zu of %zu: %.9g, not %.9g", i, elems,
                     (double)host[i], want);
    }
    free(host);
}

/* A backend in one precision; the emulated one, in one order of execution. */
struct subject {
    char name[32];
    enum gw_precision precision;
    const struct gw_backend_ops *ops;
    const struct emulated_way *way; /* NULL: not emulated */
};

/* One case on one subject. */
struct run {
    const struct subject *subject;
    uint64_t *digest; /* per case and precision, equal for all orders; 0:
                         not known yet */
    char name[96];
};

static struct subject subjects[SUBJECTS_MAX];
static size_t subject_count;
static struct run runs[RUNS_MAX];
static uint64_t digests[GW_PRECISION_FP16 + 1][CASES_MAX];
static struct CMUnitTest tests[RUNS_MAX];

static int open_backend(void **state)
{
    struct gw_error error;
    const struct run *run = *state;
    const struct gw_device_options options = {
        .threads = 1, .precision = run->subject->precision};
    const struct emulated_way *way = run->subject->way;
    if (way) {
        struct emulated_settings settings;
        emulated_control()->defaults(&settings);
        settings.order = way->order;
        settings.pace = way->pace;
        emulated_control()->set(&settings);
        emulated_digest();
    }
    ops = run->subject->ops;
    precision = run->subject->precision;
    if (ops->open(&options, &device, &error) == GW_OK)
        return 0;
    print_message("# %s\n", error.text);
    return 1;
}

static int close_backend(void **state)
{
    const struct run *run = *state;
    ops->close(device);
    if (!run->subject->way)
        return 0;
    emulated_assert_nothing_left();
    uint64_t digest = emulated_digest();
    if (*run->digest && *run->digest != digest)
        fail_msg("the bits depend on the order of execution");
    *run->digest = digest;
    return 0;
}

static void add_subject(const char *name,
                        enum gw_precision its,
                        const struct gw_backend_ops *backend,
                        const struct emulated_way *way)
{
    static const char *const endings[] = {
        [GW_PRECISION_FP32] = "",
        [GW_PRECISION_BF16] = " bf16",
        [GW_PRECISION_FP16] = " fp16",
    };
    assert_true(subject_count < SUBJECTS_MAX);
    struct subject *subject = &subjects[subject_count++];
    *subject = (struct subject){.precision = its, .ops = backend, .way = way};
    snprintf(subject->name, sizeof subject->name, "%s%s", name, endings[its]);
}

/* How TF32 rounds is up to the device: tests/gpu compares it. */
static void add_precisions(const char *name,
                           const struct gw_backend_ops *backend,
                           const struct emulated_way *way)
{
    add_subject(name, GW_PRECISION_BF16, backend, way);
    add_subject(name, GW_PRECISION_FP16, backend, way);
}

static void find_subjects(void)
{
    char why[GW_WHY_BYTES];
    const struct gw_backend_ops *backend;
    for (size_t b = 0; b < gw_backend_count(); b++) {
        backend = gw_backend_get(b, why, sizeof why);
        if (backend)
            add_subject(backend->name, GW_PRECISION_FP32, backend, NULL);
        if (backend && !backend->on_host)
            add_precisions(backend->name, backend, NULL);
        if (!backend)
            printf("# SKIP %s is not available: %s\n", gw_backend_name(b), why);
    }
    backend = emulated_backend(why, sizeof why);
    for (size_t i = 0; backend && i < EMULATED_WAYS; i++)
        add_subject(emulated_ways[i].name, GW_PRECISION_FP32, backend,
                    &emulated_ways[i]);
    if (backend)
        add_precisions(emulated_ways[0].name, backend,
                       &emulated_ways[EMULATED_WAYS - 1]);
    if (!backend)
        printf("# SKIP cuda-emulated is not available: %s\n", why);
}

int run_on_backends(const char *group, const struct CMUnitTest *cases, size_t n)
{
    size_t total = 0;
    cmocka_set_test_filter(getenv("GW_CASES"));
    find_subjects();
    for (size_t s = 0; s < subject_count && n <= CASES_MAX; s++)
        for (size_t c = 0; c < n; c++, total++) {
            struct run *run = &runs[total];
            run->subject = &subjects[s];
            run->digest = &digests[subjects[s].precision][c];
            snprintf(run->name, sizeof run->name, "%.31s %.60s",
                     subjects[s].name, cases[c].name);
            tests[total] = cases[c];
            tests[total].name = run->name;
            tests[total].setup_func = open_backend;
            tests[total].teardown_func = close_backend;
            tests[total].initial_state = run;
        }
    return _cmocka_run_group_tests(group, tests, total, NULL, NULL) ||
           n > CASES_MAX;
}
