#include "config.h"

#include "cli/plan/calibrate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "kernels/update/bf16.h"
#include "proto/secret.h"
#include "transport/link/limits.h"
#include "worker/data/feed.h"
#include "worker/trainer/mirror.h"
#include "worker/model/model.h"
#include "worker/trainer/plan.h"

#define AT_ONCE_MAX 64
#define STEPS_LEAST 3
#define SECONDS     0.8

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Resident pages of this process, and those of mapped files among them. */
static void count_pages(unsigned long *all, unsigned long *files)
{
    unsigned long size;
    FILE *file = fopen("/proc/self/statm", "re");
    *all = *files = 0;
    if (file && fscanf(file, "%lu %lu %lu", &size, all, files) != 3)
        *all = *files = 0;
    if (file)
        fclose(file);
}

uint64_t gw_calibrate_program(void)
{
    const struct gw_secret secret = {{0}};
    uint8_t proof[GW_PROOF_BYTES];
    unsigned long all, files;
    (void)gw_secret_prove(&secret, "calibrate", "", 0, proof);
    count_pages(&all, &files);
    return (uint64_t)all * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Resident bytes without mapped files; data sets are counted elsewhere. */
static uint64_t own_bytes(void)
{
    unsigned long all, files;
    count_pages(&all, &files);
    return (uint64_t)(all - files) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- a worker without a network ---- */

struct trial {
    const struct gw_worker_case *what;
    struct gw_plan plan;
    struct gw_map *map;
    struct gw_device *device;
    struct gw_model *model;
    float *arena[2]; /* weights and gradients */
    float **view[2]; /* [keys] of each arena */
    uint16_t *bf16;  /* weights as a device gets them, if it computes */
    struct gw_mirror *mirror;
    struct gw_feed feed;
    double took_s; /* all steps */
    size_t steps;
};

static enum gw_status take_memory(struct trial *trial, struct gw_error *error)
{
    const struct gw_backend_ops *ops = trial->what->backend;
    size_t batch = gw_plan_batch_max(&trial->plan, trial->what->test != NULL);
    struct gw_mirror_of of = {.ops = ops, .device = trial->device};
    int fine = 1;
    for (int i = 0; i < 2; i++) {
        trial->arena[i] =
            ops->alloc_host(trial->device, trial->map->arena_bytes);
        trial->view[i] = calloc(trial->map->keys, sizeof *trial->view[i]);
        fine &= trial->arena[i] && trial->view[i];
        for (size_t key = 0; fine && key < trial->map->keys; key++)
            trial->view[i][key] =
                trial->arena[i] + trial->map->key_offset[key] / sizeof(float);
    }
    if (trial->what->config->train.weights == GW_ENCODING_BF16 &&
        !ops->on_host) {
        trial->bf16 =
            ops->alloc_host(trial->device, trial->map->arena_bytes / 2);
        fine &= trial->bf16 != NULL;
    }
    if (!fine)
        return gw_fail(error, GW_ENOMEM, "no memory for a step of the job");
    of.bf16 = trial->bf16;
    of.key = gw_model_keys(trial->model, &of.keys);
    of.arena = trial->arena[0];
    of.bytes = trial->map->arena_bytes;
    of.weight = trial->view[0];
    of.gradient = trial->view[1];
    enum gw_status status = gw_mirror_open(&of, &trial->mirror, error);
    if (status != GW_OK)
        return status;
    return gw_feed_open(&trial->feed, ops, trial->device,
                        gw_dataset_shape(trial->what->train), batch, error);
}

static void tear_down(struct trial *trial)
{
    const struct gw_backend_ops *ops = trial->what->backend;
    gw_mirror_close(trial->mirror);
    gw_feed_close(&trial->feed);
    gw_model_destroy(trial->model);
    for (int i = 0; i < 2; i++) {
        if (trial->device)
            ops->free_host(trial->device, trial->arena[i]);
        free(trial->view[i]);
    }
    if (trial->device) {
        ops->free_host(trial->device, trial->bf16);
        ops->close(trial->device);
    }
    gw_map_destroy(trial->map);
    free(trial);
}

static enum gw_status set_up(struct trial *trial, struct gw_error *error)
{
    const struct gw_worker_case *what = trial->what;
    const struct gw_config *config = what->config;
    const struct gw_dataset_shape *shape = gw_dataset_shape(what->train);
    struct gw_backend_choice choice;
    uint64_t flop;
    enum gw_status status =
        gw_plan_make(config, shape->samples, config->cluster.workers, NULL,
                     &trial->plan, error);
    if (status == GW_OK)
        status = gw_worker_map(what, &trial->map, &flop, error);
    if (status == GW_OK)
        status = gw_device_open(config, 0, &choice, &trial->device, error);
    if (status == GW_OK)
        status = gw_model_create(
            config, shape, gw_plan_batch_max(&trial->plan, what->test != NULL),
            what->backend, trial->device, &trial->model, error);
    if (status == GW_OK)
        status = take_memory(trial, error);
    if (status == GW_OK)
        gw_model_init(trial->model, config->train.seed, trial->view[0]);
    if (status == GW_OK && trial->bf16)
        gw_bf16_round(trial->map->arena_bytes / sizeof(float), trial->arena[0],
                      trial->bf16);
    return status;
}

static enum gw_status show_weights(void *context, size_t first, size_t n)
{
    struct trial *trial = context;
    gw_mirror_upload(trial->mirror, first, n,
                     trial->bf16 ? GW_ENCODING_BF16 : GW_ENCODING_RAW);
    return GW_OK;
}

static enum gw_status fetch_gradients(void *context, size_t first, size_t n)
{
    struct trial *trial = context;
    gw_mirror_fetch(trial->mirror, first, n);
    return GW_OK;
}

static void computed(void *context, uint64_t flop)
{
    (void)context, (void)flop;
}

static enum gw_status take_batch(struct trial *trial,
                                 const struct gw_batch_site *site,
                                 int first,
                                 int last,
                                 struct gw_error *error)
{
    const struct gw_model_hooks hooks = {.context = trial,
                                         .need = show_weights,
                                         .ready = fetch_gradients,
                                         .computed = computed};
    const struct gw_model_pass pass = {.x = trial->feed.x,
                                       .labels = trial->feed.labels,
                                       .n = site->n,
                                       .scale = 1,
                                       .accumulate = !first,
                                       .last = last};
    struct gw_model_result result;
    size_t key, n;
    gw_feed_load(&trial->feed, trial->what->train, site);
    gw_model_train(trial->model, &pass, gw_mirror_weights(trial->mirror),
                   gw_mirror_gradients(trial->mirror), &hooks);
    while (gw_mirror_next(trial->mirror, 1, &key, &n, error) == GW_OK)
        ;
    return gw_model_result(trial->model, &result, error);
}

/* Takes one rank's part of a step; parts differ by a sample at most. */
static enum gw_status take_step(struct trial *trial, struct gw_error *error)
{
    const struct gw_plan *plan = &trial->plan;
    const struct gw_plan_step step = gw_plan_step(plan, trial->steps);
    const struct gw_plan_run part = gw_plan_part(
        step.run, plan->workers, plan->workers > 1 ? plan->workers - 1 : 0);
    uint64_t batches = gw_plan_batches(part, plan->max_batch);
    enum gw_status status = gw_mirror_begin(trial->mirror, error);
    for (uint64_t i = 0; status == GW_OK && i < batches; i++) {
        const struct gw_plan_run run = gw_plan_batch(part, plan->max_batch, i);
        const struct gw_batch_site site = {
            .epoch = step.epoch, .first = run.first, .n = run.n, .train = 1};
        status = take_batch(trial, &site, i == 0, i + 1 == batches, error);
    }
    return status;
}

static enum gw_status take_steps(struct trial *trial, struct gw_error *error)
{
    double begin_s = now_s(), before_s = begin_s;
    while (trial->steps < STEPS_LEAST || before_s < begin_s + SECONDS) {
        enum gw_status status = take_step(trial, error);
        if (status != GW_OK)
            return status;
        before_s = now_s();
        trial->steps++;
    }
    trial->took_s = before_s - begin_s;
    return GW_OK;
}

/* Scores a batch of the test set; its batches differ in size. */
static enum gw_status score_batch(struct trial *trial, struct gw_error *error)
{
    const struct gw_worker_case *what = trial->what;
    size_t n = gw_plan_batch_max(&trial->plan, 1);
    uint64_t samples = what->test ? gw_dataset_shape(what->test)->samples : 0;
    if (samples == 0)
        return GW_OK;
    const struct gw_batch_site site = {.n = n < samples ? n : samples};
    const struct gw_model_pass pass = {.x = trial->feed.x,
                                       .labels = trial->feed.labels,
                                       .n = site.n,
                                       .scale = 1};
    struct gw_model_result result;
    gw_feed_load(&trial->feed, what->test, &site);
    gw_model_score(trial->model, &pass, gw_mirror_weights(trial->mirror), NULL);
    return gw_model_result(trial->model, &result, error);
}

static enum gw_status measure(struct trial *trial,
                              struct gw_calibrate_step *step,
                              struct gw_error *error)
{
    enum gw_status status = take_step(trial, error);
    if (status == GW_OK)
        status = take_steps(trial, error);
    if (status == GW_OK)
        status = score_batch(trial, error);
    if (status != GW_OK)
        return status;
    step->step_s = trial->took_s / (double)trial->steps;
    trial->what->backend->describe(trial->device, step->device,
                                   sizeof step->device);
    return GW_OK;
}

/* Measures in this process: a device does not survive a fork. */
static enum gw_status try_here(const struct gw_worker_case *what,
                               struct gw_calibrate_step *step,
                               struct gw_error *error)
{
    struct trial *trial = calloc(1, sizeof *trial);
    if (!trial)
        return gw_fail(error, GW_ENOMEM, "no memory for a step");
    trial->what = what;
    enum gw_status status = set_up(trial, error);
    if (status == GW_OK)
        status = measure(trial, step, error);
    tear_down(trial);
    return status;
}

/* ---- several processes ---- */

/* A process' report. */
struct report {
    enum gw_status status;
    char text[GW_ERROR_TEXT_BYTES];
    struct gw_calibrate_step step;
};

struct trier {
    pid_t pid;      /* 0: it has been waited for */
    uint64_t kills; /* gw_child_kills from before it */
    int go, said;   /* pipes to it and from it */
};

static void write_all(int fd, const void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t wrote = write(fd, (const char *)bytes + at, n - at);
        if (wrote <= 0 && errno != EINTR)
            return;
        at += wrote > 0 ? (size_t)wrote : 0;
    }
}

static int read_all(int fd, void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, (char *)bytes + at, n - at);
        if (got == 0 || (got < 0 && errno != EINTR))
            return 0;
        at += got > 0 ? (size_t)got : 0;
    }
    return 1;
}

