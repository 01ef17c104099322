#include "config.h"

#include "cli/study/study_job.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/lab/network.h"
#include "cli/lab/placement.h"
#include "cli/lab/simulate.h"
#include "cli/lab/straggle.h"
#include "cli/study/study_write.h"
#include "transport/link/limits.h"

char *gw_study_run_path(const char *dir,
                        const struct gw_study_run *run,
                        const char *ending)
{
    size_t room = strlen(dir) + strlen(run->id) + strlen(ending) + 16;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s/runs/%s.%s", dir, run->id, ending);
    return path;
}

/* ---- simulated ---- */

static enum gw_status simulate(const struct gw_study *study,
                               const struct gw_study_run *run,
                               const char *dir,
                               unsigned threads,
                               const struct gw_config *config,
                               struct gw_error *error)
{
    const char *law = run->value[GW_STUDY_STRAGGLER];
    const char *network = run->value[GW_STUDY_NETWORK];
    const char *placement = run->value[GW_STUDY_PLACEMENT];
    char *record = gw_study_run_path(dir, run, "part");
    char *spans = gw_study_run_path(dir, run, "spans");
    struct gw_simulate_options job = {
        .threads = threads,
        .config = config,
        .seed = config->train.seed,
        .step_us = study->step_us,
        .sample_us = study->sample_us,
        .record = record,
        .spans = spans,
        .limit_us = (uint64_t)(study->limit_s * 1e6),
    };
    struct gw_straggle *straggle = NULL;
    enum gw_status status =
        record && spans ? GW_OK : gw_fail(error, GW_ENOMEM, "no memory");
    if (status == GW_OK)
        status = gw_straggle_parse(law ? law : "none", study->file, &straggle,
                                   error);
    if (status == GW_OK && network)
        status = gw_network_parse(network, &job.network, error);
    if (status == GW_OK && placement)
        status = gw_placement_parse(placement, &job.placement, error);
    if (status == GW_OK)
        status = gw_dataset_open(config, GW_DATASET_TRAIN, &job.train, error);
    if (status == GW_OK && config->data.test.n > 0)
        status = gw_dataset_open(config, GW_DATASET_TEST, &job.test, error);
    job.straggle = straggle;
    if (status == GW_OK)
        status = gw_simulate(&job, error);
    gw_dataset_close(job.test);
    gw_dataset_close(job.train);
    gw_straggle_free(straggle);
    free(spans);
    free(record);
    return status;
}

/* ---- as processes ---- */

/* Writes the job of the run completely, so that anybody can run it again. */
static enum gw_status write_job(const struct gw_config *config,
                                const char *dir,
                                const struct gw_study_run *run,
                                struct gw_error *error)
{
    char name[GW_STUDY_ID_BYTES + 16];
    char *text = malloc(GW_JOB_TEXT_MAX);
    if (!text)
        return gw_fail(error, GW_ENOMEM, "no memory for a job");
    gw_config_print(config, 0, text, GW_JOB_TEXT_MAX);
    snprintf(name, sizeof name, "runs/%s.job", run->id);
    struct gw_output output;
    enum gw_status status = gw_study_open_file(dir, name, &output, error);
    if (status == GW_OK) {
        fputs(text, output.file);
        status = gw_output_commit(&output, error);
    }
    free(text);
    return status;
}

/* Starts the job with its output in `said`. It ends in order with this process,
   and ignores keys of the terminal. */
static enum gw_status start_train(const char *job,
                                  const char *record,
                                  const char *said,
                                  pid_t *pid_p,
                                  struct gw_error *error)
{
    const struct gw_child child = {.name = "it", .dies_by = SIGTERM};
    const char *const arguments[] = {"gradweir", "train", job,
                                     "--json",   record,  NULL};
    char why[GW_LIMITS_WHY_BYTES];
    int out = open(said, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0)
        return gw_fail(error, GW_EIO, "cannot create %s: %s", said,
                       gw_limits_why_no_file(errno, why));
    const struct gw_child_program program = {
        .file = GW_CHILD_SELF,
        .arguments = arguments,
        .fd = {-1, out, out, -1, -1},
        .own_group = 1,
        .of_job = 1,
    };
    enum gw_status status = gw_child_start(&child, &program, pid_p, error);
    close(out);
    return status;
}

