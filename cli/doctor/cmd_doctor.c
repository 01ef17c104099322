/* gradweir doctor: finds obstacles for jobs on this host and between two
   hosts. */
#include "config.h"

#include "cli/cli.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/options.h"
#include "proto/text.h"
#include "transport/rdma/rdma_port.h"

struct options {
    struct gw_cli_job job;
    const char *json, *serve;
    size_t peers;
    char peer[GW_DOCTOR_PEERS_MAX][128];
};

struct output {
    FILE *lines; /* NULL: objects only */
    FILE *json;  /* or NULL */
};

/* ---- output ---- */

static void on_found(void *owner,
                     enum gw_verdict verdict,
                     const char *check,
                     const char *text)
{
    const struct output *output = owner;
    if (output->lines) {
        fprintf(output->lines, "%-7s  %-9s  %s\n", gw_verdict_name(verdict),
                check, text);
        fflush(output->lines); /* a peer takes its time */
    }
    if (!output->json)
        return;
    json_t *object =
        json_pack("{s:s, s:s, s:s}", "verdict", gw_verdict_name(verdict),
                  "check", check, "text", text);
    if (object && json_dumpf(object, output->json, JSON_COMPACT) == 0)
        fputc('\n', output->json);
    json_decref(object);
}

static enum gw_status
open_output(const char *json, struct output *output, struct gw_error *error)
{
    *output = (struct output){.lines = stdout};
    if (!json)
        return GW_OK;
    if (strcmp(json, "-") == 0) {
        *output = (struct output){.json = stdout};
        return GW_OK;
    }
    output->json = fopen(json, "ae");
    if (!output->json)
        return gw_fail(error, GW_EIO, "--json: %s cannot be opened: %s", json,
                       strerror(errno));
    return GW_OK;
}

static enum gw_status close_output(const char *json,
                                   const struct output *output,
                                   struct gw_error *error)
{
    if (!output->json || output->json == stdout)
        return GW_OK;
    int failed = ferror(output->json);
    if (fclose(output->json) != 0 || failed)
        return gw_fail(error, GW_EIO, "--json: cannot write %s: %s", json,
                       strerror(errno));
    return GW_OK;
}

/* ---- doing it ---- */

/* Checks a given job; defaults alone are no job. */
static enum gw_status load(const struct options *options,
                           struct gw_config *config,
                           struct gw_error *error)
{
    enum gw_status status = gw_cli_job_load(&options->job, config, error);
    if (status == GW_OK && options->job.file)
        status = gw_config_check(config, error);
    return status;
}

static void print_sum(const struct gw_doctor *doctor)
{
    unsigned n = doctor->count[GW_VERDICT_FIX];
    unsigned unknown = doctor->count[GW_VERDICT_UNKNOWN];
    printf("%u ok, %u to fix, %u unknown, %u note%s\n",
           doctor->count[GW_VERDICT_OK], n, unknown,
           doctor->count[GW_VERDICT_NOTE],
           gw_plural(doctor->count[GW_VERDICT_NOTE]));
}

static enum gw_status examine(const struct options *options,
                              const struct gw_config *config,
                              unsigned *fixes_p,
                              struct gw_error *error)
{
    struct output output;
    struct gw_doctor *doctor = calloc(1, sizeof *doctor);
    if (!doctor)
        return gw_fail(error, GW_ENOMEM, "no memory to look at this host");
    *doctor = (struct gw_doctor){.root = "",
                                 .config = config,
                                 .job = options->job.file,
                                 .port_mtu = gw_rdma_port_mtu,
                                 .gpu_memory = gw_rdma_gpu_memory,
                                 .found = on_found,
                                 .owner = &output,
                                 .peers = options->peers};
    for (size_t i = 0; i < options->peers; i++)
        doctor->peer[i] = options->peer[i];
    enum gw_status status = gw_doctor_look(doctor, error);
    if (status == GW_OK)
        status = open_output(options->json, &output, error);
    if (status != GW_OK) {
        free(doctor);
        return status;
    }
    if (doctor->job)
        doctor->has_memory = gw_doctor_memory(config, &doctor->memory,
                                              &doctor->no_memory) == GW_OK;
    gw_doctor_run(doctor);
    if (output.lines)
        print_sum(doctor);
    *fixes_p = doctor->count[GW_VERDICT_FIX];
    free(doctor);
    return close_output(options->json, &output, error);
}

