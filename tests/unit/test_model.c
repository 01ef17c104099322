/*
 * worker/model: losses and gradients against differences of a model in double,
 * when hooks are called, keys, initial values.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "worker/model_layers.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define KEYS_MAX     16
#define BATCH        5
#define LONGEST      4096 /* of one sample in one layer */
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
static const struct model_case model_cases[] = {
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

static int open_device(void **state)
{
    (void)state;
    struct gw_device_options options = {.threads = 1};
    struct gw_error error;
    ops = gw_backend_find("cpu", &error);
    return !ops || ops->open(&options, &device, &error) != GW_OK;
}

static int close_device(void **state)
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

/* A model with its arenas and a batch. */
struct subject {
    const struct model_case *given;
    struct gw_model *model;
    const struct gw_key *keys;
    size_t n_keys, elems[KEYS_MAX], pixels;
    float *weight[KEYS_MAX], *gradient[KEYS_MAX];
    float *x;
    int32_t labels[BATCH];
};

static enum gw_status create(const struct model_case *given,
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

static void open_subject(struct subject *s, const struct model_case *given)
{
    struct gw_error error = {.text = ""};
    *s = (struct subject){.given = given};
    if (create(given, &s->model, &error) != GW_OK)
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

static void close_subject(struct subject *s)
{
    for (size_t k = 0; k < s->n_keys; k++)
        free(s->weight[k]), free(s->gradient[k]);
    free(s->x);
    gw_model_destroy(s->model);
}

static struct gw_model_pass
pass_of(const struct subject *s, size_t at, size_t n)
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

static const float *const *weights_of(const struct subject *s)
{
    return (const float *const *)s->weight;
}

/* ---- the model in double, one sample at a time ---- */

static void slow_dense(const struct gw_dense_shape *s,
                       const double *x,
                       const double *w,
                       const double *b,
                       double *y)
{
    for (size_t o = 0; o < s->out; o++) {
        y[o] = b[o];
        for (size_t i = 0; i < s->in; i++)
            y[o] += w[o * s->in + i] * x[i];
        if (s->relu)
            y[o] = fmax(y[o], 0);
    }
}

static double slow_window(const struct gw_conv_shape *s,
                          const double *x,
                          const double *k,
                          size_t oy,
                          size_t ox)
{
    double sum = 0;
    for (size_t i = 0; i < s->in * s->kh * s->kw; i++) {
        size_t c = i / s->kw / s->kh;
        size_t y = oy * s->stride + i / s->kw % s->kh - s->pad;
        size_t column = ox * s->stride + i % s->kw - s->pad;
        if (y < s->h && column < s->w) /* below 0 wraps around */
            sum += k[i] * x[(c * s->h + y) * s->w + column];
    }
    return sum;
}

static void slow_conv(const struct gw_conv_shape *s,
                      struct layer_extent out,
                      const double *x,
                      const double *k,
                      const double *b,
                      double *y)
{
    for (size_t i = 0; i < extent_elems(out); i++) {
        size_t c = i / out.w / out.h;
        double sum = b[c] + slow_window(s, x, k + c * s->in * s->kh * s->kw,
                                        i / out.w % out.h, i % out.w);
        y[i] = s->relu ? fmax(sum, 0) : sum;
    }
}

static void slow_pool(const struct gw_pool_shape *s,
                      struct layer_extent out,
                      const double *x,
                      double *y)
{
    for (size_t i = 0; i < extent_elems(out); i++) {
        size_t c = i / out.w / out.h, oy = i / out.w % out.h, ox = i % out.w;
        y[i] = -INFINITY;
        for (size_t at = 0; at < s->size * s->size; at++)
            y[i] =
                fmax(y[i], x[(c * s->h + oy * s->stride + at / s->size) * s->w +
                             ox * s->stride + at % s->size]);
    }
}

static void slow_dropout(const struct layer *layer,
                         size_t place,
                         size_t sample,
                         const double *x,
                         double *y)
{
    double keep = (double)(1 / (1 - layer->dropout));
    for (size_t i = 0; i < extent_elems(layer->in); i++) {
        uint32_t u[4];
        gw_random4(SEED, GW_RANDOM_DROPOUT, STEP << 8 | (uint32_t)place,
                   (uint64_t)sample << 32 | i / 4, u);
        y[i] = gw_random_uniform(u[i % 4]) >= layer->dropout ? keep * x[i] : 0;
    }
}

static double slow_loss(const struct subject *s,
                        double *const *w,
                        size_t sample,
                        int training)
{
    double x[LONGEST], y[LONGEST];
    const struct layer_list *list = &s->model->layers;
    for (size_t i = 0; i < s->pixels; i++)
        x[i] = (double)s->x[sample * s->pixels + i];
    for (size_t i = 0; i < list->n; i++) {
        const struct layer *layer = &list->layer[i];
        assert_true(extent_elems(layer->out) <= LONGEST);
        if (layer->kind == LAYER_DROPOUT && !training)
            continue;
        if (layer->kind == LAYER_DENSE)
            slow_dense(&layer->dense, x, w[layer->key], w[layer->key + 1], y);
        else if (layer->kind == LAYER_CONV)
            slow_conv(&layer->conv, layer->out, x, w[layer->key],
                      w[layer->key + 1], y);
        else if (layer->kind == LAYER_POOL)
            slow_pool(&layer->pool, layer->out, x, y);
        else
            slow_dropout(layer, i, sample, x, y);
        memcpy(x, y, extent_elems(layer->out) * sizeof *x);
    }
    double sum = 0;
    for (size_t c = 0; c < s->given->shape.classes; c++)
        sum += exp(x[c]);
    return log(sum) - x[s->labels[sample]];
}

static double slow_losses(const struct subject *s, double *const *w, int train)
{
    double sum = 0;
    for (size_t i = 0; i < BATCH; i++)
        sum += slow_loss(s, w, i, train);
    return sum;
}

/* The weights in double; to be freed one by one. */
static void copy_weights(const struct subject *s, double **w)
{
    for (size_t k = 0; k < s->n_keys; k++) {
        w[k] = malloc(s->elems[k] * sizeof **w);
        for (size_t i = 0; i < s->elems[k]; i++)
            w[k][i] = (double)s->weight[k][i];
    }
}

static void
assert_differences(const struct subject *s, double *const *w, size_t key)
{
    const double h = 1e-6;
    double largest = 0, worst = 0;
    for (size_t i = 0; i < s->elems[key]; i++) {
        double kept = w[key][i];
        w[key][i] = kept + h;
        double above = slow_losses(s, w, 1);
        w[key][i] = kept - h;
        double below = slow_losses(s, w, 1);
        w[key][i] = kept;
        double slope = (double)SCALE * (above - below) / (2 * h);
        double error = fabs((double)s->gradient[key][i] - slope);
        largest = fmax(largest, fabs(slope));
        worst = isnan(error) ? INFINITY : fmax(worst, error);
    }
    if (!(largest > 0))
        fail_msg("%s has no gradient", s->keys[key].name);
    if (!(worst <= 1e-5 * largest))
        fail_msg("%s is off by %g of %g", s->keys[key].name, worst, largest);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(model_cases); c++) {
        struct subject s;
        struct gw_model_result result;
        double *w[KEYS_MAX], loss = 0;
        open_subject(&s, &model_cases[c]);
        copy_weights(&s, w);
        for (size_t at = 0; at < BATCH; at += 3) { /* micro-batches of 3, 2 */
            struct gw_model_pass pass =
                pass_of(&s, at, BATCH - at < 3 ? BATCH - at : 3);
            assert_int_equal(gw_model_train(s.model, &pass, weights_of(&s),
                                            s.gradient, NULL, &result),
                             GW_OK);
            loss += result.loss;
        }
        assert_true(fabs(loss / slow_losses(&s, w, 1) - 1) < 1e-6);
        for (size_t k = 0; k < s.n_keys; k++)
            assert_differences(&s, w, k);

        struct gw_model_pass pass = pass_of(&s, 0, BATCH);
        assert_int_equal(
            gw_model_score(s.model, &pass, weights_of(&s), NULL, &result),
            GW_OK);
        assert_true(fabs(result.loss / slow_losses(&s, w, 0) - 1) < 1e-6);
        for (size_t k = 0; k < s.n_keys; k++)
            free(w[k]);
        close_subject(&s);
    }
}

/* ---- hooks ---- */

/* Weights come only when they are needed, and are spoilt with the gradient when
   they are said to be ready. */
struct watch {
    struct subject s;
    float *weight[KEYS_MAX], *gradient[KEYS_MAX];
    size_t needed, ready, fail_at; /* calls */
    size_t last_ready;
    uint64_t flop[KEYS_MAX]; /* of each layer, forward and backward */
    size_t computed;
};

static enum gw_status on_need(void *context, size_t first, size_t n)
{
    struct watch *watch = context;
    assert_int_equal(first, 2 * watch->needed);
    assert_int_equal(watch->computed, watch->needed);
    assert_int_equal(n, 2);
    for (size_t k = first; k < first + n; k++)
        memcpy(watch->weight[k], watch->s.weight[k],
               watch->s.elems[k] * sizeof(float));
    return watch->needed++ == watch->fail_at ? GW_ECLOSED : GW_OK;
}

static enum gw_status on_ready(void *context, size_t first, size_t n)
{
    struct watch *watch = context;
    assert_int_equal(first + n, watch->last_ready);
    assert_int_equal(n, 2);
    assert_int_equal(watch->computed, watch->needed + watch->ready + 1);
    watch->last_ready = first;
    for (size_t k = first; k < first + n; k++)
        for (size_t i = 0; i < watch->s.elems[k]; i++) {
            watch->s.gradient[k][i] = watch->gradient[k][i];
            watch->gradient[k][i] = 17;
            watch->weight[k][i] = NAN;
        }
    size_t calls = watch->needed + watch->ready++;
    return calls == watch->fail_at ? GW_ECLOSED : GW_OK;
}

static enum gw_status on_need_anyway(void *context, size_t first, size_t n)
{
    (void)context;
    (void)first;
    (void)n;
    return GW_OK;
}

static void on_computed(void *context, uint64_t flop)
{
    struct watch *watch = context;
    assert_true(watch->computed < watch->s.n_keys);
    watch->flop[watch->computed++] = flop;
}

static void open_watch(struct watch *watch, const struct model_case *given)
{
    open_subject(&watch->s, given);
    watch->fail_at = SIZE_MAX;
    watch->needed = watch->ready = watch->computed = 0;
    watch->last_ready = watch->s.n_keys;
    for (size_t k = 0; k < watch->s.n_keys; k++) {
        size_t elems = watch->s.elems[k];
        watch->weight[k] = malloc(elems * sizeof(float));
        watch->gradient[k] = malloc(elems * sizeof(float));
        for (size_t i = 0; i < elems; i++)
            watch->weight[k][i] = NAN;
    }
}

static void close_watch(struct watch *watch)
{
    for (size_t k = 0; k < watch->s.n_keys; k++)
        free(watch->weight[k]), free(watch->gradient[k]);
    close_subject(&watch->s);
}

static enum gw_status watched_pass(struct watch *watch, int last)
{
    const struct gw_model_hooks hooks = {watch, on_need, on_ready, on_computed};
    struct gw_model_pass pass = pass_of(&watch->s, 0, BATCH);
    struct gw_model_result result = {.loss = -1};
    pass.last = last;
    enum gw_status status = gw_model_train(watch->s.model, &pass,
                                           (const float *const *)watch->weight,
                                           watch->gradient, &hooks, &result);
    assert_true(status == GW_OK ? result.loss > 0 : result.loss < 0);
    return status;
}

static void hooks_come_when_all_is_done(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(model_cases); c++) {
        struct watch watch;
        struct gw_model_result result;
        open_watch(&watch, &model_cases[c]);
        struct subject *s = &watch.s;
        assert_int_equal(watched_pass(&watch, 1), GW_OK);
        assert_int_equal(2 * watch.needed, s->n_keys);
        assert_int_equal(watch.last_ready, 0);

        float *plain[KEYS_MAX];
        for (size_t k = 0; k < s->n_keys; k++)
            plain[k] = malloc(s->elems[k] * sizeof(float));
        struct gw_model_pass pass = pass_of(s, 0, BATCH);
        assert_int_equal(gw_model_train(s->model, &pass, weights_of(s), plain,
                                        NULL, &result),
                         GW_OK);
        for (size_t k = 0; k < s->n_keys; k++) {
            assert_memory_equal(s->gradient[k], plain[k],
                                s->elems[k] * sizeof(float));
            for (size_t i = 0; i < s->elems[k]; i++)
                assert_true(watch.gradient[k][i] == 17);
            free(plain[k]);
        }
        close_watch(&watch);
    }
}

/* Forward a third of a layer's arithmetic, but for the lowest: there it is a
   half. Nothing of it is told where the test set is scored. */
static void layers_tell_what_they_have_computed(void **state)
{
    static const uint64_t mlp[] = {36 * 9,    9 * 7,     7 * 4,
                                   2 * 7 * 4, 2 * 9 * 7, 36 * 9};
    (void)state;
    for (size_t c = 0; c < COUNT(model_cases); c++) {
        struct watch watch;
        uint64_t sum = 0;
        open_watch(&watch, &model_cases[c]);
        assert_int_equal(watched_pass(&watch, c > 0), GW_OK);
        assert_int_equal(watch.computed, watch.s.n_keys);
        for (size_t i = 0; i < watch.computed; i++)
            sum += watch.flop[i];
        assert_int_equal(sum, gw_model_flop(watch.s.model) * BATCH);
        for (size_t i = 0; c == 0 && i < COUNT(mlp); i++)
            assert_int_equal(watch.flop[i], 2 * mlp[i] * BATCH);

        const struct gw_model_hooks hooks = {&watch, on_need_anyway, on_ready,
                                             on_computed};
        struct gw_model_pass pass = pass_of(&watch.s, 0, BATCH);
        struct gw_model_result result;
        assert_int_equal(gw_model_score(watch.s.model, &pass,
                                        weights_of(&watch.s), &hooks, &result),
                         GW_OK);
        assert_int_equal(watch.computed, watch.s.n_keys);
        close_watch(&watch);
    }
}

static void no_gradient_is_ready_before_the_last_micro_batch(void **state)
{
    (void)state;
    struct watch watch;
    open_watch(&watch, &model_cases[2]);
    assert_int_equal(watched_pass(&watch, 0), GW_OK);
    assert_int_equal(2 * watch.needed, watch.s.n_keys);
    assert_int_equal(watch.ready, 0);
    close_watch(&watch);
}

static void a_failing_hook_ends_the_pass(void **state)
{
    (void)state;
    struct watch watch;
    open_watch(&watch, &model_cases[2]);
    size_t layers = watch.s.n_keys / 2;
    close_watch(&watch);
    for (size_t at = 0; at < 2 * layers; at++) {
        open_watch(&watch, &model_cases[2]);
        watch.fail_at = at;
        assert_int_equal(watched_pass(&watch, 1), GW_ECLOSED);
        assert_int_equal(watch.needed + watch.ready, at + 1);
        close_watch(&watch);
    }
}

/* ---- making one ---- */

static void a_refused_model_leaves_nothing(void **state)
{
    const struct model_case given = {
        GW_MODEL_MLP, {1, 1, 6, 6, 4}, {2, {"36", "5"}}};
    struct gw_model *model = NULL;
    struct gw_error error = {.text = ""};
    (void)state;
    assert_int_equal(create(&given, &model, &error), GW_EUSAGE);
    assert_null(model);
    assert_non_null(strstr(error.text, "model.layers[1]"));
}

static void keys_have_names_and_shapes(void **state)
{
    (void)state;
    struct subject s;
    const char *const names[] = {"conv1.weight", "conv1.bias", "conv2.weight",
                                 "conv2.bias",   "fc1.weight", "fc1.bias",
                                 "fc2.weight",   "fc2.bias"};
    open_subject(&s, &model_cases[2]);
    assert_int_equal(s.n_keys, COUNT(names));
    for (size_t k = 0; k < s.n_keys; k++)
        assert_string_equal(s.keys[k].name, names[k]);
    assert_int_equal(s.elems[0], 3 * 2 * 3 * 3);
    assert_int_equal(s.elems[4], 6 * 4 * 2 * 2); /* 9 7 3 2 */
    assert_int_equal(s.elems[6], 4 * 6);
    close_subject(&s);

    open_subject(&s, &model_cases[0]); /* nothing below fc1 has a gradient */
    assert_int_equal(gw_model_flop(s.model),
                     2 * (2 * 36 * 9 + 3 * 9 * 7 + 3 * 7 * 4));
    assert_true(gw_model_bytes(s.model) >= BATCH * (9 + 7 + 4) * sizeof(float));
    close_subject(&s);
}

/* ---- initial values ---- */

static double deviation(const float *x, size_t elems)
{
    double sum = 0, squares = 0, n = (double)elems;
    for (size_t i = 0; i < elems; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    assert_true(fabs(sum / n) < 0.02 * sqrt(squares / n));
    return sqrt(squares / n);
}

static void initial_values_follow_the_rule(void **state)
{
    (void)state;
    const struct model_case given = {
        GW_MODEL_MLP, {1, 1, 28, 28, 10}, {3, {"784", "300", "10"}}};
    struct subject s;
    open_subject(&s, &given);
    float *again = malloc(s.elems[0] * sizeof *again);
    for (int init = 0; init < 2; init++) {
        int he = init == GW_INIT_HE;
        s.model->init = (enum gw_init)init;
        gw_model_init(s.model, 1, s.weight);
        double want = he ? sqrt(2.0 / 784) : sqrt(2.0 / (784 + 300));
        assert_true(fabs(deviation(s.weight[0], s.elems[0]) / want - 1) < 0.02);
        for (size_t i = 0; i < s.elems[1]; i++)
            assert_true(s.weight[1][i] == 0);
        memcpy(again, s.weight[0], s.elems[0] * sizeof *again);
        gw_model_init(s.model, 1, s.weight);
        assert_memory_equal(again, s.weight[0], s.elems[0] * sizeof *again);
        gw_model_init(s.model, 2, s.weight);
        assert_memory_not_equal(again, s.weight[0], 400);
        assert_true(s.weight[2][0] != s.weight[0][0]);
    }
    free(again);
    close_subject(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(hooks_come_when_all_is_done),
        cmocka_unit_test(layers_tell_what_they_have_computed),
        cmocka_unit_test(no_gradient_is_ready_before_the_last_micro_batch),
        cmocka_unit_test(a_failing_hook_ends_the_pass),
        cmocka_unit_test(a_refused_model_leaves_nothing),
        cmocka_unit_test(keys_have_names_and_shapes),
        cmocka_unit_test(initial_values_follow_the_rule),
    };
    return cmocka_run_group_tests_name("model", tests, open_device,
                                       close_device);
}
