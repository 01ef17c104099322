/*
 * The client's life: joining, declaring, attaching, ending. Its parts are
 * opened and closed here.
 */
#include "config.h"

#include <stdlib.h>

#include "worker/client/client_declare.h"
#include "worker/client/client_session.h"

/* ---- parts ---- */

static const struct {
    enum gw_status (*open)(struct gw_client *client);
    void (*close)(struct gw_client *client);
} parts[] = {
    {gw_client_session_open, gw_client_session_close},
    {gw_client_declared_open, gw_client_declared_close},
    {gw_client_report_open, gw_client_report_close},
    {gw_client_save_open, gw_client_save_close},
    {gw_client_decisions_open, gw_client_decisions_close},
    {gw_client_policy_open, gw_client_policy_close},
    {gw_client_cuts_open, gw_client_cuts_close},
    {gw_client_waits_open, gw_client_waits_close},
    {gw_client_stalls_open, gw_client_stalls_close},
    {gw_client_shards_open, gw_client_shards_close},
    {gw_client_terms_open, gw_client_terms_close},
    {gw_client_chunks_open, gw_client_chunks_close},
    {gw_client_pushes_open, gw_client_pushes_close},
    {gw_client_out_open, gw_client_out_close},
    {gw_client_wants_open, gw_client_wants_close},
    {gw_client_landing_open, gw_client_landing_close},
};
#define PARTS (sizeof parts / sizeof *parts)

static enum gw_status open_parts(struct gw_client *client)
{
    enum gw_status status = GW_OK;
    for (size_t i = 0; status == GW_OK && i < PARTS; i++)
        status = parts[i].open(client);
    return status;
}

static void free_client(struct gw_client *client)
{
    for (size_t i = PARTS; i > 0; i--)
        parts[i - 1].close(client);
    gw_map_destroy(client->map);
    free(client);
}

/* ---- joining ---- */

static enum gw_status open_member(struct gw_client *client,
                                  struct gw_error *error)
{
    const struct gw_client_options *options = &client->options;
    struct gw_member_options member = {
        .loop = options->loop,
        .transport = options->transport,
        .data = options->data,
        .transport_config = {.interface = options->interface},
        .control_interface = options->control_interface,
        .role = GW_ROLE_WORKER,
        .rank = options->rank,
        .join_us = options->join_us,
        .silence_us = options->silence_us,
        .handler = &gw_client_handler,
        .owner = client,
    };
    enum gw_status status = gw_member_open(&member, &client->member, error);
    if (status == GW_OK)
        status = gw_member_dial(client->member, options->coordinator,
                                GW_ROLE_COORDINATOR, 0, 1, NULL,
                                &client->coordinator, error);
    return status;
}

/* A client that has its loop, but no connection. */
static enum gw_status make_client(const struct gw_client_options *options,
                                  struct gw_client **client_p,
                                  struct gw_error *error)
{
    struct gw_client *client = calloc(1, sizeof *client);
    if (!client)
        return gw_fail(error, GW_ENOMEM, "no memory for a client");
    client->options = *options;
    client->loop = options->loop;
    client->log = options->log;
    client->metrics = options->metrics;
    client->limit.per_second = 2;
    client->group_ranks = 1;
    enum gw_status status = open_parts(client);
    if (status != GW_OK)
        gw_fail(error, status, "no memory for a client");
    else
        status = gw_loop_share(client->loop, error);
    if (status != GW_OK) {
        free_client(client);
        return status;
    }
    *client_p = client;
    return GW_OK;
}

enum gw_status gw_client_open(const struct gw_client_options *options,
                              struct gw_client **client_p,
                              struct gw_error *error)
{
    struct gw_client *client = NULL;
    enum gw_status status = make_client(options, &client, error);
    if (status != GW_OK)
        return status;
    gw_loop_enter(client->loop);
    status = open_member(client, error);
    if (status == GW_OK)
        status = gw_host_group_open(client, &client->group, error);
    if (status == GW_OK)
        gw_client_stalls_watch(client);
    gw_loop_leave(client->loop);
    if (status == GW_OK) {
        status =
            gw_client_wait_for(client, gw_client_has_job, GW_WAITING_UNWATCHED);
        if (status != GW_OK && error)
            *error = client->error;
    }
    if (status != GW_OK) {
        gw_client_close(client);
        return status;
    }
    *client_p = client;
    return GW_OK;
}

