/* How much of a link's payloads is on its way, without a device. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "transport/rdma/rdma_flight.h"

#define MIB ((size_t)1 << 20)

/* Hands payloads over until one has to wait; how many went. */
static int fill(struct gw_rdma_flight *flight, size_t bytes)
{
    int n = 0;
    while (gw_rdma_flight_takes(flight, bytes)) {
        flight->bytes += bytes;
        n++;
    }
    return n;
}

static void a_port_says_what_it_carries(void **state)
{
    (void)state;
    assert_int_equal(gw_rdma_line_mbit(1, 1), 2500);     /* SDR, one lane */
    assert_int_equal(gw_rdma_line_mbit(4, 2), 40000);    /* QDR, four */
    assert_int_equal(gw_rdma_line_mbit(32, 2), 100000);  /* EDR */
    assert_int_equal(gw_rdma_line_mbit(64, 16), 100000); /* HDR, two */
    assert_int_equal(gw_rdma_line_mbit(128, 2), 400000); /* NDR */
    assert_int_equal(gw_rdma_line_mbit(0, 2), 0);
    assert_int_equal(gw_rdma_line_mbit(32, 0), 0);
    assert_int_equal(gw_rdma_line_mbit(255, 255), 0);
}

static void a_device_that_is_never_idle_gets_no_more(void **state)
{
    struct gw_rdma_flight flight;
    (void)state;
    gw_rdma_flight_begin(&flight, 400000);
    assert_int_equal(fill(&flight, MIB), 2);
    for (int i = 0; i < 100; i++) {
        flight.bytes -= MIB;
        assert_false(gw_rdma_flight_update(&flight));
        assert_int_equal(fill(&flight, MIB), 1);
    }
    assert_int_equal(flight.room, GW_RDMA_FLIGHT_BYTES);
}

static void one_that_ran_dry_gets_twice_as_much(void **state)
{
    struct gw_rdma_flight flight;
    (void)state;
    gw_rdma_flight_begin(&flight, 400000); /* 25 MB in half a millisecond */
    static const size_t room[] = {4 * MIB, 8 * MIB, 16 * MIB, 25000000};
    for (size_t i = 0; i < sizeof room / sizeof *room; i++) {
        fill(&flight, MIB);
        flight.bytes = 0;
        assert_true(gw_rdma_flight_update(&flight));
        assert_int_equal(flight.room, room[i]);
    }
    assert_int_equal(fill(&flight, MIB), 23);
    flight.bytes = 0;
    assert_false(gw_rdma_flight_update(&flight)); /* as much as there will be */
    assert_int_equal(flight.room, 25000000);
}

/* Nothing was waiting: there is nothing that more room would have changed. */
static void one_that_had_no_more_to_do_does_not(void **state)
{
    struct gw_rdma_flight flight;
    (void)state;
    gw_rdma_flight_begin(&flight, 400000);
    assert_true(gw_rdma_flight_takes(&flight, MIB));
    flight.bytes += MIB;
    flight.bytes = 0;
    assert_false(gw_rdma_flight_update(&flight));
    /* what waited has gone meanwhile */
    fill(&flight, MIB);
    flight.bytes -= MIB;
    assert_false(gw_rdma_flight_update(&flight));
    flight.bytes = 0;
    assert_false(gw_rdma_flight_update(&flight));
    assert_int_equal(flight.room, GW_RDMA_FLIGHT_BYTES);
}

static void a_slow_line_keeps_what_it_began_with(void **state)
{
    static const uint32_t mbit[] = {0, 2500, 25000};
    (void)state;
    for (size_t i = 0; i < sizeof mbit / sizeof *mbit; i++) {
        struct gw_rdma_flight flight;
        gw_rdma_flight_begin(&flight, mbit[i]);
        assert_int_equal(fill(&flight, MIB), 2);
        flight.bytes = 0;
        assert_false(gw_rdma_flight_update(&flight));
        assert_int_equal(flight.most, GW_RDMA_FLIGHT_BYTES);
    }
}

static void no_line_gets_all_memory(void **state)
{
    struct gw_rdma_flight flight;
    (void)state;
    gw_rdma_flight_begin(&flight, UINT32_MAX);
    assert_int_equal(flight.most, GW_RDMA_FLIGHT_MOST);
}

static void one_payload_may_always_go(void **state)
{
    struct gw_rdma_flight flight;
    (void)state;
    gw_rdma_flight_begin(&flight, 0);
    assert_int_equal(fill(&flight, 64 * MIB), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_says_what_it_carries),
        cmocka_unit_test(a_device_that_is_never_idle_gets_no_more),
        cmocka_unit_test(one_that_ran_dry_gets_twice_as_much),
        cmocka_unit_test(one_that_had_no_more_to_do_does_not),
        cmocka_unit_test(a_slow_line_keeps_what_it_began_with),
        cmocka_unit_test(no_line_gets_all_memory),
        cmocka_unit_test(one_payload_may_always_go),
    };
    return cmocka_run_group_tests_name("rdma flight", tests, NULL, NULL);
}
