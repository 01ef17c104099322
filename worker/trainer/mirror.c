#include "config.h"

#include "worker/trainer/mirror.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 256
/* Allocations in multiples of this share their pages with nothing else. */
#define APART ((size_t)2 << 20)

/* Keys with gradients on their way. */
struct run {
    size_t first, n;
    uint64_t point; /* in the device's queue, at which they have come */
};

struct gw_mirror {
    struct gw_mirror_of of;
    float *memory;     /* the device's; NULL: it computes in host memory */
    float *gradients;  /* likewise */
    uint16_t *bf16;    /* in `memory`: weights on their way */
    float **weight;    /* [keys] views of it */
    float **gradient;  /* [keys] */
    uint8_t *uploaded; /* [keys] since the begin */
    struct run *run;   /* [keys]: of this step, [handed, fetched) are due */
    size_t handed, fetched;
    uint64_t point; /* the last part's since the last run; 0: there is none */
};

static size_t key_bytes(const struct gw_mirror *mirror, size_t key)
{
    return gw_key_elems(&mirror->of.key[key]) * sizeof(float);
}

static void free_memory(struct gw_mirror *mirror)
{
    const struct gw_mirror_of *of = &mirror->of;
    if (mirror->memory)
        of->ops->free(of->device, mirror->memory);
    if (mirror->gradients)
        of->ops->free(of->device, mirror->gradients);
    mirror->memory = mirror->gradients = NULL;
}

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

size_t gw_mirror_weights_bytes(size_t arena_bytes, int bf16)
{
    size_t room = round_up(arena_bytes, ALIGN);
    return round_up(room + (bf16 ? room / 2 : 0), APART);
}

size_t gw_mirror_gradients_bytes(size_t arena_bytes)
{
    return round_up(arena_bytes, APART);
}

/* Allocates weights, and behind them weights as bf16; gradients apart from
   both. Other devices may be allowed to read all of either allocation. */
static enum gw_status open_memory(struct gw_mirror *mirror,
                                  struct gw_error *error)
{
    const struct gw_mirror_of *of = &mirror->of;
    size_t room = round_up(of->bytes, ALIGN);
    size_t weights = gw_mirror_weights_bytes(of->bytes, of->bf16 != NULL);
    size_t made = of->gradient ? gw_mirror_gradients_bytes(of->bytes) : 0;
    uint64_t total, left;
    mirror->memory = of->ops->alloc(of->device, weights);
    if (mirror->memory && made > 0)
        mirror->gradients = of->ops->alloc(of->device, made);
    if (!mirror->memory || (made > 0 && !mirror->gradients)) {
        free_memory(mirror);
        of->ops->memory(of->device, &total, &left);
        return gw_fail(error, GW_ENOMEM,
                       "no memory on the device for weights and gradients: %zu "
                       "MiB are needed, %zu of %zu MiB are free",
                       (weights + made) >> 20, (size_t)(left >> 20),
                       (size_t)(total >> 20));
    }
    if (of->bf16)
        mirror->bf16 =
            (uint16_t *)(void *)(mirror->memory + room / sizeof(float));
    for (size_t key = 0; key < of->keys; key++) {
        ptrdiff_t place = of->weight[key] - of->arena;
        mirror->weight[key] = mirror->memory + place;
        if (made > 0)
            mirror->gradient[key] = mirror->gradients + place;
    }
    return GW_OK;
}

enum gw_status gw_mirror_open(const struct gw_mirror_of *of,
                              struct gw_mirror **mirror_p,
                              struct gw_error *error)
{
    enum gw_status status = GW_OK;
    struct gw_mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return gw_fail(error, GW_ENOMEM, "no memory for %zu keys", of->keys);
    mirror->of = *of;
    mirror->weight = calloc(of->keys, sizeof *mirror->weight);
    mirror->gradient = calloc(of->keys, sizeof *mirror->gradient);
    mirror->uploaded = calloc(of->keys, sizeof *mirror->uploaded);
    mirror->run = calloc(of->keys, sizeof *mirror->run);
    if (!mirror->weight || !mirror->gradient || !mirror->uploaded ||
        !mirror->run)
        status = gw_fail(error, GW_ENOMEM, "no memory for %zu keys", of->keys);
    else if (!of->ops->on_host)
        status = open_memory(mirror, error);
    if (status == GW_OK) /* other devices may write there at once */
        status = of->ops->sync(of->device, error);
    if (status != GW_OK) {
        gw_mirror_close(mirror);
        return status;
    }
    *mirror_p = mirror;
    return GW_OK;
}

void gw_mirror_close(struct gw_mirror *mirror)
{
    if (!mirror)
        return;
    free_memory(mirror);
    free(mirror->weight);
    free(mirror->gradient);
    free(mirror->uploaded);
    free(mirror->run);
    free(mirror);
}

const float *const *gw_mirror_weights(const struct gw_mirror *mirror)
{
    return (const float *const *)(mirror->memory ? mirror->weight
                                                 : mirror->of.weight);
}

