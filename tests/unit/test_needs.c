/*
 * Memory of a job: numbers worked out by hand, the memory of the program
 * itself, and the largest job that fits.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/available.h"
#include "server/policy/regime.h"
#include "server/shard.h"
#include "tests/unit/needs_job.h"
#include "worker/model/model.h"

#define PAGE 4096u

/* ---- by hand ---- */

/*
 * 784-10: 31,360 bytes of weights and 40 of biases, in an arena of 31,424; an
 * array of the one shard has 8 pages and one more. 250 samples of a test set:
 * outputs and two gradients of 10,000 bytes, each to 64; a loss. Plain files,
 * mapped.
 */
static void needs_are_as_worked_out_by_hand(void **state)
{
    const char *settings[] = {"model.layers=[784, 10]",
                              "cluster.workers=3",
                              "cluster.servers=1",
                              "optimizer.kind=adam",
                              "train.batch=4",
                              "train.clip=1",
                              NULL};
    struct needs_job *job = needs_job_open(settings);
    const struct gw_worker_need *w = &job->needs.worker;
    const struct gw_server_need *s = &job->needs.server;
    (void)state;
    assert_int_equal(w->weights, 31424);
    assert_int_equal(w->gradients, 31424);
    assert_int_equal(w->activations, 3 * 10048 + 64);
    /* 128 of its 250 samples at a time, with so many inputs and outputs */
    assert_int_equal(w->scratch, 4 * 128 * (512 + 48));
    assert_int_equal(gw_device_need_own(&w->device), 0);
    assert_int_equal(w->batch, 250 * (784 * 4 + 4));
    assert_int_equal(w->data, 4 * 600);
    assert_int_equal(w->mapped, 2 * (300 * 784 + 16 + 300 + 8));
    assert_int_equal(w->local, 0);
    assert_int_equal(s->weights, 2 * 9 * PAGE);
    assert_int_equal(s->states, 2 * 9 * PAGE);
    assert_int_equal(s->landing, 3 * 9 * PAGE);
    assert_int_equal(s->sums, 9 * PAGE); /* clipping needs whole steps */
    assert_int_equal(s->ranks, 0);
    assert_int_equal(s->snapshot, 0);
    needs_job_close(job);
}

static void open_near(struct needs_job *job,
                      const struct gw_estimate_hosts *near,
                      struct gw_needs *needs)
{
    struct gw_error error = {.text = ""};
    if (gw_needs_count(&job->what, job->map, near, needs, &error) != GW_OK)
        fail_msg("%s", error.text);
}

/*
 * The same job on one host, over links in shared memory: a server writes the
 * weights of three workers and reads their gradients; a worker that also sends
 * some writes its own slot. With a host per member nothing is shared; a server
 * beside the second of two hosts' workers shares one.
 */
static void what_is_mapped_of_others_counts_where_they_are_near(void **state)
{
    const char *settings[] = {"model.layers=[784, 10]", "cluster.workers=3",
                              "cluster.servers=1", "train.batch=4", NULL};
    const double bytes = 31424;
    uint32_t host = 0;
    struct gw_estimate_hosts near = {.workers = 3,
                                     .per_host = 3,
                                     .servers = 1,
                                     .server_host = &host,
                                     .server_bytes = &bytes};
    const struct gw_needs_host all = {.workers = 3, .servers = 1};
    struct needs_job *job = needs_job_open(settings);
    struct gw_needs needs;
    (void)state;
    assert_int_equal(job->needs.worker.shared, 0);
    assert_int_equal(job->needs.server.shared, 0);
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 0);
    assert_int_equal(needs.server.shared, 3 * 2 * 31424);
    assert_int_equal(needs.worker.messages - job->needs.worker.messages,
                     200 << 10);
    assert_int_equal(needs.server.messages - job->needs.server.messages,
                     3 * (200 << 10));
    /* it is there once: a host needs no more for it */
    assert_int_equal(gw_needs_of_host(&needs, &all),
                     gw_needs_of_host(&job->needs, &all));
    /* sums, where a server is elsewhere: of two workers each has half */
    near.sums = 1;
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 0);
    strcpy(job->config.cluster.local_reduction, "on");
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 31424);
    strcpy(job->config.cluster.local_reduction, "auto");
    host = 3;
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 31424);
    near.sums = 0;
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 0);
    near.sums = 1;
    near.per_host = 1;
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 0);
    near.sums = 0;
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 0);
    assert_int_equal(needs.server.shared, 0);
    host = 1;
    near.per_host = 2;
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 0);
    assert_int_equal(needs.server.shared, 2 * 31424);
    strcpy(job->config.cluster.policy, "sync until 4, async");
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 31424);
    assert_int_equal(needs.server.shared, 2 * 31424);
    strcpy(job->config.cluster.policy, "async");
    open_near(job, &near, &needs);
    assert_int_equal(needs.worker.shared, 31424);
    assert_int_equal(needs.server.shared, 31424);
    needs_job_close(job);
}

