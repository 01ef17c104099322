/*
 * What is to happen in a simulated world, in the order of time and, at one
 * time, of place. Most of it is near: a wheel has a list for each of the next
 * microseconds, in which almost all come behind the last; the rest, such as
 * heartbeats, waits in a heap.
 */
#include "config.h"

#include "transport/sim_world.h"

#include <assert.h>

/* Events take about as long as memory does to answer, some not half of it. */
#define STRIDE 2

#define SLOTS GW_SIM_SLOTS
#define WORDS GW_SIM_SLOT_WORDS

static struct gw_sim_event *event_of(const struct gw_heap_node *node)
{
    return node ? GW_CONTAINER(node, struct gw_sim_event, node) : NULL;
}

static int is_before(const struct gw_sim_event *first,
                     const struct gw_sim_event *second)
{
    if (first->at_us != second->at_us)
        return first->at_us < second->at_us;
    return first->order < second->order;
}

static int node_before(const struct gw_heap_node *a,
                       const struct gw_heap_node *b)
{
    return is_before(event_of(a), event_of(b));
}

/* ---- the wheel: node.next and node.back of an event, in both directions ----
 */

static int is_behind(const struct gw_sim_event *event,
                     const struct gw_heap_node *node)
{
    return event->order > event_of(node)->order;
}

/* The node behind which its order puts an event, NULL: it is the first. Looks
   from both ends, where almost all belong near one. */
static struct gw_heap_node *find_before(const struct gw_sim_slot *slot,
                                        const struct gw_sim_event *event)
{
    struct gw_heap_node *low = slot->first, *high = slot->last;
    while (high && !is_behind(event, high)) {
        if (!is_behind(event, low))
            return low->back;
        low = low->next;
        high = high->back;
    }
    return high;
}

static void insert_near(struct gw_sim_queue *queue, struct gw_sim_event *event)
{
    size_t i = event->at_us % SLOTS;
    struct gw_sim_slot *slot = &queue->slot[i];
    struct gw_heap_node *before = find_before(slot, event);
    struct gw_heap_node *after = before ? before->next : slot->first;
    event->node = (struct gw_heap_node){.next = after, .back = before};
    if (before)
        before->next = &event->node;
    else
        slot->first = &event->node;
    if (after)
        after->back = &event->node;
    else
        slot->last = &event->node;
    queue->filled[i / 64] |= (uint64_t)1 << i % 64;
}

static void remove_near(struct gw_sim_queue *queue, struct gw_sim_event *event)
{
    size_t i = event->at_us % SLOTS;
    struct gw_sim_slot *slot = &queue->slot[i];
    struct gw_heap_node *before = event->node.back, *after = event->node.next;
    if (before)
        before->next = after;
    else
        slot->first = after;
    if (after)
        after->back = before;
    else
        slot->last = before;
    if (!slot->first)
        queue->filled[i / 64] &= ~((uint64_t)1 << i % 64);
}

/* The first slot that is filled, from that of `now_us` on. */
static struct gw_sim_event *first_near(const struct gw_sim_queue *queue,
                                       uint64_t now_us)
{
    size_t from = now_us % SLOTS;
    uint64_t word = queue->filled[from / 64] & ~(uint64_t)0 << from % 64;
    for (size_t n = 0; n <= WORDS; n++) {
        size_t at = (from / 64 + n) % WORDS;
        if (n > 0)
            word = queue->filled[at];
        if (word)
            return event_of(
                queue->slot[at * 64 + (size_t)__builtin_ctzll(word)].first);
    }
    return NULL;
}

/* ---- both ---- */

void gw_sim_queue_look_ahead(const struct gw_sim_event *event)
{
    const struct gw_heap_node *node = event->near ? event->node.next : NULL;
    for (int others = 1; node && others <= GW_SIM_AHEAD * STRIDE; others++) {
        const struct gw_sim_event *next = event_of(node);
        if (next->nears && others % STRIDE == 0)
            next->nears(next, others / STRIDE);
        node = node->next;
    }
    __builtin_prefetch(node);
}

void gw_sim_queue_insert(struct gw_sim_queue *queue,
                         struct gw_sim_event *event,
                         uint64_t now_us)
{
    event->near = event->at_us - now_us < SLOTS;
    if (event->near) {
        insert_near(queue, event);
        return;
    }
    queue->far.before = node_before;
    gw_heap_insert(&queue->far, &event->node);
}

void gw_sim_queue_remove(struct gw_sim_queue *queue, struct gw_sim_event *event)
{
    if (event->near)
        remove_near(queue, event);
    else
        gw_heap_remove(&queue->far, &event->node);
}

struct gw_sim_event *gw_sim_queue_first(const struct gw_sim_queue *queue,
                                        uint64_t now_us)
{
    struct gw_sim_event *near = first_near(queue, now_us);
    struct gw_sim_event *far = event_of(gw_heap_first(&queue->far));
    if (!near || !far)
        return near ? near : far;
    return is_before(near, far) ? near : far;
}
