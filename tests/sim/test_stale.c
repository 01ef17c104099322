/*
 * stale-lr and dc-async as whole jobs: they end and learn in every weather with
 * each push counted once, stop and go on with all that they keep, and without
 * delay are nothing but async.
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
#include "server/coordinator_state.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define SEEDS    400
#define LIMIT_US 300000000

enum {
    COUNT_CUTS,
    COUNT_PAUSES,
    COUNT_RECONNECTS,
    COUNT_DUPLICATES,
    COUNT_SCORES,
    COUNT_CHECKPOINTS,
};

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

/* ---- what is so at the end of every job ---- */

static uint64_t counted(const struct gw_metrics *metrics, enum gw_metric which)
{
    struct gw_metrics_snapshot all = {0};
    gw_metrics_collect(metrics, &all);
    return all.value[which];
}

static uint64_t of_servers(enum gw_metric which)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < cluster.servers; i++)
        sum += counted(&cluster.server[i].metrics, which);
    return sum;
}

static const struct gw_shard_chunk *first_chunk(void)
{
    for (size_t i = 0; i < cluster.servers; i++)
        if (cluster.server[i].server->shard->chunks > 0)
            return &cluster.server[i].server->shard->chunk[0];
    fail();
    return NULL;
}

/* A shard agrees with the workers about their clocks, and its chunks agree with
   those of the other shards. */
static const char *shard_is_wrong(const struct gw_server *server)
{
    const struct gw_shard *shard = server->shard;
    const struct gw_shard_chunk *first = first_chunk();
    for (uint32_t i = 0; i < shard->chunks; i++) {
        const struct gw_shard_chunk *chunk = &shard->chunk[i];
        if (chunk->group > 0)
            return "a group was left over";
        if (chunk->updates != first->updates || chunk->pushes != first->pushes)
            return "chunks differ in updates or pushes";
        for (uint32_t rank = 0; rank < shard->ranks; rank++)
            if (shard->slot[(size_t)rank * shard->chunks + i].mark !=
                server->clocks[rank] +
                    counted(&cluster.worker[rank].metrics, GW_METRIC_STEPS))
                return "a mark is not its worker's clock";
    }
    return NULL;
}

/* NULL, or what is wrong with the job that has ended. */
static const char *audit(void)
{
    uint64_t pushes = 0;
    for (size_t i = 0; i < cluster.workers; i++)
        pushes += counted(&cluster.worker[i].metrics, GW_METRIC_STEPS);
    pushes *= cluster.server[0].server->map->chunks;
    if (of_servers(GW_METRIC_PUSHES_APPLIED) != pushes)
        return "pushes applied are not pushes made";
    for (size_t i = 0; i < cluster.servers; i++) {
        const char *why = shard_is_wrong(cluster.server[i].server);
        if (why)
            return why;
    }
    return NULL;
}

static void assert_audit(void)
{
    const char *why = audit();
    if (why)
        fail_msg("%s", why);
}

/* Mean loss of the first or the last quarter of the steps that were told. */
static double mean_loss(int last)
{
    uint64_t told = 0, n = 0;
    double sum = 0;
    for (size_t i = 0; i < 200; i++)
        told = cluster.loss[i] > 0 ? i + 1 : told;
    uint64_t quarter = told / 4 + 1;
    for (uint64_t i = 0; i < quarter; i++) {
        double loss = cluster.loss[last ? told - 1 - i : i];
        sum += loss;
        n += loss > 0;
    }
    return n > 0 ? sum / (double)n : NAN;
}

/* ---- jobs ---- */

#define SETTINGS_MAX 20

struct job {
    const char *setting[SETTINGS_MAX];
    char text[SETTINGS_MAX][64];
    size_t n;
};

static void add(struct job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct job *job, const char *format, ...)
{
    va_list args;
    assert_true(job->n + 1 < SETTINGS_MAX);
    va_start(args, format);
    vsnprintf(job->text[job->n], sizeof job->text[0], format, args);
    va_end(args);
    job->setting[job->n] = job->text[job->n];
    job->setting[++job->n] = NULL;
}

