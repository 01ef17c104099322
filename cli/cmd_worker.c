/* gradweir worker: joins a job and computes gradients until it ends. */
#include "config.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/join.h"
#include "cli/host/pin_member.h"
#include "transport/member/place.h"
#include "cli/signals.h"
#include "proto/login.h"
#include "transport/link/loop.h"
#include "transport/link/transport.h"
#include "worker/trainer/environment.h"
#include "worker/worker.h"

/* To leave after the job's end was told, whatever is being computed. */
#define LEAVE_MS 2000

struct worker {
    struct gw_process process;
    struct gw_cli_join options;
    uint32_t rank; /* GW_RANK_NONE: the coordinator gives one */
    struct gw_config config;
    struct gw_join_options join;
    struct gw_joining joining;
    struct gw_pin_member pin;
    struct gw_need need;
    char address[GW_PCI_ADDRESS_BYTES]; /* of the device, "" if that is not
                                           known */
    pthread_mutex_t mutex;              /* of opened */
    struct gw_rank *opened;
};

/* ---- the watch's thread ---- */

static void on_stop(void *owner, const char *why, int number)
{
    struct worker *worker = owner;
    (void)number;
    gw_log_info(&worker->process.log, "asks the job to stop: %s", why);
    pthread_mutex_lock(&worker->mutex);
    if (worker->opened)
        gw_rank_stop(worker->opened);
    else if (!atomic_load(&worker->process.joined))
        _exit(GW_EXIT_INTERRUPTED);
    pthread_mutex_unlock(&worker->mutex);
}

/* A long computation must not hold up a process whose job is over. */
static void on_tick(void *owner)
{
    struct worker *worker = owner;
    pthread_mutex_lock(&worker->mutex);
    if (worker->opened && gw_rank_is_over(worker->opened))
        gw_watch_limit(worker->process.watch, LEAVE_MS, GW_EXIT_FAILED);
    pthread_mutex_unlock(&worker->mutex);
}

/* ---- the worker's thread ---- */

static void on_opened(void *owner, struct gw_rank *rank)
{
    struct worker *worker = owner;
    pthread_mutex_lock(&worker->mutex);
    worker->opened = rank;
    atomic_store(&worker->process.joined, 1);
    pthread_mutex_unlock(&worker->mutex);
    if (!rank)
        return;
    gw_log_info(&worker->process.log, "has joined %s, and waits for others",
                worker->options.join);
    gw_log_info(&worker->process.log, "transport %s (%s)",
                worker->joining.routes.data[0]->name,
                worker->joining.why[0] ? worker->joining.why
                                       : "the best there is");
}

/* A launcher has said it. */
static void warn_of_environment(const struct worker *worker)
{
    char text[GW_ERROR_TEXT_BYTES];
    if (worker->process.parent_fd < 0 && gw_cli_core_warning(text, sizeof text))
        gw_log_warn(&worker->process.log, "%s", text);
}

/* The environment names a rank where no option does. */
static void take_task(struct worker *worker)
{
    if (worker->rank != GW_RANK_NONE)
        return;
    worker->rank = gw_environment_task(worker->config.cluster.workers);
    if (worker->rank != GW_RANK_NONE)
        gw_log_info(&worker->process.log, "rank %" PRIu32 " is Slurm's",
                    worker->rank);
}

/* A launcher of this program starts as many workers as the job has. */
static enum gw_status compare_world(const struct worker *worker,
                                    struct gw_error *error)
{
    return worker->process.parent_fd >= 0
               ? GW_OK
               : gw_environment_compare(worker->config.cluster.workers,
                                        &worker->process.log, error);
}

static void on_colocated(void *owner, const struct gw_colocated *colocated)
{
    struct worker *worker = owner;
    gw_pin_member_worker(&worker->pin, colocated, worker->address,
                         worker->joining.loop, &worker->process.log);
}

/* Whoever names no interface uses the one that faces the coordinator. */
static enum gw_status look_at_cores(struct worker *worker,
                                    struct gw_error *error)
{
    const struct gw_config *config = &worker->config;
    char host[GW_HOST_ADDRESS_MAX] = "";
    struct gw_error why;
    enum gw_status status = GW_OK;
    const char *named = config->cluster.interface[0]
                            ? config->cluster.interface
                            : config->cluster.control_interface;
    if (config->worker.pin && !named[0] &&
        gw_host_towards(worker->options.join, host, &why) != GW_OK)
        host[0] = '\0'; /* the join will tell */
    if (config->worker.pin)
        status = gw_pin_member_start(&worker->pin, named[0] ? named : host,
                                     "worker.pin", &worker->process.log, error);
    worker->need.threads = (uint32_t)config->worker.threads;
    if (config->worker.pin || config->server.pin)
        gw_pin_member_need(&worker->pin, config,
                           gw_environment_place(worker->rank), &worker->need,
                           worker->address);
    return status;
}

