/*
 * Single pushes as a server takes them in, one chunk and no network: 50 pushes
 * of ranks with unlike delays and samples, against the equations written down
 * once more in fp64, and against frozen results of NumPy.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/plain.h"
#include "tests/unit/single.h"

/* The constants of tests/reference/policies.py. */
#define N     11
#define STEPS 50
#define PUSH  4 /* gradients that one push sums */

#define RANKS SINGLE_RANKS

static const struct frozen {
    const char *name;
    int arrays;
    double w[5][N];
} frozen[] = {
#include "tests/reference/policies.inc"
};

static double fraction(int numerator)
{
    return (numerator % 127 - 63) / 64.0;
}

static double first_weight(int i)
{
    return fraction(59 * i + 5);
}

static double gradient(uint32_t rank, int t, int i, double w)
{
    double curvature = (8 + 13 * i % 17) / 16.0;
    double optimum = fraction(37 * i + 53 * (int)rank + 11);
    double noise = fraction(41 * i + 67 * (int)rank + 29 * t + 3) / 4;
    return curvature * (w - optimum) + noise;
}

/* Who pushes t-th: unlike delays. */
static uint32_t rank_at(int t)
{
    return (uint32_t)(t * (t + 3) / 2 % RANKS);
}

/* ---- a server of one chunk ---- */

static struct single one; /* large: not on the stack */

static void open_server(const char *const *job, const char *const *more)
{
    const struct gw_key key = {
        .name = "w", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {N}};
    float w[N];
    for (int i = 0; i < N; i++)
        w[i] = (float)first_weight(i);
    single_open(&one, &key, 1, 20, job, more);
    single_seed(&one, 0, w);
}

/* The weights that each rank was last given. */
static float held[RANKS][N];

static void give(uint32_t rank)
{
    memcpy(held[rank],
           gw_shard_give(one.server.shard, rank, 0, GW_ENCODING_RAW),
           sizeof held[rank]);
}

/* A sum of n gradients, and the weights that come back for it. */
static void push(uint32_t rank, int t, uint32_t n, uint32_t samples)
{
    for (int i = 0; i < N; i++)
        one.server.shard->landing[rank][i] =
            (float)(n * gradient(rank, t, i, (double)held[rank][i]));
    gw_shard_hold(one.server.shard, rank, 0, samples, samples == 0);
    gw_commit_of(&one.server)->reduce(&one.server, 0);
    assert_false(gw_server_is_over(&one.server));
    give(rank);
}

/* ---- the same in fp64 ---- */

#define LR (1 / 16.0)

static struct plain_server plain;
static uint64_t plain_pushes;

static void plain_begin(enum plain_kind kind)
{
    plain = (struct plain_server){.n = N,
                                  .optimizer = {.kind = kind,
                                                .decay = 0.03,
                                                .momentum = 0.9,
                                                .beta1 = 0.9,
                                                .beta2 = 0.99,
                                                .eps = 1e-3}};
    plain_pushes = 0;
    for (int i = 0; i < N; i++)
        plain.w[i] = first_weight(i);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        plain_give(&plain, rank);
}

/* Of a push that is there next: linear, from 1 to a tenth in 20 steps of 4. */
static double plain_lr(uint32_t samples)
{
    double step = (double)(plain_pushes / RANKS);
    return LR * (1 - 0.9 * step / 20) * samples / 32;
}

/* ---- both beside each other ---- */

struct row {
    const char *policy;
    uint32_t group; /* 0: delays are compensated */
    int adaptive;
};

static void compare(const struct row *row)
{
    const struct gw_shard_chunk *chunk = &one.server.shard->chunk[0];
    double off =
        plain_distance(N, gw_shard_weights(one.server.shard, 0), plain.w);
    print_message("# %s%s, %s: %.1e of the largest weight\n", row->policy,
                  row->adaptive ? " adaptive" : "",
                  plain_names[plain.optimizer.kind], off);
    assert_true(off <= 1e-6);
    assert_int_equal(chunk->updates, plain.optimizer.updates);
    assert_int_equal(chunk->version, STEPS);
    assert_int_equal(chunk->pushes, STEPS);
    assert_int_equal(gw_metrics_get(&one.metrics, GW_METRIC_PUSHES_APPLIED),
                     STEPS);
}

static void plain_push(const struct row *row, uint32_t rank, uint32_t n, int t)
{
    const struct plain_delay delay = {row->adaptive, 0.5, 0.95, 0.01};
    double g[N], lr = plain_lr(n);
    for (int i = 0; i < N; i++)
        g[i] = gradient(rank, t, i, plain.given[rank][i]);
    if (row->group > 0)
        plain_stale(&plain, row->group, rank, n, lr, g);
    else
        plain_delayed(&plain, &delay, rank, lr, g);
}

