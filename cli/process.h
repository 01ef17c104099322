/*
 * What every process of a job has, whatever its role: a log, a watch, its
 * host's name, and one line at its end. Used by the subcommands coordinator,
 * server and worker.
 */
#ifndef GW_CLI_PROCESS_H
#define GW_CLI_PROCESS_H

#include <stdatomic.h>
#include <stdint.h>

#include "cli/cli.h"
#include "transport/link/host.h"
#include "cli/watch.h"
#include "proto/config.h"
#include "proto/log.h"

struct gw_process {
    const char *role;
    char host[GW_HOST_NAME_MAX];
    uint64_t machine;
    uint32_t pid;
    struct gw_log log;
    int log_fd;       /* 2, or a file in log.dir */
    int log_terminal; /* log_fd is one: its live line goes first */
    int has_file;
    int parent_fd; /* -1: started by hand */
    struct gw_watch *watch;
    atomic_int insecure; /* links leave this host */
    unsigned insecure_ticks;
    atomic_int joined; /* of a member: the coordinator knows of it */
    int told;          /* of a member: how it ends, the coordinator says */
    /* what the role makes of the watch's events; may be NULL, and without
       orphaned or line a member leaves when it is time to */
    void (*stop)(void *owner, const char *why, int number);
    int (*hurry)(void *owner);
    void (*orphaned)(void *owner);
    void (*line)(void *owner, const char *line);
    void (*tick)(void *owner);
    void (*exits)(void *owner); /* after this the watch ends the process */
    void *owner;
};

/*
 * The caller has set role, parent_fd (or -1), the functions and owner; the rest
 * is zero. Starts the watch; until gw_process_close. Takes parent_fd.
 */
enum gw_status gw_process_open(struct gw_process *process,
                               struct gw_error *error);
void gw_process_close(struct gw_process *process);

/* Microseconds since 1970. */
uint64_t gw_process_unix_us(void);

/*
 * From here on as the job says: log.level, and log.dir, which is made. Without
 * a directory a process that has a launcher writes warnings only: the
 * coordinator tells the rest.
 */
enum gw_status gw_process_logs(struct gw_process *process,
                               const struct gw_config *config,
                               struct gw_error *error);

/*
 * GW_EUSAGE unless the job allows that `address` (an own one, or one to join)
 * is not loopback. Where it is allowed and used, that is said every minute.
 */
enum gw_status gw_process_guard(struct gw_process *process,
                                const struct gw_config *config,
                                const char *address,
                                struct gw_error *error);

/*
 * A line that somebody should act on while the job goes on: into the log, and
 * where that is a file on standard error too.
 */
void gw_process_warn(struct gw_process *process, const char *text);

/*
 * The job is over, for `why`. A member that has joined is told by the
 * coordinator, or notices its silence, and is given the time for that; one that
 * has not has nobody who would tell it, and exits here. Thread: any.
 */
void gw_process_leave(struct gw_process *process, const char *why);

/*
 * The process' one line about its end, and its exit code. Where it is `told`,
 * the terminal has it already under a launcher.
 */
enum gw_exit gw_process_end(struct gw_process *process,
                            const struct gw_error *error);

/* Opens the process, runs it with its owner, ends and closes it. */
enum gw_exit gw_process_run(struct gw_process *process,
                            enum gw_status (*run)(void *owner,
                                                  struct gw_error *error));

#endif
