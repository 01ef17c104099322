#include <config.h>

#include "proto/split.h"

uint64_t gw_split_place(uint64_t n, uint64_t parts, uint64_t part)
{
    /* the product may need more than 64 bits */
    return (uint64_t)((unsigned __int128)n * part / parts);
}

void gw_split_even(uint32_t ranks, uint32_t *weight)
{
    uint64_t before = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint64_t end = (uint64_t)GW_SPLIT_TOTAL * (rank + 1) / ranks;
        weight[rank] = (uint32_t)(end - before);
        before = end;
    }
}

int gw_split_is_whole(const uint32_t *weight, uint32_t ranks)
{
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        sum += weight[rank];
    return sum == GW_SPLIT_TOTAL;
}

int gw_split_from_values(const double *values, uint32_t ranks, uint32_t *weight)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        /* NaN is in no range */
        if (!(values[rank] >= 0 && values[rank] <= GW_SPLIT_TOTAL))
            return 0;
        weight[rank] = (uint32_t)values[rank];
        if ((double)weight[rank] != values[rank])
            return 0;
    }
    return gw_split_is_whole(weight, ranks);
}

struct gw_split_range gw_split_range_of(const uint32_t *weight, uint32_t rank)
{
    struct gw_split_range range = {0, 0};
    for (uint32_t before = 0; before < rank; before++)
        range.begin += weight[before];
    range.end = range.begin + weight[rank];
    return range;
}
