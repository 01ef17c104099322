/* worker/data/dataset: truncated files, lying headers, wrong types; all
 * formats. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/wire.h"
#include "tests/unit/data_bytes.h"

#define NPY(descr, shape)                                                      \
    "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }"

static const struct gw_config config;
static struct bytes first, second, cut, packed;

static enum gw_status open_pair(const struct gw_data_reader *reader,
                                const struct bytes *a,
                                const struct bytes *b,
                                struct gw_error *error)
{
    struct gw_dataset *set = NULL;
    *error = (struct gw_error){.text = ""};
    enum gw_status status = bytes_open(&config, reader, a, b, &set, error);
    assert_int_equal(status == GW_OK, set != NULL);
    assert_null(strchr(error->text, '\n'));
    gw_dataset_close(set);
    return status;
}

static void refuse(const struct gw_data_reader *reader,
                   const struct bytes *a,
                   const struct bytes *b,
                   enum gw_status status,
                   const char *inside)
{
    struct gw_error error;
    assert_int_equal(open_pair(reader, a, b, &error), status);
    if (!strstr(error.text, inside))
        fail_msg("\"%s\" lacks \"%s\"", error.text, inside);
}

/* Every shorter length of either file is refused, the full one is not. */
static void truncate_both(const struct gw_data_reader *reader)
{
    struct gw_error error;
    for (size_t n = 0; n <= first.n; n++) {
        cut.n = 0;
        bytes_add(&cut, first.at, n);
        if (n == first.n)
            assert_int_equal(open_pair(reader, &cut, &second, &error), GW_OK);
        else
            refuse(reader, &cut, &second, GW_ECORRUPT, "first: ");
    }
    for (size_t n = 0; n < second.n; n++) {
        cut.n = 0;
        bytes_add(&cut, second.at, n);
        refuse(reader, &first, &cut, GW_ECORRUPT, "second: ");
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    bytes_idx_images(&first, 6, 3, 4);
    bytes_idx_labels(&second, 6);
    truncate_both(&gw_data_idx);
    bytes_npy_x(&first, 6, 3, 4);
    bytes_npy_y(&second, 6);
    truncate_both(&gw_data_npy);
}

static void every_truncation_of_gzip_is_refused(void **state)
{
    (void)state;
    struct gw_error error;
    bytes_idx_images(&cut, 40, 9, 9);
    bytes_gzip(&packed, &cut);
    bytes_idx_labels(&second, 40);
    for (size_t n = 0; n < packed.n; n++) {
        cut.n = 0;
        bytes_add(&cut, packed.at, n);
        refuse(&gw_data_idx, &cut, &second, GW_ECORRUPT, "first: ");
    }
    assert_int_equal(open_pair(&gw_data_idx, &packed, &second, &error), GW_OK);
    /* zeros behind it are padding, all else is damage */
    bytes_add(&packed, "\0\0\0", 3);
    assert_int_equal(open_pair(&gw_data_idx, &packed, &second, &error), GW_OK);
    bytes_add(&packed, "\1", 1);
    refuse(&gw_data_idx, &packed, &second, GW_ECORRUPT, "gzip stream");
}

static void every_truncation_of_cifar_is_refused(void **state)
{
    (void)state;
    struct gw_error error;
    bytes_cifar(&first, 2, 0);
    for (size_t n = 0; n <= first.n; n++) {
        cut.n = 0;
        bytes_add(&cut, first.at, n);
        enum gw_status status = open_pair(&gw_data_cifar10, &cut, NULL, &error);
        int is_whole = n == 3073 || n == 2 * 3073;
        assert_int_equal(status, is_whole ? GW_OK : GW_ECORRUPT);
    }
    first.at[3073] = 10;
    refuse(&gw_data_cifar10, &first, NULL, GW_ECORRUPT,
           "label 10 of sample 1 is not within 0..9");
    bytes_gzip(&packed, &first);
    refuse(&gw_data_cifar10, &packed, NULL, GW_EUNSUPPORTED, "gunzip");
}

/* One byte wrong anywhere in a gzip file: its own checksum finds it. */
static void every_flipped_byte_of_gzip_is_refused(void **state)
{
    (void)state;
    struct gw_error error;
    bytes_idx_images(&first, 10, 5, 5);
    bytes_gzip(&packed, &first);
    bytes_idx_labels(&second, 10);
    size_t accepted = 0;
    for (size_t at = 0; at < packed.n; at++) {
        packed.at[at] ^= 0x55;
        accepted += open_pair(&gw_data_idx, &packed, &second, &error) == GW_OK;
        packed.at[at] ^= 0x55;
    }
    /* time, flags and system of the gzip header say nothing about the data */
    assert_in_range(accepted, 0, 6);
}

static void set_dim(struct bytes *bytes, size_t dim, uint32_t value)
{
    for (size_t i = 0; i < 4; i++)
        bytes->at[4 + 4 * dim + i] = (uint8_t)(value >> (24 - 8 * i));
}

static void idx_headers_that_lie(void **state)
{
    (void)state;
    static const struct {
        size_t dim;
        uint32_t value;
        const char *inside;
    } lies[] = {
        {0, 0, "declares no samples"},
        {1, 0, "declares no pixels"},
        {2, 0, "declares no pixels"},
        {0, 5, "declares 76 bytes, it holds 88 (bytes behind the end)"},
        {0, 7, "declares 100 bytes, it holds 88 (truncated)"},
        {0, UINT32_MAX, "truncated"},
        {1, UINT32_MAX, "truncated"},
        {2, 1u << 31, "truncated"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        bytes_idx_images(&first, 6, 3, 4);
        bytes_idx_labels(&second, 6);
        set_dim(&first, lies[i].dim, lies[i].value);
        refuse(&gw_data_idx, &first, &second, GW_ECORRUPT, lies[i].inside);
    }
    for (size_t dim = 0; dim < 3; dim++)
        set_dim(&first, dim, UINT32_MAX);
    refuse(&gw_data_idx, &first, &second, GW_ECORRUPT, "more than 2^64");
    bytes_gzip(&packed, &first);
    refuse(&gw_data_idx, &packed, &second, GW_ECORRUPT, "more than 2^64");
    set_dim(&first, 1, 641); /* 2^64 - 1 = (2^32 - 1) * 641 * 6700417 */
    set_dim(&first, 2, 6700417);
    refuse(&gw_data_idx, &first, &second, GW_ECORRUPT, "more than 2^64");
}

static void idx_files_of_the_wrong_kind(void **state)
{
    (void)state;
    bytes_idx_images(&first, 6, 3, 4);
    bytes_idx_labels(&second, 6);
    refuse(&gw_data_idx, &second, &first, GW_ECORRUPT,
           "first: holds labels where images are expected");
    refuse(&gw_data_idx, &first, &first, GW_ECORRUPT,
           "second: holds images where labels are expected");
    bytes_idx_labels(&second, 5);
    refuse(&gw_data_idx, &first, &second, GW_ECORRUPT,
           "second: holds 5 labels for the 6 images of first");
    bytes_npy_x(&first, 6, 3, 4);
    refuse(&gw_data_idx, &first, &second, GW_ECORRUPT,
           "begins with 0x934e554d");
    bytes_idx_images(&first, 6, 3, 4);
    bytes_idx_labels(&second, 6);
    first.at[2] = 0x0a; /* no type */
    refuse(&gw_data_idx, &first, &second, GW_ECORRUPT,
           "begins with 0x00000a03");
    first.at[2] = 0x09;
    refuse(&gw_data_idx, &first, &second, GW_EMISMATCH,
           "first: holds images of 3 dimensions of int8; uint8 of [n,h,w]");
    first.at[2] = 0x08;
    second.at[2] = 0x0d;
    refuse(&gw_data_idx, &first, &second, GW_ECORRUPT, "truncated");
    bytes_add(&second, first.at, 18);
    refuse(&gw_data_idx, &first, &second, GW_EMISMATCH,
           "second: holds labels of float32, big-endian; whole numbers");
}

/* A gzip file that declares far more than it can hold takes no memory. */
static void gzip_declarations_that_lie(void **state)
{
    (void)state;
    bytes_idx_labels(&second, 6);
    bytes_idx_images(&first, 6, 3, 4);
    set_dim(&first, 0, 1u << 30);
    bytes_gzip(&packed, &first);
    refuse(&gw_data_idx, &packed, &second, GW_ECORRUPT,
           "declares 12884901904 bytes, more than it can hold");
    set_dim(&first, 0, 7);
    bytes_gzip(&packed, &first);
    refuse(&gw_data_idx, &packed, &second, GW_ECORRUPT,
           "declares 100 bytes, it holds 88 (truncated)");
    set_dim(&first, 0, 5);
    bytes_gzip(&packed, &first);
    refuse(&gw_data_idx, &packed, &second, GW_ECORRUPT,
           "declares 76 bytes, it holds more");
}

/* The same where the end lies beyond what is read before the size is known. */
static void long_gzip_declarations_that_lie(void **state)
{
    (void)state;
    struct gw_error error;
    bytes_idx_labels(&second, 6000);
    bytes_idx_images(&first, 6000, 5, 5);
    assert_true(first.n > 2 * GW_DATA_HEAD_BYTES);
    bytes_gzip(&packed, &first);
    assert_int_equal(open_pair(&gw_data_idx, &packed, &second, &error), GW_OK);
    set_dim(&first, 0, 5999);
    bytes_gzip(&packed, &first);
    refuse(&gw_data_idx, &packed, &second, GW_ECORRUPT,
           "holds more than the 149991 bytes that its header declares");
    set_dim(&first, 0, 6001);
    bytes_gzip(&packed, &first);
    refuse(&gw_data_idx, &packed, &second, GW_ECORRUPT,
           "declares 150041 bytes, it holds 150016 (truncated)");
}

/* Two gzip members, one behind the other, are one file (RFC 1952, 2.2). */
static void gzip_members_are_joined(void **state)
{
    (void)state;
    struct gw_error error;
    bytes_idx_images(&first, 6, 3, 4);
    bytes_idx_labels(&second, 6);
    cut.n = 0;
    bytes_add(&cut, first.at, 30);
    bytes_gzip(&packed, &cut);
    cut.n = 0;
    bytes_add(&cut, first.at + 30, first.n - 30);
    bytes_gzip(&first, &cut);
    bytes_add(&packed, first.at, first.n);
    assert_int_equal(open_pair(&gw_data_idx, &packed, &second, &error), GW_OK);
}

/* Headers in front of six bytes of data. */
static const struct {
    const char *dict;
    enum gw_status status;
    const char *inside;
} headers[] = {
    {"{'shape': (2, 3), 'descr': \"|u1\", 'fortran_order': False}", GW_OK, ""},
    {"{'descr':'|u1','fortran_order':False,'shape':(2L,3L)}", GW_OK, ""},
    {NPY("|u1", "(2, 3,)"), GW_OK, ""},
    {NPY("<f8", "(2, 3)"), GW_ECORRUPT, "declares 176 bytes"},
    {NPY("<u2", "(1, 3)"), GW_ECORRUPT, "second: holds 2 labels for the 1"},
    {NPY("<c8", "(2, 3)"), GW_EMISMATCH, "its type is '<c8'"},
    {NPY("|u2", "(1, 3)"), GW_EMISMATCH, "its type is '|u2'"},
    {NPY("<i8", "(2, 3)"), GW_ECORRUPT, "declares 176 bytes"},
    {NPY("|i1", "(2, 3)"), GW_EMISMATCH, "2 dimensions of '|i1'; x must be"},
    {NPY("|u1 and thirty-one bytes at all", "(2, 3)"), GW_EMISMATCH,
     "its type is '|u1 and thirty-one bytes at all'"},
    {NPY("|u1 and thirty-two bytes in all ", "(2, 3)"), GW_ECORRUPT,
     "cannot be read"},
    {NPY(">f4", "(2, 3)"), GW_ECORRUPT, "declares 152 bytes"},
    {NPY("|O", "(2, 3)"), GW_EMISMATCH, "its type is '|O'"},
    {NPY("<i4", "(2, 3)"), GW_ECORRUPT, "declares 152 bytes"},
    {NPY("|u1", "(6,)"), GW_EMISMATCH, "1 dimensions of '|u1'"},
    {NPY("|u1", "()"), GW_ECORRUPT, "declares 129 bytes"},
    {NPY("|u1", "(2, 0, 3)"), GW_ECORRUPT, "dimension 1 of its shape is 0"},
    {NPY("|u1", "(0, 3)"), GW_ECORRUPT, "dimension 0 of its shape is 0"},
    {NPY("|u1", "(2, 3, 1, 1, 1)"), GW_ECORRUPT, "at most 4 dimensions"},
    {NPY("|u1", "(2 3)"), GW_ECORRUPT, "cannot be read"},
    {NPY("|u1", "(2, -3)"), GW_ECORRUPT, "cannot be read"},
    {NPY("|u1", "(18446744073709551616, 3)"), GW_ECORRUPT, "cannot be read"},
    {NPY("|u1", "(99999999999999999999, 3)"), GW_ECORRUPT, "cannot be read"},
    {NPY("|u1", "(18446744073709551615, 2)"), GW_ECORRUPT, "more than 2^64"},
    {NPY("|u1", "(9223372036854775807, 2, 1)"), GW_ECORRUPT, "more than 2^64"},
    {NPY("|u1", "(6148914691236517205, 3)"), GW_ECORRUPT, "more than 2^64"},
    {NPY("|u1", "(1000000000000, 3)"), GW_ECORRUPT, "truncated"},
    {"{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (6,)}",
     GW_ECORRUPT, "cannot be read"},
    {"{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", GW_EMISMATCH,
     "Fortran order"},
    {"{'descr': '|u1', 'fortran_order': Maybe, 'shape': (2, 3)}", GW_ECORRUPT,
     "cannot be read"},
    {"{'descr': '|u1', 'fortran_order': False}", GW_ECORRUPT, "cannot be read"},
    {"{'descr': '|u1', 'shape': (2, 3)}", GW_ECORRUPT, "cannot be read"},
    {"{'fortran_order': False, 'shape': (2, 3)}", GW_ECORRUPT,
     "cannot be read"},
    {"{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, "
     "'shape': (2, 3)}",
     GW_ECORRUPT, "cannot be read"},
    {NPY("|u1 and much more than any plain type", "(2, 3)"), GW_ECORRUPT,
     "cannot be read"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), 'x': 1}",
     GW_ECORRUPT, "cannot be read"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)} x", GW_ECORRUPT,
     "cannot be read"},
    {"{'descr': '|u1", GW_ECORRUPT, "cannot be read"},
    /* found by fuzz_npy: a type is shown, so it must be one line */
    {NPY("|u\n1", "(2, 3)"), GW_ECORRUPT, "cannot be read"},
    {NPY("|u\x7f", "(2, 3)"), GW_ECORRUPT, "cannot be read"},
    {NPY("\x1b[2J", "(2, 3)"), GW_ECORRUPT, "cannot be read"},
    {"", GW_ECORRUPT, "cannot be read"},
};

