/*
 * libgradweir: trains a program's own model through gradweir's servers.
 *
 *   open > join > declare > [rank 0 puts the first weights] > start >
 *       { begin > { wait, take .. push, skip [pull] } > end } ..
 *   > finish > close
 *
 * The program computes gradients; servers sum the gradients of all ranks,
 * update the weights and send them back. The policy of the job (synchronous,
 * stale, asynchronous, local) is behind these calls: a program is the same
 * under every policy. `gradweir run JOB -- PROGRAM` starts servers and
 * programs.
 *
 * Threads. A job is used by one thread at a time, except gradweir_stop. Several
 * jobs in one process know nothing of each other. gradweir_open starts two
 * threads, which block all signals. A process that was forked from one with an
 * open job must not use the job: every call returns GRADWEIR_EUSAGE there, and
 * gradweir_close does nothing.
 *
 * Waits. A call with `timeout_ms` waits for so long at most: -1 for ever, 0 not
 * at all. GRADWEIR_ETIMEOUT and GRADWEIR_EAGAIN (a signal was handled) change
 * nothing: the program makes the same call again. Any other call first waits
 * for the one that is still going on.
 *
 * Status. 0, or one of the negative numbers below. GRADWEIR_EEND within a step:
 * the step is not to be finished, and gradweir_end is next; of gradweir_begin:
 * the job has no further step, and gradweir_finish is next. GRADWEIR_EINVAL,
 * and GRADWEIR_EUSAGE for a call out of its order, leave the job as it was.
 * After any other number the job is over for this rank. gradweir_error has one
 * line about the fault, its place and the remedy. Numbers are never reused.
 *
 * Structs of the caller begin with struct_size = sizeof of the struct, so that
 * they can grow. Memory that is passed in is read before the call returns,
 * unless said. C99 and C++.
 */
#ifndef GRADWEIR_H
#define GRADWEIR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GRADWEIR_API __attribute__((visibility("default")))
#else
#define GRADWEIR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum gradweir_status {
    GRADWEIR_OK = 0,
    GRADWEIR_EAGAIN = -1,        /* a signal came: the same call again */
    GRADWEIR_EINVAL = -2,        /* invalid argument */
    GRADWEIR_ERANGE = -3,        /* value out of range */
    GRADWEIR_ENOMEM = -4,        /* out of memory */
    GRADWEIR_ENOENT = -5,        /* not found */
    GRADWEIR_EEXIST = -6,        /* already exists */
    GRADWEIR_EUNSUPPORTED = -7,  /* not supported here */
    GRADWEIR_ECORRUPT = -8,      /* damaged data */
    GRADWEIR_EIO = -9,           /* input or output failed */
    GRADWEIR_ENOSPC = -10,       /* no space left */
    GRADWEIR_EMISMATCH = -11,    /* does not match */
    GRADWEIR_EUSAGE = -12,       /* a mistake of the program or the job file */
    GRADWEIR_EEND = -13,         /* no further step */
    GRADWEIR_ECLOSED = -32,      /* connection closed */
    GRADWEIR_EREFUSED = -33,     /* refused by the peer */
    GRADWEIR_EPROTO = -34,       /* protocol violated */
    GRADWEIR_EVERSION = -35,     /* other protocol version */
    GRADWEIR_ECRC = -36,         /* checksum does not match */
    GRADWEIR_ETIMEOUT = -37,     /* timed out: the same call again */
    GRADWEIR_EADDRINUSE = -38,   /* address in use */
    GRADWEIR_EUNREACHABLE = -39, /* peer cannot be reached */
    GRADWEIR_EDEAD = -64,        /* a member of the job died */
    GRADWEIR_EINTERRUPTED = -65, /* the job was stopped, and can go on later */
    GRADWEIR_ENONFINITE = -66,   /* NaN or infinity in a gradient */
    GRADWEIR_EABORTED = -67,     /* the job was ended */
    GRADWEIR_ERESUMABLE = -68    /* EDEAD, and the job can go on later */
};

/* Types of the program's tensors. Servers keep fp32. */
enum gradweir_type {
    GRADWEIR_F32 = 0,
    GRADWEIR_BF16 = 1,
    GRADWEIR_F16 = 2 /* IEEE 754 binary16 */
};

enum gradweir_level {
    GRADWEIR_LOG_ERROR = 0,
    GRADWEIR_LOG_WARN = 1,
    GRADWEIR_LOG_INFO = 2,
    GRADWEIR_LOG_DEBUG = 3
};

#define GRADWEIR_ANY_RANK UINT32_MAX
#define GRADWEIR_DIMS_MAX 8

