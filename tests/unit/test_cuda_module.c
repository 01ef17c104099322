/*
 * The module for GPUs on the emulated CUDA: its promises besides right results,
 * which tests/table checks: no waiting, no allocation in later steps, correct
 * behaviour if a GPU fails, has no memory or lacks an ability.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cuda/cuda.h"
#include "kernels/kernels.h"
#include "tests/table/emulated.h"

#define WORKSPACE ((size_t)32 << 20) /* the module's, in device memory */
#define N         12                 /* samples */
#define CLASSES   10

static const struct gw_backend_ops *ops;
static const struct gw_conv_shape conv = {N, 3, 9, 9, 5, 3, 3, 1, 1, 1, 0};
static const struct gw_pool_shape pool = {N, 5, 9, 9, 3, 3};
/* With p = 0 a copy. */
static const struct gw_dropout_site nothing = {.p = 0};
static const struct gw_dense_shape dense = {N, 45, CLASSES, 0, 0};
#define X_ELEMS ((size_t)N * 3 * 81)
#define C_ELEMS ((size_t)N * 5 * 81) /* elements after the convolution */
#define P_ELEMS ((size_t)N * 45)     /* and after the pool */
#define K_ELEMS ((size_t)5 * 27)
#define W_ELEMS ((size_t)CLASSES * 45)

/* A small model on a device, with its memory. */
struct model {
    struct gw_device *device;
    float *x, *k, *kb, *c, *p, *w, *wb, *y; /* forward */
    float *dk, *dkb, *dc, *dp, *dw, *dwb, *dy;
    uint8_t *argmax;
    int32_t *labels;
    struct gw_loss *loss;
    void *scratch;
    float *host;     /* pinned, for x, then for dw */
    float *gradient; /* pinned, for dw */
};

static void set_way(const struct emulated_way *way, uint64_t fail_at)
{
    struct emulated_settings settings;
    emulated_control()->defaults(&settings);
    if (way) {
        settings.order = way->order;
        settings.pace = way->pace;
    }
    settings.fail_at = fail_at;
    emulated_control()->set(&settings);
}

static struct emulated_counts counts(void)
{
    struct emulated_counts now;
    emulated_control()->counts(&now);
    return now;
}

static void *filled(struct gw_device *device, size_t elems, unsigned from)
{
    float *host = test_malloc(elems * sizeof *host);
    float *memory = ops->alloc(device, elems * sizeof *host);
    emulated_fill(host, elems, from);
    ops->upload(device, memory, host, elems * sizeof *host);
    test_free(host);
    return memory;
}

/* The memory may be NULL if the device has failed. */
static void open_model(struct model *m)
{
    struct gw_device *d = m->device = emulated_open(ops, GW_PRECISION_FP32);
    int32_t labels[N];
    for (int32_t i = 0; i < N; i++)
        labels[i] = i % CLASSES;
    m->x = filled(d, X_ELEMS, 1), m->k = filled(d, K_ELEMS, 2);
    m->kb = filled(d, 5, 3), m->c = filled(d, C_ELEMS, 4);
    m->p = filled(d, P_ELEMS, 5), m->w = filled(d, W_ELEMS, 6);
    m->wb = filled(d, CLASSES, 7), m->y = filled(d, N * CLASSES, 8);
    m->dk = filled(d, K_ELEMS, 9), m->dkb = filled(d, 5, 10);
    m->dc = filled(d, C_ELEMS, 11), m->dp = filled(d, P_ELEMS, 12);
    m->dw = filled(d, W_ELEMS, 13), m->dwb = filled(d, CLASSES, 14);
    m->dy = filled(d, N * CLASSES, 15);
    m->argmax = ops->alloc(d, P_ELEMS);
    m->labels = ops->alloc(d, sizeof labels);
    m->loss = ops->alloc(d, sizeof *m->loss);
    m->scratch =
        ops->alloc(d, ops->conv_scratch_bytes(&conv, GW_PRECISION_FP32));
    m->host = ops->alloc_host(d, X_ELEMS * sizeof *m->host);
    m->gradient = ops->alloc_host(d, W_ELEMS * sizeof *m->gradient);
    ops->upload(d, m->labels, labels, sizeof labels);
}

