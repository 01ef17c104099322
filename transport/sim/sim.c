/* The simulated world: making, running and freeing it. */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <stdlib.h>

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
    sim->now_us = 1000000; /* no time is ever 0 */
    enum gw_status status = new_regions(sim, error);
    if (status != GW_OK) {
        free(sim);
        return status;
    }
    *sim_p = sim;
    return GW_OK;
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
    gw_sim_drop_calls(sim);
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

/* Returns 0 when there is nothing left until until_us. */
static int step(struct gw_sim *sim, uint64_t until_us)
{
    uint64_t call_us = gw_sim_next_call(sim);
    int is_called = call_us <= until_us && call_us < UINT64_MAX;
    /* calls come first among the events of their time */
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
    /* a single host is in the first region */
    int is_done = sim->regions > 1 && sim->hosts > 1
                      ? gw_sim_run_windows(sim, done, owner, until_us)
                      : run_singly(sim, done, owner, until_us);
    if (!is_done && until_us < UINT64_MAX)
        gw_sim_set_time(sim, until_us);
    return is_done;
}