/* A job in which this process is a rank. */
typedef struct gradweir_job gradweir_job;

/*
 * Receives a line of log, without a newline, valid during the call. Called from
 * the library's threads and the caller's, one at a time for each job; it must
 * not call the library.
 */
typedef void (*gradweir_log_cb)(void *owner, int level, const char *line);

struct gradweir_options {
    size_t struct_size;
    /* HOST:PORT of the coordinator; NULL: GRADWEIR_COORDINATOR of the
       environment, which gradweir run sets, else MASTER_ADDR and MASTER_PORT,
       which need a rank */
    const char *coordinator;
    /* the rank to ask for; GRADWEIR_ANY_RANK: RANK of the environment, else
       one that is free */
    uint32_t rank;
    /* [sets] "key=value": settings of the job that may differ per host */
    const char *const *set;
    size_t sets;
    /* for the coordinator to be there; 0: 30 s */
    uint32_t wait_ms;
    /* NULL: lines go to standard error, from GRADWEIR_LOG_WARN on */
    gradweir_log_cb log;
    void *log_owner;
    int log_level; /* the least important level that `log` gets */
};

/* The version of the library, "0.1.0". Thread: any. */
GRADWEIR_API const char *gradweir_version(void);

/* The text of a status, never NULL. Thread: any. */
GRADWEIR_API const char *gradweir_status_text(int status);

/*
 * Makes a job, and begins to join it. *job_p is the caller's to close, also if
 * joining fails later; NULL on failure, with a line in why. GRADWEIR_EINVAL (no
 * coordinator, an unknown setting, another struct_size), GRADWEIR_ENOMEM.
 */
GRADWEIR_API int gradweir_open(const struct gradweir_options *options,
                               gradweir_job **job_p,
                               char *why,
                               size_t why_bytes);

/*
 * Leaves the job and frees it; NULL is allowed. A job that goes on fails by it,
 * unless gradweir_finish has returned. Returns within a second.
 */
GRADWEIR_API void gradweir_close(gradweir_job *job);

/* The line about the last failure, "" if there is none; until the next call of
   the job. */
GRADWEIR_API const char *gradweir_error(const gradweir_job *job);

/* Waits until the coordinator has given this process its rank.
   GRADWEIR_EUNREACHABLE, GRADWEIR_EREFUSED, GRADWEIR_EVERSION. */
GRADWEIR_API int gradweir_join(gradweir_job *job, int timeout_ms);

/* After gradweir_join; 0 before. */
GRADWEIR_API uint32_t gradweir_rank(const gradweir_job *job);
GRADWEIR_API uint32_t gradweir_ranks(const gradweir_job *job);

/*
 * The value of a key of the job file, "cluster.policy", as text. Returns the
 * bytes that it needs without its end, of which `bytes` - 1 at most are
 * written; GRADWEIR_ENOENT: no such key; GRADWEIR_EUSAGE: before gradweir_join.
 */
GRADWEIR_API int gradweir_setting(const gradweir_job *job,
                                  const char *key,
                                  char *value,
                                  size_t bytes);

/* A tensor. Names, shapes and groups are equal on all ranks, in one order. */
struct gradweir_key {
    size_t struct_size;
    const char *name; /* 1 to 255 bytes, each name once */
    int type;         /* enum gradweir_type, the program's */
    uint32_t dims;    /* 0 (a number) to GRADWEIR_DIMS_MAX */
    uint64_t shape[GRADWEIR_DIMS_MAX];
    uint32_t group; /* of declaration.groups; 0 where there are none */
};

/* How servers make the next weights of a group's keys. */
enum gradweir_rule {
    GRADWEIR_RULE_OPTIMIZER = 0, /* by the job's optimizer, from the mean
                                    gradient */
    GRADWEIR_RULE_MEAN = 1       /* as the mean of the values that ranks push,
                                    each a value times the rank's weight */
};

/* Keys with one rule and the same hyperparameters. */
struct gradweir_group {
    size_t struct_size;
    int rule; /* enum gradweir_rule */
};

