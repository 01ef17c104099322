/*
 * Private to kernels/: the CBLAS, loaded only when a device of the host is
 * opened: a library such as OpenBLAS starts a thread per core as it is loaded,
 * for which servers, coordinators and launchers have no use. Once loaded it
 * stays.
 */
#ifndef GW_KERNELS_CPU_BLAS_H
#define GW_KERNELS_CPU_BLAS_H

#include <cblas.h>
#include <stddef.h>

#include "proto/status.h"

/* The calls that we need; `own` has the ones that are not standard CBLAS. */
struct gw_blas {
    __typeof__(cblas_sgemm) *sgemm;
    struct gw_blas_own {
        void (*set_threads)(int threads);
        int (*threads)(void);
        char *(*config)(void);
        char *(*core)(void);
    } own;
};

/* Loads the library. Its threads are the process's: the last caller wins.
   GW_EUNSUPPORTED: it is not here, with a line that names the package to
   install. */
enum gw_status
gw_blas_open(struct gw_blas *blas, int threads, struct gw_error *error);

/* "OpenBLAS 0.3.21, core SkylakeX, 1 thread", and a warning if the environment
   restricts it to less than the processor has. */
void gw_blas_describe(const struct gw_blas *blas,
                      char *text,
                      size_t text_bytes);

/* ---- differences between CBLAS libraries ---- */

/* Before it is loaded: keeps it from starting threads then. */
void gw_blas_prepare(void);

/* Fills in `own`; 0: the library lacks one of its calls. */
int gw_blas_find(void *library, struct gw_blas_own *own);
void gw_blas_set_threads(const struct gw_blas_own *own, int threads);

#endif
