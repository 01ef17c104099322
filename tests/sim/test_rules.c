/*
 * Rules of keys, and the optimizer that a program asks for, in simulation. Keys
 * with a mean are the mean of the values that ranks push, under every policy
 * and commit, while the optimizer steps the keys beside them, which is compared
 * with fp64.
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
static float weights[GROUPED_KEYS][GROUPED_ELEMS];

static void open_job(const char *const *settings, const char *resume)
{
    cluster.work = grouped_work;
    cluster_open(&cluster, &grouped_lines, settings, resume);
}

/* ---- AdamW in fp64 ---- */

#define LR    0.05
#define DECAY 0.1
#define BETA1 0.9
#define BETA2 0.99
#define EPS   1e-6

static struct plain {
    double w[GROUPED_ELEMS], m[GROUPED_ELEMS], v[GROUPED_ELEMS];
    double gradient[GROUPED_ELEMS];
} plain[GROUPED_KEYS];

/* Makes the mean gradient of a key; returns its square sum. */
static double make_gradient(size_t key)
{
    struct plain *of = &plain[key];
    double square = 0;
    for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
        double g = 0;
        for (uint32_t rank = 0; rank < GROUPED_RANKS; rank++)
            g += (of->w[i] - grouped_target(key, i, rank)) / GROUPED_RANKS;
        of->gradient[i] = g;
        square += g * g;
    }
    return square;
}

static void step_key(size_t key, double t, double clip)
{
    struct plain *of = &plain[key];
    for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
        double g = clip * of->gradient[i];
        of->m[i] = BETA1 * of->m[i] + (1 - BETA1) * g;
        of->v[i] = BETA2 * of->v[i] + (1 - BETA2) * g * g;
        double m = of->m[i] / (1 - pow(BETA1, t));
        double v = of->v[i] / (1 - pow(BETA2, t));
        of->w[i] -= LR * (DECAY * of->w[i] + m / (sqrt(v) + EPS));
    }
}

/* All steps; the norm is that of keys with gradients alone. */
static void train_plainly(double limit)
{
    memset(plain, 0, sizeof plain);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++)
            plain[key].w[i] = grouped_first(key, i);
    for (int t = 1; t <= STEPS; t++) {
        double square = 0, clip = 1;
        for (size_t key = 0; key < GROUPED_KEYS; key++)
            square += grouped_is_value(key) ? 0 : make_gradient(key);
        if (limit > 0)
            clip = fmin(1, limit / (sqrt(square) + 1e-6));
        for (size_t key = 0; key < GROUPED_KEYS; key++)
            if (!grouped_is_value(key))
                step_key(key, t, clip);
    }
}

/* Keys with gradients are those of AdamW in fp64. */
static void assert_adamw(const char *name, double limit)
{
    train_plainly(limit);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
            double is = weights[key][i], should = plain[key].w[i];
            if (!grouped_is_value(key) && !(fabs(is - should) <= 1e-4))
                fail_msg("%s: %s[%zu] is %g, not %g", name,
                         grouped_keys[key].name, i, is, should);
        }
}

/* ---- means ---- */

/* Keys with a mean are that of all ranks' values of the last step. */
static void assert_means(const char *name)
{
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0;
             grouped_is_value(key) && i < gw_key_elems(&grouped_keys[key]);
             i++) {
            double mean = 0;
            for (uint32_t rank = 0; rank < GROUPED_RANKS; rank++)
                mean += grouped_value(key, i, rank, STEPS - 1) / GROUPED_RANKS;
            if ((double)weights[key][i] != mean)
                fail_msg("%s: %s[%zu] is %g, not %g", name,
                         grouped_keys[key].name, i, (double)weights[key][i],
                         mean);
        }
}

/* Keys with a mean are that of so many values, of any ranks and steps: single
   pushes do not wait for each other. */
