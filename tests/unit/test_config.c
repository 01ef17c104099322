/* proto/config: what job files take, and every way to be refused. */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "proto/config.h"
#include "proto/config_value.h"
#include "proto/login.h"

/* libconfig drops strings that it has read when a syntax error follows. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig.so\n";
}

static struct gw_config config; /* large: not on the stack */

static enum gw_status parse(const char *text, struct gw_error *error)
{
    gw_config_default(&config);
    *error = (struct gw_error){0};
    return gw_config_parse(&config, "job.cfg", text, error);
}

static void parses(const char *text)
{
    struct gw_error error;
    if (parse(text, &error))
        fail_msg("%s\n%s", text, error.text);
}

static void refused(const char *text, const char *line)
{
    struct gw_error error;
    assert_int_equal(parse(text, &error), GW_EUSAGE);
    assert_string_equal(error.text, line);
}

static void
wrong(const struct gw_config_key *key, const char *value, unsigned *cases)
{
    static char text[GW_PATH_BYTES + 512];
    char where[128];
    struct gw_error error;
    size_t section = gw_config_section_bytes(key);
    snprintf(text, sizeof text, "%.*s = {\n  %s = %s;\n};\n", (int)section,
             key->name, key->name + section + 1, value);
    snprintf(where, sizeof where, "job.cfg:2: %s: ", key->name);
    if (parse(text, &error) != GW_EUSAGE ||
        strncmp(error.text, where, strlen(where)) != 0)
        fail_msg("%s gave: %s", text, error.text);

    snprintf(text, sizeof text, "%s=%s", key->name, value);
    snprintf(where, sizeof where, "%s: ", key->name);
    if (gw_config_set(&config, text, &error) != GW_EUSAGE ||
        strncmp(error.text, where, strlen(where)) != 0)
        fail_msg("--set %s gave: %s", text, error.text);
    *cases += 2;
}

static void wrong_types(const struct gw_config_key *key, unsigned *cases)
{
    switch (key->type) {
    case GW_TYPE_BOOL:
        wrong(key, "7", cases);
        wrong(key, "\"maybe\"", cases);
        wrong(key, "(true)", cases);
        break;
    case GW_TYPE_COUNT:
        wrong(key, "\"many\"", cases);
        wrong(key, "1.5", cases);
        wrong(key, "[3]", cases);
        wrong(key, "-1", cases);
        wrong(key, "99999999999999999999", cases);
        break;
    case GW_TYPE_REAL:
        wrong(key, "\"much\"", cases);
        wrong(key, "(0.5)", cases);
        wrong(key, "1e999", cases);
        wrong(key, "-1e999", cases);
        break;
    case GW_TYPE_STRING:
    case GW_TYPE_PATH:
    case GW_TYPE_CHOICE:
        wrong(key, "(\"a\", \"b\")", cases);
        wrong(key, "\"tab\tinside\"", cases);
        break;
    case GW_TYPE_EVERY:
        wrong(key, "\"often\"", cases);
        wrong(key, "\"5 parsecs\"", cases);
        wrong(key, "\"0 steps\"", cases);
        wrong(key, "\"-5 steps\"", cases);
        wrong(key, "\"1.5 epochs\"", cases);
        wrong(key, "\"steps\"", cases);
        wrong(key, "0", cases);
        wrong(key, "0.5", cases);
        break;
    case GW_TYPE_CADENCE:
        wrong(key, "\"often\"", cases);
        wrong(key, "\"5 epochs\"", cases);
        wrong(key, "\"never\"", cases);
        wrong(key, "\"0 steps\"", cases);
        wrong(key, "\"5 s, 7 s\"", cases);
        wrong(key, "\"5 s,\"", cases);
        wrong(key, "\"1 step, 2 s, 3 s\"", cases);
        wrong(key, "(\"1 step\", \"2 s\")", cases);
        wrong(key, "0.5", cases);
        wrong(key, "0", cases);
        break;
    case GW_TYPE_PATHS:
    case GW_TYPE_STRINGS:
        wrong(key, "(\"a\", (\"b\"))", cases);
        wrong(key, "(\"a\", true)", cases);
        wrong(key, "(\"a\", \"\")", cases);
        wrong(key, "[\"bell\a\"]", cases);
        break;
    case GW_TYPE_NUMBERS:
        wrong(key, "(0.5, \"half\")", cases);
        wrong(key, "(1e999)", cases);
        wrong(key, "(0.5, (1))", cases);
        break;
    }
}

