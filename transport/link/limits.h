/*
 * Limits of the system for this process: open files, and the processes and
 * threads of its user. A failure that comes of a limit is reported with the
 * limit's name, its value, and the place to raise it.
 */
#ifndef GW_TRANSPORT_LIMITS_H
#define GW_TRANSPORT_LIMITS_H

#include <stdint.h>

#include "proto/status.h"

#define GW_LIMITS_WHY_BYTES 256

/* Raises the soft limit of open files to the hard one. Once, at the begin. */
void gw_limits_raise_files(void);

/* The limit of open files, UINT64_MAX: none. */
uint64_t gw_limits_files(void);

/*
 * Explains the errno of a call that makes a descriptor, or a process or a
 * thread, in `why`, which is returned. Thread: any.
 */
const char *gw_limits_why_no_file(int number, char why[GW_LIMITS_WHY_BYTES]);
const char *gw_limits_why_no_process(int number, char why[GW_LIMITS_WHY_BYTES]);

/*
 * Starts `n` threads at once, which end before this returns: GW_OK, or
 * GW_ENOMEM with a line that begins with `who`, the part of the program that
 * needs them. Other processes of the same user may start threads meanwhile.
 */
enum gw_status
gw_limits_try_threads(const char *who, unsigned n, struct gw_error *error);

/* Number of threads in libuv's pool, which works on files and looks names up.
   The pool is started at its first use, and if that fails libuv aborts the
   process. */
unsigned gw_limits_pool_threads(void);

#endif
