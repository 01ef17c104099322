/* Events of a region: scheduled, cancelled and taken in order. */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>

struct gw_sim_place gw_sim_place(struct gw_sim_host *host)
{
    return (struct gw_sim_place){
        .made_us = host->region->now_us,
        .number = host->number << 40 | host->placed++,
    };
}

void gw_sim_schedule(struct gw_sim_host *host,
                     struct gw_sim_event *event,
                     uint64_t at_us)
{
    gw_sim_schedule_placed(host->region, event, at_us, gw_sim_place(host));
}

void gw_sim_schedule_placed(struct gw_sim_region *region,
                            struct gw_sim_event *event,
                            uint64_t at_us,
                            struct gw_sim_place place)
{
    assert(!event->scheduled);
    event->at_us = at_us > region->now_us ? at_us : region->now_us;
    event->place = place;
    event->scheduled = 1;
    if (event->process)
        event->process->scheduled++;
    gw_sim_queue_insert(&region->queue, event, region->now_us);
}

static void unschedule(struct gw_sim_region *region, struct gw_sim_event *event)
{
    gw_sim_queue_remove(&region->queue, event);
    event->scheduled = 0;
    if (event->process)
        event->process->scheduled--;
}

void gw_sim_cancel(struct gw_sim_host *host, struct gw_sim_event *event)
{
    if (event->scheduled) {
        unschedule(host->region, event);
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

void gw_sim_drop(struct gw_sim_event *event)
{
    if (event->drop)
        event->drop(event);
}

void gw_sim_hold(struct gw_sim_process *process, struct gw_sim_event *event)
{
    event->next = NULL;
    *process->held_last = event;
    process->held_last = &event->next;
}

static struct gw_sim_event *take_first(struct gw_sim_region *region)
{
    struct gw_sim_event *first =
        gw_sim_queue_first(&region->queue, region->now_us);
    if (first)
        unschedule(region, first);
    return first;
}

size_t gw_sim_region_purge(struct gw_sim_region *region)
{
    size_t n = 0;
    for (struct gw_sim_event *event = take_first(region); event;
         event = take_first(region), n++)
        gw_sim_drop(event);
    return n;
}

static void purge_scheduled(struct gw_sim_process *process)
{
    struct gw_sim_region *region = process->host->region;
    struct gw_sim_event *kept = NULL, **last = &kept;
    for (struct gw_sim_event *event = take_first(region); event;
         event = take_first(region)) {
        if (event->process == process) {
            gw_sim_drop(event);
            continue;
        }
        event->next = NULL;
        *last = event;
        last = &event->next;
    }
    while (kept) {
        struct gw_sim_event *event = kept;
        kept = event->next;
        gw_sim_schedule_placed(region, event, event->at_us, event->place);
    }
}

void gw_sim_drop_held(struct gw_sim_process *process)
{
    struct gw_sim_event *held = process->held;
    process->held = NULL;
    process->held_last = &process->held;
    while (held) {
        struct gw_sim_event *next = held->next;
        gw_sim_drop(held);
        held = next;
    }
}

void gw_sim_purge(struct gw_sim_process *process)
{
    if (process->scheduled > 0)
        purge_scheduled(process);
    gw_sim_drop_held(process);
}

struct gw_sim_event *gw_sim_region_next(struct gw_sim_region *region,
                                        uint64_t until_us)
{
    struct gw_sim_event *event =
        gw_sim_queue_first(&region->queue, region->now_us);
    if (!event || event->at_us > until_us)
        return NULL;
    gw_sim_queue_prefetch(event);
    unschedule(region, event);
    region->now_us = event->at_us;
    return event;
}
