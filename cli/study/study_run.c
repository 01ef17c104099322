#include "config.h"

#include "cli/study/study_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/study/study_job.h"

struct slot {
    pid_t pid; /* 0: free */
    const struct gw_study_run *run;
    double began_s;
};

struct execution {
    const struct gw_study_run_options *options;
    struct slot *slot;         /* [jobs] */
    size_t next, ended, known; /* known: ended earlier */
    double began_s;
    sigset_t signals;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- all of them ---- */

/* With so many members a simulation runs alone, on all cores: it takes long,
   and several might exceed the memory. */
#define LARGE 256

static int is_large(const struct gw_study *study,
                    const struct gw_study_run *run)
{
    return study->simulated && run->members >= LARGE;
}

struct start {
    const struct execution *execution;
    const struct gw_study_run *run;
};

/* Leaves signals to the study, which ends the child. */
static void child(void *owner)
{
    const struct start *start = owner;
    const struct gw_study_run_options *options = start->execution->options;
    struct gw_error error = {.status = GW_OK};
    enum gw_status status = gw_study_job(
        options->study, start->run, options->dir,
        is_large(options->study, start->run) ? options->jobs : 1, &error);
    if (status != GW_OK)
        fprintf(stderr, "gradweir: %s\n", error.text);
    fflush(NULL);
    if (status != GW_OK)
        _exit(1);
}

static int has_ended(const struct gw_study_run_options *options,
                     const struct gw_study_run *run)
{
    char *path = gw_study_run_path(options->dir, run, "jsonl");
    int there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

static void print_time(FILE *out, double seconds)
{
    uint64_t s = (uint64_t)(seconds + 0.5);
    if (s >= 3600)
        fprintf(out, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600,
                s / 60 % 60, s % 60);
    else
        fprintf(out, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
}

static void tell(const struct execution *execution, const struct slot *slot)
{
    const struct gw_study_run_options *options = execution->options;
    size_t runs = options->study->different, done = execution->ended;
    char what[256];
    double took = now_s() - execution->began_s;
    gw_study_describe(slot->run, what, sizeof what);
    fprintf(options->out, "run %zu/%zu: %s: %.1f s", done, runs,
            what[0] ? what : "the job", now_s() - slot->began_s);
    if (done < runs) {
        fputs(", ETA ", options->out);
        print_time(options->out, took * (double)(runs - done) /
                                     (double)(done - execution->known));
    }
    fputc('\n', options->out);
    fflush(options->out);
}

/* A large one is alone. */
static int may_start(const struct execution *execution,
                     const struct gw_study_run *run)
{
    const struct gw_study_run_options *options = execution->options;
    unsigned busy = 0, large = 0;
    for (unsigned i = 0; i < options->jobs; i++) {
        const struct slot *slot = &execution->slot[i];
        busy += slot->pid != 0;
        large += slot->pid != 0 && is_large(options->study, slot->run);
    }
    return is_large(options->study, run) ? busy == 0 : large == 0;
}

/* Starts the next unfinished run on a free slot. */
static enum gw_status
start(struct execution *execution, struct slot *slot, struct gw_error *error)
{
    const struct gw_study *study = execution->options->study;
    while (execution->next < study->runs &&
           (study->run[execution->next].again ||
            has_ended(execution->options, &study->run[execution->next])))
        execution->next++;
    if (execution->next == study->runs ||
        !may_start(execution, &study->run[execution->next]))
        return GW_OK;
    const struct gw_child made = {.name = "a run", .dies_by = SIGKILL};
    const struct gw_study_run *run = &study->run[execution->next++];
    struct start begin = {.execution = execution, .run = run};
    pid_t pid;
    enum gw_status status = gw_child_fork(&made, child, &begin, &pid, error);
    if (status != GW_OK)
        return status;
    *slot = (struct slot){.pid = pid, .run = run, .began_s = now_s()};
    return GW_OK;
}

static int is_crash(int signal)
{
    return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS ||
           signal == SIGFPE || signal == SIGILL;
}

/* Handles the end of a process: with its run, with the study, or by a crash,
   which ends the run as failed; a killed process leaves no result. */
static enum gw_status ended(struct execution *execution,
                            struct slot *slot,
                            int status,
                            struct gw_error *error)
{
    char why[64];
    enum gw_status result = GW_OK;
    slot->pid = 0;
    if (WIFSIGNALED(status) && !is_crash(WTERMSIG(status)))
        return gw_fail(error, GW_EINTERRUPTED,
                       "the process of a run was ended by signal %d; the same "
                       "command goes on from there",
                       WTERMSIG(status));
    if (WIFSIGNALED(status)) {
        snprintf(why, sizeof why, "its process ended with signal %d",
                 WTERMSIG(status));
        result =
            gw_study_job_end(execution->options->dir, slot->run, why, error);
    } else if (WEXITSTATUS(status) != 0) {
        result = gw_fail(error, GW_EIO,
                         "a run could not be made; the line before says why");
    }
    execution->ended++;
    if (result == GW_OK)
        tell(execution, slot);
    return result;
}

static enum gw_status reap(struct execution *execution, struct gw_error *error)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0)
            return GW_OK;
        for (unsigned i = 0; i < execution->options->jobs; i++) {
            struct slot *slot = &execution->slot[i];
            if (slot->pid != pid)
                continue;
            enum gw_status result = ended(execution, slot, status, error);
            if (result != GW_OK)
                return result;
        }
    }
}

