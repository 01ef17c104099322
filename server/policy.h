/*
 * Policies: when a push counts, when a chunk's clock is complete, which wants
 * may be answered. Pure functions over a chunk's version; one entry per word of
 * cluster.policy.
 */
#ifndef GW_SERVER_POLICY_H
#define GW_SERVER_POLICY_H

#include <stdint.h>

#include "proto/wire.h"

enum gw_push_verdict {
    GW_PUSH_HOLD,      /* belongs to the chunk's clock: hold it */
    GW_PUSH_DUPLICATE, /* in already: say so, count it, change nothing */
    GW_PUSH_VIOLATION, /* no member following this policy sends it */
};

struct gw_policy {
    const char *name;
    /* A push of `clock` for a chunk at `version`; held: this rank's is here. */
    enum gw_push_verdict (*judge)(uint64_t version, uint64_t clock, int held);
    /* Non-zero when the pushes that are held make a version. */
    int (*complete)(uint32_t held, uint32_t ranks);
    /* Non-zero when the want's condition holds at `version`. */
    int (*answerable)(const struct gw_want *want, uint64_t version);
};

/* Every policy of this version, ended by NULL. */
extern const struct gw_policy *const gw_policies[];

/* NULL when there is none of that name. */
const struct gw_policy *gw_policy_find(const char *name);

#endif
