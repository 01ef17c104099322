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

/* There are few. */
static void sort(unsigned *list, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        for (unsigned k = i; k > 0 && list[k - 1] > list[k]; k--) {
            unsigned other = list[k - 1];
            list[k - 1] = list[k];
            list[k] = other;
        }
}

/* All that the `n` devices of the order are linked to are in it already, and
   `first` is not; returns how many there are with its island. */
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
