#include "config.h"

#include "cli/options.h"

#include <assert.h>
#include <getopt.h>
#include <string.h>
#include <strings.h>

#include "proto/distance.h"
#include "proto/text.h"

#define OPTIONS_MAX 32

/* getopt's values of rows begin above its '?' and ':'. */
enum {
    HELP = 256,
    FIRST_ROW
};

/* Writes the error line of an unknown option. */
static void
refuse_option(const char *command, const char *word, const struct option *of)
{
    struct gw_nearest nearest = {0};
    char said[GW_NEAREST_BYTES], name[GW_DISTANCE_BYTES], known[sizeof name];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (; of->name; of++) {
        snprintf(known, sizeof known, "--%.40s", of->name);
        gw_nearest_try(&nearest, name, known);
    }
    gw_cli_usage("%s: cannot take %s%s (gradweir %s --help)", command, word,
                 gw_nearest_say(&nearest, said), command);
}

/* getopt_long with an error line of ours: a row's value, HELP, -1 at the end,
   or '?' when the line has been written. */
static int next(int argc, char **argv, const struct option *options)
{
    opterr = 0;
    int at = optind ? optind : 1;
    int option = getopt_long(argc, argv, ":", options, NULL);
    if (option == ':')
        gw_cli_usage("%s: %s needs a value (gradweir %s --help)", argv[0],
                     argv[optind - 1], argv[0]);
    else if (option == '?')
        refuse_option(argv[0], optind > at ? argv[optind - 1] : argv[at],
                      options);
    return option == ':' ? '?' : option;
}

/* The table as getopt_long takes it, with --help behind it. */
static void for_getopt(const struct gw_option *row, struct option *options)
{
    int n = 0;
    for (; row && row->name; row++, n++) {
        assert(n < OPTIONS_MAX);
        options[n] = (struct option){
            .name = row->name,
            .has_arg = row->argument ? required_argument : no_argument,
            .val = FIRST_ROW + n,
        };
    }
    options[n] = (struct option){"help", no_argument, NULL, HELP};
}

int gw_options_read(const struct gw_command *command,
                    int argc,
                    char **argv,
                    void *self,
                    enum gw_exit *code_p)
{
    struct option options[OPTIONS_MAX + 2] = {0};
    struct gw_error error;
    int option;
    for_getopt(command->options, options);
    while ((option = next(argc, argv, options)) >= FIRST_ROW) {
        const struct gw_option *row = &command->options[option - FIRST_ROW];
        if (row->take(row, optarg, (char *)self + row->at, &error) != GW_OK) {
            *code_p = gw_cli_fail(&error);
            return -1;
        }
    }
    if (option == -1)
        return argc - optind;
    if (option == HELP)
        gw_options_help(command, stdout);
    *code_p = option == HELP ? GW_EXIT_DONE : GW_EXIT_USAGE;
    return -1;
}

const struct gw_option *gw_option_find(const struct gw_option *table,
                                       const char *name)
{
    for (; table->name; table++)
        if (strcasecmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* ---- storing ---- */

/* A whole number of the row's range. */
static enum gw_status read_number(const struct gw_option *option,
                                  const char *value,
                                  uint64_t *number_p,
                                  struct gw_error *error)
{
    char name[64];
    snprintf(name, sizeof name, "--%s", option->name);
    return gw_text_number(name, value, option->low, option->high, number_p,
                          error);
}

enum gw_status gw_option_flag(const struct gw_option *option,
                              const char *value,
                              void *to,
                              struct gw_error *error)
{
    (void)option, (void)value, (void)error;
    *(int *)to = 1;
    return GW_OK;
}

enum gw_status gw_option_text(const struct gw_option *option,
                              const char *value,
                              void *to,
                              struct gw_error *error)
{
    (void)option, (void)error;
    *(const char **)to = value;
    return GW_OK;
}

enum gw_status gw_option_number(const struct gw_option *option,
                                const char *value,
                                void *to,
                                struct gw_error *error)
{
    return read_number(option, value, to, error);
}

enum gw_status gw_option_count(const struct gw_option *option,
                               const char *value,
                               void *to,
                               struct gw_error *error)
{
    uint64_t number;
    enum gw_status status = read_number(option, value, &number, error);
    if (status == GW_OK)
        *(uint32_t *)to = (uint32_t)number;
    return status;
}

enum gw_status gw_option_fd(const struct gw_option *option,
                            const char *value,
                            void *to,
                            struct gw_error *error)
{
    const struct gw_option fd = {.name = option->name, .low = 3, .high = 1000};
    uint64_t number;
    enum gw_status status = read_number(&fd, value, &number, error);
    if (status == GW_OK)
        *(int *)to = (int)number;
    return status;
}

enum gw_status gw_option_set(const struct gw_option *option,
                             const char *value,
                             void *to,
                             struct gw_error *error)
{
    (void)option;
    return gw_cli_job_set(to, value, error);
}

enum gw_status gw_option_members(const struct gw_option *option,
                                 const char *value,
                                 void *to,
                                 struct gw_error *error)
{
    return gw_cli_job_count(to, option->name, value, error);
}

enum gw_status gw_option_device(const struct gw_option *option,
                                const char *value,
                                void *to,
                                struct gw_error *error)
{
    (void)option;
    return gw_cli_job_device(to, value, error);
}
