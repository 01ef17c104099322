/*
 * Policies under which ranks take steps of their own, between exchanges with
 * the servers. Threads: the rank's caller.
 */
#ifndef GW_WORKER_LOCAL_H
#define GW_WORKER_LOCAL_H

#include <stddef.h>

#include "proto/config.h"
#include "proto/rounds.h"
#include "proto/status.h"

struct gw_local;
struct gw_optimizer;
struct gw_rank;

/* Arenas that a rank keeps under the policy, in addition to weights and
   gradients: one of each kind that is set, and the optimizer's states. Pure. */
struct gw_local_arenas {
    int own, from, apart;                 /* see struct gw_local */
    const struct gw_optimizer *optimizer; /* NULL: every step is pushed */
};
struct gw_local_arenas gw_local_arenas_of(const struct gw_config *config,
                                          const struct gw_rounds *rounds);

/*
 * Sets up rank->local for the policy that holds from the rank's clock on, the
 * first one of that policy; NULL if every step is pushed. The optimizer's state
 * goes on from one policy to the next. GW_ENOMEM and GW_EUSAGE (rounds too
 * long), which fail the client too, and the client's errors.
 */
enum gw_status gw_local_switch(struct gw_rank *rank);
/* Before the client attaches: errors of gw_inner_load. */
enum gw_status gw_local_load(struct gw_rank *rank);
void gw_local_close(struct gw_rank *rank);
/* Non-zero if all ranks have the same weights at the rank's clock. */
int gw_local_is_together(const struct gw_rank *rank);
/* At a clock at which all of the model is exchanged: waits for the weights that
   were not waited for on the way. Called before it is known whether the job
   goes on as it was. */
enum gw_status gw_local_meet(struct gw_rank *rank);
/* The model reads the servers' weights again, no longer the rank's own. */
void gw_local_end(struct gw_rank *rank);
/* Before a step at the rank's clock, or before all weights of that clock are
   needed: rounds that begin there do. Nothing if there is no such policy. */
void gw_local_begin(struct gw_rank *rank);
/* The hooks of a step: weights are needed; gradients are queued on the device,
   also if every step is pushed; gradients are on the host. */
enum gw_status gw_local_need(struct gw_rank *rank, size_t first, size_t n);
void gw_local_made(struct gw_rank *rank, size_t first, size_t n);
enum gw_status gw_local_ready(struct gw_rank *rank, size_t first, size_t n);
/* Between two steps: if a checkpoint is cut here, this rank's part of it is on
   its way when this returns. Errors of gw_inner_cut. */
enum gw_status gw_local_cut(struct gw_rank *rank);

#endif