static void close_model(struct model *m)
{
    void *device[] = {m->x,    m->k,       m->kb,     m->c,     m->p,
                      m->w,    m->wb,      m->y,      m->dk,    m->dkb,
                      m->dc,   m->dp,      m->dw,     m->dwb,   m->dy,
                      m->loss, m->scratch, m->argmax, m->labels};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        ops->free(m->device, device[i]);
    ops->free_host(m->device, m->host);
    ops->free_host(m->device, m->gradient);
    ops->close(m->device);
    emulated_assert_nothing_left();
}

/* A step as a worker makes it; returns the point at which `gradient` has dw. */
static uint64_t step(struct model *m, uint64_t number)
{
    struct gw_device *d = m->device;
    const struct gw_dropout_site site = {3, number, 1, 0, 0.3f};
    ops->upload(d, m->x, m->host, X_ELEMS * sizeof *m->host);
    ops->conv_forward(d, &conv, m->x, m->k, m->kb, m->c, m->scratch);
    ops->pool_forward(d, &pool, m->c, m->p, m->argmax);
    ops->dropout(d, &site, N, 45, m->p, m->p);
    ops->dense_forward(d, &dense, m->p, m->w, m->wb, m->y, NULL, NULL);
    ops->softmax_loss(d, N, CLASSES, m->y, m->labels, 1, m->dy, m->loss);
    ops->dense_backward(d, &dense, m->p, NULL, m->w, m->dy, 0, m->dp, m->dw,
                        m->dwb, NULL);
    uint64_t point = ops->fetch(d, m->gradient, m->dw, W_ELEMS * sizeof(float));
    ops->dropout(d, &site, N, 45, m->dp, m->dp);
    ops->pool_backward(d, &pool, m->dp, m->argmax, m->dc);
    ops->dropout(d, &site, N, C_ELEMS / N, m->dc, m->dc);
    ops->conv_backward(d, &conv, m->x, m->k, m->dc, 0, NULL, m->dk, m->dkb,
                       m->scratch);
    return point;
}

static enum gw_status wait_for(struct model *m, uint64_t point)
{
    struct gw_error error;
    return ops->reach(m->device, point, 1, &error);
}

/* ---- promises ---- */

static void steps_do_not_wait(void **state)
{
    (void)state;
    struct model m;
    set_way(NULL, 0);
    open_model(&m);
    emulated_fill(m.host, X_ELEMS, 1);
    assert_int_equal(wait_for(&m, step(&m, 1)), GW_OK);
    struct emulated_counts before = counts();
    uint64_t point = step(&m, 2);
    assert_int_equal(counts().waits, before.waits);
    assert_int_equal(counts().questions, before.questions);
    assert_int_equal(counts().operations, before.operations);
    assert_int_equal(wait_for(&m, point), GW_OK);
    assert_true(counts().operations > before.operations);
    close_model(&m);
}

static void nothing_is_made_twice(void **state)
{
    (void)state;
    struct model m;
    set_way(NULL, 0);
    open_model(&m);
    emulated_fill(m.host, X_ELEMS, 1);
    assert_int_equal(wait_for(&m, step(&m, 1)), GW_OK);
    struct emulated_counts first = counts();
    assert_true(first.heuristics > 0);
    for (uint64_t i = 2; i < 5; i++)
        assert_int_equal(wait_for(&m, step(&m, i)), GW_OK);
    assert_int_equal(counts().allocations, first.allocations);
    assert_int_equal(counts().host_allocations, first.host_allocations);
    assert_int_equal(counts().heuristics, first.heuristics);
    assert_int_equal(counts().live_handles, first.live_handles);
    assert_int_equal(counts().live_events, first.live_events);
    close_model(&m);
}

/* Per step: a convolution both ways, and a dense layer's backward. */
#define GRAPHS 3

static void set_graphs(const struct emulated_way *way, int graphs)
{
    struct emulated_settings settings;
    emulated_control()->defaults(&settings);
    settings.order = way->order;
    settings.pace = way->pace;
    settings.no_graphs = !graphs;
    settings.broken_graphs = graphs == 2;
    emulated_control()->set(&settings);
}

