/*
 * One rank of a job, for any trainer: its protocol with the job's servers, in
 * steps and tensors.
 *
 *   open > data > declare > [first weights] > start >
 *       { begin > { need .. ready } .. > end } .. > finish
 *   > close
 *
 * begin gives the next step, and this rank's samples of it. The trainer calls
 * need before it reads a tensor, and ready when the tensor's gradient is made,
 * or skip where it has none.
 * The policy, and waits for other ranks, are behind these calls: the trainer
 * does the same under every policy.
 *
 * Threads: one caller. Calls that wait drive the client's loop themselves (see
 * worker/client/client.h). Everything that the options and the declaration
 * point to outlives the rank.
 *
 * Arithmetic. A gradient is the sum over the samples of the step (not the
 * mean), times gw_rank_loss_scale. All ranks have the same samples if they take
 * place p of epoch e for sample gw_random_permute(train.seed, e, samples, p).
 *
 * Status. The trainer passes the status of need, ready and hand_over to end,
 * whatever it is: a step may be given up because others have gone on. The rank
 * remembers a failure: begin returns it, and so does finish; its line is in the
 * error given to open. After any other call that failed, close is next.
 */
#ifndef GW_WORKER_RANK_H
#define GW_WORKER_RANK_H

#include <stddef.h>
#include <stdint.h>

#include "proto/colocated.h"
#include "proto/config.h"
#include "proto/map.h"
#include "worker/client/client_options.h"
#include "worker/trainer/plan.h"
#include "worker/trainer/tensor.h"

struct gw_backend_ops;
struct gw_device;
struct gw_rank;
struct gw_terms;

struct gw_rank_options {
    struct gw_client_options client;
    /* this host's settings, which override the job's; NULL: none */
    const struct gw_config *local;
    /* called when the rank has joined, and with NULL before it leaves: in
       between gw_rank_stop and gw_rank_is_over may be called; may be NULL */
    void (*opened)(void *owner, struct gw_rank *rank);
    void *owner;
};

/*
 * Joins the coordinator and reads the job. *error gets the line of every
 * failure, also of later calls; it stays in place until the rank is closed.
 * Errors of gw_client_open and gw_config_parse; *rank_p is NULL then.
 */
enum gw_status gw_rank_open(const struct gw_rank_options *options,
                            struct gw_rank **rank_p,
                            struct gw_error *error);

/* Tells the coordinator good-bye, if it is still there, and frees all arenas.
   *error gets the client's line if that is why the job ended. NULL is
   allowed. */
void gw_rank_close(struct gw_rank *rank);

/* Asks the coordinator to stop the job, as a signal does. Thread: any. */
void gw_rank_stop(struct gw_rank *rank);

/* Non-zero when the job is over for this rank: no call waits any more. Thread:
   any. */
int gw_rank_is_over(const struct gw_rank *rank);

/* The job, with this host's settings; the rank's until it is closed. */
const struct gw_config *gw_rank_config(const struct gw_rank *rank);
uint32_t gw_rank_number(const struct gw_rank *rank);

/* `tuned` of the declaration when the checkpoint was made from which the job
   goes on; "": nothing was tuned, or the job begins. */
const char *gw_rank_tuned(const struct gw_rank *rank);

/* Waits until all members have joined, before any of them declares, and gives
   the members of this host. Optional. */
enum gw_status gw_rank_meet(struct gw_rank *rank,
                            struct gw_colocated *colocated_p);

/*
 * Reports a failure of the trainer; its line is in the error given to open, and
 * its status is neither GW_EAGAIN nor GW_EEND. The coordinator ends the job
 * with it, unless the job is over already. Returns `status`; does nothing with
 * GW_OK.
 */
enum gw_status gw_rank_fail(struct gw_rank *rank, enum gw_status status);

/*
 * Takes the sizes of the training set, >= 1, and of the test set, 0: there is
 * none, and plans the samples of steps: *plan_p, valid until the rank is
 * closed; plan_p may be NULL. GW_EUSAGE: the job has the test set scored
 * (train.eval_every), and there is none; errors of gw_plan_make. The caller may
 * say more in the line, and reports it by gw_rank_fail.
 */
enum gw_status gw_rank_data(struct gw_rank *rank,
                            uint64_t samples,
                            uint64_t test_samples,
                            const struct gw_plan **plan_p);

/*
 * The same for jobs whose data only the trainer knows (gw_config_is_external):
 * step_weight >= 1 is the sum of the weights of all ranks' gradients in a full
 * step, equal on all ranks; with as many as ranks, and 1 for each, servers take
 * the mean. A step's run is this rank's part of that weight. `scores`: the
 * trainer has a test set. GW_EUSAGE: the job is of another kind; it asks for
 * scores (train.eval_every), and there are none.
 */
enum gw_status
gw_rank_own_data(struct gw_rank *rank, uint64_t step_weight, int scores);

