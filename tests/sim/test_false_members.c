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
#include "server/policy/decision_state.h"
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
                     (uint32_t)world->server->decision);
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
    assert_int_equal(world->server->due.deferred, 0);
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
                lie_of(liar, kinds[i],
                       (uint32_t)world->server->decision + ahead);
                session_pass_time(world, TURN_US);
                assert_false(liar->up);
                session_dial(liar);
                session_pass_time(world, TURN_US);
                assert_true(liar->up);
                want_all(liar, clock);
                step(world, clock);
            }
            stands_at(world, STEPS);
            assert_int_equal(world->server->end.clock, STEPS);
            session_close(world);
        }
    }
}

/* ---- a worker that sums for its host ---- */

enum sum_way {
    AS_IT_SHOULD,
    BESIDES,   /* the parts are of another clock */
    AGAIN,     /* the other rank has pushed by itself before */
    FOREIGN,   /* it is the other rank's to push */
    UNCOUNTED, /* neither part counts */
    SETS_TERMS /* as it should, and rank 1 sets terms */
};

struct sum_lie {
    const char *name;
    uint32_t rank[2], samples[2]; /* of the parts, */
    uint32_t parts;               /* so many of them */
    uint32_t count;               /* of the sum */
    enum sum_way way;
};

/* clang-format off */
static const struct sum_lie true_sum =
    {"the truth", {0, 1}, {2, 2}, 2, 4, AS_IT_SHOULD};
static const struct sum_lie sum_lies[] = {
    {"parts that add up to less", {0, 1}, {2, 2}, 2, 5, AS_IT_SHOULD},
    {"parts that add up to more", {0, 1}, {2, 2}, 2, 3, AS_IT_SHOULD},
    {"parts that wrap around", {0, 1}, {UINT32_MAX, 5}, 2, 4, AS_IT_SHOULD},
    {"no parts", {0, 1}, {2, 2}, 0, 4, AS_IT_SHOULD},
    {"one part only", {0, 1}, {4, 0}, 1, 4, AS_IT_SHOULD},
    {"a rank's part twice", {1, 1}, {2, 2}, 2, 4, AS_IT_SHOULD},
    {"parts of no rank", {0, 77}, {2, 2}, 2, 4, AS_IT_SHOULD},
    {"parts of another clock", {0, 1}, {2, 2}, 2, 4, BESIDES},
    {"a part that is in already", {0, 1}, {2, 2}, 2, 4, AGAIN},
    {"another owner's chunk", {0, 1}, {2, 2}, 2, 4, FOREIGN},
    {"a sum of no part", {0, 1}, {2, 2}, 2, 4, UNCOUNTED},
};
/* clang-format on */

static void send_sum(struct session_sender *sender,
                     uint32_t index,
                     const struct sum_lie *sum)
{
    uint32_t chunk = chunk_at(sender->world, index);
    uint8_t bytes[2 * GW_PART_BYTES];
    enum gw_part_gradient gradient =
        sum->way == UNCOUNTED ? GW_GRADIENT_UNCOUNTED : GW_GRADIENT_MADE;
    const struct gw_part part[2] = {
        {sum->rank[0], sum->samples[0], gradient, 0},
        {sum->rank[1], sum->samples[1], gradient, sum->way == SETS_TERMS}};
    const struct gw_frame parts = {.kind = GW_FRAME_PARTS,
                                   .clock = sum->way == BESIDES,
                                   .chunk = chunk,
                                   .length = sum->parts * GW_PART_BYTES};
    struct gw_frame push = session_put(sender, GW_FRAME_PUSH, chunk, 0);
    gw_parts_encode(part, 2, bytes);
    if (sum->parts > 0)
        session_send(sender, &parts, bytes, sizeof bytes);
    push.flags = GW_FLAG_SUM;
    push.count = sum->count;
    send_zeros(sender, &push);
    session_pass_time(sender->world, TURN_US);
}

