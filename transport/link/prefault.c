#include "config.h"

#include "transport/link/prefault.h"

/* Pause between turns; without it the loop would not check its sockets. */
#define REST_US 1000

/* Threads of a process wait for each other here: a huge page may take long. */
static void prefault_page(struct gw_prefault *prefault)
{
    const struct gw_memory *memory = &prefault->memory[prefault->next];
    gw_memory_prefault_part(memory, &prefault->at, GW_MEMORY_HUGE_BYTES);
    if (prefault->at < memory->bytes)
        return;
    prefault->next++;
    prefault->at = 0;
}

static void prefault_some(struct gw_timer *timer)
{
    struct gw_prefault *prefault = timer->owner;
    do
        prefault_page(prefault);
    while (prefault->next < prefault->n &&
           !gw_loop_turn_is_over(prefault->loop));
    if (prefault->next < prefault->n)
        gw_timer_start(prefault->loop, timer, REST_US);
    else
        prefault->done(prefault->owner);
}

void gw_prefault_begin(struct gw_prefault *prefault)
{
    prefault->timer =
        (struct gw_timer){.fire = prefault_some, .owner = prefault};
    prefault->next = 0;
    prefault->at = 0;
    if (prefault->n > 0)
        prefault_some(&prefault->timer); /* often enough for all of it */
    else
        prefault->done(prefault->owner);
}

void gw_prefault_stop(struct gw_prefault *prefault)
{
    if (prefault->loop)
        gw_timer_stop(prefault->loop, &prefault->timer);
}
