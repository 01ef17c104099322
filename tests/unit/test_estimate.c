/* The arithmetic of plans, against numbers that were worked out by hand. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/amount.h"
#include "cli/plan/estimate.h"

/* GPT-2 of 124M: fp32 gradients, and a step of 65,536 tokens on an H200. */
#define WEIGHTS   124.44e6
#define BYTES     (4 * WEIGHTS)
#define COMPUTE_S 0.125
#define GBIT      (1e9 / 8)

static void assert_near(double is, double wanted, double within)
{
    if (!(fabs(is - wanted) <= within * fabs(wanted)))
        fail_msg("%g, not %g", is, wanted);
}

static void a_fast_link_hides_the_exchange(void **state)
{
    (void)state;
    assert_near(gw_estimate_hiding_rate(BYTES, COMPUTE_S), 48 * GBIT, 0.01);
    assert_near(gw_estimate_hiding_rate(BYTES / 2, COMPUTE_S), 24 * GBIT, 0.01);
    assert_near(gw_estimate_hiding_rate(BYTES, 0.018), 332 * GBIT, 0.01);
}

/* An exchange of n hosts with workers and n with servers. */
static double exchange_s(double bytes, double rate)
{
    return bytes / rate;
}

static void a_slow_link_shows_the_rest(void **state)
{
    double at25 = exchange_s(BYTES, 25 * GBIT);
    double at100 = exchange_s(BYTES, 100 * GBIT);
    (void)state;
    assert_near(gw_estimate_step_s(COMPUTE_S, at25, 1) - COMPUTE_S, 0.076,
                0.01);
    assert_near(gw_estimate_step_s(COMPUTE_S, at100, 1), COMPUTE_S, 0);
    assert_near(gw_estimate_step_s(COMPUTE_S, at100, 0), 0.165, 0.01);
}

/* In M/B. */
static void a_ring_sends_each_byte_almost_twice(void **state)
{
    (void)state;
    assert_near(gw_estimate_ring_s(8, 1, 1), 1.75, 1e-9);
    assert_near(gw_estimate_ring_s(2, 1, 1), 1, 1e-9);
    assert_true(gw_estimate_ring_s(1, 1, 1) == 0);
}

static void servers_are_as_many_as_links_ask_for(void **state)
{
    (void)state;
    assert_int_equal(gw_estimate_servers(4, 100 * GBIT, 100 * GBIT), 4);
    assert_int_equal(gw_estimate_servers(4, 100 * GBIT, 400 * GBIT), 1);
    assert_int_equal(gw_estimate_servers(5, 100 * GBIT, 400 * GBIT), 2);
    assert_int_equal(gw_estimate_servers(1, 1, 1e9), 1);
}

/* Slots of 4 workers and AdamW: 4 * (4 + 2 + 4) bytes of each weight. */
static void an_update_moves_its_bytes(void **state)
{
    (void)state;
    assert_true(gw_estimate_update_bytes(4, 2) == 40);
    assert_true(gw_estimate_update_bytes(1, 0) == 12);
}

/* AdamW and four sums, each by itself: on one machine of 60 GB/s, where that is
   too slow, and on one with twelve channels of DDR5-4800. */
static void memory_of_servers_bounds_what_is_done_apart(void **state)
{
    const double desktop = 60e9, epyc = 12 * 38.4e9;
    double adamw = gw_estimate_optimizer_bytes(2);
    double sum = gw_estimate_sum_bytes(1, 0);
    (void)state;
    assert_true(adamw == 28 && gw_estimate_optimizer_bytes(1) == 20 &&
                gw_estimate_optimizer_bytes(0) == 12);
    assert_near(gw_estimate_memory_s(WEIGHTS, adamw, 1, desktop), 0.061, 0.05);
    assert_near(gw_estimate_memory_s(WEIGHTS, sum, 1, desktop), 0.025, 0.01);
    assert_near(gw_estimate_memory_s(WEIGHTS, adamw, 1, epyc), 0.008, 0.06);
    assert_near(
        gw_estimate_memory_s(WEIGHTS, gw_estimate_sum_bytes(4, 0), 1, epyc),
        0.013, 0.01);
    /* longer than a step of 125 ms; fused, as in servers, two thirds of a
       step */
    double apart = gw_estimate_memory_s(
        WEIGHTS, adamw + gw_estimate_sum_bytes(4, 0), 1, desktop);
    assert_true(apart > COMPUTE_S);
    assert_near(gw_estimate_memory_s(WEIGHTS, gw_estimate_update_bytes(4, 2), 1,
                                     desktop),
                0.083, 0.01);
    assert_near(gw_estimate_memory_s(WEIGHTS, adamw, 4, desktop), 0.0145, 0.01);
    assert_true(gw_estimate_sum_bytes(4, 1) == 4 * 4 + 4);
}

