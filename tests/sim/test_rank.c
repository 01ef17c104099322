/*
 * A trainer of another kind over worker/trainer/rank.h, in simulation: tensors
 * in memory of its own, of three dtypes, and one in the rank's arena; ranks
 * that are late, at clocks of their own, slow, or without samples; a test set;
 * and the trainer's mistakes.
 *
 * The loss of a sample is half the squared distance of all weights to a target,
 * so the gradient of n samples is n (w - target), and each policy comes to the
 * target.
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

#include "proto/random.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "worker/trainer/rank_state.h"

#define LIMIT_US 7200000000

enum {
    KEYS = 4,
    ELEMS = 300, /* of the largest key */
    SAMPLES = 300,
    TEST_SAMPLES = 30
};

static const struct gw_key keys[KEYS] = {
    {.name = "wide", .dtype = GW_DTYPE_F32, .dims = 2, .shape = {5, 7}},
    {.name = "half", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {ELEMS}},
    {.name = "arena", .dtype = GW_DTYPE_F32, .dims = 2, .shape = {3, 11}},
    {.name = "brain", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {13}},
};
static const enum gw_rank_dtype dtypes[KEYS] = {GW_RANK_F32, GW_RANK_F16,
                                                GW_RANK_F32, GW_RANK_BF16};

/* What a trainer does wrong, in its third step. */
enum mistake {
    NO_MISTAKE,
    FORGETS_A_KEY,
    READY_WITHOUT_SAMPLES,
    READY_TWICE,
    NO_TEST_SET,
    OWN_FAILURE
};

static struct trainer {
    struct gw_rank *rank;
    float weights[KEYS][ELEMS], gradients[KEYS][ELEMS]; /* of any dtype */
    struct gw_rank_tensor tensor[KEYS];
    enum mistake mistake;
    uint64_t trained, late, empty, scored;
    struct gw_rank_step ahead;
    int knows_ahead;
} trainers[CLUSTER_MAX];

static uint64_t test_samples;       /* 0: there is no test set */
static uint64_t lasts[CLUSTER_MAX]; /* steps that a trainer makes, where it
                                       knows the data itself; 0: the job does */
static uint64_t samples_said; /* of each step, by the trainer; 0: its weight */
static int dawdles; /* rank 0, before it says that it has no further step */
static struct cluster cluster;
static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

/* ---- the model ---- */

/* A number that all three dtypes hold. */
static float target(size_t key, size_t elem)
{
    return (float)((7 * key + 3 * elem) % 16) / 8 - 1;
}

static int is_in_arena(size_t key)
{
    return key == 2;
}

static void load(const struct trainer *trainer, size_t key, float *w)
{
    const void *from = is_in_arena(key) ? gw_rank_weights(trainer->rank)[key]
                                        : trainer->weights[key];
    gw_rank_tensor_load(dtypes[key], gw_key_elems(&keys[key]), from, w);
}

/* Of n samples. */
static double loss_of(const struct trainer *trainer, uint64_t n)
{
    double sum = 0;
    float w[ELEMS];
    for (size_t key = 0; key < KEYS; key++) {
        load(trainer, key, w);
        for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
            sum += pow((double)(w[i] - target(key, i)), 2);
    }
    return (double)n * sum / 2;
}

static void make_gradient(struct trainer *trainer, size_t key, uint64_t n)
{
    float g[ELEMS];
    size_t elems = gw_key_elems(&keys[key]);
    float scale = (float)gw_rank_loss_scale(trainer->rank) * (float)n;
    load(trainer, key, g);
    for (size_t i = 0; i < elems; i++)
        g[i] = scale * (g[i] - target(key, i));
    if (is_in_arena(key))
        memcpy(gw_rank_gradients(trainer->rank)[key], g, elems * sizeof *g);
    else
        gw_rank_tensor_store(dtypes[key], elems, g, trainer->gradients[key]);
}

