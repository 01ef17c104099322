/* Lines of a job's log: to the program's callback, else to standard error. */
#include "config.h"

#include "worker/library/job.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t now_us(void *clock)
{
    (void)clock;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void tell(void *context, enum gw_log_level level, const char *text)
{
    struct gradweir_job *job = context;
    pthread_mutex_lock(&job->log_mutex);
    job->told(job->told_owner, (int)level, text);
    pthread_mutex_unlock(&job->log_mutex);
}

/* One call of stdio for a line, which threads do not tear. */
static void print(void *context, const char *line, size_t bytes)
{
    (void)context;
    fprintf(stderr, "%.*s", (int)bytes, line);
}

void gw_job_open_log(struct gradweir_job *job,
                     const struct gradweir_options *options)
{
    int level = options->log ? options->log_level : GW_LOG_WARN;
    pthread_mutex_init(&job->log_mutex, NULL);
    job->told = options->log;
    job->told_owner = options->log_owner;
    job->log.role = "worker";
    job->log.now_us = now_us;
    job->log.sink = print;
    job->log.tell = options->log ? tell : NULL;
    job->log.context = job;
    atomic_store(&job->log.level, level);
    atomic_store(&job->log.rank, -1);
}

void gw_job_close_log(struct gradweir_job *job)
{
    pthread_mutex_destroy(&job->log_mutex);
}
