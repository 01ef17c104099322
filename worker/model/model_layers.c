#include "config.h"

#include "worker/model/model_layers.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/distance.h"

#define WORDS_MAX 8
/* Limits far above any model that trains here, and far below an overflow of a
   product of four. */
#define SIZE_MOST    65536
#define ELEMS_MOST   ((size_t)1 << 28) /* limit of one sample in one layer */
#define WEIGHTS_MOST ((size_t)1 << 32) /* of one layer */
#define POOL_MOST    15                /* its window's index fits a byte */

/* One entry of model.layers, for messages, and the layers so far. */
struct entry {
    size_t index;
    const char *text;
    struct layer_list *list;
    struct layer_extent in;
    struct gw_error *error;
};

static enum gw_status refuse(const struct entry *entry, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum gw_status refuse(const struct entry *entry, const char *format, ...)
{
    char why[GW_ERROR_TEXT_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return gw_fail(entry->error, GW_EUSAGE, "model.layers[%zu] \"%s\": %s",
                   entry->index, entry->text, why);
}

/* A whole number in [least, most] and nothing after it. */
static int read_size(const char *text, size_t least, size_t most, size_t *out_p)
{
    if (!isdigit((unsigned char)*text) || strlen(text) > 9)
        return 0;
    char *end;
    size_t value = strtoul(text, &end, 10);
    if (*end || value < least || value > most)
        return 0;
    *out_p = value;
    return 1;
}

static struct layer *add_layer(struct entry *entry, enum layer_kind kind)
{
    struct layer *layer = &entry->list->layer[entry->list->n++];
    *layer = (struct layer){.kind = kind, .in = entry->in, .out = entry->in};
    return layer;
}

static enum gw_status add_dense(struct entry *entry, size_t out)
{
    size_t in = extent_elems(entry->in);
    if (in > WEIGHTS_MOST / out)
        return refuse(entry, "%zu x %zu weights are too many", out, in);
    struct layer *layer = add_layer(entry, LAYER_DENSE);
    layer->dense = (struct gw_dense_shape){.in = in, .out = out, .relu = 1};
    layer->out = (struct layer_extent){out, 1, 1};
    return GW_OK;
}

static void add_dropout(struct entry *entry, double p)
{
    add_layer(entry, LAYER_DROPOUT)->dropout = (float)p;
}

/*
 * A backend counts places and terms of one image in 31 bits, the zeros around
 * it included: around its input, and around the gradient of its output, where
 * as many rows are needed as windows reach over.
 */
static int fits_tables(
    struct layer_extent in, size_t out, size_t size, size_t stride, size_t pad)
{
    size_t rows = (in.h + pad + size) / stride + 2;
    size_t columns = (in.w + pad + size) / stride + 2;
    return in.c <= INT32_MAX / (in.h + 2 * pad) / (in.w + 2 * pad) &&
           out <= INT32_MAX / rows / columns && out <= INT32_MAX / size / size;
}

/* Every sum and product here stays far below 2^64: see SIZE_MOST. */
static enum gw_status add_conv(
    struct entry *entry, size_t out, size_t size, size_t stride, size_t pad)
{
    struct layer_extent in = entry->in;
    if (pad >= size)
        return refuse(entry, "padding must be smaller than the kernel");
    if (size > in.h + 2 * pad || size > in.w + 2 * pad)
        return refuse(entry, "the input is only %zux%zu", in.h, in.w);
    struct layer_extent made = {out, (in.h + 2 * pad - size) / stride + 1,
                                (in.w + 2 * pad - size) / stride + 1};
    if (made.h * made.w > ELEMS_MOST / out || in.c > ELEMS_MOST / size / size ||
        in.c * size * size > WEIGHTS_MOST / out ||
        !fits_tables(in, out, size, stride, pad))
        return refuse(entry, "%zu channels of %zux%zu are too many", out,
                      made.h, made.w);
    struct layer *layer = add_layer(entry, LAYER_CONV);
    layer->conv = (struct gw_conv_shape){.in = in.c,
                                         .h = in.h,
                                         .w = in.w,
                                         .out = out,
                                         .kh = size,
                                         .kw = size,
                                         .stride = stride,
                                         .pad = pad,
                                         .relu = 1};
    layer->out = made;
    return GW_OK;
}

static enum gw_status add_pool(struct entry *entry, size_t size, size_t stride)
{
    struct layer_extent in = entry->in;
    if (size > in.h || size > in.w)
        return refuse(entry, "the input is only %zux%zu", in.h, in.w);
    struct layer *layer = add_layer(entry, LAYER_POOL);
    layer->pool = (struct gw_pool_shape){
        .c = in.c, .h = in.h, .w = in.w, .size = size, .stride = stride};
    layer->out = (struct layer_extent){in.c, (in.h - size) / stride + 1,
                                       (in.w - size) / stride + 1};
    return GW_OK;
}

/* "stride 2", "pad 1" after the numbers of a layer. */
static int
read_options(char *const *word, size_t n, size_t *stride_p, size_t *pad_p)
{
    for (size_t i = 0; i < n; i += 2) {
        int ok = 0;
        if (i + 1 == n)
            return 0;
        if (!strcasecmp(word[i], "stride"))
            ok = read_size(word[i + 1], 1, SIZE_MOST, stride_p);
        else if (pad_p && !strcasecmp(word[i], "pad"))
            ok = read_size(word[i + 1], 0, SIZE_MOST, pad_p);
        if (!ok)
            return 0;
    }
    return 1;
}

static enum gw_status
read_conv(struct entry *entry, char *const *word, size_t n)
{
    size_t out, size, stride = 1, pad = 0;
    if (n < 3 || !read_size(word[1], 1, SIZE_MOST, &out) ||
        !read_size(word[2], 1, SIZE_MOST, &size) ||
        !read_options(word + 3, n - 3, &stride, &pad))
        return refuse(entry,
                      "write it as \"conv CHANNELS SIZE\" or \"conv "
                      "CHANNELS SIZE stride N pad N\", numbers up to %d",
                      SIZE_MOST);
    return add_conv(entry, out, size, stride, pad);
}

static enum gw_status
read_pool(struct entry *entry, char *const *word, size_t n)
{
    size_t size, stride;
    if (n < 2 || !read_size(word[1], 1, POOL_MOST, &size))
        return refuse(entry, "write it as \"pool SIZE\" with a size of 1 to %d",
                      POOL_MOST);
    stride = size;
    if (!read_options(word + 2, n - 2, &stride, NULL))
        return refuse(entry, "write it as \"pool SIZE\" or \"pool SIZE stride "
                             "N\"");
    return add_pool(entry, size, stride);
}

static enum gw_status
read_dense(struct entry *entry, char *const *word, size_t n)
{
    size_t out;
    if (n != 2 || !read_size(word[1], 1, ELEMS_MOST, &out))
        return refuse(entry, "write it as \"dense WIDTH\"");
    return add_dense(entry, out);
}

static enum gw_status
read_dropout(struct entry *entry, char *const *word, size_t n)
{
    char *end = NULL;
    double p = n == 2 ? strtod(word[1], &end) : -1;
    if (n != 2 || *end || !(p >= 0 && p < 1))
        return refuse(entry, "write it as \"dropout P\" with 0 <= P < 1");
    add_dropout(entry, p);
    return GW_OK;
}

/* How many words there are; the first WORDS_MAX of them in word. */
static size_t split(char *text, char **word)
{
    size_t n = 0;
    char *rest = NULL;
    for (char *w = strtok_r(text, " \t", &rest); w;
         w = strtok_r(NULL, " \t", &rest), n++)
        if (n < WORDS_MAX)
            word[n] = w;
    return n;
}

static const struct {
    const char *name;
    enum gw_status (*read)(struct entry *entry, char *const *word, size_t n);
    int flat; /* may follow a dense layer */
} readers[] = {
    {"conv", read_conv, 0},
    {"pool", read_pool, 0},
    {"dense", read_dense, 1},
    {"dropout", read_dropout, 1},
};

static enum gw_status read_entry(struct entry *entry, int after_dense)
{
    char text[GW_STRING_MAX], *word[WORDS_MAX];
    memcpy(text, entry->text, strlen(entry->text) + 1);
    size_t n = split(text, word);
    if (n > WORDS_MAX)
        return refuse(entry, "it has too many words");
    for (size_t i = 0; n && i < sizeof readers / sizeof *readers; i++) {
        if (strcasecmp(word[0], readers[i].name))
            continue;
        if (after_dense && !readers[i].flat)
            return refuse(entry, "it cannot follow a dense layer");
        return readers[i].read(entry, word, n);
    }
    struct gw_nearest nearest = {0};
    char said[GW_NEAREST_BYTES];
    for (size_t i = 0; n && i < sizeof readers / sizeof *readers; i++)
        gw_nearest_try(&nearest, word[0], readers[i].name);
    return refuse(entry, "it is none of conv, pool, dense, dropout%s",
                  gw_nearest_say(&nearest, said));
}

static void advance(struct entry *entry)
{
    entry->in = entry->list->layer[entry->list->n - 1].out;
}

/*
 * The output layer has no ReLU. It is the last entry if that is a dense layer,
 * as wide as it is written, and not as the classes of some data. Else one is
 * added for the classes of the training set.
 */
static enum gw_status finish_cnn(struct entry *entry, size_t classes)
{
    struct layer *last = &entry->list->layer[entry->list->n - 1];
    if (last->kind != LAYER_DENSE) {
        enum gw_status status = add_dense(entry, classes);
        if (status != GW_OK)
            return status;
        last = &entry->list->layer[entry->list->n - 1];
        entry->list->added = 1;
    }
    last->dense.relu = 0;
    return GW_OK;
}

static enum gw_status
cnn_layers(const struct gw_config *config, size_t classes, struct entry *entry)
{
    const struct gw_string_list *entries = &config->model.layers;
    int after_dense = 0;
    if (!entries->n)
        return gw_fail(entry->error, GW_EUSAGE,
                       "model.layers is empty: a cnn needs at least one layer, "
                       "such as \"conv 32 5\"");
    for (size_t i = 0; i < entries->n; i++) {
        entry->index = i;
        entry->text = entries->item[i];
        enum gw_status status = read_entry(entry, after_dense);
        if (status != GW_OK)
            return status;
        advance(entry);
        after_dense |=
            entry->list->layer[entry->list->n - 1].kind == LAYER_DENSE;
    }
    return finish_cnn(entry, classes);
}

/* The list as numbers, the first as the data asks. */
static enum gw_status read_widths(const struct gw_dataset_shape *shape,
                                  const struct gw_string_list *texts,
                                  struct entry *entry,
                                  size_t *width)
{
    size_t inputs = extent_elems(entry->in), last = texts->n - 1;
    for (size_t i = 0; i <= last; i++) {
        entry->index = i;
        entry->text = texts->item[i];
        if (!read_size(entry->text, 1, ELEMS_MOST, &width[i]))
            return refuse(entry,
                          "an mlp's layers are widths, whole numbers from 1 "
                          "to %zu",
                          ELEMS_MOST);
        if (i == 0 && width[i] != inputs)
            return refuse(entry,
                          "the data has %zu values per sample "
                          "(%zux%zux%zu)",
                          inputs, shape->channels, shape->height, shape->width);
    }
    return GW_OK;
}

static enum gw_status mlp_layers(const struct gw_config *config,
                                 const struct gw_dataset_shape *shape,
                                 struct entry *entry)
{
    const struct gw_string_list *texts = &config->model.layers;
    size_t width[GW_LIST_MAX];
    if (texts->n < 2)
        return gw_fail(entry->error, GW_EUSAGE,
                       "model.layers: an mlp needs at least two widths, its "
                       "input's and its output's, such as [%zu, 512, %zu]",
                       extent_elems(entry->in), shape->classes);
    enum gw_status status = read_widths(shape, texts, entry, width);
    for (size_t i = 1; status == GW_OK && i < texts->n; i++) {
        entry->index = i;
        entry->text = texts->item[i];
        status = add_dense(entry, width[i]);
        if (status != GW_OK)
            return status;
        advance(entry);
        if (i + 1 < texts->n && config->model.dropout > 0)
            add_dropout(entry, config->model.dropout);
    }
    if (status == GW_OK)
        entry->list->layer[entry->list->n - 1].dense.relu = 0;
    return status;
}

enum gw_status gw_model_layers(const struct gw_config *config,
                               const struct gw_dataset_shape *shape,
                               struct layer_list *list,
                               struct gw_error *error)
{
    struct entry entry = {
        .list = list,
        .in = {shape->channels, shape->height, shape->width},
        .error = error,
    };
    if (shape->height > ELEMS_MOST || shape->width > ELEMS_MOST ||
        shape->channels > ELEMS_MOST / (shape->height * shape->width))
        return gw_fail(error, GW_EUSAGE,
                       "model.layers: the data has %zux%zux%zu values per "
                       "sample, at most %zu are possible",
                       shape->channels, shape->height, shape->width,
                       ELEMS_MOST);
    list->n = 0;
    list->added = 0;
    if (config->model.kind == GW_MODEL_MLP)
        return mlp_layers(config, shape, &entry);
    return cnn_layers(config, shape->classes, &entry);
}

size_t gw_model_outputs(const struct layer_list *list)
{
    return list->layer[list->n - 1].dense.out;
}
