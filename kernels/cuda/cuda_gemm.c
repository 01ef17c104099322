/*
 * Matrix products by cublasLt, which is column-major: its matrices are the
 * transposes of ours, so c = a b is computed as c^T = b^T a^T, and our b comes
 * first. The algorithm of a product depends only on its key and on tuning, and
 * is chosen once; nothing is allocated when a key comes again.
 *
 * The same bits each time: split-K algorithms are allowed only if they write
 * the parts and reduce them in a step of their own, and one workspace serves
 * one stream.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_MAX 64 /* of weights and activations; 16 is required */

/* All parameters that the choice depends on; compared as bytes. */
struct key {
    size_t m, n, k, batch;
    size_t a_ld, a_t, a_stride, a_align;
    size_t b_ld, b_t, b_stride, b_align;
    size_t c_ld, c_stride, c_align;
    size_t bias_align; /* 0: none */
    size_t epilogue, has_mask;
};

struct gw_cuda_plan {
    struct gw_cuda_plan *next;
    struct key key;
    uint64_t used;   /* number of the latest product */
    int tuned;       /* it was timed: never evicted */
    const char *why; /* reason why cublasLt cannot; NULL: it can */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
};

static int has_bias(enum gw_cuda_epilogue epilogue)
{
    return epilogue == GW_CUDA_BIAS || epilogue == GW_CUDA_RELU;
}

static int has_mask(const struct gw_cuda_product *p)
{
    return p->epilogue == GW_CUDA_DRELU ||
           (p->epilogue == GW_CUDA_RELU && p->mask);
}

/* stride: in bytes */
static size_t align_of(const void *at, size_t stride, size_t batch)
{
    size_t bits = (uintptr_t)at | ALIGN_MAX;
    if (batch > 1)
        bits |= stride;
    return bits & (~bits + 1); /* the lowest one */
}

static struct key key_of(const struct gw_device *device,
                         const struct gw_cuda_product *p)
{
    size_t bytes = gw_cuda_operand_bytes(device->precision);
    return (struct key){
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = p->batch,
        .a_ld = p->a.ld,
        .a_t = p->a.t != 0,
        .a_stride = p->a.stride,
        .a_align = align_of(p->a.at, p->a.stride * bytes, p->batch),
        .b_ld = p->b.ld,
        .b_t = p->b.t != 0,
        .b_stride = p->b.stride,
        .b_align = align_of(p->b.at, p->b.stride * bytes, p->batch),
        .c_ld = p->ld,
        .c_stride = p->stride,
        .c_align = align_of(p->c, p->stride * sizeof(float), p->batch),
        .bias_align = has_bias(p->epilogue) ? align_of(p->bias, 0, 1) : 0,
        .epilogue = p->epilogue,
        .has_mask = has_mask(p) != 0,
    };
}

/* ---- making a plan ---- */

static cudaDataType_t operand_type(const struct gw_device *device)
{
    switch (device->precision) {
    case GW_PRECISION_BF16:
        return CUDA_R_16BF;
    case GW_PRECISION_FP16:
        return CUDA_R_16F;
    case GW_PRECISION_FP32:
    case GW_PRECISION_TF32:
        break;
    }
    return CUDA_R_32F;
}

