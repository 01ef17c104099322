/* gradweir ctl: commands a running job of this user on this host. */
#include "config.h"

#include "cli/cli.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cli/jobs.h"
#include "proto/distance.h"
#include "proto/policy.h"

/* For all of it; finding the job takes two thirds at most. */
#define LIMIT_US 3000000
#define FIND_US  2000000

struct ctl {
    uint64_t began_us;
    const char *socket;      /* NULL: to be found */
    uint64_t pid;            /* 0: the one that runs */
    struct gw_request order; /* kind 0: its status is asked for */
};

static void print_usage(void)
{
    puts("Usage: gradweir ctl [--job PID | --socket PATH] COMMAND\n\n"
         "Commands the job of this user that runs on this host.\n\n"
         "  policy WORD    another policy, such as ssp:4, from the next step\n"
         "                 where all workers have one clock\n"
         "  checkpoint     make a checkpoint at the next such step\n"
         "  stop           end the job as Ctrl-C does\n"
         "  status         its members and counters\n\n"
         "  --job PID      the job that was started as this process; without\n"
         "                 it there must be one\n"
         "  --socket PATH  the one that takes orders there\n"
         "  --help         this text");
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The time that is left, and never nothing. */
static uint64_t left_us(const struct ctl *ctl)
{
    uint64_t gone = now_us() - ctl->began_us;
    return gone < LIMIT_US ? LIMIT_US - gone : 1;
}

/* The one job that is meant, or a line about why there is none such. */
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

/* ---- what it is to do ---- */

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

/* A wrong word never leaves. */
static enum gw_status
read_command(int words, char **word, struct ctl *ctl, struct gw_error *error)
{
    static const struct {
        const char *name;
        int words;
        uint8_t kind;
    } commands[] = {
        {"policy", 2, GW_REQUEST_POLICY},
        {"checkpoint", 1, GW_REQUEST_CHECKPOINT},
        {"stop", 1, GW_REQUEST_STOP},
        {"status", 1, 0},
    };
    struct gw_policy_word policy;
    struct gw_nearest nearest = {0};
    char said[GW_NEAREST_BYTES];
    size_t i = 0;
    while (i < sizeof commands / sizeof *commands &&
           (words == 0 || strcasecmp(word[0], commands[i].name) != 0))
        gw_nearest_try(&nearest, words ? word[0] : "", commands[i++].name);
    if (i == sizeof commands / sizeof *commands || words != commands[i].words)
        return gw_fail(error, GW_EUSAGE,
                       "ctl: takes one of policy WORD, checkpoint, stop and "
                       "status%s (gradweir ctl --help)",
                       i < sizeof commands / sizeof *commands
                           ? ""
                           : gw_nearest_say(&nearest, said));
    ctl->order = (struct gw_request){.kind = commands[i].kind, .text = ""};
    if (words == 1)
        return GW_OK;
    ctl->order.text = word[1];
    if (gw_policy_word_parse(word[1], &policy, error) != GW_OK)
        return gw_fail_in(error, "ctl: policy");
    return GW_OK;
}

enum gw_exit gw_cmd_ctl(int argc, char **argv)
{
    enum {
        JOB = 1,
        SOCKET,
        HELP
    };
    static const struct option options[] = {
        {"job", required_argument, NULL, JOB},
        {"socket", required_argument, NULL, SOCKET},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct ctl ctl = {.began_us = now_us()};
    struct gw_error error;
    int option;
    while ((option = gw_cli_option(argc, argv, options)) != -1) {
        if (option == '?')
            return GW_EXIT_USAGE;
        if (option == HELP) {
            print_usage();
            return GW_EXIT_DONE;
        }
        if (option == SOCKET)
            ctl.socket = optarg;
        else if (gw_cli_number("--job", optarg, 1, INT32_MAX, &ctl.pid,
                               &error) != GW_OK)
            return gw_cli_fail(&error);
    }
    if (ctl.socket && ctl.pid)
        return gw_cli_usage("ctl: --job and --socket both name a job, give "
                            "one of them");
    if (read_command(argc - optind, argv + optind, &ctl, &error) != GW_OK)
        return gw_cli_fail(&error);
    return ctl.socket ? command(&ctl, ctl.socket) : find_and_command(&ctl);
}