/* All that can fail before the coordinator knows of this worker. */
static enum gw_status prepare(struct worker *worker, struct gw_error *error)
{
    enum gw_status status = gw_cli_join_job(&worker->process, &worker->options,
                                            &worker->config, error);
    if (status == GW_OK)
        status = compare_world(worker, error);
    if (status != GW_OK)
        return status;
    warn_of_environment(worker);
    take_task(worker);
    status = look_at_cores(worker, error);
    worker->join =
        gw_cli_join_options(&worker->options, &worker->process, worker->rank);
    if (status == GW_OK)
        status = gw_joining_open(&worker->join, &worker->config,
                                 &worker->joining, error);
    if (status != GW_OK)
        gw_pin_member_close(&worker->pin);
    return status;
}

static enum gw_status run(void *owner, struct gw_error *error)
{
    struct worker *worker = owner;
    enum gw_status status = prepare(worker, error);
    if (status != GW_OK) {
        gw_cli_join_decline(&worker->process, &worker->options, GW_ROLE_WORKER,
                            worker->rank, error);
        return status;
    }
    struct gw_worker_options options = {
        .client = worker->joining.rank.client,
        .local = &worker->config,
        .place = gw_environment_place(worker->rank),
        .opened = on_opened,
        .colocated = worker->pin.view ? on_colocated : NULL,
        .owner = worker,
    };
    options.client.need = worker->need;
    worker->process.told = 1; /* what fails from here on */
    status = gw_worker_run(&options, error);
    gw_joining_close(&worker->joining);
    gw_pin_member_close(&worker->pin);
    return status;
}

static enum gw_exit work(struct worker *worker)
{
    worker->process.role = "worker";
    worker->process.parent_fd = worker->options.parent_fd;
    worker->process.stop = on_stop;
    worker->process.tick = on_tick;
    worker->process.owner = worker;
    pthread_mutex_init(&worker->mutex, NULL);
    enum gw_exit code = gw_process_run(&worker->process, run);
    pthread_mutex_destroy(&worker->mutex);
    return code;
}

/* ---- the command line ---- */

/* clang-format off */
static const struct gw_option options[] = {
    GW_JOIN_OPTIONS(struct worker, options),
    {.name = "rank", .argument = "N", .take = gw_option_count,
     .at = offsetof(struct worker, rank), .high = GW_RANK_NONE - 1,
     .help = "the rank to ask for; default: RANK, or Slurm's, or one that is "
             "free, beside those of this host"},
    GW_OPTION_DEVICE(struct worker, options.own,
                     "what computes: auto, cpu, cuda or cuda:I"),
    {.name = NULL},
};
/* clang-format on */

static enum gw_exit start(int argc, char **argv, struct worker *worker)
{
    struct gw_error error;
    enum gw_status status = GW_OK;
    enum gw_exit code;
    int operands =
        gw_options_read(&gw_command_worker, argc, argv, worker, &code);
    if (operands < 0)
        return code;
    if (operands > 0)
        return gw_cli_usage("worker: cannot take %s (gradweir worker --help)",
                            argv[optind]);
    if (worker->rank == GW_RANK_NONE)
        status = gw_environment_rank(&worker->rank, &error);
    if (status == GW_OK)
        status = gw_cli_join_complete(&worker->options, &error);
    return status == GW_OK ? work(worker) : gw_cli_fail(&error);
}

static enum gw_exit run_command(int argc, char **argv)
{
    gw_signals_end_process();
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return gw_cli_usage("worker: no memory");
    worker->rank = GW_RANK_NONE;
    worker->options.command = "worker";
    worker->options.role = GW_ROLE_WORKER;
    worker->options.wait_s = GW_JOIN_WAIT_S;
    worker->options.parent_fd = -1;
    enum gw_exit code = start(argc, argv, worker);
    free(worker);
    return code;
}

const struct gw_command gw_command_worker = {
    .name = "worker",
    .help = "join a job and compute gradients for it",
    .usage = "--join HOST:PORT [OPTIONS]",
    .about = "Joins a job and computes gradients until the job ends.",
    .options = options,
    .run = run_command,
};
