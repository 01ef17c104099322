#include <config.h>

#include "proto/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"

#define METADATA_KEY   "__metadata__"
#define PRINTABLE_MAX  100
#define JSON_BYTES_MIN 2 /* {} */

struct gw_safetensors {
    json_t *root; /* owns all names */
    size_t n;
    struct gw_tensor *tensor;         /* [n] by place in the data */
    const struct gw_tensor **by_name; /* [n] */
};

static const struct {
    const char *name;
    uint64_t bytes;
} dtypes[] = {
    {.name = "BOOL", .bytes = 1},    {.name = "U8", .bytes = 1},
    {.name = "I8", .bytes = 1},      {.name = "F8_E5M2", .bytes = 1},
    {.name = "F8_E4M3", .bytes = 1}, {.name = "F8_E8M0", .bytes = 1},
    {.name = "U16", .bytes = 2},     {.name = "I16", .bytes = 2},
    {.name = "F16", .bytes = 2},     {.name = "BF16", .bytes = 2},
    {.name = "U32", .bytes = 4},     {.name = "I32", .bytes = 4},
    {.name = "F32", .bytes = 4},     {.name = "U64", .bytes = 8},
    {.name = "I64", .bytes = 8},     {.name = "F64", .bytes = 8},
    {.name = "C64", .bytes = 8},
};

/* Names come from files: they are shown in one line, and cut. */
struct printable {
    char text[PRINTABLE_MAX + 1];
};

static struct printable show(const char *name)
{
    struct printable shown = {.text = ""};
    for (size_t i = 0; i < PRINTABLE_MAX && name[i]; i++) {
        unsigned char c = (unsigned char)name[i];
        shown.text[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
    }
    return shown;
}

static int count_elems(const uint64_t *shape, size_t dims, uint64_t *elems_p)
{
    uint64_t elems = 1;
    for (size_t i = 0; i < dims; i++)
        if (__builtin_mul_overflow(elems, shape[i], &elems))
            return 0;
    *elems_p = elems;
    return 1;
}

/* -- writing ------------------------------------------------------------- */

/* Sets object[key], which must be new; takes the value over. */
static enum gw_status
add(json_t *object, const char *key, json_t *value, struct gw_error *error)
{
    if (!value)
        return gw_fail(error, GW_ENOMEM, "no memory for a safetensors header");
    if (json_object_get(object, key)) {
        json_decref(value);
        return gw_fail(error, GW_EINVAL, "\"%s\" is there twice",
                       show(key).text);
    }
    /* json_object_set_new takes the value also when it fails */
    if (json_object_set_new(object, key, value) != 0)
        return gw_fail(error, GW_EINVAL,
                       "\"%s\" is not UTF-8, or memory is out", show(key).text);
    return GW_OK;
}

static enum gw_status add_metadata(json_t *root,
                                   const struct gw_metadata *metadata,
                                   size_t n,
                                   struct gw_error *error)
{
    json_t *object = json_object();
    enum gw_status status = add(root, METADATA_KEY, object, error);
    for (size_t i = 0; status == GW_OK && i < n; i++) {
        json_t *value = json_string(metadata[i].value);
        if (!value)
            return gw_fail(error, GW_EINVAL,
                           "the metadata of \"%s\" are not UTF-8, or memory is "
                           "out",
                           show(metadata[i].key).text);
        status = add(object, metadata[i].key, value, error);
    }
    return status;
}

/* The entry of a tensor with the data [begin, end). */
static json_t *
make_entry(const struct gw_tensor_spec *tensor, uint64_t begin, uint64_t end)
{
    int failed = 0;
    json_t *shape = json_array();
    for (size_t i = 0; i < tensor->dims; i++)
        failed |= json_array_append_new(
            shape, json_integer((json_int_t)tensor->shape[i]));
    json_t *entry =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape,
                  "data_offsets", (json_int_t)begin, (json_int_t)end);
    if (failed) {
        json_decref(entry);
        return NULL;
    }
    return entry;
}

/* Adds one tensor behind *end_p, and moves it. */
static enum gw_status add_tensor(json_t *root,
                                 const struct gw_tensor_spec *tensor,
                                 uint64_t *end_p,
                                 struct gw_error *error)
{
    uint64_t elems, bytes, end;
    if (strcmp(tensor->name, METADATA_KEY) == 0)
        return gw_fail(error, GW_EINVAL, "no tensor can be named %s",
                       METADATA_KEY);
    if (tensor->dims > GW_TENSOR_DIMS_MAX)
        return gw_fail(error, GW_EINVAL,
                       "tensor \"%s\" has %zu dimensions, %d are the limit",
                       show(tensor->name).text, tensor->dims,
                       GW_TENSOR_DIMS_MAX);
    if (!count_elems(tensor->shape, tensor->dims, &elems) ||
        __builtin_mul_overflow(elems, sizeof(float), &bytes) ||
        __builtin_add_overflow(*end_p, bytes, &end) || end > INT64_MAX)
        return gw_fail(error, GW_ERANGE, "tensor \"%s\" ends beyond 2^63 bytes",
                       show(tensor->name).text);
    enum gw_status status =
        add(root, tensor->name, make_entry(tensor, *end_p, end), error);
    if (status == GW_OK)
        *end_p = end;
    return status;
}

