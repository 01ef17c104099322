/*
 * Declarations of programs, in simulation: all ranks have the same keys, else a
 * line names the first difference; a program may choose the optimizer and the
 * largest norm of a gradient, where its job leaves them open; and checkpoints
 * know both.
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
#include "tests/sim/grouped.h"

#define LIMIT_US 600000000

enum {
    STEPS = 24
};

static struct cluster cluster;

static void fails_with(const char *const *settings,
                       const char *resume,
                       enum gw_status status,
                       const char *line)
{
    grouped_open(&cluster, settings, resume);
    assert_true(cluster_run(&cluster, LIMIT_US));
    if (cluster.final.status != status || !strstr(cluster.text, line))
        fail_msg("%d: \"%s\", not \"%s\"", cluster.final.status, cluster.text,
                 line);
    cluster_end(&cluster);
}

/* ---- keys ---- */

/* Makes a rank's keys unlike those of the others. */
static void other_name(struct gw_key *key)
{
    snprintf(key[3].name, sizeof key[3].name, "other");
}

static void other_shape(struct gw_key *key)
{
    key[0].shape[0]++;
}

static void other_type(struct gw_key *key)
{
    key[1].type = 1;
}

static void other_group(struct gw_key *key)
{
    key[0].group = 1;
}

static void other_rule(struct gw_key *key)
{
    key[2].rule = key[4].rule = GW_KEY_RULE_OPTIMIZER;
}

/* The worker with other keys than worker 0 names the first difference. */
static void keys_are_equal_on_all_ranks(void **state)
{
    static const struct {
        void (*change)(struct gw_key *key);
        const char *line;
    } unlike[] = {
        {other_name, "key 3 is \"other\", f32["},
        {other_shape, "key 0 is \"embedding\", f32[61]"},
        {other_type, "key 1 is \"body\", bf16["},
        {other_group, "key 0 is \"embedding\", f32[60], group 1 here, and "
                      "\"embedding\", f32[60] on worker 0"},
        {other_rule,
         "key 2 is \"running_mean\", f32[35], group 2 here, "
         "and \"running_mean\", f32[35], group 2 of means on worker 0"},
    };
    (void)state;
    const char *const settings[] = {GROUPED_JOB, NULL};
    struct gw_key other[GROUPED_KEYS];
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++) {
        for (uint32_t rank = 0; rank < GROUPED_RANKS; rank += 2) {
            memcpy(other, grouped_keys, sizeof other);
            unlike[i].change(other);
            grouped.keys[rank] = other;
            fails_with(settings, NULL, GW_EMISMATCH,
                       rank == 0 ? " on worker 0; give all workers the same "
                                 : unlike[i].line);
            assert_non_null(strstr(cluster.text, "worker "));
            cluster_close(&cluster);
            grouped.keys[rank] = NULL;
        }
    }
}

/* The longest name that is shown, and the longest shape. */
static void the_longest_key_is_named_whole(void **state)
{
    (void)state;
    const char *const settings[] = {GROUPED_JOB, NULL};
    struct gw_key other[GROUPED_KEYS];
    memcpy(other, grouped_keys, sizeof other);
    snprintf(other[0].name, sizeof other[0].name, "%080d", 0);
    other[0].dims = GW_KEY_DIMS_MAX;
    for (size_t d = 0; d < GW_KEY_DIMS_MAX; d++)
        other[0].shape[d] = UINT64_MAX;
    grouped.keys[2] = other;
    fails_with(settings, NULL, GW_EMISMATCH,
               ", 18446744073709551615] here, and \"embedding\", f32[60] on "
               "worker 0");
    cluster_close(&cluster);
    grouped.keys[2] = NULL;
}

/* ---- settings of the program ---- */

static void ask_all(const char *optimizer)
{
    for (size_t rank = 0; rank < GROUPED_RANKS; rank++)
        grouped.asks[rank] = optimizer;
}

static void digest_of(const char *const *settings, char hex[65])
{
    grouped_open(&cluster, settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, hex);
    cluster_close(&cluster);
}

/* As if the job file named it, under policies of the servers and of the
   workers. */
