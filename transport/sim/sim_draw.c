/* Random numbers from the seed: one stream for the world, one for each host. */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>

#include "proto/random.h"

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
