/*
 * transport/link/loop_uv_turn, backlog: a turn of a loop has its time, whatever
 * waits; timers do not wait for work, and who lasts is heard.
 */
#include "config.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/metrics.h"
#include "transport/link/backlog.h"
#include "transport/sim/sim.h"

#define PIECES 40

/* Pieces of work of a millisecond each. */
struct work {
    struct gw_loop *loop;
    struct gw_backlog backlog;
    uint32_t looked[4 * PIECES];
    uint32_t n;
    uint32_t again; /* this one adds itself, so many times */
    unsigned times;
    uint64_t timer_us;     /* after the first piece has begun; 0: none */
    uint32_t before_timer; /* that were begun when it fired */
    struct gw_timer timer;
};

static void be_busy(struct gw_loop *loop, uint64_t us)
{
    uint64_t until = gw_loop_now(loop) + us;
    while (gw_loop_now(loop) < until)
        continue;
}

static void look(void *owner, uint32_t number)
{
    struct work *work = owner;
    if (work->n == 0 && work->timer_us)
        gw_timer_start(work->loop, &work->timer, work->timer_us);
    work->looked[work->n++] = number;
    if (number == work->again && work->times > 0) {
        work->times--;
        gw_backlog_add(&work->backlog, number);
    }
    be_busy(work->loop, 1000);
    if (work->backlog.waiting == 0)
        gw_loop_stop(work->loop);
}

static void on_timer(struct gw_timer *timer)
{
    struct work *work = timer->owner;
    work->before_timer = work->n;
}

static void work_open(struct work *work)
{
    struct gw_error error;
    *work = (struct work){.again = UINT32_MAX, .before_timer = UINT32_MAX};
    assert_int_equal(gw_loop_open_uv(&work->loop, &error), GW_OK);
    work->backlog.loop = work->loop;
    work->backlog.handle = look;
    work->backlog.owner = work;
    work->timer = (struct gw_timer){.fire = on_timer, .owner = work};
    assert_int_equal(gw_backlog_open(&work->backlog, PIECES), GW_OK);
}

static void work_close(struct work *work)
{
    gw_backlog_close(&work->backlog);
    gw_timer_stop(work->loop, &work->timer);
    gw_loop_close(work->loop);
}

/* 40 ms of work and a timer of 10: it fires after two turns or three, or sooner
   where others have the processor meanwhile. */
static void a_timer_does_not_wait_for_a_backlog(void **state)
{
    struct work work;
    (void)state;
    work_open(&work);
    work.timer_us = 10000;
    for (uint32_t i = 0; i < PIECES; i++)
        gw_backlog_add(&work.backlog, i);
    assert_int_equal(work.n, 0);
    gw_loop_run(work.loop);
    assert_int_equal(work.n, PIECES);
    assert_in_range(work.before_timer, 0, 25);
    work_close(&work);
}

static void pieces_come_in_their_order_and_once(void **state)
{
    struct work work;
    (void)state;
    work_open(&work);
    gw_backlog_add(&work.backlog, 7);
    gw_backlog_add(&work.backlog, 3);
    gw_backlog_add(&work.backlog, 7);
    gw_backlog_add(&work.backlog, PIECES - 1);
    gw_loop_run(work.loop);
    const uint32_t order[] = {7, 3, PIECES - 1};
    assert_int_equal(work.n, 3);
    assert_memory_equal(work.looked, order, sizeof order);
    work_close(&work);
}

/* Behind the others, though it was there before. */
static void a_piece_may_add_itself(void **state)
{
    struct work work;
    (void)state;
    work_open(&work);
    work.again = 5;
    work.times = 2;
    gw_backlog_add(&work.backlog, 5);
    gw_backlog_add(&work.backlog, 6);
    gw_loop_run(work.loop);
    const uint32_t order[] = {5, 6, 5, 5};
    assert_int_equal(work.n, 4);
    assert_memory_equal(work.looked, order, sizeof order);
    work_close(&work);
}

