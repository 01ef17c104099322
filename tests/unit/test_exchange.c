/* Weights in from a safetensors file, as a checkpoint, and out to one. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/store.h"
#include "server/checkpoint/tensors.h"

static const struct gw_key keys[] = {
    {.name = "fc1.weight", .dtype = GW_DTYPE_F32, .dims = 2, .shape = {3, 5}},
    {.name = "fc1.bias", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {3}},
    {.name = "fc2.weight", .dtype = GW_DTYPE_F32, .dims = 2, .shape = {2, 3}},
    {.name = "fc2.bias", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {2}},
};
#define KEYS (sizeof keys / sizeof *keys)

struct place {
    struct gw_disk disk;
    char dir[64], checkpoints[80], file[80];
    char library[512]; /* a file that the Python library wrote */
    char note[GW_ERROR_TEXT_BYTES];
    struct gw_error error;
};

static struct place place_open(void)
{
    struct place place = {.disk = {.ops = &gw_disk_posix_ops},
                          .dir = "/tmp/gw-exchange-XXXXXX"};
    const char *source = getenv("GW_SRCDIR");
    assert_non_null(mkdtemp(place.dir));
    snprintf(place.checkpoints, sizeof place.checkpoints, "%s/c", place.dir);
    snprintf(place.file, sizeof place.file, "%s/f", place.dir);
    snprintf(place.library, sizeof place.library,
             "%s/tests/reference/model.safetensors", source ? source : "..");
    return place;
}

/* A checkpoint of step 0, with its files. */
static void remove_checkpoint(struct place *place)
{
    struct gw_disk dir;
    if (gw_store_enter(&place->disk, place->checkpoints, GW_ACCESS_PRIVATE,
                       &dir, NULL) == GW_OK)
        gw_store_remove(&dir, 0);
    gw_store_leave(&dir);
}

static void place_close(struct place *place)
{
    remove_checkpoint(place);
    rmdir(place->checkpoints);
    unlink(place->file);
    assert_int_equal(rmdir(place->dir), 0);
}

static enum gw_status import_as(struct place *place,
                                const char *file,
                                const struct gw_key *of,
                                size_t n)
{
    const struct gw_checkpoint_target to = {place->checkpoints,
                                            GW_ACCESS_PRIVATE};
    return gw_checkpoint_import(&place->disk, file, NULL, of, n, "job", &to,
                                place->note, &place->error);
}

static enum gw_status import(struct place *place, const char *file, size_t n)
{
    return import_as(place, file, keys, n);
}

/* 0, 1/4, 2/4 ... through the keys in their order. */
static void assert_counts_up(const float *values, size_t n, size_t *at)
{
    for (size_t i = 0; i < n; i++)
        assert_true(values[i] == (float)(*at)++ / 4);
}

static void the_library_s_file_becomes_a_checkpoint(void **state)
{
    struct place place = place_open();
    struct gw_checkpoint checkpoint;
    size_t at = 0;
    (void)state;
    if (import(&place, place.library, KEYS) != GW_OK)
        fail_msg("%s", place.error.text);
    assert_int_equal(gw_checkpoint_open(&place.disk, place.checkpoints, NULL,
                                        &checkpoint, &place.error),
                     GW_OK);
    assert_int_equal(checkpoint.clock, 0);
    assert_string_equal(checkpoint.job, "job");
    assert_int_equal(checkpoint.map->keys, KEYS);
    for (size_t i = 0; i < KEYS; i++)
        assert_counts_up(gw_checkpoint_key(&checkpoint, i),
                         checkpoint.map->key_elems[i], &at);
    gw_checkpoint_close(&checkpoint);
    /* a second one must not be written over it */
    assert_int_equal(import(&place, place.library, KEYS), GW_EEXIST);
    place_close(&place);
}

