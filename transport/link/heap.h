/*
 * An intrusive pairing heap: timers, send queues and simulated events keep
 * their order in it without allocating. Fredman et al., Algorithmica 1986.
 * The node lies inside the caller's struct; the heap owns nothing. One thread.
 */
#ifndef GW_TRANSPORT_HEAP_H
#define GW_TRANSPORT_HEAP_H

#include <stddef.h>

struct gw_heap_node {
    struct gw_heap_node *child, *next;
    /* parent of a first child, else sibling before */
    struct gw_heap_node *back;
};

struct gw_heap {
    struct gw_heap_node *root;
    /* Non-zero when a comes before b: a strict weak order. */
    int (*before)(const struct gw_heap_node *a, const struct gw_heap_node *b);
};

/* The node must not be in any heap. O(1). */
void gw_heap_insert(struct gw_heap *heap, struct gw_heap_node *node);

/* The node must be in this heap. O(log n) amortised. */
void gw_heap_remove(struct gw_heap *heap, struct gw_heap_node *node);

/* The first node, left in place; NULL when empty. */
struct gw_heap_node *gw_heap_first(const struct gw_heap *heap);

/* The struct of type `type` whose member `member` is `node`. */
#define GW_CONTAINER(node, type, member)                                       \
    ((type *)(void *)((char *)(node)-offsetof(type, member)))

#endif
