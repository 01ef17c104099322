#include "config.h"

#include "worker/trainer/trial.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#define ELEMS (GW_TRIAL_BYTES / sizeof(float))
/* The faster of two ways is known after the first round, unless something else
   came between: some rounds more, but not for long, since links wait. */
#define ROUNDS    16
#define ROUNDS_US 150000
/* The way by the host is not that fast: processors sum there. */
#define BY_HOST 1.25
#define MEGA    1e6

/* ---- numbers ---- */

/* Whole numbers of 24 bits, so that a sum of one alone is that number. */
static float number(uint64_t nonce, size_t i)
{
    uint64_t x = nonce + i * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)(x >> 40);
}

static size_t count_wrong(uint64_t nonce, const float *host)
{
    size_t wrong = 0;
    for (size_t i = 0; i < ELEMS; i++)
        wrong += !(host[i] == number(nonce, i));
    return wrong;
}

/* ---- this worker's numbers ---- */

int gw_trial_is_due(const struct gw_backend_ops *ops)
{
    return ops->takes.page > 0;
}

static int leave_numbers(struct gw_trial *trial)
{
    struct gw_error error;
    float *host = trial->ops->alloc_host(trial->device, GW_TRIAL_BYTES);
    if (!host)
        return 0;
    for (size_t i = 0; i < ELEMS; i++)
        host[i] = number(trial->nonce, i);
    trial->ops->upload(trial->device, trial->numbers, host, GW_TRIAL_BYTES);
    int left = trial->ops->sync(trial->device, &error) == GW_OK;
    trial->ops->free_host(trial->device, host);
    return left;
}

int gw_trial_open(struct gw_trial *trial,
                  const struct gw_backend_ops *ops,
                  struct gw_device *device)
{
    *trial = (struct gw_trial){.ops = ops, .device = device};
    if (getrandom(&trial->nonce, sizeof trial->nonce, 0) != sizeof trial->nonce)
        return 0;
    trial->numbers = ops->alloc(device, GW_TRIAL_BYTES);
    if (trial->numbers && leave_numbers(trial) &&
        ops->export_memory(device, trial->numbers, trial->words))
        return 1;
    gw_trial_close(trial);
    return 0;
}

void gw_trial_close(struct gw_trial *trial)
{
    if (trial->numbers)
        trial->ops->free(trial->device, trial->numbers);
    *trial = (struct gw_trial){.ops = NULL};
}

/* ---- another worker's numbers ---- */

struct reading {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    struct gw_loop *loop;
    const float *seen;
    uint64_t nonce;
    float *here, *host; /* GW_TRIAL_BYTES each */
    uint8_t *nonfinite;
};

static enum gw_status open_reading(struct reading *r, struct gw_error *error)
{
    r->here = r->ops->alloc(r->device, GW_TRIAL_BYTES);
    r->nonfinite = r->ops->alloc(r->device, GW_PARTS_MAX);
    r->host = r->ops->alloc_host(r->device, GW_TRIAL_BYTES);
    return r->here && r->nonfinite && r->host
               ? GW_OK
               : gw_fail(error, GW_ENOMEM,
                         "no memory to try what another GPU shows");
}

static void close_reading(struct reading *r)
{
    if (r->host)
        r->ops->free_host(r->device, r->host);
    if (r->nonfinite)
        r->ops->free(r->device, r->nonfinite);
    if (r->here)
        r->ops->free(r->device, r->here);
}

/* Compares the numbers in `here`; `how` they came there is for the line. */
static enum gw_status
compare(const struct reading *r, const char *how, struct gw_error *error)
{
    r->ops->download(r->device, r->host, r->here, GW_TRIAL_BYTES);
    enum gw_status status = r->ops->sync(r->device, error);
    gw_loop_pulse(r->loop);
    if (status != GW_OK)
        return status;
    size_t wrong = count_wrong(r->nonce, r->host);
    gw_loop_pulse(r->loop);
    return wrong == 0
               ? GW_OK
               : gw_fail(error, GW_EUNSUPPORTED,
                         "%zu of %zu numbers in its GPU's memory are others "
                         "when %s here; an IOMMU, or ACS of a PCIe switch, can "
                         "be the cause",
                         wrong, ELEMS, how);
}

static enum gw_status compare_copies(const struct reading *r,
                                     struct gw_error *error)
{
    r->ops->copy_import(r->device, r->here, r->seen, GW_TRIAL_BYTES);
    return compare(r, "they are copied", error);
}

static enum gw_status compare_sums(const struct reading *r,
                                   struct gw_error *error)
{
    const float *const parts[] = {r->seen, NULL};
    memset(r->host, 0, GW_TRIAL_BYTES); /* clear the copies */
    r->ops->upload(r->device, r->here, r->host, GW_TRIAL_BYTES);
    enum gw_status status = r->ops->sync(r->device, error);
    if (status != GW_OK)
        return status;
    gw_loop_pulse(r->loop);
    r->ops->add_parts(r->device, parts, 2, ELEMS, r->here, r->nonfinite);
    return compare(r, "kernels read them", error);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * MEGA + (double)now.tv_nsec / 1000;
}

static double time_copy(const struct reading *r)
{
    struct gw_error error; /* comes again */
    double begun = now_us();
    r->ops->copy_import(r->device, r->here, r->seen, GW_TRIAL_BYTES);
    r->ops->sync(r->device, &error);
    return now_us() - begun;
}

/* The time without this way: to host memory, and from there. */
static double time_host(const struct reading *r)
{
    struct gw_error error;
    double begun = now_us();
    r->ops->download(r->device, r->host, r->here, GW_TRIAL_BYTES);
    r->ops->upload(r->device, r->here, r->host, GW_TRIAL_BYTES);
    r->ops->sync(r->device, &error);
    return now_us() - begun;
}

static enum gw_status compare_times(const struct reading *r,
                                    struct gw_error *error)
{
    double copy = time_copy(r), host = time_host(r), begun = now_us();
    for (int i = 1;
         i < ROUNDS && copy > BY_HOST * host && now_us() - begun < ROUNDS_US;
         i++) {
        double again = time_copy(r);
        copy = again < copy ? again : copy;
        again = time_host(r);
        host = again < host ? again : host;
        gw_loop_pulse(r->loop);
    }
    enum gw_status status = r->ops->sync(r->device, error);
    if (status != GW_OK || copy <= BY_HOST * host)
        return status;
    return gw_fail(error, GW_EUNSUPPORTED,
                   "its GPU's memory is read at %.2f GB/s, and at %.2f GB/s by "
                   "way of host memory",
                   (double)GW_TRIAL_BYTES / copy / 1000,
                   (double)GW_TRIAL_BYTES / host / 1000);
}

enum gw_status gw_trial_read(const struct gw_backend_ops *ops,
                             struct gw_device *device,
                             const uint8_t words[GW_MEMORY_WORDS],
                             uint64_t nonce,
                             struct gw_loop *loop,
                             struct gw_error *error)
{
    struct reading r = {
        .ops = ops, .device = device, .loop = loop, .nonce = nonce};
    r.seen = ops->import_memory(device, words, error);
    if (!r.seen)
        return GW_EUNSUPPORTED;
    enum gw_status status = open_reading(&r, error);
    if (status == GW_OK)
        status = compare_copies(&r, error);
    if (status == GW_OK)
        status = compare_sums(&r, error);
    if (status == GW_OK)
        status = compare_times(&r, error);
    close_reading(&r);
    ops->release_import(device, r.seen);
    return status;
}
