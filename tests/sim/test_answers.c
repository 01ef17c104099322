/*
 * What a shard answers, and from where: what is on its way stays as it is, and
 * who asks again meanwhile is answered again. And what it tells shard 0 while a
 * quiesce goes on.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/server_state.h"
#include "tests/fuzz/session.h"

#define TURN_US 20000

static uint32_t chunk_at(const struct session_world *world, uint32_t index)
{
    return world->server->shard->chunk[index].global;
}

static void
put(struct session_sender *sender, uint8_t kind, uint32_t index, uint64_t clock)
{
    static const uint8_t zero[4];
    const struct session_world *world = sender->world;
    struct gw_frame frame =
        session_put(sender, kind, chunk_at(world, index), clock);
    frame.decision = (uint32_t)world->server->decision;
    session_send(sender, &frame, zero, sizeof zero);
}

static struct session_world *begin(const struct session_options *options)
{
    struct session_world *world = session_open(options);
    assert_true(world->ready);
    for (uint32_t i = 0; i < world->server->shard->chunks; i++)
        put(&world->sender[0], GW_FRAME_SEED, i, 0);
    session_pass_time(world, TURN_US);
    return world;
}

static void
want(struct session_world *world, uint32_t rank, uint32_t index, uint64_t value)
{
    session_want(&world->sender[rank], chunk_at(world, index), value,
                 (uint32_t)world->server->decision);
}

static int is_of_the_shard(const struct gw_shard *shard, const void *payload)
{
    for (int i = 0; i < 2; i++)
        if ((const float *)payload >= shard->weights[i] &&
            (const float *)payload < shard->weights[i] + shard->elems)
            return 1;
    return 0;
}

/*
 * A chunk comes to where per-push policies begin before others do, and is
 * answered there, still under the policy before. From there on pushes of one
 * rank may make version after version while the answer to another is on its
 * way: it is a copy. Where no such policy is next, it is none.
 */
static void answers_before_single_pushes_are_copies(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "cluster.policy=\"sync until 1, async\"",
        "cluster.policy=\"sync until 1, backup:1\"",
        "cluster.policy=\"sync until 1, local:2\"", "cluster.policy=sync"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const char *settings[] = {plans[i], NULL};
        const struct session_options options = {.settings = settings};
        struct session_world *world = begin(&options);
        struct gw_server *server = world->server;
        assert_true(server->shard->chunks > 1);
        for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++)
            for (uint32_t c = 0; c < server->shard->chunks; c++)
                want(world, rank, c, 0);
        session_pass_time(world, TURN_US);
        assert_int_equal(server->switches.next.decision > 0, i < 3);
        for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++)
            put(&world->sender[rank], GW_FRAME_PUSH, 0, 0);
        session_pass_time(world, TURN_US);
        assert_int_equal(server->shard->chunk[0].version, 1);
        assert_int_equal(server->regime.word.kind, GW_POLICY_SYNC);
        want(world, 0, 0, 1);
        session_pass_time(world, TURN_US);
        const struct gw_want_slot *slot = gw_wants_slot(server->wants, 0, 0);
        assert_false(slot->open);
        assert_int_equal(is_of_the_shard(server->shard, slot->answer.payload),
                         i >= 2);
        session_close(world);
    }
}

/* It asks again while the answer is on its way, and nothing else happens that
   would have its want looked at. */
static void who_asks_again_is_answered_again(void **state)
{
    (void)state;
    const struct session_options options = {.number = 0};
    struct session_world *world = begin(&options);
    for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++) {
        const struct gw_want_slot *slot =
            gw_wants_slot(world->server->wants, rank, 0);
        uint64_t answered =
            gw_metrics_get(&world->metrics, GW_METRIC_WANTS_ANSWERED);
        want(world, rank, 0, 0);
        session_pass_time(world, 15); /* it has come, and is not answered yet */
        assert_true(slot->sending && !slot->open);
        want(world, rank, 0, 0);
        session_pass_time(world, 15);
        assert_true(slot->sending && slot->open);
        session_pass_time(world, TURN_US);
        assert_false(slot->sending || slot->open);
        assert_int_equal(
            gw_metrics_get(&world->metrics, GW_METRIC_WANTS_ANSWERED),
            answered + 2);
    }
    session_close(world);
}

/* ---- quiescing ---- */

#define UNTAKEN_MOST                                                           \
    16 /* Quiesced that wait to be acknowledged (PROTOCOL 10)                  \
        */

/* Each want and push in a quiesce is a reason to say where all stand, and each
   time it is as long as there are ranks: shard 0 is told no faster than it
   takes it, and of the last state in the end. */
static void a_quiesce_is_told_no_faster_than_it_is_taken(void **state)
{
    (void)state;
    static const char *const async[] = {"cluster.policy=async", NULL};
    const struct session_options options = {.settings = async, .number = 1};
    struct session_world *world = begin(&options);
    struct gw_server *server = world->server;
    session_lead(world,
                 &(struct gw_message){.kind = GW_MESSAGE_DECISION,
                                      .decision = {.number = 1,
                                                   .kind = GW_DECIDE_QUIESCE,
                                                   .policy = ""}});
    session_pass_time(world, TURN_US);
    assert_int_equal(server->quiesce.number, 1);
    uint64_t most = 0;
    for (uint32_t times = 0; times < 100; times++)
        want(world, times % SESSION_WORKERS, 0, 0);
    for (uint32_t times = 0; times < 200; times++) {
        uint64_t untaken = gw_peer_untaken(server->leader_peer);
        most = untaken > most ? untaken : most;
        session_pass_time(world, 1);
    }
    assert_int_equal(most, UNTAKEN_MOST);
    session_pass_time(world, 1000000);
    assert_int_equal(gw_peer_untaken(server->leader_peer), 0);
    assert_int_equal(world->quiesced.blocked_n, SESSION_WORKERS);
    session_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_before_single_pushes_are_copies),
        cmocka_unit_test(who_asks_again_is_answered_again),
        cmocka_unit_test(a_quiesce_is_told_no_faster_than_it_is_taken),
    };
    return cmocka_run_group_tests_name("answers", tests, NULL, NULL);
}
