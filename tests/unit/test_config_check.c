/* proto/config: what a job's keys may say together, and what they may not. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/config.h"
#include "proto/config_value.h"

static struct gw_config config; /* large: not on the stack */

static void apply(const char *const *settings)
{
    struct gw_error error;
    for (; *settings; settings++) {
        if (gw_config_set(&config, *settings, &error))
            fail_msg("%s", error.text);
    }
}

/* A job that passes the check, with some settings on top of it. */
#define SETTINGS(...)                                                          \
    (const char *const[])                                                      \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }
static void good_job(const char *const *settings)
{
    gw_config_default(&config);
    apply(SETTINGS("data.train=x,y", "data.test=x,y", "model.layers=4,2",
                   "train.batch=64", "train.steps=10"));
    apply(settings);
}

static void check_passes(const char *const *settings)
{
    struct gw_error error;
    good_job(settings);
    if (gw_config_check(&config, &error))
        fail_msg("%s", error.text);
}

static void check_refuses(const char *const *settings, const char *line)
{
    struct gw_error error = {0};
    good_job(settings);
    assert_int_equal(gw_config_check(&config, &error), GW_EUSAGE);
    assert_string_equal(error.text, line);
}

static void good_jobs_pass_the_check(void **state)
{
    (void)state;
    check_passes(SETTINGS("log.every=5"));
    check_passes(SETTINGS("train.batch=0", "train.global_batch=100"));
    check_passes(SETTINGS("train.steps=0", "train.epochs=100"));
    check_passes(SETTINGS("data.test=", "train.eval_every=never"));
    check_passes(SETTINGS("data.normalize=0.5,0.25"));
    check_passes(SETTINGS("train.clip=1", "train.commit=whole"));
    check_passes(SETTINGS("train.clip=1", "train.nonfinite=skip",
                          "train.loss_scale=dynamic", "optimizer.kind=lamb"));
    check_passes(SETTINGS("train.commit=streaming"));
    check_passes(SETTINGS("train.commit=streaming", "train.nonfinite=pass"));
    check_passes(SETTINGS("train.nonfinite=pass", "train.loss_scale=1024"));
    check_passes(SETTINGS("train.early_stop=3"));
    check_passes(SETTINGS("train.batch=0", "train.global_batch=100",
                          "train.split=speed", "train.split_from=run.json"));
    check_passes(SETTINGS("cluster.transport=tcp"));
    check_passes(SETTINGS("train.arithmetic=none", "cluster.transport=sim",
                          "train.eval_every=never", "cluster.policy=async"));
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    check_refuses(SETTINGS("train.batch=0"),
                  "train.batch and train.global_batch: neither is given, set "
                  "exactly one (samples per worker, or over all workers)");
    check_refuses(SETTINGS("train.steps=0"),
                  "train.epochs and train.steps: neither is given, set exactly "
                  "one (passes over the data, or updates)");
    check_refuses(SETTINGS("data.train="),
                  "data.train: no files are given to train on");
    check_refuses(SETTINGS("data.test="),
                  "data.test: no files are given for train.eval_every; give "
                  "some, or set that to \"never\"");
    check_refuses(SETTINGS("data.normalize=0.5"),
                  "data.normalize: 1 numbers are given, but they come in pairs "
                  "of mean and deviation");
    check_refuses(SETTINGS("model.layers="),
                  "model.layers: no layers are given, such as 784, 512, 10 for "
                  "an mlp");
    check_refuses(SETTINGS("train.eval_every=30 seconds"),
                  "train.eval_every: takes steps or epochs, since seconds "
                  "differ from run to run");
    check_refuses(SETTINGS("train.eval_every=never", "train.early_stop=2"),
                  "train.early_stop: nothing is scored while train.eval_every "
                  "is \"never\"");
    check_refuses(SETTINGS("train.split=speed"),
                  "train.split: speed divides train.global_batch, but "
                  "train.batch gives every worker the same; set "
                  "train.global_batch instead");
    check_refuses(SETTINGS("train.split_from=run.json"),
                  "train.split_from: repeats how a run with train.split = "
                  "speed divided its samples; set train.split to \"speed\" "
                  "too, or leave this empty");
}

