/*
 * A push as its slot holds it. Sums, updates and the check for values that are
 * not finite take a source and know nothing else of a push. Pure; any thread.
 */
#ifndef GW_SERVER_SOURCE_H
#define GW_SERVER_SOURCE_H

#include <stddef.h>
#include <stdint.h>

struct gw_source {
    const void *at;   /* its values */
    float weight;     /* their weight in a gathered sum */
    uint8_t encoding; /* enum gw_encoding; raw so far */
    uint8_t absent;   /* without bytes: no gradient, or one of zeros */
};

/* The values as fp32; NULL where the source is absent. */
const float *gw_source_values(const struct gw_source *source);

/* 0: a value is NaN or infinite. */
int gw_source_is_finite(const struct gw_source *source, size_t elems);

#endif
