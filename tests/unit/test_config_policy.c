/* proto/config: what goes with which policy, and why not. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/config.h"

static struct gw_config config; /* large: not on the stack */

#define SETTINGS(...)                                                          \
    (const char *const[])                                                      \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }

static void apply(const char *const *settings)
{
    struct gw_error error;
    for (; *settings; settings++) {
        if (gw_config_set(&config, *settings, &error))
            fail_msg("%s", error.text);
    }
}

/* A job of four workers that passes the check, with `policy` and `settings`. */
static void job(const char *policy, const char *const *settings)
{
    gw_config_default(&config);
    apply(SETTINGS("data.train=x,y", "data.test=x,y", "model.layers=4,2",
                   "train.batch=64", "train.steps=10", "cluster.workers=4"));
    strcpy(config.cluster.policy, policy);
    apply(settings);
}

/* A job of a program. */
static void external(const char *policy)
{
    gw_config_default(&config);
    apply(SETTINGS("model.kind=external", "cluster.workers=4"));
    strcpy(config.cluster.policy, policy);
}

static void
refuses(const char *policy, const char *const *settings, const char *line)
{
    struct gw_error error = {0};
    job(policy, settings);
    assert_int_equal(gw_config_check(&config, &error), GW_EUSAGE);
    assert_string_equal(error.text, line);
    assert_int_equal(gw_config_check(&config, NULL), GW_EUSAGE);
}

/* Nothing is wrong with it, whether this version has the policy or not. */
static void composes(const char *policy, const char *const *settings)
{
    struct gw_error error = {0};
    job(policy, settings);
    if (gw_config_check(&config, &error) &&
        !strstr(error.text, "is not in this version"))
        fail_msg("%s: %s", policy, error.text);
}

static const char *const each_push[] = {"ssp:4",    "async",    "stale-lr:2",
                                        "dc-async", "easgd:10", "downpour:10"};
static const char *const together[] = {"sync", "backup:1"};

static void each_push_decides_alone(void **state)
{
    (void)state;
    static const struct {
        const char *setting, *with;
    } asks[] = {
        {"train.clip=1", "train.clip the norm of the whole gradient comes "
                         "first"},
        {"train.nonfinite=skip", "train.nonfinite = skip all shards must skip "
                                 "the same steps"},
        {"train.loss_scale=dynamic", "train.loss_scale all shards must skip "
                                     "the steps that overflow"},
        {"optimizer.kind=lamb", "optimizer.kind = lamb the norm of a whole key "
                                "comes first"},
    };
    char line[300];
    for (size_t i = 0; i < sizeof each_push / sizeof *each_push; i++) {
        const char *policy = each_push[i];
        for (size_t k = 0; k < sizeof asks / sizeof *asks; k++) {
            if (k == 3 && strchr(policy, ':') && policy[0] != 's')
                continue; /* lamb would be the worker's there */
            snprintf(line, sizeof line,
                     "cluster.policy: %s applies each push by itself, but with "
                     "%s; leave that out, or take sync",
                     policy, asks[k].with);
            refuses(policy, SETTINGS(asks[k].setting), line);
        }
        snprintf(line, sizeof line,
                 "cluster.policy: %s applies each push by itself, so no step "
                 "can be committed as a whole; set train.commit to auto",
                 policy);
        refuses(policy, SETTINGS("train.commit=whole"), line);
        composes(policy, SETTINGS("train.commit=streaming"));
        composes(policy, SETTINGS("train.commit=auto"));
    }
    for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
        for (size_t k = 0; k + 1 < sizeof asks / sizeof *asks; k++)
            composes(together[i], SETTINGS(asks[k].setting));
        composes(together[i], SETTINGS("train.commit=whole"));
    }
}

