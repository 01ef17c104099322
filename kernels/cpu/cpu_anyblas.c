#include "config.h"

#include "kernels/cpu/cpu_blas.h"

#include <stdio.h>

void gw_blas_prepare(void)
{
}

int gw_blas_find(void *library, struct gw_blas_own *own)
{
    (void)library, (void)own;
    return 1;
}

void gw_blas_set_threads(const struct gw_blas_own *own, int threads)
{
    (void)own, (void)threads;
}

void gw_blas_describe(const struct gw_blas *blas, char *text, size_t text_bytes)
{
    (void)blas;
    snprintf(text, text_bytes, "%s, threads as its own variables say",
             GW_BLAS_NAME);
}
