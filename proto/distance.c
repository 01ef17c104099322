#include <config.h>

#include "proto/distance.h"

#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: three rows of the table are alive at a time. */
unsigned gw_edit_distance(const char *a, const char *b)
{
    size_t a_bytes = strnlen(a, GW_DISTANCE_BYTES);
    size_t b_bytes = strnlen(b, GW_DISTANCE_BYTES);
    unsigned rows[3][GW_DISTANCE_BYTES + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_bytes; j++)
        last[j] = (unsigned)j;
    for (size_t i = 1; i <= a_bytes; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_bytes; j++) {
            unsigned replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(replaced, 1 + least(row[j - 1], last[j]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], 1 + before[j - 2]);
        }
        unsigned *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b_bytes];
}
