/* The batches of a data set: order, augmentation, normalisation. */
#include "config.h"

#include "worker/data/dataset_format.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/random.h"

#define CACHE_LINE     64
#define PREFETCH_BYTES 4096 /* the hardware follows a longer run itself */

static enum gw_status prepare_normalize(struct gw_dataset *set,
                                        const struct gw_number_list *list,
                                        struct gw_error *error)
{
    size_t channels = set->shape.channels;
    if (list->n != 0 && list->n != 2 && list->n != 2 * channels)
        return gw_fail(error, GW_EUSAGE,
                       "data.normalize has %zu numbers; [mean, deviation] for "
                       "all or for each of the %zu channels are 2 or %zu",
                       list->n, channels, 2 * channels);
    set->pairs = list->n < 2 ? 1 : list->n / 2;
    set->deviation[0] = 1;
    for (size_t i = 0; i < list->n / 2; i++) {
        double mean = list->item[2 * i], deviation = list->item[2 * i + 1];
        if (!isfinite(mean) || !isfinite(deviation) || deviation <= 0)
            return gw_fail(error, GW_EUSAGE,
                           "data.normalize: mean %g and deviation %g; both "
                           "must be finite and the deviation above 0",
                           mean, deviation);
        set->mean[i] = (float)mean;
        set->deviation[i] = (float)deviation;
    }
    for (size_t i = 0; i < set->pairs; i++)
        for (int v = 0; v < 256; v++)
            set->table[i][v] =
                ((float)v / 255.0f - set->mean[i]) / set->deviation[i];
    return GW_OK;
}

static enum gw_status
prepare_crop(struct gw_dataset *set, const char *text, struct gw_error *error)
{
    const struct gw_dataset_shape *shape = &set->shape;
    size_t side = shape->height < shape->width ? shape->height : shape->width;
    char *end;
    unsigned long pad = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || pad == 0)
        return gw_fail(error, GW_EUSAGE,
                       "data.augment: \"crop %s\": crop takes the number of "
                       "pixels to pad, as in \"crop 4\"",
                       text);
    if (pad >= side)
        return gw_fail(error, GW_EUSAGE,
                       "data.augment: \"crop %s\": the padding must be less "
                       "than a side of the %zu x %zu images",
                       text, shape->height, shape->width);
    set->pad = pad;
    return GW_OK;
}

static enum gw_status prepare_augment(struct gw_dataset *set,
                                      const struct gw_string_list *list,
                                      struct gw_error *error)
{
    enum gw_status status = GW_OK;
    for (size_t i = 0; status == GW_OK && i < list->n; i++) {
        const char *item = list->item[i];
        if (strcasecmp(item, "flip") == 0)
            set->flip = 1;
        else if (strncasecmp(item, "crop ", 5) == 0)
            status = prepare_crop(set, item + 5, error);
        else
            status = gw_fail(error, GW_EUSAGE,
                             "data.augment: \"%s\" is not known; there are "
                             "\"crop PAD\" and \"flip\"",
                             item);
    }
    return status;
}

enum gw_status gw_dataset_prepare(struct gw_dataset *set,
                                  const struct gw_config *config,
                                  struct gw_error *error)
{
    enum gw_status status =
        prepare_normalize(set, &config->data.normalize, error);
    if (status == GW_OK)
        status = prepare_augment(set, &config->data.augment, error);
    return status;
}

/* The place of the crop's window in the padded image, and the mirroring. */
struct placing {
    size_t top, left; /* 0..2 * pad; pad: where the image itself lies */
    int flip;
};

static size_t below(uint32_t bits, size_t n)
{
    return (size_t)((uint64_t)bits * n >> 32);
}

static struct placing draw(const struct gw_dataset *set,
                           const struct gw_batch_site *site,
                           uint64_t place)
{
    uint32_t bits[4];
    gw_random4(site->seed, GW_RANDOM_AUGMENT, site->epoch, place, bits);
    return (struct placing){.top = below(bits[0], 2 * set->pad + 1),
                            .left = below(bits[1], 2 * set->pad + 1),
                            .flip = set->flip && bits[2] >> 31};
}

static size_t pair_of(const struct gw_dataset *set, size_t channel)
{
    return set->pairs == 1 ? 0 : channel;
}

