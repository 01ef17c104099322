/* proto/device.h, and the messages for a device that is not there. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/kernels.h"
#include "proto/config.h"
#include "proto/device.h"

static void names_are_read(void **state)
{
    static const struct {
        const char *text;
        struct gw_device_name name;
    } good[] = {
        {"auto", {GW_DEVICE_AUTO, 0, 0}},
        {"cpu", {GW_DEVICE_CPU, 0, 0}},
        {"CPU", {GW_DEVICE_CPU, 0, 0}},
        {"Cuda:1", {GW_DEVICE_CUDA, 1, 1}},
        {"cuda", {GW_DEVICE_CUDA, 0, 0}},
        {"cuda:0", {GW_DEVICE_CUDA, 1, 0}},
        {"cuda:17", {GW_DEVICE_CUDA, 1, 17}},
        {"cuda:999", {GW_DEVICE_CUDA, 1, 999}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct gw_device_name name;
        struct gw_error error;
        assert_int_equal(gw_device_parse(good[i].text, &name, &error), GW_OK);
        assert_int_equal(name.kind, good[i].name.kind);
        assert_int_equal(name.numbered, good[i].name.numbered);
        assert_int_equal(name.number, good[i].name.number);
    }
}

static void what_is_no_name_is_refused(void **state)
{
    static const char *const bad[] = {"",        "CPUs",    "cpu:0",
                                      "auto:1",  "cuda:",   "cuda:x",
                                      "cuda:1x", "cuda:-1", "cuda:1000",
                                      "cuda: 1", "cuda0",   "cuda01",
                                      "gpu"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gw_device_name name;
        struct gw_error error;
        if (gw_device_parse(bad[i], &name, &error) != GW_EUSAGE)
            fail_msg("\"%s\" is taken", bad[i]);
        assert_non_null(strstr(error.text, "auto, cpu, cuda or cuda:I"));
    }
}

/* On any machine the cpu computes, and an unavailable backend says why. */
static void a_choice_says_why(void **state)
{
    struct gw_backend_choice choice;
    struct gw_error error;
    char why[GW_WHY_BYTES];
    (void)state;
    assert_int_equal(gw_backend_choose("cpu", &choice, &error), GW_OK);
    assert_string_equal(choice.ops->name, "cpu");
    assert_string_equal(choice.why, "");
    assert_int_equal(gw_backend_choose("auto", &choice, &error), GW_OK);
    for (size_t i = 0; i < gw_backend_count(); i++) {
        const char *name = gw_backend_name(i);
        const struct gw_backend_ops *ops = gw_backend_get(i, why, sizeof why);
        if (ops) {
            assert_string_equal(ops->name, name);
            assert_ptr_equal(choice.ops, ops);
            break;
        }
        assert_non_null(strstr(choice.why, why));
        assert_int_equal(gw_backend_choose(name, &choice, &error),
                         GW_EUNSUPPORTED);
        assert_non_null(strstr(error.text, why));
        assert_int_equal(gw_backend_choose("auto", &choice, &error), GW_OK);
    }
}

static void the_cpu_is_nowhere(void **state)
{
    static struct gw_config config; /* large */
    char address[GW_PCI_ADDRESS_BYTES] = "?";
    (void)state;
    gw_config_default(&config);
    strcpy(config.worker.device, "cpu");
    config.worker.threads = 5;
    assert_int_equal(gw_device_locate(&config, 3, address), 5);
    assert_string_equal(address, "");
    strcpy(config.worker.device, "none such");
    strcpy(address, "?");
    assert_int_equal(gw_device_locate(&config, 3, address), 5);
    assert_string_equal(address, "");
}

/* Three samples: 16-bit copies of 15, 21 and 35 numbers, each rounded up to 64
   bytes; mask rows to 128 bits. */
static void sizes_are_known_where_no_gpu_is(void **state)
{
    const struct gw_dense_shape dense = {.n = 3, .in = 5, .out = 7},
                                wide = {.n = 3, .in = 5, .out = 130, .relu = 1};
    const struct gw_device_options options = {.threads = 1};
    struct gw_device *device;
    struct gw_error error;
    (void)state;
    const struct gw_backend_ops *gpu = gw_backend_outline("cuda:3", &error);
    assert_string_equal(gpu->name, "cuda");
    assert_false(gpu->on_host);
    assert_int_equal(gpu->takes.open, 32 << 20);
    assert_int_equal(gpu->takes.page, 2 << 20);
    assert_int_equal(gpu->dense_scratch_bytes(&dense, GW_PRECISION_TF32), 0);
    assert_int_equal(gpu->dense_scratch_bytes(&dense, GW_PRECISION_BF16),
                     64 + 64 + 128);
    assert_int_equal(gpu->dense_mask_bytes(&dense), 0);
    assert_int_equal(gpu->dense_mask_bytes(&wide), 3 * 256 / 8);
    assert_int_equal(gpu->open(&options, &device, &error), GW_EUNSUPPORTED);
    assert_string_equal(gw_backend_outline("cpu", &error)->name, "cpu");
    assert_int_equal(gw_backend_outline("cpu", &error)->takes.open, 0);
    assert_null(gw_backend_outline("gpu", &error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(a_choice_says_why),
        cmocka_unit_test(the_cpu_is_nowhere),
        cmocka_unit_test(sizes_are_known_where_no_gpu_is),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
