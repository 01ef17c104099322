/*
 * Study files: which runs they mean, how runs are told apart, and one clear
 * line for each thing that is wrong.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/study/study.h"

static char dir[] = "/tmp/gradweir-study-XXXXXX";
static char file[64];

static void write_file(const char *name, const char *text)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static int make_files(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(file, sizeof file, "%s/a.study", dir);
    write_file("a.job", "data = { train = (\"x\", \"y\"); test = (\"x\", "
                        "\"y\"); };\n"
                        "model = { layers = (4, 3, 2); };\n"
                        "train = { batch = 2; steps = 10; seed = 7; };\n"
                        "cluster = { workers = 2; servers = 1; };\n");
    return 0;
}

static int remove_files(void **state)
{
    char path[96];
    (void)state;
    unlink(file);
    snprintf(path, sizeof path, "%s/a.job", dir);
    unlink(path);
    return rmdir(dir);
}

static struct gw_study *read_study(const char *text)
{
    struct gw_study *study;
    struct gw_error error;
    write_file("a.study", text);
    if (gw_study_read(file, &study, &error) != GW_OK)
        fail_msg("%s", error.text);
    return study;
}

/* ---- runs ---- */

static void a_grid_is_every_combination(void **state)
{
    static const char *const wanted[] = {
        "policy sync, workers 2, seed 1",  "policy sync, workers 2, seed 2",
        "policy sync, workers 3, seed 1",  "policy sync, workers 3, seed 2",
        "policy async, workers 2, seed 1", "policy async, workers 2, seed 2",
        "policy async, workers 3, seed 1", "policy async, workers 3, seed 2",
    };
    (void)state;
    struct gw_study *study =
        read_study("job = \"a.job\";\n"
                   "grid = { seed = [ 1, 2 ]; workers = ( 2, 3 );\n"
                   "  policy = [ \"sync\", \"async\" ]; };\n");
    assert_int_equal(study->runs, 8);
    assert_int_equal(study->points, 4);
    assert_true(study->simulated);
    for (size_t i = 0; i < 8; i++) {
        char text[128];
        gw_study_describe(&study->run[i], text, sizeof text);
        assert_string_equal(text, wanted[i]);
        assert_int_equal(study->run[i].point, i / 2);
    }
    gw_study_free(study);
}

static void a_run_is_the_job_with_its_settings(void **state)
{
    struct gw_config *config = calloc(1, sizeof *config);
    struct gw_error error;
    (void)state;
    assert_non_null(config);
    struct gw_study *study = read_study(
        "job = \"a.job\";\nset = [ \"train.batch=5\", \"policy.alpha=0.5\" ];\n"
        "compute = { step_us = 10; sample_us = 0.25; }; limit_s = 60;\n"
        "target = { loss = 0.5; accuracy = 0.9; };\n"
        "grid = ( { },\n"
        "  { vary = ( { name = \"far\"; set = [ \"policy.alpha=0.1\" ]; },\n"
        "             { name = \"near\"; set = \"train.steps=20\"; } );\n"
        "    policy = \"easgd:4\"; optimizer = \"adam\"; lr = 0.001;\n"
        "    servers = 2; straggler = \"exponential\";\n"
        "    network = \"1 Gbit/s, 0.2 ms\"; } );\n");
    assert_int_equal(study->runs, 3);
    assert_int_equal(study->points, 3);
    assert_true(study->step_us == 10 && study->sample_us == 0.25);
    assert_true(study->limit_s == 60);
    assert_true(study->target_loss == 0.5 && study->target_accuracy == 0.9);
    assert_int_equal(gw_study_config(study, &study->run[0], config, &error),
                     GW_OK);
    assert_int_equal(config->train.batch, 5);
    assert_int_equal(config->train.seed, 7);
    assert_string_equal(config->cluster.policy, "sync");
    assert_string_equal(config->cluster.transport, "sim");
    assert_int_equal(gw_study_config(study, &study->run[1], config, &error),
                     GW_OK);
    assert_true(config->policy.alpha == 0.1);
    assert_int_equal(config->train.steps, 10);
    assert_string_equal(config->cluster.policy, "easgd:4");
    assert_string_equal(config->optimizer.kind, "adam");
    assert_true(config->optimizer.lr == 0.001);
    assert_int_equal(config->cluster.servers, 2);
    assert_int_equal(gw_study_config(study, &study->run[2], config, &error),
                     GW_OK);
    assert_true(config->policy.alpha == 0.5);
    assert_int_equal(config->train.steps, 20);
    gw_study_free(study);
    free(config);
}

