/* What every loop does with tasks: in real time and in simulation. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/table/world.h"

#define SETTLES_US 10000

struct counted {
    struct gw_task task;
    int runs;
};

static void count(struct gw_task *task)
{
    struct counted *counted = task->owner;
    counted->runs++;
}

static void post(struct world *world, struct counted *counted)
{
    counted->task.run = count;
    counted->task.owner = counted;
    gw_loop_post(world->loop[0], &counted->task);
}

static void a_task_that_is_queued_is_not_queued_twice(void **state)
{
    struct world world;
    struct counted one = {.runs = 0};
    world_open(&world, *state);
    post(&world, &one);
    post(&world, &one);
    world_settle(&world, SETTLES_US);
    assert_int_equal(one.runs, 1);
    post(&world, &one);
    world_settle(&world, SETTLES_US);
    assert_int_equal(one.runs, 2);
    world_close(&world);
}

/* Wherever it stands among the others, of which none is lost. */
static void a_task_that_is_taken_back_does_not_run(void **state)
{
    enum {
        TASKS = 3
    };
    for (size_t taken = 0; taken < TASKS; taken++) {
        struct world world;
        struct counted all[TASKS] = {{.runs = 0}};
        world_open(&world, *state);
        gw_loop_unpost(world.loop[0], &all[taken].task); /* is not queued */
        for (size_t i = 0; i < TASKS; i++)
            post(&world, &all[i]);
        gw_loop_unpost(world.loop[0], &all[taken].task);
        world_settle(&world, SETTLES_US);
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(all[i].runs, i != taken);
        post(&world, &all[taken]);
        world_settle(&world, SETTLES_US);
        assert_int_equal(all[taken].runs, 1);
        world_close(&world);
    }
}

/* Takes others back that wait behind it, and posts the last of them anew. */
struct taker {
    struct gw_task task;
    struct gw_loop *loop;
    struct counted *behind;
    size_t n;
};

static void take_back(struct gw_task *task)
{
    struct taker *taker = task->owner;
    for (size_t i = 0; i < taker->n; i++)
        gw_loop_unpost(taker->loop, &taker->behind[i].task);
    gw_loop_post(taker->loop, &taker->behind[taker->n - 1].task);
}

/* They may be freed by then, and those between them are not lost. */
static void a_task_may_take_back_those_behind_it(void **state)
{
    enum {
        TASKS = 4
    };
    for (size_t n = 1; n < TASKS; n++) {
        struct world world;
        struct counted all[TASKS] = {{.runs = 0}};
        world_open(&world, *state);
        struct taker taker = {.loop = world.loop[0], .behind = all, .n = n};
        taker.task = (struct gw_task){.run = take_back, .owner = &taker};
        gw_loop_post(world.loop[0], &taker.task);
        for (size_t i = 0; i < TASKS; i++)
            post(&world, &all[i]);
        world_settle(&world, SETTLES_US);
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(all[i].runs, i + 1 >= n);
        world_close(&world);
    }
}

#define ALL(transport)                                                         \
    ON(transport, a_task_that_is_queued_is_not_queued_twice),                  \
        ON(transport, a_task_that_is_taken_back_does_not_run),                 \
        ON(transport, a_task_may_take_back_those_behind_it)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("tcp"), ALL("sim")};
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
