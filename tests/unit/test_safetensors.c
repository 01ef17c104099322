/* server/checkpoint/tensors: what is written, what is read, what is refused. */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/safetensors.h"
#include "proto/wire.h"

static const uint64_t shape_2x3[] = {2, 3}, shape_5[] = {5}, shape_0[] = {0};
static const struct gw_tensor_spec specs[] = {
    {.name = "fc1.weight", .dims = 2, .shape = shape_2x3},
    {.name = "fc1.bias", .dims = 1, .shape = shape_5},
    {.name = "nothing", .dims = 1, .shape = shape_0},
    {.name = "scale", .dims = 0, .shape = NULL},
};
static const struct gw_metadata metadata[] = {
    {.key = "step", .value = "812"},
    {.key = "note", .value = "\"quoted\" \xc3\xa4\n"},
};

static struct gw_safetensors_header make(void)
{
    struct gw_safetensors_header header;
    struct gw_error error = {.text = ""};
    if (gw_safetensors_header_make(specs, 4, metadata, 2, &header, &error))
        fail_msg("%s", error.text);
    return header;
}

/* Both steps of reading: the prefix, then the JSON, from a copy that fits. */
static enum gw_status read_file(const uint8_t *bytes,
                                size_t n,
                                uint64_t file_bytes,
                                struct gw_safetensors **file_p,
                                struct gw_error *error)
{
    uint8_t prefix[GW_SAFETENSORS_PREFIX_BYTES] = {0};
    size_t json_bytes;
    *error = (struct gw_error){.text = ""};
    memcpy(prefix, bytes, n < sizeof prefix ? n : sizeof prefix);
    enum gw_status status = gw_safetensors_header_bytes(
        "file", prefix, file_bytes, &json_bytes, error);
    if (status != GW_OK)
        return status;
    uint8_t *json = malloc(json_bytes);
    assert_non_null(json);
    memcpy(json, bytes + sizeof prefix, json_bytes);
    status = gw_safetensors_read("file", json, json_bytes, file_bytes, file_p,
                                 error);
    free(json);
    return status;
}

/* A header around `json`, in front of data_bytes of data. */
static enum gw_status read_json(const char *json,
                                uint64_t data_bytes,
                                struct gw_safetensors **file_p,
                                struct gw_error *error)
{
    static uint8_t bytes[1 << 16];
    size_t n = strlen(json);
    assert_true(8 + n <= sizeof bytes);
    gw_put_u64(bytes, n);
    memcpy(bytes + 8, json, n);
    return read_file(bytes, 8 + n, 8 + n + data_bytes, file_p, error);
}

static void written_bytes(void **state)
{
    (void)state;
    static const char json[] =
        "{\"__metadata__\":{\"step\":\"812\",\"note\":\"\\\"quoted\\\" "
        "\xc3\xa4\\n\"},"
        "\"fc1.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],"
        "\"data_offsets\":[0,24]},"
        "\"fc1.bias\":{\"dtype\":\"F32\",\"shape\":[5],"
        "\"data_offsets\":[24,44]},"
        "\"nothing\":{\"dtype\":\"F32\",\"shape\":[0],"
        "\"data_offsets\":[44,44]},"
        "\"scale\":{\"dtype\":\"F32\",\"shape\":[],"
        "\"data_offsets\":[44,48]}}";
    struct gw_safetensors_header header = make();
    assert_int_equal(header.n % 64, 0);
    assert_in_range(header.n, 8 + sizeof json - 1, 8 + sizeof json - 1 + 63);
    assert_int_equal(gw_get_u64(header.bytes), header.n - 8);
    assert_memory_equal(header.bytes + 8, json, sizeof json - 1);
    for (size_t i = 8 + sizeof json - 1; i < header.n; i++)
        assert_int_equal(header.bytes[i], ' ');
    assert_int_equal(header.offset[0], header.n);
    assert_int_equal(header.offset[1], header.n + 24);
    assert_int_equal(header.offset[2], header.n + 44);
    assert_int_equal(header.offset[3], header.n + 44);
    assert_int_equal(header.file_bytes, header.n + 48);
    gw_safetensors_header_free(&header);
    assert_null(header.bytes);
}

