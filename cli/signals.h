/*
 * The signals that end a job: SIGINT, SIGTERM, and SIGHUP unless nohup(1) has
 * it ignored. In a process of a job they are always in one of these states:
 *
 *   held          from before the fork that made it, across exec
 *   end_process   from the first lines of main: exit code 3, nothing is open
 *   watch         while a loop has them: the job is asked to stop
 *   end_process   from there to the last line of main
 */
#ifndef GW_CLI_SIGNALS_H
#define GW_CLI_SIGNALS_H

#include <signal.h>
#include <uv.h>

#define GW_SIGNALS 3

/* The handles of one loop; zeros before. */
struct gw_signals {
    uv_signal_t one[GW_SIGNALS];
};

/* Adds them to a set. */
void gw_signals_add(sigset_t *set);

/* Holds them: they stay pending for this thread and the threads and processes
   that it makes. */
void gw_signals_hold(void);

/* From now on they end the process with GW_EXIT_INTERRUPTED, at once and
   silently; held ones do so now. */
void gw_signals_end_process(void);

/*
 * From now on `take` gets them on the loop's thread, with `owner` as its
 * handle's data; held ones come now. Before it closes the loop's handles the
 * caller holds them, and afterwards calls gw_signals_end_process. Thread: the
 * first, while there is no other.
 */
void gw_signals_watch(struct gw_signals *signals,
                      uv_loop_t *loop,
                      uv_signal_cb take,
                      void *owner);

#endif