static void wrong_numbers(const struct gw_config_key *key, unsigned *cases)
{
    char value[64];
    if (key->type != GW_TYPE_COUNT && key->type != GW_TYPE_REAL)
        return;
    snprintf(value, sizeof value, "%.17g", key->min - 1);
    wrong(key, value, cases);
    snprintf(value, sizeof value, "%.17g", key->max * 1.01 + 1);
    wrong(key, value, cases);
    if (key->type == GW_TYPE_COUNT) {
        snprintf(value, sizeof value, "%.0f", key->max + 1000);
        wrong(key, value, cases);
        wrong(key, "0x5", cases);
        wrong(key, "0x5L", cases);
    }
}

/* A key misspelt, and a key twice; where in the file is known. */
static void wrong_names(const struct gw_config_key *key, unsigned *cases)
{
    char text[1024], line[256];
    int section = (int)gw_config_section_bytes(key);
    const char *leaf = key->name + section + 1;
    snprintf(text, sizeof text, "\n%.*s = {\n\n %sq = 1; };", section,
             key->name, leaf);
    snprintf(line, sizeof line,
             "job.cfg:4: %sq: no such key, the nearest is %s (gradweir config "
             "lists all)",
             key->name, key->name);
    refused(text, line);

    char value[64];
    int bare = key->type == GW_TYPE_BOOL || key->type == GW_TYPE_COUNT ||
               key->type == GW_TYPE_REAL;
    snprintf(value, sizeof value, bare ? "%s" : "\"%s\"", key->fallback);
    if (gw_config_is_list(key))
        snprintf(value, sizeof value, "()");
    snprintf(text, sizeof text,
             "# a comment\n%.*s = {\n  %s = %s;\n/* %s = %s;\n */ %s = %s;\n};",
             section, key->name, leaf, value, leaf, value, leaf, value);
    snprintf(line, sizeof line, "job.cfg:5: %s: given twice, first in line 3",
             key->name);
    refused(text, line);
    *cases += 2;
}

static void wrong_choices(const struct gw_config_key *key, unsigned *cases)
{
    if (!key->choices)
        return;
    wrong(key, "\"nonsense\"", cases);
    wrong(key, "\"\"", cases);
    wrong(key, "\"NUMBER\"", cases);
    wrong(key, "true", cases);
    if (strstr(key->choices, "NUMBER")) {
        wrong(key, "0", cases);
        wrong(key, "\"-1\"", cases);
    } else {
        wrong(key, "1", cases);
    }
}

static void wrong_plans(const struct gw_config_key *key, unsigned *cases)
{
    if (strcmp(key->name, "cluster.policy") != 0)
        return;
    wrong(key, "\"nonsense\"", cases);
    wrong(key, "\"\"", cases);
    wrong(key, "4", cases);
    wrong(key, "true", cases);
    wrong(key, "\"ssp\"", cases);
    wrong(key, "\"local:0\"", cases);
    wrong(key, "\"sync until 5\"", cases);
    wrong(key, "\"sync, local:16\"", cases);
}

static void wrong_interfaces(const struct gw_config_key *key, unsigned *cases)
{
    if (!key->own)
        return;
    wrong(key, "\",\"", cases);
    wrong(key, "\"ib0,,ib1\"", cases);
    wrong(key, "\"ib0, ib1,\"", cases);
    wrong(key, "\"ib0,ib1,ib0\"", cases);
    wrong(key, "\"a,b,c,d,e,f,g,h,i\"", cases);
}

static void every_wrong_input_names_line_and_key(void **state)
{
    (void)state;
    size_t n;
    unsigned cases = 0;
    const struct gw_config_key *keys = gw_config_keys(&n);
    static char
        endless[GW_PATH_BYTES + 3]; /* quoted, a byte longer than fits */
    for (size_t i = 0; i < n; i++) {
        wrong_types(&keys[i], &cases);
        wrong_numbers(&keys[i], &cases);
        wrong_names(&keys[i], &cases);
        wrong_choices(&keys[i], &cases);
        wrong_plans(&keys[i], &cases);
        wrong_interfaces(&keys[i], &cases);
        size_t most = gw_config_text_max(&keys[i]);
        memset(endless, 'x', sizeof endless);
        endless[0] = endless[most + 1] = '"';
        endless[most + 2] = '\0';
        wrong(&keys[i], endless, &cases);
    }
    print_message("# %u wrong inputs\n", cases);
    assert_true(cases >= 500);
}

