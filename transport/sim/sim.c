/* The simulated world: its hosts' regions, its dice, what is done to it. */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/random.h"

static enum gw_status new_regions(struct gw_sim *sim, struct gw_error *error)
{
    size_t n = sim->options.threads > 1 ? sim->options.threads : 1;
    if (n > GW_SIM_REGIONS_MAX)
        n = GW_SIM_REGIONS_MAX;
    sim->region = calloc(n, sizeof *sim->region);
    if (!sim->region)
        return gw_fail(error, GW_ENOMEM, "no memory for a simulated world");
    sim->regions = n;
    for (size_t i = 0; i < n; i++) {
        sim->region[i].sim = sim;
        sim->region[i].now_us = sim->now_us;
        gw_sim_mail_prepare(&sim->region[i]);
    }
    return GW_OK;
}

enum gw_status gw_sim_create(const struct gw_sim_options *options,
                             struct gw_sim **sim_p,
                             struct gw_error *error)
{
    struct gw_sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return gw_fail(error, GW_ENOMEM, "no memory for a simulated world");
    sim->options = *options;
    sim->now_us = 1000000; /* so that no time is ever 0 */
    enum gw_status status = new_regions(sim, error);
    if (status != GW_OK) {
        free(sim);
        return status;
    }
    *sim_p = sim;
    return GW_OK;
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

static uint64_t
draw(const struct gw_sim *sim, uint64_t who, uint64_t *draws, uint64_t n)
{
    uint32_t bits[4];
    if (n <= 1)
        return 0;
    gw_random4(sim->options.seed, GW_RANDOM_TEST, (uint32_t)who + 1, (*draws)++,
               bits);
    return ((uint64_t)bits[0] << 32 | bits[1]) % n;
}

uint64_t gw_sim_draw(struct gw_sim *sim, uint64_t n)
{
    assert(!sim->divided);
    return draw(sim, 0, &sim->draws, n);
}

uint64_t gw_sim_host_draw(struct gw_sim_host *host, uint64_t n)
{
    return draw(host->sim, host->number, &host->draws, n);
}

/* ---- what the world itself does ---- */

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

static void drop_calls(struct gw_sim *sim)
{
    for (struct world_call *call = take_call(sim); call; call = take_call(sim))
        free(call);
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

/* ---- its end ---- */

static void purge(struct gw_sim *sim)
{
    for (size_t n = 1; n > 0;) {
        n = 0;
        for (size_t i = 0; i < sim->regions; i++)
            n += gw_sim_region_purge(&sim->region[i]);
    }
}

void gw_sim_destroy(struct gw_sim *sim)
{
    if (!sim)
        return;
    assert(!sim->processes);
    purge(sim);
    drop_calls(sim);
    while (sim->disks) {
        struct gw_sim_disk *disk = sim->disks;
        gw_sim_disk_free(disk);
    }
    for (size_t i = 0; i < sim->regions; i++) {
        gw_sim_flights_free(&sim->region[i]);
        gw_sim_mail_free(&sim->region[i]);
    }
    gw_sim_hosts_free(sim);
    free(sim->region);
    free(sim);
}

/* ---- running ---- */

/* Returns 0 when there is nothing left until then. */
static int step(struct gw_sim *sim, uint64_t until_us)
{
    uint64_t call_us = gw_sim_next_call(sim);
    int is_called = call_us <= until_us && call_us < UINT64_MAX;
    /* calls are the first of their time */
    if (gw_sim_region_step(sim->region, is_called ? call_us - 1 : until_us))
        return 1;
    if (is_called)
        gw_sim_make_call(sim);
    return is_called;
}

static int run_singly(struct gw_sim *sim,
                      int (*done)(void *owner),
                      void *owner,
                      uint64_t until_us)
{
    int is_done;
    while (!(is_done = done(owner)) && step(sim, until_us))
        continue;
    return is_done;
}

int gw_sim_run(struct gw_sim *sim,
               int (*done)(void *owner),
               void *owner,
               uint64_t until_us)
{
    /* all of one host is in the first region */
    int is_done = sim->regions > 1 && sim->hosts > 1
                      ? gw_sim_run_windows(sim, done, owner, until_us)
                      : run_singly(sim, done, owner, until_us);
    if (!is_done && until_us < UINT64_MAX)
        gw_sim_set_time(sim, until_us);
    return is_done;
}

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
        /* in its place: what happens now is behind it */
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

void gw_sim_slow(struct gw_loop *loop, double bytes_per_us)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    assert(!process->host->sim->divided);
    process->bytes_per_us = bytes_per_us;
    process->host->sim->has_slow = 1;
}

void gw_sim_pause_all(struct gw_sim *sim, uint64_t pause_us)
{
    assert(!sim->divided);
    for (struct gw_sim_process *one = sim->processes; one; one = one->next)
        gw_sim_pause(&one->base, pause_us);
}
