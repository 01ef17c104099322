/* A program that was built without rdma-core, whatever this build has: the
   transport's stand-in is linked in the place of the transport. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "transport/link/transport.h"

static void who_asks_for_it_is_told(void **state)
{
    struct gw_error error;
    struct gw_routes routes;
    char why[256];
    (void)state;
    assert_null(gw_transport_find("rdma", &error));
    assert_int_equal(error.status, GW_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "built without rdma-core"));
    assert_int_equal(gw_routes_find("rdma", &routes, why, sizeof why, &error),
                     GW_EUNSUPPORTED);
}

static void auto_goes_without_it_and_says_why(void **state)
{
    struct gw_error error;
    struct gw_routes routes;
    char why[256];
    (void)state;
    assert_int_equal(gw_routes_find("auto", &routes, why, sizeof why, &error),
                     GW_OK);
    assert_string_equal(routes.control->name, "tcp");
    assert_string_equal(routes.data[0]->name, "shm");
    assert_string_equal(routes.data[1]->name, "tcp");
    assert_null(routes.data[2]);
    assert_non_null(strstr(why, "not rdma, this program was built without"));
}

static void the_others_are_as_ever(void **state)
{
    struct gw_error error;
    struct gw_routes routes;
    char why[256];
    (void)state;
    assert_int_equal(gw_routes_find("tcp", &routes, why, sizeof why, &error),
                     GW_OK);
    assert_string_equal(routes.data[0]->name, "tcp");
    assert_int_equal(gw_routes_find("sim", &routes, why, sizeof why, &error),
                     GW_OK);
    assert_string_equal(routes.control->name, "sim");
    assert_int_equal(gw_routes_find("pigeon", &routes, why, sizeof why, &error),
                     GW_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_for_it_is_told),
        cmocka_unit_test(auto_goes_without_it_and_says_why),
        cmocka_unit_test(the_others_are_as_ever),
    };
    return cmocka_run_group_tests_name("rdma absent", tests, NULL, NULL);
}