struct gradweir_declaration {
    size_t struct_size;
    const struct gradweir_key *keys; /* [n_keys] in the order of forward */
    size_t n_keys;
    /* the sum of the weights of all ranks' gradients in a full step, equal on
       all ranks; 0: as many as ranks, 1 for each, so that servers take means */
    uint64_t step_weight;
    int scores;         /* the program scores a test set when it is asked to */
    const char *device; /* the computing device, for people; may be NULL */
    /* [n_groups], at most 1024; NULL: one, of the job's optimizer */
    const struct gradweir_group *groups;
    size_t n_groups;
    /* "sgd", "momentum", "nesterov", "adam", "adamw", "lamb" or "none": the
       optimizer that the job is to have, equal on all ranks, if the job file
       does not name one; NULL: the job's */
    const char *optimizer;
    /* the program has an optimizer of its own: under policies with steps of the
       ranks' own ("local", "diloco", "downpour", "easgd") its push of a key is
       the key's weights after its step, no gradient; see gradweir_step.own */
    int own_steps;
    /* the largest norm of the gradient of a step, over all keys; a larger one
       is scaled down to it, as by torch.nn.utils.clip_grad_norm_: the mean over
       ranks, and under policies with steps of the ranks' own that of a rank.
       Equal on all ranks; 0: the job's (train.clip, policy.inner_clip) */
    double max_norm;
};

/*
 * Declares the tensors and waits until all ranks have, and servers are ready.
 * GRADWEIR_EINVAL (a key, by its name; a group; the optimizer), GRADWEIR_EUSAGE
 * (the job has a model of its own; its policy cannot have the optimizer, or
 * clip), GRADWEIR_EMISMATCH (the difference between ranks; the job or its
 * checkpoint has another optimizer, or norm).
 */
GRADWEIR_API int
gradweir_declare(gradweir_job *job,
                 const struct gradweir_declaration *declaration,
                 int timeout_ms);

/* Non-zero after gradweir_declare if this rank brings the first weights of the
   job: by gradweir_put of every key, before gradweir_start. */
GRADWEIR_API int gradweir_makes_weights(const gradweir_job *job);

/* First weights of a key, of its type and shape, contiguous. */
GRADWEIR_API int
gradweir_put(gradweir_job *job, size_t key, const void *weights);

/* Connects to the servers. */
GRADWEIR_API int gradweir_start(gradweir_job *job, int timeout_ms);

enum gradweir_task {
    GRADWEIR_TRAIN = 0, /* forward and backward, then a push of each key */
    GRADWEIR_SCORE = 1  /* forward over this rank's part of the test set */
};

struct gradweir_step {
    size_t struct_size;
    int task;
    uint64_t number;   /* the step's, from 0 */
    uint32_t weight;   /* this rank's, unless gradweir_weigh says it */
    double loss_scale; /* 1; gradients are multiplied by it */
    int own; /* pushes are weights after a step of the program's own optimizer
                (own_steps), no gradients; the policy may change in a job */
};

/* Begins the next step. GRADWEIR_EEND: the job has no further step, and has
   taken step->number; gradweir_finish is next. */
GRADWEIR_API int
gradweir_begin(gradweir_job *job, struct gradweir_step *step, int timeout_ms);

/* Non-zero if gradweir_wait of these keys would return at once. */
GRADWEIR_API int gradweir_has(const gradweir_job *job, size_t first, size_t n);

/* Waits until keys [first, first + n) have the weights of the step. */
GRADWEIR_API int
gradweir_wait(gradweir_job *job, size_t first, size_t n, int timeout_ms);

/* Copies a key's weights, which were waited for, to the program's tensor:
   contiguous, rounded to its type. */
GRADWEIR_API int gradweir_take(gradweir_job *job, size_t key, void *weights);

/*
 * The library's fp32 arrays of a key: weights, valid after gradweir_wait until
 * gradweir_end; gradients, which gradweir_push without an address reads, and
 * the program writes after gradweir_wait: before it they are those of the last
 * push. They may be at another place in the next step. NULL before
 * gradweir_declare.
 */
GRADWEIR_API const float *gradweir_weights(const gradweir_job *job, size_t key);
GRADWEIR_API float *gradweir_gradients(gradweir_job *job, size_t key);

/* Hyperparameters of the job's optimizer; each has the meaning, and the range,
   that it has in PyTorch. An optimizer reads those that it has. */
struct gradweir_terms {
    size_t struct_size;
    double lr;
    double weight_decay;
    double momentum; /* momentum, nesterov */
    double beta1;    /* adam, adamw, lamb, and */
    double beta2;
    double eps;
};

/*
 * Hyperparameters of a group from the next update on, until they are set again:
 * from gradweir_declare on, between steps or within a step before its first
 * push. Until then a group has the job's (optimizer.*, with its schedule).
 * Under policies that apply the pushes of a step together, ranks with a weight
 * in a step have the same, or the job ends by naming the difference. Does not
 * wait for the network. GRADWEIR_EINVAL: a group without an optimizer, a value
 * out of its range.
 */
