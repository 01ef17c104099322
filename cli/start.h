/*
 * The first lines of main, whatever the command: what the rest of the program
 * takes for granted.
 */
#ifndef GW_CLI_START_H
#define GW_CLI_START_H

/*
 * Standard input, output and error are open: what is closed, as some
 * supervisors leave it, becomes /dev/null, or the first socket or file that is
 * opened would be taken for it. As many files may be open as the user may allow
 * himself.
 */
void gw_start(void);

#endif
