/* gradweir coordinator: the process that members of a job join. It shows the
   job to the person who started it or its launcher. */
#include "config.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/parent.h"
#include "cli/local.h"
#include "cli/order.h"
#include "proto/text.h"
#include "transport/member/place.h"
#include "cli/printer.h"
#include "cli/process.h"
#include "cli/record.h"
#include "cli/relay.h"
#include "cli/room.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "server/coordinator/coordinator.h"
#include "transport/link/loop.h"
#include "transport/link/transport.h"
#include "transport/member/secret_fd.h"
#include "worker/trainer/environment.h"

#define REFRESH_US 250000

/* Time for the last members to leave after the job's end. */
#define LEAVE_MS 2000

struct coordinator {
    struct gw_process process;
    struct gw_order order;
    int parent_fd;
    struct gw_secret secret; /* known to members of the job */
    int has_secret;          /* if a launcher starts them */
    const char *listen;
    int rejoin; /* perhaps in the place of a coordinator that has died */
    struct gw_config config;
    struct gw_routes routes;
    char why[256];  /* these routes */
    int is_job_due; /* its first lines are */
    struct gw_relay relay;

    struct gw_loop *loop;
    struct gw_coordinator *coordinator;
    uint64_t opened_us;
    struct gw_metrics metrics;
    struct gw_show show;
    struct gw_record *record;
    int record_lost;
    int is_outlived; /* as the launcher was told */
    struct gw_timer refresh;

    struct gw_score_report score; /* not in a record yet */
    int has_score;
    struct gw_final_report final;
    char final_text[GW_ERROR_TEXT_BYTES];
};

/* ---- the job's first lines ---- */

static void show_job(struct coordinator *command)
{
    char device[GW_SHOW_DEVICE_MAX] = "";
    command->is_job_due = 0;
    /* all workers are on this host, and compute as the job says */
    if (command->process.parent_fd >= 0 &&
        !gw_config_is_external(&command->config))
        gw_show_device(&command->config, device);
    gw_show_job(&command->show, command->order.job.file, &command->config,
                &command->routes, command->why, device);
}

/* Before notes about its begin; the job that goes on has shown it. */
static void show_begin(struct coordinator *command)
{
    if (!command->is_job_due)
        return;
    if (!command->coordinator ||
        !gw_coordinator_is_rejoining(command->coordinator)) {
        show_job(command);
        return;
    }
    command->is_job_due = 0;
    gw_show_line(&command->show,
                 "job %s: this coordinator takes the place of the one before",
                 command->order.job.file);
}

/* ---- events of the coordinator ---- */

/* Time for output and records. */
static uint64_t now_of(struct coordinator *command)
{
    return gw_steady_now(&command->show.clock, gw_loop_now(command->loop));
}

static void tell_parent(struct coordinator *command, uint64_t step)
{
    int fd = command->process.parent_fd;
    if (fd < 0)
        return;
    gw_parent_tell(fd, "step %" PRIu64, step);
    if (gw_coordinator_has_checkpoint(command->coordinator))
        gw_parent_tell(fd, "saved");
    int is_outlived = gw_coordinator_is_outlived(command->coordinator);
    if (is_outlived != command->is_outlived)
        gw_parent_tell(fd, is_outlived ? "outlives" : "ends");
    command->is_outlived = is_outlived;
}

static void on_refresh(struct gw_timer *timer)
{
    struct coordinator *command = timer->owner;
    uint64_t step = gw_coordinator_step(command->coordinator);
    gw_timer_start(command->loop, timer, REFRESH_US);
    gw_relay_seen(&command->relay);
    gw_show_refresh(&command->show, step, now_of(command));
    tell_parent(command, step);
}

static void on_running(void *owner)
{
    struct coordinator *command = owner;
    struct gw_coordinator *coordinator = command->coordinator;
    uint64_t now = now_of(command),
             before = gw_coordinator_before_us(coordinator) + now -
                      command->opened_us;
    if (!gw_coordinator_is_rejoining(coordinator) || before > now)
        before = 0;
    gw_show_running(&command->show, gw_coordinator_first_step(coordinator),
                    now - before);
    tell_parent(command, gw_coordinator_step(coordinator));
}

/* A failed record does not end the job, but the exit status must show it. */
static void record_failed(struct coordinator *command,
                          const struct gw_error *error)
{
    gw_process_warn(&command->process, error->text);
    gw_record_close(command->record);
    command->record = NULL;
    command->record_lost = 1;
}

