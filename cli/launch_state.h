/*
 * The launcher and its processes, for its files:
 *
 *   launch.c              the loop: signals, time limits, ends of processes
 *   launch_child.c        a process with a link to the launcher
 *   launch_coordinator.c  the coordinator, by which the others begin and end
 *   launch_away.c         the time without one, when it has died
 *   launch_member.c       servers and workers
 *   launch_program.c      programs of the user's as workers
 *   launch_again.c        what follows a death: the job begins again, or not
 */
#ifndef GW_CLI_LAUNCH_STATE_H
#define GW_CLI_LAUNCH_STATE_H

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "cli/child.h"
#include "cli/typed.h"
#include "cli/launch.h"
#include "cli/lines.h"
#include "cli/parent.h"
#include "cli/signals.h"
#include "proto/secret.h"
#include "transport/link/transport.h"

#define GW_LAUNCH_TICK_MS 100

/* Time limits for all processes to end by themselves: after a signal, counted
   from the last line of the coordinator; after a second signal, for the
   coordinator to tidy up; after the coordinator's end; after "now". */
#define GW_LAUNCH_STOP_TICKS  95
#define GW_LAUNCH_HURRY_TICKS 35
#define GW_LAUNCH_LEAVE_TICKS 25
#define GW_LAUNCH_NOW_TICKS   5

/* For programs, after a job that did not come to its end: they may have weights
   to save, but not before the first step. */
#define GW_LAUNCH_GRACE_TICKS   100
#define GW_LAUNCH_NO_STEP_TICKS 10

/* How a program ended, and its last line. */
#define GW_LAUNCH_HOW_BYTES (GW_CHILD_HOW_BYTES + GW_LINES_LAST + 2)

struct gw_launcher;
struct gw_launched;

/* A kind of process. */
struct gw_launch_ops {
    /* 0, or -1 after an error line. */
    int (*start)(struct gw_launched *child);
    /* A line on its link. */
    void (*line)(struct gw_launched *child, const char *line);
    /* It has ended: waitpid's status. */
    void (*ended)(struct gw_launched *child, int status);
    /* Kills it, and all that has come of it. */
    void (*kill)(const struct gw_launched *child);
    /* It is to be started again, and cannot be. */
    void (*lost)(struct gw_launched *child);
    /* Non-zero if it may go on after the job's end. */
    int (*may_stay)(const struct gw_launched *child);
};

/* Times at which something was started again. */
struct gw_launch_again {
    uint64_t at_ns[GW_RESTARTS_MAX]; /* the last [n] */
    unsigned n;
};

struct gw_launched {
    struct gw_launcher *launcher;
    const struct gw_launch_ops *ops;
    const char *role;
    unsigned index;
    int input; /* its standard input; -1: /dev/null */
    pid_t pid;
    uv_pipe_t pipe;
    struct gw_parent_lines lines;
    int alive;
    int killed;  /* by us */
    int closing; /* its pipe is, until it can be started again, */
    int is_due;  /* which it is to be */
    struct gw_launch_again again;
    /* how it ended, as a coordinator is told: one that comes later, too */
    char end[GW_PARENT_LINE_MAX];
    /* of a program: waitpid's status, and the last line on its standard error
     */
    int has_status, status;
    char last[GW_LINES_LAST];
};

/* How the job ended, for launch_again.c. */
struct gw_launched_end {
    enum gw_exit code;
    int is_lost;   /* a process died */
    int is_untold; /* the coordinator did, and has not told what stands */
    int has_saved; /* a checkpoint was complete */
};