GRADWEIR_API int gradweir_terms(gradweir_job *job,
                                uint32_t group,
                                const struct gradweir_terms *terms);

/* The weight of this rank's gradients in this step, before the first push; a
   gradient is a sum over the samples, or a mean, times this weight. 0: this
   rank has nothing to push in this step. */
GRADWEIR_API int gradweir_weigh(gradweir_job *job, uint32_t weight);

/*
 * The gradient of a key, of its type and shape, contiguous; NULL: it is in
 * gradweir_gradients. Each key once in a step to train, or gradweir_skip, in
 * any order. Does not wait for the network where the program has waited for all
 * keys by then, as most do. Else it waits: for the weights of the key; and the
 * first push of a step for a part of server 0's weights, and for those of all
 * keys under policies that apply each push by itself ("async", "ssp", ..) or
 * have steps of the ranks' own, and in the first step under a policy. In a step
 * of the program's own (step.own): the key's weights after it, not multiplied
 * by the step's weight. GRADWEIR_EEND: other ranks have gone on without this
 * one, or the job ends; gradweir_end is next.
 */
GRADWEIR_API int
gradweir_push(gradweir_job *job, size_t key, const void *gradient);

/*
 * Keys [first, first + n) have no gradient in this step; waits as a push does.
 * Where no rank has one, the key's weights and optimizer state stay as they
 * are. `counts`: where others have one, this rank's weight counts as that of a
 * zero gradient. In a step of the program's own: their weights did not change.
 * GRADWEIR_EEND as of gradweir_push.
 */
GRADWEIR_API int gradweir_skip(
    gradweir_job *job, size_t first, size_t n, int counts, int timeout_ms);

/*
 * Waits until keys [first, first + n), which were pushed or skipped in this
 * step, have the weights that this step makes of them; gradweir_take and
 * gradweir_weights give these then. With a time-out of 0 it only asks. Under
 * "sync" other keys of the step may still be to come, so that keys are lanes of
 * a reduction: all ranks push and pull them in one order. Under other policies
 * that push every step, or with a train.commit of whole steps, all keys are
 * pushed first. GRADWEIR_EUSAGE: that is not so, or the policy has steps of the
 * ranks' own. GRADWEIR_EEND: the weights do not come within the step, and
 * gradweir_end is next.
 */
GRADWEIR_API int
gradweir_pull(gradweir_job *job, size_t first, size_t n, int timeout_ms);

/* The outcome of a step, for reports and scores. */
struct gradweir_result {
    size_t struct_size;
    double loss;      /* mean over the samples */
    uint64_t correct; /* predictions, or 0 */
    uint64_t samples; /* 0: the weight of the step, which is 0 in a score */
};

/* Ends the step, after all keys were pushed or skipped. `result` may be NULL.
 */
GRADWEIR_API int gradweir_end(gradweir_job *job,
                              const struct gradweir_result *result,
                              int timeout_ms);

/*
 * Asks for a checkpoint of the job, between two steps, or in one in which the
 * program has pushed and skipped nothing, and waits until it is complete on
 * disk. Any rank may ask; several get the same one. Under "sync" it
 * is of the step that begins next, and the other ranks wait, too. Under other
 * policies it is made where all ranks have come to one step, for which this
 * rank goes on: the call does not wait, and GRADWEIR_ETIMEOUT says that the
 * program makes its next step and then the same call again. GRADWEIR_EUSAGE:
 * the job has no checkpoint.dir; GRADWEIR_EIO: the checkpoint has failed, and
 * the job goes on; GRADWEIR_EEND: the job ends, with a checkpoint of its own.
 */
GRADWEIR_API int gradweir_save(gradweir_job *job, int timeout_ms);

/*
 * The program has no further step: between steps, or in one in which it has
 * pushed and skipped nothing, which is given up. Rank 0 ends the job by it, as
 * complete; any other rank takes part without gradients until the job ends.
 * Waits for the end, also after GRADWEIR_EEND, and returns the job's status;
 * GRADWEIR_OK: it is complete, and saved.
 */
GRADWEIR_API int gradweir_finish(gradweir_job *job, int timeout_ms);

/* Ends the job with a line about this program's failure, which all ranks get.
 */
GRADWEIR_API int gradweir_fail(gradweir_job *job, const char *line);

/* Asks for the end of the job, as a signal to the coordinator does: it is
   saved, and may go on later. Thread: any, but no signal's handler. */
GRADWEIR_API int gradweir_stop(gradweir_job *job);

#ifdef __cplusplus
}
#endif

#endif
