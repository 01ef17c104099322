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

#include "server/server_state.h"
#include "transport/sim.h"

/* The constants of tests/reference/policies.py. */
#define N     11
#define STEPS 50
#define PUSH  4 /* gradients that one push sums */

#define RANKS 4

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

static struct gw_sim *sim;
static struct gw_server server; /* large: not on the stack */
static struct gw_metrics metrics;

#define SETTINGS(...)                                                          \
    (const char *const[])                                                      \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }

static void set_all(const char *const *settings)
{
    struct gw_error error;
    for (; *settings; settings++)
        if (gw_config_set(&server.config, *settings, &error))
            fail_msg("%s", error.text);
}

static void open_server(const char *const *job, const char *const *more)
{
    const struct gw_key key = {
        .name = "w", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {N}};
    const struct gw_sim_options options = {.seed = 1};
    struct gw_error error;
    memset(&server, 0, sizeof server);
    memset(&metrics, 0, sizeof metrics);
    assert_int_equal(gw_sim_create(&options, &sim, &error), GW_OK);
    assert_int_equal(gw_sim_process(sim, "s", &server.loop, &error), GW_OK);
    gw_config_default(&server.config);
    set_all(SETTINGS("cluster.workers=4", "train.global_batch=32"));
    set_all(job);
    set_all(more);
    assert_int_equal(gw_map_create(&key, 1, 1, &server.map, &error), GW_OK);
    server.metrics = &metrics;
    server.ranks = RANKS;
    server.shards = 1;
    server.loss_scale = 1;
    server.start.total_steps = 20;
    server.clocks = calloc(RANKS, sizeof *server.clocks);
    server.session = calloc(RANKS, sizeof *server.session);
    assert_non_null(server.clocks);
    assert_non_null(server.session);
    assert_int_equal(gw_session_open(&server, &error), GW_OK);
    assert_int_equal(gw_save_open(&server, &error), GW_OK);
    for (int i = 0; i < N; i++)
        server.shard->landing[0][i] = (float)first_weight(i);
    gw_shard_seed(server.shard, 0);
}

static void close_server(void)
{
    gw_save_close(&server);
    gw_session_close(&server);
    gw_map_destroy(server.map);
    free(server.clocks);
    free(server.session);
    gw_loop_close(server.loop);
    gw_sim_destroy(sim);
}

/* The weights that each rank was last given. */
static float held[RANKS][N];

static void give(uint32_t rank)
{
    memcpy(held[rank], gw_shard_give(server.shard, rank, 0), sizeof held[rank]);
}

/* A sum of n gradients, and the weights that come back for it. */
static void push(uint32_t rank, int t, uint32_t n, uint32_t samples)
{
    for (int i = 0; i < N; i++)
        server.shard->landing[rank][i] =
            (float)(n * gradient(rank, t, i, (double)held[rank][i]));
    gw_shard_hold(server.shard, rank, 0, samples, samples == 0);
    gw_session_complete(&server, 0);
    assert_false(server.finished);
    give(rank);
}

/* ---- the same in fp64 ---- */

enum rule {
    SGD,
    MOMENTUM,
    NESTEROV,
    ADAM,
    ADAMW,
    RULES
};

static const char *const kinds[RULES] = {"sgd", "momentum", "nesterov", "adam",
                                         "adamw"};

#define LR     (1 / 16.0)
#define DECAY  0.03 /* of weights */
#define LAMBDA 0.5

static struct plain {
    double w[N], m[N], v[N];
    uint64_t updates, pushes;
    double given[RANKS][N], mean_square[RANKS][N];
    uint64_t given_at[RANKS];
    double sum[N], sum_lr; /* of a group */
    uint32_t sum_samples, gathered;
} plain;

static void plain_update(enum rule rule, double lr, const double g_in[N])
{
    double t = (double)++plain.updates;
    for (int i = 0; i < N; i++) {
        double *w = &plain.w[i], *m = &plain.m[i], *v = &plain.v[i];
        double g = g_in[i] + (rule == ADAMW ? 0 : DECAY * *w);
        if (rule == ADAMW)
            *w -= lr * DECAY * *w;
        if (rule == SGD) {
            *w -= lr * g;
        } else if (rule == MOMENTUM || rule == NESTEROV) {
            *m = 0.9 * *m + g;
            *w -= lr * (rule == MOMENTUM ? *m : g + 0.9 * *m);
        } else {
            *m = 0.9 * *m + 0.1 * g;
            *v = 0.99 * *v + 0.01 * g * g;
            *w -= lr * (*m / (1 - pow(0.9, t))) /
                  (sqrt(*v / (1 - pow(0.99, t))) + 1e-3);
        }
    }
}

static void plain_give(uint32_t rank)
{
    memcpy(plain.given[rank], plain.w, sizeof plain.w);
    plain.given_at[rank] = plain.updates;
}

