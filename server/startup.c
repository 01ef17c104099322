/*
 * From START to READY: the shard is made, its pages are taken, and its weights
 * are loaded where the job goes on.
 */
#include "config.h"

#include "server/commit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"
#include "transport/member/remote.h"

static void ready(struct gw_server *server)
{
    struct gw_message message = {
        .kind = GW_MESSAGE_READY,
        .ready = {.version = server->start.state.clock}};
    server->running = 1;
    if (server->start.outlives)
        gw_peer_may_renew(server->coordinator);
    gw_stall_moved(server, gw_loop_now(server->loop));
    gw_server_tell(server, server->coordinator, &message);
    gw_log_info(server->log,
                "%s %u of %u: %u chunk%s of %zu%s, %zu MiB, %s commit, %s "
                "kernels",
                server->stands_by ? "a copy of shard" : "shard", server->number,
                server->shards, server->shard->chunks,
                gw_plural(server->shard->chunks), server->map->chunks,
                gw_encoding_word(server->config.train.weights),
                server->shard->memory_bytes >> 20, gw_commit_of(server)->word,
                gw_update_isa());
}

void gw_startup_keys(void *owner,
                     struct gw_peer *peer,
                     const struct gw_message *message)
{
    struct gw_server *server = owner;
    const struct gw_declare *declare = &message->declare;
    (void)peer;
    if (!server->startup.keys) {
        server->startup.keys_total = declare->keys_total;
        server->startup.keys =
            calloc(declare->keys_total + 1, sizeof *server->startup.keys);
    }
    if (!server->startup.keys ||
        declare->keys_first != server->startup.keys_seen ||
        declare->keys_total != server->startup.keys_total) {
        gw_server_finish(server, GW_EPROTO, "keys came out of order");
        return;
    }
    memcpy(server->startup.keys + server->startup.keys_seen, declare->keys,
           declare->keys_n * sizeof *server->startup.keys);
    server->startup.keys_seen += declare->keys_n;
}

static enum gw_status build(struct gw_server *server, struct gw_error *error)
{
    enum gw_status status =
        gw_map_create(server->startup.keys, server->startup.keys_seen,
                      server->shards, &server->map, error);
    if (status == GW_OK)
        status = gw_session_open(server, error);
    if (status == GW_OK)
        status = gw_whole_open(server, error);
    if (status == GW_OK)
        status = gw_follow_open(server, error);
    if (status == GW_OK)
        status = gw_remote_open(server->coordinator, &server->remote, error);
    if (status == GW_OK)
        status = gw_save_open(server, error);
    if (status == GW_OK)
        status = gw_copy_open(server, gw_commit_stored, error);
    if (status == GW_OK)
        status = gw_standby_open(server, error);
    if (status == GW_OK && server->number != 0)
        status = gw_members_dial_leader(server, error);
    else if (status == GW_OK)
        server->leader_peer = server->standby.primary;
    if (server->leader_peer)
        server->leader_peer->taken = gw_quorum_taken;
    return status;
}

/* No step will wait for a page that is to be cleared. */
static void has_pages(void *owner)
{
    struct gw_server *server = owner;
    struct gw_error error;
    free(server->startup.memory);
    server->startup.memory = NULL;
    if (!server->startup.resume[0] || server->stands_by) {
        ready(server);
        return;
    }
    enum gw_status status = gw_load_begin(server, ready, &error);
    if (status != GW_OK)
        gw_server_finish(server, status, "%s", error.text);
}

static void take_pages(struct gw_server *server)
{
    /* nobody pushes to a standby */
    uint32_t ranks = server->stands_by ? 0 : server->ranks;
    uint32_t n = gw_shard_memory(server->shard, ranks, NULL);
    server->startup.memory = calloc(n + 1, sizeof *server->startup.memory);
    if (!server->startup.memory) {
        gw_server_finish(server, GW_ENOMEM, "no memory for %u arrays", n);
        return;
    }
    gw_shard_memory(server->shard, ranks, server->startup.memory);
    server->startup.pages = (struct gw_prefault){
        .loop = server->loop,
        .memory = server->startup.memory,
        .n = n,
        .done = has_pages,
        .owner = server,
    };
    gw_prefault_begin(&server->startup.pages);
}

/* No pointer into the message outlives it. */
static void keep_start(struct gw_server *server, const struct gw_start *start)
{
    snprintf(server->startup.resume, sizeof server->startup.resume, "%s",
             start->resume);
    snprintf(server->startup.dir, sizeof server->startup.dir, "%s", start->dir);
    snprintf(server->startup.token, sizeof server->startup.token, "%s",
             start->token);
    server->start = *start;
    server->start.resume = server->startup.resume;
    server->start.dir = server->startup.dir;
    server->start.token = server->startup.token;
    server->start.optimizer = "";
    server->start.clocks = NULL;
    if (start->clocks_n == server->ranks)
        memcpy(server->clocks, start->clocks,
               server->ranks * sizeof *server->clocks);
    else
        for (uint32_t rank = 0; rank < server->ranks; rank++)
            server->clocks[rank] = start->state.clock;
    server->start.split = NULL;
    server->start.groups = NULL;
}

static enum gw_status take_program(struct gw_server *server,
                                   const struct gw_start *start,
                                   struct gw_error *error)
{
    const struct gw_program program = {start->optimizer, start->clip};
    if (gw_config_take_program(&server->config, &program, error) == GW_OK)
        return GW_OK;
    gw_fail_in(error, "the start's job");
    return GW_EPROTO;
}

void gw_startup_begin(struct gw_server *server, const struct gw_start *start)
{
    struct gw_error error;
    if (server->map || server->startup.keys_seen == 0 ||
        server->startup.keys_seen != server->startup.keys_total ||
        !gw_members_are_whole(server)) {
        gw_server_finish(server, GW_EPROTO, "a start came out of order");
        return;
    }
    if (start->state.loss_scale != 0 &&
        !gw_schedule_is_scale(start->state.loss_scale)) {
        gw_server_finish(server, GW_EPROTO, "a start with a loss scale of %g",
                         start->state.loss_scale);
        return;
    }
    if (strlen(start->resume) >= sizeof server->startup.resume ||
        strlen(start->dir) >= sizeof server->startup.dir ||
        strlen(start->token) >= sizeof server->startup.token) {
        gw_server_finish(server, GW_EPROTO, "the start's paths are too long");
        return;
    }
    keep_start(server, start);
    if (start->silence_us)
        gw_member_set_silence(server->member, start->silence_us);
    enum gw_status status = take_program(server, start, &error);
    if (status == GW_OK)
        status = gw_divide_start(server, start, &error);
    if (status == GW_OK)
        status = gw_sum_start(server, start, &error);
    if (status == GW_OK)
        status = build(server, &error);
    if (status == GW_OK)
        take_pages(server);
    else
        gw_server_finish(server, status, "%s", error.text);
}

void gw_startup_stop(struct gw_server *server)
{
    gw_prefault_stop(&server->startup.pages);
}

void gw_startup_close(struct gw_server *server)
{
    free(server->startup.keys);
    free(server->startup.memory);
}
