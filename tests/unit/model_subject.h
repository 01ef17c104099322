/*
 * A model to try things on: of each kind of layers, with its arenas and a batch
 * of its own.
 */
#ifndef GW_TESTS_MODEL_SUBJECT_H
#define GW_TESTS_MODEL_SUBJECT_H

#include "worker/model/model_layers.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define KEYS_MAX     16
#define BATCH        5
#define SEED         ((uint64_t)1 << 40 | 3)
#define STEP         9
#define SCALE        4.0f

struct model_case {
    enum gw_model_kind kind;
    struct gw_dataset_shape shape;
    struct gw_string_list layers;
};

/* Together: every kind of layer first, last, and after every other that it may
   follow; strides, padding, edges that a window does not reach. */
extern const struct model_case model_cases[6];

struct subject {
    const struct model_case *given;
    struct gw_model *model;
    const struct gw_key *keys;
    size_t n_keys, elems[KEYS_MAX], pixels;
    float *weight[KEYS_MAX], *gradient[KEYS_MAX];
    float *x;
    int32_t labels[BATCH];
};

/* The device that the models are on; for a group's set-up and tear-down. */
int subject_open_device(void **state);
int subject_close_device(void **state);

/* The model alone. */
enum gw_status subject_create(const struct model_case *given,
                              struct gw_model **model_p,
                              struct gw_error *error);

/* Weights are drawn, gradients are NAN. Fails the test on any error. */
void subject_open(struct subject *s, const struct model_case *given);
void subject_close(struct subject *s);

/* n samples of the batch from `at` on, at seed SEED and step STEP. */
struct gw_model_pass subject_pass(const struct subject *s, size_t at, size_t n);

const float *const *subject_weights(const struct subject *s);

/* Of the last pass. */
struct gw_model_result subject_result(const struct subject *s);

#endif
