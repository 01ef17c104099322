#include "config.h"

#include "transport/link/heap.h"

static struct gw_heap_node *
meld(struct gw_heap *heap, struct gw_heap_node *a, struct gw_heap_node *b)
{
    if (!a)
        return b;
    if (!b)
        return a;
    if (heap->before(b, a)) {
        struct gw_heap_node *swap = a;
        a = b;
        b = swap;
    }
    b->back = a;
    b->next = a->child;
    if (a->child)
        a->child->back = b;
    a->child = b;
    return a;
}

/* Melds siblings in pairs left to right, then the pairs right to left. */
static struct gw_heap_node *meld_siblings(struct gw_heap *heap,
                                          struct gw_heap_node *first)
{
    struct gw_heap_node *pairs = NULL;
    while (first) {
        struct gw_heap_node *a = first, *b = first->next;
        first = b ? b->next : NULL;
        a->next = a->back = NULL;
        if (b)
            b->next = b->back = NULL;
        a = meld(heap, a, b);
        a->next = pairs;
        pairs = a;
    }
    struct gw_heap_node *root = NULL;
    while (pairs) {
        struct gw_heap_node *next = pairs->next;
        pairs->next = NULL;
        root = meld(heap, root, pairs);
        pairs = next;
    }
    return root;
}

void gw_heap_insert(struct gw_heap *heap, struct gw_heap_node *node)
{
    *node = (struct gw_heap_node){0};
    heap->root = meld(heap, heap->root, node);
}

void gw_heap_remove(struct gw_heap *heap, struct gw_heap_node *node)
{
    struct gw_heap_node *below = meld_siblings(heap, node->child);
    if (node == heap->root) {
        heap->root = below;
    } else {
        if (node->back->child == node)
            node->back->child = node->next;
        else
            node->back->next = node->next;
        if (node->next)
            node->next->back = node->back;
        heap->root = meld(heap, heap->root, below);
    }
    *node = (struct gw_heap_node){0};
}

struct gw_heap_node *gw_heap_first(const struct gw_heap *heap)
{
    return heap->root;
}
