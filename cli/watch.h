/*
 * The watch: a thread in every process of a job that notices signals, the end
 * of the launcher and time limits, whatever the process computes or waits for.
 * The first signal asks the job to stop after its step and checkpoint; a second
 * one ends the job, or at least this process, at once. A process that is told
 * to end has a time limit.
 */
#ifndef GW_CLI_WATCH_H
#define GW_CLI_WATCH_H

#include "proto/log.h"
#include "proto/status.h"

struct gw_watch;

/* All are called on the watch's thread. */
struct gw_watch_events {
    /* The first signal and its number; 0: the launcher passes one on. */
    void (*stop)(void *owner, const char *why, int number);
    /* A second signal: non-zero where the process now ends by itself, in
       order and at once; otherwise, and at a third, the watch ends it. */
    int (*hurry)(void *owner);
    /* The launcher is gone. */
    void (*orphaned)(void *owner);
    /* Another line of the launcher. */
    void (*line)(void *owner, const char *line);
    /* Ten times a second. */
    void (*tick)(void *owner);
    /* The watch now ends the process; no other code runs after this. */
    void (*exits)(void *owner);
};

struct gw_watch_options {
    const char *name; /* "worker", for last words */
    int parent_fd;    /* link to the launcher (cli/parent.h), -1: none */
    const struct gw_log *log;
    const struct gw_watch_events *events;
    void *owner;
};

/* Starts the thread; owns the descriptor `parent_fd`. GW_ENOMEM, GW_EIO. */
enum gw_status gw_watch_open(const struct gw_watch_options *options,
                             struct gw_watch **watch_p,
                             struct gw_error *error);

/* Ends the thread. No event comes after this. */
void gw_watch_close(struct gw_watch *watch);

/*
 * Gives the process a time limit, after which the watch ends it with a line and
 * the exit code of the first limit; the shortest limit holds. Thread: any.
 */
void gw_watch_limit(struct gw_watch *watch, unsigned ms, int code);

/* The same with GW_EXIT_FAILED and without a line: for a process whose failure
   is already reported, and which may be cut off. Thread: any. */
void gw_watch_leave(struct gw_watch *watch, unsigned ms);

/* Lifts the limit, until a signal sets one. Thread: any. */
void gw_watch_relax(struct gw_watch *watch);

#endif
