/*
 * Process set-up for every command, called first by main.
 */
#ifndef GW_CLI_START_H
#define GW_CLI_START_H

/*
 * Opens closed standard streams as /dev/null (some supervisors leave them
 * closed, and the next socket or file would get their number). Raises the soft
 * limit of open files to the hard one.
 */
void gw_start(void);

#endif
