/* tests/cuda: the emulated cublasLt computes, and rejects errors. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <tests/cuda/include/cublasLt.h>

#include "tests/cuda/emulation.h"
#include "tests/cuda/narrow.h"

static void ok(cudaError_t error)
{
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(error));
}

static void fresh(void)
{
    struct emulated_settings settings;
    emulated_cuda.defaults(&settings);
    emulated_cuda.set(&settings);
}

static void *device_memory(size_t bytes)
{
    void *memory;
    ok(cudaMalloc(&memory, bytes));
    return memory;
}

struct multiplier {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layouts[4];
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    float *at[4], *bias;
};

static void fine(cublasStatus_t status)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        fail_msg("%s", cublasLtGetStatusName(status));
}

enum {
    M = 70,
    N = 5,
    K = 67,
    LD = 100,
    BATCHES = 2,
};

static void set_desc(struct multiplier *u, int attribute, const void *to)
{
    size_t bytes = attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? 8 : 4;
    fine(cublasLtMatmulDescSetAttribute(
        u->desc, (cublasLtMatmulDescAttributes_t)attribute, to, bytes));
}

static void set_layout(cublasLtMatrixLayout_t *layout,
                       uint64_t rows,
                       uint64_t cols,
                       int64_t stride)
{
    const int32_t batches = BATCHES;
    fine(cublasLtMatrixLayoutCreate(layout, CUDA_R_32F, rows, cols, LD));
    fine(cublasLtMatrixLayoutSetAttribute(
        *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches));
    fine(cublasLtMatrixLayoutSetAttribute(
        *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
        sizeof stride));
}

/* Small whole numbers: sums are exact. */
static float element(size_t i)
{
    return (float)((i * 7 + i / 5) % 9) - 4;
}

static void open_multiplier(struct multiplier *u,
                            cublasComputeType_t compute,
                            uint32_t epilogue)
{
    const int32_t t = CUBLAS_OP_T;
    const uint64_t workspace = 1 << 20;
    float *host = test_malloc(LD * LD * BATCHES * sizeof *host);
    for (size_t i = 0; i < LD * LD * BATCHES; i++)
        host[i] = element(i);
    fine(cublasLtCreate(&u->handle));
    fine(cublasLtMatmulDescCreate(&u->desc, compute, CUDA_R_32F));
    set_layout(&u->layouts[0], K, M, LD * LD); /* op(A) is M x K */
    set_layout(&u->layouts[1], K, N, LD * LD);
    set_layout(&u->layouts[2], M, N, LD * LD);
    set_layout(&u->layouts[3], M, N, LD * LD);
    for (int i = 0; i < 4; i++) {
        u->at[i] = device_memory(LD * LD * BATCHES * sizeof *host);
        ok(cudaMemcpyAsync(u->at[i], host, LD * LD * BATCHES * sizeof *host,
                           cudaMemcpyHostToDevice, NULL));
    }
    u->bias = device_memory(M * sizeof *host);
    ok(cudaMemcpyAsync(u->bias, host, M * sizeof *host, cudaMemcpyHostToDevice,
                       NULL));
    test_free(host);
    set_desc(u, CUBLASLT_MATMUL_DESC_TRANSA, &t);
    set_desc(u, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue);
    set_desc(u, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &u->bias);
    fine(cublasLtMatmulPreferenceCreate(&u->preference));
    fine(cublasLtMatmulPreferenceSetAttribute(
        u->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
        sizeof workspace));
}

static cublasStatus_t plan(struct multiplier *u)
{
    int found;
    return cublasLtMatmulAlgoGetHeuristic(
        u->handle, u->desc, u->layouts[0], u->layouts[1], u->layouts[2],
        u->layouts[3], u->preference, 1, &u->result, &found);
}

static cublasStatus_t
multiply(struct multiplier *u, float beta, void *workspace, size_t bytes)
{
    const float alpha = 2;
    return cublasLtMatmul(u->handle, u->desc, &alpha, u->at[0], u->layouts[0],
                          u->at[1], u->layouts[1], &beta, u->at[2],
                          u->layouts[2], u->at[3], u->layouts[3],
                          &u->result.algo, workspace, bytes, NULL);
}

