/*
 * Scheduled events of a simulated world, in the order of time and, at one time,
 * of place. Most events are near: a wheel has a list for each of the next
 * microseconds, and almost all belong close to an end of their list; a list
 * with one that does not is sorted when its time has come. The other events,
 * such as heartbeats, wait in a heap.
 */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>

/* Every so many events are prefetched: an event takes about as long as memory,
   some less than half of that. */
#define STRIDE 2

/* Steps from each end of a list, before it is left unsorted. */
#define STEPS 16

#define SLOTS GW_SIM_SLOTS
#define WORDS GW_SIM_SLOT_WORDS

static struct gw_sim_event *event_of(const struct gw_heap_node *node)
{
    return node ? GW_CONTAINER(node, struct gw_sim_event, node) : NULL;
}

static int place_before(const struct gw_sim_place *first,
                        const struct gw_sim_place *second)
{
    if (first->made_us != second->made_us)
        return first->made_us < second->made_us;
    return first->number < second->number;
}

static int is_before(const struct gw_sim_event *first,
                     const struct gw_sim_event *second)
{
    if (first->at_us != second->at_us)
        return first->at_us < second->at_us;
    return place_before(&first->place, &second->place);
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
    return place_before(&event_of(node)->place, &event->place);
}

/* Finds the node behind which the event's place is, NULL: it is the first.
   Searches from both ends, so many steps; 0: the place is further away. */
static int find_before(const struct gw_sim_slot *slot,
                       const struct gw_sim_event *event,
                       size_t steps,
                       struct gw_heap_node **before_p)
{
    struct gw_heap_node *low = slot->first, *high = slot->last;
    for (; high && !is_behind(event, high); steps--) {
        if (steps == 0)
            return 0;
        if (!is_behind(event, low)) {
            *before_p = low->back;
            return 1;
        }
        low = low->next;
        high = high->back;
    }
    *before_p = high;
    return 1;
}

static int bit(const uint64_t *bits, size_t i)
{
    return (int)(bits[i / 64] >> i % 64 & 1);
}

/* Finds the place of an event in its slot, which may be left unsorted until its
   time has come. An event that is scheduled for the current time goes behind
   all others: earlier ones of that kind are of the same host, or of hosts that
   it does not affect. */
static struct gw_heap_node *place_of(struct gw_sim_queue *queue,
                                     const struct gw_sim_event *event,
                                     uint64_t now_us)
{
    size_t i = event->at_us % SLOTS;
    const struct gw_sim_slot *slot = &queue->slot[i];
    struct gw_heap_node *before = slot->last;
    int has_come = event->at_us == now_us;
    if ((has_come && event->place.made_us == now_us) || bit(queue->unsorted, i))
        return before;
    if (!find_before(slot, event, has_come ? SIZE_MAX : STEPS, &before))
        queue->unsorted[i / 64] |= (uint64_t)1 << i % 64;
    return before;
}

static void insert_near(struct gw_sim_queue *queue,
                        struct gw_sim_event *event,
                        uint64_t now_us)
{
    size_t i = event->at_us % SLOTS;
    struct gw_sim_slot *slot = &queue->slot[i];
    struct gw_heap_node *before = place_of(queue, event, now_us);
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
    if (slot->first)
        return;
    queue->filled[i / 64] &= ~((uint64_t)1 << i % 64);
    queue->unsorted[i / 64] &= ~((uint64_t)1 << i % 64);
}

static struct gw_heap_node *merge(struct gw_heap_node *one,
                                  struct gw_heap_node *other)
{
    struct gw_heap_node *first = NULL, **last = &first;
    while (one && other) {
        struct gw_heap_node **from =
            is_behind(event_of(one), other) ? &other : &one;
        *last = *from;
        last = &(*from)->next;
        *from = *last;
    }
    *last = one ? one : other;
    return first;
}

/* Merge sort: run[k] is NULL or 2^k nodes in order. */
static struct gw_heap_node *sort(struct gw_heap_node *node)
{
    struct gw_heap_node *run[48] = {NULL}, *all = NULL;
    while (node) {
        struct gw_heap_node *next = node->next;
        size_t k = 0;
        node->next = NULL;
        for (; run[k]; k++) {
            node = merge(run[k], node);
            run[k] = NULL;
        }
        run[k] = node;
        node = next;
    }
    for (size_t k = 0; k < sizeof run / sizeof *run; k++)
        all = merge(run[k], all);
    return all;
}

static void sort_slot(struct gw_sim_queue *queue, size_t i)
{
    struct gw_sim_slot *slot = &queue->slot[i];
    struct gw_heap_node *before = NULL;
    slot->first = sort(slot->first);
    for (struct gw_heap_node *node = slot->first; node; node = node->next) {
        node->back = before;
        before = node;
    }
    slot->last = before;
    queue->unsorted[i / 64] &= ~((uint64_t)1 << i % 64);
}

static struct gw_sim_event *first_of(struct gw_sim_queue *queue, size_t i)
{
    if (bit(queue->unsorted, i))
        sort_slot(queue, i);
    return event_of(queue->slot[i].first);
}

/* The first filled slot, from that of `now_us` on. */
static struct gw_sim_event *first_near(struct gw_sim_queue *queue,
                                       uint64_t now_us)
{
    size_t from = now_us % SLOTS;
    uint64_t word = queue->filled[from / 64] & ~(uint64_t)0 << from % 64;
    for (size_t n = 0; n <= WORDS; n++) {
        size_t at = (from / 64 + n) % WORDS;
        if (n > 0)
            word = queue->filled[at];
        if (word)
            return first_of(queue, at * 64 + (size_t)__builtin_ctzll(word));
    }
    return NULL;
}

/* ---- both ---- */

void gw_sim_queue_prefetch(const struct gw_sim_event *event)
{
    const struct gw_heap_node *node = event->near ? event->node.next : NULL;
    for (int others = 1; node && others <= GW_SIM_AHEAD * STRIDE; others++) {
        const struct gw_sim_event *next = event_of(node);
        if (next->prefetch && others % STRIDE == 0)
            next->prefetch(next, others / STRIDE);
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
        insert_near(queue, event, now_us);
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

struct gw_sim_event *gw_sim_queue_first(struct gw_sim_queue *queue,
                                        uint64_t now_us)
{
    struct gw_sim_event *near = first_near(queue, now_us);
    struct gw_sim_event *far = event_of(gw_heap_first(&queue->far));
    if (!near || !far)
        return near ? near : far;
    return is_before(near, far) ? near : far;
}
