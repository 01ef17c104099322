/* worker/trainer/plan: the shares of every step against samples counted one by
 * one. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "worker/trainer/plan.h"

#define SAMPLES_MAX 70

static struct gw_plan
make(const struct gw_config *config, uint64_t samples, uint64_t workers)
{
    struct gw_plan plan = {0};
    struct gw_error error = {.text = ""};
    if (gw_plan_make(config, samples, workers, NULL, &plan, &error) != GW_OK)
        fail_msg("%s", error.text);
    return plan;
}

/* The owner of every sample of an epoch, written down one sample at a time. */
struct tally {
    int step[SAMPLES_MAX], rank[SAMPLES_MAX], batch[SAMPLES_MAX];
    int counted[SAMPLES_MAX];
};

static void count_step(const struct gw_plan *plan, uint64_t t, struct tally *to)
{
    struct gw_plan_step step = gw_plan_step(plan, t);
    for (uint64_t r = 0; r < plan->workers; r++) {
        struct gw_plan_run part = gw_plan_part(step.run, plan->workers, r);
        uint64_t batches = gw_plan_batches(part, plan->max_batch);
        assert_true(batches <= plan->accumulate);
        for (uint64_t b = 0; b < batches; b++) {
            struct gw_plan_run run = gw_plan_batch(part, plan->max_batch, b);
            assert_in_range(run.n, 1, plan->max_batch);
            for (uint64_t i = run.first; i < run.first + run.n; i++) {
                assert_true(i < plan->course.samples);
                to->counted[i]++;
                to->step[i] = (int)t;
                to->rank[i] = (int)r;
                to->batch[i] = (int)b;
            }
        }
    }
}

/* Brute force: sample after sample, full steps, ranks in order. */
static void check_epoch(const struct gw_plan *plan, uint32_t epoch)
{
    struct tally tally = {.counted = {0}};
    uint64_t begin = epoch * gw_course_steps(&plan->course);
    for (uint64_t t = 0; t < gw_course_steps(&plan->course); t++) {
        assert_int_equal(gw_plan_step(plan, begin + t).epoch, epoch);
        count_step(plan, begin + t, &tally);
    }
    for (uint64_t i = 0; i < plan->course.samples; i++) {
        assert_int_equal(tally.counted[i], 1);
        assert_int_equal((uint64_t)tally.step[i] - begin,
                         i / plan->course.batch);
        if (i == 0 || tally.step[i] != tally.step[i - 1])
            continue;
        assert_true(tally.rank[i] >= tally.rank[i - 1]);
        assert_true(tally.rank[i] > tally.rank[i - 1] ||
                    tally.batch[i] >= tally.batch[i - 1]);
    }
}

/* Sizes of parts differ by at most one, and the end of the last is the end. */
static void check_parts(uint64_t n, uint64_t parts)
{
    struct gw_plan_run run = {.first = 1000, .n = n};
    uint64_t next = run.first;
    for (uint64_t p = 0; p < parts; p++) {
        struct gw_plan_run part = gw_plan_part(run, parts, p);
        assert_int_equal(part.first, next);
        assert_in_range(part.n, n / parts, n / parts + (n % parts != 0));
        next += part.n;
    }
    assert_int_equal(next, run.first + n);
}

static void every_sample_counts_once(void **state)
{
    (void)state;
    for (uint64_t samples = 1; samples <= SAMPLES_MAX; samples += 3)
        for (uint64_t workers = 1; workers <= 9; workers++)
            for (uint64_t accumulate = 1; accumulate <= 3; accumulate++)
                for (uint64_t batch = 1; batch <= 80; batch = batch * 2 + 1) {
                    struct gw_config config = {
                        .train = {.batch = batch,
                                  .accumulate = accumulate,
                                  .epochs = 3}};
                    struct gw_plan plan = make(&config, samples, workers);
                    assert_int_equal(plan.course.batch,
                                     batch * workers * accumulate);
                    assert_true(plan.max_batch <= batch);
                    assert_int_equal(plan.steps,
                                     3 * gw_course_steps(&plan.course));
                    check_epoch(&plan, 0);
                    check_epoch(&plan, 2);

                    config.train.batch = 0;
                    config.train.global_batch = batch;
                    plan = make(&config, samples, workers);
                    assert_int_equal(plan.course.batch, batch);
                    check_epoch(&plan, 1);
                }
}

static void parts_are_even(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 40; n++)
        for (uint64_t parts = 1; parts < 45; parts++)
            check_parts(n, parts);
    check_parts((uint64_t)1 << 62, 3);
    struct gw_plan_run all = {.n = UINT64_MAX};
    struct gw_plan_run last = gw_plan_part(all, UINT64_MAX, UINT64_MAX - 1);
    assert_true(last.first == UINT64_MAX - 1 && last.n == 1);
}

