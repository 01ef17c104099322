/*
 * Private to kernels/: what differs between CBLAS libraries. The products
 * themselves are called as cblas_sgemm everywhere.
 */
#ifndef GW_KERNELS_CPU_BLAS_H
#define GW_KERNELS_CPU_BLAS_H

#include <stddef.h>

/* The library's threads are the process's: the last caller wins. */
void gw_blas_set_threads(int threads);

/* "OpenBLAS 0.3.21, core SkylakeX, 1 thread", and a warning in words where the
   environment forces less than the processor has. */
void gw_blas_describe(char *text, size_t text_bytes);

#endif
