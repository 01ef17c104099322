/* gradweir doctor: what stops jobs on this host, and between two. */
#include "config.h"

#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor/doctor.h"
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

static void print_usage(void)
{
    puts(
        "Usage: gradweir doctor [JOB] [--set KEY=VALUE ...] [--json FILE]\n"
        "                       [--peer HOST[:PORT] ...]\n"
        "       gradweir doctor --serve WHERE [--set cluster.insecure=true]\n\n"
        "Checks what stops jobs on this host, and between two hosts: a line\n"
        "for each, which begins with\n"
        "  ok       it was looked at, and nothing is wrong\n"
        "  note     worth knowing; it stops nothing\n"
        "  unknown  it could not be looked at\n"
        "  fix      it stops something; the line says what to do\n"
        "With a job its own transport, port, interface and memory are "
        "checked.\n"
        "\n"
        "  --set KEY=VALUE     change a key of the job, or of the defaults\n"
        "  --peer HOST[:PORT]  measure latency and bandwidth to a host where\n"
        "                      --serve runs; may be given several times\n"
        "  --serve WHERE       let others measure until Ctrl-C. WHERE is an\n"
        "                      interface or address of this host, or that and\n"
        "                      :PORT; the port is 7171 by default\n"
        "  --json FILE         append an object per line; - for standard\n"
        "                      output instead of the lines\n"
        "  --help              this text");
}

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

/* A job of one's own is told what is wrong with it; defaults are none. */
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

/* With the port where others serve, if it has none. */
static enum gw_status
add_peer(struct options *options, const char *text, struct gw_error *error)
{
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
    return gw_cli_address("--peer", peer, 0, error);
}

static enum gw_exit run(struct options *options, int argc, char **argv)
{
    if (argc - optind > 1)
        return gw_cli_usage("doctor: one job at a time, not also %s",
                            argv[optind + 1]);
    if (optind < argc)
        options->job.file = argv[optind];
    if (options->serve && (options->peers || options->json))
        return gw_cli_usage("doctor: --serve is for the other host's --peer, "
                            "which measures and writes: not both at once");
    return act(options);
}

enum gw_exit gw_cmd_doctor(int argc, char **argv)
{
    enum {
        SET = 1,
        PEER,
        SERVE,
        JSON,
        HELP
    };
    static const struct option table[] = {
        {"set", required_argument, NULL, SET},
        {"peer", required_argument, NULL, PEER},
        {"serve", required_argument, NULL, SERVE},
        {"json", required_argument, NULL, JSON},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct options options = {0};
    struct gw_error error;
    enum gw_status status = GW_OK;
    int option;
    while ((option = gw_cli_option(argc, argv, table)) != -1) {
        if (option == SET)
            status = gw_cli_job_set(&options.job, optarg, &error);
        else if (option == PEER)
            status = add_peer(&options, optarg, &error);
        else if (option == SERVE)
            options.serve = optarg;
        else if (option == JSON)
            options.json = optarg;
        else if (option != HELP)
            return GW_EXIT_USAGE;
        if (option == HELP) {
            print_usage();
            return GW_EXIT_DONE;
        }
        if (status != GW_OK)
            return gw_cli_fail(&error);
    }
    return run(&options, argc, argv);
}
