#include "config.h"

#include "worker/model/model.h"

#include <assert.h>

#include "worker/model/model_layers.h"

/* The state that forward and backward share. */
struct pass {
    struct gw_model *model;
    const struct gw_model_pass *given;
    const float *const *weights;
    float *const *gradients;
    const struct gw_model_hooks *hooks;
};

static struct gw_dropout_site site_of(const struct pass *pass, size_t i)
{
    return (struct gw_dropout_site){
        .seed = pass->given->seed,
        .step = pass->given->step,
        .layer = (uint32_t)i,
        .first_sample = pass->given->first_sample,
        .p = pass->model->layers.layer[i].dropout,
    };
}

/* The input of layer i. */
static const float *input_of(const struct pass *pass, size_t i)
{
    return i ? pass->model->layers.layer[i - 1].y : pass->given->x;
}

static void drop(const struct pass *pass, size_t i, const float *x, float *y)
{
    struct gw_dropout_site site = site_of(pass, i);
    size_t elems = extent_elems(pass->model->layers.layer[i].in);
    pass->model->ops->dropout(pass->model->device, &site, pass->given->n, elems,
                              x, y);
}

static void
forward_layer(const struct pass *pass, size_t i, const float *x, int training)
{
    const struct gw_model *model = pass->model;
    const struct layer *layer = &model->layers.layer[i];
    const float *const *w = pass->weights + layer->key;
    size_t n = pass->given->n;
    switch (layer->kind) {
    case LAYER_DENSE: {
        struct gw_dense_shape shape = layer->dense;
        shape.n = n;
        model->ops->dense_forward(model->device, &shape, x, w[0], w[1],
                                  layer->y, training ? layer->mask : NULL,
                                  model->scratch);
        break;
    }
    case LAYER_CONV: {
        struct gw_conv_shape shape = layer->conv;
        shape.n = n;
        model->ops->conv_forward(model->device, &shape, x, w[0], w[1], layer->y,
                                 model->scratch);
        break;
    }
    case LAYER_POOL: {
        struct gw_pool_shape shape = layer->pool;
        shape.n = n;
        model->ops->pool_forward(model->device, &shape, x, layer->y,
                                 layer->argmax);
        break;
    }
    case LAYER_DROPOUT:
        if (training)
            drop(pass, i, x, layer->y);
        break;
    }
}

/* So many products of a layer are done. */
static void tell_computed(const struct pass *pass, size_t i, unsigned products)
{
    const struct layer *layer = &pass->model->layers.layer[i];
    uint64_t flop = products * pass->given->n * gw_model_layer_flop(layer);
    if (pass->hooks && flop > 0)
        pass->hooks->computed(pass->hooks->context, flop);
}

/* Up to the logits, which are the last layer's y. */
static enum gw_status forward(const struct pass *pass, int training)
{
    const struct layer_list *list = &pass->model->layers;
    const struct gw_model_hooks *hooks = pass->hooks;
    const float *x = pass->given->x;
    for (size_t i = 0; i < list->n; i++) {
        const struct layer *layer = &list->layer[i];
        if (hooks && layer_has_keys(layer)) {
            enum gw_status status = hooks->need(hooks->context, layer->key, 2);
            if (status != GW_OK)
                return status;
        }
        forward_layer(pass, i, x, training);
        if (training)
            tell_computed(pass, i, 1);
        if (training || layer->kind != LAYER_DROPOUT)
            x = layer->y;
    }
    return GW_OK;
}

/*
 * Gradients of one layer's keys; dx, unless NULL, gets the gradient of its
 * input before the ReLU that it came from. Layers between the two keep the sign
 * (a pool, dropout), so the input itself is the mask.
 */
