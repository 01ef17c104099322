/*
 * One rank of a job, whoever computes: the protocol between a trainer and the
 * job's servers, as steps and tensors.
 *
 *   open > data > declare > [first weights] > start >
 *       { begin > { need .. ready } .. > end } .. > finish
 *   > close
 *
 * begin says which step comes, and which samples of it are this rank's. Before
 * a tensor is read it is needed, and when its gradient is made it is ready.
 * Which policy holds, and whether others wait, is decided behind these calls:
 * the trainer does the same under each.
 *
 * Threads: one caller. Calls that wait drive the client's loop themselves (see
 * worker/client/client.h). Everything that the options and the declaration
 * point to outlives the rank.
 *
 * Status: GW_OK; GW_EAGAIN from need, ready or hand_over: the step is given up,
 * and end says so; any other: the line is in the error that open was given, and
 * finish or close is next.
 */
#ifndef GW_WORKER_RANK_H
#define GW_WORKER_RANK_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "proto/config.h"
#include "proto/map.h"
#include "proto/mates.h"
#include "worker/client/client.h"
#include "worker/trainer/plan.h"
#include "worker/trainer/tensor.h"

struct gw_rank;

struct gw_rank_options {
    struct gw_client_options client;
    /* settings of this host, over those of the job; NULL: none */
    const struct gw_config *local;
    /* told when the client is there, for stopping it from a signal, and with
       NULL before it is closed; may be NULL */
    void (*opened)(void *owner, struct gw_client *client);
    void *owner;
};

/*
 * Joins the coordinator and reads the job. *error gets the line of every
 * failure, also of later calls, and is the caller's until close. Errors of
 * gw_client_open and gw_config_parse; *rank_p is NULL then.
 */
enum gw_status gw_rank_open(const struct gw_rank_options *options,
                            struct gw_rank **rank_p,
                            struct gw_error *error);

/* Tells the coordinator good-bye, if it is still there, and frees all arenas.
   *error keeps the client's line where that is why the job ended. NULL is
   allowed. */
void gw_rank_close(struct gw_rank *rank);

/* The job, with this host's settings; the rank's until it is closed. */
const struct gw_config *gw_rank_config(const struct gw_rank *rank);
uint32_t gw_rank_number(const struct gw_rank *rank);

/* What `tuned` of the declaration was in the checkpoint from which the job goes
   on; "": nothing, or it does not go on. */
const char *gw_rank_tuned(const struct gw_rank *rank);

/* Waits for all members, before any of them declares: which of them are on this
   host. Need not be called. */
enum gw_status gw_rank_meet(struct gw_rank *rank, struct gw_mates *mates_p);

/*
 * A failure of the trainer's own, with its line in the error that open was
 * given: the coordinator ends the job by it, unless it is over already. Returns
 * `status`; nothing happens where that is GW_OK.
 */
enum gw_status gw_rank_fail(struct gw_rank *rank, enum gw_status status);

/*
 * How many samples the training set has, >= 1, and the test set, 0: there is
 * none. Samples of steps are divided by that: *plan_p until the rank is closed;
 * plan_p may be NULL. Errors of gw_plan_make, for gw_rank_fail.
 */
enum gw_status gw_rank_data(struct gw_rank *rank,
                            uint64_t samples,
                            uint64_t test_samples,
                            const struct gw_plan **plan_p);

struct gw_rank_declaration {
    const struct gw_key *key; /* [keys] GW_DTYPE_F32; in forward order */
    size_t keys;
    /* [keys] where the trainer has each tensor; NULL: all are in the rank's
       arenas, as gw_rank_weights and gw_rank_gradients have them */
    const struct gw_rank_tensor *tensor;
    /* what computes; NULL: the trainer, in host memory */
    const struct gw_backend_ops *backend;
    struct gw_device *device;
    /* opens another handle of that device, on which others' gradients are
       summed beside the training; may be NULL */
    enum gw_status (*another)(void *owner,
                              struct gw_device **device_p,
                              struct gw_error *error);
    void *owner;
    uint64_t flop;     /* of forward and backward of one sample; 0: unknown */
    const char *words; /* what computes, for people, */
    const char *tuned; /* which ways its products take; "": no others, */
    const char *note;  /* and how data was read; "": as it is */
    uint8_t data_digest[GW_DIGEST_BYTES]; /* equal on all ranks */
};

