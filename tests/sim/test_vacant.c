/*
 * A rank without a worker: how long a job waits for another one, which
 * processes it takes, and when it does not wait at all.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"
#include "tests/sim/cluster.h"
#include "worker/trainer/rank.h"

#define LIMIT_US   60000000
#define SILENCE_US 3000000 /* a death is known by then, and an end */
#define VICTIM     1

static struct cluster cluster;
static const struct gw_sim_options calm = {.seed = 1, .latency_us = 50};

/* A job of which a worker has died, as everybody knows. */
static void open_vacant(const char *const *settings)
{
    cluster_open(&cluster, &calm, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_slow(cluster.worker[i].loop, 100); /* so that it takes time */
    assert_true(
        cluster_run_until(&cluster, cluster_has_stepped, &cluster, LIMIT_US));
    gw_sim_kill(cluster.worker[VICTIM].loop);
    cluster_run_until(&cluster, cluster_is_over, &cluster, SILENCE_US);
}

/* The job ends, with that status and these words. */
static void ends(enum gw_status status, const char *words)
{
    gw_world_end_worker(&cluster.world, VICTIM);
    assert_true(
        cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, status);
    if (!strstr(cluster.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, cluster.text);
    cluster_close(&cluster);
}

static const char *const long_job[] = {"train.steps=2000", "cluster.patience=5",
                                       NULL};

static void patience_has_an_end(void **state)
{
    (void)state;
    open_vacant(long_job);
    assert_false(cluster.finished);
    assert_non_null(
        strstr(cluster.note, "worker 1 (w, pid 501) died at step "));
    assert_non_null(strstr(cluster.note, "; waiting 5 s for another one"));
    uint64_t since_us = gw_sim_now(cluster.sim);
    assert_true(
        cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US));
    assert_in_range(gw_sim_now(cluster.sim) - since_us, 2000000, 5500000);
    ends(GW_EDEAD, "; nobody has taken its place for 5.0 s");
}

/* ---- one that joins and does not come on ---- */

static int is_let_go;

static int has_been_let_go(void *owner)
{
    (void)owner;
    return is_let_go;
}

/* Its data cannot be read, say, and it does not notice. */
static enum gw_status hang(const struct gw_worker_options *options,
                           struct gw_error *error)
{
    const struct gw_rank_options joins = {.client = options->client,
                                          .local = options->local};
    struct gw_rank *rank;
    enum gw_status status = gw_rank_open(&joins, &rank, error);
    if (status != GW_OK)
        return status;
    gw_loop_enter(options->client.loop);
    gw_loop_await(options->client.loop, has_been_let_go, NULL);
    gw_loop_leave(options->client.loop);
    gw_rank_close(rank);
    return GW_OK;
}

static void one_that_does_not_come_on_has_a_limit(void **state)
{
    (void)state;
    const char *const settings[] = {"train.steps=2000", "cluster.patience=1",
                                    "cluster.step_deadline=1",
                                    "cluster.abort_after=6", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_has_stepped, &cluster, LIMIT_US));
    gw_sim_kill(cluster.worker[VICTIM].loop);
    is_let_go = 0;
    cluster_replace_worker(&cluster, VICTIM);
    cluster.worker[VICTIM].work = hang;
    cluster_run_until(&cluster, cluster_is_over, &cluster, 4000000);
    assert_false(cluster.finished); /* patience is over, and it is heard */
    assert_true(
        cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US));
    is_let_go = 1;
    ends(GW_ETIMEOUT, "(cluster.abort_after): waiting for worker 1 (w, pid "
                      "501) to take its place");
}

/* A launcher that starts no other one tells so: nobody waits any longer. */
static void a_launcher_may_end_the_wait(void **state)
{
    (void)state;
    open_vacant(long_job);
    gw_coordinator_not_replaced(cluster.coordinator, 0); /* is not vacant */
    cluster_run_until(&cluster, cluster_is_over, &cluster, 100000);
    assert_false(cluster.finished);
    gw_coordinator_not_replaced(cluster.coordinator, VICTIM);
    ends(GW_EDEAD, "; no other one is started, vacant for ");
}

/* Weights would not be those of the job that it says it is. */
static void one_with_other_data_is_turned_away(void **state)
{
    (void)state;
    open_vacant(long_job);
    cluster_replace_worker(&cluster, VICTIM);
    cluster.worker[VICTIM].options.train = cluster.test;
    cluster_pass(&cluster, 1000000);
    assert_true(cluster.worker[VICTIM].finished);
    assert_int_equal(cluster.worker[VICTIM].status, GW_EMISMATCH);
    assert_string_equal(cluster.worker[VICTIM].error.text,
                        "worker 1 on w cannot go on: it has other training "
                        "data");
    assert_false(cluster.finished);
    cluster_replace_worker(&cluster, VICTIM);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
}

