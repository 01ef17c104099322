/*
 * worker/model: losses and gradients against differences of a model in double,
 * keys, initial values.
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
#include "tests/unit/model_subject.h"
#include "worker/model/model_layers.h"

#define LONGEST 4096 /* of one sample in one layer */

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
        double *w[KEYS_MAX], loss = 0;
        subject_open(&s, &model_cases[c]);
        copy_weights(&s, w);
        for (size_t at = 0; at < BATCH; at += 3) { /* micro-batches of 3, 2 */
            struct gw_model_pass pass =
                subject_pass(&s, at, BATCH - at < 3 ? BATCH - at : 3);
            assert_int_equal(gw_model_train(s.model, &pass, subject_weights(&s),
                                            s.gradient, NULL),
                             GW_OK);
            loss += subject_result(&s).loss;
        }
        assert_true(fabs(loss / slow_losses(&s, w, 1) - 1) < 1e-6);
        for (size_t k = 0; k < s.n_keys; k++)
            assert_differences(&s, w, k);

        struct gw_model_pass pass = subject_pass(&s, 0, BATCH);
        assert_int_equal(
            gw_model_score(s.model, &pass, subject_weights(&s), NULL), GW_OK);
        assert_true(fabs(subject_result(&s).loss / slow_losses(&s, w, 0) - 1) <
                    1e-6);
        for (size_t k = 0; k < s.n_keys; k++)
            free(w[k]);
        subject_close(&s);
    }
}

/* ---- making one ---- */

static void a_refused_model_leaves_nothing(void **state)
{
    const struct model_case given = {
        GW_MODEL_MLP, {1, 1, 6, 6, 4}, {2, {"36", "3"}}};
    struct gw_model *model = NULL;
    struct gw_error error = {.text = ""};
    (void)state;
    assert_int_equal(subject_create(&given, &model, &error), GW_EUSAGE);
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
    subject_open(&s, &model_cases[2]);
    assert_int_equal(s.n_keys, COUNT(names));
    for (size_t k = 0; k < s.n_keys; k++)
        assert_string_equal(s.keys[k].name, names[k]);
    assert_int_equal(s.elems[0], 3 * 2 * 3 * 3);
    assert_int_equal(s.elems[4], 6 * 4 * 2 * 2); /* 9 7 3 2 */
    assert_int_equal(s.elems[6], 4 * 6);
    subject_close(&s);

    subject_open(&s, &model_cases[0]); /* nothing below fc1 has a gradient */
    assert_int_equal(gw_model_flop(s.model),
                     2 * (2 * 36 * 9 + 3 * 9 * 7 + 3 * 7 * 4));
    assert_true(gw_model_bytes(s.model) >= BATCH * (9 + 7 + 4) * sizeof(float));
    subject_close(&s);
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
    subject_open(&s, &given);
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
    subject_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(a_refused_model_leaves_nothing),
        cmocka_unit_test(keys_have_names_and_shapes),
        cmocka_unit_test(initial_values_follow_the_rule),
    };
    return cmocka_run_group_tests_name("model", tests, subject_open_device,
                                       subject_close_device);
}
