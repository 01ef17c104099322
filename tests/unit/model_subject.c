#include "config.h"

#include "tests/unit/model_subject.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"

const struct model_case model_cases[] = {
    {GW_MODEL_MLP, {1, 1, 6, 6, 4}, {4, {"36", "9", "7", "4"}}},
    {GW_MODEL_MLP, {1, 3, 2, 2, 3}, {2, {"12", "3"}}},
    {GW_MODEL_CNN,
     {1, 2, 9, 9, 4},
     {6,
      {"conv 3 3", "pool 2", "dropout 0.2", "conv 4 2 pad 1 stride 2",
       "dense 6", "dropout 0.5"}}},
    {GW_MODEL_CNN,
     {1, 1, 10, 8, 3},
     {5,
      {"dropout 0.1", "pool 2", "conv 3 3 pad 1", "conv 4 3 pad 2",
       "dense 3"}}},
    {GW_MODEL_CNN,
     {1, 3, 8, 11, 5},
     {4,
      {"conv 5 3 stride 2 pad 1", "dropout 0.3", "pool 3 stride 1",
       "dropout 0.2"}}},
    {GW_MODEL_CNN,
     {1, 1, 8, 8, 3},
     {3, {"conv 3 3", "conv 4 3 pad 1", "pool 2"}}},
};

static const struct gw_backend_ops *ops;
static struct gw_device *device;

int subject_open_device(void **state)
{
    (void)state;
    struct gw_device_options options = {.threads = 1};
    struct gw_error error;
    ops = gw_backend_find("cpu", &error);
    return !ops || ops->open(&options, &device, &error) != GW_OK;
}

int subject_close_device(void **state)
{
    (void)state;
    ops->close(device);
    return 0;
}

static float uniform(uint32_t array, size_t i)
{
    uint32_t u[4];
    gw_random4(5, GW_RANDOM_TEST, array, i / 4, u);
    return 2 * gw_random_uniform(u[i % 4]) - 1;
}

enum gw_status subject_create(const struct model_case *given,
                              struct gw_model **model_p,
                              struct gw_error *error)
{
    static struct gw_config config;
    memset(&config, 0, sizeof config);
    config.model.kind = given->kind;
    config.model.layers = given->layers;
    config.model.dropout = 0.3;
    return gw_model_create(&config, &given->shape, BATCH, ops, device, model_p,
                           error);
}

void subject_open(struct subject *s, const struct model_case *given)
{
    struct gw_error error = {.text = ""};
    *s = (struct subject){.given = given};
    if (subject_create(given, &s->model, &error) != GW_OK)
        fail_msg("%s", error.text);
    s->keys = gw_model_keys(s->model, &s->n_keys);
    assert_in_range(s->n_keys, 1, KEYS_MAX);
    for (size_t k = 0; k < s->n_keys; k++) {
        s->elems[k] = 1;
        for (size_t d = 0; d < s->keys[k].dims; d++)
            s->elems[k] *= s->keys[k].shape[d];
        s->weight[k] = malloc(s->elems[k] * sizeof(float));
        s->gradient[k] = malloc(s->elems[k] * sizeof(float));
        size_t fan_in = s->elems[k] / s->keys[k].shape[0];
        float limit = s->keys[k].dims > 1 ? sqrtf(6 / (float)fan_in) : 0.1f;
        for (size_t i = 0; i < s->elems[k]; i++) {
            s->weight[k][i] = limit * uniform((uint32_t)k, i);
            s->gradient[k][i] = NAN; /* nothing may be read before written */
        }
    }
    s->pixels =
        given->shape.channels * given->shape.height * given->shape.width;
    s->x = malloc(BATCH * s->pixels * sizeof(float));
    for (size_t i = 0; i < BATCH * s->pixels; i++)
        s->x[i] = uniform(100, i);
    for (size_t i = 0; i < BATCH; i++)
        s->labels[i] = (int32_t)(3 * i % given->shape.classes);
}

void subject_close(struct subject *s)
{
    for (size_t k = 0; k < s->n_keys; k++)
        free(s->weight[k]), free(s->gradient[k]);
    free(s->x);
    gw_model_destroy(s->model);
}

struct gw_model_pass subject_pass(const struct subject *s, size_t at, size_t n)
{
    return (struct gw_model_pass){
        .x = s->x + at * s->pixels,
        .labels = s->labels + at,
        .n = n,
        .seed = SEED,
        .step = STEP,
        .first_sample = at,
        .scale = SCALE,
        .accumulate = at > 0,
        .last = at + n == BATCH,
    };
}

const float *const *subject_weights(const struct subject *s)
{
    return (const float *const *)s->weight;
}

struct gw_model_result subject_result(const struct subject *s)
{
    struct gw_model_result result = {.loss = NAN};
    struct gw_error error;
    assert_int_equal(gw_model_result(s->model, &result, &error), GW_OK);
    return result;
}
