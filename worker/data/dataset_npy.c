/* npy 1.0 and 2.0, numpy's array files: a header that is a Python dict. */
#include "config.h"

#include "worker/data/dataset_format.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "proto/wire.h"
#include "worker/data/dataset_number.h"

/*
 * 93 N U M P Y | major minor | u16 (1.0) or u32 (2.0) text bytes | text | data
 */
#define NPY_PREFIX_BYTES 8
#define NPY_TEXT_MAX     (GW_DATA_HEAD_BYTES - 16)
#define NPY_DIMS_MAX     4
#define NPY_WORD_MAX     32

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

struct npy {
    char descr[NPY_WORD_MAX];
    int fortran;
    size_t dims;
    uint64_t shape[NPY_DIMS_MAX];
    struct gw_number number;
    size_t header_bytes;
    uint64_t bytes; /* of the whole file */
};

/* The header's text; each take_* moves on only where it returns 1. */
struct cursor {
    const uint8_t *at, *end;
};

static void skip_blanks(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n'))
        c->at++;
}

static int take(struct cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != (uint8_t)wanted)
        return 0;
    c->at++;
    return 1;
}

static int take_word(struct cursor *c, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
        return 0;
    c->at += n;
    return 1;
}

/* Printable ASCII only: a type goes into messages. */
static int take_string(struct cursor *c, char out[NPY_WORD_MAX])
{
    size_t n = 0;
    skip_blanks(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return 0;
    const uint8_t *at = c->at + 1;
    while (at < c->end && *at != *c->at) {
        if (*at < ' ' || *at > '~' || n == NPY_WORD_MAX - 1)
            return 0;
        out[n++] = (char)*at++;
    }
    if (at == c->end)
        return 0;
    out[n] = '\0';
    c->at = at + 1;
    return 1;
}

static int take_number(struct cursor *c, uint64_t *out)
{
    uint64_t value = 0;
    skip_blanks(c);
    const uint8_t *begin = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        uint64_t digit = (uint64_t)(*c->at - '0');
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return 0;
        c->at++;
    }
    if (c->at == begin)
        return 0;
    if (c->at < c->end && *c->at == 'L') /* Python 2 wrote longs like this */
        c->at++;
    *out = value;
    return 1;
}

static int take_shape(struct cursor *c, struct npy *npy)
{
    npy->dims = 0;
    if (!take(c, '('))
        return 0;
    while (!take(c, ')')) {
        if (npy->dims == NPY_DIMS_MAX ||
            !take_number(c, &npy->shape[npy->dims]))
            return 0;
        npy->dims++;
        if (!take(c, ',') && (c->at == c->end || *c->at != ')'))
            return 0;
    }
    return 1;
}

static int take_bool(struct cursor *c, int *out)
{
    *out = take_word(c, "True");
    return *out || take_word(c, "False");
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in any order */
static int take_dict(struct cursor *c, struct npy *npy)
{
    char key[NPY_WORD_MAX];
    int descr = 0, order = 0, shape = 0;
    if (!take(c, '{'))
        return 0;
    while (!take(c, '}')) {
        int known = 0;
        if (!take_string(c, key) || !take(c, ':'))
            return 0;
        if (strcmp(key, "descr") == 0)
            known = descr++ == 0 && take_string(c, npy->descr);
        else if (strcmp(key, "fortran_order") == 0)
            known = order++ == 0 && take_bool(c, &npy->fortran);
        else if (strcmp(key, "shape") == 0)
            known = shape++ == 0 && take_shape(c, npy);
        if (!known || (!take(c, ',') && (c->at == c->end || *c->at != '}')))
            return 0;
    }
    skip_blanks(c);
    return c->at == c->end && descr && order && shape;
}

/* Finds the header's text, which is read later. */
static enum gw_status find_text(const char *name,
                                const uint8_t *in,
                                size_t n,
                                struct cursor *text,
                                struct gw_error *error)
{
    if (n < NPY_PREFIX_BYTES + 4)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: %zu bytes are too few for an npy "
                       "header; " GW_DATA_ADVICE_AGAIN,
                       name, n);
    if (memcmp(in, magic, sizeof magic) != 0)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: does not begin as an npy file; check data.format",
                       name);
    int major = in[6], minor = in[7];
    if ((major != 1 && major != 2) || minor != 0)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: is npy version %d.%d, 1.0 and 2.0 are known; save "
                       "it as a plain array",
                       name, major, minor);
    size_t count = major == 1 ? 2 : 4;
    size_t begin = NPY_PREFIX_BYTES + count;
    size_t bytes = major == 1 ? gw_get_u16(in + NPY_PREFIX_BYTES)
                              : gw_get_u32(in + NPY_PREFIX_BYTES);
    if (bytes > NPY_TEXT_MAX || bytes > n - begin)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its header's text has %zu bytes, %zu are there "
                       "and %zu the limit; " GW_DATA_ADVICE_AGAIN,
                       name, bytes, n - begin, NPY_TEXT_MAX);
    *text = (struct cursor){.at = in + begin, .end = in + begin + bytes};
    return GW_OK;
}

