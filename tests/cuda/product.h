/* A product that cublasLtMatmul has accepted, and what computes it later. */
#ifndef GW_TESTS_CUDA_PRODUCT_H
#define GW_TESTS_CUDA_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

/* Of A, B, C and D in this order, column-major; no padding: it is compared. */
struct emulated_product {
    struct {
        uint64_t rows, cols, ld, stride;
    } matrix[4];
    uint64_t m, n, k, batches;
    int32_t trans_a, trans_b, with_bias, with_relu, tf32;
    float alpha, beta;
    int32_t factors; /* cudaDataType_t of A and B, which C and D are not */
    int32_t parts;   /* in which a sum is computed */
    int32_t keeps_nan;
    int32_t notes, masks; /* bits of D that are above 0; all others are 0 */
    int32_t notes_zero;   /* that are 0 as well */
    int32_t unused;
    uint64_t bits_ld;
    const void *at[4];
    const float *bias; /* one for each row of D */
    uint8_t *bits;     /* one for each element of D */
    void *workspace;
    size_t workspace_bytes;
};

void emulated_multiply(const void *product);

#endif
