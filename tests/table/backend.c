#include "config.h"

#include "tests/table/backend.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/random.h"

/* Rounding of fp32 sums, relative to the sum of the terms' sizes. */
#define TOLERANCE 2e-6

#define BACKENDS_MAX 8
#define CASES_MAX    32

const struct gw_backend_ops *ops;
struct gw_device *device;

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
        host[i] = normal(array, i);
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

static int open_backend(void **state)
{
    struct gw_error error;
    struct gw_device_options options = {.threads = 1};
    ops = *state;
    if (ops->open(&options, &device, &error) == GW_OK)
        return 0;
    print_message("# %s\n", error.text);
    return 1;
}

static int close_backend(void **state)
{
    (void)state;
    ops->close(device);
    return 0;
}

int run_on_backends(const char *group, const struct CMUnitTest *cases, size_t n)
{
    static struct CMUnitTest tests[BACKENDS_MAX * CASES_MAX];
    static char names[BACKENDS_MAX * CASES_MAX][64];
    size_t total = 0;
    cmocka_set_test_filter(getenv("GW_CASES"));
    for (size_t b = 0; b < gw_backend_count(); b++) {
        char why[GW_WHY_BYTES];
        if (b == BACKENDS_MAX || n > CASES_MAX)
            return 1;
        const struct gw_backend_ops *backend =
            gw_backend_get(b, why, sizeof why);
        if (!backend) {
            printf("# SKIP %s is not available: %s\n", gw_backend_name(b), why);
            continue;
        }
        for (size_t c = 0; c < n; c++, total++) {
            snprintf(names[total], sizeof names[0], "%s %s", backend->name,
                     cases[c].name);
            tests[total] = cases[c];
            tests[total].name = names[total];
            tests[total].setup_func = open_backend;
            tests[total].teardown_func = close_backend;
            tests[total].initial_state = (void *)(uintptr_t)backend;
        }
    }
    return _cmocka_run_group_tests(group, tests, total, NULL, NULL);
}