/* Chunks of four shards take turns, so each shard has some in every huge page:
   all weights count, once for the two threads of a process. Smaller arrays have
   no huge page. */
static void chunks_of_others_in_huge_pages_count(void **state)
{
    const char *settings[] = {"model.layers=[784, 4096, 10]",
                              "cluster.workers=1",
                              "cluster.servers=2",
                              "server.threads=2",
                              "train.batch=4",
                              NULL};
    const double bytes[] = {6500000, 6500000};
    const uint32_t host[] = {0, 0};
    struct gw_estimate_hosts near = {.workers = 1,
                                     .per_host = 1,
                                     .servers = 2,
                                     .server_host = host,
                                     .server_bytes = bytes};
    struct needs_job *job = needs_job_open(settings);
    struct gw_needs needs;
    (void)state;
    open_near(job, &near, &needs);
    assert_int_equal(job->map->shards, 4);
    assert_int_equal(needs.server.shared, 2 * job->map->arena_bytes);
    needs_job_close(job);
    settings[0] = "model.layers=[784, 200, 10]";
    settings[3] = "server.threads=1";
    job = needs_job_open(settings);
    open_near(job, &near, &needs);
    const uint64_t *of = job->map->shard_bytes;
    assert_int_equal(needs.server.shared, 2 * (of[0] > of[1] ? of[0] : of[1]));
    assert_true(needs.server.shared < 2 * job->map->arena_bytes);
    needs_job_close(job);
}

#define LOCAL_JOB                                                              \
    {                                                                          \
        "model.layers=[784, 10]", "cluster.workers=2", "cluster.servers=1",    \
            "optimizer.kind=momentum", "cluster.policy=\"local:4\"",           \
            "checkpoint.dir=/tmp/x", "train.batch=4", NULL                     \
    }

/* local, diloco: where the round began and the own optimizer's; checkpoints
   with a copy; a plan of two words needs the most of each. */
static void policies_need_what_they_keep(void **state)
{
    const char *settings[] = LOCAL_JOB;
    struct needs_job *job = needs_job_open(settings);
    (void)state;
    assert_int_equal(job->needs.worker.local, 2 * 31424);
    assert_int_equal(job->needs.worker.snapshot, 31400);
    assert_int_equal(job->needs.server.snapshot, 31400);
    needs_job_close(job);
    settings[4] = "cluster.policy=\"sync until 5, easgd:2\"";
    job = needs_job_open(settings);
    assert_int_equal(job->needs.worker.local, 31424);
    assert_int_equal(job->needs.server.ranks, 2 * 9 * PAGE);
    assert_int_equal(job->needs.server.states, 9 * PAGE);
    needs_job_close(job);
    settings[4] = "cluster.policy=dc-async";
    settings[5] = "policy.adaptive=true";
    job = needs_job_open(settings);
    assert_int_equal(job->needs.server.ranks, 4 * 9 * PAGE);
    assert_int_equal(job->needs.worker.local, 0);
    needs_job_close(job);
}

/* ---- the program itself ---- */

