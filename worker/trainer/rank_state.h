/*
 * Inside a rank: the state that its files share.
 *
 *   rank.c          joining, the job, failures, the end of it all
 *   rank_declare.c  tensors, arenas, the device, from declare to start
 *   rank_phase.c     from one step to the next
 *   rank_step.c     one step: weights needed, gradients ready
 *   rank_pull.c     weights of a step before its end
 *   rank_save.c     a checkpoint that the trainer asks for
 *   rank_terms.c    hyperparameters that the trainer sets
 *   rank_score.c    when the test set is scored, and how
 *   report.c        steps that the coordinator is told of
 *   local.c         policies under which a rank takes steps of its own
 *   inner.c         the state of their optimizers in checkpoints
 *   clip.c          the limit of their gradients
 */
#ifndef GW_WORKER_RANK_STATE_H
#define GW_WORKER_RANK_STATE_H

#include "kernels/kernels.h"
#include "worker/client/client.h"
#include "worker/trainer/device_share.h"
#include "worker/trainer/local.h"
#include "worker/trainer/mirror.h"
#include "worker/trainer/pace.h"
#include "worker/trainer/rank.h"

/* A number of each weight, in the order of the keys, in host memory. */
struct gw_rank_arena {
    struct gw_memory memory;
    int shared; /* the memory is ours, not from the device's alloc_host, */
    int pinned; /* and registered with the device */
};

/* Hyperparameters that the trainer has set, by group. */
struct gw_rank_terms_table {
    uint32_t groups;
    uint32_t *place;            /* [groups] in `set`, + 1; 0: none */
    struct gw_group_terms *set; /* [n] in the order in which they came */
    uint32_t n;
    int changed; /* the servers lack some */
};

/* Steps that are kept for polls that come late. */
#define GW_TOLD_STEPS 16

struct gw_told_step {
    uint64_t clock; /* + 1; 0: none */
    struct gw_rank_sum sum;
    int told;
    int has_lr; /* of group 0, set by the trainer, */
    double lr;
};

/* The next turn: see rank_phase.c. */
enum gw_rank_phase {
    GW_RANK_PHASE_CLOCK,
    GW_RANK_PHASE_STEP,
    GW_RANK_PHASE_MEET,
    GW_RANK_PHASE_GO_ON,
    GW_RANK_PHASE_END,
    GW_RANK_PHASE_LAST,
    GW_RANK_PHASES
};

struct gw_rank {
    struct gw_rank_options options;
    struct gw_config config;
    struct gw_client *client;
    struct gw_error *error;
    uint32_t number, ranks;
    int payload_free; /* nothing is computed: arrays have no memory behind them
                       */

    struct gw_plan plan;
    uint64_t test_samples; /* 0: there is no test set */

    const struct gw_backend_ops *backend;
    struct gw_device *device;
    const struct gw_key *key; /* [keys] */
    const struct gw_rank_tensor
        *tensor; /* [keys], NULL: all are in the arenas */
    size_t keys;
    int own_steps; /* under local policies the trainer has the optimizer */
    struct gw_rank_done {
        uint8_t taken;   /* the tensor has this step's weights */
        uint8_t ready;   /* its gradient was ready in this step, or skipped */
        uint8_t skipped; /* it has none, */
        uint8_t counts;  /* and samples count all the same */
    } * done;            /* [keys] */
    uint64_t sample_flop;
    struct gw_rank_terms_table terms;

    struct gw_rank_arena weights_arena, gradients_arena;
    struct gw_rank_arena bf16_arena; /* weights as they arrive, if any */
    float *weights, *gradients;      /* their first bytes */
    float **weight, **gradient;      /* [keys] views of them */
    struct gw_mirror *mirror;        /* both, as the device has them */
    struct gw_device_share
        *device_share; /* NULL: nobody else reads them there */