float *const *gw_mirror_gradients(const struct gw_mirror *mirror)
{
    return mirror->memory ? mirror->gradient : mirror->of.gradient;
}

enum gw_status gw_mirror_begin(struct gw_mirror *mirror, struct gw_error *error)
{
    memset(mirror->uploaded, 0, mirror->of.keys);
    mirror->handed = mirror->fetched = 0;
    mirror->point = 0;
    return mirror->of.ops->sync(mirror->of.device, error);
}

int gw_mirror_has(const struct gw_mirror *mirror, size_t key)
{
    return !mirror->memory || mirror->uploaded[key];
}

/* The host's place of a key's weights from byte `at` on, of fp32. */
static const void *on_host(const struct gw_mirror *mirror,
                           size_t key,
                           size_t at,
                           enum gw_encoding encoding)
{
    const struct gw_mirror_of *of = &mirror->of;
    ptrdiff_t place = mirror->weight[key] - mirror->memory;
    if (encoding == GW_ENCODING_BF16)
        return of->bf16 + place + at / sizeof(float);
    return (const char *)of->weight[key] + at;
}

/* As bf16 it is half as many bytes, until they are widened. */
void gw_mirror_upload_part(struct gw_mirror *mirror,
                           size_t key,
                           size_t at,
                           size_t bytes,
                           enum gw_encoding encoding,
                           const void *from)
{
    const struct gw_mirror_of *of = &mirror->of;
    if (gw_mirror_has(mirror, key) || from == mirror->memory)
        return;
    size_t place =
        (size_t)(mirror->weight[key] - mirror->memory) * sizeof(float) + at;
    char *to = (char *)gw_mirror_weight_arena(mirror, encoding) +
               gw_encoded_size(encoding, place);
    bytes = gw_encoded_size(encoding, bytes);
    if (from)
        of->ops->copy_import(of->device, to,
                             (const char *)from + (to - (char *)mirror->memory),
                             bytes);
    else
        of->ops->upload(of->device, to, on_host(mirror, key, at, encoding),
                        bytes);
}

void gw_mirror_uploaded(struct gw_mirror *mirror,
                        size_t key,
                        enum gw_encoding encoding)
{
    const struct gw_mirror_of *of = &mirror->of;
    if (gw_mirror_has(mirror, key))
        return;
    if (encoding == GW_ENCODING_BF16)
        of->ops->widen(of->device, gw_key_elems(&of->key[key]),
                       mirror->bf16 + (mirror->weight[key] - mirror->memory),
                       mirror->weight[key]);
    mirror->uploaded[key] = 1;
}

void gw_mirror_upload(struct gw_mirror *mirror,
                      size_t first,
                      size_t n,
                      enum gw_encoding encoding)
{
    for (size_t key = first; key < first + n; key++) {
        gw_mirror_upload_part(mirror, key, 0, key_bytes(mirror, key), encoding,
                              NULL);
        gw_mirror_uploaded(mirror, key, encoding);
    }
}

void *gw_mirror_weight_arena(const struct gw_mirror *mirror,
                             enum gw_encoding encoding)
{
    return encoding == GW_ENCODING_RAW ? (void *)mirror->memory
                                       : (void *)mirror->bf16;
}

float *gw_mirror_gradient_arena(const struct gw_mirror *mirror)
{
    return mirror->gradients;
}

void gw_mirror_fetch_part(struct gw_mirror *mirror,
                          size_t key,
                          size_t at,
                          size_t bytes)
{
    const struct gw_mirror_of *of = &mirror->of;
    if (mirror->memory)
        mirror->point =
            of->ops->fetch(of->device, (char *)of->gradient[key] + at,
                           (const char *)mirror->gradient[key] + at, bytes);
}

void gw_mirror_hand_over(struct gw_mirror *mirror, size_t first, size_t n)
{
    const struct gw_mirror_of *of = &mirror->of;
    struct run run = {.first = first, .n = n, .point = mirror->point};
    if (mirror->memory && run.point == 0) /* when they are made */
        run.point = of->ops->fetch(of->device, of->gradient[first],
                                   mirror->gradient[first], 0);
    mirror->point = 0;
    mirror->run[mirror->fetched++] = run;
}

void gw_mirror_fetch(struct gw_mirror *mirror, size_t first, size_t n)
{
    for (size_t key = first; key < first + n; key++)
        gw_mirror_fetch_part(mirror, key, 0, key_bytes(mirror, key));
    gw_mirror_hand_over(mirror, first, n);
}

enum gw_status gw_mirror_next(struct gw_mirror *mirror,
                              int wait,
                              size_t *first_p,
                              size_t *n_p,
                              struct gw_error *error)
{
    const struct gw_mirror_of *of = &mirror->of;
    if (mirror->handed == mirror->fetched)
        return GW_EAGAIN;
    const struct run *run = &mirror->run[mirror->handed];
    if (mirror->memory) {
        enum gw_status status =
            of->ops->reach(of->device, run->point, wait, error);
        if (status != GW_OK)
            return status;
    }
    mirror->handed++;
    *first_p = run->first;
    *n_p = run->n;
    return GW_OK;
}
