/* gradweir run: a whole job on this machine, with copies of a program of the
   user's as its workers. */
#include "config.h"

#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "cli/check.h"
#include "cli/host/pin_member.h"
#include "cli/launch.h"
#include "cli/order.h"
#include "cli/room.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "transport/link/limits.h"
#include "transport/member/place.h"
#include "worker/trainer/environment.h"

#define COLUMN     "%-11s "
#define NAME_BYTES 64 /* of a job without a file */
#define PATH_BYTES 4096

static const char kind[] = "model.kind=external";

struct run {
    struct gw_order order;
    struct gw_config config;
    char *text; /* of the job file */
    int dry_run;
    const char *const *command;
    char name[NAME_BYTES];
    struct gw_launch_program program;
};

/* ---- the job ---- */

static void join_words(const char *const *word, char *text, size_t room)
{
    size_t used = 0;
    for (; *word && used < room; word++)
        used += (size_t)snprintf(text + used, room - used, "%s%s",
                                 used ? " " : "", *word);
    gw_text_clean(text);
}

static int has_model(const struct gw_config *config)
{
    return !gw_config_is_external(config) || config->model.layers.n > 0;
}

/* A job without a file has the name of its program. */
static enum gw_status load(struct run *run, struct gw_error *error)
{
    struct gw_cli_job *job = &run->order.job;
    job->text_p = &run->text;
    job->fallback = kind;
    enum gw_status status = gw_cli_job_load(job, &run->config, error);
    job->fallback = NULL;
    if (status == GW_OK && has_model(&run->config))
        return gw_fail(error, GW_EUSAGE,
                       "%s: model.kind: the job has a model of its own, which "
                       "gradweir train runs; for a program leave the model "
                       "out, or say \"external\"",
                       job->file ? job->file : "--set");
    if (status == GW_OK)
        status = gw_order_check(&run->order, &run->config, error);
    if (status == GW_OK)
        status = gw_cli_job_set(job, kind, error);
    join_words(run->command, run->name, sizeof run->name);
    if (!job->file)
        job->file = run->name;
    return status;
}

/* ---- the program ---- */

static int is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           access(path, X_OK) == 0;
}

/* In the folders of PATH, as execvp(3) looks. */
static int is_in_path(const char *name)
{
    char path[PATH_BYTES];
    const char *dir = gw_environment_get("PATH");
    int found = 0;
    if (!dir)
        dir = "/bin:/usr/bin";
    while (!found && dir) {
        size_t bytes = strcspn(dir, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)bytes, bytes ? dir : ".",
                 name);
        found = is_program(path);
        dir = dir[bytes] ? dir + bytes + 1 : NULL;
    }
    return found;
}

/* Before anything is started. */
static enum gw_status find_program(const char *name, struct gw_error *error)
{
    int has_path = strchr(name, '/') != NULL;
    if (has_path ? is_program(name) : is_in_path(name))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE, "run: cannot start %s: %s", name,
                   has_path && access(name, F_OK) == 0
                       ? "it is no program"
                       : "there is no such program");
}

/* A port for process groups of the program's own, such as torch's. Nothing
   holds it until the program listens there. */
static enum gw_status find_port(uint16_t *port_p, struct gw_error *error)
{
    char why[GW_LIMITS_WHY_BYTES];
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &bytes) == 0) {
        close(fd);
        *port_p = ntohs(at.sin_port);
        return GW_OK;
    }
    gw_fail(error, GW_EIO, "run: no port for MASTER_PORT: %s",
            gw_limits_why_no_file(errno, why));
    if (fd >= 0)
        close(fd);
    return GW_EIO;
}

/* Threads of each worker, which share this host's cores; 0: the environment
   says it, or one worker has all cores. */
static unsigned find_threads(uint64_t workers)
{
    unsigned cores = uv_available_parallelism();
    if (workers == 1 || gw_environment_get("OMP_NUM_THREADS"))
        return 0;
    return cores > workers ? cores / (unsigned)workers : 1;
}

static enum gw_status prepare(struct run *run, struct gw_error *error)
{
    enum gw_status status = load(run, error);
    if (status == GW_OK)
        status = gw_pin_check(&run->config, error);
    if (status == GW_OK)
        status = find_program(run->command[0], error);
    if (status == GW_OK)
        status = gw_room_check_job(&run->config, error);
    if (status == GW_OK)
        status = find_port(&run->program.port, error);
    run->program.command = run->command;
    run->program.threads = find_threads(run->config.cluster.workers);
    return status;
}

/* ---- what it does ---- */