/* A process that measures: its case and its ends of the pipes. */
struct start {
    const struct gw_worker_case *what;
    int go[2], said[2];
};

/* Reports ready, waits for the start, measures and reports. */
static void be_trier(void *owner)
{
    const struct start *start = owner;
    struct trial *trial = calloc(1, sizeof *trial);
    struct report report = {.status = GW_ENOMEM};
    struct gw_error error = {.text = "no memory for a step"};
    char word = 'r';
    close(start->go[1]);
    close(start->said[0]);
    if (!trial)
        return;
    trial->what = start->what;
    report.status = set_up(trial, &error);
    uint64_t before = own_bytes();
    write_all(start->said[1], &word, 1);
    if (!read_all(start->go[0], &word, 1))
        return;
    if (report.status == GW_OK)
        report.status = measure(trial, &report.step, &error);
    uint64_t after = own_bytes();
    report.step.blas_bytes = after > before ? after - before : 0;
    tear_down(trial);
    snprintf(report.text, sizeof report.text, "%s", error.text);
    write_all(start->said[1], &report, sizeof report);
}

static enum gw_status make_pipe(int ends[2], struct gw_error *error)
{
    char why[GW_LIMITS_WHY_BYTES];
    if (pipe2(ends, O_CLOEXEC) == 0)
        return GW_OK;
    return gw_fail(error, GW_EIO, "no pipe: %s",
                   gw_limits_why_no_file(errno, why));
}