static void id_of(const char *text, char id[GW_STUDY_ID_BYTES])
{
    struct gw_study *study = read_study(text);
    assert_int_equal(study->runs, 1);
    memcpy(id, study->run[0].id, GW_STUDY_ID_BYTES);
    gw_study_free(study);
}

/* A run's id ignores the rest of the file, and its spelling. */
static void a_run_is_known_by_what_it_depends_on(void **state)
{
    static const char *const others[] = {
        "set = [ \"train.batch=3\" ];",
        "compute = { step_us = 1; };",
        "compute = { sample_us = 1; };",
        "limit_s = 5;",
        "grid = { seed = 8; };",
        "grid = { straggler = \"exponential\"; };",
        "grid = { network = \"1 Gbit/s\"; };",
        "run = \"processes\";",
    };
    char id[9][GW_STUDY_ID_BYTES], text[128];
    (void)state;
    id_of("job = \"a.job\";", id[8]);
    for (size_t i = 0; i < 8; i++) {
        snprintf(text, sizeof text, "job = \"a.job\"; %s", others[i]);
        id_of(text, id[i]);
        for (size_t k = 0; k < 9; k++)
            assert_true(k == i || (k > i && k < 8) ||
                        strcmp(id[k], id[i]) != 0);
    }
    id_of("job = \"a.job\"; target = { loss = 1; }; set = \"train.seed=7\";\n"
          "grid = { policy = \"sync\"; workers = 2; };",
          id[0]);
    assert_string_equal(id[0], id[8]);
}

/* A trace is identified by its numbers, not by its name. Its path is relative
   to the study file. */
static void another_trace_is_another_run(void **state)
{
    char path[96], id[3][GW_STUDY_ID_BYTES];
    (void)state;
    snprintf(path, sizeof path, "%s/trace", dir);
    for (size_t i = 0; i < 3; i++) {
        write_file("trace", i == 1 ? "1 2\n" : "1 3\n");
        id_of("job = \"a.job\"; grid = { straggler = \"trace trace\"; };",
              id[i]);
    }
    unlink(path);
    assert_string_not_equal(id[0], id[1]);
    assert_string_equal(id[0], id[2]);
}

/* ---- errors ---- */

static const struct {
    const char *text, *line; /* behind "FILE" */
} wrong[] = {
    {"set = [ \"train.batch=3\" ];", ": needs job = \"FILE\""},
    {"job = \"b.job\";", "b.job: cannot be opened"},
    {"job = \"a.job\";\ngird = { };", ":2: gird is not known here; there are"},
    {"job = \"a.job\";\ngrid = { polcy = \"sync\"; };",
     ":2: polcy is not known here; there are vary, policy"},
    {"job = \"a.job\"\ngrid = {", ":2: syntax error"},
    {"job = \"a.job\";\ngrid = { policy = [ ]; };", ":2: policy: is an empty"},
    {"job = \"a.job\";\ngrid = { policy = { }; };", ":2: policy: takes"},
    {"job = \"a.job\";\ngrid = { policy = \"sinc\"; };",
     ":2: policy sinc: cluster.policy: \"sinc\" is no policy"},
    {"job = \"a.job\";\ngrid = { workers = [ 2, 0 ]; };",
     ":2: workers 0: cluster.workers: 0 is out of range"},
    {"job = \"a.job\";\ngrid = { straggler = \"slow\"; };",
     ":2: straggler slow: "},
    {"job = \"a.job\";\ngrid = { straggler = \"factor 2 of 5\"; };",
     ":2: straggler factor 2 of 5: "},
    {"job = \"a.job\";\ngrid = { network = \"fast\"; };", ":2: network fast: "},
    {"job = \"a.job\"; run = \"processes\";\ngrid = { network = \"1 Gbit/s\"; "
     "};",
     ":2: network 1 Gbit/s: network: needs run = \"simulated\""},
    {"job = \"a.job\";\nrun = \"real\";", ":2: run: takes simulated or"},
    {"job = \"a.job\";\nlimit_s = -1;", ":2: limit_s: takes a number of 0"},
    {"job = \"a.job\";\ncompute = { step_us = \"x\"; };",
     ":2: step_us: takes a number"},
    {"job = \"a.job\";\ntarget = { los = 1; };", ":2: los is not known here"},
    {"job = \"a.job\";\ngrid = { vary = [ 1 ]; };", ":2: vary: takes a list"},
    {"job = \"a.job\";\ngrid = { vary = ( { name = \"a\"; } ); };",
     ":2: vary: needs a name and a set"},
    {"job = \"a.job\";\nset = [ \"train.btch=3\" ];",
     ":1: the job: train.btch: "},
};