/* A lie about one chunk, then the truth about all of them. */
static void lie_about_a_sum(const struct sum_lie *lie)
{
    const struct session_options options = {.grouped = 1};
    const struct gw_group group = {.first = 0, .n = SESSION_WORKERS};
    struct session_world *world = session_open(&options);
    uint32_t owner = gw_group_owner(group, chunk_at(world, 0));
    struct session_sender *liar =
        &world->sender[lie->way == FOREIGN ? !owner : owner];
    struct session_sender *mate = &world->sender[!owner];
    begin(world);
    if (lie->way == AGAIN)
        put(mate, GW_FRAME_PUSH, 0, 0);
    session_pass_time(world, TURN_US);
    uint32_t held = world->server->shard->chunk[0].held;
    send_sum(liar, 0, lie);
    if (liar->up)
        fail_msg("%s is believed", lie->name);
    assert_int_equal(world->server->shard->chunk[0].version, 0);
    assert_int_equal(world->server->shard->chunk[0].held, held);
    session_dial(liar);
    session_pass_time(world, TURN_US);
    for (uint32_t i = 0; i < chunks_of(world); i++) {
        uint32_t rank = gw_group_owner(group, chunk_at(world, i));
        if (i == 0 && lie->way == AGAIN)
            put(liar, GW_FRAME_PUSH, 0, 0);
        else
            send_sum(&world->sender[rank], i, &true_sum);
    }
    session_pass_time(world, TURN_US);
    for (uint32_t i = 0; i < chunks_of(world); i++)
        assert_int_equal(world->server->shard->chunk[i].version, 1);
    session_close(world);
}

static void sums_that_cannot_be_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sum_lies / sizeof *sum_lies; i++)
        lie_about_a_sum(&sum_lies[i]);
}

/* Nobody sums who is by himself, or where pushes count alone. */
static void sums_of_no_group_are_refused(void **state)
{
    (void)state;
    static const char *const async[] = {"cluster.policy=async", NULL};
    for (int grouped = 0; grouped < 2; grouped++) {
        const struct session_options options = {
            .grouped = grouped, .settings = grouped ? async : NULL};
        struct session_world *world = session_open(&options);
        const struct gw_group group = {.first = 0, .n = SESSION_WORKERS};
        uint32_t owner = gw_group_owner(group, chunk_at(world, 0));
        begin(world);
        send_sum(&world->sender[owner], 0, &true_sum);
        assert_false(world->sender[owner].up);
        assert_int_equal(world->server->shard->chunk[0].version, 0);
        session_close(world);
    }
}

/* ---- hyperparameters ---- */

static void send_terms(struct session_sender *sender,
                       uint64_t clock,
                       const struct gw_group_terms *terms,
                       uint32_t bytes)
{
    uint8_t payload[2 * GW_TERMS_BYTES];
    const struct gw_frame frame = {
        .kind = GW_FRAME_TERMS,
        .clock = clock,
        .chunk = GW_CHUNK_NONE,
        .length = bytes,
        .decision = (uint32_t)sender->world->server->decision};
    gw_terms_encode(&terms[0], payload);
    gw_terms_encode(&terms[1], payload + GW_TERMS_BYTES);
    session_send(sender, &frame, payload, bytes);
    session_pass_time(sender->world, TURN_US);
}

static void terms_that_cannot_be_are_refused(void **state)
{
    static const struct {
        struct gw_group_terms terms[2];
        uint32_t bytes;
    } lies[] = {
        {{{0, {.lr = 1}}, {1, {.lr = 1}}}, 2 * GW_TERMS_BYTES},
        {{{0, {.lr = 1}}, {0, {.lr = 1}}}, 2 * GW_TERMS_BYTES},
        {{{0, {.lr = 1}}, {1, {.lr = 1}}}, GW_TERMS_BYTES - 1},
        {{{0, {.lr = -1}}, {1, {.lr = 1}}}, GW_TERMS_BYTES},
        {{{0, {.beta1 = 1}}, {1, {.lr = 1}}}, GW_TERMS_BYTES},
        {{{UINT32_MAX, {.lr = 1}}, {1, {.lr = 1}}}, GW_TERMS_BYTES},
    };
    static const struct gw_group_terms truth[2] = {{0, {.lr = 0.5}}};
    const struct session_options options = {.number = 0};
    struct session_world *world = session_open(&options);
    struct session_sender *liar = &world->sender[1];
    (void)state;
    begin(world);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        send_terms(liar, 0, lies[i].terms, lies[i].bytes);
        if (liar->up)
            fail_msg("lie %zu is believed", i);
        assert_int_equal(world->server->session[1].terms.n, 0);
        session_dial(liar);
        session_pass_time(world, TURN_US);
    }
    send_terms(liar, 0, truth, GW_TERMS_BYTES);
    assert_true(liar->up);
    assert_true(gw_terms_of_push(world->server, 1, 0).lr == 0.5);
    session_close(world);
}