/* Starts a process with two pipes. */
static enum gw_status start(const struct gw_worker_case *what,
                            struct trier *trier,
                            struct gw_error *error)
{
    const struct gw_child child = {.name = "a process that tries a step",
                                   .dies_by = SIGKILL};
    struct start start = {.what = what};
    uint64_t kills = gw_child_kills();
    enum gw_status status = make_pipe(start.go, error);
    if (status != GW_OK)
        return status;
    status = make_pipe(start.said, error);
    if (status != GW_OK)
        goto close_go;
    status = gw_child_fork(&child, be_trier, &start, &trier->pid, error);
    close(start.said[1]);
    if (status != GW_OK)
        goto close_said;
    close(start.go[0]);
    trier->kills = kills;
    trier->go = start.go[1];
    trier->said = start.said[0];
    return GW_OK;

close_said:
    close(start.said[0]);
close_go:
    close(start.go[0]);
    close(start.go[1]);
    return status;
}

/* Closes all pipes before it waits for any process: a process inherits the ends
   of earlier ones, so the last one ends first. */
static void end_all(struct trier *trier, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        close(trier[i].go);
        close(trier[i].said);
    }
    for (unsigned i = 0; i < n; i++)
        if (trier[i].pid)
            gw_child_wait(trier[i].pid);
}

