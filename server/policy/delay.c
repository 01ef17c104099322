#include "config.h"

#include "server/policy/delay.h"

#include <stdlib.h>
#include <string.h>

/* An exchange that goes on: answers of a clock may begin while the last pushes
   of the one before are on their way, and no earlier. */
struct turn {
    uint64_t clock; /* + 1; 0: unused */
    uint64_t answered_us, pushed_us;
    uint32_t samples;
};

struct rank {
    struct turn turn[2];
    struct {
        double seconds;
        uint32_t samples;
    } past[GW_DELAYS_KEPT];
    unsigned n, next;
};

struct gw_delays {
    uint32_t ranks;
    struct rank rank[];
};

struct gw_delays *gw_delays_create(uint32_t ranks)
{
    struct gw_delays *delays =
        calloc(1, sizeof *delays + ranks * sizeof *delays->rank);
    if (delays)
        delays->ranks = ranks;
    return delays;
}

void gw_delays_destroy(struct gw_delays *delays)
{
    free(delays);
}

static void keep(struct rank *rank, const struct turn *turn)
{
    /* a push without samples tells nothing */
    if (turn->clock == 0 || turn->answered_us == 0 || turn->samples == 0 ||
        turn->pushed_us < turn->answered_us)
        return;
    rank->past[rank->next].seconds =
        (double)(turn->pushed_us - turn->answered_us) / 1e6;
    rank->past[rank->next].samples = turn->samples;
    rank->next = (rank->next + 1) % GW_DELAYS_KEPT;
    if (rank->n < GW_DELAYS_KEPT)
        rank->n++;
}

/* The entry of the clock; it takes the place of an older one, now over. */
static struct turn *turn_of(struct rank *rank, uint64_t clock)
{
    struct turn *older = &rank->turn[rank->turn[1].clock < rank->turn[0].clock];
    for (unsigned i = 0; i < 2; i++)
        if (rank->turn[i].clock == clock + 1)
            return &rank->turn[i];
    keep(rank, older);
    *older = (struct turn){.clock = clock + 1};
    return older;
}

void gw_delays_answered(struct gw_delays *delays,
                        uint32_t rank,
                        uint64_t clock,
                        uint64_t now_us)
{
    turn_of(&delays->rank[rank], clock)->answered_us = now_us;
}

void gw_delays_pushed(struct gw_delays *delays,
                      uint32_t rank,
                      uint64_t clock,
                      uint32_t samples,
                      uint64_t now_us)
{
    struct turn *turn = turn_of(&delays->rank[rank], clock);
    turn->pushed_us = now_us;
    turn->samples = samples;
}

static int by_size(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

double gw_delays_of(const struct gw_delays *delays,
                    uint32_t rank,
                    double samples_per_s)
{
    const struct rank *of = &delays->rank[rank];
    double delay[GW_DELAYS_KEPT];
    if (of->n < GW_DELAYS_KEPT / 2)
        return -1;
    for (unsigned i = 0; i < of->n; i++)
        delay[i] = of->past[i].seconds - of->past[i].samples / samples_per_s;
    qsort(delay, of->n, sizeof *delay, by_size);
    double median = delay[of->n / 2];
    return median > 0 ? median : 0;
}
