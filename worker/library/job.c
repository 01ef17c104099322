/* A job from its opening to its end; its steps are in step.c. */
#include "config.h"

#include "worker/library/job.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_US 30000000

/* ---- failures ---- */

int gw_job_fails(struct gradweir_job *job, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gw_text_print(job->line, sizeof job->line, format, args);
    va_end(args);
    return status;
}

int gw_job_take(struct gradweir_job *job, enum gw_status status)
{
    if (status == GW_OK || status == GW_EEND || status == GW_EAGAIN)
        return status;
    /* the line first: the program's thread reads it by the stage */
    gw_job_fails(job, status, "%s", gw_reason(job->error.text));
    job->stage = GW_JOB_FAILED;
    return status;
}

static const char *stage_text(int stage)
{
    switch (stage) {
    case GW_JOB_OPEN:
        return "the job is not joined";
    case GW_JOB_JOINED:
        return "no keys are declared";
    case GW_JOB_DECLARED:
        return "the job is not started";
    case GW_JOB_READY:
        return "no step has begun";
    case GW_JOB_STEP:
        return "a step has begun, and has not ended";
    case GW_JOB_ENDS:
        return "the job has no further step";
    default:
        return "the job is over";
    }
}

int gw_job_check(struct gradweir_job *job, const char *call, unsigned stages)
{
    if (job->pid != getpid())
        return GRADWEIR_EUSAGE; /* nothing here is this process's */
    if (job->stage == GW_JOB_FAILED)
        return job->error.status ? (int)job->error.status : GRADWEIR_EABORTED;
    if ((unsigned)job->stage & stages)
        return GRADWEIR_OK;
    return gw_job_fails(job, GRADWEIR_EUSAGE, "%s: %s", call,
                        stage_text(job->stage));
}

void gw_job_settle(struct gradweir_job *job)
{
    if (job->pid == getpid()) /* a fork has no driver to wait for */
        gw_driver_settle(job->driver);
}

int gw_job_check_call(struct gradweir_job *job,
                      const char *name,
                      unsigned stages,
                      const struct gw_driver_call *call)
{
    unsigned any = GW_JOB_OPEN | GW_JOB_JOINED | GW_JOB_DECLARED |
                   GW_JOB_READY | GW_JOB_STEP | GW_JOB_ENDS | GW_JOB_DONE;
    int goes_on = job->pid == getpid() && gw_driver_knows(job->driver, call);
    return gw_job_check(job, name, goes_on ? any : stages);
}

const char *gradweir_error(const gradweir_job *job)
{
    return job->pid == getpid()
               ? job->line
               : "the job was opened before this process was forked; open one "
                 "here";
}

/* ---- stopping ---- */

static void on_opened(void *owner, struct gw_rank *rank)
{
    struct gradweir_job *job = owner;
    pthread_mutex_lock(&job->live_mutex);
    job->live = rank;
    if (rank && job->stops)
        gw_rank_stop(rank);
    pthread_mutex_unlock(&job->live_mutex);
}

int gradweir_stop(gradweir_job *job)
{
    if (job->pid != getpid())
        return GRADWEIR_EUSAGE;
    pthread_mutex_lock(&job->live_mutex);
    job->stops = 1;
    if (job->live)
        gw_rank_stop(job->live);
    pthread_mutex_unlock(&job->live_mutex);
    return GRADWEIR_OK;
}

/* ---- opening ---- */

static const char *gives_up(void *owner)
{
    return atomic_load(&((struct gradweir_job *)owner)->leaves);
}

void gw_job_leave(struct gradweir_job *job, const char *line)
{
    if (atomic_load(&job->leaves))
        return;
    snprintf(job->farewell, sizeof job->farewell, "%s", line);
    gw_text_clean(job->farewell);
    atomic_store(&job->leaves, job->farewell);
}

static int copy_texts(struct gradweir_job *job,
                      const struct gradweir_options *options)
{
    const char *coordinator = options->coordinator ? options->coordinator : "";
    job->coordinator = strdup(coordinator);
    job->set = calloc(options->sets + 1, sizeof *job->set);
    if (!job->coordinator || !job->set)
        return GRADWEIR_ENOMEM;
    for (size_t i = 0; i < options->sets; i++) {
        job->set[i] = strdup(options->set[i]);
        if (!job->set[i])
            return GRADWEIR_ENOMEM;
    }
    return GRADWEIR_OK;
}

static int fill_in(struct gradweir_job *job,
                   const struct gradweir_options *options,
                   struct gw_error *error)
{
    if (copy_texts(job, options) != GRADWEIR_OK)
        return gw_fail(error, GW_ENOMEM, "no memory for a job");
    job->options = (struct gw_join_options){
        .coordinator = job->coordinator,
        .set = (const char *const *)job->set,
        .sets = options->sets,
        .wait_us =
            options->wait_ms ? (uint64_t)options->wait_ms * 1000 : WAIT_US,
        .rank = options->rank,
        .log = &job->log,
        .gives_up = gives_up,
        .opened = on_opened,
        .owner = job,
    };
    enum gw_status status = gw_join_environment(&job->options, error);
    return status == GW_OK ? gw_join_check(&job->options, error) : status;
}

static void free_job(struct gradweir_job *job)
{
    gw_job_close_log(job);
    pthread_mutex_destroy(&job->live_mutex);
    for (size_t i = 0; job->set && job->set[i]; i++)
        free(job->set[i]);
    free(job->set);
    free(job->coordinator);
    free(job->key);
    free(job->type);
    free(job->rule);
    free(job->device);
    free(job);
}