static void assert_reports(const struct model *m, const char *words)
{
    char text[GW_REPORT_BYTES];
    ops->report(m->device, text, sizeof text);
    if (strncmp(text, words, strlen(words)) != 0)
        fail_msg("it reports \"%s\", not \"%s\"", text, words);
}

/* From the second time on; with the same bits, also if streams cannot be
   captured or captured graphs are invalid, which the report says. */
static void equal_calls_are_one_launch(void **state)
{
    (void)state;
    static float expected[4][W_ELEMS];
    static const char *const words[] = {
        "graphs 0 of 3 (operation not supported)", "graphs 3 of 3",
        ("graphs 0 of 3 (operation failed due to a previous error during "
         "capture)")};
    for (int graphs = 0; graphs < 3; graphs++)
        for (size_t way = 0; way < EMULATED_WAYS; way++) {
            struct model m;
            set_graphs(&emulated_ways[way], graphs);
            open_model(&m);
            for (unsigned i = 0; i < 4; i++) {
                uint64_t before = counts().graphs;
                emulated_fill(m.host, X_ELEMS, 100 * i);
                assert_int_equal(wait_for(&m, step(&m, i)), GW_OK);
                assert_int_equal(counts().graphs - before,
                                 graphs == 1 && i > 0 ? GRAPHS : 0);
                if (graphs == 0 && way == 0)
                    memcpy(expected[i], m.gradient, sizeof expected[i]);
                assert_memory_equal(expected[i], m.gradient,
                                    sizeof expected[i]);
            }
            assert_reports(&m, words[graphs]);
            close_model(&m);
        }
}

/* Each call gets its own arguments, also with more calls than the device
   caches: db is the sum of rows of i, added to the call before if beta is 1. */
static void different_calls_are_not_confused(void **state)
{
    (void)state;
    enum {
        CALLS = 300,
        ROWS = 45 * N, /* rows of one number */
    };
    struct model m;
    float rows[ROWS], db = 0, found;
    set_way(NULL, 0);
    open_model(&m);
    for (int times = 0; times < 3; times++)
        for (size_t i = 0; i < CALLS; i++) {
            const struct gw_dense_shape s = {1 + i % ROWS, 1, 1, 0, 0};
            float beta = (float)((i + i / ROWS) % 2);
            for (size_t e = 0; e < s.n; e++)
                rows[e] = (float)i;
            ops->upload(m.device, m.p, rows, s.n * sizeof *rows);
            ops->dense_backward(m.device, &s, m.p, NULL, m.w, m.p, beta, m.dp,
                                m.dw, m.dwb, NULL);
            ops->download(m.device, &found, m.dwb, sizeof found);
            assert_int_equal(ops->sync(m.device, NULL), GW_OK);
            db = (float)(i * s.n) + beta * db;
            assert_true(found == db);
        }
    close_model(&m);
}

/* Batch sizes that occur once, as when shares follow speed: their plans and
   graphs are evicted, and do not keep out new ones. */
static void unused_entries_are_evicted(void **state)
{
    (void)state;
    enum {
        INS = 45,
        OUTS = 3,
        SHAPES = N * INS * OUTS,
        HANDLES = 4, /* handles of cublasLt per plan */
        OTHERS = 8
    };
    struct model m;
    set_way(NULL, 0);
    open_model(&m);
    uint64_t before = 0;
    for (size_t i = 0; i <= SHAPES; i++) {
        size_t shape = i < SHAPES ? i : SHAPES - 1;
        const struct gw_dense_shape s = {1 + shape / OUTS / INS,
                                         1 + shape / OUTS % INS,
                                         1 + shape % OUTS, 0, 0};
        before = counts().graphs;
        ops->dense_backward(m.device, &s, m.p, NULL, m.w, m.dy, 0, m.dp, m.dw,
                            m.dwb, NULL);
        assert_int_equal(ops->sync(m.device, NULL), GW_OK);
    }
    assert_int_equal(counts().graphs - before, 1); /* the latest one again */
    assert_in_range(counts().live_handles, HANDLES * GW_CUDA_KEPT,
                    HANDLES * (GW_CUDA_IDLE + OTHERS));
    close_model(&m);
}

