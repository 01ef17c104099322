/*
 * proto/rounds: where exchanges lie, counted clock by clock over all small
 * jobs, and what makes a job that is stopped or resumed the same job.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/rounds.h"

#define PARTS_MAX 5

/* Steps of an epoch, where meetings are told in epochs. */
#define EPOCH 7

/* Behind every `last` below. */
#define HORIZON 40

static struct gw_config config;

static const struct gw_course course = {.batch = 1, .samples = EPOCH};

/* No meetings but the ends. */
static void no_meetings(void)
{
    gw_config_default(&config);
    config.train.eval_every = (struct gw_every){.unit = GW_NEVER};
    config.checkpoint.every = (struct gw_every){.n = 3, .unit = GW_SECONDS};
}

static struct gw_rounds
rounds_of(enum gw_policy_kind kind, uint64_t n, uint64_t first, uint64_t last)
{
    const struct gw_policy_word word = {kind, n};
    return gw_rounds_of(&config, &word, first, UINT64_MAX, last, &course);
}

/* ---- all at once ---- */

static void single_steps_are_exchanged_each(void **state)
{
    (void)state;
    static const struct gw_policy_word words[] = {
        {GW_POLICY_SYNC, 0},  {GW_POLICY_BACKUP, 1},   {GW_POLICY_SSP, 4},
        {GW_POLICY_ASYNC, 0}, {GW_POLICY_STALE_LR, 3}, {GW_POLICY_DC_ASYNC, 0},
    };
    no_meetings();
    config.policy.fragments = 3; /* diloco's alone */
    config.policy.overlap = 2;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct gw_rounds rounds =
            rounds_of(words[i].kind, words[i].n, 5, HORIZON);
        assert_int_equal(rounds.fragments, 1);
        for (uint64_t clock = 5; clock < HORIZON + 5; clock++) {
            assert_int_equal(gw_rounds_next(&rounds, 0, clock), clock + 1);
            assert_int_equal(gw_rounds_meeting(&rounds, clock), clock + 1);
            assert_true(gw_rounds_meets(&rounds, clock));
        }
    }
}

/* Each worker's own, and without an end. */
static void single_rounds_know_no_end(void **state)
{
    static const enum gw_policy_kind kinds[] = {GW_POLICY_DOWNPOUR,
                                                GW_POLICY_EASGD};
    (void)state;
    no_meetings();
    for (uint64_t t = 1; t <= 12; t++) {
        struct gw_rounds rounds = rounds_of(kinds[t % 2], (t + 1) / 2, 0, 10);
        for (uint64_t clock = 0; clock < 20; clock++)
            assert_int_equal(gw_rounds_next(&rounds, 0, clock),
                             clock + (t + 1) / 2);
    }
}

/* Meetings are of no concern where all of the model is exchanged at once. */
static void rounds_end_with_the_phase(void **state)
{
    (void)state;
    static const enum gw_policy_kind kinds[] = {GW_POLICY_LOCAL,
                                                GW_POLICY_DILOCO};
    gw_config_default(&config);
    config.train.eval_every = (struct gw_every){1, GW_EPOCHS};
    config.checkpoint.every = (struct gw_every){2, GW_STEPS};
    for (int i = 0; i < 2; i++)
        for (uint64_t h = 1; h <= 6; h++)
            for (uint64_t first = 0; first <= 9; first += 3)
                for (uint64_t last = first + 1; last <= first + 14; last++) {
                    struct gw_rounds rounds =
                        rounds_of(kinds[i], h, first, last);
                    uint64_t clock = first, exchanges = 0;
                    for (; clock < last; exchanges++) {
                        uint64_t next = gw_rounds_next(&rounds, 0, clock);
                        uint64_t left = last - clock;
                        assert_int_equal(next, clock + (left < h ? left : h));
                        assert_int_equal(gw_rounds_meeting(&rounds, clock),
                                         next);
                        assert_true(gw_rounds_meets(&rounds, clock));
                        clock = next;
                    }
                    assert_int_equal(clock, last);
                    assert_int_equal(exchanges, (last - first + h - 1) / h);
                    assert_true(gw_rounds_next(&rounds, 0, last) > last);
                }
}

/* ---- in parts ---- */

struct job {
    uint64_t h, parts, overlap, first, last;
    uint64_t eval, save; /* in steps; 0: never */
};

/* What the manual says, of one clock. */
static int should_meet(const struct job *job, uint64_t clock)
{
    return clock == job->first || clock == job->last ||
           (job->eval && clock % job->eval == 0) ||
           (job->save && clock % job->save == 0);
}

/* Each part's turn comes every H steps, counted from the last meeting, the
   later ones H / P earlier each. */