static void
backward_keyed(const struct pass *pass, size_t i, const float *dy, float *dx)
{
    const struct gw_model *model = pass->model;
    const struct layer *layer = &model->layers.layer[i];
    const float *x = input_of(pass, i), *w = pass->weights[layer->key];
    const void *mask = i > 0 ? model->layers.layer[i - 1].mask : NULL;
    float *dw = pass->gradients[layer->key];
    float *db = pass->gradients[layer->key + 1];
    float beta = pass->given->accumulate ? 1 : 0;
    size_t n = pass->given->n;
    if (layer->kind == LAYER_DENSE) {
        struct gw_dense_shape shape = layer->dense;
        shape.n = n;
        shape.masks = 1;
        model->ops->dense_backward(model->device, &shape, x, mask, w, dy, beta,
                                   dx, dw, db, model->scratch);
    } else {
        struct gw_conv_shape shape = layer->conv;
        shape.n = n;
        shape.masks = 1;
        model->ops->conv_backward(model->device, &shape, x, w, dy, beta, dx, dw,
                                  db, model->scratch);
    }
}

/* From the gradient of the logits down to the lowest layer with keys. */
static enum gw_status backward(const struct pass *pass)
{
    const struct gw_model *model = pass->model;
    const struct gw_model_hooks *hooks = pass->hooks;
    float *dy = model->layers.layer[model->layers.n - 1].y;
    for (size_t i = model->layers.n; i-- > model->first_keyed;) {
        const struct layer *layer = &model->layers.layer[i];
        float *dx = model->gradient[dy == model->gradient[0]];
        if (layer->kind == LAYER_DROPOUT) {
            drop(pass, i, dy, dy);
            continue;
        }
        if (layer->kind == LAYER_POOL) {
            struct gw_pool_shape shape = layer->pool;
            shape.n = pass->given->n;
            model->ops->pool_backward(model->device, &shape, dy, layer->argmax,
                                      dx);
            dy = dx;
            continue;
        }
        int lowest = i == model->first_keyed;
        backward_keyed(pass, i, dy, lowest ? NULL : dx);
        tell_computed(pass, i, lowest ? 1 : 2);
        dy = dx;
        if (!hooks || !pass->given->last)
            continue;
        enum gw_status status = hooks->ready(hooks->context, layer->key, 2);
        if (status != GW_OK)
            return status;
    }
    return GW_OK;
}

static void score_logits(const struct pass *pass, float *dlogits)
{
    const struct gw_model *model = pass->model;
    const struct layer *last = &model->layers.layer[model->layers.n - 1];
    model->ops->softmax_loss(model->device, pass->given->n, last->out.c,
                             last->y, pass->given->labels, pass->given->scale,
                             dlogits, model->loss);
}

enum gw_status gw_model_train(struct gw_model *model,
                              const struct gw_model_pass *pass,
                              const float *const *weights,
                              float *const *gradients,
                              const struct gw_model_hooks *hooks)
{
    assert(pass->n >= 1 && pass->n <= model->max_batch);
    const struct pass all = {model, pass, weights, gradients, hooks};
    enum gw_status status = forward(&all, 1);
    if (status != GW_OK)
        return status;
    score_logits(&all, model->layers.layer[model->layers.n - 1].y);
    return backward(&all);
}

enum gw_status gw_model_score(struct gw_model *model,
                              const struct gw_model_pass *pass,
                              const float *const *weights,
                              const struct gw_model_hooks *hooks)
{
    assert(pass->n >= 1 && pass->n <= model->max_batch);
    const struct pass all = {model, pass, weights, NULL, hooks};
    enum gw_status status = forward(&all, 0);
    if (status == GW_OK)
        score_logits(&all, NULL);
    return status;
}

enum gw_status gw_model_result(struct gw_model *model,
                               struct gw_model_result *result_p,
                               struct gw_error *error)
{
    struct gw_loss loss = {0};
    model->ops->download(model->device, &loss, model->loss, sizeof loss);
    enum gw_status status = model->ops->sync(model->device, error);
    if (status == GW_OK)
        *result_p =
            (struct gw_model_result){.loss = loss.sum, .correct = loss.correct};
    return status;
}