/* Gradients of 12 bytes, weights of 6, a batch of 5. Alone, and two on one GPU;
   four sum on four, and on two; of seven the last is by itself. */
static void devices_carry_what_their_workers_do(void **state)
{
    struct gw_estimate_devices what = {
        .workers = 4, .devices = 4, .gradients = 12, .weights = 6, .batch = 5};
    (void)state;
    struct gw_estimate_device device = gw_estimate_device_of(&what);
    assert_true(device.in == 11 && device.out == 12 && device.peers == 0);
    what.devices = 3;
    device = gw_estimate_device_of(&what);
    assert_true(device.in == 22 && device.out == 24 && device.peers == 0);
    what.devices = 4;
    what.sums = 1;
    device = gw_estimate_device_of(&what);
    assert_true(device.in == 6.5 && device.out == 3);
    assert_near(device.peers, 0.75 * 18, 1e-9);
    what.devices = 2;
    device = gw_estimate_device_of(&what);
    assert_true(device.in == 13 && device.out == 6);
    assert_near(device.peers, 2 * 0.5 * 18, 1e-9);
    what.devices = 1;
    assert_true(gw_estimate_device_of(&what).peers == 0);
    what.workers = what.devices = 7;
    device = gw_estimate_device_of(&what);
    assert_true(device.in == 11 && device.out == 12);
    assert_near(device.peers, 0.75 * 18, 1e-9);
}

/*
 * Three workers, two of them on host 0; servers with 6, 3 and 3 bytes. On hosts
 * of their own: a workers' host sends its workers' gradients, a server's host
 * the weights for three workers. With a server on host 0: traffic within the
 * host uses no link.
 */
static void links_carry_what_leaves_a_host(void **state)
{
    static const double bytes[] = {6, 3, 3};
    uint32_t at[] = {2, 3, 4};
    struct gw_estimate_hosts hosts = {.workers = 3,
                                      .per_host = 2,
                                      .servers = 3,
                                      .server_host = at,
                                      .server_bytes = bytes};
    (void)state;
    assert_true(gw_estimate_link_of(&hosts, 0).push == 24);
    assert_true(gw_estimate_link_of(&hosts, 0).give == 0);
    assert_true(gw_estimate_link_of(&hosts, 1).push == 12);
    assert_true(gw_estimate_link_of(&hosts, 2).give == 18);
    assert_true(gw_estimate_link_of(&hosts, 2).push == 0);
    at[0] = 0;
    assert_true(gw_estimate_link_of(&hosts, 0).push == 12);
    assert_true(gw_estimate_link_of(&hosts, 0).give == 6);
    struct gw_estimate_link link = gw_estimate_link_of(&hosts, 0);
    assert_true(link.take == link.give && link.get == link.push);
    assert_true(gw_estimate_link_bytes(&link) == 18);
}

/* Weights as bf16 are half as long as gradients: the gradients' direction is
   the longer one. */
static void weights_may_be_half_of_gradients(void **state)
{
    static const double bytes[] = {6, 4};
    static const uint32_t at[] = {0, 2};
    const struct gw_estimate_hosts hosts = {.workers = 4,
                                            .per_host = 2,
                                            .servers = 2,
                                            .server_host = at,
                                            .server_bytes = bytes,
                                            .weights = GW_ENCODING_BF16};
    (void)state;
    struct gw_estimate_link link = gw_estimate_link_of(&hosts, 0);
    assert_true(link.push == 8 && link.get == 4);
    assert_true(link.take == 12 && link.give == 6);
    assert_true(gw_estimate_link_bytes(&link) == 16);
    link = gw_estimate_link_of(&hosts, 1);
    assert_true(link.push == 20 && link.get == 10 && link.take == 0);
    assert_true(gw_estimate_link_bytes(&link) == 20);
}