/* The host refills its buffer as soon as it may, and reads results as soon as
   they are reached, at any progress of the device. */
static void buffers_are_used_in_time(void **state)
{
    (void)state;
    enum {
        STEPS = 4,
    };
    static float expected[STEPS][W_ELEMS];
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        struct model m;
        set_way(&emulated_ways[way], 0);
        open_model(&m);
        for (uint64_t i = 0; i < STEPS; i++) {
            emulated_fill(m.host, X_ELEMS, (unsigned)(100 * i));
            assert_int_equal(wait_for(&m, step(&m, i)), GW_OK);
            if (way == 0)
                memcpy(expected[i], m.gradient, sizeof expected[i]);
            assert_memory_equal(expected[i], m.gradient, sizeof expected[i]);
            if (i > 0)
                assert_memory_not_equal(expected[i], expected[i - 1],
                                        sizeof expected[i]);
            memset(m.host, 0xff, X_ELEMS * sizeof *m.host);
        }
        close_model(&m);
    }
}

/* ---- missing abilities ---- */

static void memory_runs_out(void **state)
{
    (void)state;
    struct gw_device_options options = {.threads = 1};
    struct gw_device *d = NULL;
    struct gw_error error;
    struct emulated_settings settings;
    uint64_t total, unused;
    emulated_control()->defaults(&settings);
    settings.memory_bytes = WORKSPACE / 2;
    emulated_control()->set(&settings);
    assert_int_equal(ops->open(&options, &d, &error), GW_ENOMEM);
    assert_non_null(strstr(error.text, "GPU 0"));
    emulated_assert_nothing_left();

    settings.memory_bytes = WORKSPACE + 100000;
    emulated_control()->set(&settings);
    d = emulated_open(ops, GW_PRECISION_FP32);
    void *most = ops->alloc(d, 90000);
    assert_non_null(most);
    assert_null(ops->alloc(d, 20000));
    ops->memory(d, &total, &unused);
    assert_int_equal(total, WORKSPACE + 100000);
    assert_int_equal(ops->takes.open, WORKSPACE);
    assert_true(unused <= 10000);
    ops->free(d, most);
    /* and the device still works */
    most = ops->alloc(d, 20000);
    assert_non_null(most);
    ops->dropout(d, &nothing, 1, 5000, most, most);
    assert_int_equal(ops->sync(d, &error), GW_OK);
    ops->free(d, most);
    ops->close(d);
    emulated_assert_nothing_left();
}

/* Each failure, in set-up or in a step, is reported when the host waits, and is
   sticky; the host never hangs or crashes. */
static void failures_are_reported(void **state)
{
    (void)state;
    uint64_t fail_at = 1, last = 0;
    for (int ended = 0; !ended; fail_at += last < 30 ? 1 : 7) {
        struct model m;
        struct gw_error error = {.text = ""};
        set_way(&emulated_ways[fail_at % EMULATED_WAYS], fail_at);
        last = fail_at;
        open_model(&m);
        if (m.host)
            emulated_fill(m.host, X_ELEMS, 1);
        for (uint64_t i = 0; i < 2; i++)
            wait_for(&m, step(&m, i));
        ended = ops->sync(m.device, &error) == GW_OK;
        if (!ended) {
            assert_int_equal(error.status, GW_EIO);
            assert_non_null(strstr(error.text, "GPU 0 failed in "));
            assert_non_null(strstr(error.text, "an illegal memory access"));
            assert_null(strchr(error.text, '\n'));
            assert_int_equal(wait_for(&m, step(&m, 3)), GW_EIO);
            assert_null(ops->alloc(m.device, 10));
        }
        close_model(&m);
    }
    assert_true(fail_at > 60);
}