static int should_exchange(const struct job *job, uint64_t part, uint64_t clock)
{
    uint64_t meeting = clock - 1;
    while (!should_meet(job, meeting))
        meeting--;
    return should_meet(job, clock) ||
           (clock - meeting + part * job->h / job->parts) % job->h == 0;
}

static struct gw_rounds open_rounds(const struct job *job)
{
    no_meetings();
    config.policy.fragments = job->parts;
    config.policy.overlap = job->overlap;
    if (job->eval)
        config.train.eval_every = (struct gw_every){job->eval, GW_STEPS};
    if (job->save)
        config.checkpoint.every = (struct gw_every){job->save, GW_STEPS};
    struct gw_rounds rounds =
        rounds_of(GW_POLICY_DILOCO, job->h, job->first, job->last);
    assert_true(rounds.streams);
    assert_int_equal(rounds.fragments, job->parts);
    return rounds;
}

static void check_job(const struct job *job)
{
    const struct gw_rounds rounds = open_rounds(job);
    for (uint64_t clock = job->first; clock < job->last; clock++) {
        uint64_t meeting = clock + 1;
        while (!should_meet(job, meeting))
            meeting++;
        assert_int_equal(gw_rounds_meeting(&rounds, clock), meeting);
        assert_int_equal(gw_rounds_meets(&rounds, clock),
                         should_meet(job, clock));
        for (uint32_t part = 0; part < job->parts; part++) {
            uint64_t next = clock + 1;
            while (!should_exchange(job, part, next))
                next++;
            assert_int_equal(gw_rounds_next(&rounds, part, clock), next);
        }
    }
    assert_true(gw_rounds_meets(&rounds, job->last));
    /* it is asked for behind the end, too */
    for (uint32_t part = 0; part < job->parts; part++)
        for (uint64_t clock = job->last; clock < job->last + 9; clock++) {
            assert_true(gw_rounds_next(&rounds, part, clock) > clock);
            assert_true(gw_rounds_meeting(&rounds, clock) > clock);
        }
}

/*
 * A job that is resumed, or a phase that is begun, at a meeting has the
 * exchanges that it would have had: it does not matter where one begins.
 */
static void check_later_begins(const struct job *job)
{
    const struct gw_rounds rounds = open_rounds(job);
    for (uint64_t begin = job->first + 1; begin < job->last; begin++) {
        struct job later = *job;
        if (!should_meet(job, begin))
            continue;
        later.first = begin;
        const struct gw_rounds resumed = open_rounds(&later);
        for (uint64_t clock = begin; clock < job->last; clock++) {
            assert_int_equal(gw_rounds_meets(&resumed, clock),
                             gw_rounds_meets(&rounds, clock));
            for (uint32_t part = 0; part < job->parts; part++)
                assert_int_equal(gw_rounds_next(&resumed, part, clock),
                                 gw_rounds_next(&rounds, part, clock));
        }
    }
}

/* Parts lie H / P apart, so that no more of them than must come at once. */
static void check_turns(const struct job *job)
{
    uint64_t lasts = job->last - job->first;
    if (job->eval || job->save || lasts <= 2 * job->h)
        return;
    const struct gw_rounds rounds = open_rounds(job);
    uint64_t before = job->first + job->h;
    for (uint32_t part = 0; part < job->parts; part++) {
        uint64_t first = gw_rounds_next(&rounds, part, job->first);
        uint64_t apart = before - first, exact = job->h / job->parts;
        assert_in_range(apart, part ? exact : 0, part ? exact + 1 : 0);
        assert_int_equal(gw_rounds_next(&rounds, part, first), first + job->h);
        before = first;
    }
}

static void each(void (*check)(const struct job *job))
{
    for (uint64_t h = 1; h <= 7; h++)
        for (uint64_t parts = 1; parts <= PARTS_MAX; parts++)
            for (uint64_t eval = 0; eval <= 9; eval += 3)
                for (uint64_t save = 0; save <= 10; save += 5)
                    for (uint64_t first = 0; first <= 6; first++)
                        for (uint64_t last = first + 1; last <= 24; last++) {
                            const struct job job = {
                                .h = h,
                                .parts = parts,
                                .overlap = parts == 1 ? 1 : 0,
                                .first = first,
                                .last = last,
                                .eval = eval,
                                .save = save,
                            };
                            check(&job);
                        }
}

static void parts_take_turns_and_meet(void **state)
{
    (void)state;
    each(check_job);
}

static void parts_lie_apart(void **state)
{
    (void)state;
    each(check_turns);
}

static void it_does_not_matter_where_one_begins(void **state)
{
    (void)state;
    each(check_later_begins);
}

/* Meetings in epochs are those in as many steps; others are none. */
static struct gw_rounds meeting_every(uint64_t eval, uint64_t checkpoint)
{
    config.train.eval_every = (struct gw_every){eval, GW_STEPS};
    config.checkpoint.every = (struct gw_every){checkpoint, GW_STEPS};
    if (eval == 0)
        config.train.eval_every.unit = GW_NEVER;
    if (checkpoint == 0)
        config.checkpoint.every.unit = GW_NEVER;
    return rounds_of(GW_POLICY_DILOCO, 4, 0, UINT64_MAX);
}

