/*
 * What a process prints for people, written by a thread of its own: a terminal
 * that is stopped (Ctrl-S) or a pipe that nobody reads must not hold up a loop
 * that others wait for. Up to a megabyte waits; what is printed beyond that is
 * lost, and a line says so. Thread: one at a time.
 */
#ifndef GW_CLI_PRINTER_H
#define GW_CLI_PRINTER_H

#include <stdio.h>

#include "proto/status.h"

struct gw_printer;

/* Takes over `to`, which nobody else writes to until gw_printer_close.
   GW_ENOMEM, GW_EIO. */
enum gw_status gw_printer_open(FILE *to,
                               struct gw_printer **printer_p,
                               struct gw_error *error);

/* To print into; fflush ends a line. The printer's. */
FILE *gw_printer_stream(struct gw_printer *printer);

/* Non-zero when nothing waits: what would only be taken back can be left out
   otherwise. */
int gw_printer_is_idle(const struct gw_printer *printer);

/* From here on nothing is lost, and printing waits for the reader. */
void gw_printer_wait(struct gw_printer *printer);

/* Waits until all of it is written, however long that takes. What failed is
   told by ferror of `to`. NULL is fine. */
void gw_printer_close(struct gw_printer *printer);

#endif
