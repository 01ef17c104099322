/*
 * A step that is committed as a whole, as it stands on this shard.
 * gw_whole_step is private to commit_whole.c, gw_quorum to commit_quorum.c.
 */
#ifndef GW_SERVER_COMMIT_STEP_H
#define GW_SERVER_COMMIT_STEP_H

#include "transport/link/loop.h"

enum gw_whole_phase {
    GW_WHOLE_GATHERING, /* pushes come in; the vote follows the last */
    GW_WHOLE_DIRECTING, /* lamb: making directions */
    GW_WHOLE_TRUSTING,  /* lamb: waiting for the trust ratios */
    GW_WHOLE_APPLYING,
};

struct gw_whole_step {
    enum gw_whole_phase phase;
    uint64_t clock; /* of the step that is applied, */
    int skip;
    double clip, loss_scale; /* with these */
    uint32_t next;           /* chunk to work on */
    double *votes;           /* [2 * chunks] */
    uint32_t *nonfinite;     /* [ranks] */
    uint32_t nonfinite_n;
    double *trust;  /* [keys] */
    uint64_t voted; /* + 1: the clock of the last vote about gradients */
    struct gw_task task;
};

/* The ranks that make a step. */
struct gw_quorum {
    uint64_t decided;   /* clock + 1 of the last decision, */
    uint8_t *counts;    /* [ranks] and what it was */
    uint32_t *arrived;  /* [ranks] whole here in the clock that is open, and */
    uint32_t arrived_n; /* not told yet, since shard 0 does not keep up */
};

#endif