/* n values of one channel, normalised. */
static void fill(const struct gw_dataset *set,
                 size_t channel,
                 const uint8_t *restrict in,
                 size_t n,
                 float *restrict out)
{
    size_t pair = pair_of(set, channel);
    const float *table = set->table[pair];
    float mean = set->mean[pair], deviation = set->deviation[pair];
    switch (set->pixel) {
    case GW_PIXEL_U8:
        for (size_t i = 0; i < n; i++)
            out[i] = table[in[i]];
        break;
    case GW_PIXEL_F32:
        for (size_t i = 0; i < n; i++) {
            float value;
            memcpy(&value, in + 4 * i, 4); /* a file aligns nothing */
            out[i] = (value - mean) / deviation;
        }
        break;
    }
}

/* n values that are zero before normalisation. */
static void
fill_padding(const struct gw_dataset *set, size_t channel, size_t n, float *out)
{
    size_t pair = pair_of(set, channel);
    float value = (0.0f - set->mean[pair]) / set->deviation[pair];
    for (size_t i = 0; i < n; i++)
        out[i] = value;
}

static void mirror(float *row, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        float value = row[i];
        row[i] = row[n - 1 - i];
        row[n - 1 - i] = value;
    }
}

/*
 * One plane through the window at (top, left) of the padded plane:
 *
 *   padded row | pad zeros | width pixels | pad zeros |
 *   window     left |<----- width ----->|
 */
static void crop(const struct gw_dataset *set,
                 size_t channel,
                 const uint8_t *plane,
                 const struct placing *at,
                 float *out)
{
    size_t height = set->shape.height, width = set->shape.width;
    size_t value_bytes = set->pixel == GW_PIXEL_F32 ? sizeof(float) : 1;
    size_t before = at->left < set->pad ? set->pad - at->left : 0;
    size_t skipped = at->left > set->pad ? at->left - set->pad : 0;
    size_t inside = width - before - skipped;
    for (size_t y = 0; y < height; y++, out += width) {
        size_t row = at->top + y; /* of the padded plane */
        if (row < set->pad || row >= set->pad + height) {
            fill_padding(set, channel, width, out);
            continue;
        }
        const uint8_t *in =
            plane + ((row - set->pad) * width + skipped) * value_bytes;
        fill_padding(set, channel, before, out);
        fill(set, channel, in, inside, out + before);
        fill_padding(set, channel, skipped, out + before + inside);
        if (at->flip)
            mirror(out, width);
    }
}

static void sample(const struct gw_dataset *set,
                   const uint8_t *pixels,
                   const struct placing *at,
                   float *out)
{
    size_t plane = set->shape.height * set->shape.width;
    size_t plane_bytes = gw_dataset_sample_bytes(set) / set->shape.channels;
    for (size_t c = 0; c < set->shape.channels; c++) {
        if (at)
            crop(set, c, pixels + c * plane_bytes, at, out + c * plane);
        else
            fill(set, c, pixels + c * plane_bytes, plane, out + c * plane);
    }
}

/* Samples of a permutation lie far apart: ask for the next one early. */
static void prefetch(const struct gw_dataset *set, uint64_t index)
{
    const uint8_t *pixels = gw_dataset_pixels(set, index);
    size_t bytes = gw_dataset_sample_bytes(set);
    for (size_t at = 0; at < bytes && at < PREFETCH_BYTES; at += CACHE_LINE)
        __builtin_prefetch(pixels + at);
}

static uint64_t index_at(const struct gw_dataset *set,
                         const struct gw_batch_site *site,
                         size_t i)
{
    uint64_t place = site->first + i;
    return site->train ? gw_random_permute(site->seed, site->epoch,
                                           set->shape.samples, place)
                       : place;
}

void gw_dataset_batch(const struct gw_dataset *dataset,
                      const struct gw_batch_site *site,
                      float *x,
                      int32_t *labels)
{
    const struct gw_dataset_shape *shape = &dataset->shape;
    size_t values = shape->channels * shape->height * shape->width;
    int augment = site->train && (dataset->pad > 0 || dataset->flip);
    assert(site->first <= shape->samples &&
           site->n <= shape->samples - site->first);

    uint64_t next = site->n > 0 ? index_at(dataset, site, 0) : 0;
    for (size_t i = 0; i < site->n; i++) {
        uint64_t index = next;
        struct placing at;
        if (i + 1 < site->n) {
            next = index_at(dataset, site, i + 1);
            prefetch(dataset, next);
        }
        if (augment)
            at = draw(dataset, site, site->first + i);
        sample(dataset, gw_dataset_pixels(dataset, index), augment ? &at : NULL,
               x + i * values);
        labels[i] = dataset->labels[index];
    }
}
