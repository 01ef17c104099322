/* Laws of stragglers: their moments and tails, their words, their files. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/lab/straggle.h"

#define DRAWS 400000

static struct gw_straggle *parse(const char *text)
{
    struct gw_straggle *straggle = NULL;
    struct gw_error error = {.text = ""};
    if (gw_straggle_parse(text, "", &straggle, &error) != GW_OK)
        fail_msg("%s", error.text);
    return straggle;
}

static double mean_of(const struct gw_straggle *straggle, uint32_t rank)
{
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS; i++)
        sum += gw_straggle_factor(straggle, 3, rank, i);
    return sum / DRAWS;
}

/* The share of draws above t. */
static double tail_of(const struct gw_straggle *straggle, double t)
{
    unsigned above = 0;
    for (uint64_t i = 0; i < DRAWS; i++)
        above += gw_straggle_factor(straggle, 3, 1, i) > t;
    return (double)above / DRAWS;
}

static void assert_near(double is, double wanted, double within)
{
    if (!(fabs(is - wanted) <= within))
        fail_msg("%g, not %g", is, wanted);
}

static void none_takes_its_time(void **state)
{
    (void)state;
    struct gw_straggle *straggle = parse("none");
    for (uint32_t i = 0; i < 100; i++)
        assert_true(gw_straggle_factor(straggle, i, i, i) == 1);
    gw_straggle_free(straggle);
}

static void exponential_tails(void **state)
{
    (void)state;
    struct gw_straggle *straggle = parse("exponential");
    assert_near(mean_of(straggle, 0), 1, 0.01);
    for (double t = 0.5; t < 6; t += 0.5)
        assert_near(tail_of(straggle, t), exp(-t), 0.003);
    gw_straggle_free(straggle);
}

static void pareto_tails(void **state)
{
    (void)state;
    struct gw_straggle *straggle = parse("pareto 3");
    double least = 2.0 / 3;
    assert_near(mean_of(straggle, 0), 1, 0.01);
    assert_true(tail_of(straggle, least * (1 - 1e-9)) == 1);
    for (double t = 1; t < 6; t += 0.5)
        assert_near(tail_of(straggle, t), pow(least / t, 3), 0.003);
    gw_straggle_free(straggle);
}

static void laws_are_multiplied(void **state)
{
    (void)state;
    struct gw_straggle *all = parse("factor 4 of 2, exponential,factor 2 of 2");
    struct gw_straggle *law = parse("none, exponential");
    for (uint64_t i = 0; i < 1000; i++) {
        double one = gw_straggle_factor(law, 9, 2, i);
        assert_true(gw_straggle_factor(all, 9, 2, i) == 8 * one);
        assert_true(gw_straggle_factor(all, 9, 1, i) ==
                    gw_straggle_factor(law, 9, 1, i));
    }
    gw_straggle_free(all);
    gw_straggle_free(law);
}

static void draws_do_not_depend_on_each_other(void **state)
{
    (void)state;
    struct gw_straggle *straggle = parse("exponential, exponential");
    double by_rank = 0, by_seed = 0, variance = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = gw_straggle_factor(straggle, 1, 0, i) - 1;
        variance += x * x;
        by_rank += x * (gw_straggle_factor(straggle, 1, 1, i) - 1);
        by_seed += x * (gw_straggle_factor(straggle, 5, 0, i) - 1);
    }
    assert_near(variance / DRAWS, 3, 0.15); /* E[x^2]^2 - 1 = 2*2 - 1 */
    assert_near(by_rank / variance, 0, 0.01);
    assert_near(by_seed / variance, 0, 0.01);
    gw_straggle_free(straggle);
}

/* "trace FILE" of a file with this text; the file is removed again. */
static enum gw_status read_trace(const char *text,
                                 struct gw_straggle **straggle_p,
                                 struct gw_error *error)
{
    char path[] = "/tmp/gradweir-trace-XXXXXX", word[64];
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    snprintf(word, sizeof word, "trace %s", path);
    enum gw_status status =
        gw_straggle_parse(word, "elsewhere/a.study", straggle_p, error);
    unlink(path);
    return status;
}

