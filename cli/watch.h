/*
 * The watch: a thread of its own in every process of a job, so that signals,
 * the end of the launcher and limits of time are noticed whatever the process
 * computes or waits for. The first signal asks the job to stop, which takes as
 * long as its step and its checkpoint do; a second one ends it, or at least the
 * process, at once. Once the process has been told to end, it has a limit in
 * which to do so.
 */
#ifndef GW_CLI_WATCH_H
#define GW_CLI_WATCH_H

#include "proto/log.h"
#include "proto/status.h"

struct gw_watch;

/* All are called on the watch's thread. */
struct gw_watch_events {
    /* The first signal, or the launcher passes one on. */
    void (*stop)(void *owner, const char *why);
    /* A second signal: non-zero where the process now ends by itself, in
       order and at once; otherwise, and at a third, the watch ends it. */
    int (*hurry)(void *owner);
    /* The launcher is gone. */
    void (*orphaned)(void *owner);
    /* Another line of the launcher. */
    void (*line)(void *owner, const char *line);
    /* Ten times a second. */
    void (*tick)(void *owner);
    /* The watch now ends the process, which will run no code but this. */
    void (*exits)(void *owner);
};

struct gw_watch_options {
    const char *name; /* "worker", for last words */
    int leash;        /* the launcher's end of it is elsewhere; -1: none */
    const struct gw_log *log;
    const struct gw_watch_events *events;
    void *owner;
};

/* Takes the leash. GW_ENOMEM, GW_EIO. */
enum gw_status gw_watch_open(const struct gw_watch_options *options,
                             struct gw_watch **watch_p,
                             struct gw_error *error);

/* Ends the thread. No event comes after this. */
void gw_watch_close(struct gw_watch *watch);

/*
 * The process has this long until it exits by itself; then the watch does it,
 * with a line and the code of the first limit; the shortest holds. Thread: any.
 */
void gw_watch_limit(struct gw_watch *watch, unsigned ms, int code);

/* The same without a line, failed: for when others have said what there is to
   say, and may not reach this process any more. Thread: any. */
void gw_watch_leave(struct gw_watch *watch, unsigned ms);

/* No limit any more, unless a signal asks for one. Thread: any. */
void gw_watch_relax(struct gw_watch *watch);

#endif
