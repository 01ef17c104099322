/* Rules of a server that are pure: schedules, policies, wants. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/policy/policy.h"
#include "proto/schedule.h"
#include "server/want.h"

/* ---- schedules, against closed forms ---- */

static struct gw_config job(enum gw_schedule schedule, uint64_t warmup)
{
    static struct gw_config config;
    gw_config_default(&config);
    config.optimizer.lr = 0.4;
    config.optimizer.schedule = schedule;
    config.optimizer.warmup = warmup;
    config.optimizer.final_lr = 0.1;
    config.optimizer.step_every = 10;
    config.optimizer.step_factor = 0.5;
    return config;
}

/* Nothing is known of the data: steps are all that counts. */
static const struct gw_course unknown = {.batch = 0};

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-12)

static void schedules_follow_their_formulas(void **state)
{
    (void)state;
    struct gw_config constant = job(GW_SCHEDULE_CONSTANT, 0);
    struct gw_config step = job(GW_SCHEDULE_STEP, 0);
    struct gw_config cosine = job(GW_SCHEDULE_COSINE, 0);
    struct gw_config linear = job(GW_SCHEDULE_LINEAR, 0);
    for (uint64_t t = 0; t <= 120; t++) {
        double done = t < 100 ? (double)t / 100 : 1;
        NEAR(gw_schedule_lr(&constant, &unknown, t, 100), 0.4);
        NEAR(gw_schedule_lr(&step, &unknown, t, 100),
             0.4 / pow(2, (double)(t / 10)));
        NEAR(gw_schedule_lr(&cosine, &unknown, t, 100),
             0.4 * (0.1 + 0.9 * (1 + cos(M_PI * done)) / 2));
        NEAR(gw_schedule_lr(&linear, &unknown, t, 100), 0.4 * (1 - 0.9 * done));
    }
    NEAR(gw_schedule_lr(&cosine, &unknown, 50, 100), 0.4 * 0.55);
    NEAR(gw_schedule_lr(&cosine, &unknown, 100, 100), 0.04);
}

/* Warm-up rises to the full rate, then the schedule begins at its beginning. */
static void warm_up_comes_first(void **state)
{
    (void)state;
    struct gw_config linear = job(GW_SCHEDULE_LINEAR, 20);
    for (uint64_t t = 0; t < 20; t++)
        NEAR(gw_schedule_lr(&linear, &unknown, t, 100),
             0.4 * (double)(t + 1) / 20);
    NEAR(gw_schedule_lr(&linear, &unknown, 20, 100), 0.4);
    NEAR(gw_schedule_lr(&linear, &unknown, 60, 100), 0.4 * (1 - 0.9 * 0.5));
    NEAR(gw_schedule_lr(&linear, &unknown, 100, 100), 0.04);
    /* a warm-up longer than the job never gets there, and divides by nothing */
    NEAR(gw_schedule_lr(&linear, &unknown, 5, 10), 0.4 * 6 / 20);
    NEAR(gw_schedule_lr(&linear, &unknown, 30, 10), 0.04);
}

/*
 * After 3 of 5 epochs of 10 steps a job goes on with steps of a fourth of the
 * size: step 30 of 110. By epochs it is still at three fifths, and comes to the
 * end with the last step.
 */