static void exact_lines(void **state)
{
    (void)state;
    refused("train = { batch = 1000001; };",
            "job.cfg:1: train.batch: 1000001 is out of range 0..1000000");
    char text[128]; /* more than a link's index may say would assert later */
    snprintf(text, sizeof text, "cluster = { connections = %d; };",
             GW_LINKS_MAX + 1);
    refused(text, "job.cfg:1: cluster.connections: 9 is out of range 0..8");
    refused("cluster = {\n interface = \"ib0,ib1,ib0\"; };",
            "job.cfg:2: cluster.interface: \"ib0\" is there twice");
    refused("cluster = {\n\n interface = \"ib0,,ib1\"; };",
            "job.cfg:3: cluster.interface: entry 2 of the list is empty");
    refused("train = {\n batch = \"64\";\n};",
            "job.cfg:2: train.batch: takes a whole number, 0..1000000, not "
            "\"64\"");
    refused("train = {\n batch = 64.5;\n};",
            "job.cfg:2: train.batch: takes a whole number, 0..1000000, not "
            "64.5");
    refused("train = {\n bach = 64;\n};",
            "job.cfg:2: train.bach: no such key, the nearest is train.batch "
            "(gradweir config lists all)");
    refused(
        "\n\ntrian = { batch = 64; };",
        "job.cfg:3: trian: no such key, the nearest is train.batch (gradweir "
        "config lists all)");
    refused("batch = 64;",
            "job.cfg:1: batch: no such key, the nearest is train.batch "
            "(gradweir config lists all)");
    refused("train = { dropout = 0.5; };",
            "job.cfg:1: train.dropout: no such key, the nearest is "
            "model.dropout (gradweir config lists all)");
    refused("data = { format = \"idxx\"; };",
            "job.cfg:1: data.format: \"idxx\" is not idx, cifar10 or npy, the "
            "nearest is idx");
    refused("train = { precision = \"fp8\"; };",
            "job.cfg:1: train.precision: \"fp8\" is not in this version, it "
            "has fp32, tf32, bf16 or fp16");
    refused("train = { loss_scale = -2; };",
            "job.cfg:1: train.loss_scale: -2 is out of range 1e-30..1e+30");
    refused("cluster = { insecure = 1; };",
            "job.cfg:1: cluster.insecure: takes true or false, not 1");
    refused("cluster = { insecure = yes; };",
            "job.cfg:1: syntax error, it should be section = { key = value; }; "
            "with texts in double quotes");
    refused("train = 5;",
            "job.cfg:1: train: a section is written train = { ... };");
    refused("train = {};\n\ntrain = {};",
            "job.cfg:3: train: given twice, first in line 1");
    refused("model = {\n layers = [\"conv 32 5\",\n 10];\n};",
            "job.cfg:3: a list in [ ] has entries of one type, use ( ) for a "
            "mixed one");
    refused("data = {\n normalize = (0.5,\n\n 1e7);\n};",
            "job.cfg:4: data.normalize: 10000000.0 is out of range "
            "-1000000..1000000");
    /* 2^32 + 64: more than libconfig 1.5 tells from 64 */
    refused("train = { batch = 4294967360; };",
            "job.cfg:1: train.batch: 4294967360 is out of range 0..1000000");
    refused("train = { batch = +4294967360epochs = 1; };",
            "job.cfg:1: train.batch: 4294967360 is out of range 0..1000000");
    refused("train = { seed = 0xFF; };",
            "job.cfg:1: train.seed: write the number in decimal");
    refused("train = { batch = { size = 5; }; };",
            "job.cfg:1: train.batch: takes a whole number, 0..1000000, not a "
            "section");
    refused("log = { dir = \"a\\x07b\"; };",
            "job.cfg:1: log.dir: byte 1 of the text is a control character "
            "(0x07)");
    refused("log = { dir = \"a\\x7f\"; };",
            "job.cfg:1: log.dir: byte 1 of the text is a control character "
            "(0x7f)");
    refused("train = {\n seed == 1;\n batch = 1;\n batch = 2;\n};",
            "job.cfg:2: syntax error, it should be section = { key = value; }; "
            "with texts in double quotes");
    refused("train = { eval_every = \"often\\nand more\"; };",
            "job.cfg:1: train.eval_every: takes \"N steps\", \"N epochs\", "
            "\"N seconds\" or \"never\", not \"often?and more\"");
}