static void close_multiplier(struct multiplier *u)
{
    ok(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) {
        fine(cublasLtMatrixLayoutDestroy(u->layouts[i]));
        ok(cudaFree(u->at[i]));
    }
    ok(cudaFree(u->bias));
    fine(cublasLtMatmulDescDestroy(u->desc));
    fine(cublasLtMatmulPreferenceDestroy(u->preference));
    fine(cublasLtDestroy(u->handle));
    struct emulated_counts counts;
    emulated_cuda.counts(&counts);
    assert_int_equal(counts.live_handles, 0);
}

static void products(void **state)
{
    (void)state;
    fresh();
    struct multiplier u;
    open_multiplier(&u, CUBLAS_COMPUTE_32F, CUBLASLT_EPILOGUE_RELU_BIAS);
    fine(plan(&u));
    void *workspace = device_memory(u.result.workspaceSize);
    fine(multiply(&u, 1, workspace, u.result.workspaceSize));
    float *d = test_malloc(LD * LD * BATCHES * sizeof *d);
    ok(cudaMemcpyAsync(d, u.at[3], LD * LD * BATCHES * sizeof *d,
                       cudaMemcpyDeviceToHost, NULL));
    for (size_t i = 0; i < LD * LD * BATCHES; i++) {
        size_t batch = i / LD / LD, col = i / LD % LD, row = i % LD;
        float sum = 0, want = element(i);
        for (size_t k = 0; k < K && row < M && col < N; k++)
            sum += element(batch * LD * LD + row * LD + k) *
                   element(batch * LD * LD + col * LD + k);
        if (row < M && col < N)
            want = 2 * sum + want + element(row) > 0
                       ? 2 * sum + want + element(row)
                       : 0;
        assert_true(d[i] == want);
    }
    test_free(d);
    close_multiplier(&u);
    ok(cudaFree(workspace));
}

/* The 11th bit of a mantissa is lost in the operands. */
static void tf32_is_visible(void **state)
{
    (void)state;
    fresh();
    const cublasComputeType_t computes[] = {CUBLAS_COMPUTE_32F,
                                            CUBLAS_COMPUTE_32F_FAST_TF32};
    for (int tf32 = 0; tf32 < 2; tf32++) {
        struct multiplier u;
        float x[K] = {1 + 0x1p-11f + 0x1p-12f}, one[K] = {1}, y;
        open_multiplier(&u, computes[tf32], CUBLASLT_EPILOGUE_DEFAULT);
        ok(cudaMemcpyAsync(u.at[0], x, sizeof x, cudaMemcpyHostToDevice, NULL));
        ok(cudaMemcpyAsync(u.at[1], one, sizeof one, cudaMemcpyHostToDevice,
                           NULL));
        fine(plan(&u));
        void *workspace = device_memory(u.result.workspaceSize);
        fine(multiply(&u, 0, workspace, u.result.workspaceSize));
        ok(cudaMemcpyAsync(&y, u.at[3], sizeof y, cudaMemcpyDeviceToHost,
                           NULL));
        assert_true(y == (tf32 ? 2 + 0x1p-9f : 2 * x[0]));
        close_multiplier(&u);
        ok(cudaFree(workspace));
    }
}