static void a_decay_by_epochs_goes_on_where_steps_change(void **state)
{
    (void)state;
    const struct gw_course course = {
        .clock = 30, .epoch = 3, .batch = 10, .samples = 400};
    struct gw_config linear = job(GW_SCHEDULE_LINEAR, 0);
    linear.train.epochs = 5;
    NEAR(gw_schedule_lr(&linear, &course, 30, 110), 0.4 * (1 - 0.9 * 0.6));
    NEAR(gw_schedule_lr(&linear, &course, 70, 110), 0.4 * (1 - 0.9 * 0.8));
    NEAR(gw_schedule_lr(&linear, &course, 110, 110), 0.04);
    /* in the middle of an epoch, with larger steps: 3.5 of 5 epochs */
    const struct gw_course larger = {
        .clock = 35, .epoch = 3, .sample = 200, .batch = 100, .samples = 400};
    NEAR(gw_schedule_lr(&linear, &larger, 35, 41), 0.4 * (1 - 0.9 * 0.7));
    NEAR(gw_schedule_lr(&linear, &larger, 41, 41), 0.04);
    /* a job of steps stays in steps, and so do warm-up and decays in steps */
    linear.train.epochs = 0;
    linear.train.steps = 110;
    NEAR(gw_schedule_lr(&linear, &course, 55, 110), 0.4 * (1 - 0.9 * 0.5));
    struct gw_config step = job(GW_SCHEDULE_STEP, 4);
    step.train.epochs = 5;
    NEAR(gw_schedule_lr(&step, &course, 2, 110), 0.4 * 3 / 4);
    NEAR(gw_schedule_lr(&step, &course, 34, 110), 0.4 / 8);
    /* epochs over which no decay has begun by now's steps */
    struct gw_config cosine = job(GW_SCHEDULE_COSINE, 20);
    cosine.train.epochs = 5;
    NEAR(gw_schedule_lr(&cosine, &larger, 35, 41), 0.4);
}

static void the_linear_rule_scales_with_the_batch(void **state)
{
    (void)state;
    struct gw_config config = job(GW_SCHEDULE_CONSTANT, 0);
    config.train.scale_lr = GW_SCALE_LR_LINEAR;
    config.train.base_batch = 256;
    config.train.global_batch = 1024;
    NEAR(gw_schedule_lr(&config, &unknown, 0, 10), 1.6);
    config.train.global_batch = 64;
    NEAR(gw_schedule_lr(&config, &unknown, 0, 10), 0.1);
    config.train.batch = 8;
    config.train.global_batch = 0;
    config.train.accumulate = 2;
    config.cluster.workers = 3;
    assert_int_equal(gw_schedule_batch(&config), 48);
    config.train.global_batch = 100;
    assert_int_equal(gw_schedule_batch(&config), 100);
}

/* ---- policies ---- */

static void sync_takes_each_push_of_its_clock_once(void **state)
{
    (void)state;
    const struct gw_policy *sync = gw_policy_find(GW_POLICY_SYNC);
    assert_non_null(sync);
    assert_null(gw_policy_find(GW_POLICY_KINDS));
    for (uint64_t version = 0; version < 5; version++) {
        for (uint64_t clock = 0; clock < 8; clock++) {
            enum gw_push_verdict free = clock < version    ? GW_PUSH_DUPLICATE
                                        : clock == version ? GW_PUSH_HOLD
                                                           : GW_PUSH_VIOLATION;
            enum gw_push_verdict held =
                clock <= version ? GW_PUSH_DUPLICATE : GW_PUSH_VIOLATION;
            struct gw_policy_view view = {.version = version};
            assert_int_equal(sync->judge(&view, clock), free);
            view.held = 1;
            assert_int_equal(sync->judge(&view, clock), held);
        }
    }
    struct gw_policy_view view = {.version = 0};
    assert_int_equal(sync->judge(&view, UINT64_MAX), GW_PUSH_VIOLATION);
    assert_false(sync->complete(2, 3));
    assert_true(sync->complete(3, 3));
    struct gw_want want = {.condition = GW_WANT_VERSION, .value = 4};
    view.version = 3;
    assert_false(sync->answerable(&want, &view));
    view.version = 4;
    assert_true(sync->answerable(&want, &view));
    view.version = 5;
    assert_true(sync->answerable(&want, &view));
    /* posted under the policy before */
    want.condition = GW_WANT_HELD;
    assert_true(sync->answerable(&want, &view));
    view.version = 3;
    assert_false(sync->answerable(&want, &view));
}