void gw_client_close(struct gw_client *client)
{
    if (!client)
        return;
    if (client->coordinator && gw_client_is_over(client))
        gw_client_session_last_words(client);
    gw_loop_unshare(client->loop);
    gw_client_session_cancel(client);
    gw_client_pushes_cancel(client);
    gw_client_stalls_cancel(client);
    gw_member_close(client->member); /* gives back the group's frames */
    gw_host_group_close(client->group);
    gw_client_files_close(client);
    gw_client_split_close(client);
    free_client(client);
}

enum gw_status gw_client_meet(struct gw_client *client,
                              struct gw_colocated *colocated_p)
{
    enum gw_status status =
        gw_client_wait_for(client, gw_client_has_view, GW_WAITING_UNWATCHED);
    if (status == GW_OK)
        gw_client_colocated(client, colocated_p);
    return status;
}

/* ---- declaring ---- */

/* Tables for the chunks of the map. */
static enum gw_status make_tables(struct gw_client *client,
                                  struct gw_error *error)
{
    enum gw_status status = gw_client_chunks_make(client);
    if (status == GW_OK)
        status = gw_client_pushes_make(client);
    if (status == GW_OK)
        status = gw_client_out_make(client);
    if (status == GW_OK)
        status = gw_client_wants_make(client);
    if (status != GW_OK)
        gw_fail(error, status, "no memory for %zu chunks", client->map->chunks);
    return status;
}

uint64_t gw_client_table_bytes(const struct gw_map *map, uint64_t connections)
{
    return map->chunks * sizeof(struct gw_client_chunk) +
           gw_client_pushes_bytes(map) + gw_client_out_bytes(map) +
           gw_client_wants_bytes(map, connections);
}

enum gw_status
gw_client_declare(struct gw_client *client,
                  const struct gw_client_declaration *declaration)
{
    struct gw_error error;
    gw_client_set_connections(client, declaration->connections);
    gw_loop_enter(client->loop);
    gw_client_send_declaration(client, declaration);
    gw_loop_leave(client->loop);
    enum gw_status status =
        gw_client_wait_for(client, gw_client_has_started, GW_WAITING_UNWATCHED);
    gw_loop_enter(client->loop);
    client->declaration = NULL;
    gw_loop_leave(client->loop);
    if (status != GW_OK)
        return status;
    status = gw_map_create(declaration->keys, declaration->n_keys,
                           gw_client_shards(client), &client->map, &error);
    if (status == GW_OK)
        status = make_tables(client, &error);
    if (status != GW_OK)
        gw_client_fail_with(client, &error);
    return status;
}

uint64_t gw_client_key_offset(const struct gw_client *client, size_t key)
{
    return client->map->key_offset[key];
}

uint64_t gw_client_arena_bytes(const struct gw_client *client)
{
    return client->map->arena_bytes;
}

enum gw_memory_kind gw_client_memory_kind(const struct gw_client *client)
{
    return client->job->payload_free ? GW_MEMORY_HOST
                                     : gw_routes_memory(client->options.data);
}

enum gw_memory_kind gw_client_gradients_kind(const struct gw_client *client)
{
    return client->job->payload_free || !gw_client_has_host_group(client)
               ? gw_client_memory_kind(client)
               : GW_MEMORY_SHARED;
}

int gw_client_has_host_group(const struct gw_client *client)
{
    return client->group_ranks > 1;
}

/* ---- attaching ---- */