static void exact_lines_about_policies(void **state)
{
    (void)state;
    refused("cluster = {\n policy = \"lcoal:16\";\n};",
            "job.cfg:2: cluster.policy: \"lcoal:16\" is no policy, the nearest "
            "is local:H; there are sync, backup:B, ssp:S, async, stale-lr:N, "
            "dc-async, downpour:T, easgd:T, local:H and diloco:H");
    refused("cluster = { policy = \"sync until 9, local:16 until 5\"; };",
            "job.cfg:1: cluster.policy: phase 2: \"until 5\": the last phase "
            "goes to the end of the job; leave this out, or add a phase");
    refused("policy = \"sync\";",
            "job.cfg:1: policy: a section is written policy = { ... };");
    refused("policy = { inner = \"lamb\"; };",
            "job.cfg:1: policy.inner: \"lamb\" is not in this version, it has "
            "auto, sgd, momentum, nesterov, adam or adamw");
}

static void texts_are_utf8(void **state)
{
    (void)state;
    static const char *const not_utf8[] = {"\\xff",
                                           "\\x80",
                                           "\\xc3",
                                           "\\xc3x",
                                           "\\xc0\\x80",
                                           "\\xe0\\x9f\\xbf",
                                           "\\xed\\xa0\\x80",
                                           "\\xe2\\x82",
                                           "\\xf0\\x8f\\xbf\\xbf",
                                           "\\xf4\\x90\\x80\\x80",
                                           "\\xf5\\x80\\x80\\x80"};
    for (size_t i = 0; i < sizeof not_utf8 / sizeof *not_utf8; i++) {
        char job[96], line[128];
        snprintf(job, sizeof job, "log = { dir = \"a%s\"; };", not_utf8[i]);
        snprintf(line, sizeof line,
                 "job.cfg:1: log.dir: byte 1 of the text is not UTF-8 (0x%.2s)",
                 not_utf8[i] + 2);
        refused(job, line);
    }
    struct gw_config utf8;
    struct gw_error error = {.text = ""};
    const char *text = "log = { dir = \"\xc2\x80 \xdf\xbf \xe0\xa0\x80 "
                       "\xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 "
                       "\xf4\x8f\xbf\xbf\"; };";
    gw_config_default(&utf8);
    if (gw_config_parse(&utf8, "job.cfg", text, &error) != GW_OK)
        fail_msg("%s", error.text);
}

/* libconfig alone would leave the rest out and say nothing. */
static void what_does_not_end_is_refused(void **state)
{
    (void)state;
    refused("train = { batch = 1; };\n/* the rest\nlog = { every = 5; };\n",
            "job.cfg:2: what begins here, a comment or a text in quotes, does "
            "not end");
    refused("train = { batch = 1; };\n\"log = { every = 5; };\n",
            "job.cfg:2: what begins here, a comment or a text in quotes, does "
            "not end");
    refused("log = {\n dir = \"a;\n every = 5; };\n",
            "job.cfg:2: what begins here, a comment or a text in quotes, does "
            "not end");
    refused("log = {\n dir = \"a\\\";\n every = 5; };\n",
            "job.cfg:2: what begins here, a comment or a text in quotes, does "
            "not end");
    refused("log = { dir = \"a\" } /*/",
            "job.cfg:1: what begins here, a comment or a text in quotes, does "
            "not end");
    /* the first mistake is named, not its consequence */
    refused("log = {\n dir == \"a\";\n every = 5; };\n\"",
            "job.cfg:2: syntax error, it should be section = { key = value; }; "
            "with texts in double quotes");
    parses("log = { dir = \"/* no comment\"; }; // /* none\n# \" none\n/**/");
}

