/* Sets a worker up: job, device, data, model, arenas; then step.c trains. */
#include "config.h"

#include "worker/worker_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum gw_status open_data(struct gw_worker *worker)
{
    const struct gw_worker_options *options = worker->options;
    enum gw_status status = GW_OK;
    worker->train = options->train;
    worker->test = worker->hollow ? NULL : options->test;
    if (!worker->train)
        status = gw_dataset_open(&worker->config, GW_DATASET_TRAIN,
                                 &worker->train, worker->error);
    if (status == GW_OK && !worker->test && !worker->hollow &&
        worker->config.data.test.n > 0)
        status = gw_dataset_open(&worker->config, GW_DATASET_TEST,
                                 &worker->test, worker->error);
    if (status != GW_OK || !worker->test)
        return status;
    return gw_dataset_check_alike(worker->train, worker->test, worker->error);
}

static uint32_t place_of(const struct gw_worker *worker)
{
    uint32_t place = worker->options->place;
    return place == GW_RANK_NONE ? worker->rank : place;
}

/* Each time another one, of the same. */
static enum gw_status open_one(struct gw_worker *worker,
                               struct gw_backend_choice *choice_p,
                               struct gw_device **device_p,
                               struct gw_error *error)
{
    const struct gw_device_options options = {
        .threads = 1, .precision = gw_precision_of(&worker->config)};
    const struct gw_backend_ops *given =
        worker->hollow ? &gw_no_arithmetic : worker->options->backend;
    if (!given)
        return gw_device_open(&worker->config, place_of(worker), choice_p,
                              device_p, error);
    *choice_p = (struct gw_backend_choice){.ops = given};
    return given->open(&options, device_p, error);
}

/* Which one it is stays out of the description, by which a job that goes on
   knows whether its bits will be the same. */
static void tell_device(const struct gw_worker *worker,
                        const struct gw_backend_choice *choice)
{
    char where[64] = "", address[GW_PCI_ADDRESS_BYTES];
    choice->ops->locate(choice->ordinal, address);
    if (address[0])
        snprintf(where, sizeof where, ", GPU %u at %s", choice->ordinal,
                 address);
    gw_log_info(worker->options->client.log, "device %s: %s%s%s%s",
                worker->backend->name, worker->description, where,
                choice->why[0] ? "; " : "", choice->why);
    if (choice->leaves_gpu)
        gw_log_warn(worker->options->client.log,
                    "a GPU is here, and the CPU computes: %s; worker.device = "
                    "\"cpu\" if that is meant",
                    choice->why);
}

static enum gw_status find_device(struct gw_worker *worker)
{
    struct gw_backend_choice choice;
    enum gw_status status =
        open_one(worker, &choice, &worker->device, worker->error);
    if (status != GW_OK)
        return status;
    worker->backend = choice.ops;
    worker->backend->describe(worker->device, worker->description,
                              sizeof worker->description);
    tell_device(worker, &choice);
    return GW_OK;
}

/* Before anything is taken of it, and after that with what is: whether the
   device has memory for this worker. */
static enum gw_status check_device(struct gw_worker *worker,
                                   struct gw_error *error)
{
    const struct gw_worker_case what = {.config = &worker->config,
                                        .train = worker->train,
                                        .test = worker->test,
                                        .backend = worker->backend};
    struct gw_device_room room = {.devices = 1};
    if (worker->hollow || worker->backend->on_host)
        return GW_OK;
    worker->backend->memory(worker->device, &room.total_bytes,
                            &room.free_bytes);
    room.free_bytes += worker->backend->takes.open + worker->device_bytes;
    if (room.total_bytes == 0) /* it cannot be told */
        return GW_OK;
    return gw_worker_check_device(&what, &room, error);
}

/* Something was not to be had, though all was free before: perhaps because
   another one took it meanwhile. */
static enum gw_status explain(struct gw_worker *worker, enum gw_status status)
{
    struct gw_error error;
    if (status == GW_ENOMEM && worker->train &&
        check_device(worker, &error) == GW_ENOMEM)
        *worker->error = error;
    return status;
}