/* The later word of --set wins; a file has no later word. */
static void what_a_file_says_twice_is_refused(void **state)
{
    (void)state;
    struct gw_error error;
    good_job(SETTINGS("train.batch=64"));
    assert_int_equal(gw_config_parse(&config, "job",
                                     "train = { global_batch = 128; };",
                                     &error),
                     GW_OK);
    assert_int_equal(gw_config_check(&config, &error), GW_EUSAGE);
    assert_string_equal(error.text,
                        "train.batch and train.global_batch: both are given, "
                        "set exactly one (samples per worker, or over all "
                        "workers)");
    good_job(SETTINGS("train.steps=64"));
    assert_int_equal(
        gw_config_parse(&config, "job", "train = { epochs = 5; };", &error),
        GW_OK);
    assert_int_equal(gw_config_check(&config, &error), GW_EUSAGE);
    assert_string_equal(error.text,
                        "train.epochs and train.steps: both are given, set "
                        "exactly one (passes over the data, or updates)");
}

#define NOTHING "train.arithmetic=none"
#define NEVER   "train.eval_every=never"
#define SIM     "cluster.transport=sim"

static void what_is_not_computed_is_refused(void **state)
{
    (void)state;
    check_refuses(SETTINGS(NOTHING, NEVER),
                  "train.arithmetic: none is for simulations, which gradweir "
                  "study makes; leave it at full");
    check_refuses(SETTINGS(NOTHING, SIM),
                  "train.arithmetic: none leaves nothing to score; set "
                  "train.eval_every to \"never\"");
    check_refuses(SETTINGS(NOTHING, SIM, NEVER, "checkpoint.dir=ck"),
                  "train.arithmetic: none leaves nothing to keep; leave "
                  "checkpoint.dir empty");
    check_refuses(SETTINGS(NOTHING, SIM, NEVER,
                           "cluster.policy=sync until 5, downpour:4"),
                  "train.arithmetic: none is for policies that push gradients, "
                  "cluster.policy = \"sync until 5, downpour:4\" has steps of "
                  "the workers' own");
}

/* The scale would never be halved. */
static void a_dynamic_scale_needs_steps_that_are_skipped(void **state)
{
    (void)state;
    check_refuses(SETTINGS("train.nonfinite=pass", "train.loss_scale=dynamic"),
                  "train.loss_scale: dynamic halves the scale at steps that "
                  "are skipped, and with train.nonfinite = \"pass\" none is; "
                  "set a number, or take \"skip\"");
}

static void streaming_says_why_not(void **state)
{
    (void)state;
    check_refuses(SETTINGS("train.commit=streaming", "train.clip=1"),
                  "train.commit: streaming updates each chunk by itself, but "
                  "with train.clip the norm of the whole gradient comes first; "
                  "set it to auto or whole");
    check_refuses(SETTINGS("train.commit=streaming", "train.nonfinite=skip"),
                  "train.commit: streaming updates each chunk by itself, but "
                  "with train.nonfinite = skip all shards must skip the same "
                  "steps; set it to auto or whole");
    check_refuses(SETTINGS("train.commit=streaming", "train.loss_scale=128"),
                  "train.commit: streaming updates each chunk by itself, but "
                  "with train.loss_scale all shards must skip the steps that "
                  "overflow; set it to auto or whole");
    check_refuses(SETTINGS("train.commit=streaming", "optimizer.kind=lamb"),
                  "train.commit: streaming updates each chunk by itself, but "
                  "with optimizer.kind = lamb the norm of a whole key comes "
                  "first; set it to auto or whole");
}

static void fp16_asks_for_a_loss_scale(void **state)
{
    (void)state;
    struct gw_error error;
    check_refuses(SETTINGS("train.precision=fp16"),
                  "train.precision: fp16 loses small gradients unless the loss "
                  "is scaled; set train.loss_scale to \"dynamic\" or a number, "
                  "or take bf16");
    check_refuses(SETTINGS("train.precision=fp16", "cluster.policy=async"),
                  "train.precision: fp16 loses small gradients unless the loss "
                  "is scaled, for which cluster.policy = \"async\" has no "
                  "common steps; take bf16");
    check_refuses(SETTINGS("train.precision=fp16",
                           "cluster.policy=sync until 5, local:2"),
                  "train.precision: fp16 loses small gradients unless the loss "
                  "is scaled, for which cluster.policy = \"sync until 5, "
                  "local:2\" has no common steps; take bf16");
    good_job(SETTINGS("train.precision=fp16", "train.loss_scale=dynamic"));
    assert_int_equal(gw_config_check(&config, &error), GW_OK);
    good_job(SETTINGS("train.precision=bf16"));
    assert_int_equal(gw_config_check(&config, &error), GW_OK);
}

