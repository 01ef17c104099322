/*
 * Per-push policies, in simulation: they come to what sync comes to
 * where they should, to the closed forms of their throughput and staleness,
 * and keep their bounds in every weather.
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

#include "proto/random.h"
#include "proto/safetensors.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/store.h"
#include "tests/sim/cluster.h"

#define LIMIT_US 3000000000000

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

/* Nothing takes time but computing. */
static const struct gw_sim_options instant = {.seed = 1};

static void run(const struct gw_sim_options *lines, const char *const *settings)
{
    cluster_open(&cluster, lines, settings, NULL);
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    if (cluster.final.status != GW_OK)
        fail_msg("%s", cluster.text);
}

/* ---- final weights, from the last checkpoint ---- */

#define WEIGHTS_MAX 32768
#define HEADER_MAX  65536

struct weights {
    size_t n;
    float value[WEIGHTS_MAX];
};

struct shard_file {
    struct gw_disk *disk;
    struct gw_file *file;
    struct gw_error error;
};

static void read_at(struct shard_file *shard, uint64_t at, void *to, size_t n)
{
    if (shard->disk->ops->read(shard->file, at, to, n, &shard->error) != GW_OK)
        fail_msg("%s", shard->error.text);
}

static struct gw_safetensors *read_header(struct shard_file *shard)
{
    static uint8_t text[HEADER_MAX];
    uint8_t prefix[GW_SAFETENSORS_PREFIX_BYTES];
    struct gw_safetensors *tensors;
    uint64_t bytes;
    size_t n;
    shard->disk->ops->size(shard->file, &bytes, &shard->error);
    read_at(shard, 0, prefix, sizeof prefix);
    assert_int_equal(
        gw_safetensors_header_bytes("shard", prefix, bytes, &n, &shard->error),
        GW_OK);
    assert_true(n <= sizeof text);
    read_at(shard, sizeof prefix, text, n);
    assert_int_equal(
        gw_safetensors_read("shard", text, n, bytes, &tensors, &shard->error),
        GW_OK);
    return tensors;
}

/* Of a job of one server whose optimizer keeps nothing beside the weights. */
static void read_weights(struct weights *weights)
{
    struct shard_file shard = {.disk = cluster_checkpoints(&cluster)};
    char name[GW_FILE_NAME_MAX], path[GW_PATH_MAX];
    size_t n;
    gw_shard_file_name(0, 1, name);
    gw_store_path(cluster.final.checkpoint, name, path);
    if (shard.disk->ops->open(shard.disk, path, GW_FILE_READ, &shard.file,
                              &shard.error) != GW_OK)
        fail_msg("%s", shard.error.text);
    struct gw_safetensors *tensors = read_header(&shard);
    const struct gw_tensor *tensor = gw_safetensors_tensors(tensors, &n);
    weights->n = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(weights->n + tensor[i].elems <= WEIGHTS_MAX);
        read_at(&shard, tensor[i].offset, weights->value + weights->n,
                (size_t)tensor[i].bytes);
        weights->n += (size_t)tensor[i].elems;
    }
    gw_safetensors_free(tensors);
    shard.disk->ops->close(shard.file, &shard.error);
}

/* The largest difference, relative to the largest weight. */
static double distance(const struct weights *a, const struct weights *b)
{
    double largest = 0, most = 0;
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        double size = fabs((double)a->value[i]);
        double apart = fabs((double)a->value[i] - (double)b->value[i]);
        largest = size > largest ? size : largest;
        most = apart > most ? apart : most;
    }
    return most / largest;
}

/* With plain SGD; the last steps of an epoch are short, and leave a rank
   without a sample. */
static void comes_to_sync(const char *policy)
{
    static struct weights sync, other;
    const char *settings[] = {"cluster.policy=sync",    "train.batch=7",
                              "train.steps=40",         "optimizer.kind=sgd",
                              "cluster.servers=1",      "checkpoint.dir=ck",
                              "checkpoint.every=never", NULL};
    run(&calm, settings);
    read_weights(&sync);
    cluster_close(&cluster);
    settings[0] = policy;
    run(&calm, settings);
    read_weights(&other);
    cluster_close(&cluster);
    double apart = distance(&sync, &other);
    printf("# %s and sync are %.2g of the largest weight apart\n", policy,
           apart);
    assert_true(apart > 0 && apart < 1e-6);
}

