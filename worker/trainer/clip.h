/*
 * policy.inner_clip: before a worker's own optimizer takes its gradient, the
 * mean over the samples of a step, its norm is brought down to a limit. The
 * squares are summed where the gradient is made, as each key comes out of
 * backward, so that no other pass goes over it. Private to worker/. Threads:
 * the caller's.
 */
#ifndef GW_WORKER_CLIP_H
#define GW_WORKER_CLIP_H

#include <stddef.h>

#include "proto/status.h"

struct gw_rank;

/* Zero it if nothing is clipped. */
struct gw_clip {
    double limit;   /* 0: nothing is */
    double *square; /* [keys] sums, the device's memory, */
    double *host;   /* and where they are read */
    size_t arrived; /* keys of this step with a gradient on the host */
};

/* limit > 0. GW_ENOMEM, without a line; gw_clip_close is allowed after that. */
enum gw_status
gw_clip_open(struct gw_rank *rank, double limit, struct gw_clip *clip);
void gw_clip_close(struct gw_rank *rank, struct gw_clip *clip);

/* The gradients of these keys are queued on the device: queues their sums of
   squares. */
void gw_clip_made(struct gw_rank *rank,
                  struct gw_clip *clip,
                  size_t first,
                  size_t n);

/*
 * When all keys of a step are there: the factor on the sum of its samples'
 * gradients that brings its mean to the limit; 1 if the mean is within it, or
 * not finite. samples > 0.
 */
double gw_clip_factor(struct gw_rank *rank, const struct gw_clip *clip);

#endif