static void npy_headers(void **state)
{
    (void)state;
    bytes_npy_y(&second, 2);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct gw_error error;
        bytes_npy(&first, 1, headers[i].dict);
        bytes_add(&first, "\1\2\3\4\5\6", 6);
        enum gw_status status =
            open_pair(&gw_data_npy, &first, &second, &error);
        if (status != headers[i].status ||
            !strstr(error.text, headers[i].inside))
            fail_msg("%s: %s (%s)", headers[i].dict, gw_status_text(status),
                     error.text);
    }
}

static void npy_labels(void **state)
{
    (void)state;
    static const struct {
        const char *dict;
        int64_t label;
        size_t bytes;
        enum gw_status status;
        const char *inside;
    } cases[] = {
        {NPY("<i8", "(2,)"), 9, 8, GW_OK, ""},
        {NPY("<i8", "(2,)"), -1, 8, GW_ECORRUPT, "label -1 of sample 1"},
        {NPY("<i8", "(2,)"), INT64_MIN, 8, GW_ECORRUPT, "of sample 1"},
        {NPY("<i8", "(2,)"), (int64_t)1 << 32, 8, GW_ECORRUPT, "of sample 1"},
        {NPY("<i4", "(2,)"), 1 << 20, 4, GW_ECORRUPT, "within 0..1048575"},
        {NPY("<i4", "(2,)"), (1 << 20) - 1, 4, GW_OK, ""},
        {NPY("<i4", "(2,)"), -5, 4, GW_ECORRUPT, "label -5 of sample 1"},
        {NPY("|u1", "(2,)"), 255, 1, GW_OK, ""},
        {NPY("<f4", "(2,)"), 1, 4, GW_EMISMATCH, "y must be whole numbers"},
        {NPY("<i4", "(2, 1)"), 1, 4, GW_OK, ""},
        {NPY("<i4", "(2, 2)"), 1, 4, GW_ECORRUPT, "truncated"},
        {NPY("<i4", "(1, 2)"), 1, 4, GW_EMISMATCH, "y must be whole numbers"},
        {NPY("<u8", "(2,)"), -1, 8, GW_ECORRUPT, "9223372036854775807 of"},
        {NPY("|i1", "(2,)"), -1, 1, GW_ECORRUPT, "label -1 of sample 1"},
        {NPY("<i2", "(2,)"), -2, 2, GW_ECORRUPT, "label -2 of sample 1"},
        {NPY("<u2", "(2,)"), 65535, 2, GW_OK, ""},
    };
    bytes_npy_x(&first, 2, 3, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gw_error error;
        uint8_t labels[16] = {0};
        gw_put_u64(labels + cases[i].bytes, (uint64_t)cases[i].label);
        bytes_npy(&second, 2, cases[i].dict);
        bytes_add(&second, labels, 2 * cases[i].bytes);
        enum gw_status status =
            open_pair(&gw_data_npy, &first, &second, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].inside))
            fail_msg("%s: %s (%s)", cases[i].dict, gw_status_text(status),
                     error.text);
    }
    bytes_npy_y(&second, 3);
    refuse(&gw_data_npy, &first, &second, GW_ECORRUPT,
           "second: holds 3 labels for the 2 samples of first");
}

