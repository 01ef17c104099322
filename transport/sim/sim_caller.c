/*
 * The caller of a simulated loop: a fiber that computes, which takes virtual
 * time, and waits for its process.
 */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <stdlib.h>

struct gw_sim_caller {
    struct gw_sim_fiber *fiber;
    void (*finished)(void *argument);
    void *argument;
    int waits; /* in a turn of the loop, for the next event of the process */
    int (*done)(void *owner); /* or for this, if it is not NULL */
    void *done_owner;
    int runs;
    int computes;             /* until `wake` */
    struct gw_sim_event wake; /* end of a part of a computation */
    uint64_t whole_us;        /* duration of a computation, */
    uint64_t passed_us;       /* and of its parts so far */
};

static void resume(struct gw_sim_process *process)
{
    struct gw_sim_caller *caller = process->caller;
    caller->runs = 1;
    int alive = gw_sim_fiber_resume(caller->fiber);
    caller->runs = 0;
    if (alive)
        return;
    process->caller = NULL;
    gw_sim_fiber_free(caller->fiber);
    void (*finished)(void *argument) = caller->finished;
    void *argument = caller->argument;
    free(caller);
    if (finished)
        finished(argument);
}

/* ---- waiting ---- */

void gw_sim_caller_wake(struct gw_sim_process *process)
{
    const struct gw_sim_caller *caller = process->caller;
    if (caller && caller->waits &&
        (!caller->done || caller->done(caller->done_owner)))
        resume(process);
}

void gw_sim_caller_wake_sent(struct gw_sim_process *process)
{
    const struct gw_sim_caller *caller = process->caller;
    if (caller && caller->waits && !caller->done)
        resume(process);
}

void gw_sim_caller_wait(struct gw_sim_process *process,
                        int (*done)(void *owner),
                        void *owner)
{
    struct gw_sim_caller *caller = process->caller;
    caller->done = done;
    caller->done_owner = owner;
    caller->waits = 1;
    gw_sim_fiber_yield(caller->fiber);
    caller->waits = 0;
}

/* ---- its begin and its end ---- */

static void on_wake(struct gw_sim_event *event)
{
    resume(event->process);
}

enum gw_status gw_sim_spawn(struct gw_loop *loop,
                            void (*main)(void *argument),
                            void (*finished)(void *argument),
                            void *argument,
                            struct gw_error *error)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    assert(!process->caller);
    struct gw_sim_caller *caller = calloc(1, sizeof *caller);
    if (!caller)
        return gw_fail(error, GW_ENOMEM, "no memory for a fiber");
    enum gw_status status =
        gw_sim_fiber_new(main, argument, &caller->fiber, error);
    if (status != GW_OK) {
        free(caller);
        return status;
    }
    caller->finished = finished;
    caller->argument = argument;
    caller->wake.process = process;
    caller->wake.run = on_wake;
    process->caller = caller;
    gw_sim_schedule(process->host, &caller->wake, gw_sim_time(process->host));
    return GW_OK;
}

void gw_sim_unwind(struct gw_loop *loop)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    assert(process->dead);
    if (process->caller) /* it may be computing */
        gw_sim_cancel(process->host, &process->caller->wake);
    while (process->caller)
        resume(process);
}

/* ---- computing ---- */

void gw_sim_compute_model(struct gw_loop *loop,
                          uint64_t (*compute_us)(void *owner, uint64_t samples),
                          void *owner)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    process->compute_us = compute_us;
    process->compute_owner = owner;
}

void gw_sim_compute_watch(struct gw_loop *loop,
                          void (*passed)(void *owner,
                                         uint64_t begin_us,
                                         uint64_t end_us))
{
    gw_sim_process_of(loop)->compute_passed = passed;
}

/* The time at which a part of the computation ends: parts add up to the whole,
   to the microsecond. */
static uint64_t end_of(const struct gw_sim_caller *caller,
                       const struct gw_computed *part)
{
    if (part->to >= part->of)
        return caller->whole_us;
    return (uint64_t)((double)caller->whole_us * (double)part->to /
                      (double)part->of);
}

void gw_sim_caller_computed(struct gw_loop *loop,
                            const struct gw_computed *part)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    struct gw_sim_caller *caller = process->caller;
    if (process->dead || !process->compute_us)
        return;
    if (part->from == 0) {
        caller->whole_us =
            process->compute_us(process->compute_owner, part->samples);
        caller->passed_us = 0;
    }
    uint64_t end_us = end_of(caller, part),
             begin_us = gw_sim_time(process->host);
    if (end_us <= caller->passed_us)
        return;
    gw_sim_schedule(process->host, &caller->wake,
                    begin_us + end_us - caller->passed_us);
    caller->passed_us = end_us;
    caller->computes = 1;
    gw_sim_fiber_yield(caller->fiber);
    caller->computes = 0;
    if (process->compute_passed && !process->dead)
        process->compute_passed(process->compute_owner, begin_us,
                                gw_sim_time(process->host));
}

/* Later parts take no time. */
void gw_sim_caller_interrupt(struct gw_loop *loop)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    struct gw_sim_caller *caller = process->caller;
    if (process->dead || !caller)
        return;
    caller->whole_us = 0;
    if (!caller->computes)
        return;
    gw_sim_cancel(process->host, &caller->wake);
    gw_sim_schedule(process->host, &caller->wake, gw_sim_time(process->host));
}
