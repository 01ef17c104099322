#include "config.h"

#include "kernels/cpu_blas.h"

#include <stdio.h>

void gw_blas_set_threads(int threads)
{
    (void)threads;
}

void gw_blas_describe(char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s, threads as its own variables say",
             GW_BLAS_NAME);
}
