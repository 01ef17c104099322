#include "config.h"

#include "cli/lab/simulate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/record.h"
#include "cli/lab/program.h"
#include "cli/lab/world.h"

struct simulation;

#define COMPUTE_US_MAX 1e15

struct span {
    uint64_t begin_us, end_us;
};

/* A worker's computing times. Used by its own thread only. */
struct pace {
    struct simulation *simulation;
    uint32_t rank;
    uint64_t computations;
    struct span *span; /* times of computing */
    size_t spans, room;
    int is_new;  /* the next span belongs to another computation */
    int is_lost; /* a span is missing for lack of memory */
};

struct simulation {
    const struct gw_simulate_options *options;
    struct gw_sim *sim;
    struct gw_world world;
    struct gw_record *record;
    FILE *spans;
    struct pace *pace;     /* [workers] */
    uint32_t *server_host; /* [servers], as placement.h numbers them */
    uint64_t began_us;     /* when the first step could begin */
    struct gw_score_report score;
    int has_score, finished;
    struct gw_final_report final;
    char text[GW_ERROR_TEXT_BYTES];
    struct gw_error error; /* a file's */
};

/* ---- the coordinator's events ---- */

/* To the coordinator. */
static uint64_t now_us(const struct simulation *simulation)
{
    return gw_loop_now(simulation->world.loop);
}

static double wall_s(const struct simulation *simulation)
{
    return (double)(now_us(simulation) - simulation->began_us) / 1e6;
}

static double rate(uint64_t samples, double seconds)
{
    return seconds > 0 ? (double)samples / seconds : 0;
}

static void on_running(void *owner)
{
    struct simulation *simulation = owner;
    simulation->began_us = now_us(simulation);
}

static void on_step(void *owner, const struct gw_step_report *report)
{
    struct simulation *simulation = owner;
    struct gw_step_report known = *report;
    if (simulation->options->config->train.arithmetic == GW_ARITHMETIC_NONE)
        known.loss = NAN;
    const struct gw_record_step step = {
        .report = &known,
        .wall_s = wall_s(simulation),
        .samples_per_s = rate(report->all_samples, wall_s(simulation)),
        .has_accuracy =
            simulation->has_score && simulation->score.step <= report->step,
        .accuracy = simulation->score.accuracy,
    };
    if (step.has_accuracy)
        simulation->has_score = 0;
    if (simulation->error.status == GW_OK)
        gw_record_step(simulation->record, &step, &simulation->error);
}

static void on_score(void *owner, const struct gw_score_report *report)
{
    struct simulation *simulation = owner;
    simulation->score = *report;
    simulation->has_score = 1;
}

static void on_split(void *owner, const struct gw_split_report *report)
{
    struct simulation *simulation = owner;
    if (simulation->error.status == GW_OK)
        gw_record_split(simulation->record, report, &simulation->error);
}

static void on_note(void *owner, const char *text)
{
    (void)owner;
    (void)text;
}

static void on_finished(void *owner, const struct gw_final_report *report)
{
    struct simulation *simulation = owner;
    simulation->finished = 1;
    simulation->final = *report;
    snprintf(simulation->text, sizeof simulation->text, "%s", report->text);
    simulation->final.text = simulation->text;
    /* they would be this process' */
    simulation->final.rss_worker = simulation->final.rss_server = 0;
}

static const struct gw_coordinator_events events = {
    .running = on_running,
    .step = on_step,
    .score = on_score,
    .split = on_split,
    .note = on_note,
    .warning = on_note,
    .finished = on_finished,
};

/* ---- the world ---- */

static uint32_t workers_per_host(const struct simulation *simulation)
{
    uint32_t n = simulation->options->workers_per_host;
    return n > 0 ? n : 1;
}

/* Workers' hosts come first; the coordinator has one of its own. */
static void
host(void *owner, uint8_t role, size_t rank, char *name, size_t room)
{
    const struct simulation *simulation = owner;
    if (role == GW_ROLE_COORDINATOR)
        snprintf(name, room, "c");
    else
        snprintf(name, room, "h%" PRIu32,
                 role == GW_ROLE_SERVER
                     ? simulation->server_host[rank]
                     : (uint32_t)rank / workers_per_host(simulation));
}

static void nowhere(void *context, const char *line, size_t bytes)
{
    (void)context;
    (void)line;
    (void)bytes;
}

static struct span *new_span(struct pace *pace)
{
    if (pace->spans == pace->room) {
        size_t room = pace->room ? 2 * pace->room : 64;
        struct span *span = realloc(pace->span, room * sizeof *span);
        if (!span)
            return NULL;
        pace->span = span;
        pace->room = room;
    }
    return &pace->span[pace->spans++];
}

