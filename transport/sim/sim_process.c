/*
 * Events of a process: it handles them in turns, keeps them while it is paused,
 * and drops them once it is dead.
 */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/metrics.h"

/* ---- pauses and slow links ---- */

static void on_resume(struct gw_sim_event *event)
{
    struct gw_sim_process *process = event->process;
    struct gw_sim_region *region = process->host->region;
    process->paused = 0;
    struct gw_sim_event *held = process->held;
    process->held = NULL;
    process->held_last = &process->held;
    while (held) {
        struct gw_sim_event *next = held->next;
        /* in its place: new events are behind it */
        gw_sim_schedule_placed(region, held, region->now_us, held->place);
        held = next;
    }
}

void gw_sim_pause(struct gw_loop *loop, uint64_t pause_us)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    if (process->dead)
        return;
    if (process->paused)
        gw_sim_cancel(process->host, &process->resume);
    process->paused = 1;
    process->resume.run = on_resume;
    process->resume.process = process;
    gw_sim_schedule(process->host, &process->resume,
                    gw_sim_time(process->host) + pause_us);
}

void gw_sim_pause_all(struct gw_sim *sim, uint64_t pause_us)
{
    assert(!sim->divided);
    for (struct gw_sim_process *one = sim->processes; one; one = one->next)
        gw_sim_pause(&one->base, pause_us);
}

void gw_sim_slow(struct gw_loop *loop, double bytes_per_us)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    assert(!process->host->sim->divided);
    process->bytes_per_us = bytes_per_us;
    process->host->sim->has_slow = 1;
}

/* ---- turns ---- */

static void begin_turn(struct gw_sim_process *process)
{
    process->turn_us = gw_sim_process_time(process);
    process->in_turn = 1;
}

/* Events that come while the process works wait, as during a pause. */
static void end_turn(struct gw_sim_process *process)
{
    uint64_t world_us = gw_sim_time(process->host);
    struct gw_metrics *metrics = process->base.metrics;
    process->in_turn = 0;
    if (process->dead || process->after_us <= world_us)
        return;
    if (metrics)
        gw_metrics_raise(metrics, GW_METRIC_LONGEST_TURN_US,
                         process->after_us - process->turn_us);
    if (!process->paused)
        gw_sim_pause(&process->base, process->after_us - world_us);
}

void gw_sim_deliver(struct gw_sim_event *event)
{
    struct gw_sim_process *process = event->process;
    if (process && process->dead) {
        gw_sim_drop(event);
    } else if (process && process->paused && event != &process->resume) {
        gw_sim_hold(process, event);
    } else if (process) {
        begin_turn(process);
        event->run(event);
        gw_sim_caller_wake(process);
        end_turn(process);
    } else {
        event->run(event);
    }
}

int gw_sim_region_step(struct gw_sim_region *region, uint64_t until_us)
{
    struct gw_sim_event *event = gw_sim_region_next(region, until_us);
    if (!event)
        return 0;
    gw_sim_deliver(event);
    return 1;
}

/* ---- lifetime ---- */

void gw_sim_process_release(struct gw_sim_process *process)
{
    if (--process->users == 0)
        free(process);
}

int gw_sim_is_dead(const struct gw_loop *loop)
{
    return gw_sim_process_of(loop)->dead;
}
