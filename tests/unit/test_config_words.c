/* proto/config: words and files as people and their editors write them. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "proto/config.h"

/* libconfig drops strings that it has read when a syntax error follows. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig.so\n";
}

static struct gw_config config; /* large: not on the stack */

static void parses(const char *text)
{
    struct gw_error error;
    gw_config_default(&config);
    if (gw_config_parse(&config, "job.cfg", text, &error))
        fail_msg("%s\n%s", text, error.text);
}

static void refused(const char *text, const char *line)
{
    struct gw_error error = {0};
    gw_config_default(&config);
    assert_int_equal(gw_config_parse(&config, "job.cfg", text, &error),
                     GW_EUSAGE);
    assert_string_equal(error.text, line);
}

/* As editors of Windows leave them: a mark before, \r at the end of lines. */
static void files_of_other_systems_are_read(void **state)
{
    (void)state;
    parses("\xef\xbb\xbf# a job\r\ntrain = {\r\n  batch = 64; // all\r\n"
           "  epochs = 2;\r\n};\r\nmodel = { layers = (4,\r\n 2); };\r\n");
    assert_int_equal(config.train.batch, 64);
    assert_int_equal(config.train.epochs, 2);
    assert_int_equal(config.model.layers.n, 2);
    refused("\xef\xbb\xbf\r\ntrain = {\r\n bach = 64; };",
            "job.cfg:3: train.bach: no such key, the nearest is train.batch "
            "(gradweir config lists all)");
    refused("train = {\r\n};\r\n\xef\xbb\xbf",
            "job.cfg:3: syntax error, it should be section = { key = value; }; "
            "with texts in double quotes");
}

static void case_does_not_matter(void **state)
{
    (void)state;
    parses("Train = { Commit = \"Whole\"; Precision = \"BF16\";\n"
           "eval_every = \"2 Epochs\"; };\n"
           "cluster = { POLICY = \"SSP:4\"; insecure = TRUE; };\n"
           "worker = { device = \"CUDA:1\"; };\n"
           "data = { format = \"NPY\"; train = (\"A/b.NPY\", \"C\"); };");
    assert_int_equal(config.train.commit, GW_COMMIT_WHOLE);
    assert_string_equal(config.train.precision, "bf16");
    assert_int_equal(config.train.eval_every.unit, GW_EPOCHS);
    assert_string_equal(config.cluster.policy, "ssp:4");
    assert_string_equal(config.worker.device, "cuda:1");
    assert_int_equal(config.data.format, GW_DATA_NPY);
    assert_string_equal(gw_path_at(&config.data.train, 0), "A/b.NPY");
    refused("train = { seed = 1; };\n\nTrain = { };",
            "job.cfg:3: train: given twice, first in line 1");
    refused("train = { seed = 1;\nSeed = 2; };",
            "job.cfg:2: train.seed: given twice, first in line 1");
}

static void near_misses_get_near_answers(void **state)
{
    (void)state;
    refused(
        "optimizer = { kind = \"Adm\"; };",
        "job.cfg:1: optimizer.kind: \"Adm\" is not in this version, it has "
        "auto, sgd, momentum, nesterov, adam, adamw, lamb or none, the nearest "
        "is adam");
    refused("train = { commit = \"Streeming\"; };",
            "job.cfg:1: train.commit: \"Streeming\" is not auto, streaming or "
            "whole, the nearest is streaming");
    refused("train = { commit = \"x\"; };",
            "job.cfg:1: train.commit: \"x\" is not auto, streaming or whole");
}

static void absent(const char *text, size_t n, const char *names)
{
    char said[GW_ABSENT_BYTES];
    assert_int_equal(gw_config_absent(text, said), n);
    assert_string_equal(said, names);
}

/* A file that was cut off between two statements is a job all the same. */
static void what_a_file_lacks(void **state)
{
    (void)state;
    absent("data={};model={};train={};optimizer={};worker={};server={};"
           "cluster={};policy={};checkpoint={};log={};",
           0, "");
    absent("Data = { };\nmodel = { }; # train = { };\n/* log = {}; */\n"
           "optimizer = { kind = \"worker = { };\"; };\n"
           "server : {}; cluster = { policy = \"sync\"; }; checkpoint = { };",
           4, "train, worker, policy, log");
    absent("", 10,
           "data, model, train, optimizer, worker, server, cluster, policy, "
           "checkpoint, log");
}

/* log.every: steps, seconds, or both; a number alone is of steps. */
static void cadences(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t steps, seconds;
        const char *printed;
    } good[] = {
        {"auto", 0, 0, "auto"},
        {"50", 50, 0, "50 steps"},
        {"1 step", 1, 0, "1 step"},
        {"20 Steps, 5 s", 20, 5, "20 steps, 5 seconds"},
        {"1 second,3 steps", 3, 1, "3 steps, 1 second"},
        {"10 seconds", 0, 10, "10 seconds"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[64], printed[GW_CADENCE_BYTES];
        struct gw_error error;
        gw_config_default(&config);
        snprintf(text, sizeof text, "log.every=%s", good[i].text);
        if (gw_config_set(&config, text, &error))
            fail_msg("%s", error.text);
        assert_int_equal(config.log.every.steps, good[i].steps);
        assert_int_equal(config.log.every.seconds, good[i].seconds);
        gw_cadence_print(&config.log.every, printed);
        assert_string_equal(printed, good[i].printed);
    }
    parses("log = { every = 7; };");
    assert_int_equal(gw_config_log_every(&config, 1).steps, 7);
    assert_int_equal(gw_config_log_every(&config, 1).seconds, 0);
    parses("log = { every = \"9 s\"; };");
    assert_true(gw_config_log_every(&config, 1).steps == UINT64_MAX);
    parses("");
    assert_int_equal(gw_config_log_every(&config, 0).steps, 100);
    assert_int_equal(gw_config_log_every(&config, 0).seconds, 5);
    assert_int_equal(gw_config_log_every(&config, 1).seconds, 1);
    refused(
        "log = { every = \"5 epochs\"; };",
        "job.cfg:1: log.every: takes \"N steps\", \"N seconds\", \"N steps, "
        "N seconds\", \"auto\" or a number of steps, not \"5 epochs\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_other_systems_are_read),
        cmocka_unit_test(case_does_not_matter),
        cmocka_unit_test(near_misses_get_near_answers),
        cmocka_unit_test(what_a_file_lacks),
        cmocka_unit_test(cadences),
    };
    return cmocka_run_group_tests_name("config words", tests, NULL, NULL);
}