/* Each push scaled by its samples. */
static void ssp_0_comes_to_sync(void **state)
{
    (void)state;
    comes_to_sync("cluster.policy=\"ssp:0\"");
}

/* Averaging after each step is the step of the average. */
static void local_1_comes_to_sync(void **state)
{
    (void)state;
    comes_to_sync("cluster.policy=\"local:1\"");
}

/* The digest of a job's weights. */
static void run_for(const char *const *settings, char hex[65])
{
    run(&calm, settings);
    cluster_digest(&cluster, hex);
    cluster_close(&cluster);
}

/* Rounds that do not divide the steps, one rank without a sample now and then,
   every kind of inner and outer optimizer. */
static void local_steps_do_not_depend_on_the_cluster(void **state)
{
    static const char *const policies[][3] = {
        {"cluster.policy=\"local:4\"", "policy.inner=sgd", "policy.outer=sgd"},
        {"cluster.policy=\"local:3\"", "policy.inner=adamw",
         "policy.outer=sgd"},
        {"cluster.policy=\"diloco:5\"", "policy.inner=momentum",
         "policy.outer=nesterov"},
        {"cluster.policy=\"diloco:2\"", "policy.inner=adam",
         "policy.outer=adam"}};
    char one[65], other[65], before[65] = "";
    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const char *settings[] = {policies[i][0],      policies[i][1],
                                  policies[i][2],      "train.batch=7",
                                  "train.steps=33",    "cluster.servers=1",
                                  "train.commit=auto", NULL};
        run_for(settings, one);
        assert_string_not_equal(one, before);
        settings[5] = "cluster.servers=3";
        run_for(settings, other);
        assert_string_equal(one, other);
        settings[6] = "train.commit=whole";
        run_for(settings, other);
        assert_string_equal(one, other);
        strcpy(before, one);
    }
}

/* ---- time ---- */

/* A worker whose steps take `mean_us`, or an exponential time of that mean. */
struct pace {
    uint32_t rank;
    uint64_t draws;
    double mean_us;
    int exponential;
};

static struct pace pace[CLUSTER_MAX];

static uint64_t step_us(void *owner, uint64_t samples)
{
    (void)samples;
    struct pace *of = owner;
    uint32_t bits[4];
    if (!of->exponential)
        return (uint64_t)of->mean_us;
    gw_random4(17, GW_RANDOM_TEST, of->rank, of->draws++, bits);
    double uniform = ((double)bits[0] + 0.5) / 4294967296.0;
    return (uint64_t)(-of->mean_us * log(uniform) + 0.5);
}

static uint64_t steps_of(size_t worker)
{
    return gw_metrics_get(&cluster.worker[worker].metrics, GW_METRIC_STEPS);
}

static uint64_t all_steps(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < cluster.workers; i++)
        sum += steps_of(i);
    return sum;
}

/* Steps per microsecond of all workers, over span_us of a job that goes on. */
static double rate(const char *policy, const char *workers, uint64_t span_us)
{
    const char *settings[] = {
        policy,
        workers,
        "cluster.servers=1",
        "model.layers=[784, 10]",
        "train.batch=0",
        "train.global_batch=300", /* no rank without a sample */
        "train.steps=10000000",
        "optimizer.lr=1e-6",
        "log.every=1000",
        NULL};
    cluster_open(&cluster, &instant, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, step_us, &pace[i]);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, 1000000));
    cluster_pass(&cluster, 100000);
    uint64_t before = all_steps(), begun_us = gw_sim_now(cluster.sim);
    cluster_pass(&cluster, span_us);
    double took_us = (double)(gw_sim_now(cluster.sim) - begun_us);
    return (double)(all_steps() - before) / took_us;
}

static void paces(size_t n, double mean_us, int exponential)
{
    for (size_t i = 0; i < n; i++)
        pace[i] = (struct pace){.rank = (uint32_t)i,
                                .mean_us = mean_us,
                                .exponential = exponential};
}

static void near(const char *what, double is, double should, double within)
{
    printf("# %s: %.4f, the law says %.4f\n", what, is, should);
    if (fabs(is / should - 1) > within)
        fail_msg("%s: %.4f instead of %.4f", what, is, should);
}

