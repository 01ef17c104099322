/* proto/policy: every word, plans of several phases, every way to be refused.
 */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/policy.h"

#define ALL                                                                    \
    "there are sync, backup:B, ssp:S, async, stale-lr:N, dc-async, "           \
    "downpour:T, easgd:T, local:H and diloco:H"

static struct gw_policy_word word_of(const char *text)
{
    struct gw_policy_word word = {.n = 77};
    struct gw_error error;
    if (gw_policy_word_parse(text, &word, &error))
        fail_msg("%s: %s", text, error.text);
    return word;
}

static struct gw_policy_plan plan_of(const char *text)
{
    struct gw_policy_plan plan;
    struct gw_error error;
    if (gw_policy_plan_parse(text, &plan, &error))
        fail_msg("%s: %s", text, error.text);
    return plan;
}

static void word_refused(const char *text, const char *line)
{
    struct gw_policy_word word = {GW_POLICY_KINDS, 77};
    struct gw_error error = {0};
    assert_int_equal(gw_policy_word_parse(text, &word, &error), GW_EUSAGE);
    assert_string_equal(error.text, line);
    assert_int_equal(word.kind, GW_POLICY_KINDS);
    assert_int_equal(word.n, 77);
    assert_int_equal(gw_policy_word_parse(text, &word, NULL), GW_EUSAGE);
}

static void plan_refused(const char *text, const char *line)
{
    struct gw_policy_plan plan = {.n = 77};
    struct gw_error error = {0};
    assert_int_equal(gw_policy_plan_parse(text, &plan, &error), GW_EUSAGE);
    assert_string_equal(error.text, line);
    assert_int_equal(plan.n, 77);
    assert_int_equal(gw_policy_plan_parse(text, &plan, NULL), GW_EUSAGE);
}

/* What each kind is, in the order of the enum. */
static const struct {
    const char *text, *letter;
    uint64_t min, max;
    int together, local;
} kinds[] = {{"sync", "", 0, 0, 1, 0},
             {"backup", "B", 0, 4095, 1, 0},
             {"ssp", "S", 0, 1000000, 0, 0},
             {"async", "", 0, 0, 0, 0},
             {"stale-lr", "N", 1, 4096, 0, 0},
             {"dc-async", "", 0, 0, 0, 0},
             {"downpour", "T", 1, 1000000, 0, 1},
             {"easgd", "T", 1, 1000000, 0, 1},
             {"local", "H", 1, 1000000, 1, 1},
             {"diloco", "H", 1, 1000000, 1, 1}};

static void every_word_is_read_and_printed(void **state)
{
    (void)state;
    assert_int_equal(sizeof kinds / sizeof *kinds, GW_POLICY_KINDS);
    for (unsigned kind = 0; kind < GW_POLICY_KINDS; kind++) {
        const uint64_t n[] = {kinds[kind].min, kinds[kind].min + 1,
                              kinds[kind].max};
        for (size_t i = 0; i < (kinds[kind].letter[0] ? 3 : 1); i++) {
            char text[64], printed[GW_WORD_BYTES];
            snprintf(text, sizeof text, "%s:%" PRIu64, kinds[kind].text, n[i]);
            if (!kinds[kind].letter[0])
                *strchr(text, ':') = '\0';
            struct gw_policy_word word = word_of(text);
            assert_int_equal(word.kind, kind);
            assert_int_equal(word.n, n[i]);
            gw_policy_word_print(&word, printed);
            assert_string_equal(printed, text);
        }
    }
    assert_int_equal(word_of("ssp:0004").n, 4);
    assert_int_equal(word_of(" \tssp:4 ").n, 4);
    /* the longest word fits */
    char printed[GW_WORD_BYTES];
    gw_policy_word_print(
        &(struct gw_policy_word){GW_POLICY_STALE_LR, UINT64_MAX}, printed);
    assert_string_equal(printed, "stale-lr:18446744073709551615");
}

static void families(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < GW_POLICY_KINDS; kind++) {
        assert_int_equal(gw_policy_is_together((enum gw_policy_kind)kind),
                         kinds[kind].together);
        assert_int_equal(gw_policy_is_local((enum gw_policy_kind)kind),
                         kinds[kind].local);
    }
}