static void the_program_may_choose_the_optimizer(void **state)
{
    static const char *const kinds[] = {"sgd",   "momentum", "nesterov", "adam",
                                        "adamw", "lamb",     "none",     NULL};
    static const char *const policies[] = {"sync", "local:4", "async"};
    (void)state;
    for (size_t p = 0; p < 3; p++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            char kind[64], policy[64], named[65], asked[65];
            const char *name = kinds[k] ? kinds[k] : "momentum";
            snprintf(kind, sizeof kind, "optimizer.kind=%s", name);
            snprintf(policy, sizeof policy, "cluster.policy=\"%s\"",
                     policies[p]);
            const char *const open[] = {GROUPED_JOB, policy,
                                        "optimizer.kind=auto", NULL};
            const char *const set[] = {GROUPED_JOB, policy, kind, NULL};
            if (p > 0 && (!strcmp(name, "lamb") || (p == 1 && k == 6)))
                continue; /* below */
            ask_all(NULL);
            digest_of(set, named);
            ask_all(kinds[k]);
            digest_of(open, asked);
            assert_string_equal(asked, named);
            digest_of(set, asked); /* both may say the same */
            assert_string_equal(asked, named);
        }
    ask_all(NULL);
}

static void the_optimizer_is_one(void **state)
{
    (void)state;
    const char *const open[] = {GROUPED_JOB, "optimizer.kind=auto", NULL};
    const char *const sgd[] = {GROUPED_JOB, "optimizer.kind=sgd", NULL};
    const char *const async[] = {GROUPED_JOB, "optimizer.kind=auto",
                                 "cluster.policy=async", NULL};
    const char *const local[] = {GROUPED_JOB, "optimizer.kind=auto",
                                 "cluster.policy=\"local:4\"", NULL};
    ask_all("adamw");
    fails_with(sgd, NULL, GW_EMISMATCH,
               "the job has optimizer.kind = \"sgd\", the program asks for "
               "adamw; leave that line out of the job");
    cluster_close(&cluster);
    grouped.asks[1] = "sgd";
    fails_with(open, NULL, GW_EMISMATCH, " as its optimizer, that of worker ");
    assert_non_null(strstr(cluster.text, "worker 1 (w) "));
    assert_non_null(strstr(cluster.text, "for sgd"));
    assert_non_null(strstr(cluster.text, "for adamw"));
    cluster_close(&cluster);
    grouped.asks[1] = NULL;
    fails_with(open, NULL, GW_EMISMATCH, "for the job's");
    cluster_close(&cluster);
    ask_all("adamv");
    fails_with(open, NULL, GW_EUSAGE, "optimizer.kind: ");
    assert_non_null(strstr(cluster.text, "adamv"));
    cluster_close(&cluster);
    ask_all("lamb");
    fails_with(async, NULL, GW_EUSAGE,
               "with optimizer.kind = lamb the norm of a whole key comes "
               "first");
    cluster_close(&cluster);
    ask_all("none");
    fails_with(local, NULL, GW_EUSAGE,
               "which optimizer.kind = none does not do; name their optimizer "
               "in policy.inner");
    cluster_close(&cluster);
    ask_all(NULL);
}

static void clip_all(double clip)
{
    for (unsigned rank = 0; rank < GROUPED_RANKS; rank++)
        grouped.clip[rank] = clip;
}

/* As if the job file said it, by the key that its policy has for that. */
static void the_program_may_choose_the_clip(void **state)
{
    static const char *const jobs[][2] = {
        {"cluster.policy=sync", "train.clip=0.05"},
        {"cluster.policy=\"backup:1\"", "train.clip=0.05"},
        {"cluster.policy=\"local:4\"", "policy.inner_clip=0.05"},
        {"cluster.policy=\"local:4 until 8, diloco:4\"",
         "policy.inner_clip=0.05"}};
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const char *const open[] = {GROUPED_JOB, jobs[i][0], NULL};
        const char *const set[] = {GROUPED_JOB, jobs[i][0], jobs[i][1], NULL};
        char none[65], named[65], asked[65];
        digest_of(open, none);
        digest_of(set, named);
        assert_string_not_equal(none, named);
        clip_all(0.05);
        digest_of(open, asked);
        assert_string_equal(asked, named);
        digest_of(set, asked); /* both may say the same */
        assert_string_equal(asked, named);
        clip_all(0);
    }
}