/* Seven workers, four on host 0, which push one gradient, and three on host 1,
   which are two groups: of two, and of one. */
static void sums_leave_a_host_once(void **state)
{
    static const double bytes[] = {6, 3};
    uint32_t at[] = {2, 2};
    struct gw_estimate_hosts hosts = {.workers = 7,
                                      .per_host = 4,
                                      .servers = 2,
                                      .server_host = at,
                                      .server_bytes = bytes,
                                      .sums = 1};
    (void)state;
    assert_true(gw_estimate_link_of(&hosts, 0).push == 9);
    assert_true(gw_estimate_link_of(&hosts, 1).push == 18);
    assert_true(gw_estimate_link_of(&hosts, 2).give == 27);
    at[0] = 0;
    assert_true(gw_estimate_link_of(&hosts, 0).push == 3);
    assert_true(gw_estimate_link_of(&hosts, 0).give == 12);
    hosts.sums = 0;
    assert_true(gw_estimate_link_of(&hosts, 0).push == 12);
    assert_true(gw_estimate_link_of(&hosts, 0).give == 18);
}

static void the_longest_part_bounds(void **state)
{
    double seconds[GW_BOUNDS] = {[GW_BOUND_COMPUTE] = 2,
                                 [GW_BOUND_WORKER_LINK] = 3,
                                 [GW_BOUND_SERVER_LINK] = 1};
    (void)state;
    assert_int_equal(gw_bound_of(seconds), GW_BOUND_WORKER_LINK);
    seconds[GW_BOUND_CORES] = 4;
    assert_int_equal(gw_bound_of(seconds), GW_BOUND_CORES);
    for (enum gw_bound i = GW_BOUND_COMPUTE; i < GW_BOUNDS; i++)
        assert_non_null(gw_bound_name(i));
}

static void amounts_have_units(void **state)
{
    struct gw_error error;
    double value = 7;
    (void)state;
    assert_int_equal(
        gw_amount_parse("--x", "80GiB", GW_AMOUNT_BYTES, &value, &error),
        GW_OK);
    assert_true(value == 80 * 1073741824.0);
    assert_int_equal(
        gw_amount_parse("--x", "2.5 ms", GW_AMOUNT_SECONDS, &value, &error),
        GW_OK);
    assert_near(value, 2.5e-3, 1e-12);
    assert_int_equal(
        gw_amount_parse("--x", "1.5M", GW_AMOUNT_COUNT, &value, &error), GW_OK);
    assert_true(value == 1.5e6);
    assert_int_equal(
        gw_amount_parse("--x", " 650 ", GW_AMOUNT_COUNT, &value, &error),
        GW_OK);
    assert_true(value == 650);
    assert_int_equal(
        gw_amount_parse("--x", "650 MB", GW_AMOUNT_COUNT, &value, &error),
        GW_EUSAGE);
    assert_string_equal(error.text,
                        "--x: \"650 MB\" is not a number above 0 with one of "
                        "these units, or none: k, M, G");
    value = 2.5e-3;
    static const char *const wrong[] = {"80",    "GiB",    "0 ms",
                                        "-1 ms", "1 ms x", "1 GiB"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(
            gw_amount_parse("--x", wrong[i], GW_AMOUNT_SECONDS, &value, &error),
            GW_EUSAGE);
    assert_near(value, 2.5e-3, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fast_link_hides_the_exchange),
        cmocka_unit_test(a_slow_link_shows_the_rest),
        cmocka_unit_test(a_ring_sends_each_byte_almost_twice),
        cmocka_unit_test(servers_are_as_many_as_links_ask_for),
        cmocka_unit_test(an_update_moves_its_bytes),
        cmocka_unit_test(memory_of_servers_bounds_what_is_done_apart),
        cmocka_unit_test(devices_carry_what_their_workers_do),
        cmocka_unit_test(links_carry_what_leaves_a_host),
        cmocka_unit_test(weights_may_be_half_of_gradients),
        cmocka_unit_test(sums_leave_a_host_once),
        cmocka_unit_test(the_longest_part_bounds),
        cmocka_unit_test(amounts_have_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
