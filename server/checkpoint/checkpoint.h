/*
 * Checkpoints as a whole, for programs that are no part of a job: their weights
 * in one arena, out to one safetensors file, and in from one. Blocking calls.
 */
#ifndef GW_SERVER_CHECKPOINT_H
#define GW_SERVER_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/map.h"
#include "proto/status.h"
#include "transport/link/loop.h"

struct gw_checkpoint {
    uint64_t clock;     /* the step it was made at */
    char *job;          /* text of its job file */
    struct gw_map *map; /* its keys, of one shard */
    float *weights;     /* arena of the map */
};

/* Is told of a checkpoint that is newer than the one taken, and damaged. */
typedef void gw_checkpoint_refused(uint64_t clock, const char *why);

/*
 * Reads a checkpoint: `path` is one, under any name, if it has a manifest,
 * else a checkpoint.dir, of which the newest whole one is taken: every file is
 * compared with its digest, and damaged checkpoints are `refused`, one by one.
 * GW_ENOENT, GW_ECORRUPT with a line that names the file, GW_ENOMEM.
 * *checkpoint is set only on GW_OK, to be freed with gw_checkpoint_close.
 */
enum gw_status gw_checkpoint_open(struct gw_disk *disk,
                                  const char *path,
                                  gw_checkpoint_refused *refused,
                                  struct gw_checkpoint *checkpoint,
                                  struct gw_error *error);
void gw_checkpoint_close(struct gw_checkpoint *checkpoint);

/* The first element of key i of the checkpoint. */
const float *gw_checkpoint_key(const struct gw_checkpoint *checkpoint,
                               size_t key);

/*
 * Writes the weights as one safetensors file, a tensor per key with its own
 * shape, to a path that the user named (transport/link/output.h, with its
 * errors).
 */
enum gw_status gw_checkpoint_export(const struct gw_checkpoint *checkpoint,
                                    const char *file,
                                    struct gw_error *error);

/* A checkpoint.dir, and who may read new files there. */
struct gw_checkpoint_target {
    const char *dir;
    enum gw_access access;
};

/*
 * Makes a checkpoint of step 0 in a directory from a safetensors file that has
 * these keys and no others, in fp32 or in floats that are converted to that,
 * which `note` says then, else "", or from the weights of a checkpoint, which
 * is found as gw_checkpoint_open does. It has no optimizer state, so any
 * optimizer can go on from it. GW_EEXIST (dir holds checkpoints), GW_EMISMATCH
 * (a tensor is missing, unknown, of another shape or type), GW_ECORRUPT (also a
 * value that is not finite), GW_ENOENT.
 */
enum gw_status gw_checkpoint_import(struct gw_disk *disk,
                                    const char *from,
                                    gw_checkpoint_refused *refused,
                                    const struct gw_key *keys,
                                    size_t n_keys,
                                    const char *job,
                                    const struct gw_checkpoint_target *target,
                                    char note[GW_ERROR_TEXT_BYTES],
                                    struct gw_error *error);

#endif
