/*
 * Options as tables. The table of a command makes its parsing, its --help, its
 * part of the manual page and its completion. Long options only.
 */
#ifndef GW_CLI_OPTIONS_H
#define GW_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cli.h"

/*
 * An option, or a word that a command knows (gradweir ctl stop). A table ends
 * with a row without a name.
 */
struct gw_option {
    const char *name;     /* without dashes */
    const char *argument; /* the value's name in --help; NULL: no value */
    const char *help;     /* one line, which --help wraps; NULL: not listed,
                             for processes that gradweir itself starts */
    /* Stores `value`; `to` is the member at byte `at` of the command's struct.
       GW_EUSAGE with a line. */
    enum gw_status (*take)(const struct gw_option *option,
                           const char *value,
                           void *to,
                           struct gw_error *error);
    size_t at;
    uint64_t low, high; /* range of a number */
    int kind;           /* tells rows with one `take` apart */
    int repeats;        /* --help shows "..." */
};

/*
 * Reads the options of argv into `self`, the command's struct. Returns the
 * number of operands, which begin at argv[optind]; -1 when the command is over:
 * it returns *code_p, and --help or an error line has been written.
 */
int gw_options_read(const struct gw_command *command,
                    int argc,
                    char **argv,
                    void *self,
                    enum gw_exit *code_p);

/* The row of that name, in any case of letters; NULL: there is none. */
const struct gw_option *gw_option_find(const struct gw_option *table,
                                       const char *name);

/* gradweir COMMAND --help, at most 79 columns wide. */
void gw_options_help(const struct gw_command *command, FILE *to);

/* A paragraph per word and option: "COMMAND --NAME ARGUMENT", its help. The
   manual page and the completion are made of these. */
void gw_options_list(const struct gw_command *command, FILE *to);

/* ---- for `take` ---- */

/* int: 1 */
enum gw_status gw_option_flag(const struct gw_option *option,
                              const char *value,
                              void *to,
                              struct gw_error *error);

/* const char * */
enum gw_status gw_option_text(const struct gw_option *option,
                              const char *value,
                              void *to,
                              struct gw_error *error);

/* uint64_t in low..high */
enum gw_status gw_option_number(const struct gw_option *option,
                                const char *value,
                                void *to,
                                struct gw_error *error);

/* uint32_t in low..high */
enum gw_status gw_option_count(const struct gw_option *option,
                               const char *value,
                               void *to,
                               struct gw_error *error);

/* int: a descriptor that the starting process handed on */
enum gw_status gw_option_fd(const struct gw_option *option,
                            const char *value,
                            void *to,
                            struct gw_error *error);

/* struct gw_cli_job: --set, */
enum gw_status gw_option_set(const struct gw_option *option,
                             const char *value,
                             void *to,
                             struct gw_error *error);

/* --workers and --servers, which are --set of cluster.workers and the like, */
enum gw_status gw_option_members(const struct gw_option *option,
                                 const char *value,
                                 void *to,
                                 struct gw_error *error);

/* and --device, which is --set of worker.device */
enum gw_status gw_option_device(const struct gw_option *option,
                                const char *value,
                                void *to,
                                struct gw_error *error);

/* ---- rows that several commands have; `job` is the member of `type` ---- */

/* clang-format off */
#define GW_OPTION_SET(type, job, text)                                         \
    {.name = "set", .argument = "KEY=VALUE", .take = gw_option_set,            \
     .at = offsetof(type, job), .repeats = 1, .help = text}

/* "workers" or "servers" */
#define GW_OPTION_MEMBERS(which, type, job)                                    \
    {.name = which, .argument = "N", .take = gw_option_members,                \
     .at = offsetof(type, job), .help = "cluster." which}

#define GW_OPTION_DEVICE(type, job, text)                                      \
    {.name = "device", .argument = "NAME", .take = gw_option_device,           \
     .at = offsetof(type, job), .help = text}
/* clang-format on */

#endif
