/*
 * The thread in which a job's calls wait, so that the program's thread can come
 * back from each wait for a time-out or a signal, and make the same call again.
 *
 *   program   call ---- polls ---- time-out    call ---- polls ---- result
 *   driver         run -----------------------------------> done
 */
#ifndef GW_LIBRARY_DRIVER_H
#define GW_LIBRARY_DRIVER_H

#include <stddef.h>

struct gradweir_job;

/* Two calls are the same one if all of it is equal. */
struct gw_driver_call {
    int (*run)(struct gradweir_job *job, size_t first, size_t n);
    size_t first, n;
};

struct gw_driver;

/* Starts the thread, which blocks all signals. GRADWEIR_ENOMEM. */
int gw_driver_open(struct gradweir_job *job, struct gw_driver **driver_p);

/* Waits for the call that is going on, if there is one. NULL is allowed. */
void gw_driver_close(struct gw_driver *driver);

/*
 * Runs a call on the driver's thread, or goes on waiting for it where it is the
 * one that is going on already; any other one is waited for first. Returns its
 * result; GRADWEIR_ETIMEOUT, GRADWEIR_EAGAIN (a signal): it goes on.
 */
int gw_driver_run(struct gw_driver *driver,
                  const struct gw_driver_call *call,
                  int timeout_ms);

/* Non-zero if that call is going on, or its result was not returned yet. */
int gw_driver_knows(struct gw_driver *driver,
                    const struct gw_driver_call *call);

/* Non-zero if no call is going on: the program's thread may do without the
   driver. A result that was not returned is dropped, or the same call would get
   it in a later step. */
int gw_driver_is_free(struct gw_driver *driver);

/* Waits until that is so. */
void gw_driver_settle(struct gw_driver *driver);

#endif
