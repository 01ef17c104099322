/*
 * Models: a list of layers over one compute backend. The model owns its
 * activations; weights and gradients live in arenas that the caller brings.
 * Knows no network: hooks are called before a layer is read and after its
 * gradient is written. A model is used by one thread at a time, which calls the
 * hooks.
 */
#ifndef GW_WORKER_MODEL_H
#define GW_WORKER_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "proto/config.h"
#include "proto/map.h"
#include "worker/data/dataset.h"

struct gw_model;

/*
 * Builds the layers of model.* for inputs of `shape`, for up to max_batch
 * samples at a time. ReLU follows every conv and dense layer but the last. The
 * last width of model.layers is the number of classes; only where a cnn's list
 * does not end in a dense layer one is added, for the classes of `shape`.
 * GW_EUSAGE with a line that names the layer where shapes do not fit (input
 * width, labels beyond the outputs, a pool larger than its input), which
 * gw_model_check_labels says better; GW_ENOMEM. The
 * device must outlive the model. Nothing is allocated after this call.
 */
enum gw_status gw_model_create(const struct gw_config *config,
                               const struct gw_dataset_shape *shape,
                               size_t max_batch,
                               const struct gw_backend_ops *backend,
                               struct gw_device *device,
                               struct gw_model **model_p,
                               struct gw_error *error);
/*
 * The same without memory and without a device, for questions: of the model
 * only gw_model_keys, gw_model_bytes, gw_model_scratch_bytes, gw_model_flop and
 * gw_model_destroy are for it.
 */
enum gw_status gw_model_outline(const struct gw_config *config,
                                const struct gw_dataset_shape *shape,
                                size_t max_batch,
                                const struct gw_backend_ops *backend,
                                struct gw_model **model_p,
                                struct gw_error *error);
void gw_model_destroy(struct gw_model *model);

/*
 * GW_OK if the model of this training set has an output for each label of
 * `data`, the training or the test set. GW_EUSAGE with a line that names the
 * first sample without one; errors of gw_model_create.
 */
enum gw_status gw_model_check_labels(const struct gw_config *config,
                                     const struct gw_dataset *train,
                                     const struct gw_dataset *data,
                                     struct gw_error *error);

/* A line for people where the model has outputs for more labels than data of
   this shape has, as it may; else "". */
void gw_model_note_outputs(const struct gw_model *model,
                           const struct gw_dataset_shape *shape,
                           char *text,
                           size_t room);

/* The keys in forward order: "fc1.weight", "fc1.bias", "conv1.weight", ...;
 *n_p of them; owned by the model. */
const struct gw_key *gw_model_keys(const struct gw_model *model, size_t *n_p);

/* Initial values from the seed into host memory, key i at weights[i]. */
void gw_model_init(const struct gw_model *model,
                   uint64_t seed,
                   float *const *weights);

/* Bytes of activations and scratch that the model holds. */
size_t gw_model_bytes(const struct gw_model *model);
/* The scratch among them, for the products of the largest layer. */
size_t gw_model_scratch_bytes(const struct gw_model *model);

/* Arithmetic of forward and backward for one sample, in FLOP: of the products,
   everything else is a few operations per element. */
uint64_t gw_model_flop(const struct gw_model *model);

/*
 * Calls from within forward and backward. Keys come as runs
 * [first, first + n) in the order of gw_model_keys. Any status but GW_OK ends
 * the pass, which returns it. None is NULL.
 */
struct gw_model_hooks {
    void *context;
    /* before the layer that owns these keys is read for the first time */
    enum gw_status (*need)(void *context, size_t first, size_t n);
    /* when the work that makes their gradients is queued on the device, and the
       last work that reads their weights; called in backward only */
    enum gw_status (*ready)(void *context, size_t first, size_t n);
    /* when a layer's forward or backward is queued, in training: its
       arithmetic. All of a pass come to gw_model_flop for each of its samples.
     */
    void (*computed)(void *context, uint64_t flop);
};

struct gw_model_pass {
    const float *x;                    /* [n][c][h][w], device memory */
    const int32_t *labels;             /* [n], device memory */
    size_t n;                          /* 1..max_batch */
    uint64_t seed, step, first_sample; /* of dropout draws */
    float scale;                       /* factor of the loss, in the gradients
                                          only */
    int accumulate; /* add to the gradients instead of writing them */
    int last;       /* call `ready`: no further pass of this step */
};

struct gw_model_result {
    double loss; /* sum over samples */
    uint64_t correct;
};

/* Forward and backward, queued on the device; weights[i] and gradients[i], of
   its memory, belong to key i. hooks may be NULL. */
enum gw_status gw_model_train(struct gw_model *model,
                              const struct gw_model_pass *pass,
                              const float *const *weights,
                              float *const *gradients,
                              const struct gw_model_hooks *hooks);

/* Forward only, dropout off. Of the hooks `need` is called. */
enum gw_status gw_model_score(struct gw_model *model,
                              const struct gw_model_pass *pass,
                              const float *const *weights,
                              const struct gw_model_hooks *hooks);

/* The result of the last pass that returned GW_OK; waits for the device to do
   it. GW_EIO: the device has failed, with a line. */
enum gw_status gw_model_result(struct gw_model *model,
                               struct gw_model_result *result_p,
                               struct gw_error *error);

#endif