/* Joins parts of one computation into a span, unless the worker waited in
   between. */
static void on_passed(void *owner, uint64_t begin_us, uint64_t end_us)
{
    struct pace *pace = owner;
    struct span *last = pace->spans ? &pace->span[pace->spans - 1] : NULL;
    if (!pace->simulation->spans || end_us == begin_us)
        return;
    if (last && !pace->is_new && begin_us == last->end_us) {
        last->end_us = end_us;
        return;
    }
    last = new_span(pace);
    if (last)
        *last = (struct span){.begin_us = begin_us, .end_us = end_us};
    pace->is_new = 0;
    pace->is_lost |= !last;
}

static uint64_t compute_us(void *owner, uint64_t samples)
{
    struct pace *pace = owner;
    struct simulation *simulation = pace->simulation;
    const struct gw_simulate_options *options = simulation->options;
    pace->is_new = 1;
    if (samples == 0)
        return 0; /* an evaluation */
    double us = options->step_us + options->sample_us * (double)samples;
    us *= gw_straggle_factor(options->straggle, options->seed, pace->rank,
                             pace->computations++);
    if (us > COMPUTE_US_MAX)
        us = COMPUTE_US_MAX; /* tails may be heavy */
    return (uint64_t)us;
}

/* The coordinator's network has no rate limit: its messages are small. */
static enum gw_status set_networks(struct simulation *simulation,
                                   struct gw_error *error)
{
    const struct gw_config *config = simulation->options->config;
    const size_t members[2] = {config->cluster.servers,
                               config->cluster.workers};
    static const uint8_t roles[2] = {GW_ROLE_SERVER, GW_ROLE_WORKER};
    const struct gw_sim_host_options far = {
        .latency_us = simulation->options->network.latency_us};
    enum gw_status status = gw_sim_host(simulation->sim, "c", &far, error);
    for (size_t i = 0; i < 2; i++) {
        for (size_t rank = 0; rank < members[i] && status == GW_OK; rank++) {
            char name[32];
            host(simulation, roles[i], rank, name, sizeof name);
            status = gw_sim_host(simulation->sim, name,
                                 &simulation->options->network, error);
        }
    }
    return status;
}

static enum gw_status place_servers(struct simulation *simulation,
                                    struct gw_error *error)
{
    const struct gw_simulate_options *options = simulation->options;
    uint32_t servers = (uint32_t)options->config->cluster.servers;
    uint32_t workers = (uint32_t)options->config->cluster.workers;
    uint32_t each = workers_per_host(simulation);
    simulation->server_host = calloc(servers, sizeof(uint32_t));
    if (!simulation->server_host)
        return gw_fail(error, GW_ENOMEM, "no memory for a simulation");
    return gw_placement_fill(&options->placement, (workers + each - 1) / each,
                             servers, simulation->server_host, error);
}

static enum gw_status run_program(const struct gw_worker_options *options,
                                  struct gw_error *error)
{
    const struct simulation *simulation = options->owner;
    return gw_program_run(options, simulation->options->key,
                          simulation->options->keys, error);
}

static enum gw_status open_world(struct simulation *simulation,
                                 struct gw_error *error)
{
    const struct gw_simulate_options *options = simulation->options;
    const struct gw_sim_options sim = {
        .seed = options->seed,
        .threads = options->network.latency_us > 0 ? options->threads : 1};
    enum gw_status status = gw_sim_create(&sim, &simulation->sim, error);
    if (status == GW_OK)
        status = place_servers(simulation, error);
    if (status == GW_OK)
        status = set_networks(simulation, error);
    if (status != GW_OK)
        return status;
    const struct gw_world_options world = {
        .sim = simulation->sim,
        .config = options->config,
        .train = options->train,
        .test = options->test,
        .work = options->key ? run_program : NULL,
        .host = host,
        .events = &events,
        .sink = nowhere,
        .level = GW_LOG_ERROR,
        .owner = simulation,
    };
    status = gw_world_open(&world, &simulation->world, error);
    if (status != GW_OK)
        return status;
    simulation->pace =
        calloc(simulation->world.workers, sizeof *simulation->pace);
    if (!simulation->pace)
        return gw_fail(error, GW_ENOMEM, "no memory for a simulation");
    for (size_t i = 0; i < simulation->world.workers; i++) {
        simulation->pace[i] =
            (struct pace){.simulation = simulation, .rank = (uint32_t)i};
        gw_sim_compute_model(simulation->world.worker[i].loop, compute_us,
                             &simulation->pace[i]);
        gw_sim_compute_watch(simulation->world.worker[i].loop, on_passed);
    }
    return GW_OK;
}