static void one_push(const struct row *row, int t)
{
    static const uint32_t of_rank[RANKS] = {6, 8, 10, 8};
    uint32_t rank = rank_at(t), samples = t % 10 == 7 ? 0 : of_rank[rank];
    uint64_t stale = plain.optimizer.updates - plain.given_at[rank];
    push(rank, t, samples, samples);
    if (samples > 0) {
        assert_int_equal(gw_shard_slot(one.server.shard, rank, 0)->staleness,
                         stale);
        plain_push(row, rank, samples, t);
    }
    plain_pushes++;
    plain_give(&plain, rank);
}

/* A meeting in the middle and one at the end find groups that are not full. */
static void meet(void)
{
    gw_commit_of(&one.server)->quiesce(&one.server);
    gw_commit_of(&one.server)->quiesce(&one.server);
    plain_group(&plain);
}

static void run_both(const struct row *row, enum plain_kind rule)
{
    char policy[64], kind[64];
    snprintf(policy, sizeof policy, "cluster.policy=%s", row->policy);
    snprintf(kind, sizeof kind, "optimizer.kind=%s", plain_names[rule]);
    open_server(SETTINGS("optimizer.lr=0.0625", "optimizer.weight_decay=0.03",
                         "optimizer.momentum=0.9", "optimizer.beta1=0.9",
                         "optimizer.beta2=0.99", "optimizer.eps=1e-3",
                         "optimizer.schedule=linear", "optimizer.final_lr=0.1",
                         "policy.lambda=0.5", "policy.eps=0.01"),
                SETTINGS(policy, kind,
                         row->adaptive ? "policy.adaptive=true"
                                       : "policy.adaptive=false"));
    plain_begin(rule);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        give(rank);
    for (int t = 0; t < STEPS; t++) {
        one_push(row, t);
        if (t == 26)
            meet();
    }
    meet();
    compare(row);
    single_close(&one);
}

static void pushes_become_what_the_equations_say(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"stale-lr:1", 4, 0}, {"stale-lr:2", 2, 0}, {"stale-lr:3", 1, 0},
        {"stale-lr:4", 1, 0}, {"dc-async", 0, 0},   {"dc-async", 0, 1},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int rule = PLAIN_SGD; rule <= PLAIN_ADAMW; rule++)
            run_both(&rows[r], (enum plain_kind)rule);
}

/* ---- keys without a gradient ---- */

static int plain_bytes; /* the group has a gradient */

static void end_plain_group(void)
{
    if (plain_bytes) {
        plain_group(&plain);
        return;
    }
    memset(plain.sum, 0, sizeof plain.sum);
    plain.sum_lr = 0;
    plain.sum_samples = plain.gathered = 0;
}

/* A push with a gradient, or without one: then its samples count or do not. */
static void
gather_or_not(uint32_t of, uint32_t rank, int t, int has, int counts)
{
    struct gw_shard_slot *slot = gw_shard_slot(one.server.shard, rank, 0);
    uint64_t delay = plain.optimizer.updates - plain.given_at[rank];
    double stale = of > 1 ? fmax(1, (double)delay) : 1;
    slot->uncounted = !has && !counts;
    for (int i = 0; i < N; i++) {
        double g = gradient(rank, t, i, (double)held[rank][i]);
        one.server.shard->landing[rank][i] = has ? (float)(8 * g) : NAN;
        plain.sum[i] += has ? 8 * g / stale : 0;
    }
    gw_shard_hold(one.server.shard, rank, 0, 8, !has);
    gw_commit_of(&one.server)->reduce(&one.server, 0);
    assert_false(gw_server_is_over(&one.server));
    assert_int_equal(slot->staleness, delay);
    give(rank);
    plain_bytes = plain.gathered > 0 ? plain_bytes | has : has;
    plain.sum_samples += has || counts ? 8 : 0;
    plain.sum_lr += has || counts ? LR * 8 / 32 : 0;
    if (++plain.gathered == of)
        end_plain_group();
    plain_pushes++;
    plain_give(&plain, rank);
}

/* A push without a gradient joins its group; a group of such pushes changes
   nothing, and nobody is later for it. Nor does a push by itself. */
