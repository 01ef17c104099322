#include "config.h"

#include "cli/lab/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/device.h"

static uint64_t log_clock(void *clock)
{
    return gw_sim_now(clock);
}

static enum gw_status new_process(struct gw_world *world,
                                  const struct gw_world_options *options,
                                  uint8_t role,
                                  size_t rank,
                                  struct gw_loop **loop_p,
                                  struct gw_error *error)
{
    char host[64];
    options->host(options->owner, role, rank, host, sizeof host);
    return gw_sim_process(world->sim, host, loop_p, error);
}

static enum gw_status open_coordinator(struct gw_world *world,
                                       const struct gw_world_options *options,
                                       int rejoin,
                                       struct gw_error *error)
{
    enum gw_status status = new_process(world, options, GW_ROLE_COORDINATOR, 0,
                                        &world->loop, error);
    if (status != GW_OK)
        return status;
    const struct gw_coordinator_options coordinator = {
        .loop = world->loop,
        .transport = gw_transport_find("sim", error),
        .listen = "any:0",
        .machine = GW_WORLD_MACHINE + 1,
        .silence_us = gw_config_silence_us(options->config, 0),
        .config = options->config,
        .resume = rejoin ? NULL : options->resume,
        .rejoin = rejoin ? GW_REJOIN_IF_ANY : GW_REJOIN_NEVER,
        .secret = options->secret,
        .log = &world->log,
        .events = options->events,
        .owner = options->owner,
    };
    status = gw_coordinator_open(&coordinator, &world->coordinator, error);
    if (status == GW_OK) {
        snprintf(world->address, sizeof world->address, "%s",
                 gw_coordinator_address(world->coordinator));
        return GW_OK;
    }
    gw_loop_close(world->loop);
    world->loop = NULL;
    return status;
}

/* Between two servers of one thread, at least: the first may not have begun. */
#define AGAIN_US 100000

/* A thread of a server process. */
struct gw_world_thread {
    struct gw_world *world;
    size_t server;
    uint32_t number;
    int is_again; /* its server is not the first one, or will be another */
    uint64_t opened_us;
    struct gw_timer again;
};

static struct gw_server **server_of(const struct gw_world_thread *thread)
{
    struct gw_world_server *server = &thread->world->server[thread->server];
    return thread->number == 0   ? &server->server
           : thread->number == 1 ? &server->standby
                                 : &server->more[thread->number - 2];
}

/* The first one speaks for all; one that joins again ends with any other. */
static void
thread_finished(void *owner, enum gw_status status, const char *text)
{
    struct gw_world_thread *thread = owner;
    struct gw_world_server *server = &thread->world->server[thread->server];
    uint64_t next_us = thread->opened_us + AGAIN_US;
    uint64_t now = gw_loop_now(server->loop);
    if (status == GW_EAGAIN) {
        gw_timer_start(server->loop, &thread->again,
                       thread->is_again && next_us > now ? next_us - now : 0);
        thread->is_again = 1;
        return;
    }
    if (!server->is_over || thread->number == 0) {
        server->status = status;
        snprintf(server->text, sizeof server->text, "%s", text);
    }
    server->is_over = 1;
    if (thread->number == 0 || server->thread->is_again)
        server->finished = 1;
}

static uint32_t threads_of(const struct gw_world_server *server)
{
    const struct gw_world_options *options = &server->thread->world->options;
    uint32_t shards = options->shards > 0 ? options->shards : 1;
    return shards * (uint32_t)options->config->cluster.copies;
}

static void close_server(struct gw_world_server *server)
{
    if (!server->loop)
        return;
    gw_server_close(server->server);
    gw_server_close(server->standby);
    for (size_t i = 0; i < GW_WORLD_MORE; i++)
        gw_server_close(server->more[i]);
    for (uint32_t i = 0; server->thread && i < threads_of(server); i++)
        gw_timer_stop(server->loop, &server->thread[i].again);
    gw_loop_close(server->loop);
    free(server->thread);
    *server = (struct gw_world_server){.finished = server->finished};
}

static enum gw_status open_thread(struct gw_world_thread *thread,
                                  struct gw_error *error)
{
    struct gw_world *world = thread->world;
    const struct gw_world_options *options = &world->options;
    struct gw_world_server *server = &world->server[thread->server];
    size_t port =
        options->fixed_ports
            ? 7118 + (2 + GW_WORLD_MORE) * thread->server + thread->number
            : 0;
    char listen[16];
    snprintf(listen, sizeof listen, "any:%u", (unsigned)port);
    const struct gw_server_options is = {
        .loop = server->loop,
        .transport = gw_transport_find("sim", error),
        .interface = "",
        .coordinator = world->address,
        .secret = options->secret,
        .listen = listen,
        .host = "s",
        .machine = GW_WORLD_MACHINE + thread->server,
        .process = server->process,
        .pid = (uint32_t)(GW_WORLD_PID + thread->server),
        .threads = threads_of(server),
        .thread = thread->number,
        .again = thread->is_again,
        .log = &world->log,
        .metrics = &server->metrics,
        .finished = thread_finished,
        .owner = thread,
    };
    return gw_server_open(&is, server_of(thread), error);
}

