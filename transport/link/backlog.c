#include "config.h"

#include "transport/link/backlog.h"

#include <assert.h>
#include <stdlib.h>

static uint32_t take_first(struct gw_backlog *backlog)
{
    uint32_t number = backlog->queue[backlog->first];
    backlog->first = (backlog->first + 1) % backlog->n;
    backlog->waiting--;
    backlog->waits[number] = 0;
    return number;
}

static void put_last(struct gw_backlog *backlog, uint32_t number)
{
    assert(number < backlog->n);
    if (backlog->waits[number])
        return;
    uint64_t last = (uint64_t)backlog->first + backlog->waiting++;
    backlog->waits[number] = 1;
    backlog->queue[last % backlog->n] = number;
}

/* A number that is added meanwhile waits behind the others. */
static void work_off(struct gw_backlog *backlog)
{
    if (backlog->running)
        return; /* the running call goes on with them */
    backlog->running = 1;
    while (backlog->waiting > 0) {
        backlog->handle(backlog->owner, take_first(backlog));
        if (gw_loop_turn_is_over(backlog->loop))
            break;
    }
    backlog->running = 0;
    if (backlog->waiting > 0)
        gw_loop_post(backlog->loop, &backlog->task);
}

static void on_task(struct gw_task *task)
{
    work_off(task->owner);
}

enum gw_status gw_backlog_open(struct gw_backlog *backlog, uint32_t n)
{
    backlog->n = n;
    backlog->task = (struct gw_task){.run = on_task, .owner = backlog};
    backlog->waits = calloc((size_t)n + 1, sizeof *backlog->waits);
    backlog->queue = calloc((size_t)n + 1, sizeof *backlog->queue);
    return backlog->waits && backlog->queue ? GW_OK : GW_ENOMEM;
}

void gw_backlog_close(struct gw_backlog *backlog)
{
    if (backlog->task.run)
        gw_loop_unpost(backlog->loop, &backlog->task);
    free(backlog->waits);
    free(backlog->queue);
    *backlog = (struct gw_backlog){0};
}

void gw_backlog_add(struct gw_backlog *backlog, uint32_t number)
{
    put_last(backlog, number);
    if (!backlog->running)
        gw_loop_post(backlog->loop, &backlog->task);
}

void gw_backlog_add_all(struct gw_backlog *backlog)
{
    for (uint32_t number = 0; number < backlog->n; number++)
        put_last(backlog, number);
    work_off(backlog);
}
