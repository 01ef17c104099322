/*
 * Private to kernels/: the CBLAS, which is loaded where a device of the host is
 * opened, and by nobody else: a library such as OpenBLAS starts a thread for
 * each core as it is loaded, which servers, coordinators and launchers would
 * have for nothing. Once loaded it stays.
 */
#ifndef GW_KERNELS_CPU_BLAS_H
#define GW_KERNELS_CPU_BLAS_H

#include <cblas.h>
#include <stddef.h>

#include "proto/status.h"

/* The calls that are needed of it; what its kind alone has, in `own`. */
struct gw_blas {
    __typeof__(cblas_sgemm) *sgemm;
    struct gw_blas_own {
        void (*set_threads)(int threads);
        int (*threads)(void);
        char *(*config)(void);
        char *(*core)(void);
    } own;
};

/* Its threads are the process's: the last caller wins. GW_EUNSUPPORTED: it is
   not here, with a line that says what to install. */
enum gw_status
gw_blas_open(struct gw_blas *blas, int threads, struct gw_error *error);

/* "OpenBLAS 0.3.21, core SkylakeX, 1 thread", and a warning in words where the
   environment forces less than the processor has. */
void gw_blas_describe(const struct gw_blas *blas,
                      char *text,
                      size_t text_bytes);

/* ---- what differs between CBLAS libraries ---- */

/* Before it is loaded: it is to start no threads then. */
void gw_blas_prepare(void);

/* Fills in `own`; 0: the library has not all of it. */
int gw_blas_find(void *library, struct gw_blas_own *own);
void gw_blas_set_threads(const struct gw_blas_own *own, int threads);

#endif
