#include "config.h"

#include "kernels/islands.h"

static int is_in(const unsigned *list, unsigned n, unsigned device)
{
    for (unsigned i = 0; i < n; i++)
        if (list[i] == device)
            return 1;
    return 0;
}

static int is_linked_to(const unsigned *list,
                        unsigned n,
                        int (*linked)(unsigned one, unsigned other),
                        unsigned device)
{
    for (unsigned i = 0; i < n; i++)
        if (linked(list[i], device))
            return 1;
    return 0;
}

/* Insertion sort: the lists are short. */
static void sort(unsigned *list, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        for (unsigned k = i; k > 0 && list[k - 1] > list[k]; k--) {
            unsigned other = list[k - 1];
            list[k - 1] = list[k];
            list[k] = other;
        }
}

/* Appends the island of `first`, which is not in the order yet. The first n
   devices are whole islands. Returns the new length. */
static unsigned add_island(unsigned devices,
                           int (*linked)(unsigned one, unsigned other),
                           unsigned *order,
                           unsigned n,
                           unsigned first)
{
    unsigned begin = n, before;
    order[n++] = first;
    do {
        before = n;
        for (unsigned d = 0; d < devices; d++)
            if (!is_in(order, n, d) &&
                is_linked_to(order + begin, n - begin, linked, d))
                order[n++] = d;
    } while (n > before);
    sort(order + begin, n - begin);
    return n;
}

void gw_islands_order(unsigned n,
                      int (*linked)(unsigned one, unsigned other),
                      unsigned *order)
{
    unsigned ordered = 0;
    for (unsigned first = 0; first < n; first++)
        if (!is_in(order, ordered, first))
            ordered = add_island(n, linked, order, ordered, first);
}
