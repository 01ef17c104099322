/*
 * From the declaration to the first step: the declaration to the coordinator,
 * arenas that servers and others of this host reach, and the device's memory
 * that others may use.
 */
#include "config.h"

#include "worker/trainer/rank_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- arenas ---- */

/* Non-zero if it opened an arena of shared memory: others of this host reach
   it. */
static int
open_shared(struct gw_rank *rank, size_t bytes, struct gw_rank_arena *arena)
{
    struct gw_error error;
    if (gw_memory_open(GW_MEMORY_SHARED, bytes, &arena->memory) != GW_OK)
        return 0;
    arena->shared = 1;
    /* the loop's thread is heard meanwhile */
    gw_memory_prefault(&arena->memory);
    arena->pinned = rank->backend->pin(rank->device, arena->memory.base, bytes,
                                       &error) == GW_OK;
    if (!arena->pinned)
        gw_log_warn(rank->options.client.log, "%s", error.text);
    return 1;
}

static void *open_arena(struct gw_rank *rank,
                        enum gw_memory_kind kind,
                        size_t bytes,
                        struct gw_rank_arena *arena)
{
    if (rank->payload_free || kind != GW_MEMORY_SHARED ||
        !open_shared(rank, bytes, arena))
        arena->memory = gw_memory_host(
            rank->backend->alloc_host(rank->device, bytes), bytes);
    return arena->memory.base;
}

static void close_arena(struct gw_rank *rank, struct gw_rank_arena *arena)
{
    if (arena->pinned)
        rank->backend->unpin(rank->device, arena->memory.base);
    if (arena->shared)
        gw_memory_close(&arena->memory);
    else if (rank->backend)
        rank->backend->free_host(rank->device, arena->memory.base);
}

/* An arena that is not pinned has had its line already. */
static void tell_pinned(const struct gw_rank *rank)
{
    const struct gw_rank_arena *arenas[] = {
        &rank->weights_arena, &rank->gradients_arena, &rank->bf16_arena};
    size_t bytes = 0;
    if (rank->backend->on_host)
        return;
    for (size_t i = 0; i < sizeof arenas / sizeof *arenas; i++) {
        if (arenas[i]->shared && !arenas[i]->pinned)
            return;
        bytes += arenas[i]->memory.bytes;
    }
    gw_log_info(rank->options.client.log,
                "%zu KiB of weights and gradients on the host are pinned: "
                "copies go on beside the computation",
                bytes >> 10);
}

/* Views of the arenas by key. */
static enum gw_status open_views(struct gw_rank *rank)
{
    rank->weight = calloc(rank->keys, sizeof *rank->weight);
    rank->gradient = calloc(rank->keys, sizeof *rank->gradient);
    rank->done = calloc(rank->keys, sizeof *rank->done);
    if (!rank->weight || !rank->gradient || !rank->done)
        return GW_ENOMEM;
    for (size_t key = 0; key < rank->keys; key++) {
        uint64_t offset = gw_client_key_offset(rank->client, key);
        rank->weight[key] = (float *)(void *)((char *)rank->weights + offset);
        rank->gradient[key] =
            (float *)(void *)((char *)rank->gradients + offset);
    }
    return GW_OK;
}

static enum gw_status open_arenas(struct gw_rank *rank)
{
    size_t bytes = gw_client_arena_bytes(rank->client);
    size_t bf16 = gw_client_bf16_bytes(rank->client);
    enum gw_memory_kind kind = gw_client_memory_kind(rank->client);
    rank->weights = open_arena(rank, kind, bytes, &rank->weights_arena);
    rank->gradients = open_arena(rank, gw_client_gradients_kind(rank->client),
                                 bytes, &rank->gradients_arena);
    int opened =
        bf16 == 0 || open_arena(rank, kind, bf16, &rank->bf16_arena) != NULL;
    tell_pinned(rank);
    if (!opened || !rank->weights || !rank->gradients ||
        open_views(rank) != GW_OK)
        return gw_fail(rank->error, GW_ENOMEM,
                       "no memory for weights and gradients of %zu MiB each",
                       bytes >> 20);
    return GW_OK;
}

static enum gw_status open_mirror(struct gw_rank *rank)
{
    const struct gw_mirror_of of = {.ops = rank->backend,
                                    .device = rank->device,
                                    .key = rank->key,
                                    .keys = rank->keys,
                                    .arena = rank->weights,
                                    .bytes =
                                        gw_client_arena_bytes(rank->client),
                                    .weight = rank->weight,
                                    .gradient = rank->gradient,
                                    .bf16 = rank->bf16_arena.memory.base};
    return gw_mirror_open(&of, &rank->mirror, rank->error);
}

