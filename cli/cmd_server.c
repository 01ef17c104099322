/* gradweir server: joins a job and keeps a part of its weights, a shard per
   thread. */
#include "config.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/join.h"
#include "cli/host/pin_member.h"
#include "proto/text.h"
#include "transport/member/place.h"
#include "cli/signals.h"
#include "proto/login.h"
#include "server/server.h"
#include "transport/link/limits.h"
#include "transport/link/loop.h"
#include "transport/link/transport.h"

/* For the other threads, when one has ended. */
#define LEAVE_MS 2000

/* Between two servers of one thread, at least: the first may not have begun. */
#define AGAIN_US 100000

/* For a thread that joins again, when another one has ended: if it is a member
   it hears of the end by itself. */
#define HEAR_US 1000000

struct server;

/* One shard: its loop, and what came of it. */
struct shard {
    struct server *server;
    uint32_t number;
    struct gw_loop *loop;
    struct gw_server *shard;
    struct gw_metrics metrics;
    struct gw_log log; /* the process', with this shard's number */
    struct gw_task stop_task, over_task;
    struct gw_timer again;
    int stops;    /* it was asked to */
    int is_again; /* its server is not the first one, and was opened then: */
    uint64_t opened_us;
    struct gw_error end;
    pthread_t thread;
    int started;
};

struct server {
    struct gw_process process;
    struct gw_cli_join options;
    uint64_t port_first, port_last; /* 0: any */
    const char *listen, *advertise; /* hosts, or NULL */
    struct gw_config config;
    struct gw_routes routes;
    struct gw_pin_member pin;
    char hosts[GW_ADDRESSES_MAX]; /* to listen on */
    uint64_t number;              /* equal for all threads */
    struct shard *shard;
    uint32_t shards;
    pthread_mutex_t mutex; /* of open and over */
    int open;              /* shards can be asked to stop */
    struct gw_error over;  /* of the first shard that has ended, */
    int is_over;           /* where one has */
    atomic_int leaves;     /* asked to go, and not to stop the job */
};

/* ---- the watch's thread ---- */

static void on_stop(void *owner, const char *why, int number)
{
    struct server *server = owner;
    int leaves = number == SIGTERM;
    gw_log_info(&server->process.log, "asks %s: %s",
                leaves ? "to leave" : "the job to stop", why);
    pthread_mutex_lock(&server->mutex);
    atomic_store(&server->leaves, leaves);
    if (server->open)
        gw_loop_post(server->shard[0].loop, &server->shard[0].stop_task);
    else if (!atomic_load(&server->process.joined))
        _exit(GW_EXIT_INTERRUPTED);
    pthread_mutex_unlock(&server->mutex);
}

/* ---- a shard's thread ---- */

static void stop_shard(struct gw_task *task)
{
    struct shard *shard = task->owner;
    shard->stops = 1;
    if (!shard->shard)
        return; /* it ends */
    if (atomic_load(&shard->server->leaves))
        gw_server_leave(shard->shard, "a server got a signal");
    else
        gw_server_stop(shard->shard, "a server got a signal");
}

/* Before the shard's arrays are there: they are touched by this thread. */
static void on_colocated(void *owner, const struct gw_colocated *colocated)
{
    struct shard *shard = owner;
    gw_pin_member_shard(&shard->server->pin, colocated, &shard->log);
}

/* The job may end while this thread joins it again: nobody hears that then. 0:
   no other thread has ended. */
static int ends_too(struct shard *shard)
{
    struct server *server = shard->server;
    pthread_mutex_lock(&server->mutex);
    int is_over = server->is_over;
    if (is_over)
        shard->end = server->over;
    pthread_mutex_unlock(&server->mutex);
    if (is_over)
        gw_loop_stop(shard->loop);
    return is_over;
}

static void on_over(struct gw_task *task)
{
    struct shard *shard = task->owner;
    if (shard->is_again)
        gw_timer_start(shard->loop, &shard->again, HEAR_US);
}

