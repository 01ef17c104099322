/*
 * Private to worker/model/model*: the layers of a model, and how model.*
 * becomes them.
 */
#ifndef GW_WORKER_MODEL_LAYERS_H
#define GW_WORKER_MODEL_LAYERS_H

#include "worker/model/model.h"

enum layer_kind {
    LAYER_DENSE,
    LAYER_CONV,
    LAYER_POOL,
    LAYER_DROPOUT
};

/* [c][h][w] of one sample; a dense layer's output is [c][1][1]. */
struct layer_extent {
    size_t c, h, w;
};

struct layer {
    enum layer_kind kind;
    struct layer_extent in, out;
    /* the shape for its kind; n is set for each pass */
    struct gw_dense_shape dense;
    struct gw_conv_shape conv;
    struct gw_pool_shape pool;
    float dropout;
    size_t key; /* its weight's, the bias is the next; dense and conv only */

    /* views into the model's one allocation */
    float *y;        /* [max_batch][out]; a dropout's is its input's */
    uint8_t *argmax; /* [max_batch][out], pool only */
    void *mask; /* the mask of ReLU, as the device keeps it for the next layer;
                   dense only, NULL: none */
};

/* As many as a list can name, and the output layer that is added. */
#define LAYERS_MAX (2 * GW_LIST_MAX + 1)

struct layer_list {
    size_t n;
    int added; /* the last is not in model.layers */
    struct layer layer[LAYERS_MAX];
};

/*
 * Fills the layers of model.* for inputs of `shape`, without keys and views.
 * GW_EUSAGE with a line that names the layer.
 */
enum gw_status gw_model_layers(const struct gw_config *config,
                               const struct gw_dataset_shape *shape,
                               struct layer_list *list,
                               struct gw_error *error);

static inline int layer_has_keys(const struct layer *layer)
{
    return layer->kind == LAYER_DENSE || layer->kind == LAYER_CONV;
}

static inline size_t extent_elems(struct layer_extent extent)
{
    return extent.c * extent.h * extent.w;
}

/* How wide the output layer is, the last one of a whole list. */
size_t gw_model_outputs(const struct layer_list *list);

/* For a sample: of its forward pass, and of each gradient in backward. */
uint64_t gw_model_layer_flop(const struct layer *layer);

struct gw_model {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    size_t max_batch;
    enum gw_init init;
    enum gw_precision precision;
    struct layer_list layers;
    size_t first_keyed; /* the first layer with keys: no gradient below it */
    size_t n_keys;
    struct gw_key *keys;

    void *memory; /* everything below, one allocation of the device */
    size_t memory_bytes;
    float *gradient[2]; /* gradients of the outputs of two neighbouring layers;
                           the first also holds the input of a pool that
                           follows, which uses it up */
    struct gw_loss *loss; /* of the last pass */
    void *scratch;        /* of products */
    size_t scratch_bytes;
};

#endif