static void pushes_without_a_gradient_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        uint32_t of;
    } row[] = {{"stale-lr:1", 4}, {"stale-lr:2", 2}, {"async", 1}};
    for (size_t r = 0; r < 3; r++) {
        char policy[64];
        snprintf(policy, sizeof policy, "cluster.policy=%s", row[r].policy);
        open_server(SETTINGS("optimizer.lr=0.0625", "optimizer.kind=adamw",
                             "optimizer.weight_decay=0.03",
                             "optimizer.beta1=0.9", "optimizer.beta2=0.99",
                             "optimizer.eps=1e-3"),
                    SETTINGS(policy));
        plain_begin(PLAIN_ADAMW);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            give(rank);
        for (int t = 0; t < STEPS; t++)
            gather_or_not(row[r].of, rank_at(t), t,
                          t % 7 > 1 && (t < 20 || t >= 28), t % 3 > 0);
        gw_commit_of(&one.server)->quiesce(&one.server);
        if (plain.gathered > 0)
            end_plain_group();
        double off =
            plain_distance(N, gw_shard_weights(one.server.shard, 0), plain.w);
        print_message("# %s: %.1e of the largest weight\n", row[r].policy, off);
        assert_true(off <= 2e-6);
        const struct gw_shard_chunk *chunk = &one.server.shard->chunk[0];
        assert_int_equal(chunk->updates, (STEPS + row[r].of - 1) / row[r].of);
        assert_int_equal(gw_shard_changes(chunk), plain.optimizer.updates);
        assert_int_equal(chunk->version, STEPS);
        assert_int_equal(chunk->pushes, STEPS);
        single_close(&one);
    }
}

/* ---- pushes that say their weight ---- */

/* A push of weight 1, of steps that have as much weight as there are ranks or
   twice as much, has the part of one rank, whatever train.global_batch says. */
static void a_push_has_its_part_of_the_declared_weight(void **state)
{
    (void)state;
    static const char *const policies[] = {"cluster.policy=async",
                                           "cluster.policy=\"ssp:2\"",
                                           "cluster.policy=\"stale-lr:1\""};
    for (size_t p = 0; p < 3; p++) {
        for (uint64_t times = 1; times <= 2; times++) {
            open_server(SETTINGS("optimizer.lr=0.5", "optimizer.kind=sgd"),
                        SETTINGS(policies[p]));
            one.server.start.course.batch = times * RANKS;
            for (uint32_t rank = 0; rank < RANKS; rank++)
                give(rank);
            for (uint32_t rank = 0; rank < RANKS; rank++) {
                memset(one.server.shard->landing[rank], 0, N * sizeof(float));
                one.server.shard->landing[rank][2] = 1;
                gw_shard_slot(one.server.shard, rank, 0)->given =
                    gw_shard_changes(&one.server.shard->chunk[0]);
                gw_shard_hold(one.server.shard, rank, 0, 1, 0);
                gw_commit_of(&one.server)->reduce(&one.server, 0);
            }
            double went = first_weight(2) -
                          (double)gw_shard_weights(one.server.shard, 0)[2];
            double scale = one.server.regime.terms.scale;
            assert_true(fabs(went - scale * 0.5 * RANKS / (double)times) <=
                        1e-6);
            single_close(&one);
        }
    }
}

/* ---- frozen results ---- */

static const struct frozen *find_frozen(const char *name)
{
    const struct frozen *f = frozen;
    while (strcmp(f->name, name))
        assert_true(++f < frozen + sizeof frozen / sizeof *frozen);
    return f;
}

static void assert_near(const char *name, const float *w, const double *should)
{
    double off = plain_distance(N, w, should);
    print_message("# %s: %.1e of the largest weight\n", name, off);
    assert_true(off <= 1e-6);
}

static void delays_are_compensated_as_numpy_does(const char *name,
                                                 const char *const *settings)
{
    open_server(SETTINGS("cluster.policy=dc-async", "optimizer.kind=sgd",
                         "optimizer.lr=0.5"),
                settings);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        give(rank);
    for (int t = 0; t < STEPS; t++)
        push(rank_at(t), t, PUSH, 2 * PUSH);
    assert_near(name, gw_shard_weights(one.server.shard, 0),
                find_frozen(name)->w[0]);
    single_close(&one);
}

static void delay_compensation_is_zheng_s(void **state)
{
    (void)state;
    delays_are_compensated_as_numpy_does("dc-async",
                                         SETTINGS("policy.lambda=0.5"));
    delays_are_compensated_as_numpy_does(
        "dc-async adaptive",
        SETTINGS("policy.adaptive=true", "policy.eps=0.01"));
}