static void servers_take_what_they_are_said_to_need(void **state)
{
    static const char *const policies[] = {
        "cluster.policy=sync", "cluster.policy=\"backup:1\"",
        "cluster.policy=dc-async", "cluster.policy=\"easgd:2\"",
        "cluster.policy=\"stale-lr:1\""};
    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const char *settings[] = {"model.layers=[784, 300, 10]",
                                  policies[i],
                                  "cluster.workers=3",
                                  "cluster.servers=2",
                                  "optimizer.kind=momentum",
                                  "train.batch=4",
                                  NULL};
        struct needs_job *job = needs_job_open(settings);
        struct gw_regime regime;
        struct gw_server_need need;
        struct gw_shard *shard;
        struct gw_error error;
        for (uint32_t number = 0; number < 2; number++) {
            assert_int_equal(gw_regime_at(&job->config, 0, &regime, &error),
                             GW_OK);
            assert_int_equal(gw_shard_create(job->map, number, 3, regime.arrays,
                                             regime.optimizer, &shard, &error),
                             GW_OK);
            assert_int_equal(gw_server_need(&job->config, job->map, number, 0,
                                            &need, &error),
                             GW_OK);
            assert_int_equal(need.weights + need.states + need.landing +
                                 need.sums + need.ranks,
                             shard->memory_bytes);
            gw_shard_destroy(shard);
        }
        needs_job_close(job);
    }
}

static void models_take_what_they_are_said_to_need(void **state)
{
    static const char *const models[][2] = {
        {"model.kind=mlp", "model.layers=[784, 64, 32, 10]"},
        {"model.kind=cnn",
         "model.layers=[\"conv 4 5\", \"pool 2\", \"dropout 0.5\", \"conv 8 "
         "3\", \"dense 20\"]"}};
    const struct gw_device_options options = {.threads = 1};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {models[i][0],        models[i][1],
                                  "train.batch=300",   "train.accumulate=1",
                                  "cluster.workers=1", NULL};
        struct needs_job *job = needs_job_open(settings);
        struct gw_device *device;
        struct gw_model *model;
        struct gw_error error;
        size_t n, elems = 0;
        assert_int_equal(job->what.backend->open(&options, &device, &error),
                         GW_OK);
        assert_int_equal(
            gw_model_create(&job->config, gw_dataset_shape(job->what.train),
                            300, job->what.backend, device, &model, &error),
            GW_OK);
        assert_int_equal(job->needs.worker.activations +
                             job->needs.worker.scratch,
                         gw_model_bytes(model));
        assert_int_equal(job->needs.worker.scratch,
                         (gw_model_scratch_bytes(model)));
        const struct gw_key *keys = gw_model_keys(model, &n);
        for (size_t key = 0; key < n; key++)
            elems += gw_key_elems(&keys[key]);
        assert_int_equal(job->map->model_bytes, elems * sizeof(float));
        gw_model_destroy(model);
        job->what.backend->close(device);
        needs_job_close(job);
    }
}

/* ---- a program's ---- */

/*
 * 30 and 20,000 weights: 128 bytes and 80,000 in an arena; an array of the one
 * shard has 20 pages and one more. The library of a worker has weights and
 * gradients, and under local policies those from which a round began, and the
 * states of an optimizer if it is not the program's.
 */
static void a_program_needs_what_its_library_holds(void **state)
{
    const struct gw_key keys[] = {
        {.name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {30}},
        {.name = "b", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {20000}}};
    static const struct {
        const char *policy, *inner;
        uint64_t local;
    } rows[] = {{"sync", "auto", 0},
                {"local:4", "auto", 80128},
                {"local:4", "adam", 3 * 80128}};
    struct gw_config config;
    const struct gw_worker_case what = {
        .config = &config, .key = keys, .keys = 2};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gw_error error = {.text = ""};
        struct gw_needs needs;
        struct gw_map *map;
        uint64_t flop;
        gw_config_default(&config);
        config.model.kind = GW_MODEL_EXTERNAL;
        config.cluster.workers = 3;
        config.cluster.servers = 1;
        strcpy(config.cluster.policy, rows[i].policy);
        strcpy(config.policy.inner, rows[i].inner);
        if (gw_config_check(&config, &error) != GW_OK ||
            gw_worker_map(&what, &map, &flop, &error) != GW_OK ||
            gw_needs_count(&what, map, NULL, &needs, &error) != GW_OK)
            fail_msg("%s", error.text);
        assert_int_equal(flop, 0);
        assert_int_equal(map->model_bytes, 4 * 20030);
        assert_int_equal(needs.worker.weights, 80128);
        assert_int_equal(needs.worker.gradients, 80128);
        assert_int_equal(needs.worker.local, rows[i].local);
        assert_int_equal(gw_needs_worker(&needs), 2 * 80128 + rows[i].local);
        assert_int_equal(needs.server.landing, 3 * 21 * PAGE);
        gw_map_destroy(map);
    }
}

