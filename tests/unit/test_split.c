/*
 * Splits of a step: parts that add up, a worker's pace, sequences and their
 * files.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "proto/random.h"
#include "proto/split.h"
#include "server/policy/splits.h"
#include "worker/trainer/pace.h"
#include "worker/trainer/plan.h"

#define RANKS_MAX 4096

static struct gw_error error;

/* ---- parts ---- */

static void even_weights_give_even_parts(void **state)
{
    static uint32_t weight[RANKS_MAX];
    static const uint32_t ranks[] = {1, 2, 3, 5, 7, 16, 100, 4096};
    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        gw_split_even(ranks[i], weight);
        assert_true(gw_split_is_whole(weight, ranks[i]));
        for (uint64_t n = 0; n < 500; n += 1 + n / 7) {
            const struct gw_plan_run run = {.first = 1000, .n = n};
            uint64_t next = run.first;
            for (uint32_t rank = 0; rank < ranks[i]; rank++) {
                struct gw_plan_run part =
                    gw_plan_share(run, gw_split_range_of(weight, rank));
                assert_int_equal(part.first, next);
                assert_in_range(part.n, n / ranks[i],
                                n / ranks[i] + (n % ranks[i] != 0));
                next += part.n;
            }
            assert_int_equal(next, run.first + n);
        }
    }
}

/* Any weights: contiguous, in order, the whole run, to a sample what they
   say. */
static void parts_follow_the_weights(void **state)
{
    (void)state;
    for (uint32_t draw = 0; draw < 300; draw++) {
        uint32_t bits[4], weight[4];
        gw_random4(7, GW_RANDOM_TEST, draw, 0, bits);
        weight[0] = bits[0] % GW_SPLIT_TOTAL;
        weight[1] = bits[1] % (GW_SPLIT_TOTAL - weight[0] + 1);
        weight[2] = 0;
        weight[3] = GW_SPLIT_TOTAL - weight[0] - weight[1];
        const struct gw_plan_run run = {.first = bits[2], .n = bits[3] % 5000};
        uint64_t next = run.first;
        for (uint32_t rank = 0; rank < 4; rank++) {
            struct gw_plan_run part =
                gw_plan_share(run, gw_split_range_of(weight, rank));
            double exact = (double)run.n * weight[rank] / GW_SPLIT_TOTAL;
            assert_int_equal(part.first, next);
            assert_true((double)part.n > exact - 1 &&
                        (double)part.n < exact + 1);
            next += part.n;
        }
        assert_int_equal(next, run.first + run.n);
    }
    /* nothing is lost beyond 64 bits */
    const struct gw_plan_run all = {.n = UINT64_MAX};
    struct gw_plan_run most =
        gw_plan_share(all, (struct gw_split_range){1, GW_SPLIT_TOTAL});
    assert_true(most.first == (UINT64_MAX >> 20) + 1 &&
                most.n == UINT64_MAX - most.first);
}

static void known_parts(void **state)
{
    (void)state;
    /* 80 % and 20 % of ten and of a short step; halves go up */
    const uint32_t weight[] = {838861, 209715};
    const struct gw_plan_run ten = {.n = 10}, three = {.n = 3}, one = {.n = 1};
    struct gw_split_range slow = gw_split_range_of(weight, 1);
    assert_int_equal(slow.begin, 838861);
    assert_int_equal(slow.end, GW_SPLIT_TOTAL);
    assert_int_equal(gw_plan_share(ten, slow).first, 8);
    assert_int_equal(gw_plan_share(ten, slow).n, 2);
    assert_int_equal(gw_plan_share(three, slow).first, 2);
    assert_int_equal(gw_plan_share(one, slow).n, 0);
    const uint32_t half[] = {GW_SPLIT_TOTAL / 2, GW_SPLIT_TOTAL / 2};
    assert_int_equal(gw_plan_share(one, gw_split_range_of(half, 0)).n, 1);
}