static void tell_over(struct shard *shard)
{
    struct server *server = shard->server;
    pthread_mutex_lock(&server->mutex);
    int is_first = !server->is_over;
    server->is_over = 1;
    if (is_first)
        server->over = shard->end;
    pthread_mutex_unlock(&server->mutex);
    for (uint32_t i = 0; is_first && i < server->shards; i++)
        if (&server->shard[i] != shard)
            gw_loop_post(server->shard[i].loop, &server->shard[i].over_task);
}

static void end_shard(struct shard *shard)
{
    tell_over(shard);
    gw_watch_limit(shard->server->process.watch, LEAVE_MS, GW_EXIT_FAILED);
    gw_loop_stop(shard->loop);
}

static void on_finished(void *owner, enum gw_status status, const char *text)
{
    struct shard *shard = owner;
    gw_fail(&shard->end, status, "%s", text);
    uint64_t next_us = shard->opened_us + AGAIN_US;
    uint64_t now = gw_loop_now(shard->loop);
    if (status == GW_EAGAIN)
        gw_timer_start(shard->loop, &shard->again,
                       shard->is_again && next_us > now ? next_us - now : 0);
    else
        end_shard(shard);
}

static void *shard_main(void *argument)
{
    struct shard *shard = argument;
    gw_loop_run(shard->loop);
    return NULL;
}

/* ---- opening ---- */

static enum gw_status open_port(struct shard *shard,
                                const struct gw_routes *routes,
                                uint64_t port,
                                struct gw_error *error)
{
    struct server *server = shard->server;
    char listen[GW_ADDRESSES_MAX];
    enum gw_status status = gw_place_ports(server->hosts, port, listen, error);
    if (status != GW_OK)
        return status;
    const struct gw_server_options options = {
        .loop = shard->loop,
        .transport = routes->control,
        .data = routes->data,
        .interface = server->config.cluster.interface,
        .control_interface = server->config.cluster.control_interface,
        .coordinator = server->options.join,
        .secret = server->options.has_secret ? &server->options.secret : NULL,
        .listen = listen,
        .advertise = server->advertise ? server->advertise : "",
        .host = server->process.host,
        .machine = server->process.machine,
        .process = server->number,
        .pid = server->process.pid,
        .threads = server->shards,
        .thread = shard->number,
        .again = shard->is_again,
        .need = {.network = server->pin.network},
        .join_us = server->options.wait_s * 1000000,
        .silence_us = gw_config_silence_us(
            &server->config, gw_place_is_loopback(server->options.join)),
        .log = &shard->log,
        .metrics = &shard->metrics,
        .colocated = server->pin.view ? on_colocated : NULL,
        .finished = on_finished,
        .owner = shard,
    };
    return gw_server_open(&options, &shard->shard, error);
}

/* The first free port of those that are given. */
static enum gw_status open_any_port(struct shard *shard, struct gw_error *error)
{
    const struct server *server = shard->server;
    uint64_t port = server->port_first;
    enum gw_status status;
    do
        status = open_port(shard, &server->routes, port, error);
    while (status == GW_EADDRINUSE && port++ < server->port_last);
    if (status == GW_EADDRINUSE && server->port_last > server->port_first)
        gw_fail(error, status,
                "no port of %" PRIu64 "-%" PRIu64 " is free on %s (--port)",
                server->port_first, server->port_last, server->hosts);
    return status;
}

/* The shard has another server, and this thread takes part as another one;
   unless the process ends. */
static void open_again(struct gw_timer *timer)
{
    struct shard *shard = timer->owner;
    if (ends_too(shard))
        return;
    gw_log_info(&shard->log, "%s; this thread joins again", shard->end.text);
    gw_server_close(shard->shard);
    shard->shard = NULL;
    shard->is_again = 1;
    shard->opened_us = gw_loop_now(shard->loop);
    if (open_any_port(shard, &shard->end) != GW_OK)
        end_shard(shard);
    else if (shard->stops)
        stop_shard(&shard->stop_task);
}

