/* gradweir plan: the requirements of a job, before it runs. */
#include "config.h"

#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/amount.h"
#include "cli/lab/network.h"
#include "cli/options.h"
#include "cli/plan/plan.h"

/* Time from host to host, in us, if --link has none: a switched Ethernet's. */
#define LATENCY_US 60

struct command {
    struct gw_cli_job job;
    struct gw_plan_options plan;
    struct gw_config config;
    const char *json;
};

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
    signal(SIGPIPE, SIG_IGN); /* a measuring process may die */
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
    fflush(stdout); /* the error line follows the table */
    return gw_cli_fail(&error);
}

/* ---- options ---- */

static enum gw_status take_link(const struct gw_option *option,
                                const char *value,
                                void *to,
                                struct gw_error *error)
{
    struct gw_plan_options *plan = to;
    struct gw_error why;
    (void)option;
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

static enum gw_status take_placement(const struct gw_option *option,
                                     const char *value,
                                     void *to,
                                     struct gw_error *error)
{
    (void)option;
    return gw_placement_parse(value, to, error);
}

/* double, in the base unit of the row's enum gw_amount_kind */
static enum gw_status take_amount(const struct gw_option *option,
                                  const char *value,
                                  void *to,
                                  struct gw_error *error)
{
    char name[64];
    snprintf(name, sizeof name, "--%s", option->name);
    return gw_amount_parse(name, value, (enum gw_amount_kind)option->kind, to,
                           error);
}

#define AT(member) .at = offsetof(struct command, member)

/* clang-format off */
static const struct gw_option options[] = {
    GW_OPTION_MEMBERS("workers", struct command, job),
    GW_OPTION_MEMBERS("servers", struct command, job),
    GW_OPTION_DEVICE(struct command, job,
                     "worker.device: auto, cpu, cuda or cuda:I; a GPU need not "
                     "be here"),
    GW_OPTION_SET(struct command, job, "change a key of the job"),
    {.name = "weights", .argument = "N", .take = take_amount,
     AT(plan.weights), .kind = GW_AMOUNT_COUNT,
     .help = "of a program's own model (model.kind = \"external\"), such as "
             "124M"},
    {.name = "link", .argument = "RATE", .take = take_link, AT(plan),
     .help = "of each host, in each direction, and the time from host to host: "
             "\"1 Gbit/s, 0.2 ms\". Without it all are on this machine, as "
             "train has them"},
    {.name = "placement", .argument = "WORDS", .take = take_placement,
     AT(plan.placement),
     .help = "of servers: apart (on hosts of their own), together (on the "
             "workers'), spare K (both)"},
    {.name = "per-host", .argument = "N", .take = gw_option_count,
     AT(plan.per_host), .low = 1, .high = 4096,
     .help = "workers of a host, which share its link"},
    {.name = "cores", .argument = "N", .take = gw_option_count,
     AT(plan.cores), .low = 1, .high = 4096,
     .help = "that all processes share, whatever the links"},
    {.name = "step-time", .argument = "TIME", .take = take_amount,
     AT(plan.step_s), .kind = GW_AMOUNT_SECONDS,
     .help = "of a worker's computing, such as \"12 ms\""},
    {.name = "flops", .argument = "RATE", .take = take_amount,
     AT(plan.flops), .kind = GW_AMOUNT_FLOPS,
     .help = "of a worker instead, such as \"0.2 TFLOP/s\""},
    {.name = "memory-rate", .argument = "RATE", .take = take_amount,
     AT(plan.memory_rate), .kind = GW_AMOUNT_RATE,
     .help = "of a server's host, such as \"20 GB/s\""},
    {.name = "host-memory", .argument = "BYTES", .take = take_amount,
     AT(plan.host_bytes), .kind = GW_AMOUNT_BYTES,
     .help = "of each host, such as \"64 GiB\""},
    {.name = "gpu-memory", .argument = "BYTES", .take = take_amount,
     AT(plan.device_bytes), .kind = GW_AMOUNT_BYTES,
     .help = "of each GPU, for CUDA itself too"},
    {.name = "gpus", .argument = "N", .take = gw_option_count,
     AT(plan.gpus), .low = 1, .high = 4096,
     .help = "of each host; its workers share them. Without it one for each, "
             "or those that are here"},
    {.name = "device-link", .argument = "RATE", .take = take_amount,
     AT(plan.device_rate), .kind = GW_AMOUNT_RATE,
     .help = "between a host and each of its GPUs, each way, such as "
             "\"25 GB/s\""},
    {.name = "peer-link", .argument = "RATE", .take = take_amount,
     AT(plan.peer_rate), .kind = GW_AMOUNT_RATE,
     .help = "between GPUs of a host; without it they take the way to the "
             "host"},
    {.name = "json", .argument = "FILE", .take = gw_option_text, AT(json),
     .help = "write an object, also of a job that does not fit; - for "
             "standard output instead of the tables"},
    {.name = NULL},
};
/* clang-format on */

static enum gw_exit start(int argc, char **argv, struct command *command)
{
    enum gw_exit code;
    int operands =
        gw_options_read(&gw_command_plan, argc, argv, command, &code);
    if (operands < 0)
        return code;
    if (operands != 1)
        return gw_cli_usage("plan: takes one job file (gradweir plan --help)");
    if (command->plan.step_s > 0 && command->plan.flops > 0)
        return gw_cli_usage("plan: --step-time and --flops say the same "
                            "thing: give one");
    command->job.file = argv[optind];
    return act(command);
}

static enum gw_exit run(int argc, char **argv)
{
    struct command *command = calloc(1, sizeof *command);
    if (!command)
        return gw_cli_usage("plan: no memory");
    enum gw_exit code = start(argc, argv, command);
    free(command);
    return code;
}

const struct gw_command gw_command_plan = {
    .name = "plan",
    .help = "say what a job will take, before it runs",
    .usage = "JOB [OPTIONS]",
    .about =
        "Says what a job will take before it runs: memory of each role, bytes\n"
        "on each link, the time of a step and what bounds it, beside what an\n"
        "all-reduce would take; refuses a job that cannot fit, and says what\n"
        "would. What is not given is measured here, in some seconds.",
    .options = options,
    .run = run,
};