static enum gw_status work(struct execution *execution, struct gw_error *error)
{
    const struct gw_study_run_options *options = execution->options;
    for (;;) {
        unsigned busy = 0;
        enum gw_status status = reap(execution, error);
        for (unsigned i = 0; i < options->jobs && status == GW_OK; i++) {
            if (execution->slot[i].pid == 0)
                status = start(execution, &execution->slot[i], error);
            busy += execution->slot[i].pid != 0;
        }
        if (status != GW_OK || busy == 0)
            return status;
        int signal;
        sigwait(&execution->signals, &signal);
        if (signal != SIGCHLD)
            return gw_fail(error, GW_EINTERRUPTED,
                           "stopped: %zu of %zu runs have ended; the same "
                           "command goes on from there",
                           execution->ended, options->study->different);
    }
}

static void end_children(struct execution *execution)
{
    for (unsigned i = 0; i < execution->options->jobs; i++) {
        if (execution->slot[i].pid == 0)
            continue;
        kill(execution->slot[i].pid, SIGKILL);
        waitpid(execution->slot[i].pid, NULL, 0);
    }
}

static enum gw_status
make_dir(const char *dir, const char *name, struct gw_error *error)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s", dir, name);
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return GW_OK;
    return gw_fail(error, GW_EIO, "cannot make directory %s: %s", path,
                   strerror(errno));
}

/* Locks the directory until the file is closed. */
static enum gw_status lock(const char *dir, int *fd_p, struct gw_error *error)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/runs/.lock", dir);
    *fd_p = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd_p < 0)
        return gw_fail(error, GW_EIO, "cannot create %s: %s", path,
                       strerror(errno));
    if (flock(*fd_p, LOCK_EX | LOCK_NB) == 0)
        return GW_OK;
    return gw_fail(error, GW_EEXIST,
                   "%s: another study runs in this directory; wait for it, or "
                   "choose another one with --out",
                   dir);
}

/* From now on signals arrive in sigtimedwait. */
static void take_signals(struct execution *execution, sigset_t *before)
{
    struct sigaction hup;
    sigemptyset(&execution->signals);
    sigaddset(&execution->signals, SIGCHLD);
    sigaddset(&execution->signals, SIGINT);
    sigaddset(&execution->signals, SIGTERM);
    sigaction(SIGHUP, NULL, &hup);
    if (hup.sa_handler != SIG_IGN) /* nohup(1) has it ignored */
        sigaddset(&execution->signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &execution->signals, before);
}

enum gw_status gw_study_run_all(const struct gw_study_run_options *options,
                                struct gw_error *error)
{
    struct execution execution = {.options = options, .began_s = now_s()};
    sigset_t before;
    int fd = -1;
    enum gw_status status = make_dir(options->dir, "", error);
    if (status == GW_OK)
        status = make_dir(options->dir, "/runs", error);
    if (status == GW_OK)
        status = lock(options->dir, &fd, error);
    execution.slot = calloc(options->jobs, sizeof *execution.slot);
    if (status == GW_OK && !execution.slot)
        status = gw_fail(error, GW_ENOMEM, "no memory for a study");
    if (status == GW_OK) {
        for (size_t i = 0; i < options->study->runs; i++)
            execution.ended += !options->study->run[i].again &&
                               has_ended(options, &options->study->run[i]);
        execution.known = execution.ended;
        take_signals(&execution, &before);
        status = work(&execution, error);
        end_children(&execution);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    free(execution.slot);
    if (fd >= 0)
        close(fd);
    return status;
}
