#include "config.h"

#include "worker/model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/random.h"
#include "proto/wire.h"
#include "worker/model/model_layers.h"

#define ALIGN 64

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The next aligned piece of the allocation; counts only while base is NULL. */
static void *carve(const struct gw_model *model, size_t *used, size_t bytes)
{
    void *piece = model->memory ? (char *)model->memory + *used : NULL;
    *used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return piece;
}

/*
 * A pool reads this convolution's output, with at most dropout in between. Then
 * nobody needs it after the forward pass, since ReLU commutes with the maximum:
 * backward masks with the pool's output, a quarter as large.
 */
static int is_used_up(const struct layer_list *list, size_t i)
{
    if (list->layer[i].kind != LAYER_CONV)
        return 0;
    for (i++; i < list->n && list->layer[i].kind == LAYER_DROPOUT; i++)
        ;
    return i < list->n && list->layer[i].kind == LAYER_POOL;
}

/* A dense layer is read, as it is, by another one. */
static int is_read_by_dense(const struct layer_list *list, size_t i)
{
    return i + 1 < list->n && list->layer[i].kind == LAYER_DENSE &&
           list->layer[i + 1].kind == LAYER_DENSE;
}

static size_t mask_of(const struct gw_model *model, size_t i)
{
    struct gw_dense_shape dense = model->layers.layer[i].dense;
    dense.n = model->max_batch;
    return is_read_by_dense(&model->layers, i)
               ? model->ops->dense_mask_bytes(&dense)
               : 0;
}

static size_t scratch_of(const struct gw_model *model,
                         const struct layer *layer)
{
    struct gw_conv_shape conv = layer->conv;
    struct gw_dense_shape dense = layer->dense;
    conv.n = dense.n = model->max_batch;
    if (layer->kind == LAYER_CONV)
        return model->ops->conv_scratch_bytes(&conv, model->precision);
    if (layer->kind == LAYER_DENSE)
        return model->ops->dense_scratch_bytes(&dense, model->precision);
    return 0;
}

/* Lays everything out; returns the bytes needed. */
static size_t lay_out(struct gw_model *model)
{
    struct layer_list *list = &model->layers;
    size_t n = model->max_batch, used = 0, most = 0, scratch = 0;
    for (size_t i = 0; i < list->n; i++) {
        most = larger(most, extent_elems(list->layer[i].out));
        if (i > model->first_keyed) /* backward writes its input's gradient */
            most = larger(most, extent_elems(list->layer[i].in));
    }
    for (int i = 0; i < 2; i++)
        model->gradient[i] = carve(model, &used, n * most * sizeof(float));
    for (size_t i = 0; i < list->n; i++) {
        struct layer *layer = &list->layer[i];
        size_t elems = n * extent_elems(layer->out);
        if (is_used_up(list, i))
            layer->y = model->gradient[0];
        else if (layer->kind == LAYER_DROPOUT && i > 0)
            layer->y = list->layer[i - 1].y;
        else
            layer->y = carve(model, &used, elems * sizeof(float));
        if (layer->kind == LAYER_POOL)
            layer->argmax = carve(model, &used, elems);
        scratch = larger(scratch, scratch_of(model, layer));
        size_t mask = mask_of(model, i);
        layer->mask = mask > 0 ? carve(model, &used, mask) : NULL;
    }
    model->loss = carve(model, &used, sizeof *model->loss);
    model->scratch = carve(model, &used, scratch);
    model->scratch_bytes = scratch;
    return used;
}

static void fill_key(struct gw_key *key,
                     const char *name,
                     const char *part,
                     size_t dims,
                     const size_t *shape)
{
    snprintf(key->name, sizeof key->name, "%s.%s", name, part);
    key->dtype = GW_DTYPE_F32;
    key->dims = (uint8_t)dims;
    for (size_t i = 0; i < dims; i++)
        key->shape[i] = shape[i];
}

static void name_keys(struct gw_model *model)
{
    unsigned convs = 0, denses = 0;
    size_t key = 0;
    for (size_t i = 0; i < model->layers.n; i++) {
        struct layer *layer = &model->layers.layer[i];
        char name[32];
        if (!layer_has_keys(layer))
            continue;
        layer->key = key;
        if (layer->kind == LAYER_CONV) {
            const struct gw_conv_shape *s = &layer->conv;
            const size_t shape[] = {s->out, s->in, s->kh, s->kw};
            snprintf(name, sizeof name, "conv%u", ++convs);
            fill_key(&model->keys[key], name, "weight", 4, shape);
        } else {
            const size_t shape[] = {layer->dense.out, layer->dense.in};
            snprintf(name, sizeof name, "fc%u", ++denses);
            fill_key(&model->keys[key], name, "weight", 2, shape);
        }
        fill_key(&model->keys[key + 1], name, "bias", 1, &layer->out.c);
        key += 2;
    }
}