struct gw_rank_declaration {
    const struct gw_key *key; /* [keys] GW_DTYPE_F32; in forward order */
    size_t keys;
    /* [keys] the trainer's host memory of each tensor; NULL: all are in the
       rank's arenas, as gw_rank_weights and gw_rank_gradients have them */
    const struct gw_rank_tensor *tensor;
    /* the backend that computes, in the arenas; NULL: the trainer does, in host
       memory. A backend with memory of its own has no tensors elsewhere. */
    const struct gw_backend_ops *backend;
    struct gw_device *device;
    /* opens another handle of that device, on which others' gradients are
       summed during the training; may be NULL */
    enum gw_status (*another)(void *owner,
                              struct gw_device **device_p,
                              struct gw_error *error);
    void *owner;
    /* under local policies the trainer has an optimizer of its own: it is ready
       with a key's weights after its step, where a gradient would be */
    int own_steps;
    uint64_t flop;     /* forward and backward of one sample; 0: unknown */
    const char *words; /* describes the device, for people; may be NULL */
    const char *tuned; /* algorithms of its products; "" or NULL: the usual */
    const char *note;  /* how data was read, for people; may be NULL */
    /* a name of gw_optimizers that the job is to have, equal on all ranks;
       NULL: the job's. Jobs of other trainers alone (gw_rank_own_data). */
    const char *optimizer;
    double clip; /* largest norm of a gradient, likewise; 0: the job's */
    uint8_t data_digest[GW_DIGEST_BYTES]; /* equal on all ranks */
};

/*
 * Declares the tensors, waits until all members agree and the servers are
 * ready, and allocates the arenas. Errors of gw_client_declare; GW_ENOMEM, and
 * GW_EUSAGE for tensors beside a device, and own steps beside settings of an
 * inner optimizer: the caller reports all by gw_rank_fail.
 */
enum gw_status gw_rank_declare(struct gw_rank *rank,
                               const struct gw_rank_declaration *declaration);

/* Views of the rank's arenas in host memory, [keys]. gw_rank_start and
   gw_rank_begin may set them to other places. */
float *const *gw_rank_weights(const struct gw_rank *rank);
float *const *gw_rank_gradients(const struct gw_rank *rank);

/* The same in the memory of the declaration's device. */
const float *const *gw_rank_device_weights(const struct gw_rank *rank);
float *const *gw_rank_device_gradients(const struct gw_rank *rank);

/* Non-zero if this rank makes the first weights of the job: it writes them (to
   the tensors, or to gw_rank_weights) between declare and start. */
int gw_rank_makes_weights(const struct gw_rank *rank);

/* Loads this rank's part of the checkpoint, if it has one, and connects to the
   servers. */
enum gw_status gw_rank_start(struct gw_rank *rank);

enum gw_rank_task {
    GW_RANK_TRAIN, /* forward and backward over the samples */
    GW_RANK_SCORE  /* forward over this rank's part of the test set */
};

struct gw_rank_step {
    enum gw_rank_task task;
    uint64_t number; /* the step's, from 0 */
    uint32_t epoch;
    /* Places of this rank's samples in the epoch's permutation, or in the test
       set; n may be 0, and then nothing is to be computed. */
    struct gw_plan_run run;
    uint64_t offset; /* the place of run.first in the samples of all ranks */
    int own;         /* a step of the trainer's own optimizer (own_steps) */
};

/*
 * The next step. Waits for other members if the policy makes ranks wait; the
 * weights of *step_p are not there yet. GW_EEND: the job has no further step,
 * and has taken step_p->number; then, and after a failure, gw_rank_finish is
 * next.
 */
enum gw_status gw_rank_begin(struct gw_rank *rank, struct gw_rank_step *step_p);

/* The weight of this rank's gradient in the step to train that has begun,
   instead of its part of a full step; before any key is ready. 0: none is. */
void gw_rank_weigh(struct gw_rank *rank, uint32_t weight);

/*
 * Hyperparameters of a group of keys (gw_key.group) from the step on whose
 * first key is not ready yet, until they are set again; before any are set they
 * are the job's. Between gw_rank_declare and gw_rank_finish; the same on all
 * ranks with samples in a step, where pushes are applied together. A group
 * without keys needs none. GW_ERANGE: a value, with a line; the job goes on.
 */
enum gw_status gw_rank_terms(struct gw_rank *rank,
                             uint32_t group,
                             const struct gw_terms *terms);

/* The step to train after this one, to read its data ahead; the job may end
   before it, or go on without this rank at a later one. 0: it is not known yet,
   or this one scores. */
int gw_rank_ahead(const struct gw_rank *rank, struct gw_rank_step *step_p);

/*
 * Waits until keys [first, first + n) have the weights of the step, and copies
 * them to the trainer's own tensors, if it has any. A key that was needed
 * before in this step costs little. A trainer may need a key after another one
 * is ready or skipped.
 */
