/*
 * Hyperparameters that ranks set: their bytes, their ranges, and which of them
 * a server takes for a push, without a network.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/terms.h"
#include "tests/unit/single.h"

/* ---- bytes ---- */

static void bytes_are_golden(void **state)
{
    (void)state;
    const struct gw_group_terms said = {0x01020304,
                                        {0.5, 0.25, 0.75, 0.875, 0.9375, 1e-8}};
    static const uint8_t golden[GW_TERMS_BYTES] = {
        0x04, 0x03, 0x02, 0x01, 0,    0,    0,    0,    0,    0,    0xe0,
        0x3f, 0,    0,    0,    0,    0,    0,    0xd0, 0x3f, 0,    0,
        0,    0,    0,    0,    0xe8, 0x3f, 0,    0,    0,    0,    0,
        0,    0xec, 0x3f, 0,    0,    0,    0,    0,    0,    0xee, 0x3f,
        0x3a, 0x8c, 0x30, 0xe2, 0x8e, 0x79, 0x45, 0x3e};
    struct gw_group_terms heard;
    uint8_t bytes[GW_TERMS_BYTES];
    double values[2];
    gw_terms_encode(&said, bytes);
    assert_memory_equal(bytes, golden, sizeof golden);
    gw_terms_decode(bytes, &heard);
    assert_int_equal(heard.group, said.group);
    assert_null(gw_terms_difference(&heard.terms, &said.terms, values));
}

/* ---- ranges ---- */

static void values_have_pytorch_s_ranges(void **state)
{
    (void)state;
    static const struct {
        struct gw_terms terms;
        const char *fault;
        double value;
    } rows[] = {
        {{.lr = 0}, NULL, 0},
        {{.lr = 100,
          .weight_decay = 5,
          .momentum = 1.5,
          .beta1 = 0.999999,
          .beta2 = 0,
          .eps = 0},
         NULL,
         0},
        {{.lr = -1e-300}, "lr", -1e-300},
        {{.lr = INFINITY}, "lr", INFINITY},
        {{.lr = 1e30}, "lr", 1e30},
        {{.weight_decay = -2}, "weight_decay", -2},
        {{.momentum = -0.5}, "momentum", -0.5},
        {{.beta1 = 1}, "beta1", 1},
        {{.beta2 = 2}, "beta2", 2},
        {{.eps = -1}, "eps", -1},
    };
    const struct gw_terms nothing = {.lr = NAN};
    double value;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *fault = gw_terms_fault(&rows[i].terms, &value);
        assert_int_equal(fault != NULL, rows[i].fault != NULL);
        if (!fault)
            continue;
        assert_string_equal(fault, rows[i].fault);
        assert_true(value == rows[i].value);
    }
    assert_string_equal(gw_terms_fault(&nothing, &value), "lr");
}

static void differences_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"lr",    "weight_decay", "momentum",
                                        "beta1", "beta2",        "eps"};
    const struct gw_terms one = {1, 2, 3, 4, 5, 6};
    double values[2];
    assert_null(gw_terms_difference(&one, &one, values));
    for (size_t i = 0; i < 6; i++) {
        struct gw_terms other = one;
        double *at = &other.lr;
        at[i] = 9;
        assert_string_equal(gw_terms_difference(&one, &other, values),
                            names[i]);
        assert_true(values[0] == (double)(i + 1) && values[1] == 9);
    }
}

/* ---- a server ---- */

enum {
    N = 4,
    STEPS = 8
};

static struct single one; /* large: not on the stack */

static const struct gw_key keys[] = {
    {.name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {N}},
    {.name = "b", .dtype = GW_DTYPE_F32, .dims = 1, .group = 1, .shape = {N}},
};

static void ignore(void *owner,
                   uint32_t rank,
                   const struct gw_frame *frame,
                   const void *payload)
{
    (void)owner, (void)rank, (void)frame, (void)payload;
}

static void open_server(const char *policy)
{
    const float zeros[N] = {0};
    single_open(&one, keys, 2, STEPS,
                SETTINGS("optimizer.kind=sgd", "optimizer.lr=1"),
                SETTINGS(policy));
    single_connect(&one, ignore, NULL);
    single_seed(&one, 0, zeros);
    single_seed(&one, 1, zeros);
}