/*
 * Length, JSON and padding. json_dumps would lose keys silently where its
 * buffer cannot grow (jansson 2.14, dump.c), so it gets one that fits.
 */
static enum gw_status make_bytes(const json_t *root,
                                 struct gw_safetensors_header *header,
                                 struct gw_error *error)
{
    size_t json_bytes = json_dumpb(root, NULL, 0, JSON_COMPACT);
    size_t used = GW_SAFETENSORS_PREFIX_BYTES + json_bytes;
    size_t n = (used + GW_SAFETENSORS_ALIGN - 1) / GW_SAFETENSORS_ALIGN *
               GW_SAFETENSORS_ALIGN;
    if (n - GW_SAFETENSORS_PREFIX_BYTES > GW_SAFETENSORS_HEADER_MAX)
        return gw_fail(
            error, GW_ERANGE,
            "a safetensors header of %zu bytes is beyond the "
            "limit of %u; use fewer or shorter names, or more servers",
            n, GW_SAFETENSORS_HEADER_MAX);
    header->bytes = malloc(n);
    if (json_bytes == 0 || !header->bytes ||
        json_dumpb(root, (char *)header->bytes + GW_SAFETENSORS_PREFIX_BYTES,
                   json_bytes, JSON_COMPACT) != json_bytes)
        return gw_fail(error, GW_ENOMEM,
                       "no memory for a safetensors header of %zu bytes", n);
    header->n = n;
    gw_put_u64(header->bytes, n - GW_SAFETENSORS_PREFIX_BYTES);
    memset(header->bytes + used, ' ', n - used);
    return GW_OK;
}

enum gw_status gw_safetensors_header_make(const struct gw_tensor_spec *tensors,
                                          size_t n,
                                          const struct gw_metadata *metadata,
                                          size_t n_metadata,
                                          struct gw_safetensors_header *header,
                                          struct gw_error *error)
{
    enum gw_status status = GW_OK;
    struct gw_safetensors_header made = {.n = 0};
    uint64_t end = 0;
    json_t *root = json_object();
    made.offset = calloc(n + 1, sizeof *made.offset);
    if (!root || !made.offset) {
        status =
            gw_fail(error, GW_ENOMEM, "no memory for a safetensors header");
        goto fail;
    }
    if (n_metadata > 0)
        status = add_metadata(root, metadata, n_metadata, error);
    for (size_t i = 0; status == GW_OK && i < n; i++) {
        made.offset[i] = end;
        status = add_tensor(root, &tensors[i], &end, error);
    }
    if (status == GW_OK)
        status = make_bytes(root, &made, error);
    if (status != GW_OK)
        goto fail;

    for (size_t i = 0; i < n; i++)
        made.offset[i] += made.n;
    made.file_bytes = made.n + end;
    json_decref(root);
    *header = made;
    return GW_OK;

fail:
    json_decref(root);
    gw_safetensors_header_free(&made);
    return status;
}

void gw_safetensors_header_free(struct gw_safetensors_header *header)
{
    free(header->bytes);
    free(header->offset);
    *header = (struct gw_safetensors_header){0};
}

/* -- reading ------------------------------------------------------------- */

enum gw_status
gw_safetensors_header_bytes(const char *name,
                            const uint8_t prefix[GW_SAFETENSORS_PREFIX_BYTES],
                            uint64_t file_bytes,
                            size_t *json_bytes_p,
                            struct gw_error *error)
{
    if (file_bytes < GW_SAFETENSORS_PREFIX_BYTES + JSON_BYTES_MIN)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: %" PRIu64 " bytes are too few for a safetensors "
                       "file",
                       name, file_bytes);
    uint64_t declared = gw_get_u64(prefix);
    if (declared < JSON_BYTES_MIN || declared > GW_SAFETENSORS_HEADER_MAX)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: declares a header of %" PRIu64
                       " bytes, %d to %u are possible; it is not a "
                       "safetensors file",
                       name, declared, JSON_BYTES_MIN,
                       GW_SAFETENSORS_HEADER_MAX);
    if (declared > file_bytes - GW_SAFETENSORS_PREFIX_BYTES)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: declares a header of %" PRIu64
                       " bytes, the file has %" PRIu64 "; it is truncated",
                       name, declared, file_bytes);
    *json_bytes_p = (size_t)declared;
    return GW_OK;
}

