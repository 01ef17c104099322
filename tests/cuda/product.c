/*
 * The arithmetic of tests/cuda/lt.c. A sum is computed in double in the order
 * of k and rounded once, or once per part. ReLU is max(x, 0), which turns NaN
 * into 0, as the real one may, unless keeps_nan.
 */
#include "config.h"

#include "tests/cuda/product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tests/cuda/include/cublasLt.h>

#include "tests/cuda/inside.h"
#include "tests/cuda/narrow.h"

/* Rows of D per pass, from a packed copy of their part of A. */
#define ROWS 64
/* For the hot loops; check() has checked their memory. */
#define UNSANITIZED                                                            \
    __attribute__((no_sanitize("address"), no_sanitize("thread"),              \
                   no_sanitize("undefined")))
/* Content of the workspace after an algorithm. */
#define GARBAGE 0xff

/* Rounds to nearest, ties to even, with 10 bits of fraction. */
static float tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000) == 0x7f800000)
        return value;
    bits += 0xfff + (bits >> 13 & 1);
    bits &= ~(uint32_t)0x1fff;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Element i of an operand. */
UNSANITIZED static double
factor(const struct emulated_product *p, const void *from, uint64_t i)
{
    if (p->factors == CUDA_R_16F)
        return (double)narrow_of_half(((const uint16_t *)from)[i]);
    if (p->factors == CUDA_R_16BF)
        return (double)narrow_of_bf16(((const uint16_t *)from)[i]);
    float value = ((const float *)from)[i];
    return (double)(p->tf32 ? tf32(value) : value);
}

static size_t elem_bytes(const struct emulated_product *p, int matrix)
{
    return matrix < 2 && p->factors != CUDA_R_32F ? sizeof(uint16_t)
                                                  : sizeof(float);
}

/* The matrix of one product in a batch. */
static const void *
start_of(const struct emulated_product *p, int matrix, uint64_t batch)
{
    return (const char *)p->at[matrix] +
           batch * p->matrix[matrix].stride * elem_bytes(p, matrix);
}

/* to[k][ROWS] = op(A) from row `first` on */
UNSANITIZED static void pack(const struct emulated_product *p,
                             const void *a,
                             uint64_t first,
                             uint64_t rows,
                             double *to)
{
    uint64_t ld = p->matrix[0].ld;
    for (uint64_t l = 0; l < p->k; l++)
        for (uint64_t r = 0; r < rows; r++) {
            uint64_t row = first + r;
            to[l * ROWS + r] =
                factor(p, a, p->trans_a ? l + row * ld : row + l * ld);
        }
}

/* The mask's order of bits is our own, as cublasLt's is undocumented. */
static int bit(const struct emulated_product *p, uint64_t row, uint64_t column)
{
    uint64_t i = column * p->bits_ld + row;
    return p->bits[i / 8] >> (7 - i % 8) & 1;
}

static void
note(const struct emulated_product *p, uint64_t row, uint64_t column, int is)
{
    uint64_t i = column * p->bits_ld + row;
    uint8_t one = (uint8_t)(1u << (7 - i % 8));
    p->bits[i / 8] =
        (uint8_t)(is ? p->bits[i / 8] | one : p->bits[i / 8] & ~one);
}

static float finish(const struct emulated_product *p,
                    double sum,
                    const float *c,
                    uint64_t row,
                    uint64_t column)
{
    double y = p->alpha != 0 ? (double)p->alpha * sum
                             : 0; /* as if A and B were not read */
    if (p->beta != 0)             /* else C is not read */
        y += (double)p->beta * (double)*c;
    if (p->with_bias)
        y += (double)p->bias[row];
    if (p->notes)
        note(p, row, column, y > 0 || (p->notes_zero && y >= 0));
    if (p->with_relu)
        y = y > 0 || (isnan(y) && p->keeps_nan) ? y : 0;
    if (p->masks && !bit(p, row, column))
        y = 0;
    return (float)y;
}