static void lists_have_a_limit(void **state)
{
    (void)state;
    char text[1024] = "model = { layers = (", *at = text + strlen(text);
    for (int i = 0; i < GW_LIST_MAX; i++)
        at += sprintf(at, "%d,", i + 1);
    strcpy(at - 1, "); };");
    parses(text);
    assert_int_equal(config.model.layers.n, GW_LIST_MAX);
    strcpy(at - 1, ",65); };");
    refused(text, "job.cfg:1: model.layers: more than 64 entries");
}

static void good_values_arrive(void **state)
{
    (void)state;
    parses("# a job\n"
           "data : {\n"
           "  train = [\"a b.gz\", \"c\\\\d\\\"e\"]; test = \"only\";\n"
           "  normalize = (0.2860, 1, -2); // mixed\n"
           "}\n"
           "model = { layers = (784, \"dense 512\", 0.5), kind = \"cnn\" };\n"
           "train = { batch = 64, seed = 1000000000000000000; clip = 1;\n"
           "  eval_every = \"500 steps\"; loss_scale = 1024;\n"
           "  commit = \"whole\" };\n"
           "optimizer = { lr = .5; eps = 1e-7;\n"
           "  weight_decay = 0.12345678901234567; };\n"
           "log = { dir = \"1234567890123\"; /* 1234567890 */ };\n"
           "cluster = { insecure = \"yes\"; interface = \"::1\"; };\n"
           "checkpoint = { every = 100; };\n"
           "worker = { pin = TRUE; } # no newline follows");
    assert_int_equal(config.data.train.n, 2);
    assert_string_equal(gw_path_at(&config.data.train, 0), "a b.gz");
    assert_string_equal(gw_path_at(&config.data.train, 1), "c\\d\"e");
    assert_int_equal(config.data.test.n, 1);
    assert_string_equal(gw_path_at(&config.data.test, 0), "only");
    assert_int_equal(config.data.normalize.n, 3);
    assert_true(config.data.normalize.item[0] == 0.2860);
    assert_true(config.data.normalize.item[2] == -2);
    assert_int_equal(config.model.layers.n, 3);
    assert_string_equal(config.model.layers.item[0], "784");
    assert_string_equal(config.model.layers.item[2], "0.5");
    assert_int_equal(config.model.kind, GW_MODEL_CNN);
    assert_int_equal(config.train.batch, 64);
    assert_int_equal(config.train.seed, 1000000000000000000);
    assert_true(config.optimizer.weight_decay == 0.12345678901234567);
    assert_string_equal(config.log.dir, "1234567890123");
    assert_true(config.train.clip == 1);
    assert_int_equal(config.train.eval_every.n, 500);
    assert_int_equal(config.train.eval_every.unit, GW_STEPS);
    assert_string_equal(config.train.loss_scale, "1024");
    assert_int_equal(config.train.commit, GW_COMMIT_WHOLE);
    assert_true(config.optimizer.lr == 0.5);
    assert_true(config.optimizer.eps == 1e-7);
    assert_int_equal(config.cluster.insecure, 1);
    assert_string_equal(config.cluster.interface, "::1");
    assert_int_equal(config.checkpoint.every.n, 100);
    assert_int_equal(config.checkpoint.every.unit, GW_STEPS);
    assert_int_equal(config.worker.pin, 1);
    parses("train = { seed = 123456789012L; };");
    assert_int_equal(config.train.seed, 123456789012);
    parses("train = { seed = 123456789012LL; };");
    parses("train = { clip = 123456789.05; };");
    parses("train = { clip = 10000000000e-5; };");
    assert_true(config.train.clip == 100000);
    parses("");
    parses(" \n# nothing");
}

static void defaults_are_sensible(void **state)
{
    (void)state;
    gw_config_default(&config);
    assert_int_equal(config.data.format, GW_DATA_IDX);
    assert_int_equal(config.train.batch, 0);
    assert_int_equal(config.train.accumulate, 1);
    assert_int_equal(config.train.eval_every.unit, GW_EPOCHS);
    assert_int_equal(config.train.eval_every.n, 1);
    assert_string_equal(config.optimizer.kind, "auto");
    assert_string_equal(gw_config_optimizer(&config), "momentum");
    assert_true(config.optimizer.lr == 0.02);
    assert_true(config.optimizer.momentum == 0.9);
    assert_int_equal(config.cluster.workers, 2);
    assert_int_equal(config.cluster.servers, 2);
    assert_int_equal(config.cluster.insecure, 0);
    assert_true(config.cluster.step_deadline == 10);
    assert_int_equal(config.checkpoint.keep, 3);
    assert_string_equal(config.checkpoint.dir, "");
    assert_int_equal(config.log.every.steps, 0);
}