void gw_rank_free_arenas(struct gw_rank *rank)
{
    gw_local_close(rank);
    gw_device_share_close(rank->device_share);
    gw_mirror_close(rank->mirror);
    close_arena(rank, &rank->weights_arena);
    close_arena(rank, &rank->gradients_arena);
    close_arena(rank, &rank->bf16_arena);
    free(rank->weight);
    free(rank->gradient);
    free(rank->done);
    gw_rank_close_terms(rank);
}

/* ---- a device's memory, for others ---- */

/* The gradients' pages that devices of the network may read; the caller closes
   the descriptor. */
static struct gw_memory pages_for_network(struct gw_rank *rank)
{
    char why[GW_ERROR_TEXT_BYTES] = "worker.gpudirect is off";
    struct gw_pages pages = {.fd = -1};
    if (rank->config.worker.gpudirect)
        rank->backend->pages(rank->device,
                             gw_mirror_gradient_arena(rank->mirror),
                             gw_client_arena_bytes(rank->client), &pages);
    const struct gw_memory memory = {.kind = GW_MEMORY_CUDA,
                                     .base = pages.base,
                                     .bytes = pages.bytes,
                                     .fd = pages.fd};
    if (pages.bytes > 0 &&
        gw_client_takes_device(rank->client, &memory, why, sizeof why))
        return memory;
    if (pages.fd >= 0)
        close(pages.fd);
    gw_log_info(rank->options.client.log,
                "gradients leave through host memory: %s", why);
    return (struct gw_memory){.fd = -1};
}

/* Non-zero if other workers may see the device's memory, as they see the
   worker's. */
static int exports_device(const struct gw_rank *rank)
{
    if (!gw_client_has_host_group(rank->client))
        return 0;
    if (strcmp(rank->config.cluster.local_reduction, "host") != 0)
        return 1;
    gw_log_info(rank->options.client.log,
                "sums of this host are made on the host: so says "
                "cluster.local_reduction");
    return 0;
}

static enum gw_status
make_device_share(struct gw_rank *rank,
                  const struct gw_rank_declaration *declaration,
                  struct gw_device_share_options *options,
                  struct gw_error *error)
{
    enum gw_status status =
        declaration->another(declaration->owner, &options->second, error);
    return status == GW_OK
               ? gw_device_share_open(options, &rank->device_share, error)
               : status;
}

/* Lends the device's gradients and weights to others than this rank. */
static void open_device_share(struct gw_rank *rank,
                              const struct gw_rank_declaration *declaration)
{
    struct gw_device_share_options options = {
        .ops = rank->backend,
        .device = rank->device,
        .gradients = {gw_mirror_gradient_arena(rank->mirror), rank->gradients},
    };
    struct gw_error error;
    if (!options.gradients.on_device || !declaration->another)
        return;
    for (enum gw_encoding as = GW_ENCODING_RAW; as < GW_ENCODINGS; as++)
        options.weights[as] = (struct gw_device_share_arena){
            gw_mirror_weight_arena(rank->mirror, as),
            as == GW_ENCODING_RAW ? rank->weights_arena.memory.base
                                  : rank->bf16_arena.memory.base};
    options.exports = exports_device(rank);
    options.pages = pages_for_network(rank);
    if (!options.exports && options.pages.bytes == 0)
        return;
    if (make_device_share(rank, declaration, &options, &error) != GW_OK) {
        if (options.pages.fd >= 0)
            close(options.pages.fd);
        gw_log_info(rank->options.client.log,
                    "gradients are summed on the host, and leave through its "
                    "memory: %s",
                    error.text);
    } else if (options.exports &&
               !gw_device_share_arenas(rank->device_share)->exported) {
        gw_log_info(rank->options.client.log,
                    "sums of this host are made on the host: %s shows its "
                    "memory to no other process",
                    options.ops->name);
    }
}

/* ---- declare, start ---- */

/* The memory functions of the cpu's table take no device. */
static enum gw_status
find_backend(struct gw_rank *rank,
             const struct gw_rank_declaration *declaration)
{
    rank->device = declaration->device;
    rank->backend = declaration->backend;
    if (!rank->backend)
        rank->backend = gw_backend_find("cpu", rank->error);
    return rank->backend ? GW_OK : rank->error->status;
}

static const char *text_of(const char *text)
{
    return text ? text : "";
}

