#include "config.h"

#include "kernels/cpu/cpu_blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/update/update.h"

/* The job's number of threads is started later: a library that fails to start a
   thread while it is loaded interrupts the process. setenv leaves the old
   environment intact for threads that read it meanwhile. */
void gw_blas_prepare(void)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

static int find(void *library, const char *symbol, void *call)
{
    void *at = dlsym(library, symbol);
    *(void **)call = at;
    return at != NULL;
}

int gw_blas_find(void *library, struct gw_blas_own *own)
{
    return find(library, "openblas_set_num_threads", &own->set_threads) &&
           find(library, "openblas_get_num_threads", &own->threads) &&
           find(library, "openblas_get_config", &own->config) &&
           find(library, "openblas_get_corename", &own->core);
}

void gw_blas_set_threads(const struct gw_blas_own *own, int threads)
{
    own->set_threads(threads);
}

/* OpenBLAS cores whose kernels use less than AVX2, or AVX2 but no more. */
static const char *const below_avx2[] = {
    "Prescott",    "Core2",   "Penryn",    "Dunnington", "Nehalem",
    "Athlon",      "Opteron", "Barcelona", "Bobcat",     "Atom",
    "Sandybridge", "Katmai",  "Nano",      "Bulldozer",  "Piledriver",
    "Steamroller", "SSE3",    NULL,
};
static const char *const with_avx2[] = {"Haswell", "Zen", "Excavator", NULL};

static int is_in(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (!strncasecmp(*list, name, strlen(*list)))
            return 1;
    return 0;
}

/* Instruction sets that our loops use, and cores whose kernels do not. */
static const struct limited {
    const char *isa, *words;
    const char *const *cores;
} limited[] = {
    {"avx512", "AVX-512", with_avx2},
    {"avx512", "AVX-512", below_avx2},
    {"avx2", "AVX2", below_avx2},
};

/* The instruction set that the processor has and the core's kernels do not use,
   or NULL. */
static const char *unused_set(const char *core)
{
    for (size_t i = 0; i < sizeof limited / sizeof *limited; i++)
        if (!strcmp(limited[i].isa, gw_update_isa()) &&
            is_in(limited[i].cores, core))
            return limited[i].words;
    return NULL;
}

void gw_blas_describe(const struct gw_blas *blas, char *text, size_t text_bytes)
{
    char library[64];
    snprintf(library, sizeof library, "%s", blas->own.config());
    /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": keep two words */
    char *end = strchr(library, ' ');
    end = end ? strchr(end + 1, ' ') : NULL;
    if (end)
        *end = '\0';
    const char *core = blas->own.core();
    int threads = blas->own.threads();
    int used = snprintf(text, text_bytes, "%s, core %s, %d thread%s", library,
                        core, threads, threads == 1 ? "" : "s");
    const char *unused = unused_set(core);
    if (!unused || used < 0 || (size_t)used >= text_bytes)
        return;
    const char *forced = getenv("OPENBLAS_CORETYPE");
    if (forced && *forced)
        snprintf(text + used, text_bytes - (size_t)used,
                 "; warning: OPENBLAS_CORETYPE=%s in the environment keeps it "
                 "from using this processor's %s: unset it",
                 forced, unused);
    else
        snprintf(text + used, text_bytes - (size_t)used,
                 "; note: it does not use this processor's %s", unused);
}
