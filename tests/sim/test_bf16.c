/*
 * Weights that workers get as bf16: steps are taken at rounded weights, from
 * the weights that were not; half the bytes come back; and under every policy
 * that pushes gradients the job ends with what its servers have.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/server_state.h"
#include "tests/sim/cluster.h"

#define LIMIT_US 600000000

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

static void run(const char *const *settings)
{
    cluster_open(&cluster, &calm, settings, NULL);
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    if (cluster.final.status != GW_OK)
        fail_msg("%s", cluster.text);
    assert_int_equal(cluster_refused(&cluster), 0);
    if (!cluster_agrees(&cluster))
        fail_msg("%s: rank 0 ends with other weights than the servers have",
                 settings[0]);
}

/* ---- one layer, all samples in every step: the gradient in closed form ----
 */

#define SAMPLES 300
#define IN      784
#define OUT     10
#define BIAS    (IN * OUT) /* a multiple of 16: it follows without a gap */
#define WEIGHTS (BIAS + OUT)
#define LR      0.25
#define STEPS   4

static float x[SAMPLES * IN];
static int32_t labels[SAMPLES];

/* The nearest of the numbers with 8 bits of fraction, a tie to the even one. */
static double nearest(double value)
{
    int exponent;
    frexp(value, &exponent);
    double last = ldexp(1, exponent - 8);
    return nearbyint(value / last) * last; /* rounds to even by default */
}

/* Softmax regression: of the mean cross-entropy at w. */
static void closed_form(const double w[WEIGHTS], double g[WEIGHTS])
{
    memset(g, 0, WEIGHTS * sizeof *g);
    for (size_t s = 0; s < SAMPLES; s++) {
        double z[OUT], sum = 0;
        for (size_t o = 0; o < OUT; o++) {
            z[o] = w[BIAS + o];
            for (size_t i = 0; i < IN; i++)
                z[o] += w[o * IN + i] * (double)x[s * IN + i];
            z[o] = exp(z[o]);
            sum += z[o];
        }
        for (size_t o = 0; o < OUT; o++) {
            double d = z[o] / sum - (labels[s] == (int32_t)o);
            g[BIAS + o] += d / SAMPLES;
            for (size_t i = 0; i < IN; i++)
                g[o * IN + i] += d * (double)x[s * IN + i] / SAMPLES;
        }
    }
}

/* What the servers have after so many steps; 0: before the first. */
static void weights_after(unsigned steps, double w[WEIGHTS])
{
    static float arena[WEIGHTS + 16];
    char length[32], lr[32];
    snprintf(length, sizeof length, "train.steps=%u", steps > 0 ? steps : 1);
    snprintf(lr, sizeof lr, "optimizer.lr=%g", steps > 0 ? LR : 1e-30);
    const char *settings[] = {"train.weights=bf16",
                              "model.layers=[784, 10]",
                              "train.batch=0",
                              "train.global_batch=300",
                              "optimizer.kind=sgd",
                              length,
                              lr,
                              NULL};
    run(settings);
    assert_int_equal(cluster.server[0].server->map->key_offset[1],
                     BIAS * sizeof(float));
    cluster_gather(&cluster, arena);
    cluster_close(&cluster);
    for (size_t i = 0; i < WEIGHTS; i++)
        w[i] = (double)arena[i];
}

/* How far a step that was made is from -lr times a gradient, of its length. */
static double distance(const double before[WEIGHTS],
                       const double after[WEIGHTS],
                       const double g[WEIGHTS])
{
    double apart = 0, length = 0;
    for (size_t i = 0; i < WEIGHTS; i++) {
        double step = after[i] - before[i];
        apart += pow(step + LR * g[i], 2);
        length += pow(step, 2);
    }
    return sqrt(apart / length);
}

static void steps_are_taken_at_rounded_weights(void **state)
{
    static double before[WEIGHTS], after[WEIGHTS], at[WEIGHTS], g[WEIGHTS];
    const struct gw_batch_site all = {.n = SAMPLES};
    (void)state;
    gw_dataset_batch(cluster.train, &all, x, labels);
    weights_after(0, before);
    for (unsigned step = 1; step <= STEPS; step++) {
        weights_after(step, after);
        for (size_t i = 0; i < WEIGHTS; i++)
            at[i] = nearest(before[i]);
        closed_form(at, g);
        double rounded = distance(before, after, g);
        closed_form(before, g);
        double whole = distance(before, after, g);
        printf("# step %u: %.1e from the gradient at rounded weights, %.1e "
               "from that at the weights\n",
               step, rounded, whole);
        assert_true(rounded < 2e-6);
        assert_true(whole > 1e-4);
        memcpy(before, after, sizeof before);
    }
}

/* ---- bytes ---- */

/* For each of 3 workers: 10 steps and the first weights as bf16, and the last
   ones once more, whole. */
static void half_the_bytes_come_back(void **state)
{
    const char *settings[] = {"train.weights=bf16", NULL};
    (void)state;
    run(settings);
    uint64_t model = cluster.server[0].server->map->model_bytes;
    assert_int_equal(cluster_at_workers(&cluster, GW_METRIC_BYTES_PULLED),
                     3 * (11 * model / 2 + model));
    assert_int_equal(cluster_at_workers(&cluster, GW_METRIC_BYTES_PUSHED),
                     3 * 10 * model + model);
    cluster_close(&cluster);
}