/* '<f8': order of the bytes, kind, how many of them. Truth is a byte, too. */
static int read_type(const char *descr, struct gw_number *number_p)
{
    static const struct {
        const char *word; /* behind the order */
        struct gw_number number;
    } types[] = {
        {"b1", {GW_NUMBER_UINT, 1, 0}},  {"u1", {GW_NUMBER_UINT, 1, 0}},
        {"u2", {GW_NUMBER_UINT, 2, 0}},  {"u4", {GW_NUMBER_UINT, 4, 0}},
        {"u8", {GW_NUMBER_UINT, 8, 0}},  {"i1", {GW_NUMBER_INT, 1, 0}},
        {"i2", {GW_NUMBER_INT, 2, 0}},   {"i4", {GW_NUMBER_INT, 4, 0}},
        {"i8", {GW_NUMBER_INT, 8, 0}},   {"f2", {GW_NUMBER_FLOAT, 2, 0}},
        {"f4", {GW_NUMBER_FLOAT, 4, 0}}, {"f8", {GW_NUMBER_FLOAT, 8, 0}},
    };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct gw_number number = types[t].number;
        if (!*descr || strcmp(types[t].word, descr + 1) != 0)
            continue;
        number.big = *descr == '>';
        *number_p = number;
        return strchr(number.bytes == 1 ? "|<>=" : "<>=", *descr) != NULL;
    }
    return 0;
}

/* The type, and the bytes of the whole file. */
static enum gw_status
measure(const char *name, struct npy *npy, struct gw_error *error)
{
    if (!read_type(npy->descr, &npy->number))
        return gw_fail(error, GW_EMISMATCH,
                       "%s: its type is '%s'; save x as uint8, uint16, "
                       "float16, float32 or float64, y as whole numbers",
                       name, npy->descr);
    if (npy->fortran && npy->dims > 1)
        return gw_fail(error, GW_EMISMATCH,
                       "%s: is in Fortran order; save it with "
                       "numpy.ascontiguousarray",
                       name);
    npy->bytes = npy->number.bytes;
    int overflow = 0;
    for (size_t i = 0; i < npy->dims; i++) {
        if (npy->shape[i] == 0)
            return gw_fail(error, GW_ECORRUPT,
                           "%s: dimension %zu of its shape is 0; it holds no "
                           "samples",
                           name, i);
        overflow |=
            __builtin_mul_overflow(npy->bytes, npy->shape[i], &npy->bytes);
    }
    overflow |=
        __builtin_add_overflow(npy->bytes, npy->header_bytes, &npy->bytes);
    if (overflow)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its header declares more than 2^64 "
                       "bytes; " GW_DATA_ADVICE_AGAIN,
                       name);
    return GW_OK;
}

static enum gw_status parse(const char *name,
                            const uint8_t *in,
                            size_t n,
                            struct npy *npy,
                            struct gw_error *error)
{
    struct cursor text = {0};
    *npy = (struct npy){.dims = 0};
    enum gw_status status = find_text(name, in, n, &text, error);
    if (status != GW_OK)
        return status;
    npy->header_bytes = (size_t)(text.end - in);
    if (!take_dict(&text, npy))
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its npy header cannot be read at byte %zd; it "
                       "must be one plain array of at most %d dimensions",
                       name, text.at - in, NPY_DIMS_MAX);
    return measure(name, npy, error);
}

static enum gw_status file_size(const char *name,
                                const uint8_t *head,
                                size_t n,
                                uint64_t *bytes_p,
                                struct gw_error *error)
{
    struct npy npy;
    enum gw_status status = parse(name, head, n, &npy, error);
    if (status == GW_OK)
        *bytes_p = npy.bytes;
    return status;
}

static enum gw_status
check(const struct gw_data_file *file, struct npy *npy, struct gw_error *error)
{
    enum gw_status status = parse(file->name, file->bytes, file->n, npy, error);
    if (status != GW_OK)
        return status;
    if (npy->bytes != file->n)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its header declares %" PRIu64
                       " bytes, it holds %zu (%s); " GW_DATA_ADVICE_AGAIN,
                       file->name, npy->bytes, file->n,
                       file->n < npy->bytes ? "truncated"
                                            : "bytes behind the end");
    return GW_OK;
}

static int is_float(const struct npy *npy)
{
    return npy->number.kind == GW_NUMBER_FLOAT;
}

/* Bytes, numbers of 16 bits for which 65535 is 1, and floats as they are. */
static int are_pixels(const struct npy *x)
{
    return x->dims >= 2 && (is_float(x) || (x->number.kind == GW_NUMBER_UINT &&
                                            x->number.bytes <= 2));
}

/* [n], or as a column [n,1]. */
static int are_labels(const struct npy *y)
{
    return !is_float(y) && (y->dims == 1 || (y->dims == 2 && y->shape[1] == 1));
}