static void round_trip(void **state)
{
    (void)state;
    struct gw_safetensors_header header = make();
    struct gw_safetensors *file = NULL;
    struct gw_error error;
    if (read_file(header.bytes, header.n, header.file_bytes, &file, &error))
        fail_msg("%s", error.text);
    size_t n;
    gw_safetensors_tensors(file, &n);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct gw_tensor *tensor =
            gw_safetensors_find(file, specs[i].name);
        assert_non_null(tensor);
        assert_string_equal(tensor->name, specs[i].name);
        assert_string_equal(tensor->dtype, "F32");
        assert_int_equal(tensor->dims, specs[i].dims);
        for (size_t d = 0; d < specs[i].dims; d++)
            assert_int_equal(tensor->shape[d], specs[i].shape[d]);
        assert_int_equal(tensor->offset, header.offset[i]);
        assert_int_equal(tensor->bytes, 4 * tensor->elems);
    }
    assert_null(gw_safetensors_find(file, "none"));
    assert_null(gw_safetensors_find(file, "__metadata__"));
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(gw_safetensors_metadata(file, metadata[i].key),
                            metadata[i].value);
    assert_null(gw_safetensors_metadata(file, "none"));
    gw_safetensors_free(file);
    gw_safetensors_header_free(&header);
}

static void nothing_at_all(void **state)
{
    (void)state;
    struct gw_safetensors_header header;
    struct gw_safetensors *file = NULL;
    struct gw_error error;
    size_t n;
    assert_int_equal(
        gw_safetensors_header_make(NULL, 0, NULL, 0, &header, &error), GW_OK);
    assert_int_equal(header.file_bytes, 64);
    assert_int_equal(
        read_file(header.bytes, header.n, header.file_bytes, &file, &error),
        GW_OK);
    gw_safetensors_tensors(file, &n);
    assert_int_equal(n, 0);
    assert_null(gw_safetensors_find(file, ""));
    assert_null(gw_safetensors_metadata(file, ""));
    gw_safetensors_free(file);
    gw_safetensors_header_free(&header);
}

/* What the reference library wrote (tests/reference/safetensors.py). */
static size_t library_file(uint8_t bytes[4096])
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/reference/library.safetensors",
             getenv("GW_SRCDIR"));
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    size_t n = fread(bytes, 1, 4096, in);
    fclose(in);
    assert_in_range(n, 100, 4095);
    return n;
}

static void assert_floats(const struct gw_safetensors *file,
                          const uint8_t *bytes,
                          const char *name,
                          size_t n,
                          float first)
{
    const struct gw_tensor *tensor = gw_safetensors_find(file, name);
    assert_non_null(tensor);
    assert_string_equal(tensor->dtype, "F32");
    assert_int_equal(tensor->elems, n);
    for (size_t i = 0; i < n; i++) {
        float value, wanted = first + (float)i;
        memcpy(&value, bytes + tensor->offset + 4 * i, 4);
        assert_memory_equal(&value, &wanted, 4);
    }
}

static void the_library_s_file(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    size_t n = library_file(bytes), tensors;
    struct gw_safetensors *file = NULL;
    struct gw_error error;
    if (read_file(bytes, n, n, &file, &error))
        fail_msg("%s", error.text);
    const struct gw_tensor *tensor = gw_safetensors_tensors(file, &tensors);
    assert_int_equal(tensors, 7);
    for (size_t i = 1; i < tensors; i++)
        assert_int_equal(tensor[i].offset,
                         tensor[i - 1].offset + tensor[i - 1].bytes);
    assert_floats(file, bytes, "fc1.weight", 6, 0);
    assert_floats(file, bytes, "fc1.bias", 3, 6);
    assert_floats(file, bytes, "scale", 1, 9);
    tensor = gw_safetensors_find(file, "fc1.weight");
    assert_int_equal(tensor->dims, 2);
    assert_int_equal(tensor->shape[0], 2);
    assert_int_equal(tensor->shape[1], 3);
    assert_int_equal(gw_safetensors_find(file, "scale")->dims, 0);
    assert_int_equal(gw_safetensors_find(file, "half")->bytes, 6);
    assert_string_equal(gw_safetensors_find(file, "half")->dtype, "F16");
    assert_string_equal(gw_safetensors_find(file, "steps")->dtype, "I64");
    assert_string_equal(gw_safetensors_find(file, "mask")->dtype, "BOOL");
    assert_int_equal(gw_safetensors_find(file, "nothing")->bytes, 0);
    gw_safetensors_free(file);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    size_t n = library_file(bytes);
    struct gw_error error;
    for (size_t cut = 0; cut < n; cut++) {
        struct gw_safetensors *file = NULL;
        assert_int_equal(read_file(bytes, cut, cut, &file, &error),
                         GW_ECORRUPT);
        assert_null(file);
        assert_memory_equal(error.text, "file: ", 6);
        assert_null(strchr(error.text, '\n'));
    }
    struct gw_safetensors *file = NULL;
    assert_int_equal(read_file(bytes, n, n + 1, &file, &error), GW_ECORRUPT);
}

