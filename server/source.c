#include "config.h"

#include "server/source.h"

#include <assert.h>
#include <math.h>

#include "proto/wire.h"

const float *gw_source_values(const struct gw_source *source)
{
    assert(source->encoding == GW_ENCODING_RAW);
    return source->absent ? NULL : source->at;
}

int gw_source_is_finite(const struct gw_source *source, size_t elems)
{
    const float *values = gw_source_values(source);
    for (size_t i = 0; values && i < elems; i++)
        if (!isfinite(values[i]))
            return 0;
    return 1;
}
