/* gradweir plan: what a job will take, before it runs. */
#include "config.h"

#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/amount.h"
#include "cli/lab/network.h"
#include "cli/plan/plan.h"

/* A host to host time where --link has none, in us: of a switched Ethernet. */
#define LATENCY_US 60

struct command {
    struct gw_cli_job job;
    struct gw_plan_options plan;
    struct gw_config config;
    const char *json;
    char workers[GW_CLI_COUNT_MAX], servers[GW_CLI_COUNT_MAX],
        device[GW_CLI_DEVICE_MAX];
};

enum {
    SET = 1,
    WORKERS,
    SERVERS,
    DEVICE,
    LINK,
    PLACEMENT,
    PER_HOST,
    CORES,
    STEP_TIME,
    FLOPS,
    MEMORY_RATE,
    HOST_MEMORY,
    GPU_MEMORY,
    GPUS,
    DEVICE_LINK,
    PEER_LINK,
    JSON,
    HELP
};

static void print_usage(void)
{
    puts(
        "Usage: gradweir plan JOB [--workers N] [--servers N]\n"
        "                     [--device NAME]\n"
        "                     [--set KEY=VALUE ...] [--link RATE]\n"
        "                     [--placement WORDS] [--per-host N] [--cores N]\n"
        "                     [--step-time TIME] [--flops RATE]\n"
        "                     [--memory-rate RATE] [--host-memory BYTES]\n"
        "                     [--gpu-memory BYTES] [--gpus N]\n"
        "                     [--device-link RATE] [--peer-link RATE]\n"
        "                     [--json FILE]\n\n"
        "Says what a job will take before it runs: memory of each role, bytes\n"
        "on each link, the time of a step and what bounds it, beside what an\n"
        "all-reduce would take; refuses a job that cannot fit, and says what\n"
        "would. What is not given is measured here, in some seconds.\n\n"
        "  --workers N          cluster.workers\n"
        "  --servers N          cluster.servers\n"
        "  --device NAME        worker.device: auto, cpu, cuda or cuda:I; a\n"
        "                       GPU need not be here\n"
        "  --set KEY=VALUE      change a key of the job\n"
        "  --link RATE          of each host, in each direction, and the time\n"
        "                       from host to host: \"1 Gbit/s, 0.2 ms\". "
        "Without\n"
        "                       it all are on this machine, as train has them\n"
        "  --placement WORDS    of servers: apart (on hosts of their own),\n"
        "                       together (on the workers'), spare K (both)\n"
        "  --per-host N         workers of a host, which share its link\n"
        "  --cores N            that all processes share, whatever the links\n"
        "  --step-time TIME     of a worker's computing, such as \"12 ms\"\n"
        "  --flops RATE         of a worker instead, such as \"0.2 TFLOP/s\"\n"
        "  --memory-rate RATE   of a server's host, such as \"20 GB/s\"\n"
        "  --host-memory BYTES  of each host, such as \"64 GiB\"\n"
        "  --gpu-memory BYTES   of each GPU, for CUDA itself too\n"
        "  --gpus N             of each host; its workers share them. Without\n"
        "                       it one for each, or those that are here\n"
        "  --device-link RATE   between a host and each of its GPUs, each "
        "way,\n"
        "                       such as \"25 GB/s\"\n"
        "  --peer-link RATE     between GPUs of a host; without it they take\n"
        "                       the way to the host\n"
        "  --json FILE          write an object, also of a job that does not\n"
        "                       fit; - for standard output instead of the\n"
        "                       tables\n"
        "  --help               this text");
}

/* ---- doing it ---- */

static enum gw_status write_json(const struct command *command,
                                 const struct gw_planned *planned,
                                 const char *refused,
                                 struct gw_error *error)
{
    if (strcmp(command->json, "-") == 0)
        return gw_plan_write(&command->plan, planned, refused, stdout, error);
    FILE *file = fopen(command->json, "ae");
    if (!file)
        return gw_fail(error, GW_EIO, "--json: %s cannot be opened: %s",
                       command->json, strerror(errno));
    enum gw_status status =
        gw_plan_write(&command->plan, planned, refused, file, error);
    if (fclose(file) != 0 && status == GW_OK)
        status = gw_fail(error, GW_EIO, "--json: cannot write %s: %s",
                         command->json, strerror(errno));
    return status;
}

static enum gw_exit act(struct command *command)
{
    struct gw_planned planned;
    struct gw_error error;
    int lines = !command->json || strcmp(command->json, "-") != 0;
    enum gw_status status =
        gw_cli_job_load(&command->job, &command->config, &error);
    if (status == GW_OK)
        status = gw_config_check(&command->config, &error);
    if (status != GW_OK)
        return gw_cli_fail(&error);
    command->plan.file = command->job.file;
    command->plan.config = &command->config;
    signal(SIGPIPE, SIG_IGN); /* one who tries a step may die */
    status = gw_plan_find(&command->plan, &planned, &error);
    if (lines && planned.hosts > 0 && planned.map)
        gw_plan_print(&command->plan, &planned, stdout);
    const char *refused = planned.does_not_fit ? error.text : NULL;
    if (command->json && (status == GW_OK || refused)) {
        struct gw_error other;
        enum gw_status wrote = write_json(command, &planned, refused, &other);
        if (wrote != GW_OK && status == GW_OK) {
            status = wrote;
            error = other;
        }
    }
    gw_plan_free(&planned);
    if (status == GW_OK)
        return GW_EXIT_DONE;
    fflush(stdout); /* the line comes behind the table */
    return gw_cli_fail(&error);
}