static enum gw_status make_keys(struct gw_model *model, struct gw_error *error)
{
    size_t i = model->layers.n;
    while (i-- > 0) {
        if (!layer_has_keys(&model->layers.layer[i]))
            continue;
        model->n_keys += 2;
        model->first_keyed = i;
    }
    model->keys = calloc(model->n_keys, sizeof *model->keys);
    if (!model->keys)
        return gw_fail(error, GW_ENOMEM, "no memory for %zu keys",
                       model->n_keys);
    name_keys(model);
    return GW_OK;
}

/* Nobody is to compute with labels that have no output. */
static enum gw_status check_outputs(const struct gw_config *config,
                                    const struct layer_list *layers,
                                    const struct gw_dataset_shape *shape,
                                    struct gw_error *error)
{
    const struct gw_string_list *texts = &config->model.layers;
    size_t outputs = gw_model_outputs(layers);
    if (shape->classes <= outputs)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "model.layers[%zu] \"%s\": the model has %zu outputs, the "
                   "data labels up to %zu",
                   texts->n - 1, texts->item[texts->n - 1], outputs,
                   shape->classes - 1);
}

enum gw_status gw_model_check_labels(const struct gw_config *config,
                                     const struct gw_dataset *train,
                                     const struct gw_dataset *data,
                                     struct gw_error *error)
{
    struct layer_list *layers = malloc(sizeof *layers);
    if (!layers)
        return gw_fail(error, GW_ENOMEM, "no memory for a model");
    enum gw_status status =
        gw_model_layers(config, gw_dataset_shape(train), layers, error);
    if (status == GW_OK)
        status = gw_dataset_check_labels(
            data, gw_model_outputs(layers),
            layers->added ? GW_OUTPUTS_ADDED : GW_OUTPUTS_WRITTEN, error);
    free(layers);
    return status;
}

void gw_model_note_outputs(const struct gw_model *model,
                           const struct gw_dataset_shape *shape,
                           char *text,
                           size_t room)
{
    size_t outputs = gw_model_outputs(&model->layers);
    text[0] = '\0';
    if (outputs > shape->classes)
        snprintf(text, room,
                 "model.layers ends in %zu outputs, and data.train has labels "
                 "up to %zu",
                 outputs, shape->classes - 1);
}

enum gw_status gw_model_outline(const struct gw_config *config,
                                const struct gw_dataset_shape *shape,
                                size_t max_batch,
                                const struct gw_backend_ops *backend,
                                struct gw_model **model_p,
                                struct gw_error *error)
{
    struct gw_model *model = calloc(1, sizeof *model);
    if (!model)
        return gw_fail(error, GW_ENOMEM, "no memory for a model");
    model->ops = backend;
    model->max_batch = max_batch;
    model->init = config->model.init;
    model->precision = gw_precision_of(config);
    enum gw_status status =
        gw_model_layers(config, shape, &model->layers, error);
    if (status == GW_OK)
        status = check_outputs(config, &model->layers, shape, error);
    if (status == GW_OK)
        status = make_keys(model, error);
    if (status != GW_OK) {
        gw_model_destroy(model);
        return status;
    }
    model->memory_bytes = lay_out(model);
    *model_p = model;
    return GW_OK;
}

static enum gw_status no_memory(const struct gw_model *model,
                                struct gw_error *error)
{
    uint64_t total, left;
    model->ops->memory(model->device, &total, &left);
    if (total == 0)
        return gw_fail(error, GW_ENOMEM,
                       "no memory for %zu MiB of activations: lower "
                       "train.batch = %zu",
                       model->memory_bytes >> 20, model->max_batch);
    return gw_fail(
        error, GW_ENOMEM,
        "no memory on the device for activations of %zu samples: "
        "%zu MiB are needed, %" PRIu64 " of %" PRIu64 " MiB are free",
        model->max_batch, model->memory_bytes >> 20, left >> 20, total >> 20);
}

