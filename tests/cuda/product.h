/* A product accepted by cublasLtMatmul, and the function that computes it
   later. */
#ifndef GW_TESTS_CUDA_PRODUCT_H
#define GW_TESTS_CUDA_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

/* A, B, C, D in this order, column-major. No padding: compared as bytes. */
struct emulated_product {
    struct {
        uint64_t rows, cols, ld, stride;
    } matrix[4];
    uint64_t m, n, k, batches;
    int32_t trans_a, trans_b, with_bias, with_relu, tf32;
    float alpha, beta;
    int32_t factors; /* cudaDataType_t of A and B; C and D are fp32 */
    int32_t parts;   /* of a sum, each rounded */
    int32_t keeps_nan;
    int32_t notes, masks; /* write, or apply, bits of D > 0; all others are 0 */
    int32_t notes_zero;   /* and set them for 0 as well */
    int32_t unused;
    uint64_t bits_ld;
    const void *at[4];
    const float *bias; /* [rows of D] */
    uint8_t *bits;     /* [elements of D] */
    void *workspace;
    size_t workspace_bytes;
};

void emulated_multiply(const void *product);

#endif
