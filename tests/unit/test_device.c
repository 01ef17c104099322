/* proto/device.h, and what is said where no such device is. */
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
    static const char *const bad[] = {"",        "CPU",     "cpu:0",
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

/* Whatever this machine has: the cpu computes, and what does not says why. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(a_choice_says_why),
        cmocka_unit_test(the_cpu_is_nowhere),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