enum gw_status gw_model_create(const struct gw_config *config,
                               const struct gw_dataset_shape *shape,
                               size_t max_batch,
                               const struct gw_backend_ops *backend,
                               struct gw_device *device,
                               struct gw_model **model_p,
                               struct gw_error *error)
{
    struct gw_model *model;
    enum gw_status status =
        gw_model_outline(config, shape, max_batch, backend, &model, error);
    if (status != GW_OK)
        return status;
    model->device = device;
    model->memory = backend->alloc(device, model->memory_bytes);
    if (!model->memory) {
        status = no_memory(model, error);
        gw_model_destroy(model);
        return status;
    }
    lay_out(model);
    *model_p = model;
    return GW_OK;
}

void gw_model_destroy(struct gw_model *model)
{
    if (!model)
        return;
    if (model->memory)
        model->ops->free(model->device, model->memory);
    free(model->keys);
    free(model);
}

const struct gw_key *gw_model_keys(const struct gw_model *model, size_t *n_p)
{
    *n_p = model->n_keys;
    return model->keys;
}

size_t gw_model_bytes(const struct gw_model *model)
{
    return model->memory_bytes;
}

size_t gw_model_scratch_bytes(const struct gw_model *model)
{
    return model->scratch_bytes;
}

uint64_t gw_model_layer_flop(const struct layer *layer)
{
    if (!layer_has_keys(layer))
        return 0;
    if (layer->kind == LAYER_DENSE)
        return 2 * (uint64_t)layer->dense.in * layer->dense.out;
    const struct gw_conv_shape *s = &layer->conv;
    return 2 * (uint64_t)extent_elems(layer->out) * s->in * s->kh * s->kw;
}

uint64_t gw_model_flop(const struct gw_model *model)
{
    uint64_t flop = 0;
    for (size_t i = 0; i < model->layers.n; i++) {
        const struct layer *layer = &model->layers.layer[i];
        unsigned products = i == model->first_keyed ? 2 : 3;
        flop += products * gw_model_layer_flop(layer);
    }
    return flop;
}

static void
fill_normal(uint64_t seed, size_t key, double deviation, size_t n, float *to)
{
    for (size_t i = 0; i < n; i += 4) {
        uint32_t u[4];
        float z[4];
        gw_random4(seed, GW_RANDOM_INIT, (uint32_t)key, i / 4, u);
        gw_random_normal2(u[0], u[1], z);
        gw_random_normal2(u[2], u[3], z + 2);
        for (size_t l = 0; l < 4 && i + l < n; l++)
            to[i + l] = (float)(deviation * (double)z[l]);
    }
}

static void
fill_uniform(uint64_t seed, size_t key, double limit, size_t n, float *to)
{
    for (size_t i = 0; i < n; i += 4) {
        uint32_t u[4];
        gw_random4(seed, GW_RANDOM_INIT, (uint32_t)key, i / 4, u);
        for (size_t l = 0; l < 4 && i + l < n; l++) {
            double place = 2 * (double)gw_random_uniform(u[l]) - 1;
            to[i + l] = (float)(limit * place);
        }
    }
}

/*
 * He: normal with variance 2 / fan-in where ReLU follows, 1 / fan-in where it
 * does not (He et al. 2015, arXiv 1502.01852, equations 10 and 7). Glorot:
 * uniform within sqrt(6 / (fan-in + fan-out)) (Glorot and Bengio 2010, equation
 * 16). Biases are zero in both.
 */
static void init_layer(const struct gw_model *model,
                       const struct layer *layer,
                       uint64_t seed,
                       float *const *weights)
{
    int is_conv = layer->kind == LAYER_CONV;
    size_t window = is_conv ? layer->conv.kh * layer->conv.kw : 1;
    size_t in = is_conv ? layer->conv.in * window : layer->dense.in;
    int relu = is_conv ? layer->conv.relu : layer->dense.relu;
    size_t out = layer->out.c, elems = out * in;
    double fan_in = (double)in, fan_out = (double)(out * window);
    float *weight = weights[layer->key];
    if (model->init == GW_INIT_HE)
        fill_normal(seed, layer->key, sqrt((relu ? 2 : 1) / fan_in), elems,
                    weight);
    else
        fill_uniform(seed, layer->key, sqrt(6 / (fan_in + fan_out)), elems,
                     weight);
    memset(weights[layer->key + 1], 0, out * sizeof(float));
}

void gw_model_init(const struct gw_model *model,
                   uint64_t seed,
                   float *const *weights)
{
    for (size_t i = 0; i < model->layers.n; i++)
        if (layer_has_keys(&model->layers.layer[i]))
            init_layer(model, &model->layers.layer[i], seed, weights);
}