/* Adds the parts as floats, and clears `part`. */
UNSANITIZED static void end_part(double sums[ROWS], double part[ROWS])
{
    for (int r = 0; r < ROWS; r++) {
        sums[r] = (double)((float)sums[r] + (float)part[r]);
        part[r] = 0;
    }
}

UNSANITIZED static void rows_of(const struct emulated_product *p,
                                const double *a,
                                uint64_t first,
                                uint64_t rows,
                                uint64_t batch)
{
    const void *b = start_of(p, 1, batch);
    const float *c = start_of(p, 2, batch);
    float *d = (float *)(uintptr_t)start_of(p, 3, batch);
    uint64_t ld = p->matrix[1].ld;
    uint64_t span = (p->k + (uint64_t)p->parts - 1) / (uint64_t)p->parts;
    for (uint64_t j = 0; j < p->n; j++) {
        double sums[ROWS] = {0}, before[ROWS] = {0};
        for (uint64_t l = 0; l < p->k; l++) {
            if (l > 0 && l % span == 0)
                end_part(before, sums);
            double with = factor(p, b, p->trans_b ? j + l * ld : l + j * ld);
            for (int r = 0; r < ROWS; r++)
                sums[r] += a[l * ROWS + (uint64_t)r] * with;
        }
        if (p->parts > 1)
            end_part(sums, before);
        for (uint64_t r = 0; r < rows; r++)
            d[first + r + j * p->matrix[3].ld] = finish(
                p, sums[r], c + first + r + j * p->matrix[2].ld, first + r, j);
    }
}

static size_t bytes_of(const struct emulated_product *p, int i)
{
    uint64_t elems = (p->batches - 1) * p->matrix[i].stride +
                     (p->matrix[i].cols - 1) * p->matrix[i].ld +
                     p->matrix[i].rows;
    return elems * elem_bytes(p, i);
}

static int overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y + b_bytes && y < x + a_bytes;
}

static void must_be_device(const char *who, const void *memory, size_t bytes)
{
    if (emulated_find(who, memory, bytes) != EMULATED_DEVICE)
        emulated_wrong("%s: %p is not on the device, or has been freed", who,
                       memory);
}

static void check(const struct emulated_product *p)
{
    static const char *const names[] = {"A of a product", "B of a product",
                                        "C of a product", "D of a product"};
    size_t d_bytes = bytes_of(p, 3);
    for (int i = 0; i < 4; i++) {
        if (i == 2 && p->beta == 0)
            continue;
        must_be_device(names[i], p->at[i], bytes_of(p, i));
        int same =
            i == 2 && p->at[2] == p->at[3] &&
            memcmp(&p->matrix[2], &p->matrix[3], sizeof p->matrix[3]) == 0;
        if (i < 3 && !same &&
            overlap(p->at[i], bytes_of(p, i), p->at[3], d_bytes))
            emulated_wrong("%s overlaps the result", names[i]);
    }
    if (p->with_bias) {
        must_be_device("the bias of a product", p->bias, p->m * sizeof(float));
        if (overlap(p->bias, p->m * sizeof(float), p->at[3], d_bytes))
            emulated_wrong("the bias of a product overlaps the result");
    }
    if (p->notes || p->masks)
        must_be_device("the mask of a product", p->bits, p->n * p->bits_ld / 8);
    if (p->workspace_bytes > 0)
        must_be_device("the workspace of a product", p->workspace,
                       p->workspace_bytes);
}

void emulated_multiply(const void *product)
{
    const struct emulated_product *p = product;
    check(p);
    if (p->workspace_bytes > 0)
        memset(p->workspace, GARBAGE, p->workspace_bytes);
    double *a = calloc(p->k * ROWS, sizeof *a);
    if (!a)
        emulated_wrong("no memory for a product");
    for (uint64_t batch = 0; batch < p->batches; batch++)
        for (uint64_t first = 0; first < p->m; first += ROWS) {
            uint64_t rows = p->m - first < ROWS ? p->m - first : ROWS;
            pack(p, start_of(p, 0, batch), first, rows, a);
            rows_of(p, a, first, rows, batch);
        }
    free(a);
}
