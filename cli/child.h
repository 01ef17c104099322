/*
 * The one way in which this program makes a process. A signal never finds a
 * child that is half made: it begins with all of them blocked, without the
 * handlers of the process that made it, which would run in it with what they
 * share with their originals, and ends with that process where it should.
 */
#ifndef GW_CLI_CHILD_H
#define GW_CLI_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/status.h"

struct gw_child {
    const char *name; /* "a server", for the line where it cannot be made */
    int dies_by;      /* the signal at the end of this process; 0: none */
};

/*
 * Makes a process that calls run(owner) and exits with 0 when that returns; its
 * signals are blocked as they are here. What was waiting to be written is
 * written before. *pid_p: the caller's to wait for. GW_ENOMEM: with a line that
 * names the limit. Thread: any; where others run, `run` asks nothing of them.
 */
enum gw_status gw_child_fork(const struct gw_child *child,
                             void (*run)(void *owner),
                             void *owner,
                             pid_t *pid_p,
                             struct gw_error *error);

#define GW_CHILD_FDS 5 /* standard ones, a leash, a secret */

/* A program, and what it begins with. */
struct gw_child_program {
    const char *file;             /* "/", or a name that PATH leads to */
    const char *const *arguments; /* its own name first, NULL last */
    int fd[GW_CHILD_FDS];         /* what its first descriptors are; -1: 0 to 2
                                     are /dev/null, others are left alone */
    const char *directory;        /* to work in; NULL: this one */
    int own_group;                /* no key of the terminal's reaches it */
    int of_job;                   /* begins with the signals of cli/signals.h
                                     held, which it takes up when it can; others
                                     begin with none blocked */
};

/* This program itself. */
#define GW_CHILD_SELF "/proc/self/exe"

/*
 * Makes a process of a program. It has been begun when this returns: GW_ENOENT,
 * where no such program is, or GW_EIO, and then nothing is left of it; and as
 * gw_child_fork.
 */
enum gw_status gw_child_start(const struct gw_child *child,
                              const struct gw_child_program *program,
                              pid_t *pid_p,
                              struct gw_error *error);

/* How often the kernel has killed a process of this host for want of memory; 0
   also where it does not say. */
uint64_t gw_child_kills(void);

/*
 * How a process has ended, as waitpid says it, in words, and the likely reason;
 * `kills`: gw_child_kills before it was made. Returns how.
 */
#define GW_CHILD_HOW_BYTES 192
const char *
gw_child_how(int status, uint64_t kills, char how[GW_CHILD_HOW_BYTES]);

/* Waits for the end of a process; what waitpid says of it, -1: it is none of
   ours. */
int gw_child_wait(pid_t pid);

#endif
