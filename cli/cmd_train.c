/* gradweir train: a whole job on this machine. */
#include "config.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check.h"
#include "cli/launch.h"
#include "cli/order.h"
#include "cli/dry_run.h"
#include "cli/host/pin_member.h"
#include "cli/room.h"
#include "cli/signals.h"

struct train {
    struct gw_order order;
    struct gw_config config;
    char *text; /* of the job file */
    int dry_run, overcommit;
};

static enum gw_exit launch(struct train *train)
{
    char text[GW_ERROR_TEXT_BYTES];
    struct gw_error error;
    if (gw_order_load(&train->order, &train->config, &error) != GW_OK ||
        gw_order_check_builtin(&train->config,
                               "which gradweir run starts: gradweir run JOB "
                               "-- PROGRAM",
                               &error) != GW_OK)
        return gw_cli_fail(&error);
    if (gw_pin_check(&train->config, &error) != GW_OK)
        return gw_cli_fail(&error);
    if (train->dry_run) {
        const struct gw_dry_run_options dry = {
            .file = train->order.job.file,
            .text = train->text,
            .config = &train->config,
            .resume = train->order.resume,
            .json = train->order.json,
            .overcommit = train->overcommit,
        };
        return gw_dry_run(&dry, &error) == GW_OK ? GW_EXIT_DONE
                                                 : gw_cli_fail(&error);
    }
    if (gw_room_check_job(&train->config, &error) != GW_OK)
        return gw_cli_fail(&error);
    if (!train->overcommit && gw_check_memory(&train->config, &error) != GW_OK)
        return gw_cli_fail(&error);
    if (gw_cli_core_warning(text, sizeof text))
        fprintf(stderr, "gradweir: %s\n", text);
    const struct gw_launch_options options = {
        .job = &train->order.job,
        .text = train->text,
        .resume = train->order.resume,
        .json = train->order.json,
        .servers = (unsigned)train->config.cluster.servers,
        .workers = (unsigned)train->config.cluster.workers,
        .config = &train->config,
    };
    return gw_launch(&options);
}

static enum gw_exit start(int argc, char **argv, struct train *train)
{
    enum gw_exit code;
    int operands = gw_options_read(&gw_command_train, argc, argv, train, &code);
    if (operands < 0)
        return code;
    if (operands != 1)
        return gw_cli_usage("train: takes one job file (gradweir train "
                            "--help)");
    train->order.job.file = argv[optind];
    train->order.job.text_p = &train->text;
    return launch(train);
}

static enum gw_exit run(int argc, char **argv)
{
    gw_signals_end_process();
    struct train *train = calloc(1, sizeof *train);
    if (!train)
        return gw_cli_usage("train: no memory");
    enum gw_exit code = start(argc, argv, train);
    free(train->text);
    free(train);
    return code;
}

/* clang-format off */
static const struct gw_option options[] = {
    GW_OPTION_MEMBERS("workers", struct train, order.job),
    GW_OPTION_MEMBERS("servers", struct train, order.job),
    GW_OPTION_DEVICE(struct train, order.job,
                     "worker.device: auto, cpu, cuda or cuda:I"),
    GW_ORDER_OPTIONS(struct train, order),
    {.name = "dry-run", .take = gw_option_flag,
     .at = offsetof(struct train, dry_run),
     .help = "check the job, its data and where it would write, print what "
             "would run"},
    {.name = "overcommit", .take = gw_option_flag,
     .at = offsetof(struct train, overcommit),
     .help = "start even if memory of this host, or of its GPUs, is too "
             "little; a worker still refuses what its GPU has no room for"},
    {.name = NULL},
};
/* clang-format on */

const struct gw_command gw_command_train = {
    .name = "train",
    .help = "run a whole job on this machine",
    .usage = "JOB [OPTIONS]",
    .about = "Runs a whole job on this machine: a coordinator, servers and\n"
             "workers, each a process. Ctrl-C makes a checkpoint and ends all.",
    .options = options,
    .run = run,
};