static void a_trace_is_repeated(void **state)
{
    (void)state;
    struct gw_straggle *straggle;
    struct gw_error error = {.text = ""};
    assert_int_equal(
        read_trace("# factors\n1 2 3\n\n0.5\t1e1 7\n", &straggle, &error),
        GW_OK);
    static const double rows[2][3] = {{1, 2, 3}, {0.5, 10, 7}};
    for (uint32_t i = 0; i < 7; i++)
        for (uint32_t rank = 0; rank < 3; rank++)
            assert_true(gw_straggle_factor(straggle, 1, rank, i) ==
                        rows[i % 2][rank]);
    assert_int_equal(gw_straggle_fits(straggle, 3, &error), GW_OK);
    assert_int_equal(gw_straggle_fits(straggle, 4, &error), GW_EUSAGE);
    assert_string_equal(error.text, "a trace of 3 workers, but the job has 4");
    gw_straggle_free(straggle);
}

static void bad_traces_are_refused(void **state)
{
    (void)state;
    static const char *const traces[][2] = {
        {"", " has no line of factors"},
        {"# only\n", " has no line of factors"},
        {"1 2\n1\n", ":2: 1 columns, the lines before have 2"},
        {"1 x\n", ":1: factors are numbers above 0"},
        {"1\n0\n", ":2: factors are numbers above 0"},
        {"-1\n", ":1: factors are numbers above 0"},
        {"nan\n", ":1: factors are numbers above 0"},
        {"inf\n", ":1: factors are numbers above 0, up to 10000"},
        {"10000\n10001\n", ":2: factors are numbers above 0, up to 10000"},
    };
    struct gw_straggle *straggle = NULL;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        struct gw_error error = {.text = ""};
        assert_int_equal(read_trace(traces[i][0], &straggle, &error),
                         GW_EUSAGE);
        if (!strstr(error.text, traces[i][1]))
            fail_msg("%s", error.text);
    }
    struct gw_error error = {.text = ""};
    assert_int_equal(gw_straggle_parse("trace /nowhere", "", &straggle, &error),
                     GW_EIO);
    assert_null(straggle);
}

static void other_words_are_refused(void **state)
{
    (void)state;
    static const char *const words[] = {
        "",
        "slow",
        "none,",
        "factor 4",
        "pareto 1",
        "pareto",
        "pareto 0.5",
        "factor 0 of 1",
        "factor 10001 of 1",
        "factor x of 1",
        "factor 4 of",
        "pareto 2x",
        "factor 4 of 1 2",
        "pareto inf",
        "factor -1 of 0",
    };
    struct gw_straggle *straggle = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct gw_error error = {.text = ""};
        if (gw_straggle_parse(words[i], "", &straggle, &error) != GW_EUSAGE)
            fail_msg("\"%s\" is taken", words[i]);
        assert_non_null(strstr(error.text, "is no law of stragglers"));
    }
    assert_null(straggle);
}

static void a_rank_must_be_there(void **state)
{
    (void)state;
    struct gw_error error = {.text = ""};
    struct gw_straggle *straggle = parse("exponential, factor 4 of 3");
    assert_int_equal(gw_straggle_fits(straggle, 4, &error), GW_OK);
    assert_int_equal(gw_straggle_fits(straggle, 3, &error), GW_EUSAGE);
    assert_string_equal(
        error.text, "a straggler of rank 3, but the job has workers 0 to 2");
    gw_straggle_free(straggle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_takes_its_time),
        cmocka_unit_test(exponential_tails),
        cmocka_unit_test(pareto_tails),
        cmocka_unit_test(laws_are_multiplied),
        cmocka_unit_test(draws_do_not_depend_on_each_other),
        cmocka_unit_test(a_trace_is_repeated),
        cmocka_unit_test(bad_traces_are_refused),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(a_rank_must_be_there),
    };
    return cmocka_run_group_tests_name("straggle", tests, NULL, NULL);
}
