/*
 * What the system lets this process have: open files, and processes and threads
 * beside those of its user. A failure that comes of a limit is told with the
 * limit's name, its height, and where it is raised.
 */
#ifndef GW_TRANSPORT_LIMITS_H
#define GW_TRANSPORT_LIMITS_H

#include <stdint.h>

#include "proto/status.h"

#define GW_LIMITS_WHY_BYTES 256

/* As many open files as this user may allow himself. Once, at the begin. */
void gw_limits_raise_files(void);

/* How many may be open, UINT64_MAX: any number. */
uint64_t gw_limits_files(void);

/*
 * The words for the errno of a call that makes a descriptor, or a process or a
 * thread, in `why`, which is returned. Thread: any.
 */
const char *gw_limits_why_no_file(int number, char why[GW_LIMITS_WHY_BYTES]);
const char *gw_limits_why_no_process(int number, char why[GW_LIMITS_WHY_BYTES]);

/*
 * Starts `n` threads at once, which end before this returns: GW_OK, or
 * GW_ENOMEM with a line that begins with `who`, which needs them. Others of the
 * same user may start some meanwhile.
 */
enum gw_status
gw_limits_try_threads(const char *who, unsigned n, struct gw_error *error);

/* Threads of libuv's pool, which works on files and looks names up. It is
   started when it is first needed, and where that fails libuv aborts the
   process. */
unsigned gw_limits_pool_threads(void);

#endif
