#include "config.h"

#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/update/bf16.h"
#include "kernels/cpu/cpu_blas.h"

#define HUGE_PAGE  ((size_t)2 << 20)
#define CACHE_LINE 64

struct gw_device {
    int threads;
    struct gw_blas blas;
};

static enum gw_status cpu_probe(char *why, size_t why_bytes)
{
    if (why_bytes)
        why[0] = '\0';
    return GW_OK;
}

static enum gw_status cpu_open(const struct gw_device_options *options,
                               struct gw_device **device_p,
                               struct gw_error *error)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (options->threads < 1 || options->threads > processors)
        return gw_fail(error, GW_ERANGE,
                       "worker.threads = %d: this machine has %ld processor%s",
                       options->threads, processors,
                       gw_plural((uint64_t)processors));
    struct gw_device *device = malloc(sizeof *device);
    if (!device)
        return gw_fail(error, GW_ENOMEM, "no memory for a cpu device");
    device->threads = options->threads;
    enum gw_status status =
        gw_blas_open(&device->blas, options->threads, error);
    if (status != GW_OK) {
        free(device);
        return status;
    }
    *device_p = device;
    return GW_OK;
}

int gw_cpu_threads(const struct gw_device *device)
{
    return device->threads;
}

static void cpu_close(struct gw_device *device)
{
    free(device);
}

static void
cpu_describe(struct gw_device *device, char *text, size_t text_bytes)
{
    gw_blas_describe(&device->blas, text, text_bytes);
}

static void *cpu_alloc(struct gw_device *device, size_t bytes)
{
    (void)device;
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    void *memory;
    if (posix_memalign(&memory, align, bytes ? bytes : 1))
        return NULL;
    if (bytes >= HUGE_PAGE)
        madvise(memory, bytes, MADV_HUGEPAGE); /* a hint, against TLB misses */
    return memset(memory, 0, bytes);
}

static void cpu_free(struct gw_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static void cpu_report(struct gw_device *device, char *text, size_t text_bytes)
{
    (void)device;
    if (text_bytes)
        text[0] = '\0';
}

static void cpu_locate(unsigned ordinal, char address[GW_PCI_ADDRESS_BYTES])
{
    (void)ordinal;
    address[0] = '\0';
}

static int cpu_usable(unsigned ordinal)
{
    (void)ordinal;
    return 1;
}

static int cpu_linked(unsigned one, unsigned other)
{
    (void)one, (void)other;
    return 0;
}

static void
cpu_memory(struct gw_device *device, uint64_t *total_p, uint64_t *free_p)
{
    (void)device;
    *total_p = *free_p = 0;
}

static enum gw_status cpu_pin(struct gw_device *device,
                              void *host,
                              size_t bytes,
                              struct gw_error *error)
{
    (void)device, (void)host, (void)bytes, (void)error;
    return GW_OK;
}

static void cpu_unpin(struct gw_device *device, void *host)
{
    (void)device, (void)host;
}

static int cpu_export_memory(struct gw_device *device,
                             const void *memory,
                             uint8_t handle[GW_MEMORY_WORDS])
{
    (void)device, (void)memory, (void)handle;
    return 0;
}

static const void *cpu_import_memory(struct gw_device *device,
                                     const uint8_t handle[GW_MEMORY_WORDS],
                                     struct gw_error *error)
{
    (void)device, (void)handle;
    gw_fail(error, GW_EUNSUPPORTED, "the cpu shows no memory by words");
    return NULL;
}

static const char *cpu_path(struct gw_device *device, const void *imported)
{
    (void)device, (void)imported;
    return "";
}

static void cpu_release_import(struct gw_device *device, const void *memory)
{
    (void)device, (void)memory;
}

static void cpu_pages(struct gw_device *device,
                      const void *memory,
                      size_t bytes,
                      struct gw_pages *pages_p)
{
    (void)device, (void)memory, (void)bytes;
    *pages_p = (struct gw_pages){.fd = -1};
}

static void
cpu_upload(struct gw_device *device, void *to, const void *host, size_t bytes)
{
    (void)device;
    memcpy(to, host, bytes);
}

static void cpu_download(struct gw_device *device,
                         void *host,
                         const void *from,
                         size_t bytes)
{
    (void)device;
    memcpy(host, from, bytes);
}

static void
cpu_tune(struct gw_device *device, const char *of, const char *known)
{
    (void)device, (void)of, (void)known;
}

static void cpu_tuned(struct gw_device *device, char text[GW_TUNED_BYTES])
{
    (void)device;
    text[0] = '\0';
}

static uint64_t
cpu_fetch(struct gw_device *device, void *host, const void *from, size_t bytes)
{
    cpu_download(device, host, from, bytes);
    return 0;
}

static enum gw_status cpu_reach(struct gw_device *device,
                                uint64_t point,
                                int wait,
                                struct gw_error *error)
{
    (void)device, (void)point, (void)wait, (void)error;
    return GW_OK;
}

static enum gw_status cpu_sync(struct gw_device *device, struct gw_error *error)
{
    (void)device, (void)error;
    return GW_OK;
}

static int blas_size(size_t value)
{
    assert(value <= INT_MAX);
    return (int)value;
}

void gw_cpu_gemm(const struct gw_device *device,
                 size_t m,
                 size_t n,
                 size_t k,
                 struct gw_matrix a,
                 struct gw_matrix b,
                 float beta,
                 float *c,
                 size_t ld)
{
    device->blas.sgemm(CblasRowMajor, a.t ? CblasTrans : CblasNoTrans,
                       b.t ? CblasTrans : CblasNoTrans, blas_size(m),
                       blas_size(n), blas_size(k), 1, a.at, blas_size(a.ld),
                       b.at, blas_size(b.ld), beta, c, blas_size(ld));
}

void gw_cpu_widen(struct gw_device *device,
                  size_t elems,
                  const uint16_t *x,
                  float *out)
{
    (void)device;
    gw_bf16_widen(elems, x, out);
}

const struct gw_backend_ops gw_cpu_ops = {
    .name = "cpu",
    .on_host = 1,
    .probe = cpu_probe,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .report = cpu_report,
    .locate = cpu_locate,
    .usable = cpu_usable,
    .linked = cpu_linked,
    .memory = cpu_memory,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .alloc_host = cpu_alloc,
    .free_host = cpu_free,
    .pin = cpu_pin,
    .unpin = cpu_unpin,
    .export_memory = cpu_export_memory,
    .import_memory = cpu_import_memory,
    .path = cpu_path,
    .release_import = cpu_release_import,
    .pages = cpu_pages,
    .upload = cpu_upload,
    .copy_import = cpu_upload, /* never called: nothing is imported */
    .fetch = cpu_fetch,
    .reach = cpu_reach,
    .download = cpu_download,
    .sync = cpu_sync,
    .tune = cpu_tune,
    .tuned = cpu_tuned,
#define GW_SIZE_OPERATION(name, parameters, arguments) .name = gw_cpu_##name,
#define GW_OPERATION(name, parameters, arguments)      .name = gw_cpu_##name,
#include "kernels/operations.h"
};