static enum gw_status read_json(const char *name,
                                const uint8_t *json,
                                size_t n,
                                json_t **root_p,
                                struct gw_error *error)
{
    json_error_t why;
    if (n < JSON_BYTES_MIN || json[0] != '{')
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its header does not begin with '{'", name);
    json_t *root =
        json_loadb((const char *)json, n, JSON_REJECT_DUPLICATES, &why);
    /* without a text, jansson could not even keep track of why */
    if (!root && (json_error_code(&why) == json_error_out_of_memory ||
                  why.text[0] == '\0'))
        return gw_fail(error, GW_ENOMEM, "%s: no memory for its header", name);
    if (!root)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its header is not JSON at byte %d: %s", name,
                       why.position, show(why.text).text);
    *root_p = root;
    return GW_OK;
}

static enum gw_status
check_metadata(const char *name, json_t *metadata, struct gw_error *error)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return gw_fail(error, GW_ECORRUPT, "%s: %s is not an object", name,
                       METADATA_KEY);
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return gw_fail(error, GW_ECORRUPT, "%s: %s \"%s\" is not a string",
                           name, METADATA_KEY, show(key).text);
    }
    return GW_OK;
}

static int read_count(const json_t *array, size_t index, uint64_t *value_p)
{
    const json_t *value = json_array_get(array, index);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return 0;
    *value_p = (uint64_t)json_integer_value(value);
    return 1;
}

/* The three members of a tensor's entry, each of its own kind. */
static enum gw_status read_entry(const char *name,
                                 const json_t *entry,
                                 struct gw_tensor *tensor,
                                 uint64_t *end_p,
                                 struct gw_error *error)
{
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    struct printable shown = show(tensor->name);
    if (!json_is_string(dtype) || !json_is_array(shape) ||
        !json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !read_count(offsets, 0, &tensor->offset) ||
        !read_count(offsets, 1, end_p))
        return gw_fail(error, GW_ECORRUPT,
                       "%s: tensor \"%s\" lacks a dtype, a shape or two "
                       "data_offsets",
                       name, shown.text);
    tensor->dtype = json_string_value(dtype);
    tensor->dims = json_array_size(shape);
    if (tensor->dims > GW_TENSOR_DIMS_MAX)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "%s: tensor \"%s\" has %zu dimensions, %d are the limit",
                       name, shown.text, tensor->dims, GW_TENSOR_DIMS_MAX);
    for (size_t i = 0; i < tensor->dims; i++)
        if (!read_count(shape, i, &tensor->shape[i]))
            return gw_fail(error, GW_ECORRUPT,
                           "%s: tensor \"%s\": dimension %zu of its shape is "
                           "not a count",
                           name, shown.text, i);
    return GW_OK;
}

/* One tensor; its offset still counts from the first byte of the data. */
static enum gw_status read_tensor(const char *name,
                                  const json_t *entry,
                                  uint64_t data_bytes,
                                  struct gw_tensor *tensor,
                                  struct gw_error *error)
{
    uint64_t end = 0, wanted;
    enum gw_status status = read_entry(name, entry, tensor, &end, error);
    if (status != GW_OK)
        return status;
    size_t t = 0, known = sizeof dtypes / sizeof *dtypes;
    while (t < known && strcmp(dtypes[t].name, tensor->dtype) != 0)
        t++;
    if (t == known)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "%s: tensor \"%s\" has the dtype \"%s\", which is not "
                       "known here",
                       name, show(tensor->name).text, show(tensor->dtype).text);
    if (tensor->offset > end || end > data_bytes)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: tensor \"%s\" is at %" PRIu64 " to %" PRIu64
                       " of %" PRIu64 " bytes of data; the file is truncated "
                       "or damaged",
                       name, show(tensor->name).text, tensor->offset, end,
                       data_bytes);
    tensor->bytes = end - tensor->offset;
    if (!count_elems(tensor->shape, tensor->dims, &tensor->elems) ||
        __builtin_mul_overflow(tensor->elems, dtypes[t].bytes, &wanted) ||
        wanted != tensor->bytes)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: tensor \"%s\" has %" PRIu64
                       " bytes, which its shape and dtype %s do not",
                       name, show(tensor->name).text, tensor->bytes,
                       tensor->dtype);
    return GW_OK;
}

