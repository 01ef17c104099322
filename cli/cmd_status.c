/* gradweir status: a running coordinator's report of its job. */
#include "config.h"

#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/text.h"
#include "transport/member/ask.h"
#include "cli/jobs.h"
#include "cli/options.h"

#define LIMIT_US 3000000

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
    if (gw_text_address("status", coordinator, 0, &error) != GW_OK)
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

static enum gw_exit run(int argc, char **argv)
{
    int job = 0;
    enum gw_exit code;
    int operands = gw_options_read(&gw_command_status, argc, argv, &job, &code);
    if (operands < 0)
        return code;
    if (operands == 0 && !job)
        return list();
    if (operands != 1)
        return gw_cli_usage("status: takes one HOST:PORT, the address that the "
                            "coordinator prints%s (gradweir status --help)",
                            job ? "" : ", or none");
    return show(argv[optind], job ? GW_ASK_JOB : GW_ASK_STATUS);
}

/* clang-format off */
static const struct gw_option options[] = {
    {.name = "job", .take = gw_option_flag,
     .help = "for the job instead, as a job file with every key"},
    {.name = NULL},
};
/* clang-format on */

const struct gw_command gw_command_status = {
    .name = "status",
    .help = "ask a running job how it is",
    .usage = "[HOST:PORT] [OPTIONS]",
    .about = "Asks the coordinator at HOST:PORT for its members and counters.\n"
             "Without it: the jobs of this user that run on this host, a line\n"
             "each; gradweir ctl --job PID status says more of one.",
    .options = options,
    .run = run,
};