/* What servers get there are no gradients. */
static void local_steps_are_not_clipped(void **state)
{
    (void)state;
    const char *line = "cluster.policy: local:16 has workers take steps of "
                       "their own, and train.clip is for gradients that "
                       "servers see; leave it out, policy.inner_clip is for "
                       "workers' own";
    refuses("local:16", SETTINGS("train.clip=1"), line);
    refuses("diloco:9", SETTINGS("train.nonfinite=skip"),
            "cluster.policy: diloco:9 has workers take steps of their own, and "
            "train.nonfinite = skip is for gradients that servers see; leave "
            "it out");
    composes("local:16", SETTINGS("train.commit=whole"));
    composes("diloco:9", SETTINGS("policy.inner=adamw"));
    composes("local:16", SETTINGS("checkpoint.dir=c", "policy.inner=momentum"));
}

/* The line has the program's word: its job has no train.clip. */
static void a_norm_of_a_program_is_refused_by_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *policy, *line;
    } row[] = {
        {"async", "max_norm is that of the mean gradient, and under "
                  "cluster.policy = async servers apply each push by itself; "
                  "leave max_norm out, or take sync"},
        {"sync until 5, ssp:2",
         "max_norm is that of the mean gradient, and under cluster.policy = "
         "ssp:2 servers apply each push by itself; leave max_norm out, or take "
         "sync"},
        {"sync until 5, local:4",
         "max_norm is that of the mean gradient, and under cluster.policy = "
         "local:4 workers take steps of their own; leave max_norm out, or take "
         "sync"},
    };
    const struct gw_program program = {.optimizer = "", .clip = 1};
    const char *const passes[] = {"sync", "backup:1", "local:4", "diloco:4"};
    struct gw_error error = {0};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        external(row[i].policy);
        assert_int_equal(gw_config_take_program(&config, &program, &error),
                         GW_EUSAGE);
        assert_string_equal(error.text, row[i].line);
    }
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        external(passes[i]);
        assert_int_equal(gw_config_take_program(&config, &program, &error),
                         GW_OK);
        assert_true(gw_config_clip(&config) == 1);
    }
}

static void own_steps_are_clipped_where_there_are_some(void **state)
{
    (void)state;
    static const char *const local[] = {"downpour:10", "easgd:10", "local:16",
                                        "diloco:16", "sync until 5, local:4"};
    static const char *const line =
        "policy.inner_clip: only workers that take steps of their own clip by "
        "it; leave it 0, train.clip is for gradients that servers see";
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        composes(local[i], SETTINGS("policy.inner_clip=0.5"));
    refuses("sync", SETTINGS("policy.inner_clip=0.5"), line);
    refuses("sync until 5, async", SETTINGS("policy.inner_clip=1"), line);
}

/* backup:0 drops nobody, so it asks for nothing. */
static void backup_decides_who_counts(void **state)
{
    (void)state;
    refuses("backup:1", SETTINGS("train.commit=streaming"),
            "train.commit: streaming updates each chunk by itself, but with "
            "cluster.policy = backup all shards must count the same workers; "
            "set it to auto or whole");
    refuses("sync until 5, backup:1", SETTINGS("train.commit=streaming"),
            "train.commit: streaming updates each chunk by itself, but with "
            "cluster.policy = backup all shards must count the same workers; "
            "set it to auto or whole");
    composes("backup:0", SETTINGS("train.commit=streaming"));
    composes("backup:3", SETTINGS("train.commit=auto"));
    refuses("backup:4", SETTINGS("train.commit=auto"),
            "cluster.policy: backup:4 leaves none of 4 workers to wait for; B "
            "must be less than cluster.workers");
    refuses("backup:1", SETTINGS("cluster.workers=1"),
            "cluster.policy: backup:1 leaves none of 1 worker to wait for; B "
            "must be less than cluster.workers");
    refuses("sync until 5, backup:2", SETTINGS("cluster.workers=2"),
            "cluster.policy: backup:2 leaves none of 2 workers to wait for; B "
            "must be less than cluster.workers");
}

