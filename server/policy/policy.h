/*
 * Policies: when a push counts, when the pushes that are held make a version,
 * which wants may be answered. Pure functions of a shard's view of one chunk
 * and one rank; one entry per word of cluster.policy.
 *
 *   together   the pushes of one clock make one version (sync; backup: those of
 *              the ranks that a quorum has: commit_quorum.c)
 *   each       every push makes one, as it arrives (async, ssp, ..)
 */
#ifndef GW_SERVER_POLICY_H
#define GW_SERVER_POLICY_H

#include <stdint.h>

#include "proto/policy.h"
#include "proto/wire.h"

enum gw_push_verdict {
    GW_PUSH_HOLD,      /* belongs to the chunk's clock: hold it */
    GW_PUSH_DUPLICATE, /* in already: count it, change nothing */
    GW_PUSH_LATE,      /* its clock goes on, or went, without it: drop it */
    GW_PUSH_VIOLATION, /* no member following this policy sends it */
};

/* One chunk, as one rank stands to it. */
struct gw_policy_view {
    uint64_t version;
    uint64_t mark;  /* clocks of this rank below it are in */
    uint64_t least; /* the smallest mark of all ranks */
    uint64_t most;  /* the largest behind a push with samples */
    int idle;       /* the rank has run out of samples (GW_SHARD_IDLE) */
    int held;       /* a push of this rank is here and not yet in */
    int left_out;   /* it is decided that this version's clock has none of it */
};

struct gw_policy {
    int per_push; /* each push makes a version */
    enum gw_push_verdict (*judge)(const struct gw_policy_view *view,
                                  uint64_t clock);
    /* Non-zero when the pushes that are held make a version. */
    int (*complete)(uint32_t held, uint32_t ranks);
    /* Non-zero when the want's condition holds. */
    int (*answerable)(const struct gw_want *want,
                      const struct gw_policy_view *view);
};

/* NULL where this version has not got it. */
const struct gw_policy *gw_policy_find(enum gw_policy_kind kind);

/*
 * The factor on the learning rate of one push under a per-push policy.
 * Pushes count by their samples: a whole clock of all ranks comes to one step
 * of the learning rate, however its samples are divided.
 *
 *   scale W n / N      scale: policy.scale, which is 1 / W by default
 *                      n of N samples of its clock are the push's
 *
 * stale-lr divides by the staleness, if that is more than one (Zhang et al.
 * 2016, arXiv 1511.05950); where pushes are gathered (gw_policy_group) the rate
 * of their update is the sum of their factors, undivided, and it is their
 * gradients that are divided.
 */
double gw_policy_lr_factor(enum gw_policy_kind kind,
                           double scale,
                           uint32_t ranks,
                           uint64_t samples,
                           uint64_t clock_samples,
                           uint64_t staleness);

/* The factor of a push by its staleness: under stale-lr 1 over it, if that is
   more than one. */
double gw_policy_weight(enum gw_policy_kind kind, uint64_t staleness);

/* Pushes with samples that a chunk waits for before it makes an update of their
   mean: under stale-lr:N W / N, but at least one; under others one. */
uint32_t gw_policy_group(const struct gw_policy_word *word, uint32_t ranks);

#endif