static void numbers_have_bounds(void **state)
{
    (void)state;
    unsigned cases = 0;
    for (unsigned kind = 0; kind < GW_POLICY_KINDS; kind++) {
        static const char *const wrong[] = {"",
                                            ":",
                                            ":-1",
                                            ":+4",
                                            ":x",
                                            ":4x",
                                            ":0x4",
                                            ":1.5",
                                            "::4",
                                            ":4:4",
                                            ":1000001",
                                            ":18446744073709551617",
                                            ":999999999999999999999999"};
        const char *name = kinds[kind].text, *letter = kinds[kind].letter;
        char line[200], text[64];
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            snprintf(text, sizeof text, "%s%s", name, wrong[i]);
            snprintf(line, sizeof line,
                     "\"%s\": write %s:%s with a whole number %s, %" PRIu64
                     "..%" PRIu64,
                     text, name, letter, letter, kinds[kind].min,
                     kinds[kind].max);
            if (!letter[0])
                snprintf(line, sizeof line,
                         "\"%s\": %s takes no number, write it alone", text,
                         name);
            if (!letter[0] && !wrong[i][0])
                continue; /* is right */
            word_refused(text, line);
            cases++;
        }
    }
    assert_int_equal(cases, 13 * 7 + 12 * 3);
    word_refused("backup:4096",
                 "\"backup:4096\": write backup:B with a whole number B, "
                 "0..4095");
    word_refused("stale-lr:0", "\"stale-lr:0\": write stale-lr:N with a whole "
                               "number N, 1..4096");
    word_refused("stale-lr:4097", "\"stale-lr:4097\": write stale-lr:N with a "
                                  "whole number N, 1..4096");
    word_refused("local:0", "\"local:0\": write local:H with a whole number H, "
                            "1..1000000");
}

static void case_does_not_matter(void **state)
{
    (void)state;
    struct gw_policy_plan plan;
    struct gw_error error;
    assert_int_equal(
        gw_policy_plan_parse("Async Until 5, DC-Async", &plan, &error), GW_OK);
    assert_int_equal(plan.phase[0].word.kind, GW_POLICY_ASYNC);
    assert_int_equal(plan.phase[1].word.kind, GW_POLICY_DC_ASYNC);
    word_refused("Asnyc", "\"Asnyc\" is no policy, the nearest is async; " ALL);
}

static void unknown_words_name_the_nearest(void **state)
{
    (void)state;
    static const char *const near[][2] = {
        {"snyc", "sync"},           {"Snyc", "sync"},
        {"backups:1", "backup:B"},  {"spp:4", "ssp:S"},
        {"asnyc", "async"},         {"stale_lr:3", "stale-lr:N"},
        {"dcasync", "dc-async"},    {"easdg:10", "easgd:T"},
        {"lokal:16", "local:H"},    {"di-loco:500", "diloco:H"},
        {"localsgd:16", "local:H"}, {"sync;", "sync"}};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        char line[300];
        snprintf(line, sizeof line,
                 "\"%s\" is no policy, the nearest is %s; " ALL, near[i][0],
                 near[i][1]);
        word_refused(near[i][0], line);
        plan_refused(near[i][0], line);
    }
    word_refused("", "a policy is missing here; " ALL);
    word_refused("  ", "a policy is missing here; " ALL);
    word_refused("sync async",
                 "\"sync async\": only one policy may stand here");
    word_refused("sync,", "\"sync,\": only one policy may stand here");
    word_refused("sync\n", "\"sync?\" is no policy, the nearest is sync; " ALL);
}

/* Texts that no message has room for are cut. */
static void long_texts_are_cut(void **state)
{
    (void)state;
    char text[1000], line[300];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    snprintf(line, sizeof line,
             "\"%.40s\" is no policy, the nearest is sync; " ALL, text);
    word_refused(text, line);
    memcpy(text, "sync ", 5);
    snprintf(line, sizeof line,
             "behind \"sync\" may stand \"until STEP\" or a comma, not "
             "\"%.40s\"",
             text + 5);
    plan_refused(text, line);
}

