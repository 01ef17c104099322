/*
 * worker/data/dataset: the kinds of numbers that files have, what is said of
 * them, what is no data at all, and labels that a model has no output for.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/data_bytes.h"
#include "worker/data/dataset_number.h"

static struct gw_config config;
static struct bytes first, second;

static struct gw_dataset *open_set(const struct gw_data_reader *reader)
{
    struct gw_dataset *set = NULL;
    struct gw_error error = {.text = ""};
    if (bytes_open(&config, reader, &first, &second, &set, &error) != GW_OK)
        fail_msg("%s", error.text);
    return set;
}

static void refuse(const struct gw_data_reader *reader, const char *line)
{
    struct gw_dataset *set = NULL;
    struct gw_error error = {.text = ""};
    assert_int_not_equal(
        bytes_open(&config, reader, &first, &second, &set, &error), GW_OK);
    assert_string_equal(error.text, line);
}

/* Numbers as they lie in a file, the most significant byte first or last. */
static void add_number(struct bytes *to, uint64_t bits, size_t bytes, int big)
{
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(bits >> 8 * (big ? bytes - 1 - i : i));
        bytes_add(to, &byte, 1);
    }
}

static void npy(struct bytes *to, const char *descr, const char *shape)
{
    char dict[128];
    snprintf(dict, sizeof dict,
             "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
             shape);
    bytes_npy(to, 1, dict);
}

/* Bits of IEEE 754, by hand. */
static const struct {
    const char *descr, *name;
    size_t bytes;
    uint64_t bits[4];
    float value[4];
} reals[] = {
    {"<f2",
     "float16",
     2,
     {0x3c00, 0xc000, 0x0001, 0x3555},
     {1, -2, 0x1p-24f, 0.333251953125f}},
    {">f2",
     "float16, big-endian",
     2,
     {0x7bff, 0x0400, 0x8000, 0x03ff},
     {65504, 0x1p-14f, 0, 0x1.ff8p-15f}},
    {"<f4",
     NULL,
     4,
     {0x3f800000, 0xbf800000, 0x3dcccccd, 0x00000001},
     {1, -1, 0.1f, 0x1p-149f}},
    {">f4",
     "float32, big-endian",
     4,
     {0x3f800000, 0xbf800000, 0x3dcccccd, 0x00000001},
     {1, -1, 0.1f, 0x1p-149f}},
    {"<f8",
     "float64",
     8,
     {0x3ff0000000000000, 0x3fb999999999999a, 0xc000000000000000, 1},
     {1, 0.1f, -2, 0}},
    {">f8",
     "float64, big-endian",
     8,
     {0x3ff0000000000000, 0x3fb999999999999a, 0xc000000000000000, 1},
     {1, 0.1f, -2, 0}},
    {"<u2", "uint16", 2, {0, 65535, 13107, 1}, {0, 1, 0.2f, 1.0f / 65535}},
    {">u2",
     "uint16, big-endian",
     2,
     {0, 65535, 13107, 1},
     {0, 1, 0.2f, 1.0f / 65535}},
};

static void every_kind_of_pixels_is_read(void **state)
{
    (void)state;
    char said[128];
    bytes_npy_y(&second, 2);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        float x[4];
        int32_t labels[2];
        npy(&first, reals[i].descr, "(2, 2)");
        for (int k = 0; k < 4; k++)
            add_number(&first, reals[i].bits[k], reals[i].bytes,
                       reals[i].descr[0] == '>');
        struct gw_dataset *set = open_set(&gw_data_npy);
        const struct gw_batch_site site = {.n = 2};
        gw_dataset_batch(set, &site, x, labels);
        for (int k = 0; k < 4; k++)
            assert_true(fabsf(x[k] - reals[i].value[k]) <=
                        1e-7f * fabsf(reals[i].value[k]));
        snprintf(said, sizeof said, "first is of %s, converted to float32 ",
                 reals[i].name ? reals[i].name : "");
        const char *note = gw_dataset_note(set, GW_DATASET_CONVERTED);
        assert_int_equal(strncmp(note, reals[i].name ? said : "",
                                 reals[i].name ? strlen(said) : 1),
                         0);
        gw_dataset_close(set);
    }
}

static void what_is_not_finite_is_found_in_every_kind(void **state)
{
    (void)state;
    static const struct {
        const char *descr;
        size_t bytes;
        uint64_t bits;
    } cases[] = {
        {"<f2", 2, 0x7c00},
        {">f2", 2, 0xfe00},
        {">f4", 4, 0x7fc00000},
        {"<f8", 8, 0x7ff0000000000000},
        {">f8", 8, 0x7ff8000000000001},
        {"<f8", 8, 0x7fefffffffffffff},
    };
    bytes_npy_y(&second, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        npy(&first, cases[i].descr, "(2, 1)");
        add_number(&first, 0, cases[i].bytes, 0);
        add_number(&first, cases[i].bits, cases[i].bytes,
                   cases[i].descr[0] == '>');
        refuse(&gw_data_npy,
               "first: sample 1 has a value that is NaN or infinite");
    }
}