static enum gw_status check_labels(const struct gw_worker *worker)
{
    const struct gw_config *config = &worker->config;
    if (worker->hollow)
        return GW_OK;
    enum gw_status status = gw_model_check_labels(config, worker->train,
                                                  worker->train, worker->error);
    if (status == GW_OK && worker->test)
        status = gw_model_check_labels(config, worker->train, worker->test,
                                       worker->error);
    return status;
}

static enum gw_status open_model(struct gw_worker *worker)
{
    const struct gw_dataset_shape *shape = gw_dataset_shape(worker->train);
    enum gw_status status = gw_plan_make(
        &worker->config, shape->samples, worker->ranks,
        gw_client_from(worker->client), &worker->plan, worker->error);
    if (status == GW_OK)
        status = check_labels(worker);
    if (status == GW_OK)
        status = check_device(worker, worker->error);
    if (status != GW_OK)
        return status;
    worker->batch_max = gw_plan_batch_max(&worker->plan, worker->test != NULL);
    status = gw_model_create(&worker->config, shape, worker->batch_max,
                             worker->backend, worker->device, &worker->model,
                             worker->error);
    if (status != GW_OK)
        return status;
    worker->device_bytes = gw_model_bytes(worker->model);
    worker->key = gw_model_keys(worker->model, &worker->keys);
    status = gw_feed_open(&worker->feed, worker->backend, worker->device, shape,
                          worker->batch_max, worker->error);
    if (status == GW_OK) {
        struct gw_feed_bytes batch = gw_feed_bytes(shape, worker->batch_max);
        worker->device_bytes += batch.x + batch.labels;
    }
    return status;
}

/* Behind what it says already. */
static void add_note(char note[GW_ERROR_TEXT_BYTES], const char *more)
{
    size_t used = strlen(note);
    if (more[0])
        snprintf(note + used, GW_ERROR_TEXT_BYTES - used, "%s%s",
                 used ? "; " : "", more);
}

/* Parts of files that are not read as they are, to the job; what looks wrong,
   to the log. One of the workers says it, all read the same. */
static void tell_data(const struct gw_worker *worker,
                      char note[GW_ERROR_TEXT_BYTES])
{
    const struct gw_dataset *sets[] = {worker->train, worker->test};
    char outputs[GW_ERROR_TEXT_BYTES / 2];
    note[0] = '\0';
    if (worker->rank != 0)
        return;
    for (size_t i = 0; i < 2 && sets[i]; i++) {
        const char *doubtful = gw_dataset_note(sets[i], GW_DATASET_DOUBTFUL);
        add_note(note, gw_dataset_note(sets[i], GW_DATASET_CONVERTED));
        if (doubtful[0])
            gw_log_warn(worker->options->client.log, "%s: %s",
                        i == 0 ? "data.train" : "data.test", doubtful);
    }
    if (worker->hollow)
        return;
    gw_model_note_outputs(worker->model, gw_dataset_shape(worker->train),
                          outputs, sizeof outputs);
    add_note(note, outputs);
}

static enum gw_status declare(struct gw_worker *worker)
{
    char note[GW_ERROR_TEXT_BYTES];
    tell_data(worker, note);
    struct gw_client_declaration declaration = {
        .keys = worker->key,
        .n_keys = worker->keys,
        .course = worker->plan.course,
        .total_steps = worker->plan.steps,
        .test_samples =
            worker->test ? gw_dataset_shape(worker->test)->samples : 0,
        .device = worker->description,
        .tuned = worker->tuned,
        .note = note,
        .workers = worker->ranks,
        .connections = (unsigned)gw_config_connections(&worker->config),
    };
    if (!worker->hollow) /* no sample of it is looked at */
        gw_dataset_digest(worker->train, declaration.data_digest);
    return gw_client_declare(worker->client, &declaration);
}

/* Whether an arena of shared memory was had: others of this host reach it. */
static int open_shared(struct gw_worker *worker,
                       size_t bytes,
                       struct gw_worker_arena *arena)
{
    struct gw_error error;
    if (gw_memory_open(GW_MEMORY_SHARED, bytes, &arena->memory) != GW_OK)
        return 0;
    arena->shared = 1;
    gw_memory_settle(&arena->memory); /* the loop's thread is heard meanwhile */
    arena->pinned = worker->backend->pin(worker->device, arena->memory.base,
                                         bytes, &error) == GW_OK;
    if (!arena->pinned)
        gw_log_warn(worker->options->client.log, "%s", error.text);
    return 1;
}

