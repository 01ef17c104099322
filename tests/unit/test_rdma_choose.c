/* By which way memory is registered: all that probes can say, without a device.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "transport/rdma/rdma_memory.h"

#define KIND(kind) (1u << GW_MEMORY_##kind)

static const struct gw_rdma_registrar host = {
    .name = "host", .kinds = KIND(HOST) | KIND(SHARED)};
static const struct gw_rdma_registrar by_fd = {
    .name = "by-fd", .kinds = KIND(CUDA), .needs_fd = 1};
static const struct gw_rdma_registrar by_address = {.name = "by-address",
                                                    .kinds = KIND(CUDA)};
static const struct gw_rdma_registrar *const table[] = {&host, &by_fd,
                                                        &by_address, NULL};

struct said {
    int fd, address;
};

static const struct gw_rdma_registrar *
choose(struct said said, enum gw_memory_kind kind, int has_fd, char why[256])
{
    const struct gw_rdma_probed probed[] = {
        {.status = GW_OK},
        {.status = said.fd ? GW_OK : GW_EUNSUPPORTED, .why = "no driver"},
        {.status = said.address ? GW_OK : GW_EUNSUPPORTED, .why = "no module"},
    };
    return gw_rdma_choose(table, probed, kind, has_fd, why, 256);
}

static void host_memory_is_always_registered(void **state)
{
    char why[256];
    (void)state;
    for (int fd = 0; fd < 2; fd++)
        for (int i = 0; i < 4; i++) {
            struct said said = {i & 1, i >> 1};
            assert_ptr_equal(choose(said, GW_MEMORY_HOST, fd, why), &host);
            assert_ptr_equal(choose(said, GW_MEMORY_SHARED, fd, why), &host);
        }
}

static void a_descriptor_comes_before_an_address(void **state)
{
    char why[256];
    (void)state;
    assert_ptr_equal(choose((struct said){1, 1}, GW_MEMORY_CUDA, 1, why),
                     &by_fd);
    assert_ptr_equal(choose((struct said){1, 0}, GW_MEMORY_CUDA, 1, why),
                     &by_fd);
    assert_ptr_equal(choose((struct said){0, 1}, GW_MEMORY_CUDA, 1, why),
                     &by_address);
}

static void memory_without_a_descriptor_goes_by_its_address(void **state)
{
    char why[256];
    (void)state;
    assert_ptr_equal(choose((struct said){1, 1}, GW_MEMORY_CUDA, 0, why),
                     &by_address);
    assert_null(choose((struct said){1, 0}, GW_MEMORY_CUDA, 0, why));
    assert_string_equal(why, "not by by-fd: the memory has no descriptor; not "
                             "by by-address: no module");
}

static void who_gets_none_is_told_why_of_each(void **state)
{
    char why[256], little[12];
    const struct gw_rdma_probed probed[3] = {{.status = GW_OK}};
    (void)state;
    assert_null(choose((struct said){0, 0}, GW_MEMORY_CUDA, 1, why));
    assert_string_equal(why, "not by by-fd: no driver; not by by-address: no "
                             "module");
    assert_null(gw_rdma_choose(table, probed, 7, 1, why, sizeof why));
    assert_string_equal(why, "no way is known for memory of that kind");
    assert_null(gw_rdma_choose(table, probed, 7, 1, little, sizeof little));
    assert_string_equal(little, "no way is k");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_memory_is_always_registered),
        cmocka_unit_test(a_descriptor_comes_before_an_address),
        cmocka_unit_test(memory_without_a_descriptor_goes_by_its_address),
        cmocka_unit_test(who_gets_none_is_told_why_of_each),
    };
    return cmocka_run_group_tests_name("rdma choose", tests, NULL, NULL);
}