/* Who changes weights by himself needs all of their bits. */
static void bf16_weights_are_for_gradients(void **state)
{
    (void)state;
    struct gw_error error;
    static const char *const local[] = {
        "cluster.policy=easgd:4", "cluster.policy=local:2",
        "cluster.policy=diloco:4", "cluster.policy=sync until 5, local:2"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        char line[256];
        snprintf(line, sizeof line,
                 "train.weights: bf16 is for policies that push gradients, "
                 "cluster.policy = \"%s\" has steps of the workers' own; leave "
                 "it at fp32",
                 strchr(local[i], '=') + 1);
        check_refuses(SETTINGS("train.weights=bf16", local[i]), line);
    }
    good_job(SETTINGS("train.weights=bf16", "cluster.policy=backup:1"));
    assert_int_equal(gw_config_check(&config, &error), GW_OK);
    good_job(SETTINGS("train.weights=bf16", "cluster.policy=dc-async"));
    assert_int_equal(gw_config_check(&config, &error), GW_OK);
}

static void silence_is_at_least_half_a_second(void **state)
{
    (void)state;
    static const struct {
        const char *setting;
        uint64_t within_us, beyond_us;
    } words[] = {{"cluster.silence=0", 1000000, 5000000},
                 {"cluster.silence=0.5", 500000, 500000},
                 {"cluster.silence=300", 300000000, 300000000}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        good_job(SETTINGS(words[i].setting));
        assert_int_equal(gw_config_check(&config, NULL), GW_OK);
        assert_int_equal(gw_config_silence_us(&config, 1), words[i].within_us);
        assert_int_equal(gw_config_silence_us(&config, 0), words[i].beyond_us);
    }
    check_refuses(SETTINGS("cluster.silence=0.4"),
                  "cluster.silence: 0.4 s is less than a busy host may take to "
                  "answer, give at least 0.5, or 0 for the default");
    assert_int_equal(gw_config_set(&config, "cluster.silence=301", NULL),
                     GW_EUSAGE);
}

/* auto where it saves something, off never; and only sync has sums. */
static void who_sums_and_where(void **state)
{
    (void)state;
    static const struct {
        const char *setting;
        int may, on_devices, anyway;
    } words[] = {{"cluster.local_reduction=auto", 1, 1, 0},
                 {"cluster.local_reduction=on", 1, 1, 1},
                 {"cluster.local_reduction=host", 1, 0, 1},
                 {"cluster.local_reduction=off", 0, 0, 0},
                 {"cluster.policy=\"local:4\"", 0, 0, 0},
                 {"cluster.policy=\"local:4 until 9, sync\"", 1, 1, 0}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        good_job(SETTINGS(words[i].setting));
        assert_int_equal(gw_config_may_sum(&config), words[i].may);
        assert_int_equal(gw_config_may_sum_on_devices(&config),
                         words[i].on_devices);
        assert_int_equal(gw_config_sums_anyway(&config), words[i].anyway);
    }
}

/* The struct may come from elsewhere than the parser. */
static void not_in_this_version(void **state)
{
    (void)state;
    struct gw_error error;
    static const struct {
        size_t offset;
        const char *text, *line;
    } later[] = {
        {offsetof(struct gw_config, train.precision), "fp8",
         "train.precision: \"fp8\" is not in this version, it has fp32, tf32, "
         "bf16 or fp16"},
        {offsetof(struct gw_config, train.split), "fast",
         "train.split: \"fast\" is not in this version, it has even or "
         "speed"},
        {offsetof(struct gw_config, cluster.transport), "nvlink",
         "cluster.transport: \"nvlink\" is not in this version, it has auto, "
         "shm, rdma, tcp or sim"},
        {offsetof(struct gw_config, worker.device), "cuda:x",
         "worker.device: \"cuda:x\" is no device: it is auto, cpu, cuda or "
         "cuda:I (the I-th GPU of this machine, from 0)"},
        {offsetof(struct gw_config, train.loss_scale), "0",
         "train.loss_scale: 0 is out of range 1e-30..1e+30"},
    };
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        good_job(SETTINGS("log.every=5"));
        strcpy((char *)&config + later[i].offset, later[i].text);
        assert_int_equal(gw_config_check(&config, &error), GW_EUSAGE);
        assert_string_equal(error.text, later[i].line);
    }
}