/* A few at once, the rest in turns. */
static void all_are_begun_within_the_turn(void **state)
{
    struct work work;
    (void)state;
    work_open(&work);
    gw_backlog_add_all(&work.backlog);
    assert_in_range(work.n, 1, 10);
    gw_loop_run(work.loop);
    assert_int_equal(work.n, PIECES);
    for (uint32_t i = 0; i < PIECES; i++)
        assert_int_equal(work.looked[i], i);
    work_close(&work);
}

/* ---- tasks ---- */

struct tasks {
    struct gw_loop *loop;
    struct gw_task task[8];
    struct gw_timer timer;
    unsigned ran, before_timer;
};

static void on_task(struct gw_task *task)
{
    struct tasks *tasks = task->owner;
    if (tasks->ran == 0)
        gw_timer_start(tasks->loop, &tasks->timer, 7000);
    be_busy(tasks->loop, 6000);
    if (++tasks->ran == 7)
        gw_loop_stop(tasks->loop);
    if (tasks->ran == 1) /* the one behind is not called any more */
        gw_loop_unpost(tasks->loop, &tasks->task[1]);
}

static void on_other_timer(struct gw_timer *timer)
{
    struct tasks *tasks = timer->owner;
    tasks->before_timer = tasks->ran;
}

static void a_timer_does_not_wait_for_tasks(void **state)
{
    struct tasks tasks = {.before_timer = UINT_MAX};
    struct gw_error error;
    (void)state;
    assert_int_equal(gw_loop_open_uv(&tasks.loop, &error), GW_OK);
    tasks.timer = (struct gw_timer){.fire = on_other_timer, .owner = &tasks};
    for (int i = 0; i < 8; i++) {
        tasks.task[i] = (struct gw_task){.run = on_task, .owner = &tasks};
        gw_loop_post(tasks.loop, &tasks.task[i]);
    }
    gw_loop_run(tasks.loop);
    assert_int_equal(tasks.ran, 7);
    assert_in_range(tasks.before_timer, 0, 4);
    gw_loop_close(tasks.loop);
}

/* ---- turns ---- */

static void rest(struct gw_timer *timer)
{
    gw_loop_stop(timer->owner);
}

/* Whether a turn is still to be had when the loop has slept so long: not at
   each try where others have the processor too. */
static int has_turn_after(struct gw_loop *loop, uint64_t sleep_us)
{
    struct gw_timer timer = {.fire = rest, .owner = loop};
    for (int tries = 0; tries < 20; tries++) {
        gw_timer_start(loop, &timer, sleep_us);
        gw_loop_run(loop);
        if (!gw_loop_turn_is_over(loop))
            return 1;
    }
    return 0;
}

/* A loop that has slept has not spent the time. */
static void a_turn_begins_with_the_wake(void **state)
{
    struct gw_loop *loop;
    struct gw_error error;
    (void)state;
    assert_int_equal(gw_loop_open_uv(&loop, &error), GW_OK);
    assert_true(has_turn_after(loop, 4 * GW_TURN_US));
    be_busy(loop, GW_TURN_US + 2000);
    assert_int_equal(gw_loop_turn_is_over(loop), 1);
    assert_true(has_turn_after(loop, 1000));
    gw_loop_close(loop);
}

static void last(struct gw_task *task)
{
    struct gw_loop *loop = task->owner;
    be_busy(loop, 30000);
    gw_loop_stop(loop);
}

static void the_longest_turn_is_counted(void **state)
{
    struct gw_loop *loop;
    struct gw_error error;
    struct gw_metrics metrics = {0};
    struct gw_timer timer = {.fire = rest};
    struct gw_task task = {.run = last};
    (void)state;
    assert_int_equal(gw_loop_open_uv(&loop, &error), GW_OK);
    loop->metrics = &metrics;
    timer.owner = task.owner = loop;
    gw_loop_post(loop, &task);
    gw_loop_run(loop);
    gw_timer_start(loop, &timer, 20000); /* asleep, which counts for nothing */
    gw_loop_run(loop);
    assert_in_range(gw_metrics_get(&metrics, GW_METRIC_LONGEST_TURN_US), 28000,
                    500000);
    gw_loop_close(loop);
}

