/*
 * The workers of a small mlp and their server, without a network: gradients of
 * worker/model on the cpu, a worker's own steps by worker/trainer/local, and a
 * client in the place of worker/client that hands frames to the server at once.
 * What links this links no other client. The caller says who does a step when.
 */
#ifndef GW_TESTS_MLP_WORKERS_H
#define GW_TESTS_MLP_WORKERS_H

#include "tests/unit/plain_mlp.h"
#include "tests/unit/single.h"
#include "worker/data/feed.h"
#include "worker/model/model.h"
#include "worker/trainer/rank_state.h"

struct gw_client {
    struct single *single;
    uint32_t rank;
    struct gw_rank *worker;
    uint64_t have[MLP_KEYS]; /* 1 + the clock that a key's weights are for */
    int late;                /* of this clock only the last layer leaves */
    float sent[MLP_WEIGHTS]; /* which may have to be sent once more */
    int is_out[MLP_KEYS];    /* until there is an answer */
};

/* Large: not on the stack. */
struct mlp_workers {
    struct single single;
    struct gw_device *device;
    struct gw_model *model; /* of all: it keeps nothing between two steps */
    struct gw_client client[SINGLE_RANKS];
    struct gw_rank worker[SINGLE_RANKS];
    struct gw_feed feed[SINGLE_RANKS]; /* batches of each */
    struct gw_error error;
};

/* Opens a job with the weights of mlp_first_weights, which every worker has
   then. As single_open. */
void mlp_workers_open(struct mlp_workers *all,
                      uint64_t total_steps,
                      const char *const *job,
                      const char *const *more);
void mlp_workers_close(struct mlp_workers *all);

/* Whether a worker has all weights for its next clock. */
int mlp_workers_can_step(const struct mlp_workers *all, uint32_t rank);

/* One step of a worker, as worker/trainer/rank_step.c takes it. Its weights
   have to be there, or the test fails. */
void mlp_workers_step(struct mlp_workers *all, uint32_t rank);

/* backup: a worker gives its clock up, before it has begun or when its last
   layer's gradient has left, and goes on at the next one. */
void mlp_workers_give_up(struct mlp_workers *all, uint32_t rank, int has_begun);

/* The weights that the server has, and a worker. */
void mlp_workers_read_server(const struct mlp_workers *all,
                             float w[MLP_WEIGHTS]);
void mlp_workers_read(const struct mlp_workers *all,
                      uint32_t rank,
                      float w[MLP_WEIGHTS]);

#endif