/* It is told why, in the words of a job that begins. */
static void another_rank_is_not_given(void **state)
{
    static const struct {
        uint32_t rank;
        const char *words;
    } rows[] = {{0, "rank 0 is taken by a worker on w; "},
                {7, "rank 7 is out of range: the job has ranks 0..2"}};
    (void)state;
    open_vacant(long_job);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct gw_world_worker *worker = &cluster.worker[VICTIM];
        cluster_replace_worker(&cluster, VICTIM);
        cluster.worker[VICTIM].options.client.rank = rows[i].rank;
        cluster_pass(&cluster, 500000);
        assert_int_equal(worker->status, GW_EREFUSED);
        if (!strstr(worker->error.text, rows[i].words))
            fail_msg("%s", worker->error.text);
    }
    cluster_replace_worker(&cluster, VICTIM);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
}

/* One that asks for no rank gets the vacant one; the next is too many. */
static void a_vacant_rank_is_given_once(void **state)
{
    (void)state;
    open_vacant(long_job);
    cluster_replace_worker(&cluster, VICTIM);
    cluster.worker[VICTIM].options.client.rank = GW_RANK_NONE;
    cluster_pass(&cluster, 1000000);
    assert_false(cluster.worker[VICTIM].finished);
    assert_non_null(strstr(cluster.note, "worker 1 (w, pid 501) takes its "
                                         "place: step "));
    cluster_replace_worker(&cluster, VICTIM); /* dies, and is vacant again */
    cluster_pass(&cluster, 1000000);
    cluster_finish(&cluster, LIMIT_US);
    assert_int_equal(cluster_refused(&cluster), 0);
    cluster_close(&cluster);
}

/* Each rank has the whole of its time, and no more, whatever becomes of
   others. */
static void patience_is_of_each_rank(void **state)
{
    (void)state;
    open_vacant(long_job);
    gw_sim_kill(cluster.worker[0].loop); /* 3 s later */
    cluster_pass(&cluster, 500000);
    gw_world_end_worker(&cluster.world, 0);
    ends(GW_EDEAD, "worker 1 (w, pid 501) died at step ");
}

/* Wrong ones that come again and again are nobody. */
static void patience_is_not_for_wrong_ones(void **state)
{
    (void)state;
    open_vacant(long_job);
    for (int i = 0; i < 3 && !cluster.finished; i++) {
        cluster_replace_worker(&cluster, VICTIM);
        cluster.worker[VICTIM].options.train = cluster.test;
        cluster_run_until(&cluster, cluster_is_over, &cluster, 900000);
    }
    cluster_run_until(&cluster, cluster_is_over, &cluster, 1500000);
    assert_true(cluster.finished);
    ends(GW_EDEAD, "nobody has taken its place for 5.0 s");
}

static int prepares(void *owner)
{
    char text[4096];
    (void)owner;
    gw_coordinator_status(cluster.coordinator, text, sizeof text);
    return strstr(text, "another one prepares") != NULL;
}

/* It is heard, and opens its data. */
static void one_that_prepares_has_taken_it(void **state)
{
    static const char *const hasty[] = {"train.steps=200",
                                        "cluster.patience=2.5", NULL};
    (void)state;
    open_vacant(hasty);
    cluster_replace_worker(&cluster, VICTIM);
    assert_true(cluster_run_until(&cluster, prepares, NULL, LIMIT_US));
    gw_sim_pause(cluster.worker[VICTIM].loop, 800000);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
}

static int is_told(void *owner)
{
    return cluster.notes > *(const uint64_t *)owner;
}

/* The wait has a limit of its own. */
static void steps_wait_for_another_worker(void **state)
{
    static const char *const strict[] = {
        "train.steps=200", "cluster.step_deadline=0.5",
        "cluster.abort_after=1.5", "cluster.patience=9", NULL};
    (void)state;
    open_vacant(strict);
    cluster_run_until(&cluster, cluster_is_over, &cluster, SILENCE_US);
    assert_false(cluster.finished);
    assert_non_null(strstr(cluster.note, "waiting for another worker of rank 1 "
                                         "to join, for "));
    cluster_replace_worker(&cluster, VICTIM);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
}

static struct gw_seat *shard_of(uint32_t id)
{
    return gw_roster_find(cluster.coordinator, GW_ROLE_SERVER, id);
}