/* Memory that others of this host write and read by themselves. */
static void register_memory(struct gw_client *client,
                            const struct gw_client_arenas *arenas,
                            const struct gw_device_arenas *device)
{
    if (client->job->payload_free)
        return;
    gw_member_register_memory(client->member, &arenas->gradients);
    if (device && device->pages.bytes > 0)
        gw_member_register_memory(client->member, &device->pages);
    if (arenas->weights.kind == GW_MEMORY_SHARED)
        gw_member_register_memory(client->member, &arenas->weights);
    if (gw_client_bf16_bytes(client) > 0 &&
        arenas->bf16.kind == GW_MEMORY_SHARED)
        gw_member_register_memory(client->member, &arenas->bf16);
}

static void connect_all(struct gw_client *client,
                        const struct gw_client_arenas *arenas,
                        const struct gw_device_arenas *device)
{
    struct gw_error error;
    register_memory(client, arenas, device);
    gw_client_connect(client);
    if (gw_client_has_host_group(client) &&
        gw_host_group_connect(client->group, arenas, device, &error) != GW_OK)
        gw_client_fail(client, error.status, "a worker of this host: %s",
                       error.text);
}

enum gw_status gw_client_attach(struct gw_client *client,
                                const struct gw_client_arenas *arenas,
                                const struct gw_device_arenas *device,
                                int seed)
{
    gw_client_landing_attach(client, arenas);
    gw_client_out_attach(client, arenas->gradients.base, device);
    gw_loop_enter(client->loop);
    connect_all(client, arenas, device);
    gw_loop_leave(client->loop);
    enum gw_status status = gw_client_wait_for(client, gw_client_windows_open,
                                               GW_WAITING_UNWATCHED);
    if (status != GW_OK)
        return status;
    gw_loop_enter(client->loop);
    gw_client_out_log(client);
    if (seed && client->job->rank == 0)
        gw_client_seed_all(client);
    gw_client_want_all(client, gw_client_first_clock(client));
    gw_loop_leave(client->loop);
    return GW_OK;
}

int gw_client_begins_again(const struct gw_client *client, uint64_t clock)
{
    return client->again == clock + 1;
}

/* ---- steps ---- */

void gw_client_computed(struct gw_client *client,
                        const struct gw_computed *part)
{
    gw_loop_computed(client->loop, part);
}

void gw_client_set_step(struct gw_client *client, uint64_t clock)
{
    gw_member_set_clock(client->member, clock);
}

enum gw_status gw_client_finished(struct gw_client *client, uint64_t clock)
{
    gw_loop_enter(client->loop);
    gw_client_session_finished(client, clock);
    gw_loop_leave(client->loop);
    return gw_client_is_over(client) ? client->error.status : GW_OK;
}

enum gw_status gw_client_score(struct gw_client *client,
                               uint64_t clock,
                               double loss,
                               uint64_t correct,
                               uint64_t samples,
                               struct gw_client_score *score)
{
    struct gw_score own = {
        .loss = loss, .correct = correct, .samples = samples};
    gw_loop_enter(client->loop);
    /* ranks at clocks of their own meet at one step */
    own.clock = gw_client_is_per_push(client)
                    ? gw_client_standstill(client).step
                    : clock;
    gw_client_begin_score(client, &own);
    gw_loop_leave(client->loop);
    enum gw_status status =
        gw_client_wait_for(client, gw_client_has_score, GW_WAITING_SCORE);
    if (status == GW_OK)
        *score = gw_client_last_score(client);
    return status;
}

/* ---- the end ---- */

static int never(const struct gw_client *client)
{
    (void)client;
    return 0;
}

enum gw_status gw_client_finish(struct gw_client *client,
                                uint64_t clock,
                                const uint8_t digest[GW_DIGEST_BYTES],
                                uint64_t rss_bytes)
{
    gw_loop_enter(client->loop);
    gw_host_group_release(client->group);
    for (uint32_t s = 0; s < gw_client_shards(client); s++)
        gw_peer_rest(gw_client_shard_peer(client, s));
    gw_client_session_bye(client, clock, digest, rss_bytes);
    gw_loop_leave(client->loop);
    return gw_client_wait_for(client, never, GW_WAITING_UNWATCHED);
}
