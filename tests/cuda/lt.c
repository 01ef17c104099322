/*
 * Emulated cublasLt: D = epilogue(alpha op(A) op(B) + beta C), column-major,
 * fp32, or 16-bit A and B. Each element is summed in double in the order of k
 * and rounded once. Refuses all that the real one refuses always or sometimes.
 */
#include "config.h"

#include "tests/cuda/inside.h"

#include <stdlib.h>
#include <string.h>

#include <tests/cuda/include/cublasLt.h>

#include "tests/cuda/product.h"

#define ALIGN_DEFAULT   256
#define WORKSPACE_ALIGN 256
/* Workspace of a split-K algorithm, if k is worth splitting. */
#define WORKSPACE_BYTES (64 << 10)
#define WORKSPACE_K     64
#define ALGO_MARK       0x656d756c61746564

struct cublasLtContext {
    int mark;
};

struct emulated_layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
    int32_t batches;
    int64_t stride;
};

struct emulated_matmul {
    cublasComputeType_t compute;
    int32_t trans_a, trans_b;
    uint32_t epilogue;
    const float *bias;
    uint8_t *bits;
    int64_t bits_ld;
};

struct emulated_preference {
    uint64_t workspace_bytes;
    uint32_t reductions;
    uint32_t aligned[4]; /* alignment of A, B, C, D */
};

/* Content of cublasLtMatmulAlgo_t. */
struct algo {
    uint64_t mark, problem;
    uint32_t aligned[5]; /* alignment of A, B, C, D and the bias */
    uint32_t number;     /* below EMULATED_ALGORITHMS */
    uint64_t workspace_bytes;
};
_Static_assert(sizeof(struct algo) <= sizeof(cublasLtMatmulAlgo_t), "algo");

static cublasStatus_t leave(cublasStatus_t status)
{
    emulated_leave(cudaSuccess);
    return status;
}

/* ---- the handle ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (emulated_enter_device() != cudaSuccess)
        return leave(CUBLAS_STATUS_NOT_INITIALIZED);
    *handle = calloc(1, sizeof **handle);
    emulated_count.live_handles++;
    return leave(*handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    emulated_enter();
    if (!handle)
        return leave(CUBLAS_STATUS_NOT_INITIALIZED);
    free(handle);
    emulated_count.live_handles--;
    return leave(CUBLAS_STATUS_SUCCESS);
}

size_t cublasLtGetVersion(void)
{
    return 130000;
}

static const struct {
    cublasStatus_t status;
    const char *name, *text;
} statuses[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED",
     "not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED",
     "allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
     "an unsupported value or parameter was passed to the function"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED",
     "the function failed to launch on the GPU"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
     "the functionality requested is not supported"},
};

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return "unknown";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "unknown";
}

/* ---- descriptions ---- */