/* stale-lr:1 to stale-lr:W, then both forms of dc-async. */
static void add_policy(struct job *job, unsigned workers, unsigned which)
{
    add(job, "cluster.workers=%u", workers);
    if (which < workers)
        add(job, "cluster.policy=stale-lr:%u", which + 1);
    else
        add(job, "cluster.policy=dc-async");
    if (which > workers)
        add(job, "policy.adaptive=true");
}

static const char *const kinds[] = {"sgd", "momentum", "nesterov", "adam",
                                    "adamw"};

static void add_optimizer(struct job *job, unsigned which)
{
    add(job, "optimizer.kind=%s", kinds[which]);
    add(job, "optimizer.lr=%s",
        which == 0  ? "0.2"
        : which < 3 ? "0.02"
                    : "0.002");
}

static void end_well(void)
{
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    if (cluster.final.status != GW_OK)
        fail_msg("%s", cluster.text);
    assert_audit();
}

/* Unlike machines: worker r computes for 1 to r + 1 ms. */
static uint64_t unlike_us(void *owner)
{
    struct cluster_worker *worker = owner;
    uint32_t bits[4], at = worker->options.client.rank;
    uint64_t steps = gw_metrics_get(&worker->metrics, GW_METRIC_STEPS);
    gw_random4(3, GW_RANDOM_TEST, at, (uint32_t)steps, bits);
    return 1000 + bits[0] % (1000 * (uint64_t)at + 1);
}

static void be_unlike(void)
{
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, unlike_us,
                             &cluster.worker[i]);
}

static void jobs_end_and_learn(void **state)
{
    (void)state;
    unsigned n = 0;
    for (unsigned workers = 1; workers <= 5; workers += 2)
        for (unsigned which = 0; which < workers + 2; which++, n++) {
            struct job job = {.n = 0};
            add_policy(&job, workers, which);
            add_optimizer(&job, n % 5);
            add(&job, "cluster.servers=%u", 1 + n % 3);
            add(&job, "train.steps=60");
            add(&job, "train.eval_every=13 steps");
            cluster_open(&cluster, &calm, job.setting, NULL);
            be_unlike();
            end_well();
            print_message("# %u workers, %s%s, %s: loss %.2f, then %.2f\n",
                          workers, cluster.config.cluster.policy,
                          which > workers ? " adaptive" : "", kinds[n % 5],
                          mean_loss(0), mean_loss(1));
            assert_true(mean_loss(1) < 0.7 * mean_loss(0));
            assert_true(cluster.scores >= 4);
            cluster_close(&cluster);
        }
}

/* Who is alone is given what its own push made: there is no delay to divide by
   or to compensate. */
static void without_delay_all_are_async(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 5; kind++) {
        char hex[4][65];
        for (unsigned which = 0; which < 4; which++) {
            struct job job = {.n = 0};
            add_policy(&job, 1, which % 3);
            add_optimizer(&job, kind);
            if (which == 3)
                add(&job, "cluster.policy=async");
            cluster_open(&cluster, &calm, job.setting, NULL);
            end_well();
            cluster_digest(&cluster, hex[which]);
            cluster_close(&cluster);
        }
        for (unsigned which = 0; which < 3; which++)
            assert_string_equal(hex[which], hex[3]);
    }
}

/* ---- staleness ---- */

static uint64_t exponential_us(void *owner)
{
    struct cluster_worker *worker = owner;
    uint32_t bits[4], at = worker->options.client.rank;
    uint64_t steps = gw_metrics_get(&worker->metrics, GW_METRIC_STEPS);
    gw_random4(4, GW_RANDOM_TEST, at, (uint32_t)steps, bits);
    return (uint64_t)(-1e4 * log((bits[0] + 0.5) / 4294967296.0));
}

static double mean_staleness(void)
{
    const struct gw_coordinator *self = cluster.coordinator;
    double sum = 0, n = 0;
    for (size_t i = 0; i < cluster.workers; i++)
        for (size_t s = 0; s < GW_STALENESS_BUCKETS; s++) {
            double times = (double)self->gather_each.staleness[i][s];
            sum += times * (double)s;
            n += times;
        }
    return sum / n;
}

/*
 * Zhang et al. 2016: the mean is about N. Exactly, W equal workers make W - 1
 * pushes between two of one of them, and W / N make an update.
 */
