#include <config.h>

#include "proto/terms.h"

#include <stddef.h>
#include <string.h>

#include "proto/wire.h"

/* In the order of the wire. */
static const struct {
    const char *name;
    size_t offset;
    double limit; /* below it */
} fields[] = {
    {"lr", offsetof(struct gw_terms, lr), 1e30},
    {"weight_decay", offsetof(struct gw_terms, weight_decay), 1e30},
    {"momentum", offsetof(struct gw_terms, momentum), 1e30},
    {"beta1", offsetof(struct gw_terms, beta1), 1},
    {"beta2", offsetof(struct gw_terms, beta2), 1},
    {"eps", offsetof(struct gw_terms, eps), 1e30},
};
#define FIELDS (sizeof fields / sizeof *fields)

_Static_assert(4 + FIELDS * 8 == GW_TERMS_BYTES, "a group, and each value");

static double value_of(const struct gw_terms *terms, size_t i)
{
    double value;
    memcpy(&value, (const char *)terms + fields[i].offset, sizeof value);
    return value;
}

void gw_terms_encode(const struct gw_group_terms *from,
                     uint8_t out[GW_TERMS_BYTES])
{
    gw_put_u32(out, from->group);
    for (size_t i = 0; i < FIELDS; i++) {
        double value = value_of(&from->terms, i);
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        gw_put_u64(out + 4 + 8 * i, bits);
    }
}

void gw_terms_decode(const uint8_t in[GW_TERMS_BYTES],
                     struct gw_group_terms *terms)
{
    terms->group = gw_get_u32(in);
    for (size_t i = 0; i < FIELDS; i++) {
        uint64_t bits = gw_get_u64(in + 4 + 8 * i);
        memcpy((char *)&terms->terms + fields[i].offset, &bits, sizeof bits);
    }
}

const char *gw_terms_fault(const struct gw_terms *terms, double *value_p)
{
    for (size_t i = 0; i < FIELDS; i++) {
        *value_p = value_of(terms, i);
        if (!(*value_p >= 0 && *value_p < fields[i].limit))
            return fields[i].name;
    }
    return NULL;
}

const char *gw_terms_difference(const struct gw_terms *one,
                                const struct gw_terms *other,
                                double values[2])
{
    for (size_t i = 0; i < FIELDS; i++) {
        values[0] = value_of(one, i);
        values[1] = value_of(other, i);
        if (values[0] != values[1])
            return fields[i].name;
    }
    return NULL;
}
