/*
 * A member's coordinator: here, silent, or another process than before, in the
 * same place. The member goes on without it and waits, until the same one is
 * heard again or another one has taken the member up:
 *
 *   here --- silent --> away --- it is heard --> here
 *     \                  |
 *      +--- another one answers --> joining --- its view --> here
 *
 * Pure state, on the loop's thread.
 */
#ifndef GW_TRANSPORT_AWAY_H
#define GW_TRANSPORT_AWAY_H

#include <stdint.h>

enum gw_away_state {
    GW_COORDINATOR_HERE,
    GW_COORDINATOR_AWAY,
    GW_COORDINATOR_NEW
};

/* Zeroed to begin with. */
struct gw_away {
    enum gw_away_state state;
    uint64_t joined;   /* the incarnation that was told a JOIN; 0: none yet */
    int broke;         /* its link was closed, and not by this side */
    uint64_t since_us; /* it was heard last, while it is not here */
    uint64_t progress; /* as of the last call of gw_away_is_over, */
    uint64_t moved_us; /* and since when */
};

/* It is heard. It is not another one that has yet to take this member up: what
   only the coordinator may hear can be told. */
static inline int gw_away_is_here(const struct gw_away *away)
{
    return away->state == GW_COORDINATOR_HERE;
}

static inline int gw_away_is_known(const struct gw_away *away)
{
    return away->state != GW_COORDINATOR_NEW;
}

/* It is silent, and may be heard again: another one can take its place, or
   nothing says that it is gone. */
static inline int gw_away_may_return(const struct gw_away *away, int outlives)
{
    return outlives || !away->broke;
}

/* Its link is up: non-zero where this incarnation is to be told a JOIN. `now`
   counts where it is another one than before. */
int gw_away_link_up(struct gw_away *away, uint64_t incarnation, uint64_t now);

/* Its link is down: `is_natural` where this side closed it for silence, or the
   other one may have done so, since this process was paused. */
void gw_away_link_down(struct gw_away *away, int is_natural);

/* Nothing was heard of it since then. */
void gw_away_silent(struct gw_away *away, uint64_t since_us);

/* The new one has all members. */
void gw_away_back(struct gw_away *away);

/* It has been away for so long, and for as long nothing came on here:
   `progress` has not changed. Called often. */
int gw_away_is_over(struct gw_away *away,
                    uint64_t now,
                    uint64_t progress,
                    uint64_t patience_us);

/* For the line of a member that ends, since nobody came: how its job goes on
   where it has checkpoints; else "". */
#define GW_AWAY_WAY_BYTES 256
void gw_away_way_on(const char *checkpoint_dir, char way[GW_AWAY_WAY_BYTES]);

#endif