static void backup_tells_late_from_known(void **state)
{
    (void)state;
    const struct gw_policy *backup = gw_policy_find(GW_POLICY_BACKUP);
    assert_non_null(backup);
    assert_false(backup->per_push);
    /* of its clocks up to 4 the rank's pushes are known */
    struct gw_policy_view view = {.version = 7, .mark = 5};
    assert_int_equal(backup->judge(&view, 4), GW_PUSH_DUPLICATE);
    assert_int_equal(backup->judge(&view, 5), GW_PUSH_LATE);
    assert_int_equal(backup->judge(&view, 6), GW_PUSH_LATE);
    assert_int_equal(backup->judge(&view, 7), GW_PUSH_HOLD);
    assert_int_equal(backup->judge(&view, 8), GW_PUSH_VIOLATION);
    assert_int_equal(backup->judge(&view, UINT64_MAX), GW_PUSH_VIOLATION);
    view.left_out = 1;
    assert_int_equal(backup->judge(&view, 7), GW_PUSH_LATE);
    view.mark = 8;
    assert_int_equal(backup->judge(&view, 7), GW_PUSH_DUPLICATE);
    view = (struct gw_policy_view){.version = 7, .mark = 5, .held = 1};
    assert_int_equal(backup->judge(&view, 7), GW_PUSH_DUPLICATE);
    assert_int_equal(backup->judge(&view, 6), GW_PUSH_DUPLICATE);
    assert_int_equal(backup->judge(&view, 8), GW_PUSH_VIOLATION);
    /* shard 0 says which pushes make a version, not their number */
    assert_false(backup->complete(3, 3));
    const struct gw_want want = {.condition = GW_WANT_VERSION, .value = 7};
    assert_true(backup->answerable(&want, &view));
    view.version = 6;
    assert_false(backup->answerable(&want, &view));
}

static void single_pushes_come_in_the_order_of_their_rank(void **state)
{
    (void)state;
    const enum gw_policy_kind kinds[] = {
        GW_POLICY_ASYNC, GW_POLICY_SSP, GW_POLICY_STALE_LR, GW_POLICY_DC_ASYNC};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct gw_policy *policy = gw_policy_find(kinds[i]);
        assert_true(policy->per_push);
        /* how far the chunk is by others does not matter */
        struct gw_policy_view view = {.version = 99, .mark = 5, .least = 2};
        assert_int_equal(policy->judge(&view, 4), GW_PUSH_DUPLICATE);
        assert_int_equal(policy->judge(&view, 5), GW_PUSH_HOLD);
        assert_int_equal(policy->judge(&view, 6), GW_PUSH_VIOLATION);
        view.held = 1;
        assert_int_equal(policy->judge(&view, 5), GW_PUSH_DUPLICATE);
        assert_false(policy->complete(0, 3));
        assert_true(policy->complete(1, 3));
    }
}

static void async_answers_who_has_pushed(void **state)
{
    (void)state;
    const enum gw_policy_kind kinds[] = {GW_POLICY_ASYNC, GW_POLICY_STALE_LR,
                                         GW_POLICY_DC_ASYNC};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct gw_policy *policy = gw_policy_find(kinds[i]);
        struct gw_want want = {.condition = GW_WANT_HELD, .value = 7};
        struct gw_policy_view view = {.version = 99, .mark = 6, .least = 6};
        assert_false(policy->answerable(&want, &view));
        view.mark = 7;
        view.least = 0;
        assert_true(policy->answerable(&want, &view));
        /* posted under the policy before: its version is what is in */
        want.condition = GW_WANT_VERSION;
        assert_true(policy->answerable(&want, &view));
        view.mark = 6;
        assert_false(policy->answerable(&want, &view));
    }
}

static void ssp_waits_for_the_slowest(void **state)
{
    (void)state;
    const struct gw_policy *ssp = gw_policy_find(GW_POLICY_SSP);
    struct gw_want want = {
        .condition = GW_WANT_MINIMUM, .value = 7, .slack = 3};
    struct gw_policy_view view = {.mark = 7};
    for (view.least = 0; view.least < 8; view.least++)
        assert_int_equal(ssp->answerable(&want, &view), view.least >= 4);
    view.mark = 6;
    assert_false(ssp->answerable(&want, &view));
    want.value = 2; /* nobody can be further behind than the beginning */
    view.least = 0;
    assert_true(ssp->answerable(&want, &view));
    want.value = 7; /* posted under the policy before, where nobody was ahead */
    want.condition = GW_WANT_HELD;
    assert_false(ssp->answerable(&want, &view));
    view.mark = 7;
    assert_true(ssp->answerable(&want, &view));
}