static void assert_mean_of(const char *name, unsigned n)
{
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0;
             grouped_is_value(key) && i < gw_key_elems(&grouped_keys[key]);
             i++) {
            double sum =
                n * ((double)weights[key][i] - grouped_value(key, i, 0, 0));
            if (fabs(sum - round(sum)) > 1e-3 || sum < n * (STEPS / 2) ||
                sum > n * (2 * STEPS + 96))
                fail_msg("%s: %s[%zu] is %g", name, grouped_keys[key].name, i,
                         (double)weights[key][i]);
        }
}

#define ADAMW                                                                  \
    "optimizer.kind=adamw", "optimizer.lr=0.05", "optimizer.weight_decay=0.1", \
        "optimizer.beta2=0.99", "optimizer.eps=1e-6"

static const struct row {
    const char *name;
    const char *settings[18];
    const char *houses;
    double clip;
    unsigned of; /* ranks whose values are in a mean; 0: all */
    int is_adamw;
} rows[] = {
    {.name = "streaming", .settings = {GROUPED_JOB, ADAMW}, .is_adamw = 1},
    {.name = "one server",
     .settings = {GROUPED_JOB, ADAMW, "cluster.servers=1"},
     .is_adamw = 1},
    {.name = "whole",
     .settings = {GROUPED_JOB, ADAMW, "train.commit=whole",
                  "cluster.servers=3"},
     .is_adamw = 1},
    {.name = "clip",
     .settings = {GROUPED_JOB, ADAMW, "train.clip=20"},
     .clip = 20,
     .is_adamw = 1},
    {.name = "lamb", .settings = {GROUPED_JOB, ADAMW, "optimizer.kind=lamb"}},
    {.name = "none", .settings = {GROUPED_JOB, ADAMW, "optimizer.kind=none"}},
    {.name = "sums of hosts",
     .settings = {GROUPED_JOB, ADAMW, "cluster.local_reduction=on"},
     .houses = "aabb",
     .is_adamw = 1},
    {.name = "backup:0",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"backup:0\""},
     .is_adamw = 1},
    {.name = "backup:1",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"backup:1\""},
     .of = 3},
    {.name = "async",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=async"},
     .of = 1},
    {.name = "ssp:2",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"ssp:2\""},
     .of = 1},
    {.name = "stale-lr:2",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"stale-lr:2\""},
     .of = 2},
    {.name = "dc-async",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=dc-async"},
     .of = 1},
    {.name = "downpour:4",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"downpour:4\""},
     .of = 1},
    {.name = "local:4",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\""}},
    {.name = "local:4, clip",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\"",
                  "policy.inner_clip=5"}},
    {.name = "local:4, whole",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\"",
                  "train.commit=whole"}},
    {.name = "diloco:4",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"diloco:4\""}},
    {.name = "diloco:6 in parts",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"diloco:6\"",
                  "policy.fragments=2", "policy.overlap=1"}},
    {.name = "switches",
     .settings = {GROUPED_JOB, ADAMW,
                  "cluster.policy=\"sync until 8, async until 16, local:4\""}},
};

static void values_are_averaged_beside_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        cluster.houses = row->houses;
        open_job(row->settings, NULL);
        cluster_finish(&cluster, LIMIT_US);
        grouped_gather(&cluster, weights);
        if (row->of > 0)
            assert_mean_of(row->name, row->of);
        else
            assert_means(row->name);
        if (row->is_adamw)
            assert_adamw(row->name, row->clip);
        assert_true(cluster_agrees(&cluster));
        assert_int_equal(cluster_refused(&cluster), 0);
        printf("# %s\n", row->name);
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
}

/* The elastic force of easgd is on values as on weights: the centre is between
   those of the ranks. */