static int compare_count(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* By place, empty tensors before the one that begins there, then by name. */
static int compare_place(const void *a, const void *b)
{
    const struct gw_tensor *one = a, *other = b;
    int order = compare_count(one->offset, other->offset);
    if (order == 0)
        order = compare_count(one->bytes, other->bytes);
    return order != 0 ? order : strcmp(one->name, other->name);
}

static int compare_name(const void *a, const void *b)
{
    const struct gw_tensor *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

static int compare_key(const void *key, const void *entry)
{
    const struct gw_tensor *const *tensor = entry;
    return strcmp(key, (*tensor)->name);
}

/* Each tensor begins where the one before ends, and the last ends the file. */
static enum gw_status check_places(const char *name,
                                   const struct gw_safetensors *file,
                                   uint64_t data_bytes,
                                   struct gw_error *error)
{
    uint64_t end = 0;
    for (size_t i = 0; i < file->n; i++) {
        const struct gw_tensor *tensor = &file->tensor[i];
        if (tensor->offset != end)
            return gw_fail(error, GW_ECORRUPT,
                           "%s: tensor \"%s\" begins at %" PRIu64
                           " of the data, where %" PRIu64 " is expected (%s)",
                           name, show(tensor->name).text, tensor->offset, end,
                           tensor->offset < end ? "tensors overlap" : "a hole");
        end += tensor->bytes;
    }
    if (end != data_bytes)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its tensors end at %" PRIu64 " of %" PRIu64
                       " bytes of data",
                       name, end, data_bytes);
    return GW_OK;
}

/* All entries of the header, in the order of the file's data. */
static enum gw_status read_tensors(const char *name,
                                   struct gw_safetensors *file,
                                   uint64_t data_bytes,
                                   struct gw_error *error)
{
    enum gw_status status = GW_OK;
    const char *key;
    json_t *value;
    json_object_foreach(file->root, key, value)
    {
        if (strcmp(key, METADATA_KEY) == 0) {
            status = check_metadata(name, value, error);
        } else {
            struct gw_tensor *tensor = &file->tensor[file->n];
            tensor->name = key;
            status = read_tensor(name, value, data_bytes, tensor, error);
            file->n++;
        }
        if (status != GW_OK)
            return status;
    }
    qsort(file->tensor, file->n, sizeof *file->tensor, compare_place);
    return check_places(name, file, data_bytes, error);
}

enum gw_status gw_safetensors_read(const char *name,
                                   const uint8_t *json,
                                   size_t json_bytes,
                                   uint64_t file_bytes,
                                   struct gw_safetensors **file_p,
                                   struct gw_error *error)
{
    enum gw_status status = GW_OK;
    uint64_t data_begin = GW_SAFETENSORS_PREFIX_BYTES + (uint64_t)json_bytes;
    if (data_begin > file_bytes)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its header of %zu bytes is longer than the file",
                       name, json_bytes);
    struct gw_safetensors *file = calloc(1, sizeof *file);
    if (!file)
        return gw_fail(error, GW_ENOMEM, "%s: no memory for its header", name);
    status = read_json(name, json, json_bytes, &file->root, error);
    if (status != GW_OK)
        goto fail;

    size_t entries = json_object_size(file->root);
    file->tensor = calloc(entries + 1, sizeof *file->tensor);
    file->by_name = calloc(entries + 1, sizeof *file->by_name);
    if (!file->tensor || !file->by_name) {
        status = gw_fail(error, GW_ENOMEM, "%s: no memory for its %zu tensors",
                         name, entries);
        goto fail;
    }
    status = read_tensors(name, file, file_bytes - data_begin, error);
    if (status != GW_OK)
        goto fail;

    for (size_t i = 0; i < file->n; i++) {
        file->tensor[i].offset += data_begin;
        file->by_name[i] = &file->tensor[i];
    }
    qsort(file->by_name, file->n, sizeof *file->by_name, compare_name);
    *file_p = file;
    return GW_OK;

fail:
    gw_safetensors_free(file);
    return status;
}

void gw_safetensors_free(struct gw_safetensors *file)
{
    if (!file)
        return;
    json_decref(file->root);
    free(file->tensor);
    free(file->by_name);
    free(file);
}

const struct gw_tensor *
gw_safetensors_tensors(const struct gw_safetensors *file, size_t *n_p)
{
    *n_p = file->n;
    return file->tensor;
}

const char *gw_safetensors_metadata(const struct gw_safetensors *file,
                                    const char *key)
{
    const json_t *metadata = json_object_get(file->root, METADATA_KEY);
    return json_string_value(json_object_get(metadata, key));
}

const struct gw_tensor *gw_safetensors_find(const struct gw_safetensors *file,
                                            const char *name)
{
    const struct gw_tensor **found = bsearch(
        name, file->by_name, file->n, sizeof *file->by_name, compare_key);
    return found ? *found : NULL;
}