static void first_weights(struct trainer *trainer)
{
    float w[ELEMS];
    for (size_t i = 0; i < ELEMS; i++)
        w[i] = (float)(i % 5);
    for (size_t key = 0; key < KEYS; key++)
        gw_rank_tensor_store(dtypes[key], gw_key_elems(&keys[key]), w,
                             is_in_arena(key)
                                 ? gw_rank_weights(trainer->rank)[key]
                                 : (void *)trainer->weights[key]);
}

/* ---- the trainer ---- */

/* Backward: the last key first. */
static enum gw_status push(struct trainer *trainer, uint64_t n)
{
    enum mistake now = trainer->trained == 2 ? trainer->mistake : NO_MISTAKE;
    enum gw_status status = GW_OK;
    for (size_t key = KEYS; key-- > 0 && status == GW_OK;) {
        make_gradient(trainer, key, n);
        if (now != FORGETS_A_KEY || key != 1)
            status = gw_rank_ready(trainer->rank, key, 1);
        if (now == READY_TWICE && status == GW_OK)
            status = gw_rank_ready(trainer->rank, key, 1);
    }
    return status;
}

static enum gw_status
train(struct trainer *trainer, const struct gw_rank_step *step, double *loss)
{
    enum gw_status status = GW_OK;
    if (trainer->knows_ahead && step->number == trainer->ahead.number)
        assert_memory_equal(&trainer->ahead.run, &step->run, sizeof step->run);
    trainer->knows_ahead = gw_rank_ahead(trainer->rank, &trainer->ahead);
    if (step->run.n == 0) {
        trainer->empty++;
        return trainer->mistake == READY_WITHOUT_SAMPLES
                   ? gw_rank_ready(trainer->rank, 3, 1)
                   : GW_OK;
    }
    for (size_t key = 0; key < KEYS && status == GW_OK; key++)
        status = gw_rank_need(trainer->rank, key, 1);
    if (status == GW_OK) {
        *loss = loss_of(trainer, step->run.n);
        gw_rank_computed(trainer->rank, 1000 * step->run.n);
        status = push(trainer, step->run.n);
    }
    trainer->trained += status == GW_OK;
    trainer->late += status == GW_EAGAIN;
    return status;
}

static enum gw_status score(struct trainer *trainer,
                            const struct gw_rank_step *step,
                            struct gw_rank_sum *sum)
{
    enum gw_status status = gw_rank_need(trainer->rank, 0, KEYS);
    uint64_t n = step->run.n > 0 ? step->run.n : TEST_SAMPLES / 3;
    sum->loss = loss_of(trainer, n);
    sum->correct = sum->samples = n;
    trainer->scored += n;
    return status;
}

static enum gw_status run(struct trainer *trainer)
{
    struct gw_rank_step step;
    uint64_t most = lasts[trainer - trainers];
    while ((most == 0 || trainer->trained < most) &&
           gw_rank_begin(trainer->rank, &step) == GW_OK) {
        struct gw_rank_sum sum = {.samples = samples_said};
        enum gw_status status = step.task == GW_RANK_TRAIN
                                    ? train(trainer, &step, &sum.loss)
                                    : score(trainer, &step, &sum);
        gw_rank_end(trainer->rank, status, &sum);
    }
    if (dawdles && trainer == trainers) /* others wait for the next version */
        gw_client_computed(
            trainer->rank->client,
            &(const struct gw_computed){.samples = 100, .to = 1, .of = 1});
    return gw_rank_finish(trainer->rank);
}

static enum gw_status read_data(struct trainer *trainer)
{
    uint64_t tests = trainer->mistake == NO_TEST_SET ? 0 : test_samples;
    return lasts[trainer - trainers] > 0
               ? gw_rank_own_data(trainer->rank, cluster.workers, tests > 0)
               : gw_rank_data(trainer->rank, SAMPLES, tests, NULL);
}