static void on_step(void *owner, const struct gw_step_report *report)
{
    struct coordinator *command = owner;
    struct gw_show *show = &command->show;
    struct gw_error error;
    uint64_t now = now_of(command);
    gw_show_step(show, report, now);
    tell_parent(command, report->step);
    if (!command->record)
        return;
    const struct gw_record_step step = {
        .report = report,
        .wall_s = (double)(now - show->began_us) / 1e6,
        .samples_per_s = show->samples_per_s,
        .has_accuracy =
            command->has_score && command->score.step <= report->step,
        .accuracy = command->score.accuracy,
    };
    if (step.has_accuracy)
        command->has_score = 0;
    if (gw_record_step(command->record, &step, &error) != GW_OK)
        record_failed(command, &error);
}

static void on_score(void *owner, const struct gw_score_report *report)
{
    struct coordinator *command = owner;
    command->score = *report;
    command->has_score = 1;
    gw_show_line(&command->show,
                 "step %" PRIu64 ": test accuracy %.4f, loss %.4f%s",
                 report->step, report->accuracy, report->loss,
                 report->best ? ", the best so far" : "");
}

static void on_split(void *owner, const struct gw_split_report *report)
{
    struct coordinator *command = owner;
    struct gw_error error;
    if (command->record &&
        gw_record_split(command->record, report, &error) != GW_OK)
        record_failed(command, &error);
}

static int on_vacant(void *owner, uint32_t rank)
{
    struct coordinator *command = owner;
    if (command->process.parent_fd < 0)
        return 0;
    gw_parent_tell(command->process.parent_fd, "again %" PRIu32, rank);
    return 1;
}

static void on_server_vacant(void *owner, uint32_t pid, int leaves)
{
    struct coordinator *command = owner;
    if (command->process.parent_fd >= 0)
        gw_parent_tell(command->process.parent_fd, "%s %" PRIu32,
                       leaves ? "leaves" : "restart", pid);
}

static void on_note(void *owner, const char *text)
{
    struct coordinator *command = owner;
    show_begin(command);
    gw_show_line(&command->show, "%s", text);
    if (command->process.has_file)
        gw_log_info(&command->process.log, "%s", text);
}

static void on_warning(void *owner, const char *text)
{
    struct coordinator *command = owner;
    gw_process_warn(&command->process, text);
}

static void on_finished(void *owner, const struct gw_final_report *report)
{
    struct coordinator *command = owner;
    command->final = *report;
    snprintf(command->final_text, sizeof command->final_text, "%s",
             report->text);
    command->final.text = command->final_text;
    command->show.ended_us = now_of(command);
    tell_parent(command, report->step);
    if (command->process.parent_fd >= 0 && gw_status_is_death(report->status))
        gw_parent_tell(command->process.parent_fd, "lost");
    gw_loop_stop(command->loop);
}

static const struct gw_coordinator_events events = {
    .running = on_running,
    .step = on_step,
    .score = on_score,
    .split = on_split,
    .vacant = on_vacant,
    .server_vacant = on_server_vacant,
    .note = on_note,
    .warning = on_warning,
    .finished = on_finished,
};

/* ---- its life ---- */

static uint64_t rss_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

static enum gw_status choose_address(struct coordinator *command,
                                     char address[GW_ADDRESS_MAX],
                                     struct gw_error *error)
{
    const struct gw_config *config = &command->config;
    const char *port = gw_environment_get("MASTER_PORT");
    uint64_t number = config->cluster.port;
    enum gw_status status = gw_place_own(config, error);
    if (status != GW_OK)
        return gw_fail_in(error, "%s",
                          gw_order_origin(&command->order, error->text));
    if (command->listen) {
        snprintf(address, GW_ADDRESS_MAX, "%s", command->listen);
        return gw_process_guard(&command->process, config, address, error);
    }
    if (number == 0 && port && command->parent_fd < 0)
        status = gw_text_number("MASTER_PORT", port, 1, 65535, &number, error);
    if (status == GW_OK)
        status = gw_place_address(config, number, address, error);
    if (status == GW_OK)
        status = gw_process_guard(&command->process, config, address, error);
    return status;
}

/* Chooses the socket for gradweir ctl; the job goes on without one. Under a
   launcher users know the launcher's pid. */
static void choose_local(struct coordinator *command)
{
    char text[GW_ERROR_TEXT_BYTES];
    struct gw_error error;
    pid_t pid = command->parent_fd >= 0 ? getppid() : getpid();
    if (gw_local_place((uint32_t)pid, command->relay.local, &error) == GW_OK)
        return;
    command->relay.local[0] = '\0';
    snprintf(text, sizeof text, "gradweir ctl cannot reach this job: %.400s",
             error.text);
    gw_process_warn(&command->process, text);
}

