/*
 * How long a loop looks for what comes before it sleeps. Where messages come
 * one soon after the other it goes on looking for a while, since to be woken
 * takes longer than many of them. How long is learnt: a wait that was in vain
 * halves it, one that was too short by little doubles it. One thread.
 */
#ifndef GW_TRANSPORT_LOOK_H
#define GW_TRANSPORT_LOOK_H

#include <stdint.h>

struct gw_look {
    int always;        /* it never sleeps */
    uint64_t seen_us;  /* when something came; 0: nothing ever did */
    uint64_t for_us;   /* how long to look for the next; 0: not yet known */
    uint64_t slept_us; /* when it went to sleep; 0: it is awake */
};

/* Something has come. */
void gw_look_found(struct gw_look *look, uint64_t now);

/* Whether to look again, rather than to sleep. */
int gw_look_goes_on(const struct gw_look *look, uint64_t now);

/* It goes to sleep, and will be woken. Also while it does so already. */
void gw_look_sleeps(struct gw_look *look, uint64_t now);

#endif