static void *open_arena(struct gw_worker *worker,
                        enum gw_memory_kind kind,
                        size_t bytes,
                        struct gw_worker_arena *arena)
{
    if (worker->hollow || kind != GW_MEMORY_SHARED ||
        !open_shared(worker, bytes, arena))
        arena->memory = gw_memory_host(
            worker->backend->alloc_host(worker->device, bytes), bytes);
    return arena->memory.base;
}

/* Where one is not, a line has said so already. */
static void tell_pinned(const struct gw_worker *worker)
{
    const struct gw_worker_arena *arenas[] = {
        &worker->weights_arena, &worker->gradients_arena, &worker->bf16_arena};
    size_t bytes = 0;
    if (worker->backend->on_host)
        return;
    for (size_t i = 0; i < sizeof arenas / sizeof *arenas; i++) {
        if (arenas[i]->shared && !arenas[i]->pinned)
            return;
        bytes += arenas[i]->memory.bytes;
    }
    gw_log_info(worker->options->client.log,
                "%zu KiB of weights and gradients on the host are pinned: "
                "copies go on beside the computation",
                bytes >> 10);
}

static void close_arena(struct gw_worker *worker, struct gw_worker_arena *arena)
{
    if (arena->pinned)
        worker->backend->unpin(worker->device, arena->memory.base);
    if (arena->shared)
        gw_memory_close(&arena->memory);
    else if (worker->device)
        worker->backend->free_host(worker->device, arena->memory.base);
}

static enum gw_status open_mirror(struct gw_worker *worker)
{
    const struct gw_mirror_of of = {.ops = worker->backend,
                                    .device = worker->device,
                                    .key = worker->key,
                                    .keys = worker->keys,
                                    .arena = worker->weights,
                                    .bytes =
                                        gw_client_arena_bytes(worker->client),
                                    .weight = worker->weight,
                                    .gradient = worker->gradient,
                                    .bf16 = worker->bf16_arena.memory.base};
    return gw_mirror_open(&of, &worker->mirror, worker->error);
}

/* What devices of the network may read of its gradients; the descriptor is the
   caller's. */
static struct gw_memory pages_for_network(struct gw_worker *worker)
{
    char why[GW_ERROR_TEXT_BYTES] = "worker.gpudirect is off";
    struct gw_pages pages = {.fd = -1};
    if (worker->config.worker.gpudirect)
        worker->backend->pages(worker->device,
                               gw_mirror_gradient_arena(worker->mirror),
                               gw_client_arena_bytes(worker->client), &pages);
    const struct gw_memory memory = {.kind = GW_MEMORY_CUDA,
                                     .base = pages.base,
                                     .bytes = pages.bytes,
                                     .fd = pages.fd};
    if (pages.bytes > 0 &&
        gw_client_takes_device(worker->client, &memory, why, sizeof why))
        return memory;
    if (pages.fd >= 0)
        close(pages.fd);
    gw_log_info(worker->options->client.log,
                "gradients leave through host memory: %s", why);
    return (struct gw_memory){.fd = -1};
}

static enum gw_status make_lender(struct gw_worker *worker,
                                  struct gw_lender_options *options,
                                  struct gw_error *error)
{
    struct gw_backend_choice choice;
    enum gw_status status = open_one(worker, &choice, &options->beside, error);
    if (status == GW_OK)
        status = gw_lender_open(options, &worker->lender, error);
    return status;
}

/* Whether other workers may see what its device has, as they see its memory. */
static int shows_device(const struct gw_worker *worker)
{
    if (!gw_client_has_neighbours(worker->client))
        return 0;
    if (strcmp(worker->config.cluster.local_reduction, "host") != 0)
        return 1;
    gw_log_info(worker->options->client.log,
                "sums of this host are made on the host: so says "
                "cluster.local_reduction");
    return 0;
}

