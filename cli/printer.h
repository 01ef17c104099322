/*
 * Output for people, written by a thread of its own: a stopped terminal
 * (Ctrl-S) or a pipe without a reader must not block a loop that serves other
 * processes. Up to a megabyte is queued; more is lost, and a line says so.
 * Thread: one at a time.
 */
#ifndef GW_CLI_PRINTER_H
#define GW_CLI_PRINTER_H

#include <stdio.h>

#include "proto/status.h"

struct gw_printer;

/* Takes over `to`; nobody else writes to it until gw_printer_close. GW_ENOMEM,
   GW_EIO. */
enum gw_status gw_printer_open(FILE *to,
                               struct gw_printer **printer_p,
                               struct gw_error *error);

/* To print into; fflush ends a line. The printer's. */
FILE *gw_printer_stream(struct gw_printer *printer);

/* Non-zero when nothing is queued; otherwise skip output that the next refresh
   would overwrite. */
int gw_printer_is_idle(const struct gw_printer *printer);

/* From now on nothing is lost: printing waits for the reader. */
void gw_printer_wait(struct gw_printer *printer);

/* Waits until everything is written, however long that takes; ferror of `to`
   tells failures. NULL is allowed. */
void gw_printer_close(struct gw_printer *printer);

#endif