/* Copies an attribute; its size must be right. */
static cublasStatus_t
take(void *to, size_t to_bytes, const void *value, size_t bytes)
{
    if (!to || !value || bytes != to_bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t created(const void *made)
{
    if (!made)
        return CUBLAS_STATUS_ALLOC_FAILED;
    emulated_enter();
    emulated_count.live_handles++;
    return leave(CUBLAS_STATUS_SUCCESS);
}

static cublasStatus_t destroyed(void *gone)
{
    if (!gone)
        return CUBLAS_STATUS_SUCCESS;
    free(gone);
    emulated_enter();
    emulated_count.live_handles--;
    return leave(CUBLAS_STATUS_SUCCESS);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (scale != CUDA_R_32F || (compute != CUBLAS_COMPUTE_32F &&
                                compute != CUBLAS_COMPUTE_32F_FAST_TF32))
        return CUBLAS_STATUS_INVALID_VALUE;
    *desc = calloc(1, sizeof **desc);
    if (*desc) {
        (*desc)->compute = compute;
        (*desc)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    }
    return created(*desc);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return destroyed(desc);
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value,
                               size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(&desc->trans_a, sizeof desc->trans_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(&desc->trans_b, sizeof desc->trans_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(&desc->epilogue, sizeof desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take((void *)&desc->bias, sizeof desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return take((void *)&desc->bits, sizeof desc->bits, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return take(&desc->bits_ld, sizeof desc->bits_ld, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type,
                                          uint64_t rows,
                                          uint64_t cols,
                                          int64_t ld)
{
    if (type != CUDA_R_32F && type != CUDA_R_16F && type != CUDA_R_16BF)
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout = calloc(1, sizeof **layout);
    if (*layout)
        **layout = (struct emulated_layout){type, rows, cols, ld, 1, 0};
    return created(*layout);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroyed(layout);
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value,
                                 size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return take(&layout->batches, sizeof layout->batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return take(&layout->stride, sizeof layout->stride, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = calloc(1, sizeof **preference);
    if (*preference) {
        (*preference)->reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
        for (int i = 0; i < 4; i++)
            (*preference)->aligned[i] = ALIGN_DEFAULT;
    }
    return created(*preference);
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroyed(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute,
    const void *value,
    size_t bytes)
{
    unsigned operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return take(&preference->workspace_bytes,
                    sizeof preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return take(&preference->reductions, sizeof preference->reductions,
                    value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return take(&preference->aligned[operand],
                    sizeof preference->aligned[operand], value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- problems ---- */

static int is_layout(const struct emulated_layout *l)
{
    return l && l->rows > 0 && l->cols > 0 && l->ld >= (int64_t)l->rows &&
           l->batches > 0 && l->stride >= 0;
}

/* Batches must follow each other, or their columns must interleave. */
static int overwrites_itself(const struct emulated_layout *l)
{
    int64_t rows = (int64_t)l->rows, cols = (int64_t)l->cols;
    int64_t others = l->batches - 1;
    return others > 0 && l->stride < (cols - 1) * l->ld + rows &&
           (l->stride < rows || l->ld < others * l->stride + rows);
}

/* A and B have one type; C and D are floats. */
static int are_types(const struct emulated_matmul *desc,
                     const struct emulated_layout *const l[4])
{
    return l[0]->type == l[1]->type && l[2]->type == CUDA_R_32F &&
           l[3]->type == CUDA_R_32F &&
           (l[0]->type == CUDA_R_32F || desc->compute == CUBLAS_COMPUTE_32F);
}

/* Fills in all but the pointers; 0 if the description is inconsistent. */
static int describe(const struct emulated_matmul *desc,
                    const struct emulated_layout *const l[4],
                    struct emulated_product *p)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < 4; i++) {
        if (!is_layout(l[i]) || l[i]->batches != l[3]->batches)
            return 0;
        p->matrix[i].rows = l[i]->rows;
        p->matrix[i].cols = l[i]->cols;
        p->matrix[i].ld = (uint64_t)l[i]->ld;
        p->matrix[i].stride = (uint64_t)l[i]->stride;
    }
    if (overwrites_itself(l[3]) || !are_types(desc, l))
        return 0;
    p->factors = (int32_t)l[0]->type;
    p->trans_a = desc->trans_a == CUBLAS_OP_T;
    p->trans_b = desc->trans_b == CUBLAS_OP_T;
    p->m = p->trans_a ? l[0]->cols : l[0]->rows;
    p->k = p->trans_a ? l[0]->rows : l[0]->cols;
    p->n = p->trans_b ? l[1]->rows : l[1]->cols;
    p->batches = (uint64_t)l[3]->batches;
    p->with_bias = (desc->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    p->with_relu = (desc->epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
    p->notes = desc->epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    p->masks = desc->epilogue == CUBLASLT_EPILOGUE_DRELU;
    p->keeps_nan = emulated_now.keeps_nan;
    p->notes_zero = emulated_now.notes_zero;
    p->bits_ld = p->notes || p->masks ? (uint64_t)desc->bits_ld : 0;
    p->tf32 = desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if ((p->notes || p->masks) &&
        (p->bits_ld < p->m || p->bits_ld % 128 || p->batches > 1))
        return 0;
    return (p->trans_b ? l[1]->cols : l[1]->rows) == p->k &&
           l[2]->rows == p->m && l[2]->cols == p->n && l[3]->rows == p->m &&
           l[3]->cols == p->n;
}

static uint64_t number_of(const struct emulated_product *p)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *p; i++)
        hash = (hash ^ ((const unsigned char *)p)[i]) * 1099511628211u;
    return hash;
}

/* Alignment of the bias that the heuristic gets. */
static uint32_t alignment_of(const void *memory)
{
    uint32_t bytes = ALIGN_DEFAULT;
    while ((uintptr_t)memory % bytes != 0)
        bytes /= 2;
    return bytes;
}

static void propose(const struct emulated_product *p,
                    const struct emulated_matmul *desc,
                    const struct emulated_preference *preference,
                    uint32_t number,
                    cublasLtMatmulHeuristicResult_t *result)
{
    uint64_t workspace_bytes = number == 0 ? WORKSPACE_BYTES : 0;
    struct algo algo = {.mark = ALGO_MARK,
                        .problem = number_of(p),
                        .number = number,
                        .workspace_bytes = workspace_bytes};
    memcpy(algo.aligned, preference->aligned, sizeof preference->aligned);
    algo.aligned[4] = alignment_of(desc->bias);
    *result = (cublasLtMatmulHeuristicResult_t){
        .workspaceSize = workspace_bytes,
        .state = CUBLAS_STATUS_SUCCESS,
        .wavesCount = 1,
    };
    memcpy(&result->algo, &algo, sizeof algo);
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                               cublasLtMatmulDesc_t desc,
                               cublasLtMatrixLayout_t a,
                               cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c,
                               cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference,
                               int wanted,
                               cublasLtMatmulHeuristicResult_t *results,
                               int *found)
{
    const struct emulated_layout *const layouts[] = {a, b, c, d};
    struct emulated_product p;
    if (emulated_enter_device() != cudaSuccess)
        return leave(CUBLAS_STATUS_EXECUTION_FAILED);
    emulated_count.heuristics++;
    *found = 0;
    if (!handle || !desc || !preference || wanted < 1 ||
        !describe(desc, layouts, &p))
        return leave(CUBLAS_STATUS_INVALID_VALUE);
    if ((emulated_now.no_fused_epilogue &&
         desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT) ||
        (emulated_now.no_masks && p.masks))
        return leave(CUBLAS_STATUS_NOT_SUPPORTED);
    int divides = preference->reductions & CUBLASLT_REDUCTION_SCHEME_MASK &&
                  p.k >= WORKSPACE_K &&
                  preference->workspace_bytes >= WORKSPACE_BYTES;
    for (uint32_t i = divides ? 0 : 1; i < EMULATED_ALGORITHMS; i++)
        if (*found < wanted)
            propose(&p, desc, preference, i, &results[(*found)++]);
    return leave(CUBLAS_STATUS_SUCCESS);
}

/* ---- products ---- */

static int is_aligned(const void *memory, uint32_t bytes)
{
    return (uintptr_t)memory % bytes == 0;
}

static int is_for(const struct algo *algo,
                  const struct emulated_product *p,
                  uint64_t which)
{
    if (algo->mark != ALGO_MARK || algo->problem != which)
        return 0;
    for (int i = 0; i < 4; i++)
        if (!is_aligned(p->at[i], algo->aligned[i]))
            return 0;
    return !p->with_bias || is_aligned(p->bias, algo->aligned[4]);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle,
                              cublasLtMatmulDesc_t desc,
                              const void *alpha,
                              const void *a,
                              cublasLtMatrixLayout_t a_layout,
                              const void *b,
                              cublasLtMatrixLayout_t b_layout,
                              const void *beta,
                              const void *c,
                              cublasLtMatrixLayout_t c_layout,
                              void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo,
                              void *workspace,
                              size_t workspace_bytes,
                              cudaStream_t stream)
{
    const struct emulated_layout *const layouts[] = {a_layout, b_layout,
                                                     c_layout, d_layout};
    struct emulated_product p;
    struct algo chosen = {0};
    if (emulated_enter_device() != cudaSuccess)
        return leave(CUBLAS_STATUS_EXECUTION_FAILED);
    if (!handle || !desc || !alpha || !beta || !a || !b || !c || !d ||
        !describe(desc, layouts, &p))
        return leave(CUBLAS_STATUS_INVALID_VALUE);
    uint64_t which = number_of(&p);
    memcpy(&p.alpha, alpha, sizeof p.alpha);
    memcpy(&p.beta, beta, sizeof p.beta);
    p.at[0] = a, p.at[1] = b, p.at[2] = c, p.at[3] = d;
    p.bias = desc->bias;
    p.bits = desc->bits;
    if ((p.with_bias && !p.bias) ||
        ((p.notes || p.masks) && (!p.bits || !is_aligned(p.bits, 16))))
        return leave(CUBLAS_STATUS_INVALID_VALUE);
    if (algo) {
        memcpy(&chosen, algo, sizeof chosen);
        if (!is_for(&chosen, &p, which))
            return leave(CUBLAS_STATUS_INVALID_VALUE);
    }
    if (workspace_bytes < chosen.workspace_bytes ||
        (chosen.workspace_bytes > 0 &&
         (!workspace || !is_aligned(workspace, WORKSPACE_ALIGN))))
        return leave(CUBLAS_STATUS_INVALID_VALUE);
    p.workspace = workspace;
    p.workspace_bytes = chosen.workspace_bytes;
    p.parts = chosen.number < 2 ? 1 : (int32_t)chosen.number;
    emulated_spend(stream, chosen.number == emulated_now.fastest ? 1 : 3);
    emulated_queue(stream, "cublasLtMatmul", emulated_multiply, &p, sizeof p);
    return leave(CUBLAS_STATUS_SUCCESS);
}