/* A step waits for the slowest process. */
static enum gw_status gather(struct trier *trier,
                             struct gw_calibrate_step *step,
                             struct gw_error *error)
{
    struct report report;
    char how[GW_CHILD_HOW_BYTES];
    if (!read_all(trier->said, &report, sizeof report)) {
        int ended = gw_child_wait(trier->pid);
        trier->pid = 0;
        return gw_fail(error, GW_EABORTED,
                       "a step of the job could not be tried: its process "
                       "died: %s",
                       gw_child_how(ended, trier->kills, how));
    }
    if (report.status != GW_OK)
        return gw_fail(error, report.status, "%.400s", report.text);
    if (report.step.step_s > step->step_s)
        *step = report.step;
    return GW_OK;
}

enum gw_status gw_calibrate_step(const struct gw_worker_case *what,
                                 unsigned at_once,
                                 struct gw_calibrate_step *step_p,
                                 struct gw_error *error)
{
    struct trier trier[AT_ONCE_MAX];
    struct gw_calibrate_step step = {.step_s = 0};
    enum gw_status status = GW_OK;
    unsigned n = 0, most = at_once < AT_ONCE_MAX ? at_once : AT_ONCE_MAX;
    char word;
    if (!what->backend->on_host)
        return try_here(what, step_p, error);
    while (status == GW_OK && n < most) {
        status = start(what, &trier[n], error);
        n += status == GW_OK;
    }
    /* a dead one is found below */
    for (unsigned i = 0; status == GW_OK && i < n; i++)
        read_all(trier[i].said, &word, 1);
    for (unsigned i = 0; status == GW_OK && i < n; i++)
        write_all(trier[i].go, "g", 1);
    for (unsigned i = 0; status == GW_OK && i < n; i++)
        status = gather(&trier[i], &step, error);
    end_all(trier, n);
    if (status == GW_OK)
        *step_p = step;
    return status;
}
