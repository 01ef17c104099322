/*
 * The state of a worker's own optimizer in checkpoints: a file of each worker,
 * with a tensor "exp_avg.fc1.weight" in the key's shape for each array and
 * key, and in its metadata the updates made so far, and "skipped.fc1.weight",
 * those of them without a gradient of the key, if any. Private to worker/.
 * Threads: the caller's.
 */
#ifndef GW_WORKER_INNER_H
#define GW_WORKER_INNER_H

#include "kernels/update/update.h"
#include "proto/safetensors.h"
#include "transport/link/loop.h"

struct gw_rank;

/* The owner of the optimizer sets the first part; zero the rest. */
struct gw_inner {
    const struct gw_optimizer *optimizer;
    float *const *state; /* [optimizer->states] arenas, as the weights are */
    uint64_t *updates;   /* the optimizer's so far, */
    uint64_t *skipped;   /* and [keys] those that left a key out */

    float *snapshot; /* the copy that is sent; taken at the first cut */
    struct gw_safetensors_header header;
    struct gw_file_part parts[2];
};

/*
 * Before the client attaches: if the job goes on from a checkpoint that has the
 * state, loads it. Errors: GW_ECORRUPT, GW_EMISMATCH, GW_ENOMEM with the line
 * in rank->error, or the client's.
 */
enum gw_status gw_inner_load(struct gw_rank *rank, struct gw_inner *inner);

/*
 * Before the optimizer's first update in a clock, and before waits that may be
 * for a checkpoint to be complete: if one is cut there, copies the state and
 * sends it. Waits if the one before is still on its way. Does nothing for an
 * optimizer without state. GW_ENOMEM, which has failed the client, or the
 * client's errors.
 */
enum gw_status gw_inner_cut(struct gw_rank *rank, struct gw_inner *inner);

/* Called when nothing is sent any more (gw_client_saved, or the client is
   closed). */
void gw_inner_close(struct gw_inner *inner);

#endif