struct gw_launcher {
    const struct gw_launch_options *options;
    uv_loop_t uv;
    struct gw_signals signals;
    uv_signal_t ended;        /* SIGCHLD */
    uv_signal_t pause, go_on; /* SIGTSTP, SIGCONT, where there are programs */
    uv_timer_t timer;
    struct gw_launched *child; /* the coordinator, servers, workers */
    unsigned children, alive;
    char address[GW_ADDRESS_MAX]; /* the coordinator's, "" before it is known */
    uint64_t step;                /* the job's, as last reported */
    int is_outlived; /* the job goes on if the coordinator dies: another one can
                        take its place, */
    int is_away;     /* and is to; until it says where it listens */
    struct gw_secret secret; /* the job's, known to all children */
    char bytes[512];
    uint64_t kills;                        /* gw_child_kills at the begin */
    unsigned ticks_since_stop, ticks_left; /* 0: no limit */
    unsigned grace_left; /* of programs, once the job is over */
    int stopped, hurried, now, over;
    int stop_number; /* the signal */
    struct gw_launched_end end;
    enum gw_exit code;
    struct gw_typed typed; /* of the terminal's lines to a single program */
    int failed; /* exit code of the first program that failed, 0: none */
    unsigned failed_index;
    char failed_how[GW_LAUNCH_HOW_BYTES];
};

static inline struct gw_launched *
gw_launch_coordinator(struct gw_launcher *launcher)
{
    return &launcher->child[0];
}

/* ---- launch_child.c ---- */

/* A time limit for all processes; the shortest one holds. */
void gw_launch_limit(struct gw_launcher *launcher, unsigned ticks);

/* All processes leave at once. */
void gw_launch_leave_now(struct gw_launcher *launcher, enum gw_exit code);

/* A line on standard error. */
void gw_launch_say(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* A line on the child's link; nothing if the child has ended. */
void gw_launch_tell(struct gw_launched *child, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* This program in another role, and with more than `arguments` where it runs a
   program of the user's. */
struct gw_launch_process {
    const char *const *arguments;
    const char *const *environment; /* as of struct gw_child_program */
    int own_group;
    int output; /* its standard output */
};

/* Starts it with GW_PARENT_FD as its end of the link and the job's secret at
   GW_SECRET_FD. 0, or -1 after an error line. */
int gw_launch_start(struct gw_launched *child,
                    const struct gw_launch_process *process);

/* The same for one that ends, or has ended, as soon as it can be. */
void gw_launch_start_again(struct gw_launched *child);

/* Closes our end of its link. */
void gw_launch_close_pipe(struct gw_launched *child);

/* Takes the lines that came before the child's end. */
void gw_launch_hear_last(struct gw_launched *child);

/* ---- launch_away.c ---- */

/* The coordinator has died, as `status` says: non-zero where another one takes
   its place, which was said. */
int gw_launch_coordinator_again(struct gw_launched *coordinator, int status);

/* Another one is there, and is told what happened meanwhile. */
void gw_launch_coordinator_back(struct gw_launched *coordinator);

/* It does not come. */
void gw_launch_coordinator_lost(struct gw_launched *coordinator);

/* A line about the child's end, for the coordinator, and the next one. */
void gw_launch_tell_end(struct gw_launched *child, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- launch_again.c ---- */

/* Counts one more, now; 0: cluster.restarts are used up. */
int gw_launch_count_again(struct gw_launch_again *again,
                          const struct gw_config *config);

/* Once all processes are gone: non-zero where the job is to begin again, with
   these options, since it lost a process and cluster.restarts allows it. Else
   end->code is the exit code. */
int gw_launch_again(struct gw_launch_again *again,
                    struct gw_launch_options *options,
                    struct gw_launched_end *end);

/* ---- the kinds ---- */

extern const struct gw_launch_ops gw_launch_coordinator_ops;
extern const struct gw_launch_ops gw_launch_member_ops;
extern const struct gw_launch_ops gw_launch_program_ops;

/* Sends a signal to all programs and their processes. */
void gw_launch_signal_programs(struct gw_launcher *launcher, int number);

/* Kills one process; for tables. */
void gw_launch_kill_process(const struct gw_launched *child);

/* No other one is started; for tables. */
void gw_launch_member_lost(struct gw_launched *child);

/* 0; for tables. */
int gw_launch_may_not_stay(const struct gw_launched *child);

#endif