static enum gw_status prepare(struct trainer *trainer, struct gw_error *error)
{
    const struct gw_rank_declaration declaration = {
        .key = keys, .keys = KEYS, .tensor = trainer->tensor, .flop = 1000};
    for (size_t key = 0; key < KEYS; key++)
        if (!is_in_arena(key))
            trainer->tensor[key] =
                (struct gw_rank_tensor){.dtype = dtypes[key],
                                        .weights = trainer->weights[key],
                                        .gradients = trainer->gradients[key]};
    enum gw_status status = read_data(trainer);
    if (status == GW_OK && trainer->mistake == OWN_FAILURE)
        status = gw_fail(error, GW_EIO, "the trainer has lost its camera");
    if (status == GW_OK)
        status = gw_rank_declare(trainer->rank, &declaration);
    if (status == GW_OK && gw_rank_makes_weights(trainer->rank))
        first_weights(trainer);
    return status == GW_OK ? gw_rank_start(trainer->rank) : status;
}

static enum gw_status work(const struct gw_worker_options *options,
                           struct gw_error *error)
{
    struct trainer *trainer = &trainers[options->client.rank];
    const struct gw_rank_options rank = {.client = options->client,
                                         .local = options->local,
                                         .opened = options->opened,
                                         .owner = options->owner};
    enum gw_status status = gw_rank_open(&rank, &trainer->rank, error);
    if (status != GW_OK)
        return status;
    status = prepare(trainer, error);
    status =
        status == GW_OK ? run(trainer) : gw_rank_fail(trainer->rank, status);
    gw_rank_close(trainer->rank);
    return status;
}

/* ---- jobs ---- */

/* The time of a step: 1 ms a sample, 4 for rank 2, and up to as much again. */
static uint64_t pace(void *owner, uint64_t samples)
{
    struct trainer *trainer = owner;
    uint32_t bits[4];
    size_t rank = (size_t)(trainer - trainers);
    gw_random4(11, GW_RANDOM_TEST, (uint32_t)rank, trainer->trained, bits);
    uint64_t us = samples * (rank == 2 ? 4000 : 1000);
    return us + us * bits[0] / UINT32_MAX;
}

static void open_job(const char *const *settings, enum mistake mistake)
{
    memset(trainers, 0, sizeof trainers);
    memset(lasts, 0, sizeof lasts);
    trainers[1].mistake = mistake;
    cluster.work = work;
    cluster_open(&cluster, &calm, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, pace, &trainers[i]);
}

static uint64_t sum_of(size_t offset)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < cluster.workers; i++)
        sum += *(uint64_t *)(void *)((char *)&trainers[i] + offset);
    return sum;
}
#define SUM_OF(member) sum_of(offsetof(struct trainer, member))

/* Every tensor has the shards' weights, rounded to its dtype; and these are
   near the target. */
static void assert_trained(double within)
{
    const struct gw_map *map = cluster.server[0].server->map;
    char arena[16 * ELEMS * sizeof(float)];
    assert_true(map->arena_bytes <= sizeof arena);
    cluster_gather(&cluster, arena);
    for (size_t key = 0; key < KEYS; key++) {
        const float *w = (float *)(void *)(arena + map->key_offset[key]);
        size_t elems = gw_key_elems(&keys[key]);
        for (size_t i = 0; i < elems; i++)
            if (fabs((double)(w[i] - target(key, i))) > within)
                fail_msg("%s[%zu] is %g, not %g", keys[key].name, i,
                         (double)w[i], (double)target(key, i));
        for (size_t rank = 0; rank < cluster.workers; rank++) {
            float is[ELEMS] = {0}, should[ELEMS] = {0};
            gw_rank_tensor_store(dtypes[key], elems, w, should);
            memcpy(is, trainers[rank].weights[key], sizeof is);
            if (!is_in_arena(key))
                assert_memory_equal(is, should, sizeof is);
        }
    }
}

/* ---- policies ---- */