/* ---- a run ---- */

static int is_over(void *owner)
{
    const struct simulation *simulation = owner;
    return (simulation->finished && gw_world_is_over(&simulation->world)) ||
           simulation->error.status != GW_OK;
}

/* Time until the last worker ended; the end of servers and coordinator does not
   count. */
static double whole_s(const struct simulation *simulation)
{
    uint64_t last = simulation->began_us;
    for (size_t i = 0; i < simulation->world.workers; i++)
        if (simulation->world.worker[i].ended_us > last)
            last = simulation->world.worker[i].ended_us;
    return (double)(last - simulation->began_us) / 1e6;
}

static enum gw_status run(struct simulation *simulation, struct gw_error *error)
{
    int over =
        gw_sim_run(simulation->sim, is_over, simulation,
                   gw_sim_now(simulation->sim) + simulation->options->limit_us);
    if (simulation->error.status != GW_OK) {
        *error = simulation->error;
        return error->status;
    }
    if (!over)
        return gw_fail(error, GW_ETIMEOUT,
                       "it is at step %" PRIu64 " after %.0f s of its time",
                       gw_coordinator_step(simulation->world.coordinator),
                       (double)simulation->options->limit_us / 1e6);
    const struct gw_final_report *final = &simulation->final;
    if (final->status != GW_OK)
        return gw_fail(error, final->status, "%s", final->text);
    double seconds = whole_s(simulation);
    const struct gw_record_final record = {
        .report = final,
        .wall_s = seconds,
        .samples_per_s = rate(final->workers.value[GW_METRIC_SAMPLES], seconds),
    };
    return gw_record_final(simulation->record, &record, error);
}

static enum gw_status open_files(struct simulation *simulation,
                                 struct gw_error *error)
{
    const struct gw_simulate_options *options = simulation->options;
    if (unlink(options->record) != 0 && errno != ENOENT)
        return gw_fail(error, GW_EIO, "cannot replace %s: %s", options->record,
                       strerror(errno));
    enum gw_status status =
        gw_record_open(options->record, &simulation->record, error);
    if (status != GW_OK || !options->spans)
        return status;
    simulation->spans = fopen(options->spans, "w");
    return simulation->spans ? GW_OK
                             : gw_fail(error, GW_EIO, "cannot write %s: %s",
                                       options->spans, strerror(errno));
}

/* Writes a worker's spans; 0: one was lost. */
static int write_spans(const struct pace *pace)
{
    uint64_t zero_us = pace->simulation->began_us;
    for (size_t i = 0; i < pace->spans; i++)
        fprintf(pace->simulation->spans,
                "%" PRIu32 " %" PRIu64 " %" PRIu64 "\n", pace->rank,
                pace->span[i].begin_us - zero_us,
                pace->span[i].end_us - zero_us);
    return !pace->is_lost;
}

static enum gw_status close_spans(struct simulation *simulation,
                                  struct gw_error *error)
{
    int failed = 0;
    if (!simulation->spans)
        return GW_OK;
    for (size_t i = 0; simulation->pace && i < simulation->world.workers; i++)
        failed |= !write_spans(&simulation->pace[i]);
    failed |= ferror(simulation->spans);
    failed |= fclose(simulation->spans) != 0;
    return failed ? gw_fail(error, GW_EIO, "%s could not be written",
                            simulation->options->spans)
                  : GW_OK;
}

static void free_paces(struct simulation *simulation)
{
    for (size_t i = 0; simulation->pace && i < simulation->world.workers; i++)
        free(simulation->pace[i].span);
    free(simulation->pace);
}

enum gw_status gw_simulate(const struct gw_simulate_options *options,
                           struct gw_error *error)
{
    struct simulation *simulation = calloc(1, sizeof *simulation);
    if (!simulation)
        return gw_fail(error, GW_ENOMEM, "no memory for a simulation");
    simulation->options = options;
    enum gw_status status = open_files(simulation, error);
    if (status == GW_OK)
        status = open_world(simulation, error);
    if (status == GW_OK)
        status = run(simulation, error);
    if (close_spans(simulation, status == GW_OK ? error : NULL) != GW_OK &&
        status == GW_OK)
        status = error->status;
    gw_record_close(simulation->record);
    free_paces(simulation); /* counts the world's workers */
    gw_world_close(&simulation->world);
    gw_sim_destroy(simulation->sim);
    free(simulation->server_host);
    free(simulation);
    return status;
}