static void plain_begin(void)
{
    memset(&plain, 0, sizeof plain);
    for (int i = 0; i < N; i++)
        plain.w[i] = first_weight(i);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        plain_give(rank);
}

/* Of a push that is there next: linear, from 1 to a tenth in 20 steps of 4. */
static double plain_lr(uint32_t samples)
{
    double step = (double)(plain.pushes / RANKS);
    return LR * (1 - 0.9 * step / 20) * samples / 32;
}

static void plain_group(enum rule rule)
{
    if (plain.gathered == 0)
        return;
    for (int i = 0; i < N; i++)
        plain.sum[i] /= plain.sum_samples;
    plain_update(rule, plain.sum_lr, plain.sum);
    memset(plain.sum, 0, sizeof plain.sum);
    plain.sum_lr = 0;
    plain.sum_samples = plain.gathered = 0;
}

/* Zhang et al. 2016: `of` pushes, each over its staleness, then an update. */
static void
plain_stale(enum rule rule, uint32_t of, uint32_t rank, uint32_t samples, int t)
{
    double stale = fmax(1, (double)(plain.updates - plain.given_at[rank]));
    double lr = plain_lr(samples), g[N];
    for (int i = 0; i < N; i++)
        g[i] = gradient(rank, t, i, plain.given[rank][i]);
    if (of == 1) {
        plain_update(rule, lr / stale, g);
        return;
    }
    for (int i = 0; i < N; i++)
        plain.sum[i] += samples * g[i] / stale;
    plain.sum_lr += lr;
    plain.sum_samples += samples;
    if (++plain.gathered == of)
        plain_group(rule);
}

/* Zheng et al. 2017, equation 10. */
static void plain_delayed(
    enum rule rule, int adaptive, uint32_t rank, uint32_t samples, int t)
{
    double g[N];
    for (int i = 0; i < N; i++) {
        double *square = &plain.mean_square[rank][i];
        double plain_g = gradient(rank, t, i, plain.given[rank][i]);
        *square = 0.95 * *square + 0.05 * plain_g * plain_g;
        double lambda = adaptive ? LAMBDA / sqrt(*square + 0.01) : LAMBDA;
        g[i] = plain_g +
               lambda * plain_g * plain_g * (plain.w[i] - plain.given[rank][i]);
    }
    plain_update(rule, plain_lr(samples), g);
}

/* ---- both beside each other ---- */

struct row {
    const char *policy;
    uint32_t group; /* 0: delays are compensated */
    int adaptive;
};

static void compare(const struct row *row, enum rule rule)
{
    const float *w = gw_shard_weights(server.shard, 0);
    double largest = 0, off = 0;
    for (int i = 0; i < N; i++) {
        largest = fmax(largest, fabs(plain.w[i]));
        off = fmax(off, fabs((double)w[i] - plain.w[i]));
    }
    print_message("# %s%s, %s: %.1e of the largest weight\n", row->policy,
                  row->adaptive ? " adaptive" : "", kinds[rule], off / largest);
    assert_true(off <= 1e-6 * largest);
    assert_int_equal(server.shard->chunk[0].updates, plain.updates);
    assert_int_equal(server.shard->chunk[0].version, STEPS);
    assert_int_equal(server.shard->chunk[0].pushes, STEPS);
    assert_int_equal(gw_metrics_get(&metrics, GW_METRIC_PUSHES_APPLIED), STEPS);
}

static void one_push(const struct row *row, enum rule rule, int t)
{
    static const uint32_t of_rank[RANKS] = {6, 8, 10, 8};
    uint32_t rank = rank_at(t), samples = t % 10 == 7 ? 0 : of_rank[rank];
    uint64_t stale = plain.updates - plain.given_at[rank];
    push(rank, t, samples, samples);
    if (samples > 0) {
        assert_int_equal(gw_shard_slot(server.shard, rank, 0)->staleness,
                         stale);
        if (row->group > 0)
            plain_stale(rule, row->group, rank, samples, t);
        else
            plain_delayed(rule, row->adaptive, rank, samples, t);
    }
    plain.pushes++;
    plain_give(rank);
}

/* A meeting in the middle and one at the end find groups that are not full. */
static void meet(enum rule rule)
{
    gw_each_meet(&server);
    gw_each_meet(&server);
    plain_group(rule);
}

