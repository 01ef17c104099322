/* cli/options: one table is parsed, printed as --help and listed. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/options.h"

struct order {
    struct gw_cli_job job;
    const char *out;
    uint64_t jobs;
    uint32_t rounds;
    int dry_run, fd;
};

/* clang-format off */
static const struct gw_option words[] = {
    {.name = "stop", .take = gw_option_flag, .help = "end it"},
    {.name = NULL},
};

static const struct gw_option options[] = {
    GW_OPTION_SET(struct order, job, "change a key"),
    GW_OPTION_MEMBERS("workers", struct order, job),
    GW_OPTION_DEVICE(struct order, job, "auto or cpu"),
    {.name = "out", .argument = "DIR", .take = gw_option_text,
     .at = offsetof(struct order, out),
     .help = "a line that is longer than the room beside its option, so that "
             "it goes on below: \"1 Gbit/s, 0.2 ms\""},
    {.name = "jobs", .argument = "N", .take = gw_option_number,
     .at = offsetof(struct order, jobs), .low = 1, .high = 9, .help = "many"},
    {.name = "rounds", .argument = "N", .take = gw_option_count,
     .at = offsetof(struct order, rounds), .low = 1, .high = 9,
     .help = "rounds"},
    {.name = "dry-run", .take = gw_option_flag,
     .at = offsetof(struct order, dry_run), .help = "only look"},
    {.name = "fd", .argument = "FD", .take = gw_option_fd,
     .at = offsetof(struct order, fd)},
    {.name = NULL},
};
/* clang-format on */

static const struct gw_command command = {
    .name = "try",
    .usage = "FILE [OPTIONS]\n--jobs N",
    .about = "Tries.",
    .words = words,
    .options = options,
};

#define ARGUMENTS(...)                                                         \
    (char *[])                                                                 \
    {                                                                          \
        "try", __VA_ARGS__, NULL                                               \
    }

/* Operands, or -1 and the exit code. */
static int read_all(char **argv, struct order *order, enum gw_exit *code_p)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    memset(order, 0, sizeof *order);
    optind = 0; /* getopt begins again */
    return gw_options_read(&command, argc, argv, order, code_p);
}

static void values_are_stored(void **state)
{
    struct order order;
    enum gw_exit code;
    (void)state;
    char **argv =
        ARGUMENTS("a", "--jobs=9", "--out", "b", "--rounds", "3", "--dry-run",
                  "--set", "x=1", "--workers", "2", "--device", "cpu", "--set",
                  "y=2", "--fd", "4", "c");
    assert_int_equal(read_all(argv, &order, &code), 2);
    assert_string_equal(argv[optind], "a");
    assert_string_equal(argv[optind + 1], "c");
    assert_string_equal(order.out, "b");
    assert_true(order.jobs == 9 && order.rounds == 3 && order.dry_run == 1 &&
                order.fd == 4);
    assert_int_equal(order.job.sets, 4);
    assert_string_equal(order.job.set[0], "x=1");
    assert_string_equal(order.job.set[1], "cluster.workers=2");
    assert_string_equal(order.job.set[2], "worker.device=\"cpu\"");
    assert_string_equal(order.job.set[3], "y=2");
}

static void wrong_options_end_the_command(void **state)
{
    static char *const wrong[][2] = {
        {"--jobs", "0"},     {"--jobs", "10"}, {"--jobs", "x"},
        {"--rounds", "10"},  {"--rounds", ""}, {"--workers", "0"},
        {"--fd", "2"},       {"--outt", "a"},  {"-x", "a"},
        {"--dry-run=1", ""}, {"a", "--jobs"},
    };
    struct order order;
    enum gw_exit code;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        code = GW_EXIT_DONE;
        assert_int_equal(
            read_all(ARGUMENTS(wrong[i][0], wrong[i][1]), &order, &code), -1);
        assert_int_equal(code, GW_EXIT_USAGE);
    }
}

static void words_are_found_in_any_case(void **state)
{
    (void)state;
    assert_ptr_equal(gw_option_find(words, "Stop"), words);
    assert_null(gw_option_find(words, "stopp"));
}

/* The text that `print` writes. */
static void check_text(void (*print)(const struct gw_command *of, FILE *to),
                       const char *wanted)
{
    char *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    print(&command, to);
    fclose(to);
    assert_string_equal(text, wanted);
    free(text);
}

static void help_is_made_of_the_table(void **state)
{
    (void)state;
    check_text(
        gw_options_help,
        "Usage: gradweir try FILE [--set KEY=VALUE ...] [--workers N] "
        "[--device NAME]\n"
        "                    [--out DIR] [--rounds N] [--dry-run]\n"
        "       gradweir try --jobs N\n"
        "\n"
        "Tries.\n"
        "\n"
        "  stop             end it\n"
        "\n"
        "  --set KEY=VALUE  change a key\n"
        "  --workers N      cluster.workers\n"
        "  --device NAME    auto or cpu\n"
        "  --out DIR        a line that is longer than the room beside its "
        "option, so\n"
        "                   that it goes on below: \"1 Gbit/s, 0.2 ms\"\n"
        "  --jobs N         many\n"
        "  --rounds N       rounds\n"
        "  --dry-run        only look\n"
        "  --help           this text\n");
}

static void rows_are_listed_a_paragraph_each(void **state)
{
    (void)state;
    check_text(gw_options_list,
               "try stop\n    end it.\n"
               "try --set KEY=VALUE\n    change a key.\n"
               "try --workers N\n    cluster.workers.\n"
               "try --device NAME\n    auto or cpu.\n"
               "try --out DIR\n    a line that is longer than the room beside "
               "its option, so that it goes on below: \"1 Gbit/s, 0.2 ms\".\n"
               "try --jobs N\n    many.\n"
               "try --rounds N\n    rounds.\n"
               "try --dry-run\n    only look.\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_stored),
        cmocka_unit_test(wrong_options_end_the_command),
        cmocka_unit_test(words_are_found_in_any_case),
        cmocka_unit_test(help_is_made_of_the_table),
        cmocka_unit_test(rows_are_listed_a_paragraph_each),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