static void plans_switch_where_they_say(void **state)
{
    (void)state;
    struct gw_policy_plan plan = plan_of("sync until 2000, local:16");
    assert_int_equal(plan.n, 2);
    assert_int_equal(gw_policy_at(&plan, 0).kind, GW_POLICY_SYNC);
    assert_int_equal(gw_policy_at(&plan, 1999).kind, GW_POLICY_SYNC);
    assert_int_equal(gw_policy_at(&plan, 2000).kind, GW_POLICY_LOCAL);
    assert_int_equal(gw_policy_at(&plan, 2000).n, 16);
    assert_int_equal(gw_policy_at(&plan, UINT64_MAX).kind, GW_POLICY_LOCAL);
    assert_int_equal(gw_policy_next_switch(&plan, 0), 2000);
    assert_int_equal(gw_policy_next_switch(&plan, 1999), 2000);
    assert_true(gw_policy_next_switch(&plan, 2000) == UINT64_MAX);

    plan = plan_of("ssp:4");
    assert_int_equal(plan.n, 1);
    assert_int_equal(gw_policy_at(&plan, 5).kind, GW_POLICY_SSP);
    assert_true(gw_policy_next_switch(&plan, 0) == UINT64_MAX);

    plan = plan_of(" sync\tuntil 1,ssp:2 until 2 ,  async until "
                   "1000000000000,diloco:500 ");
    assert_int_equal(plan.n, 4);
    assert_int_equal(gw_policy_at(&plan, 0).kind, GW_POLICY_SYNC);
    assert_int_equal(gw_policy_at(&plan, 1).kind, GW_POLICY_SSP);
    assert_int_equal(gw_policy_at(&plan, 2).kind, GW_POLICY_ASYNC);
    assert_int_equal(gw_policy_next_switch(&plan, 1), 2);
    assert_int_equal(gw_policy_next_switch(&plan, 2), 1000000000000);
    assert_int_equal(gw_policy_at(&plan, 1000000000000).kind, GW_POLICY_DILOCO);
    assert_true(plan.phase[3].until == UINT64_MAX);
}

static void wrong_plans_say_which_phase(void **state)
{
    (void)state;
    plan_refused("", "a policy is missing here; " ALL);
    plan_refused("sync until 5,", "phase 2: a policy is missing here; " ALL);
    plan_refused(", sync", "phase 1: a policy is missing here; " ALL);
    plan_refused("sync until 5,, async",
                 "phase 2: a policy is missing here; " ALL);
    plan_refused(
        "sync until 5, lcoal:4",
        "phase 2: \"lcoal:4\" is no policy, the nearest is local:H; " ALL);
    plan_refused("sync until 5, local",
                 "phase 2: \"local\": write local:H with a whole number H, "
                 "1..1000000");
    plan_refused("sync, local:16", "phase 1: \"sync\" needs \"until STEP\", "
                                   "since another phase follows");
    plan_refused("sync until 2000",
                 "\"until 2000\": the last phase goes to the end of the job; "
                 "leave this out, or add a phase");
    plan_refused("sync until 5, async until 9",
                 "phase 2: \"until 9\": the last phase goes to the end of the "
                 "job; leave this out, or add a phase");
    plan_refused("sync until 9, async until 9, ssp:1",
                 "phase 2: \"until 9\" is not later than \"until 9\" of the "
                 "phase before");
    plan_refused("sync until 0, async",
                 "phase 1: \"until 0\": write until STEP with a whole number "
                 "STEP, 1..1000000000000");
    plan_refused("sync until 1000000000001, async",
                 "phase 1: \"until 1000000000001\": write until STEP with a "
                 "whole number STEP, 1..1000000000000");
    plan_refused("sync until, async",
                 "phase 1: \"until \": write until STEP with a whole number "
                 "STEP, 1..1000000000000");
    plan_refused("sync until 5k, async",
                 "phase 1: \"until 5k\": write until STEP with a whole number "
                 "STEP, 1..1000000000000");
    plan_refused("sync untl 5, async",
                 "phase 1: behind \"sync\" may stand \"until STEP\" or a "
                 "comma, not \"untl\"");
    plan_refused("sync until 5 steps, async",
                 "phase 1: behind \"until 5\" may stand a comma, not "
                 "\"steps\"");
}

static void plans_have_so_many_phases(void **state)
{
    (void)state;
    char text[64 * GW_POLICY_PHASES_MAX] = "";
    for (int i = 1; i < GW_POLICY_PHASES_MAX; i++)
        sprintf(text + strlen(text), "ssp:%d until %d,", i, i);
    size_t used = strlen(text);
    strcpy(text + used, "async");
    struct gw_policy_plan plan = plan_of(text);
    assert_int_equal(plan.n, GW_POLICY_PHASES_MAX);
    for (uint64_t step = 0; step + 1 < GW_POLICY_PHASES_MAX; step++) {
        assert_int_equal(gw_policy_at(&plan, step).n, step + 1);
        assert_int_equal(gw_policy_next_switch(&plan, step), step + 1);
    }
    assert_int_equal(gw_policy_at(&plan, GW_POLICY_PHASES_MAX).kind,
                     GW_POLICY_ASYNC);
    strcpy(text + used, "sync until 100, async");
    plan_refused(text, "more than 16 phases");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_is_read_and_printed),
        cmocka_unit_test(families),
        cmocka_unit_test(numbers_have_bounds),
        cmocka_unit_test(case_does_not_matter),
        cmocka_unit_test(unknown_words_name_the_nearest),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(plans_switch_where_they_say),
        cmocka_unit_test(wrong_plans_say_which_phase),
        cmocka_unit_test(plans_have_so_many_phases),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
