/* gradweir ctl: commands a running job of this user on this host. */
#include "config.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/jobs.h"
#include "cli/options.h"
#include "proto/distance.h"
#include "proto/policy.h"

/* Time limit of the command, and of finding the job. */
#define LIMIT_US 3000000
#define FIND_US  2000000

struct ctl {
    uint64_t began_us;
    const char *socket;      /* NULL: to be found */
    uint64_t pid;            /* 0: the one that runs */
    struct gw_request order; /* kind 0: asks for the status */
};

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Remaining time, never 0. */
static uint64_t left_us(const struct ctl *ctl)
{
    uint64_t gone = now_us() - ctl->began_us;
    return gone < LIMIT_US ? LIMIT_US - gone : 1;
}

/* The one job to command; NULL after an error line. */
static const struct gw_jobs_one *choose(const struct ctl *ctl,
                                        const struct gw_jobs *jobs)
{
    if (jobs->n == 1 && jobs->one[0].text)
        return &jobs->one[0];
    if (jobs->n == 1)
        fprintf(stderr, "gradweir: ctl: job %" PRIu32 " does not answer\n",
                jobs->one[0].job.pid);
    else if (jobs->n > 1)
        fprintf(stderr,
                "gradweir: ctl: %zu jobs of this user run on this host, "
                "choose one by --job PID:\n",
                jobs->n);
    else if (ctl->pid)
        fprintf(stderr,
                "gradweir: ctl: no job %" PRIu64 " of this user runs on this "
                "host\n",
                ctl->pid);
    else
        fprintf(stderr,
                "gradweir: ctl: no job of this user runs on this host\n");
    if (jobs->n > 1)
        gw_jobs_list(jobs, stderr);
    return NULL;
}

/* ---- the command ---- */

static enum gw_exit command(const struct ctl *ctl, const char *path)
{
    char *text;
    struct gw_error error;
    const struct gw_request *order = ctl->order.kind ? &ctl->order : NULL;
    if (gw_jobs_ask(path, order, left_us(ctl), &text, &error) != GW_OK)
        return gw_cli_fail(&error);
    printf("%s%s", text, order ? "\n" : "");
    free(text);
    return GW_EXIT_DONE;
}

static enum gw_exit find_and_command(const struct ctl *ctl)
{
    enum gw_exit code = GW_EXIT_FAILED;
    struct gw_error error;
    struct gw_jobs *jobs;
    if (gw_jobs_find(&jobs, ctl->pid, FIND_US, &error) != GW_OK) {
        code = gw_cli_fail(&error);
    } else {
        const struct gw_jobs_one *one = choose(ctl, jobs);
        if (one)
            code = command(ctl, one->job.path);
    }
    gw_jobs_free(jobs);
    return code;
}

static enum gw_status take_request(const struct gw_option *word,
                                   const char *value,
                                   void *to,
                                   struct gw_error *error)
{
    struct gw_request *order = to;
    struct gw_policy_word policy;
    *order = (struct gw_request){.kind = (uint8_t)word->kind,
                                 .text = value ? value : ""};
    if (value && gw_policy_word_parse(value, &policy, error) != GW_OK)
        return gw_fail_in(error, "ctl: policy");
    return GW_OK;
}

/* clang-format off */
static const struct gw_option words[] = {
    {.name = "policy", .argument = "WORD", .take = take_request,
     .kind = GW_REQUEST_POLICY,
     .help = "another policy, such as ssp:4, from the next step where all "
             "workers have one clock"},
    {.name = "checkpoint", .take = take_request,
     .kind = GW_REQUEST_CHECKPOINT,
     .help = "make a checkpoint at the next such step"},
    {.name = "stop", .take = take_request, .kind = GW_REQUEST_STOP,
     .help = "end the job as Ctrl-C does"},
    {.name = "status", .take = take_request,
     .help = "its members and counters"},
    {.name = NULL},
};

static const struct gw_option options[] = {
    {.name = "job", .argument = "PID", .take = gw_option_number,
     .at = offsetof(struct ctl, pid), .low = 1, .high = INT32_MAX,
     .help = "the job that was started as this process; without it there must "
             "be one"},
    {.name = "socket", .argument = "PATH", .take = gw_option_text,
     .at = offsetof(struct ctl, socket),
     .help = "the one that takes orders there"},
    {.name = NULL},
};
/* clang-format on */

/* Reads the command word; wrong words are never sent. */
static enum gw_status
read_command(int n, char **word, struct ctl *ctl, struct gw_error *error)
{
    struct gw_nearest nearest = {0};
    char said[GW_NEAREST_BYTES];
    const struct gw_option *known =
        n > 0 ? gw_option_find(words, word[0]) : NULL;
    for (const struct gw_option *w = words; !known && w->name; w++)
        gw_nearest_try(&nearest, n > 0 ? word[0] : "", w->name);
    if (!known || n != (known->argument ? 2 : 1))
        return gw_fail(error, GW_EUSAGE,
                       "ctl: takes one of policy WORD, checkpoint, stop and "
                       "status%s (gradweir ctl --help)",
                       known ? "" : gw_nearest_say(&nearest, said));
    return known->take(known, known->argument ? word[1] : NULL, &ctl->order,
                       error);
}

static enum gw_exit run(int argc, char **argv)
{
    struct ctl ctl = {.began_us = now_us()};
    struct gw_error error;
    enum gw_exit code;
    int operands = gw_options_read(&gw_command_ctl, argc, argv, &ctl, &code);
    if (operands < 0)
        return code;
    if (ctl.socket && ctl.pid)
        return gw_cli_usage("ctl: --job and --socket both name a job, give "
                            "one of them");
    if (read_command(operands, argv + optind, &ctl, &error) != GW_OK)
        return gw_cli_fail(&error);
    return ctl.socket ? command(&ctl, ctl.socket) : find_and_command(&ctl);
}

const struct gw_command gw_command_ctl = {
    .name = "ctl",
    .help = "command a running job of this host",
    .usage = "[--job PID | --socket PATH] COMMAND",
    .about = "Commands the job of this user that runs on this host.",
    .words = words,
    .options = options,
    .run = run,
};