static void staleness_is_counted_in_updates(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 8; n *= 2) {
        struct job job = {.n = 0};
        add_policy(&job, 8, n - 1);
        add(&job, "train.batch=1");
        add(&job, "train.steps=400");
        add(&job, "model.layers=[784, 2, 10]");
        cluster_open(&cluster, &calm, job.setting, NULL);
        for (size_t i = 0; i < cluster.workers; i++)
            gw_sim_compute_model(cluster.worker[i].loop, exponential_us,
                                 &cluster.worker[i]);
        end_well();
        double mean = mean_staleness(), closed = 7.0 * n / 8;
        print_message("# stale-lr:%u: mean staleness %.3f, %.3f expected\n", n,
                      mean, closed);
        assert_true(fabs(mean - closed) < 0.03 * closed);
        cluster_close(&cluster);
    }
}

/* ---- weather ---- */

static void open_seed(struct storm *storm, struct job *job, uint64_t seed)
{
    struct gw_sim_options lines;
    storm_begin(storm, seed, &lines);
    unsigned workers = 1 + (unsigned)storm_draw(storm, 4);
    add_policy(job, workers, (unsigned)storm_draw(storm, workers + 2));
    add_optimizer(job, (unsigned)storm_draw(storm, 5));
    add(job, "cluster.servers=%u", 1 + (unsigned)storm_draw(storm, 3));
    add(job, "cluster.connections=%u", 1 + (unsigned)storm_draw(storm, 3));
    add(job, "train.steps=%u", 8 + (unsigned)storm_draw(storm, 30));
    add(job, "train.eval_every=%u steps", 2 + (unsigned)storm_draw(storm, 12));
    if (storm_draw(storm, 2)) {
        add(job, "checkpoint.dir=ck");
        add(job, "checkpoint.every=%u steps",
            1 + (unsigned)storm_draw(storm, 9));
    }
    cluster_open(&cluster, &lines, job->setting, NULL);
    storm_blow(storm, &cluster);
}

static void count_what_happened(const struct storm *storm,
                                struct sweep_outcome *outcome)
{
    outcome->count[COUNT_CUTS] = storm->cuts;
    outcome->count[COUNT_PAUSES] = storm->pauses + storm->stops;
    for (size_t i = 0; i < cluster.workers; i++)
        outcome->count[COUNT_RECONNECTS] +=
            counted(&cluster.worker[i].metrics, GW_METRIC_RECONNECTS);
    outcome->count[COUNT_DUPLICATES] = of_servers(GW_METRIC_PUSHES_DUPLICATE);
    outcome->count[COUNT_SCORES] = cluster.scores;
    outcome->count[COUNT_CHECKPOINTS] = of_servers(GW_METRIC_CHECKPOINTS);
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct job job = {.n = 0};
    const char *why;
    open_seed(&storm, &job, seed);
    if (!cluster_run(&cluster, LIMIT_US))
        snprintf(outcome->why, sizeof outcome->why,
                 "%.40s does not end (last note: %.500s)",
                 cluster.config.cluster.policy, cluster.note);
    else if (cluster.final.status != GW_OK)
        snprintf(outcome->why, sizeof outcome->why, "%.40s ends with: %.500s",
                 cluster.config.cluster.policy, cluster.text);
    else if ((why = audit()) != NULL)
        snprintf(outcome->why, sizeof outcome->why, "%.40s: %s",
                 cluster.config.cluster.policy, why);
    else if (!(mean_loss(1) < mean_loss(0)))
        snprintf(outcome->why, sizeof outcome->why,
                 "%.40s: the loss goes from %.2f to %.2f",
                 cluster.config.cluster.policy, mean_loss(0), mean_loss(1));
    count_what_happened(&storm, outcome);
    cluster_close(&cluster);
}

static void each_push_counts_once_in_every_weather(void **state)
{
    (void)state;
    uint64_t sum[SWEEP_COUNTS];
    uint64_t failed = sweep("stale", SEEDS, one, sum);
    printf("# %u cuts, %u pauses, %u reconnects, %u pushes twice, %u scores, "
           "%u checkpoints of shards\n",
           (unsigned)sum[COUNT_CUTS], (unsigned)sum[COUNT_PAUSES],
           (unsigned)sum[COUNT_RECONNECTS], (unsigned)sum[COUNT_DUPLICATES],
           (unsigned)sum[COUNT_SCORES], (unsigned)sum[COUNT_CHECKPOINTS]);
    assert_int_equal(failed, 0);
    if (sweep_is_replay())
        return;
    for (size_t i = COUNT_CUTS; i <= COUNT_CHECKPOINTS; i++)
        assert_true(sum[i] > 0);
}

