/*
 * Laws of stragglers: the factor by which a worker's computation is slower in
 * simulation. A pure function of (seed, rank, computation), so that all
 * policies meet the same stragglers. Any thread.
 */
#ifndef GW_CLI_STRAGGLE_H
#define GW_CLI_STRAGGLE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/digest.h"
#include "proto/status.h"

struct gw_straggle;

/*
 * Parses words joined by ", "; their factors are multiplied:
 *
 *   none               1
 *   factor F of R      F for the worker of rank R, else 1; F > 0
 *   exponential        exponential of mean 1
 *   pareto A           Pareto of shape A > 1 and mean 1: P(x > t) = (m/t)^A
 *                      from its least value m = (A-1)/A on
 *   trace FILE         the numbers of a file: a line per computation, a column
 *                      per worker, repeated from the beginning at its end;
 *                      empty lines and lines that begin with # are skipped;
 *                      relative to the folder of the file `beside`
 *
 * GW_EUSAGE with a line that lists the words, or names the line of FILE that
 * has anything but numbers above 0; GW_EIO; GW_ENOMEM. Free it with
 * gw_straggle_free.
 */
enum gw_status gw_straggle_parse(const char *text,
                                 const char *beside,
                                 struct gw_straggle **straggle_p,
                                 struct gw_error *error);

/* GW_EUSAGE with a line: a law names a rank beyond so many workers. */
enum gw_status gw_straggle_fits(const struct gw_straggle *straggle,
                                uint32_t workers,
                                struct gw_error *error);

/* Returns a factor above 0; computations count from 0. */
double gw_straggle_factor(const struct gw_straggle *straggle,
                          uint64_t seed,
                          uint32_t rank,
                          uint64_t computation);

/* Adds everything that determines the factors, also the numbers of a trace. */
void gw_straggle_digest(const struct gw_straggle *straggle,
                        struct gw_digest *sum);

/* NULL is allowed. */
void gw_straggle_free(struct gw_straggle *straggle);

#endif
