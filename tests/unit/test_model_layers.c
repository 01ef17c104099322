/*
 * worker/model/model_layers: what model.* may say of the data, and what not.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "worker/model/model_layers.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct refused {
    enum gw_model_kind kind;
    struct gw_string_list layers;
    const char *text; /* a part of the line */
};

static const struct refused refusals[] = {
    {GW_MODEL_MLP, {1, {"784"}}, "at least two widths"},
    {GW_MODEL_MLP, {3, {"783", "5", "10"}}, "784 values per sample (1x28x28)"},
    {GW_MODEL_MLP, {3, {"784", "0", "10"}}, "layers[1] \"0\""},
    {GW_MODEL_MLP, {3, {"784", "-5", "10"}}, "layers[1] \"-5\""},
    {GW_MODEL_MLP, {3, {"784", "dense 5", "10"}}, "whole numbers"},
    {GW_MODEL_MLP, {3, {"784", "268435456", "10"}}, "too many"},
    {GW_MODEL_CNN, {0, {""}}, "at least one layer"},
    {GW_MODEL_CNN, {1, {""}}, "none of conv, pool, dense, dropout"},
    {GW_MODEL_CNN, {1, {"con 8 3"}}, "none of conv, pool, dense, dropout"},
    {GW_MODEL_CNN, {1, {"conv 8"}}, "write it as \"conv CHANNELS SIZE\""},
    {GW_MODEL_CNN, {1, {"conv 8 3 stride"}}, "write it as"},
    {GW_MODEL_CNN, {1, {"conv 8 3 stride 0"}}, "write it as"},
    {GW_MODEL_CNN, {1, {"conv 8 3 skip 1"}}, "write it as"},
    {GW_MODEL_CNN, {1, {"conv 8 3 pad 3"}}, "padding must be smaller"},
    {GW_MODEL_CNN, {1, {"conv 8 29"}}, "the input is only 28x28"},
    {GW_MODEL_CNN, {1, {"conv 65536 1 1 1 1 1 1 1 1"}}, "too many words"},
    {GW_MODEL_CNN, {2, {"conv 65536 1", "conv 65536 2"}}, "too many"},
    {GW_MODEL_CNN,
     {2, {"pool 7", "pool 5"}},
     "layers[1] \"pool 5\": the input"},
    {GW_MODEL_CNN, {1, {"pool 16"}}, "a size of 1 to 15"},
    {GW_MODEL_CNN, {1, {"pool 2 pad 1"}}, "write it as \"pool SIZE\""},
    {GW_MODEL_CNN, {1, {"dense"}}, "write it as \"dense WIDTH\""},
    {GW_MODEL_CNN, {1, {"dense 1e3"}}, "write it as \"dense WIDTH\""},
    {GW_MODEL_CNN, {2, {"dense 5", "conv 8 1"}}, "cannot follow a dense"},
    {GW_MODEL_CNN, {2, {"dense 5", "pool 1"}}, "cannot follow a dense"},
    {GW_MODEL_CNN, {1, {"dropout 1"}}, "0 <= P < 1"},
    {GW_MODEL_CNN, {1, {"dropout nan"}}, "0 <= P < 1"},
    {GW_MODEL_CNN, {1, {"dropout 0.5x"}}, "0 <= P < 1"},
};

static enum gw_status read_layers(enum gw_model_kind kind,
                                  const struct gw_dataset_shape *shape,
                                  const struct gw_string_list *layers,
                                  struct gw_error *error)
{
    static struct gw_config config;
    static struct layer_list list;
    config.model.kind = kind;
    config.model.layers = *layers;
    config.model.dropout = 0.3;
    return gw_model_layers(&config, shape, &list, error);
}

static void wrong_layers_are_refused_by_name(void **state)
{
    const struct gw_dataset_shape shape = {1, 1, 28, 28, 10};
    (void)state;
    for (size_t i = 0; i < COUNT(refusals); i++) {
        struct gw_error error = {.text = ""};
        assert_int_equal(
            read_layers(refusals[i].kind, &shape, &refusals[i].layers, &error),
            GW_EUSAGE);
        assert_non_null(strstr(error.text, "model.layers"));
        if (!strstr(error.text, refusals[i].text))
            fail_msg("\"%s\" is not in: %s", refusals[i].text, error.text);
    }
}

/* The last width as written is the number of classes, whatever has samples; a
   layer is added only behind a list that does not end in a dense one. */
static void the_last_width_is_what_is_written(void **state)
{
    static const struct {
        enum gw_model_kind kind;
        struct gw_string_list layers;
        size_t layers_n, outputs;
    } cases[] = {
        {GW_MODEL_MLP, {2, {"784", "10"}}, 1, 10},
        {GW_MODEL_MLP, {2, {"784", "9"}}, 1, 9},
        {GW_MODEL_MLP, {2, {"784", "12"}}, 1, 12},
        {GW_MODEL_CNN, {2, {"conv 4 3", "dense 10"}}, 2, 10},
        {GW_MODEL_CNN, {2, {"conv 4 3", "dense 12"}}, 2, 12},
        {GW_MODEL_CNN, {2, {"conv 4 3", "pool 2"}}, 3, 10},
        {GW_MODEL_CNN, {2, {"dense 12", "dropout 0.5"}}, 3, 10},
    };
    const struct gw_dataset_shape shape = {1, 1, 28, 28, 10};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct gw_config config;
        static struct layer_list list;
        struct gw_error error = {.text = ""};
        config.model.kind = cases[i].kind;
        config.model.layers = cases[i].layers;
        config.model.dropout = 0;
        assert_int_equal(gw_model_layers(&config, &shape, &list, &error),
                         GW_OK);
        assert_int_equal(list.n, cases[i].layers_n);
        assert_int_equal(gw_model_outputs(&list), cases[i].outputs);
        assert_int_equal(list.layer[list.n - 1].dense.relu, 0);
    }
}

/* What would overflow a backend's tables; no memory is asked for. */
static void giants_are_refused_by_name(void **state)
{
    static const struct {
        struct gw_dataset_shape shape;
        struct gw_string_list layers;
        const char *text; /* a part of the line; NULL: it is taken */
    } giants[] = {
        {{1, 1, 16384, 16384, 10}, {1, {"pool 15"}}, NULL},
        {{1, 1, 16384, 16385, 10}, {1, {"pool 15"}}, "at most 268435456"},
        {{1, 3, 1 << 20, 1 << 20, 10}, {1, {"pool 15"}}, "at most 268435456"},
        {{1, 1, 16384, 16384, 10}, {1, {"conv 1 3 stride 2 pad 2"}}, NULL},
        {{1, 1, 16384, 16384, 10},
         {1, {"conv 1 16384 stride 2 pad 16383"}},
         "too many"},
        {{1, 1, 256, 256, 10}, {1, {"conv 65536 182 stride 2"}}, "too many"},
        {{1, 1, 8192, 8192, 10}, {1, {"conv 65536 1 stride 128"}}, NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(giants); i++) {
        struct gw_error error = {.text = ""};
        enum gw_status status = read_layers(GW_MODEL_CNN, &giants[i].shape,
                                            &giants[i].layers, &error);
        assert_int_equal(status, giants[i].text ? GW_EUSAGE : GW_OK);
        if (giants[i].text && !strstr(error.text, giants[i].text))
            fail_msg("\"%s\" is not in: %s", giants[i].text, error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_layers_are_refused_by_name),
        cmocka_unit_test(the_last_width_is_what_is_written),
        cmocka_unit_test(giants_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("model layers", tests, NULL, NULL);
}