/* ---- pulses ---- */

struct heart {
    struct gw_pulse pulse;
    unsigned beats;
};

static void beat(struct gw_pulse *pulse, uint64_t now_us)
{
    (void)now_us;
    GW_CONTAINER(pulse, struct heart, pulse)->beats++;
}

static void who_asks_for_the_turn_is_heard(void **state)
{
    struct gw_loop *loop;
    struct gw_error error;
    struct heart one = {.pulse.beat = beat}, other = {.pulse.beat = beat};
    (void)state;
    assert_int_equal(gw_loop_open_uv(&loop, &error), GW_OK);
    gw_loop_pulse_begin(loop, &one.pulse);
    gw_loop_pulse_begin(loop, &other.pulse);
    gw_loop_turn_is_over(loop);
    gw_loop_pulse_end(loop, &one.pulse);
    gw_loop_pulse(loop);
    gw_loop_pulse_end(loop, &other.pulse);
    gw_loop_pulse(loop);
    assert_int_equal(one.beats, 1);
    assert_int_equal(other.beats, 2);
    gw_loop_close(loop);
}

/* ---- in simulation ---- */

struct worker {
    struct gw_loop *loop;
    struct gw_timer work, tick;
    uint64_t worked_us, ticked_us;
    int over_before, over_after;
};

static void do_work(struct gw_timer *timer)
{
    struct worker *worker = timer->owner;
    worker->over_before = gw_loop_turn_is_over(worker->loop);
    gw_loop_worked(worker->loop, 20 * 1000 * 1000);
    worker->over_after = gw_loop_turn_is_over(worker->loop);
    worker->worked_us = gw_loop_now(worker->loop);
}

static void tick(struct gw_timer *timer)
{
    struct worker *worker = timer->owner;
    worker->ticked_us = gw_loop_now(worker->loop);
}

static int never(void *owner)
{
    (void)owner;
    return 0;
}

/* 20 MB at 1 GB/s are 20 ms, in which what is due waits. */
static void simulated_work_takes_its_time(void **state)
{
    const struct gw_sim_options options = {.seed = 1};
    struct gw_metrics metrics = {0};
    struct gw_sim *sim;
    struct gw_error error;
    struct worker worker = {.work.fire = do_work, .tick.fire = tick};
    (void)state;
    assert_int_equal(gw_sim_create(&options, &sim, &error), GW_OK);
    assert_int_equal(gw_sim_process(sim, "host", &worker.loop, &error), GW_OK);
    worker.loop->metrics = &metrics;
    worker.work.owner = worker.tick.owner = &worker;
    gw_sim_work_model(worker.loop, 1000);
    gw_timer_start(worker.loop, &worker.work, 1000);
    gw_timer_start(worker.loop, &worker.tick, 2000);
    uint64_t begin_us = gw_sim_now(sim);
    gw_sim_run(sim, never, NULL, begin_us + 100000);
    assert_int_equal(worker.worked_us - begin_us, 21000);
    assert_int_equal(worker.ticked_us - begin_us, 21000);
    assert_int_equal(worker.over_before, 0);
    assert_int_equal(worker.over_after, 1);
    assert_int_equal(gw_metrics_get(&metrics, GW_METRIC_LONGEST_TURN_US),
                     20000);
    gw_loop_close(worker.loop);
    gw_sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_does_not_wait_for_a_backlog),
        cmocka_unit_test(pieces_come_in_their_order_and_once),
        cmocka_unit_test(a_piece_may_add_itself),
        cmocka_unit_test(all_are_begun_within_the_turn),
        cmocka_unit_test(a_timer_does_not_wait_for_tasks),
        cmocka_unit_test(a_turn_begins_with_the_wake),
        cmocka_unit_test(the_longest_turn_is_counted),
        cmocka_unit_test(who_asks_for_the_turn_is_heard),
        cmocka_unit_test(simulated_work_takes_its_time),
    };
    return cmocka_run_group_tests_name("turn", tests, NULL, NULL);
}