static enum gw_exit act(const struct options *options)
{
    struct gw_error error;
    unsigned fixes = 0;
    struct gw_config *config = malloc(sizeof *config);
    if (!config) {
        gw_fail(&error, GW_ENOMEM, "no memory to read the job");
        return gw_cli_fail(&error);
    }
    enum gw_status status = load(options, config, &error);
    if (status == GW_OK)
        status = options->serve
                     ? gw_doctor_serve(config, options->serve, &error)
                     : examine(options, config, &fixes, &error);
    free(config);
    if (status != GW_OK)
        return gw_cli_fail(&error);
    return fixes > 0 ? GW_EXIT_FAILED : GW_EXIT_DONE;
}

/* Adds the default port if the peer has none. */
static enum gw_status take_peer(const struct gw_option *option,
                                const char *text,
                                void *to,
                                struct gw_error *error)
{
    struct options *options = to;
    (void)option;
    if (options->peers == GW_DOCTOR_PEERS_MAX)
        return gw_fail(error, GW_EUSAGE, "--peer: given more than %d times",
                       GW_DOCTOR_PEERS_MAX);
    char *peer = options->peer[options->peers];
    size_t room = sizeof options->peer[0], n = strlen(text);
    int has_port = strchr(text, ':') && text[n - 1] != ']';
    int used = snprintf(peer, room, "%s", text);
    if (!has_port)
        used = snprintf(peer, room, "%s:%d", text, GW_DOCTOR_PORT);
    if (used < 0 || (size_t)used >= room)
        return gw_fail(error, GW_EUSAGE, "--peer: too long");
    options->peers++;
    return gw_text_address("--peer", peer, 0, error);
}

static enum gw_exit run(int argc, char **argv)
{
    struct options order = {0};
    enum gw_exit code;
    int operands =
        gw_options_read(&gw_command_doctor, argc, argv, &order, &code);
    if (operands < 0)
        return code;
    if (operands > 1)
        return gw_cli_usage("doctor: one job at a time, not also %s",
                            argv[optind + 1]);
    if (operands == 1)
        order.job.file = argv[optind];
    if (order.serve && (order.peers || order.json))
        return gw_cli_usage("doctor: --serve is for the other host's --peer, "
                            "which measures and writes: not both at once");
    return act(&order);
}

/* clang-format off */
static const struct gw_option options[] = {
    GW_OPTION_SET(struct options, job,
                  "change a key of the job, or of the defaults"),
    {.name = "peer", .argument = "HOST[:PORT]", .take = take_peer,
     .repeats = 1,
     .help = "measure latency and bandwidth to a host where --serve runs; may "
             "be given several times"},
    {.name = "serve", .argument = "WHERE", .take = gw_option_text,
     .at = offsetof(struct options, serve),
     .help = "let others measure until Ctrl-C. WHERE is an interface or "
             "address of this host, or that and :PORT; the port is 7171 by "
             "default"},
    {.name = "json", .argument = "FILE", .take = gw_option_text,
     .at = offsetof(struct options, json),
     .help = "append an object per line; - for standard output instead of the "
             "lines"},
    {.name = NULL},
};
/* clang-format on */

const struct gw_command gw_command_doctor = {
    .name = "doctor",
    .help = "check what stops jobs on this host, and between two",
    .usage = "[JOB] [--set KEY=VALUE ...] [--json FILE] "
             "[--peer HOST[:PORT] ...]\n"
             "--serve WHERE [--set cluster.insecure=true]",
    .about =
        "Checks what stops jobs on this host, and between two hosts: a line\n"
        "for each, which begins with\n"
        "  ok       it was looked at, and nothing is wrong\n"
        "  note     worth knowing; it stops nothing\n"
        "  unknown  it could not be looked at\n"
        "  fix      it stops something; the line says what to do\n"
        "With a job its own transport, port, interface and memory are checked.",
    .options = options,
    .run = run,
};