/* Beyond the ranks with samples, and the slowest of all, it waits. */
static void ranks_without_samples_do_not_run_ahead(void **state)
{
    (void)state;
    const struct gw_policy *async = gw_policy_find(GW_POLICY_ASYNC);
    const struct gw_want want = {.condition = GW_WANT_HELD, .value = 7};
    struct gw_policy_view view = {.mark = 7, .least = 2, .most = 6, .idle = 1};
    assert_false(async->answerable(&want, &view));
    view.most = 7;
    assert_true(async->answerable(&want, &view));
    view.most = 0;
    view.least = 7;
    assert_true(async->answerable(&want, &view));
    view.least = 2;
    view.idle = 0;
    assert_true(async->answerable(&want, &view));
}

static void pushes_count_by_their_samples(void **state)
{
    (void)state;
    /* three ranks of one clock come to the learning rate once */
    double sum = 0;
    for (unsigned n = 1; n <= 3; n++)
        sum += gw_policy_lr_factor(GW_POLICY_ASYNC, 1.0 / 3, 3, 10 * n, 60, 9);
    NEAR(sum, 1);
    NEAR(gw_policy_lr_factor(GW_POLICY_SSP, 0.5, 4, 15, 60, 9), 0.5);
    NEAR(gw_policy_lr_factor(GW_POLICY_STALE_LR, 0.25, 4, 15, 60, 5), 0.05);
    NEAR(gw_policy_lr_factor(GW_POLICY_STALE_LR, 0.25, 4, 15, 60, 0), 0.25);
    NEAR(gw_policy_weight(GW_POLICY_STALE_LR, 0), 1);
    NEAR(gw_policy_weight(GW_POLICY_STALE_LR, 1), 1);
    NEAR(gw_policy_weight(GW_POLICY_STALE_LR, 8), 0.125);
    NEAR(gw_policy_weight(GW_POLICY_DC_ASYNC, 8), 1);
}

static void only_stale_lr_gathers(void **state)
{
    (void)state;
    static const uint32_t group[][2] = {/* of 7 ranks */
                                        {1, 7},
                                        {2, 3},
                                        {3, 2},
                                        {4, 1},
                                        {7, 1}};
    struct gw_policy_word word = {.kind = GW_POLICY_STALE_LR};
    for (size_t i = 0; i < sizeof group / sizeof *group; i++) {
        word.n = group[i][0];
        assert_int_equal(gw_policy_group(&word, 7), group[i][1]);
    }
    for (int kind = 0; kind < GW_POLICY_KINDS; kind++) {
        word = (struct gw_policy_word){(enum gw_policy_kind)kind, 1};
        assert_int_equal(gw_policy_group(&word, 7),
                         kind == GW_POLICY_STALE_LR ? 7 : 1);
    }
}

/* ---- wants ---- */

#define RANKS  2
#define SHARDS 3

static struct gw_map *make_map(void)
{
    const struct gw_key keys[] = {
        {.name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {100000}},
        {.name = "b", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {3}},
        {.name = "c", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {50000}}};
    struct gw_map *map;
    struct gw_error error;
    assert_int_equal(gw_map_create(keys, 3, SHARDS, &map, &error), GW_OK);
    return map;
}

struct opened {
    unsigned count[64]; /* by local chunk */
    uint32_t rank;
};

static void on_opened(void *owner, uint32_t rank, uint32_t chunk)
{
    struct opened *opened = owner;
    opened->rank = rank;
    opened->count[chunk]++;
}

/* What link 0 or 1 of a shard has opened of a run over the whole model: its
   chunks, with the place that they have in the arena, or in half of it. */
