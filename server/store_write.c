/* Writing files of checkpoints so that they are there whole or not at all. */
#include "config.h"

#include "server/store.h"

#include <stdio.h>
#include <string.h>

#include "proto/digest.h"

/* "dir/name" to "dir"; what has no directory is in this one. */
static void parent_of(const char *path, char parent[GW_PATH_MAX])
{
    snprintf(parent, GW_PATH_MAX, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = '\0';
    else
        strcpy(parent, ".");
}

/* Makes one directory and has its name on the disk: a loss of power must not
   take the whole of it away. */
static enum gw_status
make_one(struct gw_disk *disk, const char *dir, struct gw_error *error)
{
    char parent[GW_PATH_MAX];
    parent_of(dir, parent);
    enum gw_status status = disk->ops->make_dir(disk, dir, error);
    return status == GW_OK ? disk->ops->sync_dir(disk, parent, error) : status;
}

static void ignore_name(void *owner, const char *name)
{
    (void)owner;
    (void)name;
}

enum gw_status
gw_store_make_dir(struct gw_disk *disk, const char *dir, struct gw_error *error)
{
    char path[GW_PATH_MAX];
    if (strlen(dir) >= sizeof path)
        return gw_fail(error, GW_EINVAL, "the name of %.64s... is too long",
                       dir);
    for (size_t n = 1; dir[n - 1]; n++) {
        if ((dir[n] != '/' && dir[n] != '\0') || dir[n - 1] == '/')
            continue;
        snprintf(path, n + 1, "%s", dir);
        if (disk->ops->list(disk, path, ignore_name, NULL, NULL) == GW_OK)
            continue;
        enum gw_status status = make_one(disk, path, error);
        if (status != GW_OK)
            return status;
    }
    return GW_OK;
}

/* ---- a file that is being written ---- */

static void temporary_name(const struct gw_store_file *file,
                           char path[GW_PATH_MAX + 4])
{
    snprintf(path, GW_PATH_MAX + 4, "%s.tmp", file->path);
}

enum gw_status gw_store_begin(struct gw_disk *disk,
                              const char *path,
                              uint64_t bytes,
                              struct gw_store_file *file,
                              struct gw_error *error)
{
    char temporary[GW_PATH_MAX + 4];
    *file = (struct gw_store_file){.disk = disk};
    if (strlen(path) >= sizeof file->path)
        return gw_fail(error, GW_EINVAL, "the name of %.64s... is too long",
                       path);
    strcpy(file->path, path);
    temporary_name(file, temporary);
    enum gw_status status =
        disk->ops->open(disk, temporary, GW_FILE_CREATE, &file->file, error);
    if (status == GW_OK) {
        status = disk->ops->reserve(file->file, bytes, error);
        if (status != GW_OK)
            gw_store_abandon(file);
    }
    return status;
}

enum gw_status gw_store_create(struct gw_disk *disk,
                               const char *dir,
                               uint64_t clock,
                               const char *name,
                               uint64_t bytes,
                               struct gw_store_file *file,
                               struct gw_error *error)
{
    char path[GW_PATH_MAX];
    *file = (struct gw_store_file){.disk = disk};
    gw_store_path(dir, clock, "", path);
    enum gw_status status = make_one(disk, path, error);
    gw_store_path(dir, clock, name, path);
    if (status == GW_OK)
        status = gw_store_begin(disk, path, bytes, file, error);
    return status;
}

enum gw_status gw_store_put(struct gw_store_file *file,
                            uint64_t offset,
                            const void *bytes,
                            size_t n,
                            struct gw_error *error)
{
    return file->disk->ops->write(file->file, offset, bytes, n, error);
}

enum gw_status gw_store_commit(struct gw_store_file *file,
                               struct gw_error *error)
{
    struct gw_disk *disk = file->disk;
    char temporary[GW_PATH_MAX + 4], parent[GW_PATH_MAX];
    temporary_name(file, temporary);
    parent_of(file->path, parent);
    enum gw_status status = disk->ops->sync(file->file, error);
    if (status != GW_OK) {
        gw_store_abandon(file);
        return status;
    }
    status = disk->ops->close(file->file, error);
    file->file = NULL;
    if (status == GW_OK)
        status = disk->ops->rename(disk, temporary, file->path, error);
    if (status == GW_OK)
        return disk->ops->sync_dir(disk, parent, error);
    disk->ops->remove(disk, temporary, NULL);
    return status;
}

void gw_store_abandon(struct gw_store_file *file)
{
    char temporary[GW_PATH_MAX + 4];
    if (!file->file)
        return;
    file->disk->ops->close(file->file, NULL);
    file->file = NULL;
    temporary_name(file, temporary);
    file->disk->ops->remove(file->disk, temporary, NULL);
}

uint64_t gw_store_digest(const struct gw_file_part *parts,
                         size_t n,
                         uint8_t sha256[GW_DIGEST_BYTES])
{
    struct gw_digest *digest = gw_digest_begin();
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        gw_digest_add(digest, parts[i].bytes, (size_t)parts[i].n);
        bytes += parts[i].n;
    }
    gw_digest_end(digest, sha256);
    return bytes;
}

enum gw_status gw_store_write(struct gw_disk *disk,
                              const char *dir,
                              uint64_t clock,
                              const char *name,
                              const struct gw_file_part *parts,
                              size_t n,
                              struct gw_error *error)
{
    struct gw_store_file file;
    uint64_t bytes = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        bytes += parts[i].n;
    enum gw_status status =
        gw_store_create(disk, dir, clock, name, bytes, &file, error);
    if (status != GW_OK)
        return status;
    for (size_t i = 0; i < n && status == GW_OK; i++) {
        status =
            gw_store_put(&file, at, parts[i].bytes, (size_t)parts[i].n, error);
        at += parts[i].n;
    }
    if (status == GW_OK)
        return gw_store_commit(&file, error);
    gw_store_abandon(&file);
    return status;
}
