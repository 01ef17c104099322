/*
 * The world's time, and calls of the world itself, outside of every process:
 * faults and other calls that a test schedules with gw_sim_at.
 */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <stdlib.h>

struct world_call {
    struct gw_heap_node node;
    uint64_t at_us, order;
    void (*fire)(void *owner);
    void *owner;
};

static struct world_call *call_of(const struct gw_heap_node *node)
{
    return node ? GW_CONTAINER(node, struct world_call, node) : NULL;
}

static int call_before(const struct gw_heap_node *a,
                       const struct gw_heap_node *b)
{
    const struct world_call *one = call_of(a), *other = call_of(b);
    if (one->at_us != other->at_us)
        return one->at_us < other->at_us;
    return one->order < other->order;
}

static struct world_call *take_call(struct gw_sim *sim)
{
    struct world_call *call = call_of(gw_heap_first(&sim->world_calls));
    if (call)
        gw_heap_remove(&sim->world_calls, &call->node);
    return call;
}

uint64_t gw_sim_now(const struct gw_sim *sim)
{
    return sim->divided ? sim->now_us : sim->region->now_us;
}

void gw_sim_set_time(struct gw_sim *sim, uint64_t now_us)
{
    sim->now_us = now_us;
    for (size_t i = 0; i < sim->regions; i++)
        sim->region[i].now_us = now_us;
}

void gw_sim_at(struct gw_sim *sim,
               uint64_t delay_us,
               void (*fire)(void *owner),
               void *owner)
{
    struct world_call *call = calloc(1, sizeof *call);
    assert(call && !sim->divided);
    call->at_us = gw_sim_now(sim) + delay_us;
    call->order = sim->calls++;
    call->fire = fire;
    call->owner = owner;
    sim->world_calls.before = call_before;
    gw_heap_insert(&sim->world_calls, &call->node);
}

uint64_t gw_sim_next_call(const struct gw_sim *sim)
{
    const struct world_call *call = call_of(gw_heap_first(&sim->world_calls));
    return call ? call->at_us : UINT64_MAX;
}

void gw_sim_make_call(struct gw_sim *sim)
{
    struct world_call *call = take_call(sim);
    gw_sim_set_time(sim, call->at_us);
    call->fire(call->owner);
    free(call);
}

void gw_sim_drop_calls(struct gw_sim *sim)
{
    for (struct world_call *call = take_call(sim); call; call = take_call(sim))
        free(call);
}