static void open_again(struct gw_timer *timer)
{
    struct gw_world_thread *thread = timer->owner;
    struct gw_error error;
    struct gw_world_server *server = &thread->world->server[thread->server];
    if (server->is_over) {
        server->finished |= thread->number == 0;
        return;
    }
    gw_server_close(*server_of(thread));
    *server_of(thread) = NULL;
    thread->opened_us = gw_loop_now(server->loop);
    if (open_thread(thread, &error) != GW_OK)
        thread_finished(thread, error.status, error.text);
}

static enum gw_status
open_threads(struct gw_world *world, size_t i, struct gw_error *error)
{
    struct gw_world_server *server = &world->server[i];
    enum gw_status status = GW_OK;
    server->process = 200 + i + 1000 * world->servers_replaced;
    server->thread = calloc(2 + GW_WORLD_MORE, sizeof *server->thread);
    if (!server->thread)
        return gw_fail(error, GW_ENOMEM, "no memory for a server");
    server->thread[0].world = world;
    for (uint32_t t = 0; status == GW_OK && t < threads_of(server); t++) {
        struct gw_world_thread *thread = &server->thread[t];
        *thread = (struct gw_world_thread){.world = world,
                                           .server = i,
                                           .number = t,
                                           .again = {.fire = open_again}};
        thread->again.owner = thread;
        status = open_thread(thread, error);
    }
    return status;
}

static enum gw_status
open_server(struct gw_world *world, size_t i, struct gw_error *error)
{
    struct gw_world_server *server = &world->server[i];
    enum gw_status status = new_process(world, &world->options, GW_ROLE_SERVER,
                                        i, &server->loop, error);
    if (status == GW_OK && open_threads(world, i, error) != GW_OK) {
        status = error->status;
        close_server(server);
    }
    return status;
}

static void worker_main(void *argument)
{
    struct gw_world_worker *worker = argument;
    worker->status = worker->work(&worker->options, &worker->error);
}

static void worker_finished(void *argument)
{
    struct gw_world_worker *worker = argument;
    worker->finished = 1;
    worker->ended_us = gw_loop_now(worker->loop);
}

static enum gw_status open_worker(struct gw_world *world,
                                  const struct gw_world_options *options,
                                  size_t i,
                                  struct gw_error *error)
{
    struct gw_world_worker *worker = &world->worker[i];
    enum gw_status status =
        new_process(world, options, GW_ROLE_WORKER, i, &worker->loop, error);
    if (status != GW_OK)
        return status;
    worker->work = options->work ? options->work : gw_worker_run;
    worker->options = (struct gw_worker_options){
        .client = {.loop = worker->loop,
                   .transport = gw_transport_find("sim", error),
                   .host_group = gw_transport_find("sim", error),
                   .interface = "",
                   .coordinator = world->address,
                   .secret = options->secret,
                   .host = "w",
                   .machine = GW_WORLD_PID + 100 + i,
                   .pid = (uint32_t)(GW_WORLD_PID + 200 + i),
                   .rank = (uint32_t)i,
                   .log = &world->log,
                   .metrics = &worker->metrics},
        .local = &world->local,
        .train = options->train,
        .test = options->test,
        .owner = options->owner,
    };
    status =
        gw_sim_spawn(worker->loop, worker_main, worker_finished, worker, error);
    if (status != GW_OK)
        gw_loop_close(worker->loop);
    return status;
}

static enum gw_status open_members(struct gw_world *world,
                                   const struct gw_world_options *options,
                                   struct gw_error *error)
{
    enum gw_status status = GW_OK;
    size_t servers = options->config->cluster.servers;
    size_t workers = options->config->cluster.workers;
    world->server = calloc(servers, sizeof *world->server);
    world->worker = calloc(workers, sizeof *world->worker);
    if (!world->server || !world->worker)
        return gw_fail(error, GW_ENOMEM,
                       "no memory for %zu workers and %zu servers", workers,
                       servers);
    while (status == GW_OK && world->servers < servers) {
        status = open_server(world, world->servers, error);
        world->servers += status == GW_OK;
    }
    while (status == GW_OK && world->workers < workers) {
        status = open_worker(world, options, world->workers, error);
        world->workers += status == GW_OK;
    }
    return status;
}

/* Workers compute on the cpu: studies fork this process, which no device
   survives, and time is virtual anyway. */
static void set_local(struct gw_world *world, const struct gw_config *config)
{
    char *device = world->local.worker.device;
    world->local = *config;
    if (strcmp(device, gw_device_kind_name(GW_DEVICE_AUTO)) == 0)
        strcpy(device, gw_device_kind_name(GW_DEVICE_CPU));
}

