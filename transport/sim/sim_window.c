/*
 * A world in several threads. A frame needs some time to reach a host of
 * another region, the lookahead; so if nothing happens before T, events of
 * different regions before T + lookahead are independent, and each region goes
 * through that window of time by itself. Between windows one thread has the
 * world to itself (Chandy and Misra, CACM 24(4), 1981; the windows are those of
 * Nicol, J. ACM 40(2), 1993).
 */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* Windows are short: a waiting thread spins so many times before it yields its
   core. */
#define SPINS 2000

struct crew;

struct hand {
    struct crew *crew;
    struct gw_sim_region *region;
    pthread_t thread;
};

/* The caller runs the first region, and regions without a hand. */
struct crew {
    struct gw_sim *sim;
    struct hand hand[GW_SIM_REGIONS_MAX];
    size_t hands;
    int over; /* there are no more windows */
    /* all threads poll these */
    _Alignas(GW_CACHE_LINE) _Atomic uint64_t window; /* its number */
    _Alignas(
        GW_CACHE_LINE) _Atomic size_t through; /* number of hands that are */
};

/* ---- a window ---- */

static void run_region(struct gw_sim_region *region, uint64_t end_us)
{
    gw_sim_mail_take(region);
    while (gw_sim_region_step(region, end_us - 1))
        continue;
    region->now_us = end_us - 1;
}

static void spin(unsigned *spins)
{
    if (++*spins % SPINS == 0)
        sched_yield();
}

static void *work(void *argument)
{
    const struct hand *hand = argument;
    struct crew *crew = hand->crew;
    for (uint64_t window = 1;; window++) {
        for (unsigned spins = 0;
             atomic_load_explicit(&crew->window, memory_order_acquire) !=
             window;)
            spin(&spins);
        if (crew->over)
            return NULL;
        run_region(hand->region, crew->sim->end_us);
        atomic_fetch_add_explicit(&crew->through, 1, memory_order_release);
    }
}

static void begin(struct crew *crew)
{
    atomic_store_explicit(&crew->through, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&crew->window, 1, memory_order_release);
}

static void run_window(struct crew *crew, uint64_t end_us)
{
    struct gw_sim *sim = crew->sim;
    sim->end_us = end_us;
    sim->divided = 1;
    begin(crew);
    run_region(&sim->region[0], end_us);
    for (size_t i = crew->hands + 1; i < sim->regions; i++)
        run_region(&sim->region[i], end_us);
    for (unsigned spins = 0;
         atomic_load_explicit(&crew->through, memory_order_acquire) !=
         crew->hands;)
        spin(&spins);
    sim->divided = 0;
    sim->now_us = end_us - 1; /* like every region's */
}

/* ---- the crew ---- */

static void dismiss(struct crew *crew)
{
    crew->over = 1;
    begin(crew);
    for (size_t i = 0; i < crew->hands; i++)
        pthread_join(crew->hand[i].thread, NULL);
}

/* Starts as many threads as possible, but no more than have hosts. */
static void gather(struct crew *crew)
{
    struct gw_sim *sim = crew->sim;
    for (size_t i = 1; i < sim->regions && i < sim->hosts; i++) {
        struct hand *hand = &crew->hand[crew->hands];
        hand->crew = crew;
        hand->region = &sim->region[i];
        if (pthread_create(&hand->thread, NULL, work, hand) != 0)
            return;
        crew->hands++;
    }
}

/* ---- between windows ---- */

static void take_mail(struct gw_sim *sim)
{
    for (size_t i = 0; i < sim->regions; i++)
        gw_sim_mail_take(&sim->region[i]);
}

/* Time of the next event or mail; the mail has to be taken. */
static uint64_t next_us(struct gw_sim *sim)
{
    uint64_t first_us = gw_sim_mail_pass(sim);
    for (size_t i = 0; i < sim->regions; i++) {
        struct gw_sim_region *region = &sim->region[i];
        const struct gw_sim_event *event =
            gw_sim_queue_first(&region->queue, region->now_us);
        if (event && event->at_us < first_us)
            first_us = event->at_us;
    }
    return first_us;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Events from from_us until the end of the window are independent. */
static uint64_t window_end(struct gw_sim *sim, uint64_t from_us)
{
    if (sim->lookahead_us == 0)
        sim->lookahead_us = gw_sim_least_latency(sim);
    assert(sim->lookahead_us > 0);
    return from_us + sim->lookahead_us;
}

/* Returns 0 when there is nothing left until until_us. */
static int pass_time(struct crew *crew, uint64_t until_us)
{
    struct gw_sim *sim = crew->sim;
    uint64_t from_us = next_us(sim), call_us = gw_sim_next_call(sim);
    uint64_t first_us = smaller(from_us, call_us);
    if (first_us > until_us || first_us == UINT64_MAX) {
        take_mail(sim);
        return 0;
    }
    if (call_us == first_us) {
        take_mail(sim);
        gw_sim_make_call(sim);
        return 1;
    }
    uint64_t end_us = smaller(window_end(sim, from_us), call_us);
    run_window(crew, end_us > until_us ? until_us + 1 : end_us);
    return 1;
}

int gw_sim_run_windows(struct gw_sim *sim,
                       int (*done)(void *owner),
                       void *owner,
                       uint64_t until_us)
{
    struct crew crew = {.sim = sim};
    int is_done;
    gather(&crew);
    while (!(is_done = done(owner)) && pass_time(&crew, until_us))
        continue;
    gw_sim_mail_pass(sim);
    take_mail(sim);
    dismiss(&crew);
    return is_done;
}