/* Layout of a matrix that is stored row-major as rows x columns. */
static cublasStatus_t describe_matrix(cublasLtMatrixLayout_t *layout_p,
                                      cudaDataType_t type,
                                      size_t rows,
                                      size_t columns,
                                      size_t ld,
                                      size_t batch,
                                      size_t stride)
{
    int32_t count = (int32_t)batch;
    int64_t offset = (int64_t)stride;
    cublasStatus_t status =
        cublasLtMatrixLayoutCreate(layout_p, type, columns, rows, (int64_t)ld);
    if (status != CUBLAS_STATUS_SUCCESS || batch == 1)
        return status;
    status = cublasLtMatrixLayoutSetAttribute(
        *layout_p, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    return cublasLtMatrixLayoutSetAttribute(
        *layout_p, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset,
        sizeof offset);
}

static cublasStatus_t describe_matrices(const struct gw_device *device,
                                        struct gw_cuda_plan *plan)
{
    const struct key *k = &plan->key;
    cudaDataType_t type = operand_type(device);
    size_t a_rows = k->a_t ? k->k : k->m, a_columns = k->a_t ? k->m : k->k;
    size_t b_rows = k->b_t ? k->n : k->k, b_columns = k->b_t ? k->k : k->n;
    cublasStatus_t status = describe_matrix(&plan->a, type, a_rows, a_columns,
                                            k->a_ld, k->batch, k->a_stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrix(&plan->b, type, b_rows, b_columns, k->b_ld,
                                 k->batch, k->b_stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrix(&plan->c, CUDA_R_32F, k->m, k->n, k->c_ld,
                                 k->batch, k->c_stride);
    return status;
}

static cublasLtEpilogue_t name_of(const struct key *key)
{
    switch ((enum gw_cuda_epilogue)key->epilogue) {
    case GW_CUDA_PLAIN:
        break;
    case GW_CUDA_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case GW_CUDA_RELU:
        return key->has_mask ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS
                             : CUBLASLT_EPILOGUE_RELU_BIAS;
    case GW_CUDA_DRELU:
        return CUBLASLT_EPILOGUE_DRELU;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

/* Sets the addresses besides the matrices; they may change with each call. */
static cublasStatus_t
set_pointers(struct gw_cuda_plan *plan, const float *bias, const void *mask)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (plan->key.bias_align)
        status = cublasLtMatmulDescSetAttribute(
            plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
            sizeof bias);
    if (plan->key.has_mask && status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(
            plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &mask,
            sizeof mask);
    return status;
}

static cublasStatus_t describe_product(const struct gw_device *device,
                                       struct gw_cuda_plan *plan,
                                       const struct gw_cuda_product *p)
{
    const struct key *key = &plan->key;
    cublasOperation_t first = key->b_t ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = key->a_t ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = name_of(key);
    int64_t row = (int64_t)gw_cuda_mask_row(key->n);
    cublasComputeType_t compute = device->precision == GW_PRECISION_TF32
                                      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                      : CUBLAS_COMPUTE_32F;
    const struct {
        cublasLtMatmulDescAttributes_t name;
        const void *value;
        size_t bytes;
    } attributes[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first},
        {CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &row, sizeof row},
    };
    cublasStatus_t status =
        cublasLtMatmulDescCreate(&plan->product, compute, CUDA_R_32F);
    for (size_t i = 0;
         i < (key->has_mask ? 4 : 3) && status == CUBLAS_STATUS_SUCCESS; i++)
        status = cublasLtMatmulDescSetAttribute(
            plan->product, attributes[i].name, attributes[i].value,
            attributes[i].bytes);
    return status == CUBLAS_STATUS_SUCCESS
               ? set_pointers(plan, p->bias, p->mask)
               : status;
}

static cublasStatus_t set_preference(cublasLtMatmulPreference_t preference,
                                     const struct key *key)
{
    uint64_t workspace = GW_CUDA_WORKSPACE;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t a = (uint32_t)key->a_align, b = (uint32_t)key->b_align;
    uint32_t c = (uint32_t)key->c_align, d = c;
    if (key->bias_align && key->bias_align < d)
        d = (uint32_t)key->bias_align; /* bias is read with d's alignment */
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } attributes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
         sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
         sizeof reduction},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b, sizeof b},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a, sizeof a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof d},
    };
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes &&
                       status == CUBLAS_STATUS_SUCCESS;
         i++)
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, attributes[i].name, attributes[i].value,
            attributes[i].bytes);
    return status;
}

static cublasStatus_t run(struct gw_device *device,
                          struct gw_cuda_plan *plan,
                          const struct gw_cuda_product *p,
                          float alpha)
{
    cublasStatus_t status = set_pointers(plan, p->bias, p->mask);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    return cublasLtMatmul(device->blas, plan->product, &alpha, p->b.at, plan->b,
                          p->a.at, plan->a, &p->beta, p->c, plan->c, p->c,
                          plan->c, &plan->algo, device->workspace,
                          GW_CUDA_WORKSPACE, device->compute);
}

/* The algorithms that support a product, in cublasLt's order of preference. */
static cublasStatus_t find_algos(const struct gw_device *device,
                                 struct gw_cuda_plan *plan,
                                 cublasLtMatmulAlgo_t algos[GW_CUDA_ALGOS],
                                 int *n_p)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[GW_CUDA_ALGOS];
    int n = 0, all = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    status = set_preference(preference, &plan->key);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(
            device->blas, plan->product, plan->b, plan->a, plan->c, plan->c,
            preference, device->tuning.on ? GW_CUDA_ALGOS : 1, found, &all);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < all; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            algos[n++] = found[i].algo;
    if (status == CUBLAS_STATUS_SUCCESS && n == 0)
        status = all ? found[0].state : CUBLAS_STATUS_NOT_SUPPORTED;
    *n_p = n;
    cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* A product with all its algorithms. */
