/*
 * Files of checkpoints in a directory that this process sees, and has entered
 * (transport/link/disk.h): `dir` is that one throughout. Blocking calls, for
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
#include "server/checkpoint/manifest.h"
#include "transport/link/loop.h"

/* Bytes of a file's path in a checkpoint, from checkpoint.dir on. */
#define GW_PATH_MAX 160

/* The end of a file's name until it is whole. */
#define GW_TEMPORARY ".tmp"

/* "step-00000120/file"; `file` may be "". */
void gw_store_path(uint64_t clock, const char *file, char path[GW_PATH_MAX]);

/*
 * Enters the directory at `path` of `disk`; `access` says who may read new
 * files in it. GW_ENOENT where there is none. Leave it with gw_store_leave,
 * which may follow in any case.
 */
enum gw_status gw_store_enter(struct gw_disk *disk,
                              const char *path,
                              enum gw_access access,
                              struct gw_disk *dir,
                              struct gw_error *error);

/* The same; makes it, and the directories above it, where they are missing. */
enum gw_status gw_store_enter_new(struct gw_disk *disk,
                                  const char *path,
                                  enum gw_access access,
                                  struct gw_disk *dir,
                                  struct gw_error *error);

/* Also for one that was not entered: its members are 0. */
void gw_store_leave(struct gw_disk *dir);

/* A file of a checkpoint that is being written. */
struct gw_store_file {
    struct gw_disk *dir;
    struct gw_file *file; /* NULL when it is written or given up */
    char path[GW_PATH_MAX];
};

/*
 * Begins a file of `bytes` in the checkpoint of `clock`, and makes its
 * directory; then puts, and at last one of commit and abandon. A create that
 * fails leaves no file behind, nor does a commit, unless it is the directory
 * that cannot be synced; a put that fails leaves the file open.
 */
enum gw_status gw_store_create(struct gw_disk *dir,
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

/* Listener to how a file comes on: called with so many bytes more, on the
   thread that writes; 0 gives the file up. */
struct gw_store_progress {
    int (*moved)(void *owner, uint64_t bytes);
    void *owner;
};

/*
 * All of that at once, for bytes that are there already. `described` has the
 * file's name, and gets size and digest. `progress` may be NULL. GW_EABORTED
 * where it was given up.
 */
enum gw_status gw_store_write(struct gw_disk *dir,
                              uint64_t clock,
                              const struct gw_file_part *parts,
                              size_t n,
                              const struct gw_store_progress *progress,
                              struct gw_manifest_file *described,
                              struct gw_error *error);

/* The same without a file: size and digest of a file that others will write. */
enum gw_status gw_store_digest(const struct gw_file_part *parts,
                               size_t n,
                               const struct gw_store_progress *progress,
                               struct gw_manifest_file *described,
                               struct gw_error *error);

#define GW_TOKEN_MAX 64

/*
 * A file in `dir` that says `token` for as long as the job runs: a member that
 * finds it sees that directory, and not another host's of the same name. It is
 * held: GW_EEXIST where another job runs with that directory. Remove it with
 * *file_p, which may be NULL then.
 */
enum gw_status gw_store_put_token(struct gw_disk *dir,
                                  const char *token,
                                  struct gw_file **file_p,
                                  struct gw_error *error);
/* GW_EEXIST where a token is held. Writes nothing, except to the token of a job
   that was killed. */
enum gw_status gw_store_check_free(struct gw_disk *dir, struct gw_error *error);
void gw_store_remove_token(struct gw_disk *dir, struct gw_file *file);
int gw_store_sees(struct gw_disk *dir, const char *token);

/* Puts a small file into `dir` itself, safely, in the place of one of that
   name. */
enum gw_status gw_store_replace(struct gw_disk *dir,
                                const char *name,
                                const char *text,
                                struct gw_error *error);

/* Reads a whole file of at most `most` bytes; *bytes_p is the caller's. */
enum gw_status gw_store_read(struct gw_disk *dir,
                             const char *path,
                             uint64_t most,
                             uint8_t **bytes_p,
                             size_t *n_p,
                             struct gw_error *error);

/* The manifest of the checkpoint of `clock`. */
enum gw_status gw_store_manifest(struct gw_disk *dir,
                                 uint64_t clock,
                                 struct gw_manifest *manifest,
                                 struct gw_error *error);

/* GW_ENOENT: not every file of the manifest is there, with its size. */
enum gw_status gw_store_has_files(struct gw_disk *dir,
                                  const struct gw_manifest *manifest,
                                  struct gw_error *error);

/* Compares every file with the manifest: size and SHA-256. GW_ECORRUPT. */
enum gw_status gw_store_verify(struct gw_disk *dir,
                               const struct gw_manifest *manifest,
                               struct gw_error *error);

/*
 * Both: the manifest of a checkpoint, with files that agree with it. GW_ENOENT
 * only where it was not finished; a file of it that is missing is GW_ECORRUPT.
 */
enum gw_status gw_store_whole(struct gw_disk *dir,
                              uint64_t clock,
                              struct gw_manifest *manifest,
                              struct gw_error *error);

/* The same for a checkpoint that is `dir` itself, under any name. */
enum gw_status gw_store_whole_here(struct gw_disk *dir,
                                   struct gw_manifest *manifest,
                                   struct gw_error *error);

/* Clocks of the names like checkpoints in `dir`, finished or not, the newest
   first; at most `room`. Returns how many. */
size_t gw_store_list(struct gw_disk *dir, uint64_t *clocks, size_t room);

/* The one of `clock` was finished: it has a manifest, be it damaged. */
int gw_store_is_finished(struct gw_disk *dir, uint64_t clock);

/* The newest that was finished; 0: none was. */
int gw_store_newest(struct gw_disk *dir, uint64_t *clock_p);

/*
 * The newest that has all its files, by name and size; 0: there is none. Their
 * contents are not read: that takes time, and --resume does it.
 */
int gw_store_newest_there(struct gw_disk *dir, uint64_t *clock_p);

/* Removes a checkpoint, its manifest first. */
void gw_store_remove(struct gw_disk *dir, uint64_t clock);

/*
 * Removes the remains of unfinished checkpoints, and nothing that a job has
 * not made. `told` is called for each that is gone. Only for the holder of the
 * token: another job may just be writing.
 */
void gw_store_sweep(struct gw_disk *dir,
                    void (*told)(void *owner, uint64_t clock),
                    void *owner);

#endif