static unsigned
assert_opened(struct gw_wants *wants, unsigned link, enum gw_encoding encoding)
{
    const struct gw_map *map = wants->map;
    const uint64_t part = encoding == GW_ENCODING_BF16 ? 2 : 1;
    const struct gw_want want = {.count = (uint32_t)map->chunks,
                                 .value = 7,
                                 .offset = 1000,
                                 .condition = GW_WANT_VERSION,
                                 .encoding = (uint8_t)encoding};
    struct opened opened = {.rank = 0};
    unsigned total = 0;
    assert_int_equal(
        gw_wants_post(wants, 1, link, 2, &want, 0, on_opened, &opened), GW_OK);
    for (uint32_t i = 0; i < wants->chunks; i++) {
        uint32_t chunk = map->shard_chunk[wants->shard][i];
        assert_int_equal(opened.count[i], chunk % 2 == link);
        total += opened.count[i];
        if (!opened.count[i])
            continue;
        const struct gw_want_slot *slot = gw_wants_slot(wants, 1, i);
        assert_int_equal(opened.rank, 1);
        assert_true(slot->open);
        assert_int_equal(slot->want.chunk, chunk);
        assert_int_equal(slot->want.count, 1);
        assert_int_equal(slot->want.value, 7);
        assert_int_equal(slot->want.encoding, encoding);
        assert_int_equal(slot->want.offset,
                         1000 + map->chunk[chunk].arena_offset / part);
        assert_false(gw_wants_slot(wants, 0, i)->open);
    }
    return total;
}

/* Every chunk once, at the shard and on the link that it belongs to. */
static void a_run_opens_each_chunk_where_it_belongs(void **state)
{
    (void)state;
    struct gw_map *map = make_map();
    assert_true(map->chunks > 6);
    for (enum gw_encoding e = GW_ENCODING_RAW; e < GW_ENCODINGS; e++) {
        unsigned total = 0;
        for (uint32_t shard = 0; shard < SHARDS; shard++) {
            struct gw_wants *wants;
            struct gw_error error;
            assert_int_equal(
                gw_wants_create(map, shard, RANKS, NULL, &wants, &error),
                GW_OK);
            for (unsigned link = 0; link < 2; link++)
                total += assert_opened(wants, link, e);
            gw_wants_destroy(wants);
        }
        assert_int_equal(total, map->chunks);
    }
    gw_map_destroy(map);
}

static void a_run_that_leaves_the_map_is_refused(void **state)
{
    (void)state;
    struct gw_map *map = make_map();
    struct gw_wants *wants;
    struct gw_error error;
    uint32_t chunks = (uint32_t)map->chunks;
    const struct gw_want wrong[] = {{.chunk = chunks, .count = 1},
                                    {.chunk = 0, .count = chunks + 1},
                                    {.chunk = chunks - 1, .count = 2},
                                    {.chunk = 1, .count = UINT32_MAX},
                                    {.chunk = UINT32_MAX, .count = 1}};
    struct opened opened = {.rank = 0};
    assert_int_equal(gw_wants_create(map, 0, RANKS, NULL, &wants, &error),
                     GW_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(
            gw_wants_post(wants, 0, 0, 1, &wrong[i], 0, on_opened, &opened),
            GW_EPROTO);
    for (size_t i = 0; i < sizeof opened.count / sizeof *opened.count; i++)
        assert_int_equal(opened.count[i], 0);
    gw_wants_destroy(wants);
    gw_map_destroy(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_follow_their_formulas),
        cmocka_unit_test(warm_up_comes_first),
        cmocka_unit_test(a_decay_by_epochs_goes_on_where_steps_change),
        cmocka_unit_test(the_linear_rule_scales_with_the_batch),
        cmocka_unit_test(sync_takes_each_push_of_its_clock_once),
        cmocka_unit_test(backup_tells_late_from_known),
        cmocka_unit_test(single_pushes_come_in_the_order_of_their_rank),
        cmocka_unit_test(async_answers_who_has_pushed),
        cmocka_unit_test(ssp_waits_for_the_slowest),
        cmocka_unit_test(ranks_without_samples_do_not_run_ahead),
        cmocka_unit_test(pushes_count_by_their_samples),
        cmocka_unit_test(only_stale_lr_gathers),
        cmocka_unit_test(a_run_opens_each_chunk_where_it_belongs),
        cmocka_unit_test(a_run_that_leaves_the_map_is_refused),
    };
    return cmocka_run_group_tests_name("server parts", tests, NULL, NULL);
}