enum gw_status gw_world_open(const struct gw_world_options *options,
                             struct gw_world *world,
                             struct gw_error *error)
{
    *world = (struct gw_world){.sim = options->sim, .options = *options};
    world->log.level = options->level;
    world->log.rank = -1;
    world->log.role = "world";
    world->log.now_us = log_clock;
    world->log.clock = world->sim;
    world->log.sink = options->sink;
    world->log.context = options->owner;
    set_local(world, options->config);
    enum gw_status status = open_coordinator(world, options, 0, error);
    if (status == GW_OK)
        status = open_members(world, options, error);
    if (status != GW_OK)
        gw_world_close(world);
    return status;
}

int gw_world_is_over(const struct gw_world *world)
{
    for (size_t i = 0; i < world->workers; i++)
        if (!world->worker[i].finished)
            return 0;
    for (size_t i = 0; i < world->servers; i++)
        if (!world->server[i].finished)
            return 0;
    return 1;
}

void gw_world_end_worker(struct gw_world *world, size_t i)
{
    struct gw_world_worker *worker = &world->worker[i];
    if (worker->finished)
        return;
    gw_sim_kill(worker->loop);
    gw_sim_unwind(worker->loop);
    worker->finished = 1;
}

/* It leaves everything as it is until the world is closed: closing it is what a
   killed process does not come to. */
struct gw_world_dead {
    struct gw_loop *loop;
    struct gw_coordinator *coordinator; /* or */
    struct gw_world_server server;
    struct gw_world_dead *next;
};

static enum gw_status bury(struct gw_world *world,
                           const struct gw_world_dead *one,
                           struct gw_error *error)
{
    struct gw_world_dead *dead = malloc(sizeof *dead);
    if (!dead)
        return gw_fail(error, GW_ENOMEM, "no memory for a dead process");
    gw_sim_kill(one->loop);
    *dead = *one;
    dead->next = world->dead;
    world->dead = dead;
    return GW_OK;
}

/* Closing it is what a killed process does not come to: that is for the end. */
void gw_world_end_server(struct gw_world *world, size_t i)
{
    struct gw_world_server *server = &world->server[i];
    if (server->finished)
        return;
    gw_sim_kill(server->loop);
    server->finished = server->killed = 1;
    server->status = GW_EDEAD;
}

enum gw_status gw_world_replace_server(struct gw_world *world,
                                       size_t i,
                                       struct gw_error *error)
{
    struct gw_world_server *server = &world->server[i];
    const struct gw_world_dead one = {.loop = server->loop, .server = *server};
    enum gw_status status = bury(world, &one, error);
    if (status != GW_OK)
        return status;
    *server = (struct gw_world_server){.metrics = server->metrics};
    world->servers_replaced++;
    return open_server(world, i, error);
}

static void close_worker(struct gw_world *world, size_t i)
{
    gw_world_end_worker(world, i);
    gw_loop_close(world->worker[i].loop);
}

enum gw_status gw_world_replace_worker(struct gw_world *world,
                                       size_t i,
                                       struct gw_error *error)
{
    close_worker(world, i);
    world->worker[i] = (struct gw_world_worker){.finished = 0};
    return open_worker(world, &world->options, i, error);
}

enum gw_status gw_world_end_coordinator(struct gw_world *world,
                                        struct gw_error *error)
{
    if (!world->loop)
        return GW_OK;
    const struct gw_world_dead one = {.loop = world->loop,
                                      .coordinator = world->coordinator};
    enum gw_status status = bury(world, &one, error);
    if (status != GW_OK)
        return status;
    world->loop = NULL;
    world->coordinator = NULL;
    return GW_OK;
}

enum gw_status gw_world_replace_coordinator(struct gw_world *world,
                                            struct gw_error *error)
{
    enum gw_status status = gw_world_end_coordinator(world, error);
    return status == GW_OK ? open_coordinator(world, &world->options, 1, error)
                           : status;
}

static void close_dead(struct gw_world *world)
{
    for (struct gw_world_dead *next, *one = world->dead; one; one = next) {
        next = one->next;
        gw_coordinator_close(one->coordinator);
        if (one->coordinator)
            gw_loop_close(one->loop);
        else
            close_server(&one->server);
        free(one);
    }
    world->dead = NULL;
}

void gw_world_close(struct gw_world *world)
{
    if (!world->worker)
        return;
    for (size_t i = 0; i < world->workers; i++)
        close_worker(world, i);
    for (size_t i = 0; i < world->servers; i++)
        close_server(&world->server[i]);
    free(world->worker);
    free(world->server);
    gw_coordinator_close(world->coordinator);
    if (world->loop)
        gw_loop_close(world->loop);
    close_dead(world);
    *world = (struct gw_world){.sim = world->sim};
}
