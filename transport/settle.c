#include "config.h"

#include "transport/settle.h"

/* Of a turn: some 20 ms, where whoever is silent for a second is dead. */
#define PART_BYTES ((size_t)32 << 20)
/* Between two of them; of no time at all the loop would take the next one
   without a look at its sockets. */
#define REST_US 1000

/* What has no huge pages here gets small ones when it is touched. */
static void settle_part(struct gw_timer *timer)
{
    struct gw_settling *settling = timer->owner;
    const struct gw_memory *memory = &settling->memory[settling->next];
    int shared = memory->kind == GW_MEMORY_SHARED;
    if (shared)
        gw_memory_settle_part(memory, &settling->at, PART_BYTES);
    if (!shared || settling->at >= memory->bytes) {
        settling->next++;
        settling->at = 0;
    }
    if (settling->next < settling->n)
        gw_timer_start(settling->loop, timer, REST_US);
    else
        settling->done(settling->owner);
}

void gw_settling_begin(struct gw_settling *settling)
{
    settling->timer = (struct gw_timer){.fire = settle_part, .owner = settling};
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