static void every_kind_of_labels_is_read(void **state)
{
    (void)state;
    static const char *const kinds[] = {"|b1", "|u1", "|i1", "<u2", "<i2",
                                        "<u4", "<i4", "<u8", "<i8", ">u2",
                                        ">i2", ">u4", ">i4", ">u8", ">i8"};
    bytes_npy_x(&first, 3, 2, 2);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t bytes = (size_t)(kinds[i][2] - '0');
        npy(&second, kinds[i], i % 2 ? "(3, 1)" : "(3,)");
        for (uint64_t k = 0; k < 3; k++)
            add_number(&second, 7 * k, bytes, kinds[i][0] == '>');
        struct gw_dataset *set = open_set(&gw_data_npy);
        for (int k = 0; k < 3; k++)
            assert_int_equal(set->labels[k], 7 * k);
        assert_int_equal(gw_dataset_shape(set)->classes, 15);
        gw_dataset_close(set);
    }
}

static void idx_labels_are_of_any_width(void **state)
{
    (void)state;
    static const struct {
        uint8_t code, bytes;
    } kinds[] = {{0x08, 1}, {0x09, 1}, {0x0b, 2}, {0x0c, 4}};
    bytes_idx_images(&first, 3, 2, 2);
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof *kinds; i++) {
        uint8_t dims = 1 + i % 2;
        const uint8_t magic[4] = {0, 0, kinds[i / 2].code, dims};
        second.n = 0;
        bytes_add(&second, magic, 4);
        add_number(&second, 3, 4, 1);
        if (dims == 2)
            add_number(&second, 1, 4, 1);
        for (uint64_t k = 0; k < 3; k++)
            add_number(&second, 9 * k, kinds[i / 2].bytes, 1);
        struct gw_dataset *set = open_set(&gw_data_idx);
        for (int k = 0; k < 3; k++)
            assert_int_equal(set->labels[k], 9 * k);
        gw_dataset_close(set);
    }
    /* as QMNIST has them: eight numbers for each sample */
    second.n = 0;
    bytes_add(&second, "\0\0\x0c\2\0\0\0\3\0\0\0\x08", 12);
    for (int k = 0; k < 24; k++)
        add_number(&second, 0, 4, 1);
    refuse(&gw_data_idx,
           "second: holds 8 numbers for each sample; labels are one");
}

static void doubts(const char *line)
{
    struct gw_dataset *set = open_set(&gw_data_npy);
    assert_string_equal(gw_dataset_note(set, GW_DATASET_DOUBTFUL), line);
    gw_dataset_close(set);
}

/* Bytes that somebody made floats of, 0 to 255. */
static void a_range_far_from_one_is_doubted(void **state)
{
    (void)state;
    struct gw_error error;
    npy(&first, "<f4", "(2, 1)");
    add_number(&first, 0xc0000000, 4, 0); /* -2 */
    add_number(&first, 0x437f0000, 4, 0); /* 255 */
    bytes_npy_y(&second, 2);
    doubts("first has values from -2 to 255, which are taken as they are; "
           "data.normalize = [MEAN, DEVIATION], such as [0, 255], brings them "
           "near 1");
    assert_int_equal(gw_config_set(&config, "data.normalize=[0,255]", &error),
                     GW_OK);
    doubts("");
    config.data.normalize.n = 0;
    npy(&first, "<f4", "(2, 1)");
    add_number(&first, 0xc0000000, 4, 0);
    add_number(&first, 0x41200000, 4, 0); /* 10 */
    doubts("");
}

static void channels_that_come_last_are_doubted(void **state)
{
    (void)state;
    static const uint8_t zeros[2 * 8 * 8 * 5];
    bytes_npy_y(&second, 2);
    npy(&first, "|u1", "(2, 8, 8, 3)");
    bytes_add(&first, zeros, (size_t)2 * 8 * 8 * 3);
    doubts("");
    config.model.kind = GW_MODEL_CNN;
    doubts("first is read as 8 channels of 8x3, and looks like 3 channels that "
           "come last; then save x.transpose(0, 3, 1, 2)");
    npy(&first, "|u1", "(2, 3, 8, 8)");
    bytes_add(&first, zeros, (size_t)2 * 8 * 8 * 3);
    doubts("");
    npy(&first, "|u1", "(2, 8, 8, 5)");
    bytes_add(&first, zeros, (size_t)2 * 8 * 8 * 5);
    doubts("");
    config.model.kind = GW_MODEL_MLP;
}

