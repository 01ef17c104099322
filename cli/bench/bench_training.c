/*
 * The training path: a coordinator, servers and workers as in a job, except
 * that a worker has a tensor of made-up gradients instead of a model. Its
 * client pushes them, the servers reduce and update, and the next weights come
 * back; checksums, clocks and heartbeats included. A pull is a step for which
 * no worker has a sample: nothing is sent or updated, and the weights still
 * come.
 *
 * At the end of an order every weight is compared with the same updates done
 * here, on one period of the pattern.
 */
#include "config.h"

#include "cli/bench/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/secret.h"
#include "server/coordinator/coordinator.h"
#include "server/server.h"
#include "worker/client/client.h"

/* The job never ends by itself; its processes are killed. */
#define STEPS UINT64_C(1000000000000)

struct job {
    struct gw_config config;
    struct gw_secret secret; /* shared by all forked processes */
    char coordinator[GW_ADDRESS_MAX];
};

/* ---- coordinator and servers ---- */

static uint64_t log_clock(void *clock)
{
    (void)clock;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void write_line(void *context, const char *line, size_t bytes)
{
    const int *fd = context;
    if (write(*fd, line, bytes) < 0)
        return; /* a failing log has nowhere to report it */
}

static struct gw_log open_log(const char *role, const int *fd)
{
    return (struct gw_log){.level = GW_LOG_WARN,
                           .rank = -1,
                           .role = role,
                           .now_us = log_clock,
                           .sink = write_line,
                           .context = (void *)(uintptr_t)fd};
}

static void say_finished(struct gw_bench_child *child,
                         enum gw_status status,
                         const char *why)
{
    struct gw_error error;
    gw_fail(&error, status == GW_OK ? GW_EABORTED : status, "the job ended: %s",
            why);
    gw_bench_say_failed(child, &error);
    _exit(1);
}

static void on_finished(void *owner, const struct gw_final_report *report)
{
    say_finished(owner, report->status, report->text);
}

static void on_running(void *owner)
{
    (void)owner;
}

static void on_step(void *owner, const struct gw_step_report *report)
{
    (void)owner;
    (void)report;
}

static void on_score(void *owner, const struct gw_score_report *report)
{
    (void)owner;
    (void)report;
}

static void on_split(void *owner, const struct gw_split_report *report)
{
    (void)owner;
    (void)report;
}

/* Notes are for people; failures come by on_finished. */
static void on_note(void *owner, const char *text)
{
    (void)owner;
    (void)text;
}

static void coordinator_main(struct gw_bench_child *child)
{
    static const struct gw_coordinator_events events = {
        .running = on_running,
        .step = on_step,
        .score = on_score,
        .split = on_split,
        .note = on_note,
        .warning = on_note,
        .finished = on_finished,
    };
    const struct job *job = child->owner;
    const int fd = STDERR_FILENO;
    struct gw_log log = open_log("coordinator", &fd);
    struct gw_coordinator_options options = {
        .transport = child->what->route->routes.control,
        .machine = 1,
        .listen = "127.0.0.1:0",
        .secret = &job->secret,
        .config = &job->config,
        .log = &log,
        .events = &events,
        .owner = child,
    };
    struct gw_coordinator *coordinator;
    struct gw_error error;
    enum gw_status status = gw_loop_open_uv(&options.loop, &error);
    if (status == GW_OK)
        status = gw_coordinator_open(&options, &coordinator, &error);
    if (status != GW_OK) {
        gw_bench_say_failed(child, &error);
        return;
    }
    gw_bench_say(child, GW_BENCH_READY, gw_coordinator_address(coordinator), 0);
    gw_loop_run(options.loop);
}

static void
on_server_finished(void *owner, enum gw_status status, const char *text)
{
    say_finished(owner, status, text);
}

static void server_main(struct gw_bench_child *child)
{
    const struct job *job = child->owner;
    const int fd = STDERR_FILENO;
    struct gw_log log = open_log("server", &fd);
    struct gw_metrics metrics = {0};
    char address[GW_ADDRESS_MAX] = "";
    struct gw_server_options options = {
        .transport = child->what->route->routes.control,
        .data = child->what->route->routes.data,
        .interface = "",
        .coordinator = job->coordinator,
        .secret = &job->secret,
        .listen = address,
        .advertise = "",
        .host = "bench",
        .machine = 1,
        .process = (uint64_t)getpid(),
        .pid = (uint32_t)getpid(),
        .threads = 1,
        .log = &log,
        .metrics = &metrics,
        .finished = on_server_finished,
        .owner = child,
    };
    struct gw_server *server;
    struct gw_error error;
    enum gw_status status = gw_bench_address(child->what, address, &error);
    if (status == GW_OK)
        status = gw_loop_open_uv(&options.loop, &error);
    if (status == GW_OK)
        status = gw_server_open(&options, &server, &error);
    if (status != GW_OK) {
        gw_bench_say_failed(child, &error);
        return;
    }
    gw_loop_run(options.loop);
}

/* ---- workers ---- */

struct worker {
    struct gw_bench_child *child;
    struct gw_client *client;
    uint32_t rank, ranks;
    float *weights, *gradients;
    struct gw_memory weights_arena, gradients_arena; /* memory of the two */
    uint64_t clock;
    uint64_t updates; /* of the weights, so far */
    /* the expected values, on one period */
    struct gw_bench_pattern *pushed; /* [ranks] */
    struct gw_bench_pattern weight[2], state[GW_STATE_MAX];
    unsigned current;
};

static enum gw_status join(struct worker *worker,
                           struct gw_client_options *options,
                           struct gw_error *error)
{
    const struct gw_bench_case *what = worker->child->what;
    enum gw_status status = gw_loop_open_uv(&options->loop, error);
    if (status == GW_OK)
        status = gw_client_open(options, &worker->client, error);
    if (status != GW_OK)
        return status;
    struct gw_client_declaration declaration = {
        .keys = what->map->key,
        .n_keys = what->map->keys,
        .course = {.batch = worker->ranks, .samples = worker->ranks},
        .total_steps = STEPS,
        .device = "none",
        .workers = worker->ranks,
        .connections = what->options->connections,
    };
    status = gw_client_declare(worker->client, &declaration);
    if (status != GW_OK)
        *error = *gw_client_error(worker->client);
    return status;
}

static float *open_arena(const struct worker *worker,
                         enum gw_memory_kind kind,
                         struct gw_memory *memory)
{
    return gw_bench_window(worker->child->what->map->arena_bytes, 0,
                           kind == GW_MEMORY_SHARED, memory);
}

static enum gw_status attach(struct worker *worker, struct gw_error *error)
{
    const struct gw_bench_case *what = worker->child->what;
    size_t elems = what->bytes / sizeof(float);
    worker->rank = gw_client_rank(worker->client);
    worker->weights = open_arena(worker, gw_client_memory_kind(worker->client),
                                 &worker->weights_arena);
    worker->gradients =
        open_arena(worker, gw_client_gradients_kind(worker->client),
                   &worker->gradients_arena);
    worker->pushed = calloc(worker->ranks, sizeof *worker->pushed);
    if (!worker->weights || !worker->gradients || !worker->pushed)
        return gw_fail(error, GW_ENOMEM, "no memory for %zu bytes",
                       what->bytes);
    for (uint32_t rank = 0; rank < worker->ranks; rank++)
        gw_bench_pattern(10 + rank, &worker->pushed[rank]);
    gw_bench_pattern(1, &worker->weight[0]);
    gw_bench_fill(&worker->weight[0], elems, worker->weights);
    gw_bench_fill(&worker->pushed[worker->rank], elems, worker->gradients);
    const struct gw_client_arenas arenas = {
        .weights = worker->weights_arena,
        .gradients = worker->gradients_arena,
    };
    enum gw_status status = gw_client_attach(worker->client, &arenas, NULL, 1);
    if (status == GW_OK)
        status = gw_client_wait(worker->client, 0, 1, 0);
    if (status != GW_OK)
        *error = *gw_client_error(worker->client);
    return status;
}

static enum gw_status step(struct worker *worker, uint32_t samples)
{
    enum gw_status status = gw_client_push(worker->client, 0, 1, worker->clock,
                                           worker->clock + 1, samples);
    if (status == GW_OK)
        status = gw_client_wait(worker->client, 0, 1, ++worker->clock);
    return status;
}

/* Repeats the servers' updates of an order that pushes. */
static void follow(struct worker *worker, uint32_t steps)
{
    const struct gw_bench_case *what = worker->child->what;
    const struct gw_optimizer *optimizer = what->options->optimizer;
    const float *slots[GW_BENCH_MEMBERS_MAX];
    float *states[GW_STATE_MAX];
    for (uint32_t rank = 0; rank < worker->ranks; rank++)
        slots[rank] = worker->pushed[rank].value;
    for (unsigned s = 0; s < GW_STATE_MAX; s++)
        states[s] = worker->state[s].value;
    for (uint32_t i = 0; i < steps; i++) {
        struct gw_update update = what->update;
        update.scale = 1 / (float)worker->ranks;
        update.t = ++worker->updates;
        gw_update_prepare(&update);
        gw_update_reduce_apply(optimizer, &update, slots, worker->ranks, 0,
                               GW_BENCH_PERIOD,
                               worker->weight[worker->current].value,
                               worker->weight[!worker->current].value, states);
        worker->current = !worker->current;
    }
}

static enum gw_status run_order(struct worker *worker,
                                const struct gw_bench_message *order,
                                uint64_t *wrong_p)
{
    const struct gw_bench_case *what = worker->child->what;
    double *us = gw_bench_times(worker->child);
    int pushed = order->op == GW_BENCH_BOTH;
    for (uint32_t i = 0; i <= what->iterations; i++) {
        double start = gw_bench_now_us();
        enum gw_status status = step(worker, pushed ? 1 : 0);
        if (status != GW_OK)
            return status;
        if (i > 0)
            us[i - 1] = gw_bench_now_us() - start;
    }
    if (pushed)
        follow(worker, what->iterations + 1);
    *wrong_p = gw_bench_wrong(&worker->weight[worker->current],
                              what->bytes / sizeof(float), worker->weights);
    return GW_OK;
}

static void worker_main(struct gw_bench_child *child)
{
    const struct job *job = child->owner;
    const int fd = STDERR_FILENO;
    struct gw_log log = open_log("worker", &fd);
    struct gw_metrics metrics = {0};
    struct gw_client_options options = {
        .transport = child->what->route->routes.control,
        .data = child->what->route->routes.data,
        .interface = "",
        .coordinator = job->coordinator,
        .secret = &job->secret,
        .host = "bench",
        .machine = 1,
        .pid = (uint32_t)getpid(),
        .rank = child->index,
        .log = &log,
        .metrics = &metrics,
    };
    struct worker worker = {.child = child,
                            .ranks = child->what->options->workers};
    struct gw_bench_message order;
    struct gw_error error;
    enum gw_status status = join(&worker, &options, &error);
    if (status == GW_OK)
        status = attach(&worker, &error);
    if (status == GW_OK)
        gw_bench_say(child, GW_BENCH_READY, "", 0);
    while (status == GW_OK && gw_bench_listen(child, &order)) {
        uint64_t wrong;
        status = run_order(&worker, &order, &wrong);
        if (status == GW_OK)
            gw_bench_say(child, GW_BENCH_DONE, "", wrong);
        else
            error = *gw_client_error(worker.client);
    }
    if (status != GW_OK)
        gw_bench_say_failed(child, &error);
}

/* ---- the job ---- */

static enum gw_status make_job(const struct gw_bench_case *what,
                               struct gw_config *config,
                               struct gw_error *error)
{
    const struct gw_bench_options *options = what->options;
    char text[10][64];
    size_t n = 0;
    gw_config_default(config);
    snprintf(text[n++], sizeof *text, "data.train=none");
    snprintf(text[n++], sizeof *text, "model.layers=1,1");
    snprintf(text[n++], sizeof *text, "train.batch=1");
    snprintf(text[n++], sizeof *text, "train.steps=%" PRIu64, STEPS);
    snprintf(text[n++], sizeof *text, "train.eval_every=never");
    snprintf(text[n++], sizeof *text, "cluster.step_deadline=1e6");
    snprintf(text[n++], sizeof *text, "optimizer.kind=%s",
             options->optimizer->name);
    snprintf(text[n++], sizeof *text, "optimizer.lr=%g", what->update.lr);
    snprintf(text[n++], sizeof *text, "cluster.workers=%u", options->workers);
    for (size_t i = 0; i < n; i++)
        if (gw_config_set(config, text[i], error) != GW_OK)
            return gw_fail_in(error, "bench");
    config->cluster.servers = options->servers;
    config->cluster.connections = options->connections;
    return gw_config_check(config, error) == GW_OK ? GW_OK
                                                   : gw_fail_in(error, "bench");
}

static enum gw_status start_workers(struct gw_bench_group *group,
                                    struct gw_bench_child *child,
                                    struct gw_error *error)
{
    struct gw_bench_message message;
    size_t first = group->n;
    uint32_t workers = child->what->options->workers;
    enum gw_status status = GW_OK;
    for (uint32_t w = 0; w < workers && status == GW_OK; w++) {
        child->index = w;
        status = gw_bench_start(group, "worker", child, worker_main, error);
    }
    for (uint32_t w = 0; w < workers && status == GW_OK; w++)
        status = gw_bench_hear(&group->process[first + w], &message, error);
    return status;
}

enum gw_status gw_bench_training_open(const struct gw_bench_case *what,
                                      struct gw_bench_group *group,
                                      struct gw_error *error)
{
    struct job *job = calloc(1, sizeof *job);
    struct gw_bench_child child = {.what = what, .owner = job};
    struct gw_bench_message message;
    if (!job)
        return gw_fail(error, GW_ENOMEM, "no memory for a job");
    enum gw_status status = make_job(what, &job->config, error);
    if (status == GW_OK)
        status = gw_secret_draw(&job->secret, error);
    if (status == GW_OK)
        status = gw_bench_start(group, "coordinator", &child, coordinator_main,
                                error);
    if (status == GW_OK)
        status = gw_bench_hear(&group->process[0], &message, error);
    if (status == GW_OK)
        snprintf(job->coordinator, sizeof job->coordinator, "%.*s",
                 GW_ADDRESS_MAX - 1, message.text);
    for (uint32_t s = 0; s < what->options->servers && status == GW_OK; s++) {
        child.index = s;
        status = gw_bench_start(group, "server", &child, server_main, error);
    }
    if (status == GW_OK)
        status = start_workers(group, &child, error);
    free(job);
    return status;
}