static void what_is_wrong_is_said_in_one_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct gw_study *study;
        struct gw_error error = {.text = ""};
        write_file("a.study", wrong[i].text);
        assert_int_equal(gw_study_read(file, &study, &error), GW_EUSAGE);
        if (!strstr(error.text, wrong[i].line) || strchr(error.text, '\n') ||
            !strstr(error.text, dir))
            fail_msg("%s: %s", wrong[i].line, error.text);
    }
}

/* A line is counted in the file that has it. */
static void what_is_wrong_in_an_included_file_is_looked_for_there(void **state)
{
    static const struct {
        const char *text, *line;
    } wrong_part[] = {
        {"\n\ngird = { };", ":3: gird is not known here"},
        {"\n\ngrid = ];", ":3: syntax error"},
        {"\n\nlimit_s = \"x\";", ":3: limit_s: takes a number"},
        {"\n\ngrid = { policy = \"sinc\"; };", ":3: policy sinc: "},
    };
    char text[256], part[96], line[160];
    (void)state;
    snprintf(part, sizeof part, "%s/part.study", dir);
    snprintf(text, sizeof text, "job = \"a.job\";\n@include \"%s\"\n", part);
    for (size_t i = 0; i < sizeof wrong_part / sizeof *wrong_part; i++) {
        struct gw_study *study;
        struct gw_error error = {.text = ""};
        write_file("a.study", text);
        write_file("part.study", wrong_part[i].text);
        assert_int_equal(gw_study_read(file, &study, &error), GW_EUSAGE);
        snprintf(line, sizeof line, "%s%s", part, wrong_part[i].line);
        if (strncmp(error.text, line, strlen(line)) != 0)
            fail_msg("%s: %s", line, error.text);
    }
    unlink(part);
}

static void too_many_runs_are_refused(void **state)
{
    struct gw_study *study;
    struct gw_error error;
    char text[2048] = "job = \"a.job\"; grid = { seed = [ 1";
    (void)state;
    for (int i = 2; i <= 101; i++)
        snprintf(text + strlen(text), 16, ", %d", i);
    strcat(text, "]; lr = [ 0.1");
    for (int i = 2; i <= 101; i++)
        snprintf(text + strlen(text), 16, ", 0.%d", i);
    strcat(text, "]; };");
    write_file("a.study", text);
    assert_int_equal(gw_study_read(file, &study, &error), GW_EUSAGE);
    assert_non_null(strstr(error.text, "more than 10000 runs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_is_every_combination),
        cmocka_unit_test(a_run_is_the_job_with_its_settings),
        cmocka_unit_test(a_run_is_known_by_what_it_depends_on),
        cmocka_unit_test(another_trace_is_another_run),
        cmocka_unit_test(what_is_wrong_is_said_in_one_line),
        cmocka_unit_test(what_is_wrong_in_an_included_file_is_looked_for_there),
        cmocka_unit_test(too_many_runs_are_refused),
    };
    return cmocka_run_group_tests_name("study", tests, make_files,
                                       remove_files);
}