struct attempt {
    struct gw_device *device;
    struct gw_cuda_plan *plan;
    const struct gw_cuda_product *product;
    cublasLtMatmulAlgo_t algos[GW_CUDA_ALGOS];
};

static int attempt(void *context, int algo)
{
    const struct attempt *a = context;
    a->plan->algo = a->algos[algo];
    return run(a->device, a->plan, a->product, 1) == CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t choose(struct gw_device *device,
                             struct gw_cuda_plan *plan,
                             const struct gw_cuda_product *p)
{
    struct attempt all = {.device = device, .plan = plan, .product = p};
    int n;
    cublasStatus_t status = find_algos(device, plan, all.algos, &n);
    if (status == CUBLAS_STATUS_SUCCESS)
        plan->algo = all.algos[gw_cuda_choose_algo(device, n, attempt, &all)];
    return status;
}

/* A gw_cuda_queue_trial. */
static int queue_trial(void *context, float alpha, const float *bias)
{
    const struct attempt *a = context;
    struct gw_cuda_product product = *a->product;
    product.bias = bias;
    return run(a->device, a->plan, &product, alpha) == CUBLAS_STATUS_SUCCESS;
}

/* Also frees a half-made plan. */
static void free_plan(struct gw_cuda_plan *plan)
{
    if (plan->c)
        cublasLtMatrixLayoutDestroy(plan->c);
    if (plan->b)
        cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->a)
        cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->product)
        cublasLtMatmulDescDestroy(plan->product);
    free(plan);
}

