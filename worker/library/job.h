/* Inside of the library: a job, and the checks that every call begins with. */
#ifndef GW_LIBRARY_JOB_H
#define GW_LIBRARY_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "include/gradweir.h"
#include "proto/log.h"
#include "worker/library/driver.h"
#include "worker/trainer/join.h"

/* The place of a job in the order of calls. */
enum gw_job_stage {
    GW_JOB_OPEN = 1,
    GW_JOB_JOINED = 2,
    GW_JOB_DECLARED = 4,
    GW_JOB_READY = 8, /* between two steps */
    GW_JOB_STEP = 16, /* within a step */
    GW_JOB_ENDS = 32, /* there is no further step */
    GW_JOB_DONE = 64,
    GW_JOB_FAILED = 128
};

struct gradweir_job {
    pid_t pid; /* the process that may use it */
    struct gw_driver *driver;
    atomic_int stage; /* enum gw_job_stage; the driver changes it, too */
    char farewell[GW_ERROR_TEXT_BYTES];
    _Atomic(const char *) leaves; /* the line with which the rank goes, NULL */

    /* joining */
    struct gw_join_options options;
    char *coordinator, **set; /* copies of the caller's */
    struct gw_joining joining;
    struct gw_rank *rank;
    pthread_mutex_t live_mutex; /* of live: */
    struct gw_rank *live;       /* may be stopped, by any thread */
    int stops;
    struct gw_error error;          /* the rank's line */
    char line[GW_ERROR_TEXT_BYTES]; /* about the last call that failed */

    struct gw_log log;
    pthread_mutex_t log_mutex;
    gradweir_log_cb told;
    void *told_owner;

    /* declaration */
    struct gw_key *key; /* [keys] */
    uint8_t *rule;      /* [groups] enum gw_key_rule */
    size_t groups;
    uint8_t *type; /* [keys] enum gw_rank_dtype, the program's */
    size_t keys;
    uint64_t step_weight;
    int scores, own_steps;
    const char *optimizer; /* that the program asks for; NULL: the job's */
    double max_norm;       /* likewise; 0: the job's */
    char *device;

    /* step */
    struct gw_rank_step step;
    int is_told;     /* the program knows of the step */
    uint32_t weight; /* of this rank's gradients */
    int is_pushed;   /* a key has been, so the weight stands */
    atomic_int met;  /* of the first call of the step that did not go well */
    struct gw_rank_sum sum;
};

/*
 * Checks a call, by its name: the process, and the stages (a union) in which it
 * may be made. GRADWEIR_EUSAGE with a line; after a failure of the job its
 * status, with its line.
 */
int gw_job_check(struct gradweir_job *job, const char *call, unsigned stages);

/* The same for a call of the driver, which is made again while it goes on,
   whatever it has made of the stage. */
int gw_job_check_call(struct gradweir_job *job,
                      const char *name,
                      unsigned stages,
                      const struct gw_driver_call *call);

/* Before the check of a call that the driver does not make: waits until the
   driver makes none. Nothing in a process that was forked. */
void gw_job_settle(struct gradweir_job *job);

/* The last line is this one; returns `status`. */
int gw_job_fails(struct gradweir_job *job, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* After a call of the rank: keeps its line, and notes that the job has failed
   unless the status is one of a job that goes on. Returns the status. */
int gw_job_take(struct gradweir_job *job, enum gw_status status);

/* Ends the rank with a line, also while it waits, within a moment. */
void gw_job_leave(struct gradweir_job *job, const char *line);

/* job_log.c */
void gw_job_open_log(struct gradweir_job *job,
                     const struct gradweir_options *options);
void gw_job_close_log(struct gradweir_job *job);

#endif