static void run_both(const struct row *row, enum rule rule)
{
    char policy[64], kind[64];
    snprintf(policy, sizeof policy, "cluster.policy=%s", row->policy);
    snprintf(kind, sizeof kind, "optimizer.kind=%s", kinds[rule]);
    open_server(SETTINGS("optimizer.lr=0.0625", "optimizer.weight_decay=0.03",
                         "optimizer.momentum=0.9", "optimizer.beta1=0.9",
                         "optimizer.beta2=0.99", "optimizer.eps=1e-3",
                         "optimizer.schedule=linear", "optimizer.final_lr=0.1",
                         "policy.lambda=0.5", "policy.eps=0.01"),
                SETTINGS(policy, kind,
                         row->adaptive ? "policy.adaptive=true"
                                       : "policy.adaptive=false"));
    plain_begin();
    for (uint32_t rank = 0; rank < RANKS; rank++)
        give(rank);
    for (int t = 0; t < STEPS; t++) {
        one_push(row, rule, t);
        if (t == 26)
            meet(rule);
    }
    meet(rule);
    compare(row, rule);
    close_server();
}

static void pushes_become_what_the_equations_say(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"stale-lr:1", 4, 0}, {"stale-lr:2", 2, 0}, {"stale-lr:3", 1, 0},
        {"stale-lr:4", 1, 0}, {"dc-async", 0, 0},   {"dc-async", 0, 1},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int rule = 0; rule < RULES; rule++)
            run_both(&rows[r], (enum rule)rule);
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
    double largest = 0, off = 0;
    for (int i = 0; i < N; i++) {
        largest = fmax(largest, fabs(should[i]));
        off = fmax(off, fabs((double)w[i] - should[i]));
    }
    print_message("# %s: %.1e of the largest weight\n", name, off / largest);
    assert_true(off <= 1e-6 * largest);
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
    assert_near(name, gw_shard_weights(server.shard, 0),
                find_frozen(name)->w[0]);
    close_server();
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
            memcpy(server.shard->landing[rank], held[rank], sizeof held[rank]);
            gw_shard_hold(server.shard, rank, 0, 5, 0);
            gw_session_complete(&server, 0);
            assert_false(server.finished);
            /* what comes twice lands in the same place, and changes nothing */
            memset(server.shard->landing[rank], 0xff, sizeof held[rank]);
            give(rank);
        }
    assert_near(name, gw_shard_weights(server.shard, 0), f->w[0]);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_near(name, held[rank], f->w[rank + 1]);
    const struct gw_shard_chunk *chunk = &server.shard->chunk[0];
    assert_int_equal(chunk->pushes, 5 * chunk->updates);
    assert_int_equal(gw_shard_slot(server.shard, 0, 0)->mark, STEPS);
    close_server();
}

static void elastic_averaging_is_zhang_s(void **state)
{
    (void)state;
    workers_meet_the_centre("easgd", 0);
    workers_meet_the_centre("easgd nesterov", 0.9f);
}

/* ---- drains ---- */

static unsigned resumes;

static void decided(void *owner, const struct gw_decision *decision)
{
    (void)owner;
    server.decision = decision->number;
    if (decision->kind == GW_DECIDE_DRAIN)
        gw_each_drain(&server);
    resumes += decision->kind == GW_DECIDE_RESUME;
}

static void open_want(uint32_t rank, uint64_t clock)
{
    struct gw_want_slot *slot = gw_wants_slot(server.wants, rank, 0);
    slot->open = 1;
    slot->want.value = clock;
    gw_each_settle(&server);
}

/* A want of clock 1 that is there before the push of clock 0 says that its rank
   is on its way, not that it stands. */
static void a_want_may_overtake_its_push(void **state)
{
    (void)state;
    struct gw_error error;
    open_server(SETTINGS("cluster.policy=async", "optimizer.kind=sgd"),
                SETTINGS("checkpoint.dir=\"\""));
    server.settled_clocks = calloc(RANKS, sizeof *server.settled_clocks);
    server.settled_blocked = calloc(RANKS, sizeof *server.settled_blocked);
    const struct gw_leader_options options = {.config = &server.config,
                                              .map = server.map,
                                              .ranks = RANKS,
                                              .shards = 1,
                                              .total_steps = 20,
                                              .regime = server.regime,
                                              .emit = decided};
    assert_int_equal(gw_leader_create(&options, &server.leader, &error), GW_OK);
    resumes = 0;
    gw_leader_before(server.leader, 0);
    gw_leader_stop(server.leader);
    assert_true(server.draining > 0);
    for (uint32_t rank = 0; rank + 1 < RANKS; rank++)
        open_want(rank, 0);
    open_want(RANKS - 1, 1);
    assert_int_equal(resumes, 0);
    push(RANKS - 1, 0, 8, 8);
    assert_int_equal(resumes, 1);
    gw_leader_destroy(server.leader);
    free(server.settled_clocks);
    free(server.settled_blocked);
    close_server();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_become_what_the_equations_say),
        cmocka_unit_test(delay_compensation_is_zheng_s),
        cmocka_unit_test(elastic_averaging_is_zhang_s),
        cmocka_unit_test(a_want_may_overtake_its_push),
    };
    return cmocka_run_group_tests_name("each", tests, NULL, NULL);
}
