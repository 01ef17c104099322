/*
 * Numerical truth from outside: 20 steps of two models under five optimizers as
 * PyTorch trains them (tests/reference/models.py), by two ranks and one server.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/update.h"
#include "proto/random.h"
#include "worker/model/model.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The constants of models.py. */
#define STEPS        20
#define BATCH        24
#define PICKS        12
#define SIDE         28
#define PIXELS       (SIDE * SIDE)
#define SEED_WEIGHTS 31
#define SEED_PATTERN 32
#define SEED_MLP     43 /* of the noise */
#define SEED_CNN     63
#define SEED_LABEL   34
#define SEED_JOB     35

#define KEYS_MAX    8
#define RANKS       2
#define MICRO_BATCH 8

/* Rank 0 takes its samples in two micro-batches. */
static const size_t first_sample[RANKS + 1] = {0, 16, 24};

struct frozen {
    const char *model, *optimizer;
    double lr, momentum, beta2, weight_decay;
    double loss[STEPS];
    struct {
        double largest, norm, pick[PICKS];
    } key[KEYS_MAX];
};

static const struct frozen frozen[] = {
#include "tests/reference/models.inc"
};

static const struct gw_dataset_shape shape = {BATCH, 1, SIDE, SIDE, 10};

struct key {
    size_t elems, fan_in; /* fan_in = 0: a bias */
    float *weight, *gradient[RANKS], *state[GW_STATE_MAX];
};

struct job {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    struct gw_model *model;
    size_t keys;
    struct key key[KEYS_MAX];
    float x[BATCH * PIXELS];
    int32_t labels[BATCH];
};

static struct job job;

static float draw(uint64_t seed, uint32_t array, uint64_t i)
{
    uint32_t u[4];
    gw_random4(seed, GW_RANDOM_TEST, array, i / 4, u);
    return gw_random_uniform(u[i % 4]);
}

static void make_batch(const struct frozen *f, uint64_t step)
{
    uint64_t seed = strcmp(f->model, "mlp") == 0 ? SEED_MLP : SEED_CNN;
    for (uint32_t s = 0; s < BATCH; s++) {
        uint32_t sample = (uint32_t)step * BATCH + s, u[4];
        gw_random4(SEED_LABEL, GW_RANDOM_TEST, 0, sample, u);
        uint32_t label = u[0] % 10;
        job.labels[s] = (int32_t)label;
        for (size_t i = 0; i < PIXELS; i++) {
            size_t square = i / SIDE / 4 * 7 + i % SIDE / 4;
            double pattern = (double)draw(SEED_PATTERN, label, square);
            double noise = (double)draw(seed, sample, i);
            job.x[s * PIXELS + i] = (float)(2 * pattern + noise - 1.5);
        }
    }
}

static void init_weights(void)
{
    for (size_t k = 0; k < job.keys; k++) {
        struct key *key = &job.key[k];
        if (key->fan_in == 0)
            continue;
        double limit = exp2(floor(log2(sqrt(6.0 / (double)key->fan_in))));
        for (size_t i = 0; i < key->elems; i++) {
            double u = (double)draw(SEED_WEIGHTS, (uint32_t)k, i);
            key->weight[i] = (float)((2 * u - 1) * limit);
        }
    }
}

static float *zeros(size_t elems)
{
    return job.ops->alloc(job.device, elems * sizeof(float));
}

static void open_job(const struct frozen *f)
{
    static struct gw_config config;
    const struct gw_string_list mlp = {4, {"784", "48", "24", "10"}};
    const struct gw_string_list cnn = {
        7,
        {"conv 6 7 stride 3", "pool 2", "dropout 0.1", "conv 12 3 pad 1",
         "pool 2 stride 1", "dense 32", "dropout 0.1"}};
    int is_mlp = strcmp(f->model, "mlp") == 0;
    struct gw_device_options options = {.threads = 1};
    struct gw_error error = {.text = ""};
    memset(&config, 0, sizeof config);
    config.model.kind = is_mlp ? GW_MODEL_MLP : GW_MODEL_CNN;
    config.model.layers = is_mlp ? mlp : cnn;
    config.model.dropout = 0.2;
    job.ops = gw_backend_find("cpu", &error);
    assert_non_null(job.ops);
    assert_int_equal(job.ops->open(&options, &job.device, &error), GW_OK);
    if (gw_model_create(&config, &shape, MICRO_BATCH, job.ops, job.device,
                        &job.model, &error) != GW_OK)
        fail_msg("%s", error.text);
    const struct gw_key *keys = gw_model_keys(job.model, &job.keys);
    assert_true(job.keys <= KEYS_MAX);
    for (size_t k = 0; k < job.keys; k++) {
        struct key *key = &job.key[k];
        *key = (struct key){.elems = 1};
        for (size_t d = 0; d < keys[k].dims; d++)
            key->elems *= keys[k].shape[d];
        if (keys[k].dims > 1)
            key->fan_in = key->elems / keys[k].shape[0];
        key->weight = zeros(key->elems);
        for (size_t r = 0; r < RANKS; r++)
            key->gradient[r] = zeros(key->elems);
        for (size_t i = 0; i < GW_STATE_MAX; i++)
            key->state[i] = zeros(key->elems);
    }
    init_weights();
}

