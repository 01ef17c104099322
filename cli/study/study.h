/*
 * A study file: the runs of a job that answer a question, in the syntax of job
 * files:
 *
 *   job = "../fashion-mlp.job";        beside the study file
 *   set = [ "train.epochs=2" ];        for every run, as --set
 *   run = "simulated";                 or "processes"
 *   compute = { step_us = 300.0; sample_us = 20.0; };  simulated: plain time
 *   limit_s = 1e5;                     time of a run; then it is given up
 *   target = { accuracy = 0.85; };     and loss: time to reach it
 *   grid = { policy = [ "sync", "async" ]; straggler = [ "exponential" ];
 *            seed = [ 1, 2, 3 ]; };    or a list of grids, one after another
 *
 * A grid is every combination of the values on its axes: policy, workers,
 * servers, optimizer, lr, seed (keys of the job), straggler (straggle.h),
 * network (network.h), placement (placement.h), and vary, a list of { name =
 * "..."; set = [ ... ]; }.
 */
#ifndef GW_CLI_STUDY_H
#define GW_CLI_STUDY_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/status.h"

#define GW_STUDY_RUNS_MAX 10000
#define GW_STUDY_ID_BYTES 17 /* 16 hexadecimal digits and the end */

/* In the order of the results' columns. */
enum gw_study_axis {
    GW_STUDY_VARY,
    GW_STUDY_POLICY,
    GW_STUDY_WORKERS,
    GW_STUDY_SERVERS,
    GW_STUDY_OPTIMIZER,
    GW_STUDY_LR,
    GW_STUDY_STRAGGLER,
    GW_STUDY_NETWORK,
    GW_STUDY_PLACEMENT,
    GW_STUDY_SEED, /* the last: runs that differ in it alone are one point */
    GW_STUDY_AXES
};

struct gw_study_run {
    /* Digest of everything that the run depends on: equal runs have equal
       ids. */
    char id[GW_STUDY_ID_BYTES];
    size_t point;
    int again;        /* equal to an earlier run, so it is not run again */
    uint64_t members; /* workers and servers */
    /* As written in the file, for vary its name; NULL: not an axis of the
       grid. */
    const char *value[GW_STUDY_AXES];
    const char *const *set; /* its vary's settings, ended by NULL; NULL: none */
};

struct gw_study {
    char *file, *job; /* paths */
    int simulated;
    double step_us, sample_us; /* per computation, and per sample of it */
    double limit_s;
    double target_loss, target_accuracy; /* 0: none */
    const char *const *set;              /* ended by NULL */
    struct gw_study_run *run;
    size_t runs, points;
    size_t different; /* different runs */
    void *memory;     /* owner of everything that the members above point to */
};

const char *gw_study_axis_name(enum gw_study_axis axis);

/*
 * Reads a study file and its job, and checks every run. GW_EUSAGE with
 * "file:line: ..." or the run that the job does not allow; GW_ENOMEM. Free it
 * with gw_study_free.
 */
enum gw_status gw_study_read(const char *file,
                             struct gw_study **study_p,
                             struct gw_error *error);

/* Makes the job of a run and checks it. GW_EUSAGE, GW_ENOMEM with a line. */
enum gw_status gw_study_config(const struct gw_study *study,
                               const struct gw_study_run *run,
                               struct gw_config *config,
                               struct gw_error *error);

/* Names a run for people: "policy async, workers 4". Cut to fit. */
void gw_study_describe(const struct gw_study_run *run, char *text, size_t room);

/* NULL is allowed. */
void gw_study_free(struct gw_study *study);

#endif