/* Files that lie where a download went wrong, alone and within gzip. */
static void what_is_no_data_is_named(void **state)
{
    (void)state;
    static struct bytes plain;
    static const struct {
        const char *text, *line;
        size_t n; /* 0: of the text */
    } cases[] = {
        {"\n <!DOCTYPE html><html>",
         "first: is a page of HTML or XML, as "
         "servers send in the place of a file; get the file again",
         0},
        {"\xef\xbb\xbf<HTML>",
         "first: is a page of HTML or XML, as servers "
         "send in the place of a file; get the file again",
         0},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:",
         "first: is "
         "a pointer of git-lfs and not the file; fetch that with git lfs pull",
         0},
        {"PK\3\4rest",
         "first: is a zip archive (as .npz is); unpack it, and "
         "name the files in it",
         0},
        {"BZh91AY", "first: is compressed with bzip2; unpack it with bunzip2",
         0},
        {"\x80\x04\x95", "first: is a Python pickle; save its arrays as npy",
         0},
    };
    static const struct gw_data_reader *const readers[] = {&gw_data_idx,
                                                           &gw_data_npy};
    for (size_t i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
        plain.n = 0;
        bytes_add(&plain, cases[i / 4].text, strlen(cases[i / 4].text));
        if (i % 2)
            bytes_gzip(&first, &plain);
        else
            first = plain;
        bytes_idx_labels(&second, 2);
        refuse(readers[i / 2 % 2], cases[i / 4].line);
    }
    first.n = 0;
    for (int k = 0; k < 512; k++)
        bytes_add(&first, k == 257 ? "u" : k == 258 ? "s" : "t", 1);
    memcpy(first.at + 257, "ustar", 5);
    refuse(&gw_data_npy, "first: is a tar archive; unpack it, and name the "
                         "files in it");
}

static void labels(const uint8_t *values, uint32_t n)
{
    bytes_idx_images(&first, n, 2, 2);
    bytes_idx_labels(&second, n);
    memcpy(second.at + 8, values, n);
}

static void
check_of(size_t outputs, enum gw_dataset_outputs from, const char *line)
{
    struct gw_error error = {.text = ""};
    struct gw_dataset *set = open_set(&gw_data_idx);
    assert_int_equal(gw_dataset_check_labels(set, outputs, from, &error),
                     line[0] ? GW_EUSAGE : GW_OK);
    assert_string_equal(error.text, line);
    gw_dataset_close(set);
}

static void check(size_t outputs, const char *line)
{
    check_of(outputs, GW_OUTPUTS_WRITTEN, line);
}

static void labels_have_outputs(void **state)
{
    (void)state;
    labels((const uint8_t[]){0, 4, 2, 5, 4}, 5);
    check(6, "");
    check(10, "");
    check(4,
          "second: sample 1 has label 4, and model.layers ends in 4 "
          "outputs, for labels 0 to 3; give it as many as there are classes");
    check(5,
          "second: sample 3 has label 5, and model.layers ends in 5 "
          "outputs, for labels 0 to 4; give it as many as there are classes");
    /* 1 to 5 for five classes */
    labels((const uint8_t[]){1, 4, 2, 5, 3}, 5);
    check(5, "second: sample 3 has label 5, and model.layers ends in 5 "
             "outputs, for labels 0 to 4; these count from 1: write them "
             "counting from 0");
}

/* Advice that the model at hand cannot take is none. */
static void what_to_do_depends_on_the_model(void **state)
{
    (void)state;
    labels((const uint8_t[]){0, 4, 2, 5, 4}, 5);
    check_of(5, GW_OUTPUTS_ADDED,
             "second: sample 3 has label 5, and the training set has labels 0 "
             "to 4, for which the model has outputs; end model.layers in "
             "\"dense 6\"");
    check_of(5, GW_OUTPUTS_TRAINED,
             "second: sample 3 has label 5, and the model was trained with 5 "
             "outputs, for labels 0 to 4");
    labels((const uint8_t[]){1, 4, 2, 5, 3}, 5);
    check_of(5, GW_OUTPUTS_ADDED,
             "second: sample 3 has label 5, and the training set has labels 0 "
             "to 4, for which the model has outputs; these count from 1: write "
             "them counting from 0");
}

/* The file whose record it is, and the number of the record there. */
static void labels_of_several_files_are_found_in_theirs(void **state)
{
    (void)state;
    struct gw_error error = {.text = ""};
    struct gw_dataset *set = NULL;
    bytes_cifar(&first, 3, 0);
    bytes_cifar(&second, 3, 0);
    for (int k = 0; k < 3; k++)
        first.at[3073 * k] = second.at[3073 * k] = (uint8_t)k;
    second.at[3073] = 7;
    assert_int_equal(
        bytes_open(&config, &gw_data_cifar10, &first, &second, &set, &error),
        GW_OK);
    assert_int_equal(
        gw_dataset_check_labels(set, 3, GW_OUTPUTS_WRITTEN, &error), GW_EUSAGE);
    assert_int_equal(strncmp(error.text, "second: sample 1 has label 7,", 29),
                     0);
    gw_dataset_close(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_pixels_is_read),
        cmocka_unit_test(what_is_not_finite_is_found_in_every_kind),
        cmocka_unit_test(every_kind_of_labels_is_read),
        cmocka_unit_test(idx_labels_are_of_any_width),
        cmocka_unit_test(a_range_far_from_one_is_doubted),
        cmocka_unit_test(channels_that_come_last_are_doubted),
        cmocka_unit_test(what_is_no_data_is_named),
        cmocka_unit_test(labels_have_outputs),
        cmocka_unit_test(what_to_do_depends_on_the_model),
        cmocka_unit_test(labels_of_several_files_are_found_in_theirs),
    };
    return cmocka_run_group_tests_name("kinds of data", tests, NULL, NULL);
}
