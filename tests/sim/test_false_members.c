/*
 * Members that are logged in at a server and lie: workers, a worker that sums
 * for its host, another shard. The liar is turned away by name, and those who
 * tell the truth do not notice.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/groups.h"
#include "server/server_state.h"
#include "tests/fuzz/session.h"

#define TURN_US 20000
#define STEPS   5 /* of the session's job */

/* ---- what is true ---- */

static uint32_t chunks_of(const struct session_world *world)
{
    return world->server->shard->chunks;
}

static uint32_t chunk_at(const struct session_world *world, uint32_t index)
{
    return world->server->shard->chunk[index].global;
}

static void send_zeros(struct session_sender *sender,
                       const struct gw_frame *frame)
{
    static const uint8_t zero[4];
    session_send(sender, frame, zero, sizeof zero);
}

static void
put(struct session_sender *sender, uint8_t kind, uint32_t index, uint64_t clock)
{
    const struct gw_frame frame =
        session_put(sender, kind, chunk_at(sender->world, index), clock);
    send_zeros(sender, &frame);
}

static void seed_all(struct session_world *world)
{
    for (uint32_t i = 0; i < chunks_of(world); i++)
        put(&world->sender[0], GW_FRAME_SEED, i, 0);
    session_pass_time(world, TURN_US);
}

static void want_all(struct session_sender *sender, uint64_t version)
{
    const struct session_world *world = sender->world;
    for (uint32_t i = 0; i < chunks_of(world); i++)
        session_want(sender, chunk_at(world, i), version,
                     world->server->decision);
}

/* A step of both workers, each by itself. */
static void step(struct session_world *world, uint64_t clock)
{
    for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++)
        want_all(&world->sender[rank], clock + 1);
    session_pass_time(world, TURN_US);
    for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++)
        for (uint32_t i = 0; i < chunks_of(world); i++)
            put(&world->sender[rank], GW_FRAME_PUSH, i, clock);
    session_pass_time(world, TURN_US);
}

static void begin(struct session_world *world)
{
    assert_true(world->ready);
    seed_all(world);
    for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++)
        want_all(&world->sender[rank], 0);
    session_pass_time(world, TURN_US);
}

/* Every chunk is at this version, and nothing waits. */
static void stands_at(struct session_world *world, uint64_t version)
{
    assert_false(world->finished);
    assert_int_equal(world->server->deferred, 0);
    for (uint32_t i = 0; i < chunks_of(world); i++) {
        assert_int_equal(world->server->shard->chunk[i].version, version);
        for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++) {
            const struct gw_want_slot *slot =
                gw_wants_slot(world->server->wants, rank, i);
            assert_false(slot->open || slot->sending);
        }
    }
}

/* ---- decisions that nobody has made ---- */

#define FUTURE 100000

static void lie_of(struct session_sender *liar, uint8_t kind, uint32_t decision)
{
    static const uint8_t zero[GW_PART_BYTES];
    struct session_world *world = liar->world;
    uint32_t chunk = chunk_at(world, 0);
    uint64_t clock = world->server->shard->chunk[0].version;
    struct gw_frame frame = session_put(liar, kind, chunk, clock);
    frame.decision = decision;
    if (kind == GW_FRAME_WANT) {
        session_want(liar, chunk, clock, decision);
        return;
    }
    if (kind == GW_FRAME_PARTS)
        frame = (struct gw_frame){.kind = kind,
                                  .chunk = chunk,
                                  .length = sizeof zero,
                                  .decision = decision};
    session_send(liar, &frame, zero, sizeof zero);
}

/* Shard 0 makes the decisions: nobody can know one that it has not made. What
   comes of it may be neither an answer, nor a push that waits for ever. */
static void decisions_to_come_are_refused_where_they_are_made(void **state)
{
    static const uint8_t kinds[] = {GW_FRAME_PUSH, GW_FRAME_SEED, GW_FRAME_WANT,
                                    GW_FRAME_PARTS};
    (void)state;
    for (size_t i = 0; i < sizeof kinds; i++) {
        for (uint32_t ahead = 1; ahead < 2 * FUTURE; ahead += FUTURE) {
            const struct session_options options = {.number = 0};
            struct session_world *world = session_open(&options);
            /* seeds are rank 0's */
            struct session_sender *liar =
                &world->sender[kinds[i] != GW_FRAME_SEED];
            begin(world);
            for (uint64_t clock = 0; clock < STEPS; clock++) {
                lie_of(liar, kinds[i], world->server->decision + ahead);
                session_pass_time(world, TURN_US);
                assert_false(liar->up);
                session_dial(liar);
                session_pass_time(world, TURN_US);
                assert_true(liar->up);
                want_all(liar, clock);
                step(world, clock);
            }
            stands_at(world, STEPS);
            assert_int_equal(world->server->end_clock, STEPS);
            session_close(world);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_to_come_are_refused_where_they_are_made),
    };
    return cmocka_run_group_tests_name("false members", tests, NULL, NULL);
}