static int meet_at_the_same_steps(const struct gw_rounds *a,
                                  const struct gw_rounds *b)
{
    for (uint64_t clock = 1; clock < 2 * HORIZON; clock++)
        if (gw_rounds_meets(a, clock) != gw_rounds_meets(b, clock))
            return 0;
    return 1;
}

static void meetings_are_alike_where_they_are_at_the_same_steps(void **state)
{
    (void)state;
    int alike = 0;
    no_meetings();
    config.policy.fragments = 2;
    for (uint64_t i = 0; i < 6 * 6 * 6 * 6; i++) {
        struct gw_rounds a = meeting_every(i % 6, i / 6 % 6);
        struct gw_rounds b = meeting_every(i / 36 % 6, i / 216);
        int same = meet_at_the_same_steps(&a, &b);
        assert_int_equal(gw_rounds_meet_alike(&a, &b), same);
        alike += same;
    }
    assert_true(alike > 36 && alike < 6 * 6 * 6 * 6);
}

static void meetings_are_steps_and_epochs(void **state)
{
    (void)state;
    no_meetings();
    config.policy.fragments = 2;
    struct gw_rounds rounds = rounds_of(GW_POLICY_DILOCO, 4, 0, 1000);
    assert_int_equal(gw_rounds_meeting(&rounds, 0), 1000);
    config.train.eval_every = (struct gw_every){3, GW_EPOCHS};
    config.checkpoint.every = (struct gw_every){50, GW_STEPS};
    rounds = rounds_of(GW_POLICY_DILOCO, 4, 0, 1000);
    for (uint64_t clock = 1; clock < 1000; clock++)
        assert_int_equal(gw_rounds_meets(&rounds, clock),
                         clock % (3 * EPOCH) == 0 || clock % 50 == 0);
    /* more steps than can be counted are never reached */
    config.train.eval_every = (struct gw_every){UINT64_MAX / 2, GW_EPOCHS};
    config.checkpoint.every = (struct gw_every){.unit = GW_NEVER};
    rounds = rounds_of(GW_POLICY_DILOCO, 4, 0, 1000);
    assert_int_equal(gw_rounds_meeting(&rounds, 0), 1000);
    /* where nobody goes on, and nothing is in parts, each round is a meeting */
    config.policy.fragments = 1;
    config.policy.overlap = 0;
    assert_false(rounds_of(GW_POLICY_DILOCO, 4, 0, 1000).streams);
    config.policy.overlap = 1;
    assert_true(rounds_of(GW_POLICY_DILOCO, 4, 0, 1000).streams);
    assert_false(rounds_of(GW_POLICY_LOCAL, 4, 0, 1000).streams);
}

/* ---- which keys ---- */

static void
divides(uint32_t parts, const char *const *names, const uint32_t *should)
{
    struct gw_key keys[10] = {0};
    uint32_t fragment[10];
    size_t n = 0;
    for (; names[n]; n++)
        strcpy(keys[n].name, names[n]);
    const struct gw_rounds rounds = {.fragments = parts};
    memset(fragment, 0xff, sizeof fragment);
    gw_rounds_divide(&rounds, keys, n, fragment);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fragment[i], should[i]);
}

static void layers_go_to_the_fragments_in_turn(void **state)
{
    (void)state;
    const char *const names[] = {"fc1.weight", "fc1.bias",       "fc10.weight",
                                 "fc10.bias",  "block.1.weight", "block.2.bias",
                                 "scale",      "shift",          NULL};
    divides(1, names, (const uint32_t[]){0, 0, 0, 0, 0, 0, 0, 0});
    divides(2, names, (const uint32_t[]){0, 0, 1, 1, 0, 1, 0, 1});
    divides(3, names, (const uint32_t[]){0, 0, 1, 1, 2, 0, 1, 2});
    divides(9, names, (const uint32_t[]){0, 0, 1, 1, 2, 3, 4, 5});
    divides(2, (const char *const[]){NULL}, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_steps_are_exchanged_each),
        cmocka_unit_test(single_rounds_know_no_end),
        cmocka_unit_test(rounds_end_with_the_phase),
        cmocka_unit_test(parts_take_turns_and_meet),
        cmocka_unit_test(parts_lie_apart),
        cmocka_unit_test(it_does_not_matter_where_one_begins),
        cmocka_unit_test(meetings_are_steps_and_epochs),
        cmocka_unit_test(meetings_are_alike_where_they_are_at_the_same_steps),
        cmocka_unit_test(layers_go_to_the_fragments_in_turn),
    };
    return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