/*
 * Declares the tensors, waits until all members agree and the servers are
 * ready, and allocates the arenas. Errors of gw_client_declare; GW_ENOMEM, for
 * gw_rank_fail.
 */
enum gw_status gw_rank_declare(struct gw_rank *rank,
                               const struct gw_rank_declaration *declaration);

/* Views of the rank's arenas in host memory, [keys]. gw_rank_begin may set them
   to other places. */
float *const *gw_rank_weights(const struct gw_rank *rank);
float *const *gw_rank_gradients(const struct gw_rank *rank);

/* The same as the device of the declaration has them. */
const float *const *gw_rank_device_weights(const struct gw_rank *rank);
float *const *gw_rank_device_gradients(const struct gw_rank *rank);

/* Whether this rank's weights are the first ones of the job: they are written
   (to the tensors, or to gw_rank_weights) between declare and start. */
int gw_rank_makes_weights(const struct gw_rank *rank);

/* Connects to the servers, with what a checkpoint has of this rank. */
enum gw_status gw_rank_start(struct gw_rank *rank);

enum gw_rank_task {
    GW_RANK_TRAIN, /* forward and backward over the samples */
    GW_RANK_SCORE, /* forward over this rank's part of the test set */
    GW_RANK_END    /* there is nothing more to do: gw_rank_finish */
};

struct gw_rank_step {
    enum gw_rank_task task;
    uint64_t number; /* of the step, from 0 */
    uint32_t epoch;
    /* Places of this rank's samples in the epoch's permutation, or in the test
       set; n may be 0, and then nothing is to be computed. */
    struct gw_plan_run run;
    uint64_t offset; /* of run.first in the samples of all ranks */
};

/*
 * What comes next. Waits for other members where the policy has them wait; the
 * weights of *step_p are not there yet.
 */
enum gw_status gw_rank_begin(struct gw_rank *rank, struct gw_rank_step *step_p);

/* The step after this one, where it is known already: for reading data ahead.
   0: it is not. */
int gw_rank_ahead(const struct gw_rank *rank, struct gw_rank_step *step_p);

/*
 * Waits until the weights of keys [first, first + n) are those of the step;
 * where the trainer has tensors of its own they are copied there. Costs little
 * when they are there.
 */
enum gw_status gw_rank_need(struct gw_rank *rank, size_t first, size_t n);

/* The factor of the loss in gradients of this step, known when any of its
   weights are there. */
double gw_rank_loss_scale(const struct gw_rank *rank);

/*
 * The gradients of keys [first, first + n) are made, sums over the samples, or
 * the device is told to make them. They are not changed before the next version
 * of these keys is there. Each key once in a step, in any order.
 */
enum gw_status gw_rank_ready(struct gw_rank *rank, size_t first, size_t n);

/* Passes on what has come from the device by now; with `wait`, all of it. Does
   nothing where gradients are made in host memory. */
enum gw_status gw_rank_hand_over(struct gw_rank *rank, int wait);

/* So much of the step's arithmetic is queued; in simulation its time passes. */
void gw_rank_computed(struct gw_rank *rank, uint64_t flop);

/* Sums over the samples of a step. */
struct gw_rank_sum {
    double loss;
    uint64_t correct; /* predictions */
};

/*
 * The step is over. `status`: what the trainer met in it, GW_OK or that of the
 * call which failed. Returns GW_OK where gw_rank_begin is next.
 */
enum gw_status gw_rank_end(struct gw_rank *rank,
                           enum gw_status status,
                           const struct gw_rank_sum *sum);

/*
 * After GW_RANK_END: says good-bye with the digest of the weights, and waits
 * for the end of the job, whose status it returns. Nothing that the device was
 * told to do reads other ranks' memory any more.
 */
enum gw_status gw_rank_finish(struct gw_rank *rank);

#endif