/* Nesterov with a momentum of zero is plain SGD. */
static void worker_step(uint32_t rank, int t, float momentum, float v[N])
{
    for (int i = 0; i < N; i++) {
        float *x = &held[rank][i];
        float g = (float)gradient(rank, t, i, (double)*x);
        v[i] = momentum * v[i] + g;
        *x -= 0.05f * (g + momentum * v[i]);
    }
}

/* Workers take steps of their own and push their weights every five. */
static void workers_meet_the_centre(const char *name, float momentum)
{
    const struct frozen *f = find_frozen(name);
    float v[RANKS][N] = {{0}};
    open_server(SETTINGS("cluster.policy=\"easgd:5\""), SETTINGS(NULL));
    for (uint32_t rank = 0; rank < RANKS; rank++)
        give(rank);
    for (int t = 0; t < STEPS; t++)
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            worker_step(rank, t, momentum, v[rank]);
            if ((t + 1 + (int)rank) % 5)
                continue;
            memcpy(one.server.shard->landing[rank], held[rank],
                   sizeof held[rank]);
            gw_shard_hold(one.server.shard, rank, 0, 5, 0);
            gw_commit_of(&one.server)->reduce(&one.server, 0);
            assert_false(gw_server_is_over(&one.server));
            /* what comes twice lands in the same place, and changes nothing */
            memset(one.server.shard->landing[rank], 0xff, sizeof held[rank]);
            give(rank);
        }
    assert_near(name, gw_shard_weights(one.server.shard, 0), f->w[0]);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_near(name, held[rank], f->w[rank + 1]);
    const struct gw_shard_chunk *chunk = &one.server.shard->chunk[0];
    assert_int_equal(chunk->pushes, 5 * chunk->updates);
    assert_int_equal(gw_shard_slot(one.server.shard, 0, 0)->mark, STEPS);
    single_close(&one);
}

static void elastic_averaging_is_zhang_s(void **state)
{
    (void)state;
    workers_meet_the_centre("easgd", 0);
    workers_meet_the_centre("easgd nesterov", 0.9f);
}

/* ---- quiescing ---- */

static unsigned resumes;

static void decided(void *owner, const struct gw_decision *decision)
{
    (void)owner;
    one.server.decision = decision->number;
    if (decision->kind == GW_DECIDE_QUIESCE)
        gw_quiesce_begin(&one.server);
    resumes += decision->kind == GW_DECIDE_RESUME;
}

static void open_want(uint32_t rank, uint64_t clock)
{
    struct gw_want_slot *slot = gw_wants_slot(one.server.wants, rank, 0);
    slot->open = 1;
    slot->want.value = clock;
    gw_quiesce_changed(&one.server);
}

/* A want of clock 1 that is there before the push of clock 0 says that its rank
   is on its way, not that it stands. */
static void a_want_may_overtake_its_push(void **state)
{
    (void)state;
    struct gw_error error;
    open_server(SETTINGS("cluster.policy=async", "optimizer.kind=sgd"),
                SETTINGS(NULL));
    assert_int_equal(gw_quiesce_open(&one.server), GW_OK);
    const struct gw_leader_options options = {.config = &one.server.config,
                                              .map = one.server.map,
                                              .ranks = RANKS,
                                              .shards = 1,
                                              .total_steps = 20,
                                              .regime = one.server.regime,
                                              .emit = decided};
    assert_int_equal(gw_leader_create(&options, &one.server.leader, &error),
                     GW_OK);
    resumes = 0;
    gw_leader_before(one.server.leader, 0);
    gw_leader_stop(one.server.leader);
    assert_true(gw_quiesce_goes_on(&one.server));
    for (uint32_t rank = 0; rank + 1 < RANKS; rank++)
        open_want(rank, 0);
    open_want(RANKS - 1, 1);
    assert_int_equal(resumes, 0);
    push(RANKS - 1, 0, 8, 8);
    assert_int_equal(resumes, 1);
    gw_leader_destroy(one.server.leader);
    one.server.leader = NULL;
    gw_quiesce_close(&one.server);
    single_close(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_become_what_the_equations_say),
        cmocka_unit_test(pushes_without_a_gradient_change_nothing),
        cmocka_unit_test(a_push_has_its_part_of_the_declared_weight),
        cmocka_unit_test(delay_compensation_is_zheng_s),
        cmocka_unit_test(elastic_averaging_is_zhang_s),
        cmocka_unit_test(a_want_may_overtake_its_push),
    };
    return cmocka_run_group_tests_name("each", tests, NULL, NULL);
}