/* ---- the largest job that fits ---- */

static void a_refusal_says_the_largest_batch(void **state)
{
    const char *settings[] = {"model.layers=[784, 200, 10]", "train.batch=300",
                              "cluster.workers=1", NULL};
    struct gw_error error;
    (void)state;
    struct needs_job *job = needs_job_open(settings);
    job->what.test = NULL; /* scored with 250 */
    struct gw_needs_host host = {.name = "this host",
                                 .what = "there",
                                 .workers = 1,
                                 .servers = 1,
                                 .all = 1,
                                 .bytes = UINT64_MAX,
                                 .device_bytes = UINT64_MAX};
    assert_int_equal(needs_check(job, &host, &error), GW_OK);
    host.bytes = gw_needs_of_host(&job->needs, &host);
    host.bytes -= 4 * 300; /* labels of the test set */
    assert_int_equal(needs_check(job, &host, &error), GW_OK);
    host.bytes -= 700000;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    uint64_t batch = needs_advised(&error, "train.batch = ");
    assert_in_range(batch, 1, 299);
    job->config.train.batch = batch;
    assert_int_equal(needs_check(job, &host, &error), GW_OK);
    job->config.train.batch = batch + 1;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    needs_job_close(job);
}

/* Questions of a search, counted: at most `most` fits, or at least `least`. */
struct asked {
    uint64_t least, most;
    unsigned pattern; /* or answers that no job gives, by its bits */
    unsigned *turns;
};

static int is_within(const void *owner, uint64_t value)
{
    const struct asked *asked = owner;
    unsigned turn = (*asked->turns)++;
    assert_in_range(turn, 0, GW_NEED_TURNS - 1);
    if (asked->pattern)
        return asked->pattern >> turn % 8 & 1;
    return value >= asked->least && value <= asked->most;
}

