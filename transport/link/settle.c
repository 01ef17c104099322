#include "config.h"

#include "transport/link/settle.h"

/* Pause between turns; without it the loop would not check its sockets. */
#define REST_US 1000

/* Threads of a process wait for each other here: a huge page may take long. */
static void settle_page(struct gw_settling *settling)
{
    const struct gw_memory *memory = &settling->memory[settling->next];
    gw_memory_settle_part(memory, &settling->at, GW_MEMORY_HUGE_BYTES);
    if (settling->at < memory->bytes)
        return;
    settling->next++;
    settling->at = 0;
}

static void settle_some(struct gw_timer *timer)
{
    struct gw_settling *settling = timer->owner;
    do
        settle_page(settling);
    while (settling->next < settling->n &&
           !gw_loop_turn_is_over(settling->loop));
    if (settling->next < settling->n)
        gw_timer_start(settling->loop, timer, REST_US);
    else
        settling->done(settling->owner);
}

void gw_settling_begin(struct gw_settling *settling)
{
    settling->timer = (struct gw_timer){.fire = settle_some, .owner = settling};
    settling->next = 0;
    settling->at = 0;
    if (settling->n > 0)
        settle_some(&settling->timer); /* often enough for all of it */
    else
        settling->done(settling->owner);
}

void gw_settling_stop(struct gw_settling *settling)
{
    if (settling->loop)
        gw_timer_stop(settling->loop, &settling->timer);
}