/* ---- stopping and going on ---- */

#define CHUNKS_MAX 64
#define ARRAYS_MAX 8 /* weights, two states, mean squares of five */

/* What a job must have again when it goes on, chunk by chunk of the map. */
struct photo {
    size_t chunks, arrays;
    uint64_t updates, pushes, clock[CLUSTER_MAX];
    float *array[CHUNKS_MAX][ARRAYS_MAX];
    size_t elems[CHUNKS_MAX];
};

static void photograph_shard(const struct gw_server *server,
                             struct photo *photo)
{
    struct gw_shard *shard = server->shard;
    for (uint32_t i = 0; i < shard->chunks; i++) {
        const struct gw_shard_chunk *chunk = &shard->chunk[i];
        photo->elems[chunk->global] = chunk->elems;
        for (uint32_t a = 0; a < photo->arrays; a++) {
            const float *from =
                a == 0 ? gw_shard_weights(shard, i)
                       : gw_shard_saved_array(shard, a - 1) + chunk->first;
            size_t bytes = chunk->elems * sizeof *from;
            float *copy = malloc(bytes);
            assert_non_null(copy);
            photo->array[chunk->global][a] = memcpy(copy, from, bytes);
        }
    }
}

static void photograph(struct photo *photo)
{
    const struct gw_server *server = cluster.server[0].server;
    *photo = (struct photo){.chunks = server->map->chunks,
                            .arrays = 1 + gw_shard_saved(server->shard),
                            .updates = first_chunk()->updates,
                            .pushes = first_chunk()->pushes};
    assert_true(photo->chunks <= CHUNKS_MAX && photo->arrays <= ARRAYS_MAX);
    for (uint32_t rank = 0; rank < cluster.workers; rank++)
        photo->clock[rank] = gw_shard_slot(server->shard, rank, 0)->mark;
    for (size_t i = 0; i < cluster.servers; i++)
        photograph_shard(cluster.server[i].server, photo);
}

static void assert_same(const struct photo *a, const struct photo *b)
{
    assert_int_equal(a->updates, b->updates);
    assert_int_equal(a->pushes, b->pushes);
    assert_int_equal(a->chunks, b->chunks);
    assert_int_equal(a->arrays, b->arrays);
    assert_memory_equal(a->clock, b->clock, sizeof a->clock);
    for (size_t c = 0; c < a->chunks; c++)
        for (size_t i = 0; i < a->arrays; i++)
            assert_memory_equal(a->array[c][i], b->array[c][i],
                                a->elems[c] * sizeof(float));
}

static void burn(struct photo *photo)
{
    for (size_t c = 0; c < photo->chunks; c++)
        for (size_t i = 0; i < photo->arrays; i++)
            free(photo->array[c][i]);
}

static void stop_job(void *owner)
{
    (void)owner;
    gw_coordinator_stop(cluster.coordinator, "test");
}

static int is_running(void *owner)
{
    (void)owner;
    return cluster.running;
}

static void run_until_stopped(const struct job *job, uint64_t delay_us)
{
    cluster_open(&cluster, &calm, job->setting, NULL);
    be_unlike();
    assert_true(cluster_run_until(&cluster, is_running, NULL, LIMIT_US));
    gw_sim_at(cluster.sim, delay_us, stop_job, NULL);
    if (!cluster_run(&cluster, LIMIT_US) ||
        cluster.final.status != GW_EINTERRUPTED)
        fail_msg("it is not stopped: %s", cluster.text);
    assert_audit();
}

static void go_on(const struct job *job)
{
    cluster_open(&cluster, &calm, job->setting, "ck");
    be_unlike();
    assert_true(cluster_run_until(&cluster, is_running, NULL, LIMIT_US));
}

/* Each rank has pushed something, so each has a mean square. */
static void assert_squares(const struct photo *photo, size_t first)
{
    for (size_t i = first; i < photo->arrays; i++) {
        double sum = 0;
        for (size_t c = 0; c < photo->chunks; c++)
            for (size_t k = 0; k < photo->elems[c]; k++)
                sum += (double)photo->array[c][i][k];
        assert_true(sum > 0);
    }
}