#define T(dtype, shape, offsets)                                               \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* One JSON header each, in front of so many bytes of data. */
static const struct {
    const char *json;
    uint64_t data;
    enum gw_status status;
    const char *inside;
} headers[] = {
    {"{\"a\":" T("F32", "[2]", "[0,8]") "}   ", 8, GW_OK, ""},
    {"{\"b\":" T("U8", "[3]", "[8,11]") ",\"a\":" T("F32", "[2]", "[0,8]") "}",
     11, GW_OK, ""},
    {"{\"z\":" T("F32", "[0]", "[0,0]") ",\"b\":" T(
         "F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[3,0]", "[4,4]") "}",
     4, GW_OK, ""},
    {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 7, GW_ECORRUPT,
     "\"a\" is at 0 to 8 of 7"},
    {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 9, GW_ECORRUPT, "end at 8 of 9"},
    {"{\"a\":" T("F32", "[2]", "[1,9]") "}", 9, GW_ECORRUPT, "a hole"},
    {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[2]", "[4,12]") "}",
     12, GW_ECORRUPT, "tensors overlap"},
    {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[2]", "[0,8]") "}",
     8, GW_ECORRUPT, "tensors overlap"},
    {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[2]", "[9,17]") "}",
     17, GW_ECORRUPT, "a hole"},
    {"{\"a\":" T("F32", "[0]", "[3,3]") "}", 0, GW_ECORRUPT, "3 to 3 of 0"},
    {"{\"a\":" T("F32", "[2]", "[8,0]") "}", 8, GW_ECORRUPT, "8 to 0 of 8"},
    {"{\"a\":" T("F32", "[3]", "[0,8]") "}", 8, GW_ECORRUPT,
     "has 8 bytes, which"},
    {"{\"a\":" T("F32", "[1]", "[0,8]") "}", 8, GW_ECORRUPT,
     "has 8 bytes, which"},
    {"{\"a\":" T("F64", "[2]", "[0,8]") "}", 8, GW_ECORRUPT, "dtype F64"},
    {"{\"a\":" T("F32", "[4294967296,4294967296]", "[0,0]") "}", 0, GW_ECORRUPT,
     "has 0 bytes, which"},
    {"{\"a\":" T("F32", "[4611686018427387904]", "[0,0]") "}", 0, GW_ECORRUPT,
     "has 0 bytes, which"},
    {"{\"a\":" T("F32", "[4294967296,4294967296,0]", "[0,0]") "}", 0,
     GW_ECORRUPT, "has 0 bytes, which"},
    {"{\"a\":" T("F32", "[-2]", "[0,8]") "}", 8, GW_ECORRUPT, "not a count"},
    {"{\"a\":" T("F32", "[2.0]", "[0,8]") "}", 8, GW_ECORRUPT, "not a count"},
    {"{\"a\":" T("F32", "[2]", "[-8,0]") "}", 8, GW_ECORRUPT, "lacks"},
    {"{\"a\":" T("F32", "[2]", "[0,8,8]") "}", 8, GW_ECORRUPT, "lacks"},
    {"{\"a\":" T("F32", "[2]", "8") "}", 8, GW_ECORRUPT, "lacks"},
    {"{\"a\":" T("F32", "2", "[0,8]") "}", 8, GW_ECORRUPT, "lacks"},
    {"{\"a\":" T("F32", "[2]", "[0,99999999999999999999]") "}", 8, GW_ECORRUPT,
     "not JSON"},
    {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 8, GW_EUNSUPPORTED,
     "9 dimensions"},
    {"{\"a\":" T("F4", "[2]", "[0,1]") "}", 1, GW_EUNSUPPORTED,
     "\"a\" has the dtype \"F4\""},
    {"{\"a\":" T("", "[2]", "[0,8]") "}", 8, GW_EUNSUPPORTED, "dtype \"\""},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, GW_ECORRUPT, "lacks"},
    {"{\"a\":[]}", 0, GW_ECORRUPT, "lacks"},
    {"{\"a\":null}", 0, GW_ECORRUPT, "lacks"},
    {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"a\":" T("F32", "[2]", "[0,8]") "}",
     8, GW_ECORRUPT, "duplicate"},
    {"{\"__metadata__\":{\"a\":\"b\"},\"__metadata__\":{}}", 0, GW_ECORRUPT,
     "duplicate"},
    {"{\"__metadata__\":[]}", 0, GW_ECORRUPT, "not an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, GW_ECORRUPT, "\"a\" is not a s"},
    {"[]", 0, GW_ECORRUPT, "does not begin with '{'"},
    {" {}", 0, GW_ECORRUPT, "does not begin with '{'"},
    {"{}x", 0, GW_ECORRUPT, "not JSON"},
    {"{\"a\\u0000b\":1}", 0, GW_ECORRUPT, "not JSON"},
    {"{\"\xff\":1}", 0, GW_ECORRUPT, "not JSON"},
    {"{\"a\\n\\u001bb\":1}", 0, GW_ECORRUPT, "\"a??b\" lacks"},
};