#define COMMON                                                                 \
    "optimizer.kind=sgd", "optimizer.lr=0.15", "train.steps=80",               \
        "train.eval_every=20 steps", "train.batch=10"

static const struct row {
    const char *settings[12];
    int late;      /* ranks give steps up */
    double within; /* of the target, at the end */
} rows[] = {
    {{COMMON}, 0, 4e-3},
    {{COMMON, "train.weights=bf16"}, 0, 0.1},
    {{COMMON, "train.commit=whole", "train.clip=1e6"}, 0, 4e-3},
    {{COMMON, "cluster.policy=\"backup:1\""}, 1, 4e-3},
    {{COMMON, "cluster.policy=\"ssp:2\""}, 0, 0.1},
    {{COMMON, "cluster.policy=async"}, 0, 0.1},
    {{COMMON, "cluster.policy=dc-async"}, 0, 0.1},
    {{COMMON, "cluster.policy=\"local:4\""}, 0, 4e-3},
    {{COMMON, "cluster.policy=\"diloco:4\"", "optimizer.lr=0.1",
      "policy.outer_lr=0.7"},
     0,
     0.1},
    {{COMMON, "cluster.policy=\"easgd:4\""}, 0, 0.2},
    {{COMMON, "cluster.policy=\"downpour:4\"", "optimizer.lr=0.05"}, 0, 0.1},
    {{COMMON, "cluster.policy=\"sync until 30, async until 50, local:4\""},
     0,
     0.1},
    {{COMMON, "train.split=speed", "train.batch=0", "train.global_batch=60"},
     0,
     4e-3},
    {{COMMON, "train.split=speed", "train.batch=0", "train.global_batch=60",
      "cluster.policy=\"backup:1\""},
     0,
     4e-3},
};

static void every_policy_comes_to_the_target(void **state)
{
    (void)state;
    test_samples = TEST_SAMPLES;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *policy = rows[i].settings[5];
        open_job(rows[i].settings, NO_MISTAKE);
        cluster_finish(&cluster, LIMIT_US);
        printf("# %s: %u steps of ranks, %u late, scores of %u samples\n",
               policy ? policy : "sync", (unsigned)SUM_OF(trained),
               (unsigned)SUM_OF(late), (unsigned)SUM_OF(scored));
        assert_trained(rows[i].within);
        if (rows[i].late)
            assert_int_not_equal(SUM_OF(late), 0);
        if (gw_config_splits_by_speed(&cluster.config))
            assert_in_range(cluster.splits, 2, 100);
        assert_in_range(cluster.scores, 3, 6);
        assert_int_equal(SUM_OF(scored), cluster.scores * TEST_SAMPLES);
        cluster_close(&cluster);
    }
}

/* Two samples in a step of three ranks, and no test set, for which weights
   would be needed at the end. */
static void a_rank_without_samples_takes_part(void **state)
{
    (void)state;
    static const char *const policies[] = {
        "cluster.policy=sync", "cluster.policy=\"backup:1\"",
        "cluster.policy=\"local:4\"", "cluster.policy=async"};
    test_samples = 0;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const char *const settings[] = {COMMON,
                                        "train.batch=0",
                                        "train.global_batch=2",
                                        "train.eval_every=never",
                                        policies[i],
                                        NULL};
        open_job(settings, NO_MISTAKE);
        cluster_finish(&cluster, LIMIT_US);
        assert_trained(1);
        assert_int_not_equal(SUM_OF(empty), 0);
        cluster_close(&cluster);
    }
}

/* ---- trainers that know their data themselves ---- */

#define EXTERNAL                                                               \
    "model.kind=external", "model.layers=", "data.train=", "data.test=",       \
        "data.normalize=", "train.batch=0", "train.steps=0",                   \
        "optimizer.kind=sgd", "optimizer.lr=0.15"