static int whole_step(const char *policy, const char *const *settings)
{
    struct gw_policy_word word;
    job(policy, settings);
    return gw_policy_word_parse(policy, &word, NULL) == GW_OK &&
           gw_config_whole_step_under(&config, &word);
}

static void whole_steps_where_they_are_needed(void **state)
{
    (void)state;
    const char *const *none = SETTINGS("log.every=5");
    assert_false(whole_step("sync", none));
    assert_false(whole_step("backup:0", none));
    assert_true(whole_step("backup:1", none));
    assert_true(whole_step("sync", SETTINGS("train.commit=whole")));
    assert_true(whole_step("sync", SETTINGS("train.clip=1")));
    assert_false(
        whole_step("sync", SETTINGS("train.clip=1", "train.commit=streaming")));
    assert_true(whole_step("sync", SETTINGS("optimizer.kind=lamb")));
    assert_false(whole_step(
        "local:16", SETTINGS("optimizer.kind=lamb", "policy.inner=sgd")));

    job("backup:1 until 5, async", none);
    assert_true(gw_config_whole_step_under(
        &config, &(struct gw_policy_word){GW_POLICY_BACKUP, 1}));
    assert_false(gw_config_whole_step_under(
        &config, &(struct gw_policy_word){GW_POLICY_ASYNC, 0}));
}

static void splits_need_workers(void **state)
{
    (void)state;
    composes("stale-lr:4", SETTINGS("log.every=5"));
    refuses("stale-lr:5", SETTINGS("log.every=5"),
            "cluster.policy: stale-lr:5 cannot divide 4 workers into so many "
            "parts; N must be at most cluster.workers");
}

/* Where none waits for the others, each has its pace already; in any phase. */
static void speed_is_for_those_who_wait(void **state)
{
    (void)state;
    const char *const *by_speed =
        SETTINGS("train.batch=0", "train.global_batch=64", "train.split=speed");
    static const char *const waiting[] = {"sync", "backup:1", "local:4",
                                          "diloco:4"};
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++)
        composes(waiting[i], by_speed);
    for (size_t i = 0; i < sizeof each_push / sizeof *each_push; i++) {
        char plan[64], line[300];
        snprintf(line, sizeof line,
                 "train.split: speed lets all workers finish a step at the "
                 "same time, but under cluster.policy = %s none waits for the "
                 "others; leave it \"even\"",
                 each_push[i]);
        refuses(each_push[i], by_speed, line);
        snprintf(plan, sizeof plan, "sync until 5, %s", each_push[i]);
        refuses(plan, by_speed, line);
    }
}

static void workers_need_an_optimizer(void **state)
{
    (void)state;
    static const char *const local[] = {"downpour:10", "easgd:10", "local:16",
                                        "diloco:16"};
    static const char *const kinds[] = {"lamb", "none"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        for (size_t k = 0; k < 2; k++) {
            char setting[64], line[200];
            snprintf(setting, sizeof setting, "optimizer.kind=%s", kinds[k]);
            snprintf(line, sizeof line,
                     "cluster.policy: %s has workers take steps of their own, "
                     "which optimizer.kind = %s does not do; name their "
                     "optimizer in policy.inner",
                     local[i], kinds[k]);
            refuses(local[i], SETTINGS(setting), line);
            composes(local[i], SETTINGS(setting, "policy.inner=adamw"));
        }
        composes(local[i], SETTINGS("optimizer.kind=nesterov"));
    }
    composes("async", SETTINGS("optimizer.kind=none"));
}

static void delays_need_weights(void **state)
{
    (void)state;
    composes("stale-lr:2", SETTINGS("optimizer.kind=none"));
    composes("dc-async", SETTINGS("optimizer.kind=adamw"));
    refuses("sync until 5, dc-async", SETTINGS("optimizer.kind=none"),
            "cluster.policy: dc-async goes by how far the weights have moved, "
            "but with optimizer.kind = none servers have no weights; take "
            "another optimizer, or async");
}