/* A shard tells where it stands when it is asked, and once. */
static void standing_counts_once(void **state)
{
    const struct gw_standing nothing = {.epoch = 0, .ready = 1, .chunks = 1};
    (void)state;
    open_vacant(long_job);
    for (uint32_t i = 0; i < 4; i++)
        gw_vacant_standing(cluster.coordinator, shard_of(i % 2), &nothing);
    assert_false(cluster.finished);
    ends(GW_EDEAD, "nobody has taken its place");
}

/* The new one computes as the one before did, or the job says that it does not;
   a checkpoint that is made meanwhile has the one before. */
static void another_device_is_told(void **state)
{
    (void)state;
    open_vacant(long_job);
    struct gw_seat *before = gw_roster_last(cluster.coordinator, VICTIM);
    assert_non_null(before);
    assert_string_equal(before->device,
                        gw_roster_last(cluster.coordinator, 0)->device);
    strcpy(before->device, "abacus");
    strcpy(before->tuned, "by hand");
    cluster_replace_worker(&cluster, VICTIM);
    assert_true(cluster_run_until(&cluster, prepares, NULL, LIMIT_US));
    const struct gw_seat *who =
        gw_roster_find(cluster.coordinator, GW_ROLE_WORKER, VICTIM);
    assert_string_equal(gw_origin_tuned(cluster.coordinator, who), "by hand");
    uint64_t notes = cluster.notes;
    assert_true(cluster_run_until(&cluster, is_told, &notes, LIMIT_US));
    assert_non_null(strstr(cluster.note, "worker 1 computed on \"abacus\", now "
                                         "on \""));
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
}

static int is_sync(void *owner)
{
    (void)owner;
    return gw_regimes_now(cluster.coordinator)->word.kind == GW_POLICY_SYNC;
}

/* A new worker knows the policy of the job file alone. */
static void a_policy_that_was_asked_for_ends_with_a_worker(void **state)
{
    static const char *const settings[] = {"train.steps=2000",
                                           "cluster.policy=async", NULL};
    const struct gw_message ask = {
        .kind = GW_MESSAGE_REQUEST,
        .request = {.kind = GW_REQUEST_POLICY, .text = "sync"}};
    (void)state;
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_has_stepped, &cluster, LIMIT_US));
    gw_peer_tell(shard_of(0)->peer, &ask);
    assert_true(cluster_run_until(&cluster, is_sync, NULL, LIMIT_US));
    gw_sim_kill(cluster.worker[VICTIM].loop);
    cluster_run_until(&cluster, cluster_is_over, &cluster, SILENCE_US);
    assert_true(cluster.finished);
    ends(GW_EDEAD, "worker 1 (w, pid 501) died at step ");
}

/* Steps that a rank makes by itself, and state that only a worker has, are lost
   with it. */
static void other_policies_end_with_a_worker(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"cluster.policy=async"},
        {"cluster.policy=ssp:2"},
        {"cluster.policy=local:2"},
        {"cluster.policy=backup:1"},
        {"cluster.policy=\"sync until 1000, async\""},
        {"train.loss_scale=dynamic", "train.nonfinite=skip"},
        {"cluster.patience=0"},
        {"cluster.restarts=0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const settings[] = {"train.steps=2000", cases[i][0],
                                        cases[i][1], NULL};
        open_vacant(settings);
        if (!cluster.finished)
            fail_msg("%s: %s", cases[i][0], cluster.note);
        ends(GW_EDEAD, "worker 1 (w, pid 501) died at step ");
    }
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience_has_an_end),
        cmocka_unit_test(one_that_does_not_come_on_has_a_limit),
        cmocka_unit_test(a_launcher_may_end_the_wait),
        cmocka_unit_test(one_with_other_data_is_turned_away),
        cmocka_unit_test(another_rank_is_not_given),
        cmocka_unit_test(a_vacant_rank_is_given_once),
        cmocka_unit_test(patience_is_of_each_rank),
        cmocka_unit_test(patience_is_not_for_wrong_ones),
        cmocka_unit_test(one_that_prepares_has_taken_it),
        cmocka_unit_test(steps_wait_for_another_worker),
        cmocka_unit_test(standing_counts_once),
        cmocka_unit_test(another_device_is_told),
        cmocka_unit_test(a_policy_that_was_asked_for_ends_with_a_worker),
        cmocka_unit_test(other_policies_end_with_a_worker),
    };
    int failed = cmocka_run_group_tests_name("vacant", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
