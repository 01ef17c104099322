/*
 * The command line: one program with subcommands, a file each (cmd_*.c). Wires
 * rooms together and prints. Failures of other rooms arrive as a struct
 * gw_error and end here as one line and an exit code.
 */
#ifndef GW_CLI_CLI_H
#define GW_CLI_CLI_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/status.h"

struct gw_option; /* cli/options.h */

/* A contract: scripts read them. gradweir run returns a program's, too. */
enum gw_exit {
    GW_EXIT_DONE = 0,
    GW_EXIT_FAILED = 1,
    GW_EXIT_USAGE = 2,      /* wrong usage or job file */
    GW_EXIT_INTERRUPTED = 3 /* or a member died; resumable */
};

/* A subcommand, in a file of its name. `run` gets that name as argv[0] and
   begins with gw_options_read. */
struct gw_command {
    const char *name;
    const char *help;  /* one line; NULL: not listed, for processes that
                          gradweir itself starts */
    const char *usage; /* forms, one a line; [OPTIONS] stands for the table's */
    const char *about; /* the lines of --help below the usage */
    const struct gw_option *words;   /* the words that it knows, or NULL */
    const struct gw_option *options; /* its options, or NULL */
    enum gw_exit (*run)(int argc, char **argv);
};

extern const struct gw_command gw_command_train;
extern const struct gw_command gw_command_run;
extern const struct gw_command gw_command_program;
extern const struct gw_command gw_command_coordinator;
extern const struct gw_command gw_command_server;
extern const struct gw_command gw_command_worker;
extern const struct gw_command gw_command_status;
extern const struct gw_command gw_command_ctl;
extern const struct gw_command gw_command_eval;
extern const struct gw_command gw_command_export;
extern const struct gw_command gw_command_import;
extern const struct gw_command gw_command_bench;
extern const struct gw_command gw_command_study;
extern const struct gw_command gw_command_plan;
extern const struct gw_command gw_command_doctor;
extern const struct gw_command gw_command_config;

/* The exit code that a status means. */
enum gw_exit gw_cli_exit(enum gw_status status);

/* Writes "gradweir: LINE" to standard error; returns the exit code for it. */
enum gw_exit gw_cli_fail(const struct gw_error *error);

/* GW_EXIT_USAGE with a line of its own. */
enum gw_exit gw_cli_usage(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#define GW_CLI_SETS_MAX   256
#define GW_CLI_COUNT_MAX  64
#define GW_CLI_DEVICE_MAX (GW_STRING_MAX + 32)

/* The job of a command: JOB, and --set in any number. */
struct gw_cli_job {
    const char *file;     /* NULL: defaults only */
    const char *fallback; /* an assignment that the file may change, or NULL */
    int quiet; /* no line where one key takes the place of another: the starting
                  process has written it */
    int lent;  /* standard input has the file's text: the starting process has
                  read the file, and a pipe is read once */
    char **text_p; /* gets the file's text, which the caller frees, or NULL */
    size_t sets;
    const char *set[GW_CLI_SETS_MAX];
    char workers[GW_CLI_COUNT_MAX]; /* assignments that --workers, --servers */
    char servers[GW_CLI_COUNT_MAX]; /* and --device stand for */
    char device[GW_CLI_DEVICE_MAX];
};

/* GW_EUSAGE when there are more than GW_CLI_SETS_MAX. */
enum gw_status gw_cli_job_set(struct gw_cli_job *job,
                              const char *assignment,
                              struct gw_error *error);

/* --workers and --servers, which are --set of cluster.workers and the like;
   `key` is the option's name. GW_EUSAGE. */
enum gw_status gw_cli_job_count(struct gw_cli_job *job,
                                const char *key,
                                const char *value,
                                struct gw_error *error);

/* --device, which is --set of worker.device. GW_EUSAGE. */
enum gw_status gw_cli_job_device(struct gw_cli_job *job,
                                 const char *name,
                                 struct gw_error *error);

/*
 * Loads defaults, then the job file, then --set in their order; all paths
 * become absolute (transport/link/paths.h). Writes a line to standard error
 * when one key takes the place of another. GW_EUSAGE: unreadable or wrong. Does
 * not call gw_config_check.
 */
enum gw_status gw_cli_job_load(const struct gw_cli_job *job,
                               struct gw_config *config,
                               struct gw_error *error);

/* Writes --version to standard output. */
void gw_cli_print_version(void);

/*
 * Writes a warning about an inherited OPENBLAS_CORETYPE into `text`. Returns 0,
 * and leaves `text` alone, if it is not set.
 */
int gw_cli_core_warning(char *text, size_t room);

#endif