/* Group 1 has twice the rate. */
static void set(uint32_t rank, uint64_t clock, double lr)
{
    uint8_t bytes[2 * GW_TERMS_BYTES];
    for (uint32_t group = 0; group < 2; group++) {
        const struct gw_group_terms terms = {group, {.lr = lr * (1 + group)}};
        gw_terms_encode(&terms, bytes + (size_t)group * GW_TERMS_BYTES);
    }
    const struct gw_frame frame = {.kind = GW_FRAME_TERMS,
                                   .clock = clock,
                                   .chunk = GW_CHUNK_NONE,
                                   .length = sizeof bytes,
                                   .decision = (uint32_t)one.server.decision};
    gw_session_frame(&one.server, &one.seat[rank].peer, 0, &frame, bytes);
}

/* A gradient of 1 per sample, of 8. */
static void push(uint32_t rank, uint64_t clock)
{
    const float g[N] = {8, 8, 8, 8};
    single_push(&one, rank, 0, clock, 8, g);
    single_push(&one, rank, 1, clock, 8, g);
    single_settle(&one);
}

static void went(double way)
{
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        double is = gw_shard_weights(one.server.shard, chunk)[N - 1];
        assert_true(fabs(is + way * (1 + chunk)) < 1e-6);
    }
}

/* Terms of the next step may come before a push of this one is applied. */
static void a_step_has_the_terms_of_its_clock(void **state)
{
    (void)state;
    open_server("train.commit=streaming");
    for (uint32_t rank = 0; rank < SINGLE_RANKS; rank++) {
        set(rank, 0, 0.5);
        set(rank, 1, 0.25);
    }
    for (uint64_t clock = 0; clock < 3; clock++)
        for (uint32_t rank = 0; rank < SINGLE_RANKS; rank++)
            push(rank, clock);
    went(0.5 + 0.25 + 0.25);
    single_close(&one);
}

/* However many steps change them, the shard keeps those of a few. */
static void terms_are_kept_for_a_few_clocks(void **state)
{
    static const char *const policies[] = {"cluster.policy=sync",
                                           "cluster.policy=async",
                                           "cluster.policy=\"ssp:3\""};
    (void)state;
    for (size_t p = 0; p < 3; p++) {
        double way = 0;
        open_server(policies[p]);
        for (uint64_t clock = 0; clock < STEPS; clock++) {
            double lr = ldexp(1, -(int)clock);
            for (uint32_t rank = 0; rank < SINGLE_RANKS; rank++) {
                set(rank, clock, lr);
                set(rank, clock, lr); /* a link came again */
                assert_true(one.server.session[rank].terms.n <= 2);
            }
            for (uint32_t rank = 0; rank < SINGLE_RANKS; rank++)
                push(rank, clock);
            way += lr;
        }
        went(way);
        assert_false(gw_server_is_over(&one.server));
        single_close(&one);
    }
}

/* Each push has its rank's; a rank without any has the job's. */
static void a_single_push_has_its_rank_s(void **state)
{
    (void)state;
    open_server("cluster.policy=async");
    set(1, 0, 0.5);
    set(2, 0, 0.25);
    push(1, 0);
    went(0.5 / 4);
    push(2, 0);
    went((0.5 + 0.25) / 4);
    const struct gw_terms terms = gw_terms_of_push(&one.server, 3, 0);
    assert_true(terms.lr == 1 && terms.eps == 1e-8);
    single_close(&one);
}

/* The rates of the pushes that make an update add up, as those of the job. */
static void a_group_of_pushes_has_the_sum_of_their_rates(void **state)
{
    (void)state;
    open_server("cluster.policy=\"stale-lr:2\"");
    set(0, 0, 0.5);
    set(1, 0, 0.25);
    push(0, 0);
    went(0);
    push(1, 0);
    went((0.5 + 0.25) / 4);
    single_close(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_golden),
        cmocka_unit_test(values_have_pytorch_s_ranges),
        cmocka_unit_test(differences_have_names),
        cmocka_unit_test(a_step_has_the_terms_of_its_clock),
        cmocka_unit_test(terms_are_kept_for_a_few_clocks),
        cmocka_unit_test(a_single_push_has_its_rank_s),
        cmocka_unit_test(a_group_of_pushes_has_the_sum_of_their_rates),
    };
    return cmocka_run_group_tests_name("terms", tests, NULL, NULL);
}