static int say(char *why, size_t why_bytes, int status, const char *text)
{
    if (why_bytes > 0)
        snprintf(why, why_bytes, "%s", text);
    return status;
}

int gradweir_open(const struct gradweir_options *options,
                  gradweir_job **job_p,
                  char *why,
                  size_t why_bytes)
{
    struct gw_error error = {.text = ""};
    *job_p = NULL;
    if (options->struct_size != sizeof *options)
        return say(why, why_bytes, GRADWEIR_EINVAL,
                   "options.struct_size is not that of this library: the "
                   "program was built with another gradweir.h");
    struct gradweir_job *job = calloc(1, sizeof *job);
    if (!job)
        return say(why, why_bytes, GRADWEIR_ENOMEM, "no memory for a job");
    job->pid = getpid();
    job->stage = GW_JOB_OPEN;
    gw_job_open_log(job, options);
    pthread_mutex_init(&job->live_mutex, NULL);
    int status = fill_in(job, options, &error);
    if (status == GRADWEIR_OK)
        status = gw_driver_open(job, &job->driver);
    if (status == GRADWEIR_OK) {
        *job_p = job;
        gradweir_join(job, 0); /* begins */
        return GRADWEIR_OK;
    }
    say(why, why_bytes, status,
        error.text[0] ? error.text : "no memory for a thread");
    free_job(job);
    return status;
}

/* ---- leaving ---- */

static int leave(struct gradweir_job *job, size_t first, size_t n)
{
    (void)first, (void)n;
    if (job->rank && job->stage != GW_JOB_DONE && job->stage != GW_JOB_FAILED) {
        gw_fail(&job->error, GW_EABORTED, "%s", job->farewell);
        gw_rank_fail(job->rank, GW_EABORTED);
    }
    gw_rank_close(job->rank);
    gw_joining_close(&job->joining);
    return GRADWEIR_OK;
}

void gradweir_close(gradweir_job *job)
{
    const struct gw_driver_call call = {.run = leave};
    if (!job || job->pid != getpid())
        return;
    if (job->stage != GW_JOB_DONE)
        gw_job_leave(job, "the program has left the job");
    while (gw_driver_run(job->driver, &call, -1) == GRADWEIR_EAGAIN)
        continue;
    gw_driver_close(job->driver);
    free_job(job);
}

/* ---- joining ---- */

static int join(struct gradweir_job *job, size_t first, size_t n)
{
    (void)first, (void)n;
    if (job->rank)
        return GRADWEIR_OK;
    enum gw_status status =
        gw_join_rank(&job->options, &job->joining, &job->rank, &job->error);
    if (status == GW_OK)
        job->stage = GW_JOB_JOINED;
    return gw_job_take(job, status);
}

int gradweir_join(gradweir_job *job, int timeout_ms)
{
    const struct gw_driver_call call = {.run = join};
    int status = gw_job_check(job, "gradweir_join",
                              GW_JOB_OPEN | GW_JOB_JOINED | GW_JOB_DECLARED |
                                  GW_JOB_READY | GW_JOB_STEP | GW_JOB_ENDS);
    return status ? status : gw_driver_run(job->driver, &call, timeout_ms);
}

/* ---- the job ---- */

uint32_t gradweir_rank(const gradweir_job *job)
{
    return job->rank ? gw_rank_number(job->rank) : 0;
}

uint32_t gradweir_ranks(const gradweir_job *job)
{
    return job->rank ? (uint32_t)gw_rank_config(job->rank)->cluster.workers : 0;
}

int gradweir_setting(const gradweir_job *job,
                     const char *key,
                     char *value,
                     size_t bytes)
{
    const struct gw_config_key *found = gw_config_find(key);
    if (!job->rank)
        return GRADWEIR_EUSAGE;
    if (!found)
        return GRADWEIR_ENOENT;
    return (int)gw_config_value(gw_rank_config(job->rank), found, value, bytes);
}

const char *gradweir_version(void)
{
    return PACKAGE_VERSION;
}

/* The numbers of the public header are those of proto/status.h, for ever. */
#define PUBLIC(name)                                                           \
    _Static_assert((int)GRADWEIR_##name == (int)GW_##name, #name)
PUBLIC(OK);
PUBLIC(EAGAIN);
PUBLIC(EINVAL);
PUBLIC(ERANGE);
PUBLIC(ENOMEM);
PUBLIC(ENOENT);
PUBLIC(EEXIST);
PUBLIC(EUNSUPPORTED);
PUBLIC(ECORRUPT);
PUBLIC(EIO);
PUBLIC(ENOSPC);
PUBLIC(EMISMATCH);
PUBLIC(EUSAGE);
PUBLIC(EEND);
PUBLIC(ECLOSED);
PUBLIC(EREFUSED);
PUBLIC(EPROTO);
PUBLIC(EVERSION);
PUBLIC(ECRC);
PUBLIC(ETIMEOUT);
PUBLIC(EADDRINUSE);
PUBLIC(EUNREACHABLE);
PUBLIC(EDEAD);
PUBLIC(EINTERRUPTED);
PUBLIC(ENONFINITE);
PUBLIC(EABORTED);
PUBLIC(ERESUMABLE);

const char *gradweir_status_text(int status)
{
    return gw_status_text((enum gw_status)status);
}