/* A rank cannot have pushes of more clocks than a few. */
static void terms_of_many_clocks_are_refused(void **state)
{
    static const struct gw_group_terms terms[2] = {{0, {.lr = 0.5}}};
    const struct session_options options = {.number = 0};
    struct session_world *world = session_open(&options);
    struct session_sender *liar = &world->sender[1];
    (void)state;
    begin(world);
    for (uint64_t clock = 0; clock < 100 && liar->up; clock++)
        send_terms(liar, clock, terms, GW_TERMS_BYTES);
    assert_false(liar->up);
    assert_in_range(world->server->session[1].terms.n, 2, 8);
    session_close(world);
}

/* The sum of a host comes over one link, terms of its ranks over others. */
static void a_sum_waits_for_the_terms_of_its_ranks(void **state)
{
    static const struct gw_group_terms terms[2] = {{0, {.lr = 0.5}}};
    static const struct sum_lie sets = {.name = "sets terms",
                                        .rank = {0, 1},
                                        .samples = {2, 2},
                                        .parts = 2,
                                        .count = 4,
                                        .way = SETS_TERMS};
    const struct session_options options = {.grouped = 1};
    const struct gw_group group = {.first = 0, .n = SESSION_WORKERS};
    struct session_world *world = session_open(&options);
    (void)state;
    begin(world);
    for (uint32_t i = 0; i < chunks_of(world); i++)
        send_sum(&world->sender[gw_group_owner(group, chunk_at(world, i))], i,
                 &sets);
    send_terms(&world->sender[0], 0, terms, GW_TERMS_BYTES);
    send_terms(&world->sender[1], 1, terms, GW_TERMS_BYTES);
    for (uint32_t i = 0; i < chunks_of(world); i++)
        assert_int_equal(world->server->shard->chunk[i].version, 0);
    send_terms(&world->sender[1], 0, terms, GW_TERMS_BYTES);
    for (uint32_t i = 0; i < chunks_of(world); i++)
        assert_int_equal(world->server->shard->chunk[i].version, 1);
    session_close(world);
}

/* ---- what sums are divided by ---- */

static void push_of(struct session_sender *sender,
                    uint32_t index,
                    uint32_t samples,
                    uint32_t decision)
{
    struct gw_frame frame =
        session_put(sender, GW_FRAME_PUSH, chunk_at(sender->world, index), 0);
    frame.count = samples;
    frame.decision = decision;
    if (samples == 0)
        frame.length = frame.window = 0;
    send_zeros(sender, &frame);
    session_pass_time(sender->world, TURN_US);
}

/* By speed either may have all of a step, but not both; whether their pushes
   count at once or wait for a decision, and whichever of them does. */
static void two_whole_steps_are_not_one(void **state)
{
    (void)state;
    static const char *const speed[] = {"train.split=speed", "train.batch=0",
                                        "train.global_batch=8", NULL};
    const uint32_t whole = 8;
    for (uint32_t ahead = 0; ahead < 4; ahead++) {
        const struct session_options options = {.number = 1, .settings = speed};
        struct session_world *world = session_open(&options);
        const struct gw_message decision = {
            .kind = GW_MESSAGE_DECISION,
            .decision = {.number = 1, .kind = GW_DECIDE_SCORE, .policy = ""}};
        begin(world);
        push_of(&world->sender[0], 0, whole, ahead & 1);
        push_of(&world->sender[1], 0, whole, ahead >> 1);
        if (!world->sender[0].up || world->sender[1].up)
            fail_msg("ahead %u: both are believed", ahead);
        session_lead(world, &decision);
        session_pass_time(world, TURN_US);
        assert_int_equal(world->server->due.deferred, 0);
        assert_int_equal(world->server->shard->chunk[0].samples, whole);
        session_dial(&world->sender[1]);
        session_pass_time(world, TURN_US);
        push_of(&world->sender[1], 0, 0, 1);
        assert_true(world->sender[1].up);
        assert_int_equal(world->server->shard->chunk[0].version, 1);
        session_close(world);
    }
}

/* A rank without a gradient says so without bytes: a sum with bytes that is
   divided by nothing cannot be. */