static enum gw_status run_loop(struct coordinator *command)
{
    const char *address = gw_coordinator_address(command->coordinator);
    gw_relay_open(&command->relay, command->loop, command->coordinator);
    if (command->process.parent_fd >= 0)
        gw_parent_tell(command->process.parent_fd, "at %s", address);
    else
        gw_show_line(&command->show,
                     "members join at %s: gradweir server|worker --join %s",
                     address, address);
    gw_log_info(&command->process.log, "listens on %s", address);
    command->refresh.fire = on_refresh;
    command->refresh.owner = command;
    gw_timer_start(command->loop, &command->refresh, REFRESH_US);
    gw_loop_run(command->loop);
    gw_relay_close(&command->relay);
    gw_timer_stop(command->loop, &command->refresh);
    return command->final.status;
}

/* The coordinator before may have died in the middle of an object. */
static void go_on_recording(struct coordinator *command)
{
    struct gw_error error;
    if (command->record && gw_record_mend(command->record, &error) != GW_OK)
        record_failed(command, &error);
}

/* A launcher has it join a job that it has seen running, and no other one. */
static enum gw_rejoin_kind rejoin_kind(const struct coordinator *command)
{
    if (!command->rejoin)
        return GW_REJOIN_NEVER;
    return command->parent_fd < 0 ? GW_REJOIN_IF_ANY : GW_REJOIN_ONLY;
}

static enum gw_status run(struct coordinator *command, struct gw_error *error)
{
    char address[GW_ADDRESS_MAX];
    const struct gw_config *config = &command->config;
    enum gw_status status = gw_room_check(config, GW_ROLE_COORDINATOR, error);
    if (status == GW_OK)
        status = gw_place_routes(config, &command->routes, command->why,
                                 sizeof command->why, error);
    if (status == GW_OK)
        status = choose_address(command, address, error);
    if (status != GW_OK)
        return status;
    command->is_job_due = 1;
    if (!command->rejoin)
        show_begin(command);
    status = gw_loop_open_uv(&command->loop, error);
    if (status != GW_OK)
        return status;
    command->loop->log = &command->process.log;
    choose_local(command);
    const struct gw_coordinator_options options = {
        .loop = command->loop,
        .transport = command->routes.control,
        .listen = address,
        .local = command->relay.local,
        .secret = command->has_secret ? &command->secret : NULL,
        .machine = command->process.machine,
        .unix_us = gw_process_unix_us(),
        .terminal = command->show.terminal >= 0,
        .silence_us =
            gw_config_silence_us(config, gw_place_is_loopback(address)),
        .config = config,
        .resume = command->order.resume ? config->checkpoint.dir : NULL,
        .rejoin = rejoin_kind(command),
        .log = &command->process.log,
        .metrics = &command->metrics,
        .events = &events,
        .owner = command,
    };
    command->opened_us = now_of(command);
    status = gw_coordinator_open(&options, &command->coordinator, error);
    if (status == GW_OK) {
        show_begin(command);
        if (gw_coordinator_is_rejoining(command->coordinator))
            go_on_recording(command);
        atomic_store(&command->relay.has_local,
                     gw_coordinator_local(command->coordinator)[0] != '\0');
        status = run_loop(command);
        gw_fail(error, status, "%s", command->final.text);
        gw_watch_limit(command->process.watch, LEAVE_MS, GW_EXIT_FAILED);
        gw_coordinator_close(command->coordinator);
        atomic_store(&command->relay.has_local, 0);
    }
    gw_loop_close(command->loop);
    /* the reader of the rest may be slow */
    gw_watch_relax(command->process.watch);
    return status;
}

/* The end of the job, on the terminal and in the record. */
static void tell_final(struct coordinator *command)
{
    struct gw_error error;
    uint64_t rss = rss_bytes();
    const struct gw_final_report *report = &command->final;
    const struct gw_record_final final = {
        .report = report,
        .wall_s = gw_show_wall_s(&command->show),
        .samples_per_s = gw_show_mean_samples_per_s(&command->show, report),
        .rss_coordinator = rss,
    };
    if (!command->coordinator)
        return;
    gw_show_final(&command->show, report, &command->config, rss);
    int whole = report->status == GW_OK || report->status == GW_EINTERRUPTED;
    if (command->record && whole &&
        gw_record_final(command->record, &final, &error) != GW_OK)
        record_failed(command, &error);
}

