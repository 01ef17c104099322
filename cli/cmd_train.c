/* gradweir train: a whole job on this machine. */
#include "config.h"

#include "cli/cli.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/launch.h"
#include "cli/plan.h"

struct train {
    struct gw_cli_job job;
    struct gw_config config;
    char workers[64], servers[64]; /* --set of --workers and --servers */
    int resume, dry_run;
    const char *json;
};

static void print_usage(void)
{
    puts(
        "Usage: gradweir train JOB [--workers N] [--servers N]\n"
        "                      [--set KEY=VALUE ...] [--resume]\n"
        "                      [--json FILE] [--dry-run]\n\n"
        "Runs a whole job on this machine: a coordinator, servers and\n"
        "workers, each a process. Ctrl-C makes a checkpoint and ends all.\n\n"
        "  --workers N      cluster.workers\n"
        "  --servers N      cluster.servers\n"
        "  --set KEY=VALUE  change a key of the job\n"
        "  --resume         go on from the newest checkpoint in\n"
        "                   checkpoint.dir\n"
        "  --json FILE      append an object per logged step; - for standard\n"
        "                   output, and lines for people on standard error\n"
        "  --dry-run        check the job, its data and where it would write,\n"
        "                   print what would run\n"
        "  --help           this text");
}

static enum gw_status check(struct train *train, struct gw_error *error)
{
    const struct gw_config *config = &train->config;
    enum gw_status status = gw_cli_job_load(&train->job, &train->config, error);
    if (status == GW_OK)
        status = gw_config_check(config, error);
    if (status != GW_OK)
        return status;
    if (train->resume && !config->checkpoint.dir[0])
        return gw_fail(error, GW_EUSAGE,
                       "--resume: checkpoint.dir is empty, so there is nothing "
                       "to go on from");
    return GW_OK;
}

static enum gw_exit launch(struct train *train)
{
    char text[GW_ERROR_TEXT_BYTES];
    struct gw_error error;
    if (check(train, &error) != GW_OK)
        return gw_cli_fail(&error);
    if (train->dry_run) {
        const struct gw_plan_options plan = {
            .file = train->job.file,
            .config = &train->config,
            .resume = train->resume,
            .json = train->json,
        };
        return gw_plan_print(&plan, &error) == GW_OK ? GW_EXIT_DONE
                                                     : gw_cli_fail(&error);
    }
    if (gw_cli_core_warning(text, sizeof text))
        fprintf(stderr, "gradweir: %s\n", text);
    const struct gw_launch_options options = {
        .job = &train->job,
        .resume = train->resume,
        .json = train->json,
        .servers = (unsigned)train->config.cluster.servers,
        .workers = (unsigned)train->config.cluster.workers,
    };
    return gw_launch(&options);
}

static enum gw_status set_count(struct train *train,
                                const char *key,
                                const char *value,
                                char text[64],
                                struct gw_error *error)
{
    snprintf(text, 64, "cluster.%s=%.40s", key, value);
    return gw_cli_job_set(&train->job, text, error);
}

static enum gw_exit start(int argc, char **argv, struct train *train)
{
    enum {
        WORKERS = 1,
        SERVERS,
        SET,
        RESUME,
        JSON,
        DRY_RUN,
        HELP
    };
    static const struct option options[] = {
        {"workers", required_argument, NULL, WORKERS},
        {"servers", required_argument, NULL, SERVERS},
        {"set", required_argument, NULL, SET},
        {"resume", no_argument, NULL, RESUME},
        {"json", required_argument, NULL, JSON},
        {"dry-run", no_argument, NULL, DRY_RUN},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct gw_error error = {.status = GW_OK};
    uint64_t number;
    int option;
    enum gw_status status = GW_OK;
    while ((option = gw_cli_option(argc, argv, options)) != -1) {
        switch (option) {
        case WORKERS:
            status =
                gw_cli_number("--workers", optarg, 1, 4096, &number, &error);
            if (status == GW_OK)
                status =
                    set_count(train, "workers", optarg, train->workers, &error);
            break;
        case SERVERS:
            status =
                gw_cli_number("--servers", optarg, 1, 4096, &number, &error);
            if (status == GW_OK)
                status =
                    set_count(train, "servers", optarg, train->servers, &error);
            break;
        case SET:
            status = gw_cli_job_set(&train->job, optarg, &error);
            break;
        case RESUME:
            train->resume = 1;
            break;
        case JSON:
            train->json = optarg;
            break;
        case DRY_RUN:
            train->dry_run = 1;
            break;
        case HELP:
            print_usage();
            return GW_EXIT_DONE;
        default:
            return GW_EXIT_USAGE;
        }
        if (status != GW_OK)
            return gw_cli_fail(&error);
    }
    if (argc - optind != 1)
        return gw_cli_usage("train: takes one job file (gradweir train "
                            "--help)");
    train->job.file = argv[optind];
    return launch(train);
}

enum gw_exit gw_cmd_train(int argc, char **argv)
{
    struct train *train = calloc(1, sizeof *train);
    if (!train)
        return gw_cli_usage("train: no memory");
    enum gw_exit code = start(argc, argv, train);
    free(train);
    return code;
}