/* What others than this worker's own computation may take where it is. */
static void open_lender(struct gw_worker *worker)
{
    struct gw_lender_options options = {
        .ops = worker->backend,
        .device = worker->device,
        .gradients = {gw_mirror_gradient_arena(worker->mirror),
                      worker->gradients},
    };
    struct gw_error error;
    if (!options.gradients.on_device)
        return;
    for (enum gw_encoding as = GW_ENCODING_RAW; as < GW_ENCODINGS; as++)
        options.weights[as] = (struct gw_lender_arena){
            gw_mirror_weight_arena(worker->mirror, as),
            as == GW_ENCODING_RAW ? worker->weights_arena.memory.base
                                  : worker->bf16_arena.memory.base};
    options.shows = shows_device(worker);
    options.pages = pages_for_network(worker);
    if (!options.shows && options.pages.bytes == 0)
        return;
    if (make_lender(worker, &options, &error) != GW_OK) {
        if (options.pages.fd >= 0)
            close(options.pages.fd);
        gw_log_info(worker->options->client.log,
                    "gradients are summed on the host, and leave through its "
                    "memory: %s",
                    error.text);
    } else if (options.shows && !gw_lender_arenas(worker->lender)->shown) {
        gw_log_info(worker->options->client.log,
                    "sums of this host are made on the host: %s shows its "
                    "memory to no other process",
                    options.ops->name);
    }
}

static enum gw_status open_arenas(struct gw_worker *worker)
{
    size_t bytes = gw_client_arena_bytes(worker->client);
    size_t bf16 = gw_client_bf16_bytes(worker->client);
    enum gw_memory_kind kind = gw_client_memory_kind(worker->client);
    worker->weights = open_arena(worker, kind, bytes, &worker->weights_arena);
    worker->gradients =
        open_arena(worker, gw_client_gradients_kind(worker->client), bytes,
                   &worker->gradients_arena);
    int opened = bf16 == 0 ||
                 open_arena(worker, kind, bf16, &worker->bf16_arena) != NULL;
    tell_pinned(worker);
    worker->weight = calloc(worker->keys, sizeof *worker->weight);
    worker->gradient = calloc(worker->keys, sizeof *worker->gradient);
    if (!opened || !worker->weights || !worker->gradients || !worker->weight ||
        !worker->gradient)
        return gw_fail(worker->error, GW_ENOMEM,
                       "no memory for weights and gradients of %zu MiB each",
                       bytes >> 20);
    for (size_t key = 0; key < worker->keys; key++) {
        uint64_t offset = gw_client_key_offset(worker->client, key);
        worker->weight[key] =
            (float *)(void *)((char *)worker->weights + offset);
        worker->gradient[key] =
            (float *)(void *)((char *)worker->gradients + offset);
    }
    enum gw_status status = open_mirror(worker);
    if (status == GW_OK)
        open_lender(worker);
    return status;
}

/* The job, with this host's own settings over it. */
static enum gw_status read_job(struct gw_worker *worker)
{
    gw_config_default(&worker->config);
    enum gw_status status = gw_config_parse(
        &worker->config, "job", gw_client_job(worker->client), worker->error);
    if (status == GW_OK && worker->options->local)
        gw_config_keep_local(&worker->config, worker->options->local);
    worker->rank = gw_client_rank(worker->client);
    worker->ranks = (uint32_t)worker->config.cluster.workers;
    worker->hollow = worker->config.train.arithmetic == GW_ARITHMETIC_NONE;
    return status;
}

static enum gw_status meet(struct gw_worker *worker)
{
    const struct gw_worker_options *options = worker->options;
    struct gw_mates mates;
    if (!options->met)
        return GW_OK;
    enum gw_status status = gw_client_meet(worker->client, &mates);
    if (status == GW_OK)
        options->met(options->owner, &mates);
    return status;
}

/* What fails here is this worker's own fault: the job is told. */
static enum gw_status tell(struct gw_worker *worker, enum gw_status status)
{
    if (status != GW_OK)
        gw_client_fail_with(worker->client, worker->error);
    return status;
}

static enum gw_status open_device(struct gw_worker *worker)
{
    enum gw_status status = read_job(worker);
    if (status == GW_OK)
        status = find_device(worker);
    return tell(worker, status);
}

static enum gw_status open_all(struct gw_worker *worker)
{
    enum gw_status status = open_data(worker);
    if (status == GW_OK)
        status = open_model(worker);
    if (status == GW_OK)
        status = gw_worker_tune(worker);
    return tell(worker, explain(worker, status));
}