static void the_clip_is_one(void **state)
{
    (void)state;
    const char *const open[] = {GROUPED_JOB, NULL};
    const char *const other[] = {GROUPED_JOB, "train.clip=2", NULL};
    const char *const async[] = {GROUPED_JOB, "cluster.policy=async", NULL};
    const char *const mixed[] = {
        GROUPED_JOB, "cluster.policy=\"sync until 8, local:4\"", NULL};
    clip_all(0.05);
    fails_with(other, NULL, GW_EMISMATCH,
               "the job has train.clip = 2, the program asks for 0.05; leave "
               "that line out of the job");
    cluster_close(&cluster);
    fails_with(async, NULL, GW_EUSAGE, "leave max_norm out, or take sync");
    cluster_close(&cluster);
    fails_with(mixed, NULL, GW_EUSAGE, "leave max_norm out, or take sync");
    cluster_close(&cluster);
    grouped.clip[1] = 0;
    fails_with(open, NULL, GW_EMISMATCH, " as its largest norm of a gradient");
    assert_non_null(strstr(cluster.text, "for 0.05"));
    assert_non_null(strstr(cluster.text, "for the job's"));
    cluster_close(&cluster);
    clip_all(NAN);
    fails_with(open, NULL, GW_EMISMATCH, "largest norm");
    cluster_close(&cluster);
    clip_all(-1);
    fails_with(open, NULL, GW_EUSAGE, "train.clip: ");
    cluster_close(&cluster);
    clip_all(0);
}

/* ---- checkpoints ---- */

static int is_midway(void *owner)
{
    const struct gw_shard *shard =
        ((struct cluster *)owner)->server[0].server->shard;
    return shard && shard->chunks > 0 && shard->chunk[0].version >= STEPS / 2;
}

static void stop_midway(const char *const *settings)
{
    grouped_open(&cluster, settings, NULL);
    assert_true(cluster_run_until(&cluster, is_midway, &cluster, LIMIT_US));
    cluster_stop(&cluster);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_in_range(cluster.final.checkpoint, 3, STEPS - 3);
    cluster_end(&cluster);
}

/* On another number of servers, to the same bits; with another optimizer, or
   other groups, not at all. */
static void a_checkpoint_has_groups_and_the_optimizer(void **state)
{
    static const char *const policies[] = {"cluster.policy=sync",
                                           "cluster.policy=\"local:4\"",
                                           "train.commit=whole"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *const two[] = {GROUPED_JOB,         "optimizer.kind=auto",
                                   "optimizer.lr=0.01", "checkpoint.dir=ck",
                                   policies[i],         NULL};
        const char *const three[] = {GROUPED_JOB,
                                     "optimizer.kind=auto",
                                     "optimizer.lr=0.01",
                                     "checkpoint.dir=ck",
                                     "cluster.servers=3",
                                     policies[i],
                                     NULL};
        char whole[65], again[65];
        struct gw_key other[GROUPED_KEYS];
        ask_all("adamw");
        digest_of(two, whole);
        stop_midway(two);
        if (i != 1) {
            ask_all("sgd");
            fails_with(three, "ck", GW_EMISMATCH,
                       "was made with optimizer.kind = \"adamw\", the job says "
                       "\"sgd\"");
            ask_all("adamw");
        }
        memcpy(other, grouped_keys, sizeof other);
        other[3].group = 1;
        for (size_t rank = 0; rank < GROUPED_RANKS; rank++)
            grouped.keys[rank] = other;
        fails_with(three, "ck", GW_EMISMATCH,
                   "its keys, their shapes or their groups differ");
        memset(grouped.keys, 0, sizeof grouped.keys);
        grouped_open(&cluster, three, "ck");
        cluster_finish(&cluster, LIMIT_US);
        cluster_digest(&cluster, again);
        assert_string_equal(again, whole);
        cluster_close(&cluster);
    }
    ask_all(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_equal_on_all_ranks),
        cmocka_unit_test(the_longest_key_is_named_whole),
        cmocka_unit_test(the_program_may_choose_the_optimizer),
        cmocka_unit_test(the_optimizer_is_one),
        cmocka_unit_test(the_program_may_choose_the_clip),
        cmocka_unit_test(the_clip_is_one),
        cmocka_unit_test(a_checkpoint_has_groups_and_the_optimizer),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("declarations", tests, NULL, NULL);
}
