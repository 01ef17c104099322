#include "config.h"

#include "tests/unit/data_bytes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "proto/wire.h"

uint8_t bytes_pixel(size_t sample, size_t k)
{
    return (uint8_t)(sample * 37 + k * 11);
}

int bytes_label(size_t sample)
{
    return (int)(sample * 3 % 10);
}

void bytes_add(struct bytes *out, const void *from, size_t n)
{
    assert(n <= sizeof out->at - out->n);
    memcpy(out->at + out->n, from, n);
    out->n += n;
}

static void add_u8(struct bytes *out, int value)
{
    uint8_t byte = (uint8_t)value;
    bytes_add(out, &byte, 1);
}

static void add_big_endian(struct bytes *out, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        add_u8(out, (int)(value >> shift & 0xff));
}

static void add_pixels(struct bytes *out, size_t sample, size_t n)
{
    for (size_t k = 0; k < n; k++)
        add_u8(out, bytes_pixel(sample, k));
}

void bytes_idx_images(struct bytes *out, uint32_t n, uint32_t h, uint32_t w)
{
    out->n = 0;
    add_big_endian(out, 0x803);
    add_big_endian(out, n);
    add_big_endian(out, h);
    add_big_endian(out, w);
    for (uint32_t i = 0; i < n; i++)
        add_pixels(out, i, (size_t)h * w);
}

void bytes_idx_labels(struct bytes *out, uint32_t n)
{
    out->n = 0;
    add_big_endian(out, 0x801);
    add_big_endian(out, n);
    for (uint32_t i = 0; i < n; i++)
        add_u8(out, bytes_label(i));
}

void bytes_cifar(struct bytes *out, size_t n, size_t first_sample)
{
    out->n = 0;
    for (size_t i = first_sample; i < first_sample + n; i++) {
        add_u8(out, bytes_label(i));
        add_pixels(out, i, 3072);
    }
}

void bytes_npy(struct bytes *out, int major, const char *dict)
{
    size_t begin = major == 1 ? 10 : 12;
    size_t text = (begin + strlen(dict) + 1 + 63) / 64 * 64 - begin;
    uint8_t count[4];
    out->n = 0;
    bytes_add(out, "\x93NUMPY", 6);
    add_u8(out, major);
    add_u8(out, 0);
    gw_put_u32(count, (uint32_t)text);
    bytes_add(out, count, begin - 8);
    bytes_add(out, dict, strlen(dict));
    while (out->n < begin + text - 1)
        add_u8(out, ' ');
    add_u8(out, '\n');
}

void bytes_npy_x(struct bytes *out, size_t n, size_t h, size_t w)
{
    char dict[128];
    snprintf(dict, sizeof dict,
             "{'descr': '|u1', 'fortran_order': False, "
             "'shape': (%zu, %zu, %zu), }",
             n, h, w);
    bytes_npy(out, 1, dict);
    for (size_t i = 0; i < n; i++)
        add_pixels(out, i, h * w);
}

void bytes_npy_y(struct bytes *out, size_t n)
{
    char dict[128];
    uint8_t label[4];
    snprintf(dict, sizeof dict,
             "{'descr': '<i4', 'fortran_order': False, 'shape': (%zu,), }", n);
    bytes_npy(out, 1, dict);
    for (size_t i = 0; i < n; i++) {
        gw_put_u32(label, (uint32_t)bytes_label(i));
        bytes_add(out, label, sizeof label);
    }
}

void bytes_gzip(struct bytes *out, const struct bytes *in)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)in->at,
                  .avail_in = (uInt)in->n,
                  .next_out = out->at,
                  .avail_out = sizeof out->at};
    int code = deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    assert(code == Z_OK);
    code = deflate(&z, Z_FINISH);
    assert(code == Z_STREAM_END);
    out->n = z.total_out;
    deflateEnd(&z);
}

/* Plain bytes in memory of exactly their size: overreads are seen. */
static enum gw_status file_of(const struct bytes *bytes,
                              const char *name,
                              const struct gw_data_reader *reader,
                              struct gw_data_file *file,
                              struct gw_error *error)
{
    enum gw_status status = gw_data_file_from_bytes(name, bytes->at, bytes->n,
                                                    reader->size, file, error);
    if (status != GW_OK || file->memory != GW_DATA_BORROWED)
        return status;
    uint8_t *copy = malloc(bytes->n + (bytes->n == 0));
    assert(copy);
    memcpy(copy, bytes->at, bytes->n);
    file->bytes = copy;
    file->memory = GW_DATA_ALLOCATED;
    return GW_OK;
}

enum gw_status bytes_open(const struct gw_config *config,
                          const struct gw_data_reader *reader,
                          const struct bytes *first,
                          const struct bytes *second,
                          struct gw_dataset **set_p,
                          struct gw_error *error)
{
    const struct bytes *in[] = {first, second};
    const char *const names[] = {"first", "second"};
    struct gw_data_file files[2];
    size_t n = 0, wanted = second ? 2 : 1;
    enum gw_status status = GW_OK;
    while (n < wanted) {
        status = file_of(in[n], names[n], reader, &files[n], error);
        if (status != GW_OK)
            break;
        n++;
    }
    if (status == GW_OK)
        return gw_dataset_create(config, reader, files, n, set_p, error);
    while (n > 0)
        gw_data_file_close(&files[--n]);
    return status;
}