static void what_is_exported_has_every_key(void **state)
{
    struct place place = place_open();
    struct gw_checkpoint checkpoint;
    struct gw_tensors tensors;
    size_t n, at = 0;
    float values[15];
    /* without which the Python library does not take it for its own */
    static const char expected[] = "{\"__metadata__\":{\"format\":\"pt\",";
    char begin[sizeof expected];
    (void)state;
    assert_int_equal(import(&place, place.library, KEYS), GW_OK);
    assert_int_equal(gw_checkpoint_open(&place.disk, place.checkpoints, NULL,
                                        &checkpoint, &place.error),
                     GW_OK);
    assert_int_equal(
        gw_checkpoint_export(&checkpoint, place.file, &place.error), GW_OK);
    gw_checkpoint_close(&checkpoint);
    assert_int_equal(
        gw_tensors_open(&place.disk, place.file, &tensors, &place.error),
        GW_OK);
    gw_safetensors_tensors(tensors.header, &n);
    assert_int_equal(n, KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        const struct gw_tensor *tensor =
            gw_safetensors_find(tensors.header, keys[i].name);
        assert_non_null(tensor);
        assert_int_equal(tensor->dims, keys[i].dims);
        assert_memory_equal(tensor->shape, keys[i].shape,
                            tensor->dims * sizeof *tensor->shape);
        assert_int_equal(place.disk.ops->read(tensors.file, tensor->offset,
                                              values, tensor->bytes, NULL),
                         GW_OK);
        assert_counts_up(values, tensor->elems, &at);
    }
    assert_int_equal(place.disk.ops->read(tensors.file,
                                          GW_SAFETENSORS_PREFIX_BYTES, begin,
                                          sizeof expected - 1, NULL),
                     GW_OK);
    assert_memory_equal(begin, expected, sizeof expected - 1);
    gw_tensors_close(&tensors);
    /* it can come in again */
    remove_checkpoint(&place);
    assert_int_equal(import(&place, place.file, KEYS), GW_OK);
    place_close(&place);
}

static void other_models_are_refused(void **state)
{
    struct place place = place_open();
    char other[512];
    struct gw_checkpoint checkpoint;
    (void)state;
    /* a tensor more than the model has */
    assert_int_equal(import(&place, place.library, KEYS - 1), GW_EMISMATCH);
    assert_non_null(strstr(place.error.text, "fc2.bias"));
    /* the other file has fc1.weight in another shape */
    snprintf(other, sizeof other, "%.*s/library.safetensors",
             (int)(strrchr(place.library, '/') - place.library), place.library);
    assert_int_equal(import(&place, other, KEYS), GW_EMISMATCH);
    assert_non_null(strstr(place.error.text, "fc1.weight"));
    assert_int_equal(gw_checkpoint_open(&place.disk, place.checkpoints, NULL,
                                        &checkpoint, &place.error),
                     GW_ENOENT);
    place_close(&place);
}

static enum gw_status rename_no_manifest(struct gw_disk *disk,
                                         const char *from,
                                         const char *to,
                                         struct gw_error *error)
{
    if (strstr(to, GW_MANIFEST_NAME))
        return gw_fail(error, GW_ENOSPC, "no space left");
    return gw_disk_posix_ops.rename(disk, from, to, error);
}

/* What failed half-way does not stand in the way of another try. */
/* A file of one tensor "w", as any program writes it. */
static void save_tensor(const struct place *place,
                        const char *dtype,
                        const char *shape,
                        const void *data,
                        size_t bytes)
{
    char json[200];
    uint8_t head[8] = {0};
    FILE *file = fopen(place->file, "wb");
    assert_non_null(file);
    int n = snprintf(json, sizeof json,
                     "{\"w\":{\"dtype\":\"%s\",\"shape\":%s,"
                     "\"data_offsets\":[0,%zu]}}",
                     dtype, shape, bytes);
    head[0] = (uint8_t)n;
    assert_int_equal(fwrite(head, 1, 8, file), 8);
    assert_int_equal(fwrite(json, 1, (size_t)n, file), n);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static enum gw_status import_tensor(struct place *place)
{
    static const struct gw_key key = {
        .name = "w", .dtype = GW_DTYPE_F32, .dims = 2, .shape = {1, 3}};
    return import_as(place, place->file, &key, 1);
}

/* 1, -2.5 and 0.3125, which all of them have. */
static void floats_of_other_widths_are_converted(void **state)
{
    static const uint16_t f16[] = {0x3c00, 0xc100, 0x3500};
    static const uint16_t bf16[] = {0x3f80, 0xc020, 0x3ea0};
    static const float f32[] = {1, -2.5f, 0.3125f};
    static const double f64[] = {1, -2.5, 0.3125};
    static const struct {
        const char *dtype, *note;
        const void *data;
        size_t bytes;
    } cases[] = {
        {"F32", "", f32, sizeof f32},
        {"F16", "1 of 1 tensors were not float32 (F16), and are converted", f16,
         sizeof f16},
        {"BF16", "1 of 1 tensors were not float32 (BF16), and are converted",
         bf16, sizeof bf16},
        {"F64", "1 of 1 tensors were not float32 (F64), and are converted", f64,
         sizeof f64},
    };
    struct place place = place_open();
    struct gw_checkpoint checkpoint;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        save_tensor(&place, cases[i].dtype, "[1,3]", cases[i].data,
                    cases[i].bytes);
        if (import_tensor(&place) != GW_OK)
            fail_msg("%s", place.error.text);
        assert_string_equal(place.note, cases[i].note);
        assert_int_equal(gw_checkpoint_open(&place.disk, place.checkpoints,
                                            NULL, &checkpoint, &place.error),
                         GW_OK);
        assert_memory_equal(gw_checkpoint_key(&checkpoint, 0), f32, sizeof f32);
        gw_checkpoint_close(&checkpoint);
        remove_checkpoint(&place);
    }
    place_close(&place);
}

