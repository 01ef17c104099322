/* A whole safetensors file; what can be read is written and read again. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "proto/safetensors.h"

#define TENSORS_MAX 64

/* Both steps of reading, the JSON from memory of exactly its size. */
static enum gw_status read_file(const uint8_t *data,
                                size_t n,
                                uint64_t file_bytes,
                                struct gw_safetensors **file_p,
                                struct gw_error *error)
{
    uint8_t prefix[GW_SAFETENSORS_PREFIX_BYTES] = {0};
    size_t json_bytes;
    memcpy(prefix, data, n < sizeof prefix ? n : sizeof prefix);
    enum gw_status status = gw_safetensors_header_bytes(
        "file", prefix, file_bytes, &json_bytes, error);
    if (status != GW_OK)
        return status;
    uint8_t *json = malloc(json_bytes);
    FUZZ_PROMISE(json != NULL);
    memcpy(json, data + sizeof prefix, json_bytes);
    status = gw_safetensors_read("file", json, json_bytes, file_bytes, file_p,
                                 error);
    free(json);
    return status;
}

static void check_places(const struct gw_safetensors *file, uint64_t file_bytes)
{
    size_t n;
    const struct gw_tensor *tensor = gw_safetensors_tensors(file, &n);
    for (size_t i = 0; i < n; i++) {
        uint64_t next = i + 1 < n ? tensor[i + 1].offset : file_bytes;
        FUZZ_PROMISE(tensor[i].offset + tensor[i].bytes == next);
        FUZZ_PROMISE(gw_safetensors_find(file, tensor[i].name) == &tensor[i]);
    }
}

/* Writes the same shapes as fp32, reads them back, compares. */
static void write_and_read(const struct gw_safetensors *file)
{
    struct gw_tensor_spec specs[TENSORS_MAX];
    struct gw_metadata metadata = {.key = "a", .value = "b"};
    struct gw_safetensors_header header;
    struct gw_safetensors *back = NULL;
    struct gw_error error = {.text = ""};
    size_t n, n_back;
    const struct gw_tensor *tensor = gw_safetensors_tensors(file, &n);
    if (n > TENSORS_MAX)
        return;
    for (size_t i = 0; i < n; i++)
        specs[i] = (struct gw_tensor_spec){.name = tensor[i].name,
                                           .dims = tensor[i].dims,
                                           .shape = tensor[i].shape};
    FUZZ_PROMISE(gw_safetensors_header_make(specs, n, &metadata, 1, &header,
                                            &error) == GW_OK);
    FUZZ_PROMISE(header.n % GW_SAFETENSORS_ALIGN == 0);
    FUZZ_PROMISE(read_file(header.bytes, header.n, header.file_bytes, &back,
                           &error) == GW_OK);
    check_places(back, header.file_bytes);
    gw_safetensors_tensors(back, &n_back);
    FUZZ_PROMISE(n_back == n);
    for (size_t i = 0; i < n; i++) {
        const struct gw_tensor *same =
            gw_safetensors_find(back, tensor[i].name);
        FUZZ_PROMISE(same != NULL && same->offset == header.offset[i]);
        FUZZ_PROMISE(same->elems == tensor[i].elems);
    }
    gw_safetensors_free(back);
    gw_safetensors_header_free(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct gw_safetensors *file = NULL;
    struct gw_error error = {.text = ""};
    enum gw_status status = read_file(data, n, n, &file, &error);
    if (status == GW_OK) {
        check_places(file, n);
        write_and_read(file);
    } else {
        FUZZ_PROMISE(file == NULL);
        FUZZ_PROMISE(error.status == status);
        FUZZ_PROMISE(strchr(error.text, '\n') == NULL);
    }
    gw_safetensors_free(file);
    return 0;
}