static enum gw_status open_shard(struct shard *shard, struct gw_error *error)
{
    enum gw_status status = gw_loop_open_uv(&shard->loop, error);
    if (status != GW_OK)
        return status;
    shard->log = shard->server->process.log;
    shard->loop->log = &shard->log;
    shard->stop_task = (struct gw_task){.run = stop_shard, .owner = shard};
    shard->over_task = (struct gw_task){.run = on_over, .owner = shard};
    shard->again = (struct gw_timer){.fire = open_again, .owner = shard};
    return open_any_port(shard, error);
}

static enum gw_status choose_hosts(struct server *server,
                                   struct gw_error *error)
{
    const struct gw_config *config = &server->config;
    enum gw_status status = GW_OK;
    char addresses[GW_ADDRESSES_MAX];
    if (server->listen)
        snprintf(server->hosts, sizeof server->hosts, "%s", server->listen);
    else
        status = gw_place_hosts(config, &server->routes, server->options.join,
                                server->hosts, error);
    if (status == GW_OK)
        status = gw_place_ports(server->hosts, 0, addresses, error);
    if (status != GW_OK)
        return status;
    return gw_process_guard(&server->process, config, addresses, error);
}

static enum gw_status check_ports(const struct server *server,
                                  struct gw_error *error)
{
    uint64_t ports = server->port_last - server->port_first + 1;
    if (server->port_first == 0 || ports >= server->shards)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "--port: %" PRIu64 " port%s too few for the %u threads of "
                   "this server, give a range such as %" PRIu64 "-%" PRIu64,
                   ports, ports == 1 ? " is" : "s are", server->shards,
                   server->port_first, server->port_first + server->shards - 1);
}

/* Threads that work for shards, such as readers of files, are near as well. */
static enum gw_status look_at_cores(struct server *server,
                                    struct gw_error *error)
{
    if (!server->config.server.pin)
        return GW_OK;
    enum gw_status status = gw_pin_member_start(
        &server->pin, server->hosts, "server.pin", &server->process.log, error);
    if (status == GW_OK)
        gw_pin_member_near(&server->pin, &server->process.log);
    return status;
}

static enum gw_status open_shards(struct server *server, struct gw_error *error)
{
    server->shards = (uint32_t)(server->config.server.threads *
                                server->config.cluster.copies);
    server->shard = calloc(server->shards, sizeof *server->shard);
    if (!server->shard ||
        getrandom(&server->number, sizeof server->number, 0) < 0)
        return gw_fail(error, GW_ENOMEM, "no memory for %u shards",
                       server->shards);
    enum gw_status status = check_ports(server, error);
    for (uint32_t i = 0; i < server->shards && status == GW_OK; i++) {
        server->shard[i].server = server;
        server->shard[i].number = i;
        status = open_shard(&server->shard[i], error);
    }
    return status;
}

static void set_open(struct server *server, int open)
{
    pthread_mutex_lock(&server->mutex);
    server->open = open;
    if (open) {
        atomic_store(&server->process.joined, 1);
        server->process.told = 1;
    }
    pthread_mutex_unlock(&server->mutex);
}

/* Runs every shard to its end; the end of the first that failed is told. */
static enum gw_status run_shards(struct server *server, struct gw_error *error)
{
    int failed = 0;
    char why[GW_LIMITS_WHY_BYTES];
    for (uint32_t i = 1; i < server->shards && !failed; i++) {
        struct shard *shard = &server->shard[i];
        failed = pthread_create(&shard->thread, NULL, shard_main, shard);
        shard->started = !failed;
    }
    if (failed)
        gw_server_stop(server->shard[0].shard, "no thread for a shard");
    set_open(server, 1);
    gw_loop_run(server->shard[0].loop);
    for (uint32_t i = 1; i < server->shards; i++)
        if (server->shard[i].started)
            pthread_join(server->shard[i].thread, NULL);
    set_open(server, 0);
    server->process.log.rank = (int)server->shard[0].log.rank;
    *error = server->shard[0].end;
    for (uint32_t i = 1; i < server->shards; i++)
        if (error->status == GW_OK)
            *error = server->shard[i].end;
    return failed
               ? gw_fail(error, GW_ENOMEM, "cannot start %u threads: %s",
                         server->shards, gw_limits_why_no_process(failed, why))
               : error->status;
}