static void only_diloco_has_parts(void **state)
{
    (void)state;
    composes("diloco:16", SETTINGS("policy.fragments=4", "policy.overlap=15"));
    composes("sync until 5, diloco:16",
             SETTINGS("policy.fragments=4", "policy.overlap=15"));
    refuses("local:16", SETTINGS("policy.fragments=2"),
            "policy.fragments: only diloco exchanges the model in parts; leave "
            "it 1, or set cluster.policy to diloco:H");
    refuses("sync", SETTINGS("policy.overlap=2"),
            "policy.overlap: only diloco goes on while an exchange is under "
            "way; leave it 0, or set cluster.policy to diloco:H");
    refuses("diloco:16", SETTINGS("policy.overlap=16"),
            "policy.overlap: 16 steps are too many for diloco:16, where the "
            "next exchange begins; it must be less than H");
    refuses("diloco:500 until 5000, diloco:20", SETTINGS("policy.overlap=20"),
            "policy.overlap: 20 steps are too many for diloco:20, where the "
            "next exchange begins; it must be less than H");
    composes("diloco:500 until 5000, diloco:20", SETTINGS("policy.overlap=19"));
    refuses("diloco:1", SETTINGS("policy.overlap=1"),
            "policy.overlap: 1 steps are too many for diloco:1, where the next "
            "exchange begins; it must be less than H");
    composes("diloco:1", SETTINGS("policy.fragments=1024"));
    /* with what needs no overlap it is of no concern */
    composes("local:4 until 50, diloco:20", SETTINGS("policy.overlap=10"));
}

/* Whole steps are of all of the model, and Adam has one count of updates. */
static void parts_are_not_the_whole(void **state)
{
    (void)state;
    refuses("diloco:16", SETTINGS("policy.fragments=2", "train.commit=whole"),
            "train.commit: whole decides about all of the model at once, but "
            "with policy.fragments it is not exchanged at once; set it to "
            "auto");
    refuses("diloco:16", SETTINGS("policy.overlap=2", "train.commit=whole"),
            "train.commit: whole decides about all of the model at once, but "
            "with policy.overlap it is not exchanged at once; set it to auto");
    composes("diloco:16", SETTINGS("train.commit=whole"));
    composes("diloco:16",
             SETTINGS("policy.fragments=2", "train.commit=streaming"));

    static const char *const counting[] = {"adam", "adamw"};
    static const char *const others[] = {"auto", "sgd", "momentum", "nesterov"};
    for (size_t i = 0; i < 2; i++) {
        char outer[40], line[200];
        snprintf(outer, sizeof outer, "policy.outer=%s", counting[i]);
        snprintf(line, sizeof line,
                 "policy.outer: %s counts the updates of all of the model, but "
                 "with policy.fragments parts have had unlike many; take sgd, "
                 "momentum or nesterov",
                 counting[i]);
        refuses("diloco:16", SETTINGS("policy.fragments=2", outer), line);
        refuses("sync until 5, diloco:16",
                SETTINGS("policy.fragments=2", outer), line);
        composes("diloco:16", SETTINGS("policy.overlap=2", outer));
        composes("diloco:16", SETTINGS(outer));
    }
    for (size_t i = 0; i < 4; i++) {
        char outer[40];
        snprintf(outer, sizeof outer, "policy.outer=%s", others[i]);
        composes("diloco:16", SETTINGS("policy.fragments=2", outer));
    }
    /* the workers' own count their own */
    composes("diloco:16", SETTINGS("policy.fragments=2", "policy.overlap=3",
                                   "policy.inner=adamw", "policy.mix=0",
                                   "optimizer.kind=adam"));
    composes("diloco:16",
             SETTINGS("policy.fragments=2", "train.batch=0",
                      "train.global_batch=64", "train.split=speed"));
}

