/*
 * Memory of this host for new processes: the kernel's MemAvailable and free
 * swap, at most the limit of a control group.
 */
#ifndef GW_CLI_AVAILABLE_H
#define GW_CLI_AVAILABLE_H

#include <stdint.h>

#define GW_AVAILABLE_WHAT_MAX 128

struct gw_available {
    uint64_t bytes;                   /* UINT64_MAX: it cannot be told */
    char what[GW_AVAILABLE_WHAT_MAX]; /* in words: "available on this host" */
};

/* Files are looked for below `root`: "" for this host, else a test's. */
struct gw_available gw_available_here(const char *root);

#endif