/* 1 if a retry would give the same status. */
static int is_permanent(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ||
           status == CUBLAS_STATUS_NOT_SUPPORTED ||
           status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/* Returns NULL, or the reason why the product does not work, with *permanent_p
   at 1 if it never will. */
static const char *prepare(struct gw_device *device,
                           struct gw_cuda_plan *plan,
                           const struct gw_cuda_product *p,
                           int *permanent_p)
{
    struct attempt all = {.device = device, .plan = plan, .product = p};
    cublasStatus_t status = describe_product(device, plan, p);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrices(device, plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = choose(device, plan, p);
    *permanent_p = is_permanent(status);
    if (status != CUBLAS_STATUS_SUCCESS)
        return cublasLtGetStatusString(status);
    if (p->epilogue != GW_CUDA_RELU)
        return NULL;
    return gw_cuda_try_relu(device, p, queue_trial, &all, permanent_p);
}

/* Evicts the least recently used plan; see GW_CUDA_KEPT. Queued and recorded
   products do not need it. */
static void drop_idle(struct gw_device *device)
{
    struct gw_cuda_plan **oldest = NULL;
    if (device->plans_n < GW_CUDA_KEPT)
        return;
    for (struct gw_cuda_plan **at = &device->plans; *at; at = &(*at)->next)
        if (!(*at)->tuned && (!oldest || (*at)->used < (*oldest)->used))
            oldest = at;
    if (!oldest || device->products - (*oldest)->used <= GW_CUDA_IDLE)
        return;
    struct gw_cuda_plan *plan = *oldest;
    *oldest = plan->next;
    device->plans_n--;
    free_plan(plan);
}

/* NULL with the reason in *why_p: there is no plan now, but a later attempt may
   succeed. */
static struct gw_cuda_plan *make_plan(struct gw_device *device,
                                      const struct key *key,
                                      const struct gw_cuda_product *p,
                                      const char **why_p)
{
    int permanent;
    struct gw_cuda_plan *plan = calloc(1, sizeof *plan);
    *why_p = "no memory for a plan";
    if (!plan)
        return NULL;
    plan->key = *key;
    *why_p = plan->why = prepare(device, plan, p, &permanent);
    if (!permanent) {
        free_plan(plan);
        return NULL;
    }
    drop_idle(device);
    plan->used = device->products;
    plan->tuned = device->tuning.on;
    plan->next = device->plans;
    device->plans = plan;
    device->plans_n++;
    return plan;
}

void gw_cuda_drop_plans(struct gw_device *device)
{
    while (device->plans) {
        struct gw_cuda_plan *plan = device->plans;
        device->plans = plan->next;
        free_plan(plan);
    }
}

/* ---- operands ---- */

const void *gw_cuda_operand(struct gw_device *device,
                            const char *op,
                            const float *from,
                            size_t elems,
                            char **scratch)
{
    char *copy = *scratch;
    if (!gw_cuda_narrows(device->precision))
        return from;
    gw_cuda_narrow(device, op, from, elems, copy);
    *scratch = copy + gw_cuda_copy_bytes(device->precision, elems);
    return copy;
}

/* ---- products ---- */

/* Finds or makes a plan, as make_plan. A list suffices: a model has some dozens
   of products for each size of its batches. */
static struct gw_cuda_plan *plan_of(struct gw_device *device,
                                    const struct gw_cuda_product *p,
                                    const char **why_p)
{
    const struct key key = key_of(device, p);
    struct gw_cuda_plan *plan = device->plans;
    while (plan && memcmp(&plan->key, &key, sizeof key) != 0)
        plan = plan->next;
    device->products++;
    if (plan)
        plan->used = device->products;
    *why_p = plan ? plan->why : NULL;
    return plan ? plan : make_plan(device, &key, p, why_p);
}

/* cublasLt reports an earlier failure only as its own failure to start, so the
   device is asked first. */
static void
check_product(struct gw_device *device, const char *op, const char *why)
{
    gw_cuda_check(device, op, why ? cudaDeviceSynchronize() : cudaSuccess);
    if (why)
        gw_cuda_fail(device, op, "", why);
}

static void multiply(struct gw_device *device,
                     const char *op,
                     struct gw_cuda_plan *plan,
                     const struct gw_cuda_product *p)
{
    cublasStatus_t status = run(device, plan, p, 1);
    check_product(device, op,
                  status == CUBLAS_STATUS_SUCCESS
                      ? NULL
                      : cublasLtGetStatusString(status));
}

int gw_cuda_multiply_fused(struct gw_device *device,
                           const char *op,
                           const struct gw_cuda_product *p)
{
    const char *why;
    if (!gw_cuda_enter(device))
        return 1; /* the device has failed: skip the fallback as well */
    struct gw_cuda_plan *plan = plan_of(device, p, &why);
    if (!plan || why)
        return 0;
    multiply(device, op, plan, p);
    return 1;
}

void gw_cuda_multiply(struct gw_device *device,
                      const char *op,
                      const struct gw_cuda_product *p)
{
    const char *why;
    struct gw_cuda_product plain = *p;
    plain.epilogue = GW_CUDA_PLAIN;
    if (p->epilogue == GW_CUDA_BIAS && gw_cuda_multiply_fused(device, op, p))
        return;
    if (!gw_cuda_enter(device))
        return;
    struct gw_cuda_plan *plan = plan_of(device, &plain, &why);
    if (plan && !why)
        multiply(device, op, plan, &plain);
    else
        check_product(device, op, why);
    if (p->epilogue == GW_CUDA_BIAS)
        gw_cuda_add_bias(device, op, p->m, p->n, p->bias, 0, p->c);
}

/* ---- report ---- */

static enum gw_cuda_fusion fusion_of(const struct key *key)
{
    switch ((enum gw_cuda_epilogue)key->epilogue) {
    case GW_CUDA_PLAIN:
        break;
    case GW_CUDA_BIAS:
        return GW_CUDA_FUSED_BIAS;
    case GW_CUDA_RELU:
        return key->has_mask ? GW_CUDA_FUSED_RELU_MASK : GW_CUDA_FUSED_RELU;
    case GW_CUDA_DRELU:
        return GW_CUDA_FUSED_DRELU;
    }
    return GW_CUDA_FUSIONS;
}

/* The list begins with the latest plan. */
void gw_cuda_count_plans(const struct gw_device *device,
                         struct gw_cuda_count counts[GW_CUDA_FUSIONS])
{
    for (const struct gw_cuda_plan *p = device->plans; p; p = p->next) {
        enum gw_cuda_fusion fusion = fusion_of(&p->key);
        if (fusion == GW_CUDA_FUSIONS)
            continue;
        counts[fusion].all++;
        counts[fusion].taken += p->why == NULL;
        if (p->why)
            counts[fusion].why = p->why;
    }
}
