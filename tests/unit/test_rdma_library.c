/* libibverbs and librdmacm, loaded by name; no RDMA device is needed. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "transport/rdma/rdma_library.h"

/* As a wrapper that is preloaded has it. */
__attribute__((visibility("default"))) const char *
ibv_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_SUCCESS ? "of this program" : "";
}

static void every_function_is_found(void **state)
{
    struct gw_rdma_library library;
    void *entry[sizeof library / sizeof(void *)];
    char why[256];
    (void)state;
    memset(&library, 0, sizeof library);
    if (gw_rdma_library_load(&library, why, sizeof why) != GW_OK)
        fail_msg("%s", why);
    memcpy(entry, &library, sizeof library);
    for (size_t i = 0; i < sizeof entry / sizeof *entry; i++)
        assert_non_null(entry[i]);
    assert_string_equal(library.cm_event_str(RDMA_CM_EVENT_REJECTED),
                        "RDMA_CM_EVENT_REJECTED");
}

static void a_second_time_they_are_the_same(void **state)
{
    struct gw_rdma_library first, second;
    char why[256];
    (void)state;
    assert_int_equal(gw_rdma_library_load(&first, why, sizeof why), GW_OK);
    assert_int_equal(gw_rdma_library_load(&second, why, sizeof why), GW_OK);
    assert_memory_equal(&first, &second, sizeof first);
}

static void a_wrapper_comes_before_the_library(void **state)
{
    struct gw_rdma_library library;
    char why[256];
    (void)state;
    assert_int_equal(gw_rdma_library_load(&library, why, sizeof why), GW_OK);
    assert_string_equal(library.wc_status_str(IBV_WC_SUCCESS),
                        "of this program");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_found),
        cmocka_unit_test(a_second_time_they_are_the_same),
        cmocka_unit_test(a_wrapper_comes_before_the_library),
    };
    return cmocka_run_group_tests_name("rdma library", tests, NULL, NULL);
}
