/* Writing files of checkpoints so that they are there whole or not at all. */
#include "config.h"

#include "server/checkpoint/store.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "proto/digest.h"

/* So much is written before anybody is told, or asked. */
#define PIECE_BYTES ((size_t)8 << 20)

/* "dir/name" to "dir"; a bare name is in this one. */
static void parent_of(const char *path, char parent[PATH_MAX])
{
    snprintf(parent, PATH_MAX, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = '\0';
    else
        strcpy(parent, ".");
}

/* ---- directories ---- */

/* Makes one directory and has its name on the disk: a loss of power must not
   take the whole of it away. */
static enum gw_status
make_one(struct gw_disk *disk, const char *dir, struct gw_error *error)
{
    char parent[PATH_MAX];
    parent_of(dir, parent);
    enum gw_status status = disk->ops->make_dir(disk, dir, error);
    return status == GW_OK ? disk->ops->sync_dir(disk, parent, error) : status;
}

static void ignore_name(void *owner, const char *name)
{
    (void)owner;
    (void)name;
}

/* Makes the missing directories of a path; the ones above its end are made as
   any directory is. */
static enum gw_status
make_path(struct gw_disk *disk, const char *dir, struct gw_error *error)
{
    char path[PATH_MAX];
    struct gw_disk above = *disk;
    above.access = GW_ACCESS_UMASK;
    if (strlen(dir) >= sizeof path)
        return gw_fail(error, GW_EINVAL, "the name of %.64s... is too long",
                       dir);
    for (size_t n = 1; dir[n - 1]; n++) {
        if ((dir[n] != '/' && dir[n] != '\0') || dir[n - 1] == '/')
            continue;
        snprintf(path, n + 1, "%s", dir);
        if (disk->ops->list(disk, path, ignore_name, NULL, NULL) == GW_OK)
            continue;
        int is_end = dir[n + strspn(dir + n, "/")] == '\0';
        enum gw_status status = make_one(is_end ? disk : &above, path, error);
        if (status != GW_OK)
            return status;
    }
    return GW_OK;
}

enum gw_status gw_store_enter(struct gw_disk *disk,
                              const char *path,
                              enum gw_access access,
                              struct gw_disk *dir,
                              struct gw_error *error)
{
    struct gw_disk own = *disk;
    own.access = access;
    *dir = (struct gw_disk){0};
    return disk->ops->enter(&own, path, dir, error);
}

enum gw_status gw_store_enter_new(struct gw_disk *disk,
                                  const char *path,
                                  enum gw_access access,
                                  struct gw_disk *dir,
                                  struct gw_error *error)
{
    struct gw_disk own = *disk;
    own.access = access;
    *dir = (struct gw_disk){0};
    enum gw_status status = make_path(&own, path, error);
    return status == GW_OK ? disk->ops->enter(&own, path, dir, error) : status;
}

void gw_store_leave(struct gw_disk *dir)
{
    if (dir->ops)
        dir->ops->leave(dir);
}

/* ---- a file that is being written ---- */

#define TEMPORARY_MAX (GW_PATH_MAX + sizeof GW_TEMPORARY)

static void temporary_name(const struct gw_store_file *file,
                           char path[TEMPORARY_MAX])
{
    snprintf(path, TEMPORARY_MAX, "%s" GW_TEMPORARY, file->path);
}

enum gw_status gw_store_create(struct gw_disk *dir,
                               uint64_t clock,
                               const char *name,
                               uint64_t bytes,
                               struct gw_store_file *file,
                               struct gw_error *error)
{
    char path[TEMPORARY_MAX];
    *file = (struct gw_store_file){.dir = dir};
    gw_store_path(clock, "", path);
    enum gw_status status = make_one(dir, path, error);
    if (status != GW_OK)
        return status;
    gw_store_path(clock, name, file->path);
    temporary_name(file, path);
    status = dir->ops->open(dir, path, GW_FILE_CREATE, &file->file, error);
    if (status != GW_OK)
        return status;
    status = dir->ops->reserve(file->file, bytes, error);
    if (status != GW_OK)
        gw_store_abandon(file);
    return status;
}

enum gw_status gw_store_put(struct gw_store_file *file,
                            uint64_t offset,
                            const void *bytes,
                            size_t n,
                            struct gw_error *error)
{
    return file->dir->ops->write(file->file, offset, bytes, n, error);
}

enum gw_status gw_store_commit(struct gw_store_file *file,
                               struct gw_error *error)
{
    struct gw_disk *dir = file->dir;
    char temporary[TEMPORARY_MAX], parent[PATH_MAX];
    temporary_name(file, temporary);
    parent_of(file->path, parent);
    enum gw_status status = dir->ops->sync(file->file, error);
    if (status != GW_OK) {
        gw_store_abandon(file);
        return status;
    }
    status = dir->ops->close(file->file, error);
    file->file = NULL;
    if (status == GW_OK)
        status = dir->ops->rename(dir, temporary, file->path, error);
    if (status == GW_OK)
        return dir->ops->sync_dir(dir, parent, error);
    dir->ops->remove(dir, temporary, NULL);
    return status;
}

void gw_store_abandon(struct gw_store_file *file)
{
    char temporary[TEMPORARY_MAX];
    if (!file->file)
        return;
    file->dir->ops->close(file->file, NULL);
    file->file = NULL;
    temporary_name(file, temporary);
    file->dir->ops->remove(file->dir, temporary, NULL);
}

enum gw_status gw_store_replace(struct gw_disk *dir,
                                const char *name,
                                const char *text,
                                struct gw_error *error)
{
    struct gw_store_file file = {.dir = dir};
    char temporary[TEMPORARY_MAX];
    snprintf(file.path, sizeof file.path, "%s", name);
    temporary_name(&file, temporary);
    enum gw_status status =
        dir->ops->open(dir, temporary, GW_FILE_CREATE, &file.file, error);
    if (status != GW_OK)
        return status;
    status = gw_store_put(&file, 0, text, strlen(text), error);
    if (status == GW_OK)
        return gw_store_commit(&file, error);
    gw_store_abandon(&file);
    return status;
}

/* ---- whole files ---- */

/* Its bytes, piece by piece, in the order of the file: digested, and written
   where it is one. */
struct pass {
    struct gw_digest *digest;
    struct gw_store_file *file; /* NULL: nothing is written */
    uint64_t at;
    const struct gw_store_progress *progress; /* NULL: nobody asks */
};

static enum gw_status pass_piece(struct pass *pass,
                                 const uint8_t *bytes,
                                 size_t n,
                                 struct gw_error *error)
{
    struct gw_store_file *file = pass->file;
    const struct gw_store_progress *progress = pass->progress;
    enum gw_status status = GW_OK;
    gw_digest_add(pass->digest, bytes, n);
    if (file)
        status = gw_store_put(file, pass->at, bytes, n, error);
    if (file && status == GW_OK)
        status = file->dir->ops->flush(file->file, pass->at, n, error);
    pass->at += n;
    if (status == GW_OK && progress && !progress->moved(progress->owner, n))
        status = gw_fail(error, GW_EABORTED, "the job has ended");
    return status;
}

static enum gw_status pass_all(struct pass *pass,
                               const struct gw_file_part *parts,
                               size_t n,
                               struct gw_error *error)
{
    enum gw_status status = GW_OK;
    for (size_t i = 0; i < n && status == GW_OK; i++) {
        const uint8_t *bytes = parts[i].bytes;
        uint64_t left = parts[i].n;
        while (left > 0 && status == GW_OK) {
            size_t piece = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
            status = pass_piece(pass, bytes, piece, error);
            bytes += piece;
            left -= piece;
        }
    }
    return status;
}

static uint64_t bytes_of(const struct gw_file_part *parts, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += parts[i].n;
    return bytes;
}

enum gw_status gw_store_digest(const struct gw_file_part *parts,
                               size_t n,
                               const struct gw_store_progress *progress,
                               struct gw_manifest_file *described,
                               struct gw_error *error)
{
    struct pass pass = {.digest = gw_digest_begin(), .progress = progress};
    enum gw_status status = pass_all(&pass, parts, n, error);
    gw_digest_end(pass.digest, described->sha256);
    described->bytes = bytes_of(parts, n);
    return status;
}

enum gw_status gw_store_write(struct gw_disk *dir,
                              uint64_t clock,
                              const struct gw_file_part *parts,
                              size_t n,
                              const struct gw_store_progress *progress,
                              struct gw_manifest_file *described,
                              struct gw_error *error)
{
    struct gw_store_file file;
    described->bytes = bytes_of(parts, n);
    enum gw_status status = gw_store_create(dir, clock, described->name,
                                            described->bytes, &file, error);
    if (status != GW_OK)
        return status;
    struct pass pass = {
        .digest = gw_digest_begin(), .file = &file, .progress = progress};
    status = pass_all(&pass, parts, n, error);
    gw_digest_end(pass.digest, described->sha256);
    if (status == GW_OK)
        return gw_store_commit(&file, error);
    gw_store_abandon(&file);
    return status;
}