static void close_job(void)
{
    for (size_t k = 0; k < job.keys; k++) {
        job.ops->free(job.device, job.key[k].weight);
        for (size_t r = 0; r < RANKS; r++)
            job.ops->free(job.device, job.key[k].gradient[r]);
        for (size_t i = 0; i < GW_STATE_MAX; i++)
            job.ops->free(job.device, job.key[k].state[i]);
    }
    gw_model_destroy(job.model);
    job.ops->close(job.device);
}

/* What a worker does in one clock; the sum of its samples' losses. */
static double worker_step(uint64_t step, size_t rank)
{
    const float *weights[KEYS_MAX];
    float *gradients[KEYS_MAX];
    double loss = 0;
    for (size_t k = 0; k < job.keys; k++) {
        weights[k] = job.key[k].weight;
        gradients[k] = job.key[k].gradient[rank];
    }
    size_t first = first_sample[rank], end = first_sample[rank + 1];
    for (size_t at = first; at < end; at += MICRO_BATCH) {
        struct gw_model_pass pass = {
            .x = job.x + at * PIXELS,
            .labels = job.labels + at,
            .n = MICRO_BATCH,
            .seed = SEED_JOB,
            .step = step,
            .first_sample = at,
            .scale = 1,
            .accumulate = at > first,
            .last = at + MICRO_BATCH == end,
        };
        struct gw_model_result result;
        struct gw_error error;
        assert_int_equal(
            gw_model_train(job.model, &pass, weights, gradients, NULL), GW_OK);
        assert_int_equal(gw_model_result(job.model, &result, &error), GW_OK);
        loss += result.loss;
    }
    return loss;
}

/* What a server does when all pushes are there. */
static void server_step(const struct frozen *f, uint64_t step)
{
    const struct gw_optimizer *optimizer = gw_optimizer_find(f->optimizer);
    struct gw_update update = {
        .scale = 1.0f / BATCH,
        .lr = f->lr,
        .momentum = f->momentum,
        .beta1 = 0.9,
        .beta2 = f->beta2,
        .eps = 1e-8,
        .weight_decay = f->weight_decay,
        .t = step + 1,
    };
    gw_update_prepare(&update);
    for (size_t k = 0; k < job.keys; k++) {
        struct key *key = &job.key[k];
        const float *const slots[RANKS] = {key->gradient[0], key->gradient[1]};
        assert_true(gw_update_reduce_apply(optimizer, &update, slots, RANKS, 0,
                                           key->elems, key->weight, key->weight,
                                           key->state));
    }
}

/* The largest deviation from the frozen weights, in parts of the key's largest
   weight. */
static double weight_error(const struct frozen *f)
{
    double worst = 0;
    for (size_t k = 0; k < job.keys; k++) {
        const struct key *key = &job.key[k];
        double largest = 0, squares = 0;
        for (size_t i = 0; i < key->elems; i++) {
            largest = fmax(largest, fabs((double)key->weight[i]));
            squares += (double)key->weight[i] * (double)key->weight[i];
        }
        for (size_t p = 0; p < PICKS; p++) {
            double w = (double)key->weight[p * key->elems / PICKS];
            double error = fabs(w - f->key[k].pick[p]);
            worst = fmax(worst, error / f->key[k].largest);
        }
        double of_largest = fabs(largest - f->key[k].largest);
        double of_norm = fabs(sqrt(squares) - f->key[k].norm);
        worst = fmax(worst, of_largest / f->key[k].largest);
        worst = fmax(worst, of_norm / f->key[k].norm);
    }
    return worst;
}

static void models_train_as_in_pytorch(void **state)
{
    const struct frozen *f = *state;
    double loss_error = 0;
    int is_adam = strncmp(f->optimizer, "adam", 4) == 0;
    open_job(f);
    for (uint64_t step = 0; step < STEPS; step++) {
        double loss = 0;
        make_batch(f, step);
        for (size_t r = 0; r < RANKS; r++)
            loss += worker_step(step, r);
        server_step(f, step);
        double error = fabs(loss / BATCH - f->loss[step]) / f->loss[step];
        loss_error = fmax(loss_error, error);
    }
    double error = weight_error(f);
    close_job();
    print_message("# %s %s: loss off by %.1e, weights by %.1e\n", f->model,
                  f->optimizer, loss_error, error);
    assert_true(loss_error <= 1e-5);
    assert_true(error <= (is_adam ? 1e-4 : 1e-5));
}

int main(void)
{
    struct CMUnitTest tests[COUNT(frozen)];
    static char names[COUNT(frozen)][64];
    for (size_t i = 0; i < COUNT(frozen); i++) {
        snprintf(names[i], sizeof names[i], "%s under %s as in PyTorch",
                 frozen[i].model, frozen[i].optimizer);
        tests[i] = (struct CMUnitTest){
            .name = names[i],
            .test_func = models_train_as_in_pytorch,
            .initial_state = (void *)(uintptr_t)&frozen[i],
        };
    }
    return _cmocka_run_group_tests("model_reference", tests, COUNT(tests), NULL,
                                   NULL);
}
