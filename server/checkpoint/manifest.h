/*
 * The manifest of a checkpoint: which files it is made of, and everything of
 * the job's state that is not a tensor. It is written last; a directory without
 * one is no checkpoint. JSON, with a digest over its own body.
 *
 *   checkpoint.dir/step-00000120/shard-0-of-2.safetensors ...
 *                                worker-0-of-3.safetensors ...  (some policies)
 *                                manifest.json
 */
#ifndef GW_SERVER_MANIFEST_H
#define GW_SERVER_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "proto/control.h"
#include "proto/file_name.h"
#include "proto/map.h"
#include "proto/policy.h"
#include "proto/status.h"

#define GW_MANIFEST_NAME      "manifest.json"
#define GW_MANIFEST_BYTES_MAX ((size_t)64 << 20)

struct gw_manifest_file {
    char name[GW_FILE_NAME_MAX];
    uint64_t bytes;
    uint8_t sha256[GW_DIGEST_BYTES];
};

/* State per rank; later kinds of state get fields of their own. */
struct gw_manifest_rank {
    uint64_t data_cursor;       /* steps with their samples used up */
    char device[128];           /* computes; bits depend on it, */
    char tuned[GW_TUNED_BYTES]; /* and on this, if it was tuned */
    char inner[32];             /* its own optimizer; its file has the state */
    uint32_t split;             /* speed: its weight (proto/split.h), else 0 */
};

struct gw_manifest {
    struct gw_decision_state state;
    struct gw_course course; /* the course to state.clock; batch 0: not known */
    int best;
    uint64_t keys_hash;
    struct gw_key *keys;
    size_t n_keys;
    char optimizer[32];         /* "": weights only */
    char policy[GW_WORD_BYTES]; /* that held; "": not known */
    char *job;                  /* text of the job file */
    struct gw_manifest_file *files;
    size_t n_files;
    struct gw_manifest_rank *ranks;
    size_t n_ranks;
};

void gw_manifest_free(struct gw_manifest *manifest);

/* The text, to be freed by the caller; NULL when there is no memory. */
char *gw_manifest_print(const struct gw_manifest *manifest);

/*
 * GW_ECORRUPT with a line that names `file` and the field, GW_ENOMEM; *manifest
 * is set only on GW_OK, to be freed with gw_manifest_free.
 */
enum gw_status gw_manifest_parse(const char *file,
                                 const char *text,
                                 size_t bytes,
                                 struct gw_manifest *manifest,
                                 struct gw_error *error);

/* "step-00000120": the directory of a checkpoint, and back (0: another name).
 */
void gw_checkpoint_name(uint64_t clock, char name[GW_FILE_NAME_MAX]);
int gw_checkpoint_clock(const char *name, uint64_t *clock_p);

#endif