static void
refuses(struct place *place, enum gw_status status, const char *text)
{
    assert_int_equal(import_tensor(place), status);
    if (!strstr(place->error.text, text))
        fail_msg("\"%s\" is not in: %s", text, place->error.text);
}

static void what_cannot_be_weights_is_refused_by_name(void **state)
{
    static const uint16_t nan16[] = {0x3f80, 0x3f80, 0x7fc0};
    static const float nan32[] = {1, INFINITY, 1};
    static const double large[] = {1e300, 1, 1};
    static const int64_t whole[3];
    struct place place = place_open();
    (void)state;
    save_tensor(&place, "BF16", "[1,3]", nan16, sizeof nan16);
    refuses(&place, GW_ECORRUPT,
            "tensor w has a value that is NaN or infinite, element 2");
    save_tensor(&place, "F32", "[1,3]", nan32, sizeof nan32);
    refuses(&place, GW_ECORRUPT,
            "tensor w has a value that is NaN or "
            "infinite, element 1");
    save_tensor(&place, "F64", "[1,3]", large, sizeof large);
    refuses(&place, GW_ECORRUPT, "element 0");
    save_tensor(&place, "I64", "[1,3]", whole, sizeof whole);
    refuses(&place, GW_EMISMATCH,
            "tensor w is of type I64; save it as one of F32, F16, BF16 and");
    save_tensor(&place, "F32", "[3,1]", whole, sizeof nan32);
    refuses(&place, GW_EMISMATCH,
            "its tensor w is [3, 1], the job's [1, 3]; it looks transposed");
    save_tensor(&place, "F32", "[3]", whole, sizeof nan32);
    refuses(&place, GW_EMISMATCH, "its tensor w is [3], the job's [1, 3]");
    place_close(&place);
}

static void a_failed_import_can_be_repeated(void **state)
{
    struct place place = place_open();
    struct gw_disk_ops full = gw_disk_posix_ops;
    (void)state;
    full.rename = rename_no_manifest;
    place.disk.ops = &full;
    assert_int_equal(import(&place, place.library, KEYS), GW_ENOSPC);
    place.disk.ops = &gw_disk_posix_ops;
    if (import(&place, place.library, KEYS) != GW_OK)
        fail_msg("%s", place.error.text);
    place_close(&place);
}

/* Of a job of thousands of workers, which save a file each. */
static void a_checkpoint_of_many_files_is_removed(void **state)
{
    (void)state;
    struct place place = place_open();
    struct gw_disk dir;
    struct gw_store_file file;
    uint64_t clock;
    assert_int_equal(gw_store_enter_new(&place.disk, place.checkpoints,
                                        GW_ACCESS_PRIVATE, &dir, &place.error),
                     GW_OK);
    for (uint32_t rank = 0; rank < 5000; rank++) {
        char name[GW_FILE_NAME_MAX];
        gw_worker_file_name(rank, 5000, name);
        assert_int_equal(gw_store_create(&dir, 0, name, 1, &file, &place.error),
                         GW_OK);
        dir.ops->close(file.file, NULL);
    }
    gw_store_remove(&dir, 0);
    assert_int_equal(gw_store_list(&dir, &clock, 1), 0);
    gw_store_leave(&dir);
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_of_many_files_is_removed),
        cmocka_unit_test(the_library_s_file_becomes_a_checkpoint),
        cmocka_unit_test(what_is_exported_has_every_key),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(floats_of_other_widths_are_converted),
        cmocka_unit_test(what_cannot_be_weights_is_refused_by_name),
        cmocka_unit_test(a_failed_import_can_be_repeated),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