/* A device's threads are not to stay where this one is bound to when it has
   met the others, data is. */
static enum gw_status set_up(struct gw_worker *worker)
{
    enum gw_status status = open_device(worker);
    if (status == GW_OK)
        status = meet(worker);
    if (status == GW_OK)
        status = open_all(worker);
    if (status == GW_OK)
        status = declare(worker);
    if (status == GW_OK)
        status = tell(worker, explain(worker, open_arenas(worker)));
    return status;
}

/* What a checkpoint has of this worker; the job is told if it is damaged. */
static enum gw_status load(struct gw_worker *worker)
{
    enum gw_status status = gw_local_load(worker);
    if (status != GW_OK && !gw_client_is_over(worker->client))
        gw_client_fail_with(worker->client, worker->error);
    return status;
}

static enum gw_status attach(struct gw_worker *worker, int seed)
{
    const struct gw_client_arenas arenas = {
        .weights = worker->weights_arena.memory,
        .gradients = worker->gradients_arena.memory,
        .bf16 = worker->bf16_arena.memory,
        .bf16_stays = !worker->backend->on_host,
    };
    return gw_client_attach(worker->client, &arenas,
                            gw_lender_arenas(worker->lender), seed);
}

static enum gw_status train(struct gw_worker *worker)
{
    int seed = worker->rank == 0 && gw_client_needs_seed(worker->client);
    if (seed && !worker->hollow)
        gw_model_init(worker->model, worker->config.train.seed, worker->weight);
    worker->clock = gw_client_first_clock(worker->client);
    /* the coordinator may be at a terminal, which a worker does not know */
    worker->cadence = gw_config_log_every(&worker->config, 1);
    gw_worker_forget_steps(worker);
    enum gw_status status = gw_local_switch(worker);
    if (status == GW_OK)
        status = load(worker);
    if (status == GW_OK)
        status = attach(worker, seed);
    if (status == GW_OK)
        status = gw_step_run(worker);
    return status;
}

/* What has come of what its device might do faster. */
static void close_device(struct gw_worker *worker)
{
    char report[GW_REPORT_BYTES];
    if (!worker->device)
        return;
    worker->backend->report(worker->device, report, sizeof report);
    if (report[0])
        gw_log_info(worker->options->client.log, "device %s, at the end: %s",
                    worker->backend->name, report);
    worker->backend->close(worker->device);
}

static void tear_down(struct gw_worker *worker)
{
    gw_local_close(worker);
    gw_lender_close(worker->lender);
    gw_mirror_close(worker->mirror);
    gw_model_destroy(worker->model);
    gw_feed_close(&worker->feed);
    close_arena(worker, &worker->weights_arena);
    close_arena(worker, &worker->gradients_arena);
    close_arena(worker, &worker->bf16_arena);
    close_device(worker);
    if (worker->train != worker->options->train)
        gw_dataset_close(worker->train);
    if (worker->test != worker->options->test)
        gw_dataset_close(worker->test);
    free(worker->weight);
    free(worker->gradient);
}

enum gw_status gw_worker_run(const struct gw_worker_options *options,
                             struct gw_error *error)
{
    struct gw_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return gw_fail(error, GW_ENOMEM, "no memory for a worker");
    worker->options = options;
    worker->error = error;
    if (!options->client.loop->metrics)
        options->client.loop->metrics = options->client.metrics;
    enum gw_status status =
        gw_client_open(&options->client, &worker->client, error);
    if (status != GW_OK) {
        free(worker);
        return status;
    }
    if (options->opened)
        options->opened(options->owner, worker->client);
    status = set_up(worker);
    if (status == GW_OK)
        status = train(worker);
    /* where it failed, what is queued may read what others show, until the
       client is closed */
    if (worker->device)
        worker->backend->sync(worker->device, NULL);
    /* its buffers are in use until then */
    if (gw_client_error(worker->client)->text[0])
        *error = *gw_client_error(worker->client);
    if (options->opened)
        options->opened(options->owner, NULL);
    gw_client_close(worker->client);
    tear_down(worker);
    free(worker);
    return status;
}
