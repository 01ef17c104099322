/*
 * The link to the parent: a socket pair between the launcher of a job and each
 * process that it starts. End-of-file tells each side that the other is gone,
 * however it ended. Short lines:
 *
 *   coordinator > launcher   at HOST:PORT      members join there
 *                            step N            about as far as the job is
 *                            again RANK        that worker is started again
 *                            restart PID       the same, by the process that
 *                                              was to be it
 *                            saved             a checkpoint is complete
 *                            outlives          another coordinator can take
 *                                              the place of this one
 *                            ends              no other one can any more
 *                            lost              the job ended by a death
 *   launcher > coordinator   stop WHY          as a signal does
 *                            hurry             as a second signal does
 *                            gone PID HOW      a member's process has ended
 *                            ended RANK CODE HOW   a worker's program has
 *                                              ended, with this exit code
 *                            none RANK         no other worker is started
 *                            left              a process ended after a signal
 *   program's > launcher     ended STATUS LINE its waitpid status, and the last
 *   (cmd_program.c)                            line on its standard error
 *                            refused WHY       the program does not start
 *   launcher > everyone      now               exit at once
 *                            over              there is no coordinator to join
 */
#ifndef GW_CLI_PARENT_H
#define GW_CLI_PARENT_H

#include <stddef.h>

#define GW_PARENT_FD       3 /* in a started process */
#define GW_PARENT_LINE_MAX 256

/* Bytes on their way to lines. Zeroed to begin with. */
struct gw_parent_lines {
    size_t used;
    char text[GW_PARENT_LINE_MAX];
};

/* Calls `each` with every line that is complete; too long ones are cut. */
void gw_parent_take(struct gw_parent_lines *lines,
                    const char *bytes,
                    size_t n,
                    void (*each)(void *owner, const char *line),
                    void *owner);

/* The rest of `line` if it begins with `word` and a space, or NULL. */
const char *gw_parent_word(const char *line, const char *word);

/* Sends a line from a started process; lost if the launcher does not read. */
void gw_parent_tell(int fd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
