/* worker/model: when hooks are called, and with what. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/model_subject.h"

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
    subject_open(&watch->s, given);
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
    subject_close(&watch->s);
}

static enum gw_status watched_pass(struct watch *watch, int last)
{
    const struct gw_model_hooks hooks = {watch, on_need, on_ready, on_computed};
    struct gw_model_pass pass = subject_pass(&watch->s, 0, BATCH);
    pass.last = last;
    enum gw_status status = gw_model_train(watch->s.model, &pass,
                                           (const float *const *)watch->weight,
                                           watch->gradient, &hooks);
    if (status == GW_OK)
        assert_true(subject_result(&watch->s).loss > 0);
    return status;
}

static void hooks_come_when_all_is_done(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(model_cases); c++) {
        struct watch watch;
        open_watch(&watch, &model_cases[c]);
        struct subject *s = &watch.s;
        assert_int_equal(watched_pass(&watch, 1), GW_OK);
        assert_int_equal(2 * watch.needed, s->n_keys);
        assert_int_equal(watch.last_ready, 0);

        float *plain[KEYS_MAX];
        for (size_t k = 0; k < s->n_keys; k++)
            plain[k] = malloc(s->elems[k] * sizeof(float));
        struct gw_model_pass pass = subject_pass(s, 0, BATCH);
        assert_int_equal(
            gw_model_train(s->model, &pass, subject_weights(s), plain, NULL),
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
        struct gw_model_pass pass = subject_pass(&watch.s, 0, BATCH);
        assert_int_equal(gw_model_score(watch.s.model, &pass,
                                        subject_weights(&watch.s), &hooks),
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hooks_come_when_all_is_done),
        cmocka_unit_test(layers_tell_what_they_have_computed),
        cmocka_unit_test(no_gradient_is_ready_before_the_last_micro_batch),
        cmocka_unit_test(a_failing_hook_ends_the_pass),
    };
    return cmocka_run_group_tests_name(
        "model_hooks", tests, subject_open_device, subject_close_device);
}
