/*
 * The output of a program, a line at a time: lines of several programs that
 * share a terminal, a pipe or a file stay whole, and each says its program.
 */
#ifndef GW_CLI_LINES_H
#define GW_CLI_LINES_H

#include <stddef.h>

#define GW_LINES_BYTES (64 << 10) /* of a line; a longer one is cut in two */
#define GW_LINES_LAST  160        /* of the last line, with its end */

/* Zeroed to begin with, but for the first four. */
struct gw_lines {
    int from;           /* end of a pipe; -1 when it is at its end */
    int to;             /* written to, and may block */
    int log;            /* the same without prefix; or -1 */
    const char *prefix; /* "[1] ", or "" */
    int returned;       /* a carriage return: what comes takes the line's
                           place, as on a terminal */
    size_t used, shown; /* bytes of the line; of them on `to` already */
    char text[GW_LINES_BYTES];
    char last[GW_LINES_LAST]; /* the last line that is not blank, cut */
};

/* Reads once, and writes the lines that are complete. Waits if nothing is
   there. */
void gw_lines_read(struct gw_lines *lines);

/* Non-zero if a part of a line is not shown. */
int gw_lines_has_part(const struct gw_lines *lines);

/* Shows the part of a line that has come: perhaps it is a question. */
void gw_lines_show_part(struct gw_lines *lines);

/* Reads what is there by now, without waiting, and writes all of it, a last
   line without an end as well. */
void gw_lines_finish(struct gw_lines *lines);

#endif
