/*
 * What the runs of a study came to, read from their records. Pure but for
 * reading files; one thread.
 */
#ifndef GW_CLI_STUDY_RESULT_H
#define GW_CLI_STUDY_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "cli/study/study.h"

/* Losses of single steps are noisy: a loss is the mean over so many logged
   steps, fewer at the beginning. */
#define GW_STUDY_SMOOTH 5

/* Updates late, as records count them; the last for all that were later. */
#define GW_STUDY_STALENESS 64

/* A logged step. */
struct gw_study_sample {
    uint64_t step, bytes; /* bytes: pushed and pulled so far, by all */
    double wall_s, loss;  /* loss: the mean, see GW_STUDY_SMOOTH */
    double accuracy;      /* below 0 where none was scored */
};

/* When a target was reached first. */
struct gw_study_reached {
    int is;
    uint64_t step, bytes;
    double wall_s;
};

struct gw_study_result {
    const struct gw_study_run *run;
    char *value[GW_STUDY_AXES]; /* of the job where the axis is none */
    char *why;                  /* it failed; NULL: it is done */
    struct gw_study_sample *sample;
    size_t samples;
    struct gw_study_reached loss, accuracy;
    uint64_t steps, bytes; /* steps: of the job */
    double wall_s, samples_per_s;
    double step_s; /* from one logged step to the next, the first one aside; NaN
                      where there are no two */
    double final_loss;                 /* smoothed; NaN: there is none */
    double final_accuracy;             /* below 0: nothing was scored */
    double best_accuracy;              /* likewise */
    double staleness_mean;             /* 0 where clocks are waited for */
    uint64_t staleness_p99;            /* updates */
    uint64_t late[GW_STUDY_STALENESS]; /* chunks that were so late */
};

/*
 * The result of each run, in the order of the study; every one has ended.
 * GW_EIO, GW_ECORRUPT: the file and line of a record that is none; GW_ENOMEM.
 * Free them with gw_study_results_free.
 */
enum gw_status gw_study_results_read(const struct gw_study *study,
                                     const char *dir,
                                     struct gw_study_result **results_p,
                                     struct gw_error *error);

/* NULL is allowed. */
void gw_study_results_free(const struct gw_study *study,
                           struct gw_study_result *results);

#endif
