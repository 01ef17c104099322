#include "config.h"

#include "transport/look.h"

#define MOST_US  100
#define LEAST_US 5

void gw_look_found(struct gw_look *look, uint64_t now)
{
    if (look->for_us == 0)
        look->for_us = MOST_US;
    if (look->slept_us && now - look->slept_us < MOST_US)
        look->for_us = look->for_us * 2 < MOST_US ? look->for_us * 2 : MOST_US;
    look->slept_us = 0;
    look->seen_us = now;
}

int gw_look_goes_on(const struct gw_look *look, uint64_t now)
{
    return look->always || now < look->seen_us + look->for_us;
}

void gw_look_sleeps(struct gw_look *look, uint64_t now)
{
    if (!look->slept_us && look->seen_us)
        look->for_us =
            look->for_us / 2 > LEAST_US ? look->for_us / 2 : LEAST_US;
    look->slept_us = now;
}
