/*
 * Backends that compute nothing: one for simulations, which need only bytes and
 * time, and the outline of a GPU that is not here, which planning needs.
 */
#include "config.h"

#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernels/cuda/cuda_sizes.h"
#include "kernels/module.h"

/* Memory of `alloc`: addresses that fault when they are used. */
struct range {
    struct range *next;
    void *at;
    size_t bytes;
};

struct gw_device {
    struct range *ranges;
};

static enum gw_status none_probe(char *why, size_t why_bytes)
{
    if (why_bytes)
        why[0] = '\0';
    return GW_OK;
}

static enum gw_status none_open(const struct gw_device_options *options,
                                struct gw_device **device_p,
                                struct gw_error *error)
{
    (void)options;
    struct gw_device *device = calloc(1, sizeof *device);
    if (!device)
        return gw_fail(error, GW_ENOMEM, "no memory for a device");
    *device_p = device;
    return GW_OK;
}

static void drop_range(struct range **at)
{
    struct range *range = *at;
    *at = range->next;
    munmap(range->at, range->bytes);
    free(range);
}

static void none_close(struct gw_device *device)
{
    while (device->ranges)
        drop_range(&device->ranges);
    free(device);
}

static int none_usable(unsigned ordinal)
{
    (void)ordinal;
    return 1;
}

static int none_linked(unsigned one, unsigned other)
{
    (void)one, (void)other;
    return 0;
}

static void
none_describe(struct gw_device *device, char *text, size_t text_bytes)
{
    (void)device;
    snprintf(text, text_bytes, "computes nothing");
}

static void none_report(struct gw_device *device, char *text, size_t text_bytes)
{
    (void)device;
    if (text_bytes)
        text[0] = '\0';
}

static void *none_alloc(struct gw_device *device, size_t bytes)
{
    struct range *range = calloc(1, sizeof *range);
    if (!range)
        return NULL;
    range->bytes = bytes ? bytes : 1;
    range->at = mmap(NULL, range->bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range->at == MAP_FAILED) {
        free(range);
        return NULL;
    }
    range->next = device->ranges;
    device->ranges = range;
    return range->at;
}

static void none_free(struct gw_device *device, void *memory)
{
    struct range **at = &device->ranges;
    while (*at && (*at)->at != memory)
        at = &(*at)->next;
    if (*at)
        drop_range(at);
}

static void none_locate(unsigned ordinal, char address[GW_PCI_ADDRESS_BYTES])
{
    (void)ordinal;
    address[0] = '\0';
}

static void
none_memory(struct gw_device *device, uint64_t *total_p, uint64_t *free_p)
{
    (void)device;
    *total_p = *free_p = 0;
}

static enum gw_status none_pin(struct gw_device *device,
                               void *host,
                               size_t bytes,
                               struct gw_error *error)
{
    (void)device, (void)host, (void)bytes, (void)error;
    return GW_OK;
}

static void none_unpin(struct gw_device *device, void *host)
{
    (void)device, (void)host;
}

static int none_export_memory(struct gw_device *device,
                              const void *memory,
                              uint8_t handle[GW_MEMORY_WORDS])
{
    (void)device, (void)memory, (void)handle;
    return 0;
}

static const void *none_import_memory(struct gw_device *device,
                                      const uint8_t handle[GW_MEMORY_WORDS],
                                      struct gw_error *error)
{
    (void)device, (void)handle;
    gw_fail(error, GW_EUNSUPPORTED, "there is no memory");
    return NULL;
}

static const char *none_path(struct gw_device *device, const void *imported)
{
    (void)device, (void)imported;
    return "";
}

static void none_release_import(struct gw_device *device, const void *memory)
{
    (void)device, (void)memory;
}

static void none_pages(struct gw_device *device,
                       const void *memory,
                       size_t bytes,
                       struct gw_pages *pages_p)
{
    (void)device, (void)memory, (void)bytes;
    *pages_p = (struct gw_pages){.fd = -1};
}