static enum gw_exit coordinate(struct coordinator *command)
{
    struct gw_error error = {.status = GW_OK, .text = ""};
    command->process.role = "coordinator";
    command->process.parent_fd = command->parent_fd;
    gw_relay_init(&command->relay, &command->process);
    command->relay.has_job = command->rejoin;
    /* objects take standard output, so lines go elsewhere */
    FILE *to = command->order.json && strcmp(command->order.json, "-") == 0
                   ? stderr
                   : stdout;
    struct gw_printer *printer = NULL;
    error.status = gw_process_open(&command->process, &error);
    if (error.status == GW_OK)
        error.status = gw_printer_open(to, &printer, &error);
    if (error.status == GW_OK)
        gw_show_open(&command->show, printer, fileno(to));
    command->show.by_hand = command->parent_fd < 0;
    if (error.status == GW_OK)
        error.status =
            gw_process_logs(&command->process, &command->config, &error);
    if (error.status == GW_OK && command->order.json)
        error.status =
            gw_record_open(command->order.json, &command->record, &error);
    if (error.status == GW_OK)
        error.status = run(command, &error);
    if (printer)
        gw_printer_wait(printer);
    tell_final(command);
    if (command->record_lost && error.status == GW_OK)
        gw_fail(&error, GW_EIO,
                "the job is done, but not all of it is in --json %s",
                command->order.json);
    gw_printer_close(printer);
    enum gw_exit code = gw_process_end(&command->process, &error);
    gw_process_close(&command->process);
    gw_relay_free(&command->relay);
    gw_record_close(command->record);
    return code;
}

/* ---- the command line ---- */

/* Loads defaults, WORLD_SIZE, job file, --set; later ones win. */
static enum gw_status load(struct coordinator *command, struct gw_error *error)
{
    struct gw_config *config = &command->config;
    const char *world = gw_environment_get("WORLD_SIZE");
    char workers[64];
    uint64_t number;
    if (world && command->parent_fd < 0) {
        if (gw_text_number("WORLD_SIZE", world, 1, 4096, &number, error))
            return error->status;
        snprintf(workers, sizeof workers, "cluster.workers=%" PRIu64, number);
        command->order.job.fallback = workers;
    }
    command->order.job.quiet =
        command->parent_fd >= 0; /* the launcher has told */
    enum gw_status status = gw_order_load(&command->order, config, error);
    command->order.job.fallback = NULL;
    return status;
}

static enum gw_status take_address(const struct gw_option *option,
                                   const char *value,
                                   void *to,
                                   struct gw_error *error)
{
    (void)option;
    *(const char **)to = value;
    return gw_text_address("--listen", value, 1, error);
}

static enum gw_status take_secret(const struct gw_option *option,
                                  const char *value,
                                  void *to,
                                  struct gw_error *error)
{
    struct coordinator *command = to;
    int fd;
    enum gw_status status = gw_option_fd(option, value, &fd, error);
    if (status == GW_OK && gw_secret_take(fd, &command->secret, error) != GW_OK)
        status = gw_fail_in(error, "--secret");
    command->has_secret = status == GW_OK;
    return status;
}

/* clang-format off */
static const struct gw_option options[] = {
    GW_ORDER_OPTIONS(struct coordinator, order),
    {.name = "listen", .argument = "HOST:PORT", .take = take_address,
     .at = offsetof(struct coordinator, listen),
     .help = "where members join; default: cluster.interface (else loopback) "
             "and cluster.port"},
    {.name = "rejoin", .take = gw_option_flag,
     .at = offsetof(struct coordinator, rejoin),
     .help = "take the place of a coordinator that has died, where its job "
             "still runs; else begin the job as without it"},
    {.name = "parent-fd", .argument = "FD", .take = gw_option_fd,
     .at = offsetof(struct coordinator, parent_fd)},
    {.name = "secret", .argument = "FD", .take = take_secret},
    {.name = "lent", .take = gw_option_flag,
     .at = offsetof(struct coordinator, order.job.lent)},
    {.name = NULL},
};
/* clang-format on */

static enum gw_exit start(int argc, char **argv, struct coordinator *command)
{
    struct gw_error error;
    enum gw_exit code;
    int operands =
        gw_options_read(&gw_command_coordinator, argc, argv, command, &code);
    if (operands < 0)
        return code;
    if (operands != 1)
        return gw_cli_usage("coordinator: takes one job file (gradweir "
                            "coordinator --help)");
    command->order.job.file = argv[optind];
    return load(command, &error) == GW_OK ? coordinate(command)
                                          : gw_cli_fail(&error);
}

static enum gw_exit run_command(int argc, char **argv)
{
    gw_signals_end_process();
    struct coordinator *command = calloc(1, sizeof *command);
    if (!command)
        return gw_cli_usage("coordinator: no memory");
    command->parent_fd = -1;
    enum gw_exit code = start(argc, argv, command);
    free(command);
    return code;
}

const struct gw_command gw_command_coordinator = {
    .name = "coordinator",
    .help = "run the coordinator of a job",
    .usage = "JOB [OPTIONS]",
    .about = "Runs the process that the members of a job join, and prints "
             "where.",
    .options = options,
    .run = run_command,
};
