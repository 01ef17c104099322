/*
 * How much memory this host has for new processes: what the kernel calls
 * available, and free swap, and no more than a control group allows.
 */
#ifndef GW_CLI_AVAILABLE_H
#define GW_CLI_AVAILABLE_H

#include <stdint.h>

#define GW_AVAILABLE_WHAT_MAX 128

struct gw_available {
    uint64_t bytes;                   /* UINT64_MAX: it cannot be told */
    char what[GW_AVAILABLE_WHAT_MAX]; /* says so, in words */
};

/* Files are looked for below `root`: "" for this host, else a test's. */
struct gw_available gw_available_here(const char *root);

#endif
