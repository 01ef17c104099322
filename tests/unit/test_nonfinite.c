/*
 * train.nonfinite = pass where servers only average (optimizer.kind = none): a
 * step that overflows is given to the workers as it is, and the next one owes
 * it nothing. So a trainer with an optimizer of its own may throw a step away.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/single.h"

enum {
    N = 11,
    STEPS = 6,
    OVERFLOW_AT = 2
};

static struct single one; /* large: not on the stack */

static void ignore(void *owner,
                   uint32_t rank,
                   const struct gw_frame *frame,
                   const void *payload)
{
    (void)owner, (void)rank, (void)frame, (void)payload;
}

static void push_step(uint64_t clock, float value)
{
    for (uint32_t rank = 0; rank < SINGLE_RANKS; rank++) {
        float g[N];
        for (size_t i = 0; i < N; i++)
            g[i] = value * (float)(8 * (i + 1));
        if (clock == OVERFLOW_AT)
            g[3] = rank == 1 ? INFINITY : NAN;
        single_push(&one, rank, 0, clock, 8, g);
    }
    single_settle(&one);
}

static void assert_step(uint64_t clock, float value)
{
    const float *w = gw_shard_weights(one.server.shard, 0);
    assert_int_equal(one.server.shard->chunk[0].updates,
                     (one.server.regime.per_push ? SINGLE_RANKS : 1) *
                         (clock + 1));
    for (size_t i = 0; i < N; i++)
        if (clock == OVERFLOW_AT && i == 3)
            assert_true(!isfinite(w[i]));
        else
            assert_true(w[i] == value * (float)(i + 1));
}

static void a_step_that_overflows_is_the_only_one(void **state)
{
    (void)state;
    static const char *const how[] = {
        "train.commit=streaming", "train.commit=whole", "cluster.policy=async"};
    const struct gw_key key = {
        .name = "w", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {N}};
    const float zeros[N] = {0};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        single_open(&one, &key, 1, STEPS + 1,
                    SETTINGS("optimizer.kind=none", "train.nonfinite=pass"),
                    SETTINGS(how[i]));
        single_connect(&one, ignore, NULL);
        single_seed(&one, 0, zeros);
        for (uint64_t clock = 0; clock < STEPS; clock++) {
            push_step(clock, (float)(clock + 1));
            assert_step(clock, (float)(clock + 1));
        }
        single_close(&one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_overflows_is_the_only_one),
    };
    return cmocka_run_group_tests_name("nonfinite", tests, NULL, NULL);
}