/* ---- policies, and what else looks at weights ---- */

static const char *const jobs[][3] = {
    {"train.commit=whole"},
    {"train.clip=0.5"},
    {"cluster.policy=\"ssp:1\""},
    {"cluster.policy=\"async\""},
    {"cluster.policy=\"stale-lr:2\""},
    {"cluster.policy=\"dc-async\""},
    {"cluster.policy=\"dc-async\"", "policy.adaptive=yes"},
    {"cluster.policy=\"backup:1\""},
    {"cluster.policy=\"sync until 4, async until 7, sync\""},
    {"cluster.policy=\"async until 4, backup:1\""},
    {"train.eval_every=\"3 steps\""},
    {"cluster.policy=\"async\"", "train.eval_every=\"3 steps\""},
    {"optimizer.kind=lamb"},
    {"cluster.connections=3", "model.layers=[784, 300, 10]"},
};

static void a_job_ends_with_what_its_servers_have(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const char *settings[] = {jobs[i][0], "train.weights=bf16", jobs[i][1],
                                  NULL};
        run(settings);
        uint64_t pulled = cluster_at_workers(&cluster, GW_METRIC_BYTES_PULLED);
        uint64_t pushed = cluster_at_workers(&cluster, GW_METRIC_BYTES_PUSHED);
        printf("# %s: %.2f of the pushed bytes come back\n", jobs[i][0],
               (double)pulled / (double)pushed);
        assert_true(pulled < pushed);
        cluster_close(&cluster);
    }
}

/* Payloads that are lengths, where each pushes alone and where hosts do. */
static void nothing_is_rounded_where_nothing_is_computed(void **state)
{
    static const char *const houses[] = {NULL, "aab"};
    const char *settings[] = {"train.arithmetic=none", "train.weights=bf16",
                              "cluster.local_reduction=on", NULL};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        cluster.houses = houses[i];
        cluster_open(&cluster, &calm, settings, NULL);
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_OK);
        assert_int_equal(cluster_refused(&cluster), 0);
        assert_true(cluster_at_workers(&cluster, GW_METRIC_BYTES_PULLED) <
                    cluster_at_workers(&cluster, GW_METRIC_BYTES_PUSHED));
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
}

static int keeps_given(void *owner)
{
    (void)owner;
    return cluster.server[0].server->shard &&
           cluster.server[0].server->shard->given;
}

/* What ranks had before is rounded too. */
static void what_was_given_before_a_switch_is_what_ranks_have(void **state)
{
    const char *settings[] = {"train.weights=bf16",
                              "cluster.policy=\"sync until 4, dc-async\"",
                              NULL};
    (void)state;
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(cluster_run_until(&cluster, keeps_given, NULL, LIMIT_US));
    const struct gw_shard *shard = cluster.server[0].server->shard;
    for (uint32_t rank = 0; rank < shard->ranks; rank++)
        for (uint32_t c = 0; c < shard->chunks; c++)
            for (uint32_t i = 0; i < shard->chunk[c].elems; i++) {
                uint32_t bits;
                const float *given = shard->given[rank] + shard->chunk[c].first;
                memcpy(&bits, &given[i], sizeof bits);
                assert_int_equal(bits & 0xffff, 0);
            }
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_close(&cluster);
}

static int rank_0_is_there(void *owner)
{
    (void)owner;
    return cluster.server[0].server->session &&
           cluster.server[0].server->session[0].peer;
}

/* Half of the way, a want that this job has no weights for: it costs the
   connection, which comes back, and not the job. */
static void who_wants_them_elsewhere_is_rejected(void **state)
{
    const char *settings[] = {"train.steps=40", NULL};
    const struct gw_want want = {
        .count = 1, .condition = GW_WANT_NOW, .encoding = GW_ENCODING_BF16};
    uint8_t bytes[GW_WANT_BYTES];
    const struct gw_frame frame = {.kind = GW_FRAME_WANT,
                                   .length = sizeof bytes};
    (void)state;
    gw_want_encode(&want, bytes);
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(cluster_run_until(&cluster, rank_0_is_there, NULL, LIMIT_US));
    struct gw_server *server = cluster.server[0].server;
    gw_session_frame(server, server->session[0].peer, 0, &frame, bytes);
    assert_int_equal(cluster_refused(&cluster), 1);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    assert_int_equal(cluster_at_workers(&cluster, GW_METRIC_RECONNECTS), 1);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_taken_at_rounded_weights),
        cmocka_unit_test(half_the_bytes_come_back),
        cmocka_unit_test(a_job_ends_with_what_its_servers_have),
        cmocka_unit_test(nothing_is_rounded_where_nothing_is_computed),
        cmocka_unit_test(what_was_given_before_a_switch_is_what_ranks_have),
        cmocka_unit_test(who_wants_them_elsewhere_is_rejected),
    };
    int failed = cmocka_run_group_tests_name("bf16", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
