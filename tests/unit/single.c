#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/single.h"

/* Longer than anything that the loop has to do. */
#define SETTLE_US 1000000

static void set_all(struct gw_config *config, const char *const *settings)
{
    struct gw_error error;
    for (; *settings; settings++)
        if (gw_config_set(config, *settings, &error))
            fail_msg("%s", error.text);
}

/* ---- links ---- */

static void hand_over(struct gw_link *link)
{
    struct single_seat *seat = link->owner;
    struct single *single = seat->single;
    struct gw_send *send;
    while ((send = gw_link_next(link))) {
        single->answered(single->owner, seat->rank, &send->frame,
                         send->payload);
        send->done(send, GW_OK);
    }
}

static const struct gw_transport_ops copies = {.name = "copies",
                                               .kick = hand_over};

static void connect(struct single *single, uint32_t rank)
{
    struct single_seat *seat = &single->seat[rank];
    seat->single = single;
    seat->rank = rank;
    seat->link = (struct gw_link){.ops = &copies,
                                  .transport = &single->transport,
                                  .owner = seat,
                                  .up = 1};
    seat->peer.member = &single->member;
    seat->peer.role = GW_ROLE_WORKER;
    seat->peer.id = rank;
    seat->peer.links = 1;
    seat->peer.link = &seat->peer_link;
    seat->peer_link.link = &seat->link;
    single->server.session[rank].peer = &seat->peer;
}

/* ---- the server ---- */

void single_open(struct single *single,
                 const struct gw_key *keys,
                 size_t n_keys,
                 uint64_t total_steps,
                 const char *const *job,
                 const char *const *more)
{
    const struct gw_sim_options options = {.seed = 1};
    struct gw_server *server = &single->server;
    struct gw_error error;
    memset(single, 0, sizeof *single);
    assert_int_equal(gw_sim_create(&options, &single->sim, &error), GW_OK);
    assert_int_equal(gw_sim_process(single->sim, "s", &server->loop, &error),
                     GW_OK);
    gw_config_default(&server->config);
    set_all(&server->config,
            SETTINGS("cluster.workers=4", "train.global_batch=32",
                     /* ranks have what the tests say */
                     "train.split=speed", "checkpoint.dir=\"\""));
    set_all(&server->config, job);
    set_all(&server->config, more);
    assert_int_equal(gw_map_create(keys, n_keys, 1, &server->map, &error),
                     GW_OK);
    server->metrics = &single->metrics;
    server->member = &single->member; /* which has no transports */
    server->ranks = SINGLE_RANKS;
    server->shards = 1;
    server->members.shard_name = calloc(1, sizeof(struct gw_shard_name));
    server->members.standby = calloc(1, sizeof(struct gw_shard_name));
    server->loss_scale = 1;
    server->start.total_steps = total_steps;
    server->start.resume = "";
    server->clocks = calloc(server->ranks, sizeof *server->clocks);
    server->session = calloc(server->ranks, sizeof *server->session);
    assert_non_null(server->clocks);
    assert_non_null(server->session);
    assert_non_null(server->members.shard_name);
    assert_non_null(server->members.standby);
    assert_int_equal(gw_session_open(server, &error), GW_OK);
    assert_int_equal(gw_whole_open(server, &error), GW_OK);
    assert_int_equal(gw_save_open(server, &error), GW_OK);
}

void single_connect(struct single *single,
                    single_answered answered,
                    void *owner)
{
    struct gw_server *server = &single->server;
    struct gw_error error;
    single->answered = answered;
    single->owner = owner;
    single->member.loop = server->loop;
    single->transport.ops = &copies;
    single->transport.loop = server->loop;
    server->member = &single->member;
    if (server->regime.whole_step)
        assert_int_equal(gw_follow_open(server, &error), GW_OK);
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        connect(single, rank);
    server->running = 1;
    gw_session_present(server);
}

void single_close(struct single *single)
{
    struct gw_server *server = &single->server;
    gw_follow_close(server);
    gw_save_close(server);
    gw_whole_close(server);
    gw_session_close(server);
    gw_terms_close(server);
    gw_map_destroy(server->map);
    free(server->clocks);
    free(server->session);
    free(server->members.shard_name);
    free(server->members.standby);
    gw_loop_close(server->loop);
    gw_sim_destroy(single->sim);
}

void single_seed(struct single *single, uint32_t chunk, const float *w)
{
    gw_shard_seed(single->server.shard, chunk, w);
}

void single_push(struct single *single,
                 uint32_t rank,
                 uint32_t index,
                 uint64_t clock,
                 uint32_t samples,
                 const float *push)
{
    struct gw_server *server = &single->server;
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    size_t bytes = chunk->elems * sizeof *push;
    struct gw_frame frame = {.kind = GW_FRAME_PUSH,
                             .clock = clock,
                             .chunk = chunk->global,
                             .count = samples,
                             .encoding = GW_ENCODING_RAW,
                             .dtype = GW_DTYPE_F32,
                             .decision = (uint32_t)server->decision};
    if (samples > 0) {
        frame.window = server->session[rank].landing;
        frame.offset = chunk->first * sizeof *push;
        frame.length = (uint32_t)bytes;
        memcpy(server->shard->landing[rank] + chunk->first, push, bytes);
    }
    gw_session_frame(server, &single->seat[rank].peer, 0, &frame, NULL);
    assert_false(gw_server_is_over(server));
}

void single_want(struct single *single,
                 uint32_t rank,
                 uint32_t index,
                 uint64_t clock)
{
    struct gw_server *server = &single->server;
    const struct gw_policy_word *word = &server->regime.word;
    int is_ssp = word->kind == GW_POLICY_SSP;
    const struct gw_want want = {
        .chunk = server->shard->chunk[index].global,
        .count = 1,
        .value = clock,
        .condition = is_ssp                    ? GW_WANT_MINIMUM
                     : server->regime.per_push ? GW_WANT_HELD
                                               : GW_WANT_VERSION,
        .encoding = GW_ENCODING_RAW,
        .slack = is_ssp ? (uint32_t)word->n : 0,
    };
    uint8_t bytes[GW_WANT_BYTES];
    gw_want_encode(&want, bytes);
    const struct gw_frame frame = {.kind = GW_FRAME_WANT,
                                   .length = sizeof bytes,
                                   .decision = (uint32_t)server->decision};
    gw_session_frame(server, &single->seat[rank].peer, 0, &frame, bytes);
}

static int never(void *owner)
{
    (void)owner;
    return 0;
}

void single_settle(struct single *single)
{
    gw_sim_run(single->sim, never, NULL, gw_sim_now(single->sim) + SETTLE_US);
}
