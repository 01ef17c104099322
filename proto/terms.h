/*
 * Terms: the hyperparameters of the job's optimizer that a program sets for a
 * group of keys while it trains. A GW_FRAME_TERMS has those of all groups for
 * which its sender has set any; they hold for its pushes from the frame's clock
 * on. Pure functions, any thread.
 */
#ifndef GW_PROTO_TERMS_H
#define GW_PROTO_TERMS_H

#include <stdint.h>

#include "proto/status.h"

struct gw_terms {
    double lr, weight_decay, momentum, beta1, beta2, eps;
};

struct gw_group_terms {
    uint32_t group;
    struct gw_terms terms;
};

#define GW_TERMS_BYTES 52

void gw_terms_encode(const struct gw_group_terms *from,
                     uint8_t out[GW_TERMS_BYTES]);
void gw_terms_decode(const uint8_t in[GW_TERMS_BYTES],
                     struct gw_group_terms *terms);

/*
 * Values as PyTorch takes them: all finite and at least 0, betas below 1, none
 * above 1e30. Returns the name of the first that is not so, and the value;
 * NULL: all are.
 */
const char *gw_terms_fault(const struct gw_terms *terms, double *value_p);

/* The name of the first value in which the two differ, and both values; NULL:
   none. */
const char *gw_terms_difference(const struct gw_terms *one,
                                const struct gw_terms *other,
                                double values[2]);

#endif
