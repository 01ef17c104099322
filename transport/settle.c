#include "config.h"

#include "transport/settle.h"

/* Of a turn, whose end is looked for after each huge page: whoever is silent
   for a second is dead, and threads of a process wait for each other here. */
#define TURN_US 10000
/* Between two of them; of no time at all the loop would take the next one
   without a look at its sockets. */
#define REST_US 1000

/* What has no huge pages here gets small ones when it is touched. */
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
    uint64_t end = gw_loop_now(settling->loop) + TURN_US;
    do
        settle_page(settling);
    while (settling->next < settling->n && gw_loop_now(settling->loop) < end);
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
        gw_timer_start(settling->loop, &settling->timer, REST_US);
    else
        settling->done(settling->owner);
}

void gw_settling_stop(struct gw_settling *settling)
{
    if (settling->loop)
        gw_timer_stop(settling->loop, &settling->timer);
}