static void npy_that_is_not_finite(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000,
                                   0x7f800001, 0xffffffff};
    struct gw_error error;
    bytes_npy_y(&second, 2);
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        uint8_t data[24] = {0};
        gw_put_u32(data + 16, i == 0 ? 0x7f7fffff : bad[i - 1]);
        bytes_npy(&first, 1, NPY("<f4", "(2, 3)"));
        bytes_add(&first, data, sizeof data);
        if (i == 0)
            assert_int_equal(open_pair(&gw_data_npy, &first, &second, &error),
                             GW_OK);
        else
            refuse(&gw_data_npy, &first, &second, GW_ECORRUPT,
                   "first: sample 1 has a value that is NaN or infinite");
    }
}

static void npy_versions(void **state)
{
    (void)state;
    bytes_npy_y(&second, 2);
    bytes_npy_x(&first, 2, 3, 1);
    first.at[6] = 3;
    refuse(&gw_data_npy, &first, &second, GW_ECORRUPT, "is npy version 3.0");
    first.at[6] = 1;
    first.at[7] = 1;
    refuse(&gw_data_npy, &first, &second, GW_ECORRUPT, "is npy version 1.1");
    bytes_npy(&first, 2, NPY("|u1", "(2, 3)"));
    gw_put_u32(first.at + 8, UINT32_MAX);
    refuse(&gw_data_npy, &first, &second, GW_ECORRUPT, "4294967295 bytes");
    gw_put_u32(first.at + 8, 80000);
    first.n = 12 + 80000 + 6;
    refuse(&gw_data_npy, &first, &second, GW_ECORRUPT, "80000 bytes");
    bytes_npy(&first, 1, NPY("|u1", "(2, 3)"));
    gw_put_u16(first.at + 8, 13); /* ends within the type */
    first.n = 10 + 13;
    refuse(&gw_data_npy, &first, &second, GW_ECORRUPT, "cannot be read");
    first.at[0] = 0x94;
    refuse(&gw_data_npy, &first, &second, GW_ECORRUPT, "check data.format");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_truncation_of_gzip_is_refused),
        cmocka_unit_test(every_truncation_of_cifar_is_refused),
        cmocka_unit_test(every_flipped_byte_of_gzip_is_refused),
        cmocka_unit_test(idx_headers_that_lie),
        cmocka_unit_test(idx_files_of_the_wrong_kind),
        cmocka_unit_test(gzip_declarations_that_lie),
        cmocka_unit_test(long_gzip_declarations_that_lie),
        cmocka_unit_test(gzip_members_are_joined),
        cmocka_unit_test(npy_headers),
        cmocka_unit_test(npy_labels),
        cmocka_unit_test(npy_that_is_not_finite),
        cmocka_unit_test(npy_versions),
    };
    return cmocka_run_group_tests_name("dataset_hostile", tests, NULL, NULL);
}
