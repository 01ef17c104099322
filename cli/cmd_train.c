/* gradweir train: a whole job on this machine. */
#include "config.h"

#include "cli/cli.h"

#include <getopt.h>
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
    char workers[GW_CLI_COUNT_MAX],
        servers[GW_CLI_COUNT_MAX];  /* --set of --workers and --servers, */
    char device[GW_CLI_DEVICE_MAX]; /* and of --device */
    char *text;                     /* of the job file */
    int dry_run, overcommit;
};

static void print_usage(void)
{
    puts(
        "Usage: gradweir train JOB [--workers N] [--servers N]\n"
        "                      [--device NAME]\n"
        "                      [--set KEY=VALUE ...] [--resume]\n"
        "                      [--json FILE] [--dry-run] [--overcommit]\n\n"
        "Runs a whole job on this machine: a coordinator, servers and\n"
        "workers, each a process. Ctrl-C makes a checkpoint and ends all.\n\n"
        "  --workers N      cluster.workers\n"
        "  --servers N      cluster.servers\n"
        "  --device NAME    worker.device: auto, cpu, cuda or cuda:I\n"
        "  --set KEY=VALUE  change a key of the job\n"
        "  --resume         go on from the newest checkpoint in\n"
        "                   checkpoint.dir\n"
        "  --json FILE      append an object per logged step; - for standard\n"
        "                   output, and lines for people on standard error\n"
        "  --dry-run        check the job, its data and where it would write,\n"
        "                   print what would run\n"
        "  --overcommit     start even if memory of this host, or of its "
        "GPUs,\n"
        "                   is too little; a worker still refuses what its "
        "GPU\n"
        "                   has no room for\n"
        "  --help           this text");
}

static enum gw_exit launch(struct train *train)
{
    char text[GW_ERROR_TEXT_BYTES];
    struct gw_error error;
    if (gw_order_load(&train->order, &train->config, &error) != GW_OK)
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
    enum {
        WORKERS = GW_ORDER_OWN,
        SERVERS,
        DEVICE,
        DRY_RUN,
        OVERCOMMIT
    };
    static const struct option options[] = {
        GW_ORDER_OPTIONS,
        {"workers", required_argument, NULL, WORKERS},
        {"servers", required_argument, NULL, SERVERS},
        {"device", required_argument, NULL, DEVICE},
        {"dry-run", no_argument, NULL, DRY_RUN},
        {"overcommit", no_argument, NULL, OVERCOMMIT},
        {0},
    };
    struct gw_error error = {.status = GW_OK};
    int option;
    enum gw_status status = GW_OK;
    while ((option = gw_cli_option(argc, argv, options)) != -1) {
        if (option == '?')
            return GW_EXIT_USAGE;
        if (option == GW_ORDER_HELP) {
            print_usage();
            return GW_EXIT_DONE;
        }
        if (option == WORKERS)
            status = gw_cli_job_count(&train->order.job, "workers", optarg,
                                      train->workers, &error);
        else if (option == SERVERS)
            status = gw_cli_job_count(&train->order.job, "servers", optarg,
                                      train->servers, &error);
        else if (option == DEVICE)
            status = gw_cli_job_device(&train->order.job, optarg, train->device,
                                       &error);
        else if (option == DRY_RUN)
            train->dry_run = 1;
        else if (option == OVERCOMMIT)
            train->overcommit = 1;
        else
            status = gw_order_option(&train->order, option, optarg, &error);
        if (status != GW_OK)
            return gw_cli_fail(&error);
    }
    if (argc - optind != 1)
        return gw_cli_usage("train: takes one job file (gradweir train "
                            "--help)");
    train->order.job.file = argv[optind];
    train->order.job.text_p = &train->text;
    return launch(train);
}

enum gw_exit gw_cmd_train(int argc, char **argv)
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