/* A part of twice the mean is one batch; memory is bounded by that. */
static void batches_are_of_twice_the_mean(void **state)
{
    (void)state;
    static const struct {
        uint64_t global_batch, accumulate, samples, workers, wanted;
    } cases[] = {{120, 1, 1000, 4, 60},  {120, 1, 1000, 2, 120},
                 {120, 1, 1000, 1, 120}, {120, 3, 1000, 4, 20},
                 {120, 1, 30, 4, 16},    {5, 1, 1000, 4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gw_config config = {
            .train = {.global_batch = cases[i].global_batch,
                      .accumulate = cases[i].accumulate,
                      .split = "speed",
                      .epochs = 1}};
        struct gw_plan plan;
        assert_int_equal(gw_plan_make(&config, cases[i].samples,
                                      cases[i].workers, NULL, &plan, &error),
                         GW_OK);
        assert_int_equal(plan.max_batch, cases[i].wanted);
        assert_int_equal(plan.course.batch, cases[i].global_batch);
    }
}

static void weights_from_outside(void **state)
{
    uint32_t weight[2];
    (void)state;
    static const double good[] = {1, GW_SPLIT_TOTAL - 1};
    static const double bad[][2] = {{0.5, GW_SPLIT_TOTAL - 0.5},
                                    {-1, GW_SPLIT_TOTAL + 1},
                                    {0, GW_SPLIT_TOTAL - 1},
                                    {0.0 / 0.0, GW_SPLIT_TOTAL},
                                    {1e300, 0}};
    assert_true(gw_split_from_values(good, 2, weight));
    assert_int_equal(weight[1], GW_SPLIT_TOTAL - 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(gw_split_from_values(bad[i], 2, weight));
    const uint32_t wraps[] = {UINT32_MAX, GW_SPLIT_TOTAL + 1};
    assert_false(gw_split_is_whole(wraps, 2));
}

/* ---- a worker's pace ---- */

struct runner {
    struct gw_pace pace;
    struct gw_pace_window said;
    uint64_t now_us, clock, share;
    unsigned times; /* that something was said */
};

static void run(struct runner *runner,
                uint64_t wall_us,
                uint64_t busy_us,
                uint64_t samples,
                int gave_up)
{
    const struct gw_pace_step step = {.clock = runner->clock++,
                                      .began_us = runner->now_us,
                                      .ended_us = runner->now_us + wall_us,
                                      .busy_us = busy_us,
                                      .samples = samples,
                                      .share = runner->share,
                                      .gave_up = gave_up};
    runner->now_us += wall_us;
    runner->times += gw_pace_take(&runner->pace, &step, &runner->said) != 0;
}

static void waiting_is_no_computing(void **state)
{
    struct runner runner = {0};
    (void)state;
    for (int i = 0; i < 100; i++)
        run(&runner, 40000, 10000, 50, 0);
    assert_true(runner.said.samples_per_s == 5000);
    /* 4 s: four times a second at most */
    assert_in_range(runner.times, 8, 14);
}

/* A process that runs 20 ms of 80, in steps of 7 ms of computing: some steps
   take 7 ms and some 67. */
static void stops_count_as_much_as_they_last(void **state)
{
    struct runner runner = {0};
    uint64_t cpu_us = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        uint64_t stops = (cpu_us + 7000) / 20000 - cpu_us / 20000;
        cpu_us += 7000;
        run(&runner, 7000 + stops * 60000, 7000 + stops * 60000, 28, 0);
        if (runner.times)
            assert_true(runner.said.samples_per_s > 850 &&
                        runner.said.samples_per_s < 1150);
    }
    assert_true(runner.times > 100);
}

static void one_window_decides_nothing(void **state)
{
    struct runner runner = {0};
    (void)state;
    for (int i = 0; i < 60; i++)
        run(&runner, i == 30 ? 9000000 : 100000, i == 30 ? 9000000 : 100000,
            100, 0);
    assert_true(runner.said.samples_per_s == 1000);
    assert_true(runner.times > 10);
}

static void another_share_is_measured_anew(void **state)
{
    struct runner runner = {0};
    (void)state;
    for (int i = 0; i < 10; i++)
        run(&runner, 300000, 300000, 300, 0);
    assert_int_equal(runner.times, 8);
    assert_int_equal(runner.said.clock, 7);
    runner.share = 10;
    run(&runner, 300000, 300000, 600, 0);
    run(&runner, 300000, 300000, 600, 0);
    assert_int_equal(runner.times, 8);
    run(&runner, 300000, 300000, 600, 0);
    assert_int_equal(runner.times, 9);
    assert_int_equal(runner.said.clock, 10);
    assert_true(runner.said.samples_per_s == 2000);
}

/* Steps without samples say nothing; who always gives up is slow. */
static void idle_and_late_steps(void **state)
{
    struct runner runner = {0};
    (void)state;
    for (int i = 0; i < 10; i++)
        run(&runner, 300000, 300000, 0, 0);
    assert_int_equal(runner.times, 0);
    for (int i = 0; i < 10; i++)
        run(&runner, 300000, 300000, 300, 1);
    assert_true(runner.said.samples_per_s == 500);
    /* a step that was done says more than those that were not */
    for (int i = 0; i < 30; i++)
        run(&runner, 100000, 100000, 300, i % 3 != 0);
    assert_true(runner.said.samples_per_s == 3000);
}

/* ---- sequences ---- */

static void later_splits_make_room(void **state)
{
    struct gw_splits splits = {.ranks = 1};
    const uint32_t weight = GW_SPLIT_TOTAL;
    (void)state;
    for (uint64_t clock = 0; clock < 100; clock += 10)
        assert_int_equal(gw_splits_add(&splits, clock, &weight), GW_OK);
    assert_int_equal(splits.n, 10);
    assert_int_equal(gw_splits_add(&splits, 35, &weight), GW_OK);
    assert_int_equal(splits.n, 5);
    assert_int_equal(splits.clock[4], 35);
    assert_int_equal(gw_splits_add(&splits, 35, &weight), GW_OK);
    assert_int_equal(splits.n, 5);
    assert_ptr_equal(gw_splits_at(&splits, 9), splits.weight);
    assert_ptr_equal(gw_splits_at(&splits, 10), splits.weight + 1);
    assert_ptr_equal(gw_splits_at(&splits, 1000), splits.weight + 4);
    gw_splits_free(&splits);
    splits.ranks = 1;
    assert_int_equal(gw_splits_add(&splits, 5, &weight), GW_OK);
    assert_null(gw_splits_at(&splits, 4));
    gw_splits_free(&splits);
}

static void read_text(const char *text,
                      uint64_t first,
                      enum gw_status wanted,
                      const char *line)
{
    char path[] = "/tmp/gw-test-split-XXXXXX";
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    struct gw_splits splits;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    error.text[0] = '\0';
    enum gw_status status =
        gw_splits_read(&disk, path, 2, first, &splits, &error);
    unlink(path);
    if (status != wanted || (line && !strstr(error.text, line)))
        fail_msg("%d: \"%s\" for %s", status, error.text, text);
    if (wanted == GW_OK)
        assert_int_equal(splits.n, 2);
    gw_splits_free(&splits);
}

#define EVEN  "{\"split_step\":0,\"split_weights\":[524288,524288]}\n"
#define LATER "{\"split_step\":7,\"split_weights\":[0,1048576]}"

static void files_of_runs(void **state)
{
    struct gw_splits splits;
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    (void)state;
    read_text(EVEN LATER "\n", 0, GW_OK, NULL);
    read_text(EVEN "{\"step\":0,\"split\":[5,5]}\n\n" LATER, 100, GW_OK, NULL);
    /* one that went on from step 7 took the place of what came later */
    read_text(EVEN "{\"split_step\":9,\"split_weights\":[9,1048567]}\n" LATER,
              0, GW_OK, NULL);
    read_text("", 0, GW_EUSAGE, "has no split in it");
    read_text("{\"step\":0}\n", 0, GW_EUSAGE, "has no split in it");
    read_text(LATER, 6, GW_EUSAGE, "begins at step 7, this run at step 6");
    read_text("\n" EVEN "{\"split_step\":1,\"split_weights\":[1,2]}\n", 0,
              GW_ECORRUPT, ":3: the weights do not add up");
    read_text("{\"split_step\":1,\"split_weights\":[1048576]}", 0, GW_EMISMATCH,
              ":1: a split of 1 workers, this job has 2");
    read_text("{\"split_step\":1,\"split_weights\":[-1,1048577]}", 0,
              GW_ECORRUPT, "out of range");
    read_text("{\"split_step\":-1,\"split_weights\":[0,1048576]}", 0,
              GW_ECORRUPT, "no split");
    read_text("{\"split_weights\":3}", 0, GW_ECORRUPT, "no split");
    read_text("{\"split_step\":1,\"split_weights\":[0,10485", 0, GW_ECORRUPT,
              ":1: ");
    assert_int_equal(
        gw_splits_read(&disk, "/nonexistent/run.json", 2, 0, &splits, &error),
        GW_ENOENT);
    assert_true(strncmp(error.text, "train.split_from", 16) == 0);
    gw_splits_free(&splits);
}

/* More than is read at once, and a line that is longer than any may be. */
static void long_files(void **state)
{
    static char text[3 * GW_SPLITS_LINE_MAX + 256];
    size_t n = 0;
    (void)state;
    strcpy(text, EVEN);
    n = strlen(text);
    while (n < 2 * GW_SPLITS_LINE_MAX)
        n += (size_t)sprintf(text + n, "{\"step\":%zu,\"loss\":0.5}\n", n);
    strcpy(text + n, LATER);
    read_text(text, 0, GW_OK, NULL);
    memset(text, 'x', 2 * GW_SPLITS_LINE_MAX);
    read_text(text, 0, GW_ECORRUPT, ":1: the line is too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_weights_give_even_parts),
        cmocka_unit_test(parts_follow_the_weights),
        cmocka_unit_test(known_parts),
        cmocka_unit_test(batches_are_of_twice_the_mean),
        cmocka_unit_test(weights_from_outside),
        cmocka_unit_test(waiting_is_no_computing),
        cmocka_unit_test(stops_count_as_much_as_they_last),
        cmocka_unit_test(one_window_decides_nothing),
        cmocka_unit_test(another_share_is_measured_anew),
        cmocka_unit_test(idle_and_late_steps),
        cmocka_unit_test(later_splits_make_room),
        cmocka_unit_test(files_of_runs),
        cmocka_unit_test(long_files),
    };
    return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