enum gw_status gw_rank_need(struct gw_rank *rank, size_t first, size_t n);

/* Non-zero if gw_rank_need of these keys would return GW_OK without a wait; 0
   also where that is not known. Thread: any. */
int gw_rank_has(const struct gw_rank *rank, size_t first, size_t n);

/* Non-zero if gw_rank_begin would return without a wait. */
int gw_rank_is_prompt(const struct gw_rank *rank);

/* The factor of the loss in gradients of this step, known when any of its
   weights are there. */
double gw_rank_loss_scale(const struct gw_rank *rank);

/*
 * The gradients of keys [first, first + n), sums over the samples, are made, or
 * queued on the device. Waits for the weights of keys that were not needed: of
 * these, and with the first ready or skipped key of a step for some of shard 0,
 * or for all where each push makes a version, in own steps, and in the first
 * step under a policy. Gradients do not change before the next version of these
 * keys is there; the trainer writes them into the arenas after it has needed
 * the key. In a step to train each key is ready or skipped once, in any order,
 * after the last batch; if the rank has no samples, or scores, none is.
 * GW_EUSAGE otherwise, which fails the job.
 */
enum gw_status gw_rank_ready(struct gw_rank *rank, size_t first, size_t n);

/*
 * Keys [first, first + n) have no gradient in this step, which is final as
 * gw_rank_ready is, allowed where that is, and waits as that does. Servers
 * take the gradients of other ranks, and with `counts` divide their sum by the
 * samples of this rank as well. A key without a gradient of any rank stays as
 * it is in this step: weights, states of the optimizer, its count of updates.
 * Under local policies it does so on each rank by itself.
 */
enum gw_status
gw_rank_skip(struct gw_rank *rank, size_t first, size_t n, int counts);

/*
 * Waits for the weights that this step makes of keys [first, first + n), which
 * are ready or skipped in it, and copies them to the trainer's own tensors.
 * GW_EEND, GW_EAGAIN: they do not come within the step, which ends now; with
 * GW_OK if gw_rank_is_final, else with that status. A mistake fails the job;
 * may_pull says it before, GW_EUSAGE with a line, and changes nothing.
 */
enum gw_status gw_rank_pull(struct gw_rank *rank, size_t first, size_t n);
enum gw_status gw_rank_may_pull(const struct gw_rank *rank,
                                size_t first,
                                size_t n,
                                struct gw_error *error);
/* Non-zero if gw_rank_pull would return without a wait. Thread: any. */
int gw_rank_pull_is_prompt(const struct gw_rank *rank, size_t first, size_t n);
/* Non-zero if all keys of the step are ready or skipped. */
int gw_rank_is_final(const struct gw_rank *rank);

/* Pushes the gradients that have come from the device by now; with `wait`, all
   of them. Does nothing if gradients are made in host memory. */
enum gw_status gw_rank_hand_over(struct gw_rank *rank, int wait);

/* `flop` of the step's arithmetic is queued; in simulation its time passes. */
void gw_rank_computed(struct gw_rank *rank, uint64_t flop);

/* Sums over the samples of a step. */
struct gw_rank_sum {
    double loss;
    uint64_t correct; /* predictions */
    uint64_t samples; /* 0: the step's run */
    int is_untold;    /* the trainer does not say them: the step has no loss */
};

/* Ends the step. `status`: GW_OK, or the status of the call that failed in it,
   which may be the regular end of the job (GW_EEND). `sum` is read with GW_OK.
   gw_rank_begin is next. */
void gw_rank_end(struct gw_rank *rank,
                 enum gw_status status,
                 const struct gw_rank_sum *sum);

/*
 * Between two steps: a checkpoint of the job. Under sync it is of the step that
 * begins next, and the call waits until it is complete on disk. Under other
 * policies ranks come to one clock in their next steps: GW_EAGAIN: it is not
 * complete, call again after a step. GW_EEND: the job ends; GW_EUSAGE: it has
 * no checkpoint.dir, and GW_EIO: the checkpoint failed, both with a line in
 * *why, leave the rank as it was.
 */
enum gw_status gw_rank_save(struct gw_rank *rank, struct gw_error *why);

/*
 * After GW_EEND of gw_rank_begin the tensors have the job's last weights. Says
 * good-bye with their digest, waits for the end of the job, and returns the
 * job's status. No work that was queued on the device reads other ranks' memory
 * any more. After a failure: returns it.
 *
 * Between two steps: the trainer has no further step. Where the trainer knows
 * the data (gw_rank_own_data), the job ends if the rank is 0, as complete; any
 * other rank takes part without samples until the job ends. Elsewhere
 * GW_EUSAGE, and the job ends by that.
 */
enum gw_status gw_rank_finish(struct gw_rank *rank);

#endif