static enum gw_status run(void *owner, struct gw_error *error)
{
    struct server *server = owner;
    char why[256];
    enum gw_status status = gw_cli_join_job(&server->process, &server->options,
                                            &server->config, error);
    if (status == GW_OK)
        status = gw_place_routes(&server->config, &server->routes, why,
                                 sizeof why, error);
    if (status == GW_OK)
        status = choose_hosts(server, error);
    if (status == GW_OK)
        status = look_at_cores(server, error);
    if (status == GW_OK)
        status = open_shards(server, error);
    if (status == GW_OK)
        status = run_shards(server, error);
    else
        gw_cli_join_decline(&server->process, &server->options, GW_ROLE_SERVER,
                            GW_RANK_NONE, error);
    for (uint32_t i = 0; server->shard && i < server->shards; i++) {
        gw_server_close(server->shard[i].shard);
        if (server->shard[i].loop)
            gw_timer_stop(server->shard[i].loop, &server->shard[i].again);
        if (server->shard[i].loop)
            gw_loop_close(server->shard[i].loop);
    }
    free(server->shard);
    gw_pin_member_close(&server->pin);
    return status;
}

static enum gw_exit work(struct server *server)
{
    server->process.role = "server";
    server->process.parent_fd = server->options.parent_fd;
    server->process.stop = on_stop;
    server->process.owner = server;
    pthread_mutex_init(&server->mutex, NULL);
    enum gw_exit code = gw_process_run(&server->process, run);
    pthread_mutex_destroy(&server->mutex);
    return code;
}

/* ---- the command line ---- */

/* "4000" or "4000-4003" */
static enum gw_status take_ports(const struct gw_option *option,
                                 const char *text,
                                 void *to,
                                 struct gw_error *error)
{
    struct server *server = to;
    (void)option;
    char first[16] = "";
    const char *dash = strchr(text, '-');
    size_t bytes = dash ? (size_t)(dash - text) : strlen(text);
    if (bytes < sizeof first)
        memcpy(first, text, bytes);
    enum gw_status status =
        gw_text_number("--port", first, 1, 65535, &server->port_first, error);
    server->port_last = server->port_first;
    if (status == GW_OK && dash)
        status = gw_text_number("--port", dash + 1, server->port_first, 65535,
                                &server->port_last, error);
    return status;
}

/* clang-format off */
static const struct gw_option options[] = {
    GW_JOIN_OPTIONS(struct server, options),
    {.name = "port", .argument = "N|N-M", .take = take_ports,
     .help = "to listen on, one per shard; default: any"},
    {.name = "listen", .argument = "HOST,...", .take = gw_option_text,
     .at = offsetof(struct server, listen),
     .help = "to listen on; default: cluster.interface, or the address that "
             "faces the coordinator"},
    {.name = "advertise", .argument = "HOST", .take = gw_option_text,
     .at = offsetof(struct server, advertise),
     .help = "that workers are told, where it is another"},
    {.name = NULL},
};
/* clang-format on */

static enum gw_exit start(int argc, char **argv, struct server *server)
{
    struct gw_error error;
    enum gw_exit code;
    int operands =
        gw_options_read(&gw_command_server, argc, argv, server, &code);
    if (operands < 0)
        return code;
    if (operands > 0)
        return gw_cli_usage("server: cannot take %s (gradweir server --help)",
                            argv[optind]);
    return gw_cli_join_complete(&server->options, &error) == GW_OK
               ? work(server)
               : gw_cli_fail(&error);
}

static enum gw_exit run_command(int argc, char **argv)
{
    gw_signals_end_process();
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return gw_cli_usage("server: no memory");
    server->options.command = "server";
    server->options.role = GW_ROLE_SERVER;
    server->options.wait_s = GW_JOIN_WAIT_S;
    server->options.parent_fd = -1;
    enum gw_exit code = start(argc, argv, server);
    free(server);
    return code;
}

const struct gw_command gw_command_server = {
    .name = "server",
    .help = "join a job and keep a part of its weights",
    .usage = "--join HOST:PORT [OPTIONS]",
    .about = "Joins a job and keeps a part of its weights until the job ends.",
    .options = options,
    .run = run_command,
};