/* ---- options ---- */

static enum gw_status take_number(const char *option,
                                  const char *value,
                                  uint32_t *number_p,
                                  struct gw_error *error)
{
    uint64_t number;
    enum gw_status status =
        gw_cli_number(option, value, 1, 4096, &number, error);
    if (status == GW_OK)
        *number_p = (uint32_t)number;
    return status;
}

static enum gw_status take_link(struct gw_plan_options *plan,
                                const char *value,
                                struct gw_error *error)
{
    struct gw_error why;
    if (gw_network_parse(value, &plan->link, &why) != GW_OK)
        return gw_fail(error, why.status, "--link: %s", why.text);
    if (plan->link.bytes_per_us <= 0)
        return gw_fail(error, GW_EUSAGE,
                       "--link: \"%s\" has no rate, such as 1 Gbit/s", value);
    if (plan->link.latency_us == 0)
        plan->link.latency_us = LATENCY_US / 2;
    plan->has_link = 1;
    return GW_OK;
}

static enum gw_status take_figure(struct gw_plan_options *plan,
                                  int option,
                                  const char *value,
                                  struct gw_error *error)
{
    switch (option) {
    case STEP_TIME:
        return gw_amount_parse("--step-time", value, GW_AMOUNT_SECONDS,
                               &plan->step_s, error);
    case FLOPS:
        return gw_amount_parse("--flops", value, GW_AMOUNT_FLOPS, &plan->flops,
                               error);
    case MEMORY_RATE:
        return gw_amount_parse("--memory-rate", value, GW_AMOUNT_RATE,
                               &plan->memory_rate, error);
    case HOST_MEMORY:
        return gw_amount_parse("--host-memory", value, GW_AMOUNT_BYTES,
                               &plan->host_bytes, error);
    case DEVICE_LINK:
        return gw_amount_parse("--device-link", value, GW_AMOUNT_RATE,
                               &plan->device_rate, error);
    case PEER_LINK:
        return gw_amount_parse("--peer-link", value, GW_AMOUNT_RATE,
                               &plan->peer_rate, error);
    default:
        return gw_amount_parse("--gpu-memory", value, GW_AMOUNT_BYTES,
                               &plan->device_bytes, error);
    }
}

static enum gw_status take(struct command *command,
                           int option,
                           const char *value,
                           struct gw_error *error)
{
    struct gw_plan_options *plan = &command->plan;
    switch (option) {
    case SET:
        return gw_cli_job_set(&command->job, value, error);
    case WORKERS:
        return gw_cli_job_count(&command->job, "workers", value,
                                command->workers, error);
    case SERVERS:
        return gw_cli_job_count(&command->job, "servers", value,
                                command->servers, error);
    case DEVICE:
        return gw_cli_job_device(&command->job, value, command->device, error);
    case LINK:
        return take_link(plan, value, error);
    case PLACEMENT:
        return gw_placement_parse(value, &plan->placement, error);
    case PER_HOST:
        return take_number("--per-host", value, &plan->per_host, error);
    case CORES:
        return take_number("--cores", value, &plan->cores, error);
    case GPUS:
        return take_number("--gpus", value, &plan->gpus, error);
    case JSON:
        command->json = value;
        return GW_OK;
    default:
        return take_figure(plan, option, value, error);
    }
}

static enum gw_exit run(int argc, char **argv, struct command *command)
{
    static const struct option table[] = {
        {"set", required_argument, NULL, SET},
        {"workers", required_argument, NULL, WORKERS},
        {"servers", required_argument, NULL, SERVERS},
        {"device", required_argument, NULL, DEVICE},
        {"link", required_argument, NULL, LINK},
        {"placement", required_argument, NULL, PLACEMENT},
        {"per-host", required_argument, NULL, PER_HOST},
        {"cores", required_argument, NULL, CORES},
        {"step-time", required_argument, NULL, STEP_TIME},
        {"flops", required_argument, NULL, FLOPS},
        {"memory-rate", required_argument, NULL, MEMORY_RATE},
        {"host-memory", required_argument, NULL, HOST_MEMORY},
        {"gpu-memory", required_argument, NULL, GPU_MEMORY},
        {"gpus", required_argument, NULL, GPUS},
        {"device-link", required_argument, NULL, DEVICE_LINK},
        {"peer-link", required_argument, NULL, PEER_LINK},
        {"json", required_argument, NULL, JSON},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct gw_error error;
    int option;
    while ((option = gw_cli_option(argc, argv, table)) != -1) {
        if (option == '?')
            return GW_EXIT_USAGE;
        if (option == HELP) {
            print_usage();
            return GW_EXIT_DONE;
        }
        if (take(command, option, optarg, &error) != GW_OK)
            return gw_cli_fail(&error);
    }
    if (argc - optind != 1)
        return gw_cli_usage("plan: takes one job file (gradweir plan --help)");
    if (command->plan.step_s > 0 && command->plan.flops > 0)
        return gw_cli_usage("plan: --step-time and --flops say the same "
                            "thing: give one");
    command->job.file = argv[optind];
    return act(command);
}

enum gw_exit gw_cmd_plan(int argc, char **argv)
{
    struct command *command = calloc(1, sizeof *command);
    if (!command)
        return gw_cli_usage("plan: no memory");
    enum gw_exit code = run(argc, argv, command);
    free(command);
    return code;
}