static void headers_that_lie(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct gw_safetensors *file = NULL;
        struct gw_error error;
        enum gw_status status =
            read_json(headers[i].json, headers[i].data, &file, &error);
        if (status != headers[i].status ||
            !strstr(error.text, headers[i].inside))
            fail_msg("%s: %s (%s)", headers[i].json, gw_status_text(status),
                     error.text);
        assert_int_equal(file != NULL, status == GW_OK);
        assert_null(strchr(error.text, '\n'));
        gw_safetensors_free(file);
    }
}

static void prefixes_that_lie(void **state)
{
    (void)state;
    static const struct {
        uint64_t declared, file_bytes;
        enum gw_status status;
    } cases[] = {
        {2, 10, GW_OK},
        {2, 9, GW_ECORRUPT},
        {2, 7, GW_ECORRUPT},
        {3, 10, GW_ECORRUPT},
        {1, 100, GW_ECORRUPT},
        {0, 100, GW_ECORRUPT},
        {100000000, 100000008, GW_OK},
        {100000000, 100000007, GW_ECORRUPT},
        {100000001, 200000000, GW_ECORRUPT},
        {UINT64_MAX, UINT64_MAX, GW_ECORRUPT},
        {UINT64_MAX - 7, 100, GW_ECORRUPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t prefix[8];
        size_t json_bytes = 0;
        gw_put_u64(prefix, cases[i].declared);
        assert_int_equal(gw_safetensors_header_bytes("file", prefix,
                                                     cases[i].file_bytes,
                                                     &json_bytes, NULL),
                         cases[i].status);
        assert_int_equal(json_bytes,
                         cases[i].status == GW_OK ? cases[i].declared : 0);
    }
}

static void a_header_longer_than_its_file(void **state)
{
    (void)state;
    static const uint8_t json[] = "{}      ";
    struct gw_safetensors *file = NULL;
    struct gw_error error = {.text = ""};
    assert_int_equal(gw_safetensors_read("file", json, 8, 15, &file, &error),
                     GW_ECORRUPT);
    assert_non_null(strstr(error.text, "longer than the file"));
    assert_int_equal(gw_safetensors_read("file", json, 8, 16, &file, &error),
                     GW_OK);
    gw_safetensors_free(file);
}

static void what_cannot_be_written(void **state)
{
    (void)state;
    static const uint64_t huge[] = {(uint64_t)1 << 32, (uint64_t)1 << 29};
    static const uint64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const struct {
        struct gw_tensor_spec tensor[2];
        struct gw_metadata metadata[2];
        enum gw_status status;
        const char *inside;
    } cases[] = {
        {{{"a", 1, shape_5}, {"a", 1, shape_5}},
         {{"k", "v"}, {"l", "v"}},
         GW_EINVAL,
         "\"a\" is there twice"},
        {{{"a", 1, shape_5}, {"b", 1, shape_5}},
         {{"k", "v"}, {"k", "w"}},
         GW_EINVAL,
         "\"k\" is there twice"},
        {{{"a", 1, shape_5}, {"__metadata__", 1, shape_5}},
         {{"k", "v"}, {"l", "v"}},
         GW_EINVAL,
         "no tensor can be named"},
        {{{"a", 1, shape_5}, {"\xff", 1, shape_5}},
         {{"k", "v"}, {"l", "v"}},
         GW_EINVAL,
         "not UTF-8"},
        {{{"a", 1, shape_5}, {"b", 1, shape_5}},
         {{"k", "v"}, {"l", "\xff"}},
         GW_EINVAL,
         "\"l\" are not UTF-8"},
        {{{"a", 1, shape_5}, {"b", 9, nine}},
         {{"k", "v"}, {"l", "v"}},
         GW_EINVAL,
         "9 dimensions"},
        {{{"a", 1, shape_5}, {"b", 2, huge}},
         {{"k", "v"}, {"l", "v"}},
         GW_ERANGE,
         "\"b\" ends beyond 2^63"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gw_safetensors_header header = {.n = 77};
        struct gw_error error = {.text = ""};
        assert_int_equal(gw_safetensors_header_make(cases[i].tensor, 2,
                                                    cases[i].metadata, 2,
                                                    &header, &error),
                         cases[i].status);
        assert_int_equal(header.n, 77);
        if (!strstr(error.text, cases[i].inside))
            fail_msg("\"%s\" lacks \"%s\"", error.text, cases[i].inside);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_bytes),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(nothing_at_all),
        cmocka_unit_test(the_library_s_file),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(headers_that_lie),
        cmocka_unit_test(prefixes_that_lie),
        cmocka_unit_test(a_header_longer_than_its_file),
        cmocka_unit_test(what_cannot_be_written),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