static void stopped_jobs_go_on_with_all_they_had(void **state)
{
    (void)state;
    unsigned open_groups = 0;
    for (unsigned which = 0; which < 7; which++) {
        for (unsigned round = 0; round < 5; round++) {
            struct job job = {.n = 0};
            struct photo before, after;
            add_policy(&job, 5, which);
            add_optimizer(&job, (which + round) % 5);
            add(&job, "checkpoint.dir=ck");
            add(&job, "checkpoint.every=5 steps");
            add(&job, "train.steps=30");
            add(&job, "cluster.servers=%u", 1 + round % 3);
            run_until_stopped(&job, 17000 + 1700 * round);
            photograph(&before);
            uint64_t group = cluster.server[0].server->group;
            open_groups += before.updates * group > before.pushes;
            assert_true(before.updates * group >= before.pushes);
            if (which == 6)
                assert_squares(&before, before.arrays - 5);
            cluster_end(&cluster);
            add(&job, "cluster.servers=%u", 1 + (round + 1) % 3);
            go_on(&job);
            photograph(&after);
            assert_same(&before, &after);
            burn(&before);
            burn(&after);
            end_well();
            assert_true(cluster.final.step == 30);
            assert_true(first_chunk()->pushes >= 30 * 5);
            cluster_close(&cluster);
        }
    }
    print_message("# %u of 35 stops applied a group that was not full\n",
                  open_groups);
    assert_true(open_groups > 3);
}

/* What another policy did not keep begins at zero, and what this one does not
   need is left in the files. */
static void policies_may_change_at_a_stop(void **state)
{
    (void)state;
    static const char *const policy[][2] = {
        {"cluster.policy=dc-async", "cluster.policy=stale-lr:2"},
        {"cluster.policy=async", "cluster.policy=dc-async"}};
    for (size_t i = 0; i < 2; i++) {
        struct job job = {.n = 0};
        struct photo photo;
        add(&job, "%s", policy[i][0]);
        add(&job, "policy.adaptive=true");
        add(&job, "checkpoint.dir=ck");
        add(&job, "train.steps=30");
        run_until_stopped(&job, 20000);
        cluster_end(&cluster);
        add(&job, "%s", policy[i][1]);
        go_on(&job);
        photograph(&photo);
        for (size_t a = 2; a < photo.arrays; a++)
            for (size_t c = 0; c < photo.chunks; c++)
                for (size_t k = 0; k < photo.elems[c]; k++)
                    assert_true(photo.array[c][a][k] == 0);
        assert_int_equal(photo.arrays, i == 0 ? 2 : 5);
        burn(&photo);
        end_well();
        cluster_close(&cluster);
    }
}

/* ---- what is not finite ---- */

static void who_sends_what_is_not_finite_is_named(void **state)
{
    (void)state;
    for (unsigned which = 0; which < 5; which++) {
        struct job job = {.n = 0};
        add_policy(&job, 3, which);
        add(&job, "optimizer.kind=sgd");
        add(&job, "optimizer.lr=1e6");
        add(&job, "model.layers=[784, 64, 64, 64, 64, 64, 10]");
        add(&job, "train.steps=50");
        cluster_open(&cluster, &calm, job.setting, NULL);
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_ENONFINITE);
        print_message("# %s: %s\n", cluster.config.cluster.policy,
                      cluster.text);
        /* what sync may do is no advice here */
        if (!strstr(cluster.text, ": worker ") || strstr(cluster.text, "skip"))
            fail_msg("%s", cluster.text);
        cluster_close(&cluster);
    }
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_end_and_learn),
        cmocka_unit_test(without_delay_all_are_async),
        cmocka_unit_test(staleness_is_counted_in_updates),
        cmocka_unit_test(each_push_counts_once_in_every_weather),
        cmocka_unit_test(stopped_jobs_go_on_with_all_they_had),
        cmocka_unit_test(policies_may_change_at_a_stop),
        cmocka_unit_test(who_sends_what_is_not_finite_is_named),
    };
    int failed = cmocka_run_group_tests_name("stale", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