static enum gw_status check_kinds(const struct gw_data_file *file,
                                  const struct npy *x,
                                  const struct npy *y,
                                  struct gw_error *error)
{
    if (!are_pixels(x))
        return gw_fail(error, GW_EMISMATCH,
                       "%s: has %zu dimensions of '%s'; x must be uint8, "
                       "uint16, float16, float32 or float64 of [n,c,h,w], "
                       "[n,h,w] or [n,features]",
                       file[0].name, x->dims, x->descr);
    if (!are_labels(y))
        return gw_fail(error, GW_EMISMATCH,
                       "%s: has %zu dimensions of '%s'; y must be whole "
                       "numbers of [n] or [n,1], one class for each sample",
                       file[1].name, y->dims, y->descr);
    if (x->shape[0] != y->shape[0])
        return gw_fail(error, GW_ECORRUPT,
                       "%s: holds %" PRIu64 " labels for the %" PRIu64
                       " samples of %s; do the files belong together?",
                       file[1].name, y->shape[0], x->shape[0], file[0].name);
    return GW_OK;
}

static void set_shape(struct gw_dataset *set, const struct npy *x)
{
    int bytes = !is_float(x) && x->number.bytes == 1;
    set->pixel = bytes ? GW_PIXEL_U8 : GW_PIXEL_F32;
    set->shape.samples = x->shape[0];
    set->shape.channels = x->dims == 4 ? x->shape[1] : 1;
    set->shape.height = x->dims > 2 ? x->shape[x->dims - 2] : 1;
    set->shape.width = x->shape[x->dims - 1];
}

/* Images [n,h,w,c] look like h channels of h x c, which nobody means. */
static void doubt_order(struct gw_dataset *set,
                        const struct gw_config *config,
                        const struct npy *x)
{
    const struct gw_dataset_shape *shape = &set->shape;
    int matters = config->model.kind == GW_MODEL_CNN ||
                  config->data.augment.n > 0 || config->data.normalize.n > 2;
    if (!matters || x->dims != 4 || shape->width > 4 ||
        shape->channels <= shape->width || shape->height <= shape->width)
        return;
    gw_data_note(set, GW_DATASET_DOUBTFUL,
                 "%s is read as %zu channels of %zux%zu, and looks like %zu "
                 "channels that come last; then save x.transpose(0, 3, 1, 2)",
                 set->file[0].name, shape->channels, shape->height,
                 shape->width, shape->width);
}

/* fp32 as this machine has it, which is read where it lies. */
static int is_plain(const struct npy *x)
{
    return is_float(x) && x->number.bytes == 4 && !x->number.big;
}

/* Pixels as bytes or fp32 of this machine, as batches take them. */
static enum gw_status read_pixels(struct gw_dataset *set,
                                  const struct gw_config *config,
                                  const struct npy *x,
                                  struct gw_error *error)
{
    const char *name = set->file[0].name;
    size_t skip = x->header_bytes;
    set_shape(set, x);
    if (set->pixel == GW_PIXEL_F32 && !is_plain(x)) {
        uint64_t n = (x->bytes - x->header_bytes) / x->number.bytes;
        enum gw_status status =
            gw_data_convert(set, 0, x->number, x->header_bytes, n,
                            is_float(x) ? 1 : 1.0f / UINT16_MAX, error);
        if (status != GW_OK)
            return status;
        skip = 0;
    }
    set->runs = 1;
    set->run[0] = (struct gw_data_run){.pixels = set->file[0].bytes + skip,
                                       .samples = x->shape[0],
                                       .stride = gw_dataset_sample_bytes(set)};
    doubt_order(set, config, x);
    return is_float(x) ? gw_data_check_floats(set, config, name, error) : GW_OK;
}

static enum gw_status read_set(struct gw_dataset *set,
                               const struct gw_config *config,
                               struct gw_error *error)
{
    const struct gw_data_file *file = set->file;
    struct npy x, y;
    enum gw_status status = check(&file[0], &x, error);
    if (status == GW_OK)
        status = check(&file[1], &y, error);
    if (status == GW_OK)
        status = check_kinds(file, &x, &y, error);
    if (status == GW_OK)
        status = read_pixels(set, config, &x, error);
    if (status == GW_OK)
        status = gw_data_labels_create(set, error);
    if (status == GW_OK)
        status = gw_data_labels_read(set, 1, y.number, y.header_bytes, error);
    return status;
}

static enum gw_status locate(const struct gw_path_list *names,
                             enum gw_dataset_part part,
                             struct gw_data_paths *paths,
                             struct gw_error *error)
{
    (void)part;
    if (names->n != 2)
        return gw_fail(error, GW_EUSAGE,
                       "names %zu files; npy takes two, x and y", names->n);
    return gw_data_locate_files(names, paths, error);
}

const struct gw_data_reader gw_data_npy = {
    .name = "npy",
    .size = file_size,
    .locate = locate,
    .read = read_set,
};
