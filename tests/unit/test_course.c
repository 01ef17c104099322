/*
 * proto/course: samples counted one by one over jobs that go on with other
 * steps, or another training set, wherever they were.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/config.h"
#include "proto/course.h"

#define SAMPLES_MAX 23
#define EPOCHS      6

static struct gw_course from_the_beginning(uint64_t batch, uint64_t samples)
{
    static const struct gw_course_cut beginning = {.clock = 0};
    return gw_course_go_on(&beginning, batch, samples);
}

static struct gw_course
go_on(struct gw_course course, uint64_t clock, uint64_t batch, uint64_t samples)
{
    const struct gw_course_cut cut = {course, clock};
    return gw_course_go_on(&cut, batch, samples);
}

/* How often each sample of each epoch was taken. */
struct tally {
    int counted[EPOCHS][SAMPLES_MAX];
};

static void
take(struct tally *tally, const struct gw_course *course, uint64_t clock)
{
    const struct gw_course_step step = gw_course_at(course, clock);
    assert_true(step.n >= 1 && step.n <= course->batch);
    assert_true(step.first + step.n <= course->samples);
    for (uint64_t i = step.first; i < step.first + step.n; i++)
        if (step.epoch < EPOCHS)
            tally->counted[step.epoch][i]++;
}

static void check(const struct tally *tally, uint64_t samples)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (uint64_t i = 0; i < samples; i++)
            assert_int_equal(tally->counted[epoch][i], 1);
}

/* Steps of a, then of b, then of c: cut after every number of steps of each. */
static void each_sample_comes_once(uint64_t samples,
                                   const uint64_t batch[3],
                                   uint64_t first,
                                   uint64_t second)
{
    struct tally tally = {0};
    struct gw_course course = from_the_beginning(batch[0], samples);
    uint64_t clock = 0;
    for (; clock < first; clock++)
        take(&tally, &course, clock);
    course = go_on(course, clock, batch[1], samples);
    for (; clock < first + second; clock++)
        take(&tally, &course, clock);
    course = go_on(course, clock, batch[2], samples);
    uint64_t end = gw_course_end(&course, EPOCHS);
    assert_true(end < 1000);
    for (; clock < end; clock++)
        take(&tally, &course, clock);
    check(&tally, samples);
    if (clock == end && course.clock < end)
        assert_int_equal(gw_course_at(&course, clock).first, 0);
}

static void each_sample_of_each_epoch_comes_once(void **state)
{
    (void)state;
    for (uint64_t samples = 1; samples <= SAMPLES_MAX; samples += 11)
        for (uint64_t a = 1; a < 30; a = 2 * a + 1)
            for (uint64_t b = 1; b < 30; b = 3 * b + 1)
                for (uint64_t first = 0; first < 9; first++)
                    for (uint64_t second = 0; second < 9; second += 2)
                        each_sample_comes_once(
                            samples, (uint64_t[]){a, b, a + 2}, first, second);
}

/* The course of a job that is as it was goes on as it was, to the bit. */
static void what_is_unchanged_stays(void **state)
{
    (void)state;
    struct gw_course course = from_the_beginning(4, 10);
    course = go_on(course, 5, 3, 10);
    const struct gw_course again = go_on(course, 9, 3, 10);
    assert_true(gw_course_is_same(&course, &again));
    /* an older checkpoint says neither of the two, or the batch alone */
    struct gw_course old = go_on((struct gw_course){.clock = 0}, 9, 3, 10);
    assert_int_equal(old.clock, 0);
    assert_int_equal(gw_course_at(&old, 9).epoch, 2);
    old = go_on((struct gw_course){.batch = 5}, 9, 3, 10);
    assert_int_equal(old.clock, 9);
    assert_int_equal(old.epoch, 4);
    assert_int_equal(old.sample, 5);
}

