/*
 * Inside a worker: what worker.c sets up and step.c works with.
 */
#ifndef GW_WORKER_WORKER_STATE_H
#define GW_WORKER_WORKER_STATE_H

#include "kernels/kernels.h"
#include "worker/client/client.h"
#include "worker/data/dataset.h"
#include "worker/data/feed.h"
#include "worker/trainer/lender.h"
#include "worker/trainer/mirror.h"
#include "worker/model/model.h"
#include "worker/need.h"
#include "worker/trainer/pace.h"
#include "worker/plan.h"
#include "worker/worker.h"

struct gw_local;
struct gw_optimizer;
struct gw_rounds;

/* A number of each weight, in the order of the keys, in host memory. */
struct gw_worker_arena {
    struct gw_memory memory;
    int shared; /* the memory is ours, and not of the device's alloc_host, */
    int pinned; /* and the device knows of it */
};

/* Steps that a poll may come too late for. */
#define GW_TOLD_STEPS 16

struct gw_worker {
    const struct gw_worker_options *options;
    struct gw_config config;
    struct gw_client *client;
    struct gw_error *error;

    struct gw_dataset *train, *test;
    const struct gw_backend_ops *backend;
    struct gw_device *device;
    char description[128]; /* of the device, */
    /* and which ways its products take; "": the usual ones */
    char tuned[GW_TUNED_BYTES];
    struct gw_model *model;
    struct gw_plan plan;
    uint32_t rank, ranks;
    const struct gw_key *key; /* [keys] of the model */
    size_t keys;

    struct gw_worker_arena weights_arena, gradients_arena;
    struct gw_worker_arena bf16_arena; /* of weights as they arrive, if any */
    float *weights, *gradients;        /* their first bytes */
    float **weight, **gradient;        /* [keys] views of them */
    struct gw_mirror *mirror;          /* both, as the device has them */
    struct gw_lender *lender; /* NULL: nobody else takes them from there */
    struct gw_feed feed;      /* batches */
    size_t batch_max;
    uint64_t device_bytes; /* of the device's memory, taken before the arenas */
    int hollow; /* nothing is computed: arrays have no memory behind them */

    /* the step that is going on, for the hooks */
    uint64_t clock;
    uint32_t samples;
    uint64_t flop;         /* that it takes, */
    uint64_t flop_done;    /* and those so far */
    int whole;             /* all weights are there: the test set is scored */
    uint64_t scored_clock; /* of the last evaluation */
    uint64_t dues_done;    /* evaluations of those that the plan has */
    int was_each;          /* of the policy: each push makes a version */

    struct gw_pace pace; /* where parts of a step go by speed */

    struct gw_local *local; /* NULL where every step is pushed */

    struct gw_cadence cadence; /* log.every */
    struct gw_told_step {
        uint64_t clock; /* + 1; 0: none */
        struct gw_model_result sum;
        uint64_t samples;
        int told;
    } recent[GW_TOLD_STEPS]; /* at clock + 1; each push: the first one is of all
                                steps since the last report */
    uint64_t told_us;        /* when the last one was */
    uint64_t answered;       /* the last poll, as gw_client_polled has it */
    uint64_t uncounted_samples; /* of the last step, which may be late */
};

/* report.c: after each step that counts, or may. Forgotten is what was not
   told, where another policy takes over. */
void gw_worker_report(struct gw_worker *worker,
                      const struct gw_model_result *result,
                      uint64_t samples);
void gw_worker_forget_steps(struct gw_worker *worker);
uint64_t gw_worker_rss_bytes(void);

/* tune.c: worker.autotune, between the model and the declaration. GW_ENOMEM,
   GW_EIO (the device fails). */
enum gw_status gw_worker_tune(struct gw_worker *worker);

/*
 * local.c: policies under which workers take steps of their own. Taken up where
 * the policy is one of these, with the worker's clock at its first one; what
 * the optimizer keeps goes on from one to the next. NULL where every step is
 * pushed. GW_ENOMEM and GW_EUSAGE (rounds too long), which are the client's
 * failure too, and the client's errors.
 */
enum gw_status gw_local_switch(struct gw_worker *worker);
/* Which arenas the policy has a worker keep beside weights and gradients: of
   each kind one, and the optimizer's states. */
struct gw_local_arenas {
    int own, from, apart;                 /* see struct gw_local */
    const struct gw_optimizer *optimizer; /* NULL: every step is pushed */
};
struct gw_local_arenas gw_local_arenas_of(const struct gw_config *config,
                                          const struct gw_rounds *rounds);
/* Before the client attaches: errors of gw_inner_load. */
enum gw_status gw_local_load(struct gw_worker *worker);
void gw_local_close(struct gw_worker *worker);
/* Whether the worker's clock is one at which all have the same weights. */
int gw_local_is_together(const struct gw_worker *worker);
/* Before it is known whether the job goes on as it was: at a clock where all of
   the model is exchanged, but was not waited for on the way. */
enum gw_status gw_local_meet(struct gw_worker *worker);
/* The model's weights are those that servers gave, no longer the worker's. */
void gw_local_end(struct gw_worker *worker);
/* The hooks of a step: weights that are there; gradients that the device is
   told to make, also where nothing is local; and that are on the host. */
enum gw_status gw_local_need(struct gw_worker *worker, size_t first, size_t n);
void gw_local_made(struct gw_worker *worker, size_t first, size_t n);
enum gw_status gw_local_ready(struct gw_worker *worker, size_t first, size_t n);
/* Between two steps: what a checkpoint that is cut here keeps of this worker is
   on its way when this returns. Errors of gw_inner_cut. */
enum gw_status gw_local_cut(struct gw_worker *worker);

/* step.c: trains from the client's first clock to the end of the job. */
enum gw_status gw_step_run(struct gw_worker *worker);

#endif