/* Worked by hand from the definitions. */
static void known_plans(void **state)
{
    (void)state;
    static const struct {
        uint64_t batch, global_batch, accumulate, samples, workers;
        uint64_t wanted_global, wanted_max, wanted_steps, last_n;
    } cases[] = {
        {64, 0, 1, 60000, 2, 128, 64, 469, 96},
        {0, 128, 1, 60000, 3, 128, 43, 469, 96},
        {32, 0, 3, 60000, 2, 192, 32, 313, 96},
        {0, 100, 3, 250, 2, 100, 17, 3, 50},
        {64, 0, 1, 10, 4, 256, 3, 1, 10},
        {1, 0, 1, 1, 8, 8, 1, 1, 1},
        {0, 1, 3, 5, 4, 1, 1, 5, 1},
        {16, 0, 1, 64, 2, 32, 16, 2, 32},
        {16, 0, 0, 64, 2, 32, 16, 2, 32}, /* accumulate not given */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gw_config config = {
            .train = {.batch = cases[i].batch,
                      .global_batch = cases[i].global_batch,
                      .accumulate = cases[i].accumulate,
                      .epochs = 1}};
        struct gw_plan plan = make(&config, cases[i].samples, cases[i].workers);
        assert_int_equal(plan.course.batch, cases[i].wanted_global);
        assert_int_equal(plan.max_batch, cases[i].wanted_max);
        assert_int_equal(gw_course_steps(&plan.course), cases[i].wanted_steps);
        assert_int_equal(plan.steps, cases[i].wanted_steps);
        assert_int_equal(gw_plan_step(&plan, plan.steps - 1).run.n,
                         cases[i].last_n);
    }
}

static void steps_wrap_into_epochs(void **state)
{
    (void)state;
    struct gw_config config = {.train = {.batch = 3, .steps = 10}};
    struct gw_plan plan = make(&config, 7, 1);
    static const struct {
        uint32_t epoch;
        uint64_t first, n;
    } wanted[10] = {{0, 0, 3}, {0, 3, 3}, {0, 6, 1}, {1, 0, 3}, {1, 3, 3},
                    {1, 6, 1}, {2, 0, 3}, {2, 3, 3}, {2, 6, 1}, {3, 0, 3}};
    assert_int_equal(plan.steps, 10);
    for (uint64_t t = 0; t < 10; t++) {
        struct gw_plan_step step = gw_plan_step(&plan, t);
        assert_int_equal(step.epoch, wanted[t].epoch);
        assert_int_equal(step.run.first, wanted[t].first);
        assert_int_equal(step.run.n, wanted[t].n);
    }
}

static void impossible_plans_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t batch, accumulate, epochs, steps, workers;
        const char *inside;
    } cases[] = {
        {UINT64_MAX, 2, 1, 0, 1, "train.batch"},
        {(uint64_t)1 << 40, 1 << 20, 1, 0, 16, "train.accumulate"},
        {0, 1, 1, 0, 1, "train.global_batch"},
        {1, 1, 0, 0, 1, "train.epochs and train.steps"},
        {1, 1, UINT64_MAX, 0, 1, "beyond 64 bits"},
        {1, 1, ((uint64_t)1 << 32) + 1, 0, 1, "more than 2^32"},
        {1, 1, 0, UINT64_MAX, 1, "more than 2^32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gw_config config = {.train = {.batch = cases[i].batch,
                                             .accumulate = cases[i].accumulate,
                                             .epochs = cases[i].epochs,
                                             .steps = cases[i].steps}};
        struct gw_plan plan = {.steps = 77};
        struct gw_error error = {.text = ""};
        assert_int_equal(
            gw_plan_make(&config, 10, cases[i].workers, NULL, &plan, &error),
            GW_EUSAGE);
        assert_int_equal(plan.steps, 77);
        if (!strstr(error.text, cases[i].inside))
            fail_msg("\"%s\" lacks \"%s\"", error.text, cases[i].inside);
    }
    struct gw_config config = {
        .train = {.batch = 1, .epochs = (uint64_t)1 << 32}};
    struct gw_plan plan = make(&config, 10, 1);
    assert_int_equal(gw_plan_step(&plan, plan.steps - 1).epoch, UINT32_MAX);
}

/* A push has 32 bits for the samples of a round. */
static void long_rounds_do_not_fit_a_push(void **state)
{
    (void)state;
    static const struct {
        uint64_t global_batch, samples, workers;
        const char *split;
        uint64_t most; /* steps that fit */
    } cases[] = {
        {256, 60000, 4, "even", UINT32_MAX / 64},
        {256, 60000, 4, "speed", UINT32_MAX / 256},
        {1000, 300, 3, "even", UINT32_MAX / 100},
        {1, 300, 2, "even", UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gw_config config = {
            .train = {.global_batch = cases[i].global_batch, .epochs = 1}};
        snprintf(config.train.split, sizeof config.train.split, "%s",
                 cases[i].split);
        struct gw_plan plan = make(&config, cases[i].samples, cases[i].workers);
        assert_true(gw_plan_fits_push(&plan, cases[i].most));
        assert_false(gw_plan_fits_push(&plan, cases[i].most + 1));
        assert_false(gw_plan_fits_push(&plan, UINT64_MAX));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_counts_once),
        cmocka_unit_test(parts_are_even),
        cmocka_unit_test(known_plans),
        cmocka_unit_test(steps_wrap_into_epochs),
        cmocka_unit_test(impossible_plans_are_refused),
        cmocka_unit_test(long_rounds_do_not_fit_a_push),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
