#include "config.h"

#include "kernels/cpu/cpu_blas.h"

#include <dlfcn.h>

enum gw_status
gw_blas_open(struct gw_blas *blas, int threads, struct gw_error *error)
{
    gw_blas_prepare();
    void *library = dlopen(GW_BLAS_FILE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "the library for matrix products cannot be loaded: %s "
                       "(Debian: libopenblas0)",
                       dlerror());
    void *sgemm = dlsym(library, "cblas_sgemm");
    if (!sgemm || !gw_blas_find(library, &blas->own)) {
        dlclose(library);
        return gw_fail(error, GW_EUNSUPPORTED,
                       "%s is not the library that this program was built "
                       "for, " GW_BLAS_NAME,
                       GW_BLAS_FILE);
    }
    *(void **)&blas->sgemm = sgemm;
    gw_blas_set_threads(&blas->own, threads);
    return GW_OK;
}