static void jobs_too_long_to_send_are_refused(void **state)
{
    (void)state;
    struct gw_error error;
    good_job(SETTINGS("log.every=5"));
    config.data.augment.n = config.model.layers.n = GW_LIST_MAX;
    char path[GW_STRING_MAX] = "";
    memset(path, '"', sizeof path - 1);
    while (config.data.train.n < GW_LIST_MAX)
        assert_true(gw_path_add(&config.data.train, path));
    for (size_t i = 0; i < GW_LIST_MAX; i++) {
        memset(config.data.augment.item[i], 'x', GW_STRING_MAX - 1);
        memset(config.model.layers.item[i], 'x', GW_STRING_MAX - 1);
    }
    assert_int_equal(gw_config_check(&config, &error), GW_EUSAGE);
    assert_string_equal(error.text,
                        "the job is longer than 49152 bytes as text, members "
                        "cannot be sent it; shorten its lists");
}

/* ---- jobs of other trainers ---- */

static enum gw_status check_external(const char *const *settings,
                                     struct gw_error *error)
{
    gw_config_default(&config);
    apply(SETTINGS("model.kind=external"));
    apply(settings);
    return gw_config_check(&config, error);
}

static void external_jobs_need_nothing_more(void **state)
{
    struct gw_error error;
    (void)state;
    assert_int_equal(check_external(SETTINGS(NULL), &error), GW_OK);
    assert_true(gw_config_is_external(&config));
    assert_int_equal(gw_config_steps(&config), GW_STEPS_OPEN);
    assert_int_equal(
        check_external(SETTINGS("train.steps=70", "optimizer.schedule=cosine",
                                "train.eval_every=5 steps",
                                "checkpoint.every=never",
                                "cluster.policy=diloco:4"),
                       &error),
        GW_OK);
    assert_int_equal(gw_config_steps(&config), 70);
}

/* Each key of model, data and batches, with a value that is not its default. */
static void external_jobs_have_no_model_and_no_data(void **state)
{
    static const struct {
        const char *setting, *says;
    } wrong[] = {
        {"data.train=a,b", "data.train: is not for model.kind = \"external\", "
                           "whose program reads its own data; leave it out"},
        {"data.test=a,b", "data.test: is not for"},
        {"data.normalize=0.5,0.5", "data.normalize: is not for"},
        {"data.augment=flip", "data.augment: is not for"},
        {"model.layers=4,2", "model.layers: is not for"},
        {"model.init=glorot", "model.init: is not for"},
        {"model.dropout=0.5", "model.dropout: is not for"},
        {"train.batch=64", "train.batch: is not for"},
        {"train.global_batch=64", "train.global_batch: is not for"},
        {"train.epochs=3", "train.epochs: is not for"},
        {"train.accumulate=2", "train.accumulate: is not for"},
        {"train.split=speed", "train.split: is not for"},
        {"train.split_from=run.json", "train.split_from: is not for"},
        {"train.precision=bf16", "train.precision: is not for"},
        {"train.arithmetic=none", "train.arithmetic: none is for simulations"},
        {"train.loss_scale=dynamic", "train.loss_scale: is not for"},
        {"train.scale_lr=linear", "train.scale_lr: is not for"},
        {"train.eval_every=2 epochs", "train.eval_every: takes steps where"},
        {"checkpoint.every=2 epochs", "checkpoint.every: takes steps where"},
        {"optimizer.schedule=cosine", "optimizer.schedule: cosine goes towards "
                                      "the last step"},
        {"optimizer.schedule=linear", "optimizer.schedule: linear goes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct gw_error error = {.text = ""};
        assert_int_equal(check_external(SETTINGS(wrong[i].setting), &error),
                         GW_EUSAGE);
        if (strncmp(error.text, wrong[i].says, strlen(wrong[i].says)) != 0)
            fail_msg("%s: \"%s\"", wrong[i].setting, error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_jobs_pass_the_check),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(what_a_file_says_twice_is_refused),
        cmocka_unit_test(what_is_not_computed_is_refused),
        cmocka_unit_test(a_dynamic_scale_needs_steps_that_are_skipped),
        cmocka_unit_test(streaming_says_why_not),
        cmocka_unit_test(fp16_asks_for_a_loss_scale),
        cmocka_unit_test(bf16_weights_are_for_gradients),
        cmocka_unit_test(silence_is_at_least_half_a_second),
        cmocka_unit_test(who_sums_and_where),
        cmocka_unit_test(not_in_this_version),
        cmocka_unit_test(external_jobs_need_nothing_more),
        cmocka_unit_test(external_jobs_have_no_model_and_no_data),
        cmocka_unit_test(jobs_too_long_to_send_are_refused),
    };
    return cmocka_run_group_tests_name("config check", tests, NULL, NULL);
}
