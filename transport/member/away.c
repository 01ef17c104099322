#include "config.h"

#include "transport/member/away.h"

#include <stdio.h>

static void begin(struct gw_away *away, uint64_t since_us)
{
    if (away->state == GW_COORDINATOR_HERE)
        away->since_us = away->moved_us = since_us;
}

int gw_away_link_up(struct gw_away *away, uint64_t incarnation, uint64_t now)
{
    int is_first = away->joined == 0;
    away->broke = 0;
    if (away->joined == incarnation) {
        if (away->state == GW_COORDINATOR_AWAY)
            away->state = GW_COORDINATOR_HERE;
        return 0;
    }
    away->joined = incarnation;
    if (is_first)
        return 1;
    begin(away, now);
    away->state = GW_COORDINATOR_NEW;
    return 1;
}

void gw_away_link_down(struct gw_away *away, int is_natural)
{
    away->broke = !is_natural;
}

void gw_away_silent(struct gw_away *away, uint64_t since_us)
{
    begin(away, since_us);
    if (away->state == GW_COORDINATOR_HERE)
        away->state = GW_COORDINATOR_AWAY;
}

void gw_away_back(struct gw_away *away)
{
    away->state = GW_COORDINATOR_HERE;
}

int gw_away_is_over(struct gw_away *away,
                    uint64_t now,
                    uint64_t progress,
                    uint64_t patience_us)
{
    if (away->state == GW_COORDINATOR_HERE)
        return 0;
    if (progress != away->progress)
        away->moved_us = now;
    away->progress = progress;
    return now > away->moved_us && now - away->moved_us > patience_us;
}

void gw_away_way_on(const char *checkpoint_dir, char way[GW_AWAY_WAY_BYTES])
{
    way[0] = '\0';
    if (checkpoint_dir[0])
        snprintf(way, GW_AWAY_WAY_BYTES,
                 "; --resume goes on from the newest checkpoint in %.180s",
                 checkpoint_dir);
}
