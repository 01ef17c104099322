/*
 * Results of a study's runs, read from their records. Pure but for reading
 * files; one thread.
 */
#ifndef GW_CLI_STUDY_RESULT_H
#define GW_CLI_STUDY_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "cli/study/study.h"

/* Single steps' losses are noisy: a loss is the mean over so many logged steps,
   fewer at the beginning. */
#define GW_STUDY_SMOOTH 5

/* Staleness in updates, as in records; the last entry is for all greater
   ones. */
#define GW_STUDY_STALENESS 64

/* A logged step. */
struct gw_study_sample {
    uint64_t step, bytes; /* bytes: pushed and pulled so far, all workers */
    double wall_s, loss;  /* loss: the mean, see GW_STUDY_SMOOTH */
    double accuracy;      /* below 0: not scored */
};

/* First time that a target was reached. */
struct gw_study_reached {
    int is;
    uint64_t step, bytes;
    double wall_s;
};

struct gw_study_result {
    const struct gw_study_run *run;
    char *value[GW_STUDY_AXES]; /* the job's own value if the axis is not in the
                                   grid */
    char *why;                  /* reason of a failure; NULL: done */
    struct gw_study_sample *sample;
    size_t samples;
    struct gw_study_reached loss, accuracy;
    uint64_t steps, bytes; /* steps: the job's */
    double wall_s, samples_per_s;
    double step_s; /* mean between logged steps, without the first; NaN: fewer
                      than two */
    double final_loss;                 /* smoothed; NaN: none */
    double final_accuracy;             /* below 0: not scored */
    double best_accuracy;              /* likewise */
    double staleness_mean;             /* 0 under synchronous policies */
    uint64_t staleness_p99;            /* updates */
    uint64_t late[GW_STUDY_STALENESS]; /* chunks of that staleness */
};

/*
 * Reads the result of each run, in the order of the study; all runs have ended.
 * GW_EIO, GW_ECORRUPT with file and line of a broken record; GW_ENOMEM. Free
 * them with gw_study_results_free.
 */
enum gw_status gw_study_results_read(const struct gw_study *study,
                                     const char *dir,
                                     struct gw_study_result **results_p,
                                     struct gw_error *error);

/* NULL is allowed. */
void gw_study_results_free(const struct gw_study *study,
                           struct gw_study_result *results);

#endif