static void
none_upload(struct gw_device *device, void *to, const void *host, size_t bytes)
{
    (void)device, (void)to, (void)host, (void)bytes;
}

static void none_download(struct gw_device *device,
                          void *host,
                          const void *from,
                          size_t bytes)
{
    (void)device, (void)host, (void)from, (void)bytes;
}

static uint64_t
none_fetch(struct gw_device *device, void *host, const void *from, size_t bytes)
{
    (void)device, (void)host, (void)from, (void)bytes;
    return 0;
}

static enum gw_status none_reach(struct gw_device *device,
                                 uint64_t point,
                                 int wait,
                                 struct gw_error *error)
{
    (void)device, (void)point, (void)wait, (void)error;
    return GW_OK;
}

static enum gw_status none_sync(struct gw_device *device,
                                struct gw_error *error)
{
    (void)device, (void)error;
    return GW_OK;
}

static void
none_tune(struct gw_device *device, const char *of, const char *known)
{
    (void)device, (void)of, (void)known;
}

static void none_tuned(struct gw_device *device, char text[GW_TUNED_BYTES])
{
    (void)device;
    text[0] = '\0';
}

/* Takes a function's arguments, all of which it leaves alone. */
static void ignore(const void *first, ...)
{
    (void)first;
}

#define GW_SIZE_OPERATION(name, parameters, arguments)                         \
    static size_t none_##name parameters                                       \
    {                                                                          \
        ignore arguments;                                                      \
        return 0;                                                              \
    }
#define GW_OPERATION(name, parameters, arguments)                              \
    static void none_##name parameters                                         \
    {                                                                          \
        ignore arguments;                                                      \
    }
#include "kernels/operations.h"

/* ---- the tables ---- */

/* clang-format off */
#define DOES_NOTHING \
    .close = none_close, \
    .describe = none_describe, \
    .report = none_report, \
    .locate = none_locate, \
    .usable = none_usable, \
    .linked = none_linked, \
    .memory = none_memory, \
    .alloc = none_alloc, \
    .free = none_free, \
    .alloc_host = none_alloc, \
    .free_host = none_free, \
    .pin = none_pin, \
    .unpin = none_unpin, \
    .export_memory = none_export_memory, \
    .import_memory = none_import_memory, \
    .path = none_path, \
    .release_import = none_release_import, \
    .pages = none_pages, \
    .upload = none_upload, \
    .copy_import = none_upload, \
    .fetch = none_fetch, \
    .reach = none_reach, \
    .download = none_download, \
    .sync = none_sync, \
    .tune = none_tune, \
    .tuned = none_tuned
/* clang-format on */

const struct gw_backend_ops gw_no_arithmetic = {
    .name = "none",
    .on_host = 1,
    .probe = none_probe,
    .open = none_open,
    DOES_NOTHING,
#define GW_SIZE_OPERATION(name, parameters, arguments) .name = none_##name,
#define GW_OPERATION(name, parameters, arguments)      .name = none_##name,
#include "kernels/operations.h"
};

static enum gw_status absent_probe(char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "it is not here");
    return GW_EUNSUPPORTED;
}

static enum gw_status absent_open(const struct gw_device_options *options,
                                  struct gw_device **device_p,
                                  struct gw_error *error)
{
    (void)options, (void)device_p;
    return gw_fail(error, GW_EUNSUPPORTED, "no GPU is opened for its sizes");
}

const struct gw_backend_ops gw_cuda_outline = {
    .name = "cuda",
    .takes = GW_CUDA_TAKES,
    .probe = absent_probe,
    .open = absent_open,
    DOES_NOTHING,
#define GW_SIZE_OPERATION(name, parameters, arguments) .name = gw_cuda_##name,
#define GW_OPERATION(name, parameters, arguments)      .name = none_##name,
#include "kernels/operations.h"
};
