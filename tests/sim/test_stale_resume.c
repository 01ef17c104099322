/*
 * Jobs under stale-lr, dc-async and easgd that are stopped: they go on, also
 * with another number of servers, with every counter and all that they keep.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/server_state.h"
#include "server/checkpoint/store.h"
#include "tests/sim/stale.h"

static struct cluster cluster;

#define CHUNKS_MAX 64
#define ARRAYS_MAX 8 /* weights, two states, something of each of five */

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
                            .updates = stale_chunk(&cluster)->updates,
                            .pushes = stale_chunk(&cluster)->pushes};
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

static void run_until_stopped(const struct stale_job *job, uint64_t delay_us)
{
    cluster_open(&cluster, &stale_calm, job->setting, NULL);
    stale_be_unlike(&cluster);
    assert_true(cluster_run_until(&cluster, cluster_is_running, &cluster,
                                  STALE_LIMIT_US));
    gw_sim_at(cluster.sim, delay_us, cluster_stop, &cluster);
    if (!cluster_run(&cluster, STALE_LIMIT_US) ||
        cluster.final.status != GW_EINTERRUPTED)
        fail_msg("it is not stopped: %s", cluster.text);
    assert_null(stale_audit(&cluster));
}

static void go_on(const struct stale_job *job)
{
    cluster_open(&cluster, &stale_calm, job->setting, "ck");
    stale_be_unlike(&cluster);
    assert_true(cluster_run_until(&cluster, cluster_is_running, &cluster,
                                  STALE_LIMIT_US));
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

/* Each rank has weights of its own, which are not the centre's. */
static void assert_each_has_its_own(const struct photo *photo, size_t first)
{
    size_t bytes = photo->elems[0] * sizeof(float);
    for (size_t i = first; i < photo->arrays; i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(photo->array[0][i], photo->array[0][k],
                                    bytes);
}

static void stopped_jobs_go_on_with_all_they_had(void **state)
{
    (void)state;
    unsigned open_groups = 0;
    for (unsigned which = 0; which < 8; which++) {
        for (unsigned round = 0; round < 5; round++) {
            struct stale_job job = {.n = 0};
            struct photo before, after;
            stale_add_policy(&job, 5, which);
            stale_add_optimizer(&job, (which + round) % 5);
            stale_add(&job, "checkpoint.dir=ck");
            stale_add(&job, "checkpoint.every=5 steps");
            stale_add(&job, "train.steps=30");
            stale_add(&job, "cluster.servers=%u", 1 + round % 3);
            run_until_stopped(&job, 17000 + 1700 * round);
            photograph(&before);
            uint64_t group = cluster.server[0].server->regime.group;
            open_groups += which < 5 && before.updates * group > before.pushes;
            assert_true(which == 7 || before.updates * group >= before.pushes);
            if (which == 6)
                assert_squares(&before, before.arrays - 5);
            if (which == 7)
                assert_each_has_its_own(&before, before.arrays - 5);
            cluster_end(&cluster);
            stale_add(&job, "cluster.servers=%u", 1 + (round + 1) % 3);
            go_on(&job);
            photograph(&after);
            assert_same(&before, &after);
            burn(&before);
            burn(&after);
            stale_end_well(&cluster);
            assert_true(cluster.final.step == 30);
            assert_true(stale_chunk(&cluster)->pushes >= 30 * 5);
            cluster_close(&cluster);
        }
    }
    print_message("# %u of 25 stops applied a group that was not full\n",
                  open_groups);
    assert_true(open_groups > 3);
}

/* What another policy did not keep begins at zero, or with the weights, and
   what this one does not need is left in the files. */
static void policies_may_change_at_a_stop(void **state)
{
    (void)state;
    static const char *const policy[][2] = {
        {"cluster.policy=dc-async", "cluster.policy=stale-lr:2"},
        {"cluster.policy=async", "cluster.policy=dc-async"},
        {"cluster.policy=async", "cluster.policy=easgd:2"}};
    for (size_t i = 0; i < 3; i++) {
        struct stale_job job = {.n = 0};
        struct photo photo;
        stale_add(&job, "%s", policy[i][0]);
        stale_add(&job, "optimizer.kind=%s", i == 2 ? "sgd" : "momentum");
        stale_add(&job, "policy.adaptive=true");
        stale_add(&job, "checkpoint.dir=ck");
        stale_add(&job, "train.steps=30");
        run_until_stopped(&job, 20000);
        cluster_end(&cluster);
        stale_add(&job, "%s", policy[i][1]);
        stale_add(&job, "policy.inner=sgd");
        go_on(&job);
        photograph(&photo);
        for (size_t a = i == 2 ? 1 : 2; a < photo.arrays; a++)
            for (size_t c = 0; c < photo.chunks; c++)
                for (size_t k = 0; k < photo.elems[c]; k++)
                    assert_true(photo.array[c][a][k] ==
                                (i == 2 ? photo.array[c][0][k] : 0));
        assert_int_equal(photo.arrays, i == 0 ? 2 : i == 1 ? 5 : 4);
        burn(&photo);
        stale_end_well(&cluster);
        cluster_close(&cluster);
    }
}

/* Nobody takes a step then: under easgd what a rank is given first are weights
   of its own, which are not what the job ends with. */
static void a_job_that_is_over_ends_with_the_same(void **state)
{
    (void)state;
    for (unsigned which = 0; which < 6; which++) {
        struct stale_job job = {.n = 0};
        char before[65], after[65];
        stale_add_policy(&job, 3, which);
        stale_add(&job, "checkpoint.dir=ck");
        stale_add(&job, "train.steps=10");
        cluster_open(&cluster, &stale_calm, job.setting, NULL);
        stale_be_unlike(&cluster);
        stale_end_well(&cluster);
        cluster_digest(&cluster, before);
        cluster_end(&cluster);
        go_on(&job);
        assert_true(cluster_run(&cluster, STALE_LIMIT_US));
        assert_int_equal(cluster.final.status, GW_OK);
        assert_int_equal(cluster_at_workers(&cluster, GW_METRIC_STEPS), 0);
        cluster_digest(&cluster, after);
        assert_string_equal(before, after);
        cluster_close(&cluster);
    }
}

/* A worker that the checkpoint knows nothing of begins with nothing. */
static void workers_may_join_at_a_stop(void **state)
{
    (void)state;
    struct stale_job job = {.n = 0};
    struct photo photo;
    stale_add_policy(&job, 3, 4);
    stale_add(&job, "checkpoint.dir=ck");
    stale_add(&job, "train.steps=30");
    run_until_stopped(&job, 20000);
    cluster_end(&cluster);
    stale_add(&job, "cluster.workers=4");
    go_on(&job);
    photograph(&photo);
    assert_int_equal(photo.arrays, 2 + 4);
    for (size_t c = 0; c < photo.chunks; c++)
        for (size_t k = 0; k < photo.elems[c]; k++)
            assert_true(photo.array[c][5][k] == 0);
    photo.arrays = 5;
    assert_squares(&photo, 2);
    photo.arrays = 6;
    burn(&photo);
    stale_end_well(&cluster);
    cluster_close(&cluster);
}

/* Takes a tensor away by giving it another name, and makes the digests fit. */
static void rename_tensor(uint64_t clock, const char *from, char to)
{
    struct gw_disk *disk = cluster_checkpoints(&cluster);
    struct gw_manifest manifest;
    struct gw_error error;
    char path[GW_PATH_MAX];
    size_t n, found = 0;
    assert_int_equal(gw_store_manifest(disk, clock, &manifest, &error), GW_OK);
    for (size_t i = 0; i < manifest.n_files && !found; i++) {
        struct gw_manifest_file *file = &manifest.files[i];
        uint8_t *bytes;
        gw_store_path(clock, file->name, path);
        assert_int_equal(gw_store_read(disk, path, 1 << 30, &bytes, &n, &error),
                         GW_OK);
        uint8_t *name = memmem(bytes, n, from, strlen(from));
        struct gw_file_part part = {bytes, n};
        if (name) {
            name[1] = (uint8_t)to; /* behind the quote */
            assert_int_equal(
                gw_store_write(disk, clock, &part, 1, NULL, file, &error),
                GW_OK);
            found = 1;
        }
        free(bytes);
    }
    assert_true(found);
    char *text = gw_manifest_print(&manifest);
    struct gw_file_part part = {text, strlen(text)};
    struct gw_manifest_file own = {.name = GW_MANIFEST_NAME};
    assert_int_equal(gw_store_write(disk, clock, &part, 1, NULL, &own, &error),
                     GW_OK);
    free(text);
    gw_manifest_free(&manifest);
}

/* Nothing of a rank is a beginning, a part of it is damage; so is a shard
   without any state of the optimizer. */
static void a_part_of_what_a_rank_had_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *lacks;
        unsigned servers;
    } rows[] = {{"\"mean_square.rank1.fc1", 1},
                {"\"momentum_buffer.fc2.bias", 1},
                {"\"momentum_buffer.fc1.weight[0", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stale_job job = {.n = 0};
        stale_add_policy(&job, 3, 4);
        stale_add(&job, "cluster.servers=%u", rows[i].servers);
        stale_add(&job, "checkpoint.dir=ck");
        stale_add(&job, "train.steps=30");
        run_until_stopped(&job, 20000);
        rename_tensor(cluster.final.checkpoint, rows[i].lacks, 'x');
        cluster_end(&cluster);
        cluster_open(&cluster, &stale_calm, job.setting, "ck");
        assert_true(cluster_run(&cluster, STALE_LIMIT_US));
        assert_int_equal(cluster.final.status, GW_EMISMATCH);
        print_message("# %s\n", cluster.text);
        assert_non_null(strstr(cluster.text, rows[i].lacks + 1));
        cluster_close(&cluster);
    }
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_jobs_go_on_with_all_they_had),
        cmocka_unit_test(policies_may_change_at_a_stop),
        cmocka_unit_test(a_job_that_is_over_ends_with_the_same),
        cmocka_unit_test(workers_may_join_at_a_stop),
        cmocka_unit_test(a_part_of_what_a_rank_had_is_refused),
    };
    int failed = cmocka_run_group_tests_name("stale_resume", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