/* Rank 0 ends the job; the others have fewer steps, or more. */
static void rank_0_ends_the_job(void **state)
{
    static const char *const policies[] = {
        "cluster.policy=sync",
        "cluster.policy=\"backup:0\"",
        "cluster.policy=\"backup:1\"",
        "cluster.policy=\"local:4\"",
        "cluster.policy=\"diloco:4\"",
        "cluster.policy=\"ssp:2\"",
        "cluster.policy=async",
        "cluster.policy=dc-async",
        "cluster.policy=\"easgd:4\"",
        "cluster.policy=\"sync until 12, async until 24, local:4\""};
    static const uint64_t ends[][3] = {
        {36, 36, 36}, {36, 9, 99}, {36, 99, 9}, {34, 34, 34}};
    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        for (size_t e = 0; e < 2 * sizeof ends / sizeof *ends; e++) {
            const uint64_t *end = ends[e / 2];
            const char *const settings[] = {EXTERNAL, policies[i],
                                            "train.eval_every=10 steps", NULL};
            test_samples = TEST_SAMPLES;
            open_job(settings, NO_MISTAKE);
            memcpy(lasts, end, sizeof *ends);
            dawdles = e % 2;
            cluster_finish(&cluster, LIMIT_US);
            printf("# %s: %s, at %u\n", policies[i], cluster.text,
                   (unsigned)cluster.final.step);
            assert_trained(1);
            if (i < 2)
                assert_int_equal(cluster.final.step, end[0]);
            cluster_close(&cluster);
        }
    }
}

/* A step's weight is the trainer's affair: the rate goes by its samples. */
static void samples_are_those_that_the_trainer_reports(void **state)
{
    const char *const settings[] = {EXTERNAL, NULL};
    (void)state;
    for (samples_said = 0; samples_said <= 7; samples_said += 7) {
        test_samples = 0;
        open_job(settings, NO_MISTAKE);
        lasts[0] = lasts[1] = lasts[2] = 12;
        cluster_finish(&cluster, LIMIT_US);
        assert_int_equal(cluster.final.workers.value[GW_METRIC_SAMPLES],
                         3 * 12 * (samples_said ? samples_said : 1));
        cluster_close(&cluster);
    }
    samples_said = 0;
}

/* ---- mistakes ---- */

static void mistakes_end_the_job_by_name(void **state)
{
    (void)state;
    test_samples = TEST_SAMPLES;
    static const struct {
        enum mistake mistake;
        const char *says;
    } wrong[] = {
        {FORGETS_A_KEY,
         "step 2: key half is not ready at the end, by a mistake of the "
         "trainer"},
        {READY_TWICE,
         "step 2: key brain is ready twice in one step, by a mistake of the "
         "trainer"},
        {READY_WITHOUT_SAMPLES, "key brain is ready in a step in which this "
                                "rank has no samples"},
        {NO_TEST_SET, "train.eval_every: the trainer has no test set"},
        {OWN_FAILURE, "the trainer has lost its camera"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *const few[] = {COMMON, "train.batch=0",
                                   "train.global_batch=1", NULL};
        const char *const many[] = {COMMON, NULL};
        open_job(wrong[i].mistake == READY_WITHOUT_SAMPLES ? few : many,
                 wrong[i].mistake);
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_not_equal(cluster.final.status, GW_OK);
        if (!strstr(cluster.text, wrong[i].says) ||
            !strstr(cluster.text, "worker 1"))
            fail_msg("\"%s\" does not say \"%s\"", cluster.text, wrong[i].says);
        for (size_t rank = 0; rank < cluster.workers; rank++)
            assert_int_not_equal(cluster.worker[rank].status, GW_OK);
        cluster_close(&cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_comes_to_the_target),
        cmocka_unit_test(a_rank_without_samples_takes_part),
        cmocka_unit_test(rank_0_ends_the_job),
        cmocka_unit_test(samples_are_those_that_the_trainer_reports),
        cmocka_unit_test(mistakes_end_the_job_by_name),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("rank", tests, NULL, NULL);
}