    /* the step that is going on */
    enum gw_status over; /* GW_OK: it goes on; GW_EEND: no further step */
    enum gw_rank_phase phase;
    struct gw_rank_step step;
    uint64_t clock;
    uint32_t samples;
    uint64_t flop;      /* the step's, */
    uint64_t flop_done; /* and done so far */
    uint64_t began_us,
        busy_us;  /* the step's begin, on the wall and in computing time */
    int may_push; /* keys of the step may leave: see await_turn */
    int whole;    /* all weights are there: the set is scored */
    int leaves;   /* the trainer has no further step, */
    int left;     /* which the coordinator has been told of */
    int saves;    /* a checkpoint was asked for, and */
    int stands;   /* the rank waits for it at its clock */
    uint64_t uncounted_samples; /* the last step's, which may be late */

    uint64_t scored_clock; /* the last evaluation's */
    uint64_t dues_done;    /* evaluations of the plan, made or skipped */
    int was_per_push;      /* the policy's: each push makes a version */
    int is_new_policy;     /* nothing has been pushed under it */

    struct gw_pace pace;    /* if parts of a step go by speed */
    struct gw_local *local; /* NULL if every step is pushed */

    struct gw_cadence cadence;                 /* log.every */
    struct gw_told_step recent[GW_TOLD_STEPS]; /* at clock + 1; each push: the
                        first one is of all steps since the last report */
    uint64_t told_us;                          /* when the last one was */
    uint64_t answered; /* the last poll, as gw_client_polled has it */
};

/* rank.c: the client's line, if it has failed, is the rank's. Returns `status`.
 */
enum gw_status gw_rank_tell(struct gw_rank *rank, enum gw_status status);
/* The trainer has misused the calls with a key, which fails the job: GW_EUSAGE.
   `why` goes on from the key's name. */
enum gw_status
gw_rank_misused(struct gw_rank *rank, size_t key, const char *why);

/* rank_declare.c: after the client is closed. */
void gw_rank_free_arenas(struct gw_rank *rank);

/* rank_step.c: begin and end of a step to train. begin sets the part of
   rank->step that is known before; a step that others have gone on without is
   over, too. */
enum gw_status gw_rank_begin_step(struct gw_rank *rank);
enum gw_status gw_rank_end_step(struct gw_rank *rank,
                                enum gw_status status,
                                const struct gw_rank_sum *sum);
/* Weights change from here on. */
enum gw_status gw_rank_begin_weights(struct gw_rank *rank);
/* The trainer's tensors get all weights as they are now. */
void gw_rank_fill_tensors(struct gw_rank *rank);
/* The trainer's tensors of these keys, if it has any, get the weights as they
   are now. */
void gw_rank_refill_tensors(struct gw_rank *rank, size_t first, size_t n);
/* Counts the samples of the last step, at `clock`, if its pushes count; forgets
   them in any case. */
void gw_rank_count_samples(struct gw_rank *rank, uint64_t clock);

/* rank_terms.c: tables for the groups of the keys; the terms of a group, NULL:
   the job's. */
enum gw_status gw_rank_open_terms(struct gw_rank *rank);
void gw_rank_close_terms(struct gw_rank *rank);
const struct gw_terms *gw_rank_terms_of(const struct gw_rank *rank,
                                        uint32_t group);

/* rank_score.c: the evaluations of the plan: some are made already when the job
   begins or goes on; some are not made any more; one is due before this clock,
   or is made there. begin and end of any evaluation. */
void gw_rank_begin_dues(struct gw_rank *rank);
void gw_rank_skip_dues(struct gw_rank *rank);
int gw_rank_is_due(const struct gw_rank *rank);
void gw_rank_note_scored(struct gw_rank *rank);
enum gw_status gw_rank_begin_score(struct gw_rank *rank);
enum gw_status gw_rank_end_score(struct gw_rank *rank,
                                 enum gw_status status,
                                 const struct gw_rank_sum *sum);

/* report.c: after each step that counts, or may. Steps that were not reported
   are forgotten when another policy takes over. */
void gw_rank_report(struct gw_rank *rank, const struct gw_rank_sum *sum);
void gw_rank_forget_steps(struct gw_rank *rank);
uint64_t gw_rank_rss_bytes(void);

#endif
