/* The simulated world: virtual time, its events, its dice. */
#include "config.h"

#include "transport/sim_world.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/random.h"

enum gw_status gw_sim_create(const struct gw_sim_options *options,
                             struct gw_sim **sim_p,
                             struct gw_error *error)
{
    struct gw_sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return gw_fail(error, GW_ENOMEM, "no memory for a simulated world");
    sim->options = *options;
    sim->now_us = 1000000; /* so that no time is ever 0 */
    *sim_p = sim;
    return GW_OK;
}

void gw_sim_destroy(struct gw_sim *sim)
{
    if (!sim)
        return;
    assert(!sim->processes);
    gw_sim_purge(sim, NULL);
    while (sim->disks) {
        struct gw_sim_disk *disk = sim->disks;
        gw_sim_disk_free(disk);
    }
    gw_sim_hosts_free(sim);
    gw_sim_flights_free(sim);
    free(sim);
}

uint64_t gw_sim_now(const struct gw_sim *sim)
{
    return sim->now_us;
}

uint64_t gw_sim_draw(struct gw_sim *sim, uint64_t n)
{
    uint32_t bits[4];
    if (n <= 1)
        return 0;
    gw_random4(sim->options.seed, GW_RANDOM_TEST, 1, sim->draws++, bits);
    return ((uint64_t)bits[0] << 32 | bits[1]) % n;
}

void gw_sim_schedule(struct gw_sim *sim,
                     struct gw_sim_event *event,
                     uint64_t at_us)
{
    gw_sim_schedule_placed(sim, event, at_us, gw_sim_place(sim));
}

uint64_t gw_sim_place(struct gw_sim *sim)
{
    return sim->order++;
}

void gw_sim_schedule_placed(struct gw_sim *sim,
                            struct gw_sim_event *event,
                            uint64_t at_us,
                            uint64_t place)
{
    assert(!event->scheduled);
    event->at_us = at_us > sim->now_us ? at_us : sim->now_us;
    event->order = place;
    event->scheduled = 1;
    if (event->process)
        event->process->scheduled++;
    gw_sim_queue_insert(&sim->queue, event, sim->now_us);
}

static void unschedule(struct gw_sim *sim, struct gw_sim_event *event)
{
    gw_sim_queue_remove(&sim->queue, event);
    event->scheduled = 0;
    if (event->process)
        event->process->scheduled--;
}

/* Also for an event that a paused process keeps, or that is not scheduled. */
void gw_sim_cancel(struct gw_sim *sim, struct gw_sim_event *event)
{
    if (event->scheduled) {
        unschedule(sim, event);
        return;
    }
    struct gw_sim_process *process = event->process;
    if (!process)
        return;
    for (struct gw_sim_event **at = &process->held; *at; at = &(*at)->next) {
        if (*at != event)
            continue;
        *at = event->next;
        if (process->held_last == &event->next)
            process->held_last = at;
        return;
    }
}

static void hold(struct gw_sim_process *process, struct gw_sim_event *event)
{
    event->next = NULL;
    *process->held_last = event;
    process->held_last = &event->next;
}

static void drop(struct gw_sim_event *event)
{
    if (event->drop)
        event->drop(event);
}

void gw_sim_deliver(struct gw_sim_event *event)
{
    struct gw_sim_process *process = event->process;
    if (process && process->dead) {
        drop(event);
    } else if (process && process->paused && event != &process->resume) {
        hold(process, event);
    } else {
        event->run(event);
        if (process)
            gw_sim_look_again(process);
    }
}

static struct gw_sim_event *take_first(struct gw_sim *sim)
{
    struct gw_sim_event *first = gw_sim_queue_first(&sim->queue, sim->now_us);
    if (first)
        unschedule(sim, first);
    return first;
}

static void purge_scheduled(struct gw_sim *sim, struct gw_sim_process *process)
{
    struct gw_sim_event *kept = NULL, **last = &kept;
    for (struct gw_sim_event *event = take_first(sim); event;
         event = take_first(sim)) {
        if (event->process == process) {
            drop(event);
            continue;
        }
        event->next = NULL;
        *last = event;
        last = &event->next;
    }
    while (kept) {
        struct gw_sim_event *event = kept;
        kept = event->next;
        gw_sim_schedule_placed(sim, event, event->at_us, event->order);
    }
}

void gw_sim_purge(struct gw_sim *sim, struct gw_sim_process *process)
{
    if (!process || process->scheduled > 0)
        purge_scheduled(sim, process);
    while (process && process->held) {
        struct gw_sim_event *event = process->held;
        process->held = event->next;
        drop(event);
    }
}

static int step(struct gw_sim *sim, uint64_t until_us)
{
    struct gw_sim_event *event = gw_sim_queue_first(&sim->queue, sim->now_us);
    if (!event || event->at_us > until_us)
        return 0;
    gw_sim_queue_look_ahead(event);
    unschedule(sim, event);
    sim->now_us = event->at_us;
    gw_sim_deliver(event);
    return 1;
}

int gw_sim_run(struct gw_sim *sim,
               int (*done)(void *owner),
               void *owner,
               uint64_t until_us)
{
    while (!done(owner)) {
        if (!step(sim, until_us))
            return 0;
    }
    return 1;
}

struct world_call {
    struct gw_sim_event event;
    void (*fire)(void *owner);
    void *owner;
};

static void drop_call(struct gw_sim_event *event)
{
    free(event->owner);
}

static void run_call(struct gw_sim_event *event)
{
    struct world_call *call = event->owner;
    void (*fire)(void *owner) = call->fire;
    void *owner = call->owner;
    free(call);
    fire(owner);
}

void gw_sim_at(struct gw_sim *sim,
               uint64_t delay_us,
               void (*fire)(void *owner),
               void *owner)
{
    struct world_call *call = calloc(1, sizeof *call);
    assert(call);
    call->event.run = run_call;
    call->event.drop = drop_call;
    call->event.owner = call;
    call->fire = fire;
    call->owner = owner;
    gw_sim_schedule(sim, &call->event, sim->now_us + delay_us);
}

static void on_resume(struct gw_sim_event *event)
{
    struct gw_sim_process *process = event->process;
    process->paused = 0;
    struct gw_sim_event *held = process->held;
    process->held = NULL;
    process->held_last = &process->held;
    while (held) {
        struct gw_sim_event *next = held->next;
        /* in its place: what happens now is behind it */
        gw_sim_schedule_placed(process->sim, held, process->sim->now_us,
                               held->order);
        held = next;
    }
}

void gw_sim_pause(struct gw_loop *loop, uint64_t pause_us)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    if (process->dead)
        return;
    if (process->paused)
        gw_sim_cancel(process->sim, &process->resume);
    process->paused = 1;
    process->resume.run = on_resume;
    process->resume.process = process;
    gw_sim_schedule(process->sim, &process->resume,
                    process->sim->now_us + pause_us);
}

void gw_sim_slow(struct gw_loop *loop, double bytes_per_us)
{
    gw_sim_process_of(loop)->bytes_per_us = bytes_per_us;
}

void gw_sim_pause_all(struct gw_sim *sim, uint64_t pause_us)
{
    for (struct gw_sim_process *one = sim->processes; one; one = one->next)
        gw_sim_pause(&one->base, pause_us);
}
