#include "config.h"

#include "worker/data/dataset_number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/half.h"

/* Standardised values are hardly ever beyond this; bytes taken for floats are.
 */
#define FAR_FROM_ONE 20.0f

void gw_number_name(struct gw_number number, char name[GW_NUMBER_NAME_BYTES])
{
    static const char *const kinds[] = {[GW_NUMBER_UINT] = "uint",
                                        [GW_NUMBER_INT] = "int",
                                        [GW_NUMBER_FLOAT] = "float"};
    snprintf(name, GW_NUMBER_NAME_BYTES, "%s%u%s", kinds[number.kind],
             8u * number.bytes,
             number.big && number.bytes > 1 ? ", big-endian" : "");
}

/* Its bytes as one number, in either byte order. */
static uint64_t bits_of(struct gw_number number, const uint8_t *in)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < number.bytes; i++)
        bits = bits << 8 | in[number.big ? i : number.bytes - 1u - i];
    return bits;
}

int64_t gw_number_integer(struct gw_number number, const uint8_t *in)
{
    uint64_t bits = bits_of(number, in);
    unsigned width = 8u * number.bytes;
    if (number.kind == GW_NUMBER_INT && width < 64 && bits >> (width - 1))
        return (int64_t)bits - ((int64_t)1 << width);
    if (number.kind == GW_NUMBER_UINT && bits > INT64_MAX)
        return INT64_MAX;
    return (int64_t)bits;
}

float gw_number_float(struct gw_number number, const uint8_t *in)
{
    uint64_t bits = bits_of(number, in);
    uint32_t word = (uint32_t)bits;
    double wide;
    float value;
    if (number.kind != GW_NUMBER_FLOAT)
        return (float)gw_number_integer(number, in);
    if (number.bytes == 2)
        return gw_half_from_f16((uint16_t)bits);
    if (number.bytes == 4) {
        memcpy(&value, &word, sizeof value);
        return value;
    }
    memcpy(&wide, &bits, sizeof wide);
    return (float)wide;
}

enum gw_status gw_data_convert(struct gw_dataset *set,
                               size_t file,
                               struct gw_number number,
                               size_t header_bytes,
                               uint64_t n,
                               float scale,
                               struct gw_error *error)
{
    struct gw_data_file *from = &set->file[file];
    const uint8_t *in = from->bytes + header_bytes;
    char name[GW_NUMBER_NAME_BYTES];
    float *out = calloc(n, sizeof *out);
    if (!out)
        return gw_fail(error, GW_ENOMEM,
                       "%s: no memory for its %" PRIu64 " values as float32",
                       from->name, n);
    for (uint64_t i = 0; i < n && !from->looked; i++)
        out[i] = scale * gw_number_float(number, in + i * number.bytes);
    gw_number_name(number, name);
    gw_data_note(set, GW_DATASET_CONVERTED,
                 "%s is of %s, converted to float32 in memory%s", from->name,
                 name, scale < 1 ? ", so that the largest is 1" : "");
    const struct gw_data_file made = {.name = from->name,
                                      .bytes = (const uint8_t *)out,
                                      .n = n * sizeof *out,
                                      .memory = GW_DATA_ALLOCATED,
                                      .packed = from->n,
                                      .looked = from->looked};
    gw_data_file_close(from);
    *from = made;
    return GW_OK;
}

enum gw_status gw_data_labels_read(struct gw_dataset *set,
                                   size_t file,
                                   struct gw_number number,
                                   size_t header_bytes,
                                   struct gw_error *error)
{
    const struct gw_data_file *from = &set->file[file];
    enum gw_status status = GW_OK;
    set->label_file = file;
    for (uint64_t i = 0; status == GW_OK && i < set->shape.samples; i++)
        status = gw_data_label_set(
            set, from->name, i,
            gw_number_integer(number,
                              from->bytes + header_bytes + i * number.bytes),
            GW_DATA_CLASSES_MAX, error);
    return status;
}

/* data.normalize gives the values a meaning; else they are as the file has
   them. */
static void doubt_range(struct gw_dataset *set,
                        const struct gw_config *config,
                        const char *name,
                        float least,
                        float most)
{
    if (config->data.normalize.n > 0 ||
        fmaxf(fabsf(least), fabsf(most)) <= FAR_FROM_ONE)
        return;
    gw_data_note(set, GW_DATASET_DOUBTFUL,
                 "%s has values from %g to %g, which are taken as they are; "
                 "data.normalize = [MEAN, DEVIATION], such as [0, %g], brings "
                 "them near 1",
                 name, (double)least, (double)most,
                 (double)fmaxf(fabsf(least), fabsf(most)));
}

enum gw_status gw_data_check_floats(struct gw_dataset *set,
                                    const struct gw_config *config,
                                    const char *name,
                                    struct gw_error *error)
{
    size_t values = set->shape.channels * set->shape.height * set->shape.width;
    uint64_t n = set->shape.samples * values;
    const uint8_t *in = set->run[0].pixels;
    float least = INFINITY, most = -INFINITY;
    if (set->file[0].looked)
        return GW_OK;
    for (uint64_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, in + 4 * i, sizeof value); /* a file aligns nothing */
        if (!isfinite(value))
            return gw_fail(error, GW_ECORRUPT,
                           "%s: sample %" PRIu64
                           " has a value that is NaN or infinite",
                           name, i / values);
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    doubt_range(set, config, name, least, most);
    return GW_OK;
}