static void wrong_products_are_refused(void **state)
{
    (void)state;
    fresh();
    struct emulated_settings settings;
    struct multiplier u;
    open_multiplier(&u, CUBLAS_COMPUTE_32F, CUBLASLT_EPILOGUE_BIAS);
    fine(plan(&u));
    void *workspace = device_memory(u.result.workspaceSize);
    size_t bytes = u.result.workspaceSize;
    assert_true(bytes > 0);
    assert_int_equal(multiply(&u, 0, workspace, bytes - 1),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(multiply(&u, 0, NULL, bytes), CUBLAS_STATUS_INVALID_VALUE);
    /* less aligned than the algorithm was chosen for */
    u.at[1] += 16;
    assert_int_equal(multiply(&u, 0, workspace, bytes),
                     CUBLAS_STATUS_INVALID_VALUE);
    u.at[1] -= 16;
    /* another problem than the algorithm's */
    const uint32_t plain = CUBLASLT_EPILOGUE_DEFAULT;
    const uint32_t bias = CUBLASLT_EPILOGUE_BIAS;
    set_desc(&u, CUBLASLT_MATMUL_DESC_EPILOGUE, &plain);
    assert_int_equal(multiply(&u, 0, workspace, bytes),
                     CUBLAS_STATUS_INVALID_VALUE);
    set_desc(&u, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias);
    fine(multiply(&u, 0, workspace, bytes));
    assert_int_equal(cublasLtMatmulDescSetAttribute(
                         u.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    /* a leading dimension that is too small */
    cublasLtMatrixLayout_t narrow, wide = u.layouts[0];
    fine(cublasLtMatrixLayoutCreate(&narrow, CUDA_R_32F, K, M, K - 1));
    u.layouts[0] = narrow;
    assert_int_equal(plan(&u), CUBLAS_STATUS_INVALID_VALUE);
    u.layouts[0] = wide;
    fine(cublasLtMatrixLayoutDestroy(narrow));
    ok(cudaDeviceSynchronize());
    emulated_cuda.defaults(&settings);
    settings.no_fused_epilogue = 1;
    emulated_cuda.set(&settings);
    assert_int_equal(plan(&u), CUBLAS_STATUS_NOT_SUPPORTED);
    set_desc(&u, CUBLASLT_MATMUL_DESC_EPILOGUE, &plain);
    fine(plan(&u));
    close_multiplier(&u);
    ok(cudaFree(workspace));
}

/* By IEEE 754, and its upper 16 bits. */
static void numbers_of_16_bits_are_rounded_to_nearest(void **state)
{
    (void)state;
    static const struct {
        float value;
        unsigned half, bf16;
    } known[] = {
        {0, 0, 0},
        {-0.0f, 0x8000, 0x8000},
        {1, 0x3c00, 0x3f80},
        {-2, 0xc000, 0xc000},
        {0x1.01p0f, 0x3c04, 0x3f80}, /* ties of bf16, to even */
        {0x1.03p0f, 0x3c0c, 0x3f82},
        {0x1.011p0f, 0x3c04, 0x3f81},
        {0x1.002p0f, 0x3c00, 0x3f80}, /* and of fp16 */
        {0x1.006p0f, 0x3c02, 0x3f80},
        {0x1.0021p0f, 0x3c01, 0x3f80},
        {0x1.ffep0f, 0x4000, 0x4000},
        {65504, 0x7bff, 0x4780},
        {65519, 0x7bff, 0x4780},
        {65520, 0x7c00, 0x4780},
        {-70000, 0xfc00, 0xc789},
        {0x1p-14f, 0x0400, 0x3880},
        {0x1.ffcp-15f, 0x0400, 0x3880},
        {0x1.ff8p-15f, 0x03ff, 0x3880},
        {0x1p-24f, 0x0001, 0x3380},
        {0x1p-25f, 0x0000, 0x3300},
        {0x1.1p-25f, 0x0001, 0x3308},
        {0x1.fffffep127f, 0x7c00, 0x7f80},
        {INFINITY, 0x7c00, 0x7f80},
        {-INFINITY, 0xfc00, 0xff80},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(narrow_half(known[i].value), known[i].half);
        assert_int_equal(narrow_bf16(known[i].value), known[i].bf16);
    }
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float half = narrow_of_half((uint16_t)bits);
        float bf16 = narrow_of_bf16((uint16_t)bits);
        if (isnan(half))
            assert_true((bits & 0x7fff) > 0x7c00);
        else
            assert_int_equal(narrow_half(half), bits);
        if (isnan(bf16))
            assert_true((bits & 0x7fff) > 0x7f80);
        else
            assert_int_equal(narrow_bf16(bf16), bits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_16_bits_are_rounded_to_nearest),
        cmocka_unit_test(products),
        cmocka_unit_test(tf32_is_visible),
        cmocka_unit_test(wrong_products_are_refused),
    };
    return cmocka_run_group_tests_name("emulated cublasLt", tests, NULL, NULL);
}
