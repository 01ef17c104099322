/*
 * Files of checkpoints on a disk that this process sees. Blocking calls, for
 * the work of a gw_work, or before a loop runs.
 *
 * A file appears whole or not at all: written as NAME.tmp, synced, renamed, and
 * its directory synced.
 */
#ifndef GW_SERVER_STORE_H
#define GW_SERVER_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"
#include "server/manifest.h"
#include "transport/loop.h"

#define GW_PATH_MAX 640

/* "dir/step-00000120/file"; `file` may be "". */
void gw_store_path(const char *dir,
                   uint64_t clock,
                   const char *file,
                   char path[GW_PATH_MAX]);

/* Makes the directory and what is missing above it. */
enum gw_status gw_store_make_dir(struct gw_disk *disk,
                                 const char *dir,
                                 struct gw_error *error);

/* A file of a checkpoint that is being written. */
struct gw_store_file {
    struct gw_disk *disk;
    struct gw_file *file; /* NULL when it is written or given up */
    char path[GW_PATH_MAX];
};

/*
 * Begins a file of `bytes` at `path`; then puts, and at last one of commit and
 * abandon. A begin that fails leaves nothing behind, nor does a commit, unless
 * it is the directory that cannot be synced; a put that fails leaves the file
 * open.
 */
enum gw_status gw_store_begin(struct gw_disk *disk,
                              const char *path,
                              uint64_t bytes,
                              struct gw_store_file *file,
                              struct gw_error *error);

/* The same in the checkpoint of `clock`, whose directory is made. */
enum gw_status gw_store_create(struct gw_disk *disk,
                               const char *dir,
                               uint64_t clock,
                               const char *name,
                               uint64_t bytes,
                               struct gw_store_file *file,
                               struct gw_error *error);
enum gw_status gw_store_put(struct gw_store_file *file,
                            uint64_t offset,
                            const void *bytes,
                            size_t n,
                            struct gw_error *error);
enum gw_status gw_store_commit(struct gw_store_file *file,
                               struct gw_error *error);

/* Also for a file that is not open. */
void gw_store_abandon(struct gw_store_file *file);

/* All of that at once, for bytes that are there already. */
enum gw_status gw_store_write(struct gw_disk *disk,
                              const char *dir,
                              uint64_t clock,
                              const char *name,
                              const struct gw_file_part *parts,
                              size_t n,
                              struct gw_error *error);

/* The digest of parts that lie one after the other; returns their bytes. */
uint64_t gw_store_digest(const struct gw_file_part *parts,
                         size_t n,
                         uint8_t sha256[GW_DIGEST_BYTES]);

/*
 * A file in `dir` that says `token` for as long as the job runs: whoever finds
 * it sees that directory, and not another host's of the same name. It is held:
 * GW_EEXIST where another job runs with that directory. Remove it with *file_p,
 * which may be NULL then.
 */
enum gw_status gw_store_put_token(struct gw_disk *disk,
                                  const char *dir,
                                  const char *token,
                                  struct gw_file **file_p,
                                  struct gw_error *error);
/* GW_EEXIST where a token is held. Writes nothing, but what a job that was
   killed has left of one. */
enum gw_status gw_store_check_free(struct gw_disk *disk,
                                   const char *dir,
                                   struct gw_error *error);
void gw_store_remove_token(struct gw_disk *disk,
                           const char *dir,
                           struct gw_file *file);
int gw_store_sees(struct gw_disk *disk, const char *dir, const char *token);

/* Reads a whole file of at most `most` bytes; *bytes_p is the caller's. */
enum gw_status gw_store_read(struct gw_disk *disk,
                             const char *path,
                             uint64_t most,
                             uint8_t **bytes_p,
                             size_t *n_p,
                             struct gw_error *error);

/* The manifest of the checkpoint of `clock`. */
enum gw_status gw_store_manifest(struct gw_disk *disk,
                                 const char *dir,
                                 uint64_t clock,
                                 struct gw_manifest *manifest,
                                 struct gw_error *error);

/* Compares every file with the manifest: size and SHA-256. GW_ECORRUPT. */
enum gw_status gw_store_verify(struct gw_disk *disk,
                               const char *dir,
                               const struct gw_manifest *manifest,
                               struct gw_error *error);

/*
 * Both: the manifest of a checkpoint whose files agree with it. GW_ENOENT only
 * where it was not finished; a file of it that is missing is GW_ECORRUPT.
 */
enum gw_status gw_store_whole(struct gw_disk *disk,
                              const char *dir,
                              uint64_t clock,
                              struct gw_manifest *manifest,
                              struct gw_error *error);

/* Clocks of all checkpoints in `dir`, complete or not, the newest first; at
   most `room`. Returns how many; 0 also for a directory that is not there. */
size_t gw_store_list(struct gw_disk *disk,
                     const char *dir,
                     uint64_t *clocks,
                     size_t room);

/* Removes a checkpoint, its manifest first. */
void gw_store_remove(struct gw_disk *disk, const char *dir, uint64_t clock);

#endif