/* Nobody waits for anybody. */
static void async_keeps_the_sum_of_the_speeds(void **state)
{
    static const double mean_us[] = {1000, 1500, 2000, 4000};
    double sum = 0;
    (void)state;
    for (int exponential = 0; exponential < 2; exponential++) {
        paces(4, 0, exponential);
        sum = 0;
        for (size_t i = 0; i < 4; i++) {
            pace[i].mean_us = mean_us[i];
            sum += 1 / mean_us[i];
        }
        double is = rate("cluster.policy=async", "cluster.workers=4",
                         exponential ? 20000000 : 4000000);
        near(exponential ? "async, exponential" : "async, constant", is / sum,
             1, 0.01);
        cluster_close(&cluster);
    }
}

static void equal_workers_are_all_others_stale(void **state)
{
    (void)state;
    for (uint64_t workers = 2; workers <= 8; workers *= 2) {
        char setting[32], what[32];
        snprintf(setting, sizeof setting, "cluster.workers=%u",
                 (unsigned)workers);
        snprintf(what, sizeof what, "staleness of %u", (unsigned)workers);
        paces(workers, 1000, 1);
        rate("cluster.policy=async", setting, 5000000);
        near(what, gw_staleness_mean(cluster.staleness, cluster.workers),
             (double)workers - 1, 0.02);
        cluster_close(&cluster);
    }
}

/*
 * The part of the sum of speeds that is kept with exponential times of eight
 * workers; for no slack it is 1 / H(8), the others are a simulation's in a few
 * lines: a clock begins when its worker has finished the one before and all
 * have finished the one S + 1 before.
 */
static void ssp_waits_as_the_law_says(void **state)
{
    static const struct {
        const char *policy;
        double part;
    } law[] = {{"cluster.policy=\"ssp:0\"", 0.3679},
               {"cluster.policy=\"ssp:1\"", 0.558},
               {"cluster.policy=\"ssp:2\"", 0.663},
               {"cluster.policy=\"ssp:4\"", 0.772},
               {"cluster.policy=\"ssp:8\"", 0.862}};
    (void)state;
    for (size_t i = 0; i < sizeof law / sizeof *law; i++) {
        paces(8, 1000, 1);
        double is = rate(law[i].policy, "cluster.workers=8", 8000000);
        near(law[i].policy, is * 1000 / 8, law[i].part, 0.02);
        cluster_close(&cluster);
    }
}

/* Against one that is always slow nothing helps: after S steps all go at its
   pace. */
static void ssp_goes_at_the_pace_of_one_that_is_always_slow(void **state)
{
    (void)state;
    paces(4, 1000, 0);
    pace[2].mean_us = 4000;
    double is = rate("cluster.policy=\"ssp:4\"", "cluster.workers=4", 4000000);
    near("ssp:4 with one slow", is, 4.0 / 4000, 0.01);
    cluster_close(&cluster);
}

static int says_who_is_waited_for(void *owner)
{
    (void)owner;
    return cluster.finished || strstr(cluster.note, "waiting for worker");
}

/* Two have pushed the clocks 0 and 1 and wait for the third, which computes: it
   is named and they are not, and four pushes of three are a step. */
static void a_stall_names_who_is_waited_for(void **state)
{
    const char *settings[] = {
        "cluster.policy=\"ssp:1\"",  "cluster.workers=3", "cluster.servers=1",
        "cluster.step_deadline=0.3", "train.steps=1000",  NULL};
    (void)state;
    paces(3, 1000, 0);
    pace[1].mean_us = 5000000;
    cluster_open(&cluster, &instant, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, step_us, &pace[i]);
    assert_true(
        cluster_run_until(&cluster, says_who_is_waited_for, NULL, 4000000));
    printf("# %s\n", cluster.note);
    assert_non_null(strstr(cluster.note, "waiting for worker 1 (w), last"));
    assert_null(strstr(cluster.note, "worker 0"));
    assert_null(strstr(cluster.note, "worker 2"));
    assert_int_equal(strncmp(cluster.note, "step 1, key ", 12), 0);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ssp_0_comes_to_sync),
        cmocka_unit_test(local_1_comes_to_sync),
        cmocka_unit_test(local_steps_do_not_depend_on_the_cluster),
        cmocka_unit_test(async_keeps_the_sum_of_the_speeds),
        cmocka_unit_test(equal_workers_are_all_others_stale),
        cmocka_unit_test(ssp_waits_as_the_law_says),
        cmocka_unit_test(ssp_goes_at_the_pace_of_one_that_is_always_slow),
        cmocka_unit_test(a_stall_names_who_is_waited_for),
    };
    int failed = cmocka_run_group_tests_name("policies", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