static enum gw_status tell(struct gw_rank *rank,
                           const struct gw_rank_declaration *declaration)
{
    struct gw_client_declaration told = {
        .keys = declaration->key,
        .n_keys = declaration->keys,
        .course = rank->plan.course,
        .total_steps = rank->plan.steps,
        .test_samples = rank->test_samples,
        .device = text_of(declaration->words),
        .tuned = text_of(declaration->tuned),
        .note = text_of(declaration->note),
        .program = {text_of(declaration->optimizer), declaration->clip},
        .workers = rank->ranks,
        .connections = (unsigned)gw_config_connections(&rank->config),
    };
    memcpy(told.data_digest, declaration->data_digest, sizeof told.data_digest);
    enum gw_status status = gw_client_declare(rank->client, &told);
    if (status == GW_OK)
        gw_client_copy_program(rank->client, &rank->config);
    return status;
}

/* Settings of an optimizer that does not run are a misunderstanding. */
static enum gw_status check_own_steps(struct gw_rank *rank)
{
    const struct gw_config *config = &rank->config;
    int clips = config->policy.inner_clip > 0;
    if (!rank->own_steps ||
        (!clips && strcmp(config->policy.inner, "auto") == 0))
        return GW_OK;
    return gw_fail(rank->error, GW_EUSAGE,
                   "policy.%s: the trainer takes its steps with an optimizer "
                   "of its own; leave it out",
                   clips ? "inner_clip" : "inner");
}

enum gw_status gw_rank_declare(struct gw_rank *rank,
                               const struct gw_rank_declaration *declaration)
{
    rank->key = declaration->key;
    rank->keys = declaration->keys;
    rank->tensor = declaration->tensor;
    rank->sample_flop = declaration->flop;
    rank->own_steps = declaration->own_steps;
    enum gw_status status = find_backend(rank, declaration);
    if (status == GW_OK && rank->tensor && !rank->backend->on_host)
        status = gw_fail(rank->error, GW_EUSAGE,
                         "tensors of the trainer's own are in host memory, and "
                         "%s computes in its own",
                         rank->backend->name);
    if (status == GW_OK)
        status = gw_rank_open_terms(rank);
    if (status == GW_OK)
        status = tell(rank, declaration);
    if (status == GW_OK)
        status = check_own_steps(rank);
    if (status == GW_OK)
        status = open_arenas(rank);
    if (status == GW_OK)
        status = open_mirror(rank);
    if (status == GW_OK)
        open_device_share(rank, declaration);
    return gw_rank_tell(rank, status);
}

float *const *gw_rank_weights(const struct gw_rank *rank)
{
    return rank->weight;
}

float *const *gw_rank_gradients(const struct gw_rank *rank)
{
    return rank->gradient;
}

const float *const *gw_rank_device_weights(const struct gw_rank *rank)
{
    return gw_mirror_weights(rank->mirror);
}

float *const *gw_rank_device_gradients(const struct gw_rank *rank)
{
    return gw_mirror_gradients(rank->mirror);
}

int gw_rank_makes_weights(const struct gw_rank *rank)
{
    return rank->number == 0 && gw_client_needs_seed(rank->client);
}

/* Takes the first weights from the trainer's own tensors, if it has made them
   there. */
static void take_first_weights(struct gw_rank *rank)
{
    for (size_t i = 0; rank->tensor && i < rank->keys; i++)
        if (rank->tensor[i].weights)
            gw_rank_tensor_load(rank->tensor[i].dtype,
                                gw_key_elems(&rank->key[i]),
                                rank->tensor[i].weights, rank->weight[i]);
}

static enum gw_status attach(struct gw_rank *rank, int seed)
{
    const struct gw_client_arenas arenas = {
        .weights = rank->weights_arena.memory,
        .gradients = rank->gradients_arena.memory,
        .bf16 = rank->bf16_arena.memory,
        .bf16_stays = !rank->backend->on_host,
    };
    return gw_client_attach(rank->client, &arenas,
                            gw_device_share_arenas(rank->device_share), seed);
}

enum gw_status gw_rank_start(struct gw_rank *rank)
{
    int seed = gw_rank_makes_weights(rank);
    if (seed)
        take_first_weights(rank);
    rank->clock = gw_client_first_clock(rank->client);
    /* the coordinator may be at a terminal, which a worker does not know */
    rank->cadence = gw_config_log_every(&rank->config, 1);
    gw_rank_forget_steps(rank);
    enum gw_status status = gw_local_switch(rank);
    if (status == GW_OK)
        status = gw_rank_fail(rank, gw_local_load(rank));
    if (status == GW_OK)
        status = attach(rank, seed);
    gw_rank_begin_dues(rank);
    rank->was_per_push = gw_client_is_per_push(rank->client);
    return gw_rank_tell(rank, status);
}