static void ordinals_are_those_that_are_there(void **state)
{
    (void)state;
    struct gw_device_options options = {.threads = 1, .ordinal = 1};
    struct gw_device *d = NULL;
    struct gw_error error;
    set_way(NULL, 0);
    assert_int_equal(ops->open(&options, &d, &error), GW_ERANGE);
    assert_non_null(strstr(error.text, "cuda:1"));
    assert_null(d);
}

/* Locating a missing device is no failure of an open one. */
static void addresses_follow_ordinals(void **state)
{
    (void)state;
    char address[GW_PCI_ADDRESS_BYTES];
    struct gw_error error;
    set_way(NULL, 0);
    setenv("GW_FAKE_CUDA", "devices=2 bus=175", 1);
    struct gw_device *d = emulated_open(ops, GW_PRECISION_FP32);
    ops->locate(0, address);
    assert_string_equal(address, "0000:af:00.0");
    ops->locate(1, address);
    assert_string_equal(address, "0000:b0:00.0");
    ops->locate(2, address);
    assert_string_equal(address, "");
    assert_int_equal(ops->sync(d, &error), GW_OK);
    ops->close(d);
    unsetenv("GW_FAKE_CUDA");
}

/* ---- products ---- */

/* y = x w^T + b, in float on the host. */
static void multiply(enum gw_precision precision, float y[N * CLASSES])
{
    struct gw_device *d = emulated_open(ops, precision);
    float *x = filled(d, P_ELEMS, 3), *w = filled(d, W_ELEMS, 4);
    float *b = filled(d, CLASSES, 5), *my = filled(d, (size_t)N * CLASSES, 6);
    float *scaled = filled(d, P_ELEMS, 3);
    void *scratch = ops->alloc(d, ops->dense_scratch_bytes(&dense, precision));
    const struct gw_dropout_site site = {.p = 0.1f}; /* fills the mantissas */
    ops->dropout(d, &site, 1, P_ELEMS, x, scaled);
    ops->dense_forward(d, &dense, scaled, w, b, my, NULL, scratch);
    ops->download(d, y, my, N * CLASSES * sizeof *y);
    void *all[] = {x, w, b, my, scaled, scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ops->free(d, all[i]);
    ops->close(d);
}

static double largest_difference(const float *a, const float *b)
{
    double most = 0;
    for (size_t i = 0; i < (size_t)N * CLASSES; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* If cublasLt cannot add the bias, our kernel does. */
static void epilogues_may_be_missing(void **state)
{
    (void)state;
    struct emulated_settings settings;
    float fused[N * CLASSES], apart[N * CLASSES];
    set_way(NULL, 0);
    multiply(GW_PRECISION_FP32, fused);
    emulated_control()->defaults(&settings);
    settings.no_fused_epilogue = 1;
    emulated_control()->set(&settings);
    multiply(GW_PRECISION_FP32, apart);
    assert_true(largest_difference(fused, apart) < 1e-5);
}

static void tf32_rounds_operands(void **state)
{
    (void)state;
    float exact[N * CLASSES], rounded[N * CLASSES];
    set_way(NULL, 0);
    multiply(GW_PRECISION_FP32, exact);
    multiply(GW_PRECISION_TF32, rounded);
    double most = largest_difference(exact, rounded);
    assert_true(most > 1e-5 && most < 2e-2);
}

static int find_module(void **state)
{
    char why[GW_WHY_BYTES];
    (void)state;
    ops = emulated_backend(why, sizeof why);
    if (!ops)
        print_error("%s\n", why);
    return ops == NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_do_not_wait),
        cmocka_unit_test(nothing_is_made_twice),
        cmocka_unit_test(equal_calls_are_one_launch),
        cmocka_unit_test(different_calls_are_not_confused),
        cmocka_unit_test(unused_entries_are_evicted),
        cmocka_unit_test(buffers_are_used_in_time),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(failures_are_reported),
        cmocka_unit_test(ordinals_are_those_that_are_there),
        cmocka_unit_test(addresses_follow_ordinals),
        cmocka_unit_test(epilogues_may_be_missing),
        cmocka_unit_test(tf32_rounds_operands),
    };
    return cmocka_run_group_tests_name("module for GPUs", tests, find_module,
                                       NULL);
}