static void the_search_ends_whatever_the_answers_are(void **state)
{
    static const uint64_t ends[][2] = {
        {300, 1},        {2, 1},          {1, 1},
        {1, 4096},       {7, 7},          {UINT64_MAX, 1},
        {1, UINT64_MAX}, {0, UINT64_MAX}, {UINT64_MAX, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (unsigned pattern = 0; pattern < 256; pattern++) {
            unsigned turns = 0;
            const struct asked asked = {1, 0, pattern, &turns};
            gw_need_nearest(ends[i][0], ends[i][1], is_within, &asked);
        }
    for (uint64_t edge = 1; edge < 300; edge++) {
        unsigned turns = 0;
        const struct asked most = {1, edge, 0, &turns};
        assert_int_equal(gw_need_nearest(300, 1, is_within, &most), edge);
        assert_in_range(turns, 0, 9);
        turns = 0;
        const struct asked least = {edge, 4096, 0, &turns};
        assert_int_equal(gw_need_nearest(0, 4096, is_within, &least), edge);
        assert_in_range(turns, 0, 12);
    }
    unsigned turns = 0;
    const struct asked far = {0, UINT64_MAX - 1, 0, &turns};
    assert_true(gw_need_nearest(UINT64_MAX, 0, is_within, &far) ==
                UINT64_MAX - 1);
}

static void a_refusal_says_how_many_members(void **state)
{
    const char *settings[] = {"model.layers=[784, 200, 10]", "train.batch=4",
                              "cluster.workers=8", "cluster.servers=2", NULL};
    struct gw_error error;
    (void)state;
    struct needs_job *job = needs_job_open(settings);
    struct gw_needs_host host = {.name = "this host",
                                 .what = "there",
                                 .workers = 8,
                                 .servers = 2,
                                 .all = 1,
                                 .device_bytes = UINT64_MAX};
    host.bytes = gw_needs_of_host(&job->needs, &host) / 2;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    uint64_t workers = needs_advised(&error, "cluster.workers = ");
    assert_in_range(workers, 1, 7);
    job->config.cluster.workers = host.workers = workers;
    assert_int_equal(needs_check(job, &host, &error), GW_OK);
    job->config.cluster.workers = host.workers = workers + 1;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    /* a server on a host of its own: more of them have less each */
    host = (struct gw_needs_host){.name = "a host with servers",
                                  .what = "there",
                                  .servers = 1,
                                  .device_bytes = UINT64_MAX};
    job->config.cluster.workers = 8;
    host.bytes = 2u << 20;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    uint64_t servers = needs_advised(&error, "cluster.servers = ");
    assert_in_range(servers, 3, 16);
    job->config.cluster.servers = servers;
    assert_int_equal(needs_check(job, &host, &error), GW_OK);
    job->config.cluster.servers = servers - 1;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    host.bytes = 100;
    assert_int_equal(needs_check(job, &host, &error), GW_ENOMEM);
    assert_non_null(strstr(error.text, "take a smaller model"));
    needs_job_close(job);
}

/* ---- available memory ---- */

static char root[] = "/tmp/gradweir-needs-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void the_tightest_limit_holds(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(root));
    assert_true(gw_available_here(root).bytes == UINT64_MAX);
    put("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n"
                        "SwapFree:        1000 kB\n");
    assert_int_equal(gw_available_here(root).bytes, 6000 * 1024);
    put("proc/self/cgroup", "1:name=x:/\n0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_int_equal(gw_available_here(root).bytes, 6000 * 1024);
    put("sys/fs/cgroup/a/memory.max", "3000000\n");
    put("sys/fs/cgroup/a/memory.current", "2000000\n");
    put("sys/fs/cgroup/a/memory.stat",
        "anon 1\ninactive_file 400000\nactive_file 100000\n");
    struct gw_available found = gw_available_here(root);
    assert_int_equal(found.bytes, 1500000);
    assert_non_null(strstr(found.what, "control group"));
    put("sys/fs/cgroup/a/memory.current", "9000000\n");
    assert_int_equal(gw_available_here(root).bytes, 0);
    /* the first version of groups */
    put("proc/self/cgroup", "4:memory:/c\n");
    put("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1000\n");
    put("sys/fs/cgroup/memory/c/memory.usage_in_bytes", "600\n");
    put("sys/fs/cgroup/memory/c/memory.stat", "total_inactive_file 50\n");
    assert_int_equal(gw_available_here(root).bytes, 450);
    put("sys/fs/cgroup/memory/c/memory.limit_in_bytes",
        "9223372036854771712\n");
    assert_int_equal(gw_available_here(root).bytes, 6000 * 1024);
}

static int remove_root(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) == 0 ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(needs_are_as_worked_out_by_hand),
        cmocka_unit_test(what_is_mapped_of_others_counts_where_they_are_near),
        cmocka_unit_test(chunks_of_others_in_huge_pages_count),
        cmocka_unit_test(policies_need_what_they_keep),
        cmocka_unit_test(servers_take_what_they_are_said_to_need),
        cmocka_unit_test(models_take_what_they_are_said_to_need),
        cmocka_unit_test(a_program_needs_what_its_library_holds),
        cmocka_unit_test(a_refusal_says_the_largest_batch),
        cmocka_unit_test(the_search_ends_whatever_the_answers_are),
        cmocka_unit_test(a_refusal_says_how_many_members),
        cmocka_unit_test_teardown(the_tightest_limit_holds, remove_root),
    };
    return cmocka_run_group_tests(tests, needs_data_open, needs_data_close);
}
