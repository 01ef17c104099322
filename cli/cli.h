/*
 * The command line: one program with subcommands, one file each (cmd_*.c).
 * Wires rooms together and prints; what can fail elsewhere comes back as a
 * struct gw_error and ends here as one line and an exit code.
 */
#ifndef GW_CLI_CLI_H
#define GW_CLI_CLI_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/status.h"

struct option; /* of <getopt.h> */

/* A contract: scripts read them. */
enum gw_exit {
    GW_EXIT_DONE = 0,
    GW_EXIT_FAILED = 1,
    GW_EXIT_USAGE = 2,      /* wrong usage or job file */
    GW_EXIT_INTERRUPTED = 3 /* and resumable */
};

/*
 * A subcommand. `run` gets its own name as argv[0] and begins its options with
 * gw_cli_option. Listed in the order of `gradweir --help`.
 */
struct gw_command {
    const char *name;
    const char *help; /* one line */
    enum gw_exit (*run)(int argc, char **argv);
};

enum gw_exit gw_cmd_train(int argc, char **argv);
enum gw_exit gw_cmd_coordinator(int argc, char **argv);
enum gw_exit gw_cmd_server(int argc, char **argv);
enum gw_exit gw_cmd_worker(int argc, char **argv);
enum gw_exit gw_cmd_status(int argc, char **argv);
enum gw_exit gw_cmd_ctl(int argc, char **argv);
enum gw_exit gw_cmd_eval(int argc, char **argv);
enum gw_exit gw_cmd_export(int argc, char **argv);
enum gw_exit gw_cmd_import(int argc, char **argv);
enum gw_exit gw_cmd_bench(int argc, char **argv);
enum gw_exit gw_cmd_study(int argc, char **argv);
enum gw_exit gw_cmd_plan(int argc, char **argv);
enum gw_exit gw_cmd_doctor(int argc, char **argv);
enum gw_exit gw_cmd_config(int argc, char **argv);

/*
 * getopt_long with one line for what is wrong: returns the option's `val`, -1
 * at the end, '?' when the line has been written and the command should return
 * GW_EXIT_USAGE. Long options only.
 */
int gw_cli_option(int argc, char **argv, const struct option *options);

/* The exit code that a status means. */
enum gw_exit gw_cli_exit(enum gw_status status);

/* Writes "gradweir: LINE" to standard error; returns the exit code for it. */
enum gw_exit gw_cli_fail(const struct gw_error *error);

/* GW_EXIT_USAGE with a line of its own. */
enum gw_exit gw_cli_usage(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#define GW_CLI_SETS_MAX 256

/* What commands that work on a job take: JOB and --set, in any number. */
struct gw_cli_job {
    const char *file;     /* NULL: defaults only */
    const char *fallback; /* an assignment that the file may change, or NULL */
    int quiet; /* a word that takes the place of another is not told: it was */
    int lent;  /* standard input has the file's text: who started this process
                  has read it, and a pipe is read once */
    char **text_p; /* gets the file's text, which the caller frees, or NULL */
    size_t sets;
    const char *set[GW_CLI_SETS_MAX];
};

/* GW_EUSAGE when there are more than GW_CLI_SETS_MAX. */
enum gw_status gw_cli_job_set(struct gw_cli_job *job,
                              const char *assignment,
                              struct gw_error *error);

/*
 * --workers and --servers, which are --set of cluster.workers and the like:
 * `key` is the option's name, `text` the caller's and kept as an assignment is.
 * GW_EUSAGE.
 */
#define GW_CLI_COUNT_MAX 64
enum gw_status gw_cli_job_count(struct gw_cli_job *job,
                                const char *key,
                                const char *value,
                                char text[GW_CLI_COUNT_MAX],
                                struct gw_error *error);

/* --device, which is --set of worker.device; the same. */
#define GW_CLI_DEVICE_MAX (GW_STRING_MAX + 32)
enum gw_status gw_cli_job_device(struct gw_cli_job *job,
                                 const char *name,
                                 char text[GW_CLI_DEVICE_MAX],
                                 struct gw_error *error);

/*
 * Defaults, then the job file, then --set in their order, all paths absolute
 * (cli/paths.h); where one takes the
 * place of another key's value, a line on standard error says so. GW_EUSAGE for
 * what cannot be read or is wrong. gw_config_check is left to the caller.
 */
enum gw_status gw_cli_job_load(const struct gw_cli_job *job,
                               struct gw_config *config,
                               struct gw_error *error);

/* Writes --version to standard output. */
void gw_cli_print_version(void);

/*
 * A whole number in low..high for option `name`. GW_EUSAGE with a line.
 */
enum gw_status gw_cli_number(const char *name,
                             const char *text,
                             uint64_t low,
                             uint64_t high,
                             uint64_t *number_p,
                             struct gw_error *error);

/*
 * Looks at an address, HOST:PORT or [IPV6]:PORT, for option `name`; one to
 * listen on may be without a host or with port 0. GW_EUSAGE with a line.
 */
enum gw_status gw_cli_address(const char *name,
                              const char *text,
                              int to_listen,
                              struct gw_error *error);

/* A variable of the environment; NULL where it is not set or empty. */
const char *gw_cli_environment(const char *name);

/*
 * What is to be said of an OPENBLAS_CORETYPE that the environment brings along;
 * 0 where it brings none, and text is as it was.
 */
int gw_cli_core_warning(char *text, size_t room);

#endif