/* The first phase is fine in each of these. */
static void every_phase_is_checked(void **state)
{
    (void)state;
    refuses("sync until 9, backup:1 until 20, async", SETTINGS("train.clip=1"),
            "cluster.policy: async applies each push by itself, but with "
            "train.clip the norm of the whole gradient comes first; leave that "
            "out, or take sync");
    refuses("sync until 9, stale-lr:9", SETTINGS("log.every=5"),
            "cluster.policy: stale-lr:9 cannot divide 4 workers into so many "
            "parts; N must be at most cluster.workers");
    refuses("sync until 9, local:4", SETTINGS("optimizer.kind=none"),
            "cluster.policy: local:4 has workers take steps of their own, "
            "which optimizer.kind = none does not do; name their optimizer in "
            "policy.inner");
}

static struct gw_policy_terms terms_of(const char *text)
{
    struct gw_policy_word word;
    assert_int_equal(gw_policy_word_parse(text, &word, NULL), GW_OK);
    return gw_config_policy_terms(&config, &word);
}

static void defaults_depend_on_the_word(void **state)
{
    (void)state;
    job("sync", SETTINGS("optimizer.kind=adam"));
    struct gw_policy_terms terms = terms_of("local:16");
    assert_true(terms.scale == 0.25 && terms.alpha == 0.225);
    assert_true(terms.lambda == 0.04 && terms.outer_lr == 1);
    assert_string_equal(terms.inner, "adam");
    assert_string_equal(terms.outer, "sgd");
    terms = terms_of("diloco:16");
    assert_true(terms.outer_lr == 0.7);
    assert_string_equal(terms.outer, "nesterov");
    config.policy.adaptive = 1;
    assert_true(terms_of("dc-async").lambda == 2);

    apply(SETTINGS("policy.scale=3", "policy.alpha=0.5", "policy.lambda=0.125",
                   "policy.outer_lr=0.4", "policy.inner=sgd",
                   "policy.outer=adamw"));
    static const char *const words[] = {"local:16", "diloco:16"};
    for (size_t i = 0; i < 2; i++) {
        terms = terms_of(words[i]);
        assert_true(terms.scale == 3 && terms.alpha == 0.5);
        assert_true(terms.lambda == 0.125 && terms.outer_lr == 0.4);
        assert_string_equal(terms.inner, "sgd");
        assert_string_equal(terms.outer, "adamw");
    }
}

static void every_word_is_in_this_version(void **state)
{
    (void)state;
    const char *const *none = SETTINGS("log.every=5");
    refuses("nonsense:4", none,
            "cluster.policy: \"nonsense:4\" is no policy, the nearest is "
            "sync; there are sync, backup:B, ssp:S, async, stale-lr:N, "
            "dc-async, downpour:T, easgd:T, local:H and diloco:H");
    static const char *const built[] = {
        "sync",     "async",      "ssp:3",   "stale-lr:2",
        "dc-async", "downpour:4", "easgd:4", "sync until 5, async"};
    for (size_t i = 0; i < sizeof built / sizeof *built; i++) {
        job(built[i], none);
        assert_int_equal(gw_config_check(&config, NULL), GW_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_push_decides_alone),
        cmocka_unit_test(local_steps_are_not_clipped),
        cmocka_unit_test(a_norm_of_a_program_is_refused_by_its_name),
        cmocka_unit_test(own_steps_are_clipped_where_there_are_some),
        cmocka_unit_test(backup_decides_who_counts),
        cmocka_unit_test(whole_steps_where_they_are_needed),
        cmocka_unit_test(splits_need_workers),
        cmocka_unit_test(speed_is_for_those_who_wait),
        cmocka_unit_test(workers_need_an_optimizer),
        cmocka_unit_test(delays_need_weights),
        cmocka_unit_test(only_diloco_has_parts),
        cmocka_unit_test(parts_are_not_the_whole),
        cmocka_unit_test(every_phase_is_checked),
        cmocka_unit_test(defaults_depend_on_the_word),
        cmocka_unit_test(every_word_is_in_this_version),
    };
    return cmocka_run_group_tests_name("config policy", tests, NULL, NULL);
}