static void easgd_draws_values(void **state)
{
    (void)state;
    const char *const settings[] = {GROUPED_JOB, ADAMW,
                                    "cluster.policy=\"easgd:4\"", NULL};
    open_job(settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    grouped_gather(&cluster, weights);
    assert_in_range((int)weights[2][0], 3, STEPS + 32 * GROUPED_RANKS);
    cluster_close(&cluster);
}

/* ---- values that are not finite ---- */

/* They are no gradients: they go through, and no step is left out by them; nor
   are they left out of a step by a gradient. */
static void values_need_not_be_finite(void **state)
{
    (void)state;
    static const char *const how[] = {
        "train.commit=streaming", "train.commit=whole", "train.clip=20",
        "train.nonfinite=skip", "cluster.policy=async"};
    grouped.poisons = STEPS - 1;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        const char *const settings[] = {GROUPED_JOB, ADAMW, how[i], NULL};
        open_job(settings, NULL);
        cluster_finish(&cluster, LIMIT_US);
        grouped_gather(&cluster, weights);
        if (i < 4) {
            assert_true(isnan(weights[2][3]) && isnan(weights[4][3]));
            weights[2][3] = weights[2][11];
            weights[4][3] = weights[4][11];
            assert_means(how[i]);
        }
        assert_int_equal(cluster_at_servers(&cluster, GW_METRIC_STEPS_SKIPPED),
                         0);
        cluster_close(&cluster);
    }
    grouped.poisons = 0;
    grouped.spoils = STEPS - 1;
    const char *const skips[] = {GROUPED_JOB, ADAMW, "train.nonfinite=skip",
                                 NULL};
    open_job(skips, NULL);
    cluster_finish(&cluster, LIMIT_US);
    grouped_gather(&cluster, weights);
    assert_means("a step that is left out");
    assert_int_not_equal(cluster_at_servers(&cluster, GW_METRIC_STEPS_SKIPPED),
                         0);
    cluster_close(&cluster);
    grouped.spoils = 0;
}

/* ---- declarations ---- */

static void fails_with(const char *const *settings,
                       const char *resume,
                       enum gw_status status,
                       const char *line)
{
    open_job(settings, resume);
    assert_true(cluster_run(&cluster, LIMIT_US));
    if (cluster.final.status != status || !strstr(cluster.text, line))
        fail_msg("%d: \"%s\", not \"%s\"", cluster.final.status, cluster.text,
                 line);
    cluster_end(&cluster);
}

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

/* As long a text as a key can have. */
static void other_all(struct gw_key *key)
{
    memset(key[0].name, 'x', 80);
    key[0].dims = GW_KEY_DIMS_MAX;
    memset(key[0].shape, 255, sizeof key[0].shape);
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
        {other_all, ", 18446744073709551615] here, and \"embedding\""},
        {other_group, "key 0 is \"embedding\", f32[60], group 1 here, and "
                      "\"embedding\", f32[60] on worker 0"},
        {other_rule,
         "key 2 is \"running_mean\", f32[35], group 2 here, "
         "and \"running_mean\", f32[35], group 2 of means on worker 0"},
    };
    (void)state;
    const char *const settings[] = {GROUPED_JOB, ADAMW, NULL};
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
    const char *const settings[] = {GROUPED_JOB, ADAMW, NULL};
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

static void ask_all(const char *optimizer)
{
    for (size_t rank = 0; rank < GROUPED_RANKS; rank++)
        grouped.asks[rank] = optimizer;
}

static void digest_of(const char *const *settings, char hex[65])
{
    open_job(settings, NULL);
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
    fails_with(async, NULL, GW_EUSAGE, "train.clip");
    cluster_close(&cluster);
    fails_with(mixed, NULL, GW_EUSAGE, "train.clip");
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
    open_job(settings, NULL);
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
        open_job(three, "ck");
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
        cmocka_unit_test(values_are_averaged_beside_gradients),
        cmocka_unit_test(easgd_draws_values),
        cmocka_unit_test(values_need_not_be_finite),
        cmocka_unit_test(keys_are_equal_on_all_ranks),
        cmocka_unit_test(the_longest_key_is_named_whole),
        cmocka_unit_test(the_program_may_choose_the_optimizer),
        cmocka_unit_test(the_optimizer_is_one),
        cmocka_unit_test(the_program_may_choose_the_clip),
        cmocka_unit_test(the_clip_is_one),
        cmocka_unit_test(a_checkpoint_has_groups_and_the_optimizer),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