static void another_training_set_keeps_the_epoch(void **state)
{
    (void)state;
    struct gw_course course = from_the_beginning(4, 10);
    struct gw_course larger = go_on(course, 6, 4, 20);
    assert_int_equal(larger.epoch, 2);
    assert_int_equal(larger.sample, 0);
    larger = go_on(course, 7, 4, 20);
    assert_int_equal(larger.sample, 4);
    /* the place is no more: its epoch is over */
    struct gw_course smaller = go_on(course, 8, 4, 7);
    assert_int_equal(smaller.epoch, 3);
    assert_int_equal(smaller.sample, 0);
}

/* Both ways to tell when something is due, against steps counted by hand. */
static void check_dues(const struct gw_course *course,
                       const struct gw_every *every)
{
    const struct gw_course_beat beat = gw_course_beat_of(course, every);
    uint64_t dues = gw_course_dues(course, every, course->clock);
    for (uint64_t t = course->clock + 1; t < course->clock + 60; t++) {
        const struct gw_course_step before = gw_course_at(course, t - 1);
        int is_due = every->unit == GW_STEPS
                         ? t % every->n == 0
                         : before.first + before.n == course->samples &&
                               (before.epoch + 1) % every->n == 0;
        dues += is_due != 0;
        assert_int_equal(gw_course_dues(course, every, t), dues);
        assert_int_equal(beat.every > 0 && t >= beat.first &&
                             (t - beat.first) % beat.every == 0,
                         is_due);
    }
}

static void epochs_end_where_their_last_sample_is(void **state)
{
    (void)state;
    for (uint64_t batch = 1; batch < 12; batch++)
        for (uint64_t clock = 0; clock < 12; clock++)
            for (uint64_t n = 1; n < 5; n++) {
                struct gw_course course = from_the_beginning(3, 10);
                course = go_on(course, clock, batch, 10);
                check_dues(&course, &(struct gw_every){n, GW_EPOCHS});
                check_dues(&course, &(struct gw_every){n, GW_STEPS});
            }
}

static void never_due(void **state)
{
    (void)state;
    static const struct gw_every never[] = {
        {0, GW_STEPS}, {UINT64_MAX, GW_EPOCHS}, {1, GW_SECONDS}, {1, GW_NEVER}};
    const struct gw_course course = from_the_beginning(2, 7);
    const struct gw_course unknown = {.batch = 0};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        assert_int_equal(gw_course_dues(&course, &never[i], 1000), 0);
        assert_int_equal(gw_course_beat_of(&course, &never[i]).every, 0);
    }
    const struct gw_every epoch = {1, GW_EPOCHS};
    assert_int_equal(gw_course_dues(&unknown, &epoch, 1000), 0);
    assert_int_equal(gw_course_beat_of(&unknown, &epoch).every, 0);
    assert_int_equal(gw_course_steps(&unknown), 0);
    assert_true(gw_course_end(&unknown, 1) == UINT64_MAX);
    assert_true(gw_course_end(&course, UINT64_MAX) == UINT64_MAX);
}

/* Numbers that a stranger sends are refused, or harmless. */
static void strangers_break_nothing(void **state)
{
    (void)state;
    struct gw_course course = {.sample = 7, .batch = 1, .samples = 7};
    assert_false(gw_course_is_valid(&course));
    course = (struct gw_course){.sample = 1};
    assert_false(gw_course_is_valid(&course));
    course = (struct gw_course){.clock = UINT64_MAX,
                                .epoch = UINT64_MAX,
                                .sample = UINT64_MAX - 1,
                                .batch = UINT64_MAX,
                                .samples = UINT64_MAX};
    assert_true(gw_course_is_valid(&course));
    assert_int_equal(gw_course_at(&course, 0).n, 1);
    assert_int_equal(gw_course_at(&course, UINT64_MAX).n, 1);
    assert_true(gw_course_end(&course, 5) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_of_each_epoch_comes_once),
        cmocka_unit_test(what_is_unchanged_stays),
        cmocka_unit_test(another_training_set_keeps_the_epoch),
        cmocka_unit_test(epochs_end_where_their_last_sample_is),
        cmocka_unit_test(never_due),
        cmocka_unit_test(strangers_break_nothing),
    };
    return cmocka_run_group_tests_name("course", tests, NULL, NULL);
}
