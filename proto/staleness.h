/*
 * Staleness of pushes, when each push makes a version: for every chunk of a
 * push, the number of updates between the weights that it was computed from and
 * its own. Pure, any thread.
 */
#ifndef GW_PROTO_STALENESS_H
#define GW_PROTO_STALENESS_H

#include <stddef.h>
#include <stdint.h>

/* 0, 1, 2, .. updates, and the last for all more. */
#define GW_STALENESS_BUCKETS 64

/* Zeroed to begin with. */
struct gw_staleness {
    uint64_t chunks[GW_STALENESS_BUCKETS];
};

/* The bucket of a staleness. */
size_t gw_staleness_bucket(uint64_t updates);

/* The mean of `n` histograms together; 0 where nothing was counted. The last
   bucket counts as its first value. */
double gw_staleness_mean(const struct gw_staleness *of, size_t n);

/* Buckets up to the last that is not empty. */
size_t gw_staleness_used(const struct gw_staleness *of);

/*
 * "staleness 1.02 (0: 12, 1: 340, 2: 8)", empty where nothing was counted.
 * Returns the bytes needed without the end; writes at most text_bytes, always
 * ended.
 */
size_t gw_staleness_print(const struct gw_staleness *of,
                          char *text,
                          size_t text_bytes);

#endif