static void bytes_that_do_not_count_are_refused(void **state)
{
    (void)state;
    for (int lies = 0; lies < 2; lies++) {
        struct session_world *world =
            session_open(&(struct session_options){0});
        struct session_sender *sender = &world->sender[0];
        begin(world);
        struct gw_frame frame =
            session_put(sender, GW_FRAME_PUSH, chunk_at(world, 0), 0);
        frame.flags = GW_FLAG_UNCOUNTED;
        if (!lies)
            frame.length = frame.window = 0;
        send_zeros(sender, &frame);
        session_pass_time(world, TURN_US);
        assert_int_equal(sender->up, !lies);
        assert_int_equal(world->server->shard->chunk[0].held, !lies);
        session_close(world);
    }
}

/* The norm to which gradients are clipped is divided by what votes count. */
static void a_vote_of_more_samples_ends_the_job(void **state)
{
    (void)state;
    static const uint64_t lies[] = {(uint64_t)1 << 40, 7, 0};
    static const char *const clips[] = {"train.clip=1", NULL};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const struct session_options options = {.settings = clips};
        struct session_world *world = session_open(&options);
        double values[64] = {0};
        uint32_t n = world->map->shard_chunks[1];
        const struct gw_message vote = {.kind = GW_MESSAGE_VOTE,
                                        .vote = {.phase = 1,
                                                 .total = n,
                                                 .samples = lies[i],
                                                 .values = values,
                                                 .values_n = n}};
        begin(world);
        step(world, 0);
        assert_false(world->finished);
        session_tell(&world->sender[2], &vote);
        session_pass_time(world, 1000000); /* for its last words */
        if (world->status != GW_EPROTO ||
            !strstr(world->text, "shard 1 counts "))
            fail_msg("%llu samples: \"%s\"", (unsigned long long)lies[i],
                     world->text);
        session_close(world);
    }
}

/* ---- what results are chosen by ---- */

/* A part that nobody has would be worth more than all others together: that
   version would be the best, and with early_stop the last. */
static void scores_of_more_than_the_test_set_are_refused(void **state)
{
    (void)state;
    static const uint64_t samples[] = {(uint64_t)1 << 40, UINT64_MAX,
                                       SESSION_TESTS, 2, 0};
    static const char *const stops[] = {"train.early_stop=1", "data.test=x",
                                        "train.eval_every=1 steps", NULL};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const struct session_options options = {.settings = stops};
        struct session_world *world = session_open(&options);
        struct session_sender *liar = &world->sender[1];
        const struct gw_message truth = {
            .kind = GW_MESSAGE_SCORE,
            .score = {.loss = 6, .correct = 1, .samples = 2}};
        const struct gw_message lie = {
            .kind = GW_MESSAGE_SCORE,
            .score = {.correct = samples[i], .samples = samples[i]}};
        begin(world);
        session_tell(&world->sender[0], &truth);
        session_tell(liar, &lie);
        session_pass_time(world, TURN_US);
        if (liar->up)
            fail_msg("%llu samples are believed",
                     (unsigned long long)samples[i]);
        assert_int_equal(world->server->leader->state.evaluations, 0);
        session_dial(liar);
        session_pass_time(world, TURN_US);
        session_tell(liar,
                     &(struct gw_message){
                         .kind = GW_MESSAGE_SCORE,
                         .score = {.loss = 9, .correct = 1, .samples = 3}});
        session_pass_time(world, TURN_US);
        assert_int_equal(world->server->leader->state.evaluations, 1);
        assert_true(world->server->leader->state.best_loss == 3);
        session_close(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_to_come_are_refused_where_they_are_made),
        cmocka_unit_test(sums_that_cannot_be_are_refused),
        cmocka_unit_test(sums_of_no_group_are_refused),
        cmocka_unit_test(terms_that_cannot_be_are_refused),
        cmocka_unit_test(terms_of_many_clocks_are_refused),
        cmocka_unit_test(a_sum_waits_for_the_terms_of_its_ranks),
        cmocka_unit_test(two_whole_steps_are_not_one),
        cmocka_unit_test(bytes_that_do_not_count_are_refused),
        cmocka_unit_test(a_vote_of_more_samples_ends_the_job),
        cmocka_unit_test(scores_of_more_than_the_test_set_are_refused),
    };
    return cmocka_run_group_tests_name("false members", tests, NULL, NULL);
}
