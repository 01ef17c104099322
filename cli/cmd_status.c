/* gradweir status: what a running coordinator says of its job. */
#include "config.h"

#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/ask.h"
#include "cli/jobs.h"

#define LIMIT_US 3000000

static void print_usage(void)
{
    puts("Usage: gradweir status [HOST:PORT] [--job]\n\n"
         "Asks the coordinator at HOST:PORT for its members and counters.\n"
         "Without it: the jobs of this user that run on this host, a line\n"
         "each; gradweir ctl --job PID status says more of one.\n\n"
         "  --job   for the job instead, as a job file with every key\n"
         "  --help  this text");
}

static enum gw_exit list(void)
{
    struct gw_jobs *jobs;
    struct gw_error error = {.status = GW_OK};
    if (gw_jobs_find(&jobs, 0, LIMIT_US, &error) != GW_OK)
        gw_cli_fail(&error);
    else if (jobs->n == 0)
        puts("no job of this user runs on this host");
    else
        gw_jobs_list(jobs, stdout);
    gw_jobs_free(jobs);
    return gw_cli_exit(error.status);
}

static enum gw_exit show(const char *coordinator, enum gw_ask request)
{
    char *text;
    struct gw_error error;
    if (gw_cli_address("status", coordinator, 0, &error) != GW_OK)
        return gw_cli_fail(&error);
    const struct gw_ask_options options = {.coordinator = coordinator,
                                           .interface = "",
                                           .request = request,
                                           .wait_us = LIMIT_US};
    if (gw_ask(&options, &text, &error) != GW_OK)
        return gw_cli_fail(&error);
    fputs(text, stdout);
    free(text);
    return GW_EXIT_DONE;
}

enum gw_exit gw_cmd_status(int argc, char **argv)
{
    enum {
        JOB = 1,
        HELP
    };
    static const struct option options[] = {
        {"job", no_argument, NULL, JOB},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    enum gw_ask request = GW_ASK_STATUS;
    int option;
    while ((option = gw_cli_option(argc, argv, options)) != -1) {
        switch (option) {
        case JOB:
            request = GW_ASK_JOB;
            break;
        case HELP:
            print_usage();
            return GW_EXIT_DONE;
        default:
            return GW_EXIT_USAGE;
        }
    }
    if (argc == optind && request == GW_ASK_STATUS)
        return list();
    if (argc - optind != 1)
        return gw_cli_usage("status: takes one HOST:PORT, the address that the "
                            "coordinator prints%s (gradweir status --help)",
                            request == GW_ASK_JOB ? "" : ", or none");
    return show(argv[optind], request);
}