/* Returns the exit status, or -1 after limit_s, when it has been killed. */
static int wait_for(pid_t pid, double limit_s)
{
    struct timespec began, now, nap = {.tv_nsec = 20000000};
    int status = 0, stopped = 0;
    clock_gettime(CLOCK_MONOTONIC, &began);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!stopped && (double)(now.tv_sec - began.tv_sec) > limit_s) {
            stopped = 1;
            kill(pid, SIGTERM);
        }
        nanosleep(&nap, NULL);
    }
    return stopped ? -1 : status;
}

/* The last line of its output. */
static void last_words(const char *path, char *words, size_t room)
{
    FILE *file = fopen(path, "r");
    words[0] = '\0';
    while (file && fgets(words, (int)room, file))
        words[strcspn(words, "\n")] = '\0';
    if (file)
        fclose(file);
}

/* Length of the program's name before an output line. */
static size_t said_by(const char *words)
{
    static const char name[] = "gradweir: ";
    return strncmp(words, name, sizeof name - 1) == 0 ? sizeof name - 1 : 0;
}

static enum gw_status train(const struct gw_study *study,
                            const struct gw_study_run *run,
                            const char *dir,
                            const struct gw_config *config,
                            struct gw_error *error)
{
    char words[GW_ERROR_TEXT_BYTES];
    pid_t pid = 0;
    char *job = gw_study_run_path(dir, run, "job");
    char *record = gw_study_run_path(dir, run, "part");
    char *said = gw_study_run_path(dir, run, "out");
    enum gw_status status = job && record && said
                                ? write_job(config, dir, run, error)
                                : gw_fail(error, GW_ENOMEM, "no memory");
    if (status == GW_OK) {
        unlink(record); /* left by an interrupted run */
        status = start_train(job, record, said, &pid, error);
    }
    if (status == GW_OK) {
        int code = wait_for(pid, study->limit_s);
        last_words(said, words, sizeof words);
        if (code < 0)
            status = gw_fail(error, GW_ETIMEOUT, "given up after %g s",
                             study->limit_s);
        else if (code != 0)
            status = gw_fail(error, GW_EABORTED, "%.400s",
                             words[0] ? words + said_by(words)
                                      : "it ended without a word");
    }
    free(said);
    free(record);
    free(job);
    return status;
}

/* ---- both ---- */

enum gw_status gw_study_job_end(const char *dir,
                                const struct gw_study_run *run,
                                const char *why,
                                struct gw_error *error)
{
    char *part = gw_study_run_path(dir, run, "part");
    char *whole = gw_study_run_path(dir, run, "jsonl");
    json_t *end = why ? json_pack("{s:s, s:s}", "end", "failed", "why", why)
                      : json_pack("{s:s}", "end", "done");
    char *text = end ? json_dumps(end, JSON_COMPACT) : NULL;
    FILE *file = part && text ? fopen(part, "a") : NULL;
    int failed = !whole || !file;
    if (file) {
        failed |= fprintf(file, "%s\n", text) < 0;
        failed |= fflush(file) != 0 || fsync(fileno(file)) != 0;
        failed |= fclose(file) != 0;
    }
    enum gw_status status = GW_OK;
    if (failed || rename(part, whole) != 0)
        status = gw_fail(error, errno == ENOSPC ? GW_ENOSPC : GW_EIO,
                         "%s/runs/%s.jsonl cannot be written: %s", dir, run->id,
                         strerror(errno));
    free(text);
    json_decref(end);
    free(whole);
    free(part);
    return status;
}

/* Errors of this machine, not of the run, end the study. */
static int ends_study(enum gw_status status)
{
    return status == GW_ENOMEM || status == GW_ENOSPC || status == GW_EIO;
}

enum gw_status gw_study_job(const struct gw_study *study,
                            const struct gw_study_run *run,
                            const char *dir,
                            unsigned threads,
                            struct gw_error *error)
{
    struct gw_error why = {.status = GW_OK};
    struct gw_config *config = calloc(1, sizeof *config);
    enum gw_status status =
        config ? gw_study_config(study, run, config, error)
               : gw_fail(error, GW_ENOMEM, "no memory for a job");
    if (status == GW_OK)
        status = study->simulated
                     ? simulate(study, run, dir, threads, config, error)
                     : train(study, run, dir, config, error);
    free(config);
    if (ends_study(status))
        return status;
    if (status != GW_OK)
        why = *error;
    return gw_study_job_end(dir, run, status ? why.text : NULL, error);
}