static void print_program(const struct run *run)
{
    uint64_t workers = run->config.cluster.workers;
    uint64_t servers = run->config.cluster.servers;
    printf(COLUMN, "program");
    for (const char *const *word = run->command; *word; word++)
        printf("%s%s", word == run->command ? "" : " ", *word);
    printf("\n" COLUMN "1 coordinator, %" PRIu64 " server%s, %" PRIu64
           " program%s, each below a process that ends with it, and a "
           "launcher\n",
           "processes", servers, gw_plural(servers), workers,
           gw_plural(workers));
}

static enum gw_status dry_run(const struct run *run, struct gw_error *error)
{
    const struct gw_show show = {.out = stdout};
    const struct gw_order *order = &run->order;
    struct gw_begin begin;
    struct gw_routes routes;
    char why[256];
    enum gw_status status =
        gw_check_start(&run->config, order->resume, order->json, &begin, error);
    if (status == GW_OK)
        status = gw_place_routes(&run->config, &routes, why, sizeof why, error);
    if (status == GW_OK) {
        gw_show_job(&show, order->job.file, &run->config, &routes, why, NULL);
        print_program(run);
    }
    gw_begin_free(&begin);
    return status;
}

static void say_threads(const struct run *run)
{
    uint64_t workers = run->config.cluster.workers;
    if (run->program.threads > 0)
        fprintf(stderr,
                "gradweir: OMP_NUM_THREADS=%u for each of %" PRIu64
                " workers, which share %u core%s; set it to have another\n",
                run->program.threads, workers, uv_available_parallelism(),
                gw_plural(uv_available_parallelism()));
}

static enum gw_exit launch(struct run *run)
{
    char text[GW_ERROR_TEXT_BYTES];
    struct gw_error error;
    enum gw_status status = prepare(run, &error);
    if (status == GW_OK)
        say_threads(run);
    if (status == GW_OK && run->dry_run)
        status = dry_run(run, &error);
    if (status != GW_OK)
        return gw_cli_fail(&error);
    if (run->dry_run)
        return GW_EXIT_DONE;
    if (gw_cli_core_warning(text, sizeof text))
        fprintf(stderr, "gradweir: %s\n", text);
    const struct gw_launch_options options = {
        .job = &run->order.job,
        .text = run->text ? run->text : "",
        .resume = run->order.resume,
        .json = run->order.json,
        .servers = (unsigned)run->config.cluster.servers,
        .workers = (unsigned)run->config.cluster.workers,
        .program = &run->program,
        .config = &run->config,
    };
    return gw_launch(&options);
}

/* ---- the command line ---- */

/* The program's arguments begin behind the first "--"; getopt would put JOB
   behind it, too. */
static int find_command(int argc, char **argv)
{
    int at = 1;
    while (at < argc && strcmp(argv[at], "--") != 0)
        at++;
    return at;
}

static enum gw_exit start(int argc, char **argv, struct run *run)
{
    static const char hint[] = "gradweir run [JOB] -- COMMAND";
    enum gw_exit code;
    int own = find_command(argc, argv);
    int operands = gw_options_read(&gw_command_run, own, argv, run, &code);
    if (operands < 0)
        return code;
    if (own == argc)
        return gw_cli_usage("run: the program stands behind \"--\" (%s)", hint);
    if (own + 1 == argc)
        return gw_cli_usage("run: no program stands behind \"--\" (%s)", hint);
    if (operands > 1)
        return gw_cli_usage("run: takes one job file, not also %s (%s)",
                            argv[optind + 1], hint);
    run->order.job.file = operands == 1 ? argv[optind] : NULL;
    run->command = (const char *const *)argv + own + 1;
    return launch(run);
}

static enum gw_exit run_command(int argc, char **argv)
{
    gw_signals_end_process();
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return gw_cli_usage("run: no memory");
    enum gw_exit code = start(argc, argv, run);
    free(run->text);
    free(run);
    return code;
}

/* clang-format off */
static const struct gw_option options[] = {
    GW_OPTION_MEMBERS("workers", struct run, order.job),
    GW_OPTION_MEMBERS("servers", struct run, order.job),
    GW_ORDER_OPTIONS(struct run, order),
    {.name = "dry-run", .take = gw_option_flag,
     .at = offsetof(struct run, dry_run),
     .help = "check the job, the program and where the job would write, print "
             "what would run"},
    {.name = NULL},
};
/* clang-format on */

const struct gw_command gw_command_run = {
    .name = "run",
    .help = "run a job on this machine with a program of yours",
    .usage = "[JOB] [OPTIONS] -- COMMAND [ARGUMENT...]",
    .about =
        "Runs a whole job on this machine: a coordinator, servers, and a\n"
        "copy of COMMAND for each worker, which computes. Without JOB the\n"
        "defaults hold. Ctrl-C ends the job in order, a second one at "
        "once.",
    .options = options,
    .run = run_command,
};
