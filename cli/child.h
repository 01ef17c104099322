/*
 * Making a process; nothing else in this program forks. A signal never finds a
 * half-made child: the child begins with all signals blocked and without its
 * parent's handlers, which would act on state that the two share, and it dies
 * with its parent if asked to.
 */
#ifndef GW_CLI_CHILD_H
#define GW_CLI_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/status.h"

struct gw_child {
    const char *name; /* "a server", for the error line */
    int dies_by;      /* signal when this process ends; 0: none */
};

/*
 * Makes a process that calls run(owner) and exits with 0 when that returns; its
 * signals are blocked as they are here. Flushes output streams first. The
 * caller waits for *pid_p. GW_ENOMEM: with a line that names the limit. Thread:
 * any; if there are several, `run` must not wait for another one.
 */
enum gw_status gw_child_fork(const struct gw_child *child,
                             void (*run)(void *owner),
                             void *owner,
                             pid_t *pid_p,
                             struct gw_error *error);

#define GW_CHILD_FDS 5 /* standard streams, parent, secret */

/* A program, its arguments and its environment. */
struct gw_child_program {
    const char *file;             /* a path, or a name that PATH leads to */
    const char *const *arguments; /* argv[0] first, NULL last */
    int fd[GW_CHILD_FDS]; /* its descriptors from 0 on; -1: /dev/null for 0 to
                             2, others as they are */
    const char *const *environment; /* "NAME=VALUE" beside this process's, NULL
                                       last; or NULL. Outlives the start */
    const char *directory;          /* working directory; NULL: this one */
    int own_group;                  /* keys of the terminal do not reach it */
    int of_job; /* begins with the signals of cli/signals.h held, and takes them
                   up itself; other programs begin with none blocked */
};

/* This program itself. */
#define GW_CHILD_SELF "/proc/self/exe"

/*
 * Starts a program. On return the program runs, or the process is gone:
 * GW_ENOENT (no such program), GW_EIO, and the errors of gw_child_fork.
 */
enum gw_status gw_child_start(const struct gw_child *child,
                              const struct gw_child_program *program,
                              pid_t *pid_p,
                              struct gw_error *error);

/* Number of processes of this host that the kernel has killed for lack of
   memory; 0 also where the kernel does not count them. */
uint64_t gw_child_kills(void);

/*
 * Describes the end of a process from its waitpid status, with the likely
 * reason; `kills` is gw_child_kills from before the process was made. Returns
 * `how`.
 */
#define GW_CHILD_HOW_BYTES 192
const char *
gw_child_how(int status, uint64_t kills, char how[GW_CHILD_HOW_BYTES]);

/* Waits for the end of a process. Returns its waitpid status, -1 if it is not a
   child of ours. */
int gw_child_wait(pid_t pid);

#endif
