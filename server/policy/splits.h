/*
 * A sequence of splits (proto/split.h), each with the step from which it holds,
 * as a run with train.split = speed has decided them: read by the coordinator
 * from that run's --json lines, and handed to shard 0, which decides the same
 * again (train.split_from).
 *
 * Thread: one.
 */
#ifndef GW_SERVER_SPLITS_H
#define GW_SERVER_SPLITS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/split.h"
#include "proto/status.h"
#include "transport/link/loop.h"

/* Bounds the memory of all splits together, 4 MiB. */
#define GW_SPLITS_WEIGHTS_MAX ((size_t)1 << 20)

/* A line of --json that is longer is none of a run of at most 4096 workers. */
#define GW_SPLITS_LINE_MAX ((size_t)1 << 18)

struct gw_splits {
    uint32_t ranks;
    size_t n;
    uint64_t *clock;  /* [n] rising */
    uint32_t *weight; /* [n][ranks] */
    size_t room;      /* of both, in splits */
};

/*
 * Adds a split that holds from `clock` on. Splits that were to hold from there
 * or later are removed: a run that went on from a checkpoint has replaced
 * them. GW_ENOMEM; GW_ERANGE: too many.
 */
enum gw_status
gw_splits_add(struct gw_splits *splits, uint64_t clock, const uint32_t *weight);

/* The weights in step `clock`; NULL where the sequence begins later. */
const uint32_t *gw_splits_at(const struct gw_splits *splits, uint64_t clock);

/*
 * The splits of `ranks` workers in a file of --json, for a run that begins at
 * step `first`. Blocking. GW_ENOENT and GW_EIO as the disk says; GW_ECORRUPT,
 * GW_EMISMATCH (of another number of workers), GW_ERANGE, GW_EUSAGE (the file
 * has none, or begins later), each with a line that names train.split_from and
 * where; GW_ENOMEM. *splits is freed with gw_splits_free in any case.
 */
enum gw_status gw_splits_read(struct gw_disk *disk,
                              const char *path,
                              uint32_t ranks,
                              uint64_t first,
                              struct gw_splits *splits,
                              struct gw_error *error);
void gw_splits_free(struct gw_splits *splits);

#endif