/* The files exist and would parse, so only the refusal keeps them closed. */
static void includes_are_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/gw_config_XXXXXX", text[256];
    int file = mkstemp(path);
    assert_true(file >= 0);
    const char job[] = "train = { batch = 7; };\n";
    assert_int_equal(write(file, job, sizeof job - 1), sizeof job - 1);
    close(file);

    static const char *const forms[] = {
        "@include \"%s\"",
        "\n\n@include \"%s\"\n",
        "  \t @include\t\"%s\"\n",
        "train = {\n @include \"%s\"\n};",
        "log = { dir = \"\n@include \"%s\"\n\"; };",
        "/* \n@include \"%s\" */",
        "train = { seed = 1;\r\n@include \"%s\" };",
        "@include \"../../../../../../%s\"",
        "@include\"%s\"",
    };
    static const unsigned lines[] = {1, 3, 1, 2, 2, 2, 2, 1, 1};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char line[128];
        snprintf(text, sizeof text, forms[i], path);
        snprintf(line, sizeof line,
                 "job.cfg:%u: @include is not possible: a job is one file",
                 lines[i]);
        refused(text, line);
        assert_int_equal(config.train.batch, 0);
    }
    struct gw_error error;
    snprintf(text, sizeof text, "train = {}; @include \"%s\"", path);
    assert_int_equal(parse(text, &error), GW_EUSAGE);
    assert_int_equal(config.train.batch, 0);
    parses("log = { dir = \"x @include y\"; }; # @include \"z\"\n");
    unlink(path);
}

/* Text of hostile peers: deep, long, cut anywhere, any byte. */
static void hostile_texts(void **state)
{
    (void)state;
    struct gw_error error;
    char *text = malloc(GW_JOB_TEXT_MAX + 2);
    assert_non_null(text);
    static const char *const fills[] = {"a=(",     "a={", "a",   "=",  "\"",
                                        "(",       "#",   "/*",  "\\", "\"\\",
                                        "train={", "}",   "a=1;"};
    for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
        size_t part = strlen(fills[f]), used = 0;
        for (; used + part <= GW_JOB_TEXT_MAX; used += part)
            memcpy(text + used, fills[f], part);
        text[used] = '\0';
        enum gw_status status = parse(text, &error);
        assert_true(status == GW_EUSAGE || fills[f][0] == '#');
    }
    memset(text, '#', GW_JOB_TEXT_MAX + 1);
    text[GW_JOB_TEXT_MAX + 1] = '\0';
    assert_int_equal(parse(text, &error), GW_EUSAGE);
    assert_string_equal(error.text, "job.cfg: longer than 49152 bytes");
    free(text);

    static char printed[GW_JOB_TEXT_MAX];
    gw_config_default(&config);
    size_t bytes = gw_config_print(&config, 1, printed, sizeof printed);
    assert_true(bytes < sizeof printed);
    for (size_t cut = 0; cut < bytes; cut++) {
        char kept = printed[cut];
        printed[cut] = '\0';
        parse(printed, &error);
        printed[cut] = (char)(kept ^ (1 << cut % 7));
        parse(printed, &error);
        printed[cut] = kept;
    }
}

static void errors_may_go_unheard(void **state)
{
    (void)state;
    gw_config_default(&config);
    assert_int_equal(gw_config_parse(&config, "f", "train = 5;", NULL),
                     GW_EUSAGE);
    assert_int_equal(gw_config_set(&config, "train.batch=x", NULL), GW_EUSAGE);
    assert_int_equal(gw_config_check(&config, NULL), GW_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wrong_input_names_line_and_key),
        cmocka_unit_test(exact_lines),
        cmocka_unit_test(exact_lines_about_policies),
        cmocka_unit_test(texts_are_utf8),
        cmocka_unit_test(what_does_not_end_is_refused),
        cmocka_unit_test(lists_have_a_limit),
        cmocka_unit_test(good_values_arrive),
        cmocka_unit_test(defaults_are_sensible),
        cmocka_unit_test(includes_are_refused),
        cmocka_unit_test(hostile_texts),
        cmocka_unit_test(errors_may_go_unheard),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
