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

/* Which arenas the policy has a rank keep beside weights and gradients: of each
   kind one, and the optimizer's states. Pure. */
struct gw_local_arenas {
    int own, from, apart;                 /* see struct gw_local */
    const struct gw_optimizer *optimizer; /* NULL: every step is pushed */
};
struct gw_local_arenas gw_local_arenas_of(const struct gw_config *config,
                                          const struct gw_rounds *rounds);

/*
 * Taken up where
 * the policy is one of these, with the rank's clock at its first one; what the
 * optimizer keeps goes on from one to the next. NULL where every step is
 * pushed. GW_ENOMEM and GW_EUSAGE (rounds too long), which are the client's
 * failure too, and the client's errors.
 */
enum gw_status gw_local_switch(struct gw_rank *rank);
/* Before the client attaches: errors of gw_inner_load. */
enum gw_status gw_local_load(struct gw_rank *rank);
void gw_local_close(struct gw_rank *rank);
/* Whether the rank's clock is one at which all have the same weights. */
int gw_local_is_together(const struct gw_rank *rank);
/* Before it is known whether the job goes on as it was: at a clock where all of
   the model is exchanged, but was not waited for on the way. */
enum gw_status gw_local_meet(struct gw_rank *rank);
/* The model's weights are those that servers gave, no longer the rank's. */
void gw_local_end(struct gw_rank *rank);
/* The hooks of a step: weights that are there; gradients that the device is
   told to make, also where nothing is local; and that are on the host. */
enum gw_status gw_local_need(struct gw_rank *rank, size_t first, size_t n);
void gw_local_made(struct gw_rank *rank, size_t first, size_t n);
enum gw_status gw_local_ready(struct gw_rank *rank, size_t first, size_t n);
/* Between two steps: what a checkpoint that is cut here keeps of this rank is
   on its way when this returns. Errors of gw_inner_cut. */
enum gw_status gw_local_cut(struct gw_rank *rank);

#endif
