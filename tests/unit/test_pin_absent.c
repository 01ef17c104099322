/* Cores in a program that was built without hwloc. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/host/pin_host.h"
#include "cli/host/pin_member.h"
#include "proto/log.h"

#define ABSENT                                                                 \
    "this program was built without hwloc (configure says why) and binds no "  \
    "threads to cores: install libhwloc-dev and build it again, or set it to " \
    "false"

static struct gw_config config; /* large */

static void who_asks_is_refused(void **state)
{
    (void)state;
    struct gw_error error = {.text = ""};
    struct gw_pin_member member;
    gw_config_default(&config);
    assert_int_equal(gw_pin_check(&config, &error), GW_OK);
    config.server.pin = 1;
    assert_int_equal(gw_pin_check(&config, &error), GW_EUNSUPPORTED);
    assert_string_equal(error.text, "server.pin: " ABSENT);
    config.worker.pin = 1;
    assert_int_equal(gw_pin_check(&config, &error), GW_EUNSUPPORTED);
    assert_string_equal(error.text, "worker.pin: " ABSENT);
    assert_int_equal(
        gw_pin_member_start(&member, "lo", "worker.pin", NULL, &error),
        GW_EUNSUPPORTED);
    assert_string_equal(error.text, "worker.pin: " ABSENT);
    assert_null(member.view);
    gw_pin_member_close(&member);
}

static void nothing_is_bound(void **state)
{
    (void)state;
    struct gw_pin_member member = {.view = NULL};
    const struct gw_colocated colocated = {.workers = 1, .shards = 1};
    struct gw_cpus cpus = {{0}};
    struct gw_error error;
    gw_pin_member_worker(&member, &colocated, "", NULL, NULL);
    gw_pin_member_near(&member, NULL);
    gw_pin_member_shard(&member, &colocated, NULL);
    assert_int_equal(gw_pin_bind_thread(NULL, pthread_self(), &cpus, &error),
                     GW_EUNSUPPORTED);
    assert_int_equal(gw_pin_bind_process(NULL, &cpus, &error), GW_EUNSUPPORTED);
    assert_int_equal(gw_pin_bind_memory(NULL, 0, &error), GW_EUNSUPPORTED);
    assert_int_equal(gw_pin_view_device(NULL, ""), 0);
    assert_int_equal(gw_pin_view_interface(NULL, "lo"), 0);
    assert_null(gw_pin_view_host(NULL));
    assert_false(gw_pin_view_is_here(NULL));
    assert_non_null(strstr(gw_pin_library, "no hwloc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_is_refused),
        cmocka_unit_test(nothing_is_bound),
    };
    return cmocka_run_group_tests_name("pin, absent", tests, NULL, NULL);
}
