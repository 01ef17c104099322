#include "config.h"

#include "server/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"

#define PIECE_BYTES ((uint64_t)4 << 20)
#define NAMES_MAX   4096

void gw_store_path(const char *dir,
                   uint64_t clock,
                   const char *file,
                   char path[GW_PATH_MAX])
{
    char name[GW_FILE_NAME_MAX];
    gw_checkpoint_name(clock, name);
    snprintf(path, GW_PATH_MAX, "%s/%s%s%s", dir, name, file[0] ? "/" : "",
             file);
}

enum gw_status gw_store_read(struct gw_disk *disk,
                             const char *path,
                             uint64_t most,
                             uint8_t **bytes_p,
                             size_t *n_p,
                             struct gw_error *error)
{
    struct gw_file *file;
    uint64_t n = 0;
    uint8_t *bytes = NULL;
    enum gw_status status =
        disk->ops->open(disk, path, GW_FILE_READ, &file, error);
    if (status != GW_OK)
        return status;
    status = disk->ops->size(file, &n, error);
    if (status == GW_OK && n > most)
        status = gw_fail(error, GW_ECORRUPT, "%s is too large", path);
    if (status == GW_OK) {
        bytes = malloc((size_t)n + 1);
        if (!bytes)
            status = gw_fail(error, GW_ENOMEM, "no memory to read %s", path);
    }
    if (status == GW_OK)
        status = disk->ops->read(file, 0, bytes, (size_t)n, error);
    disk->ops->close(file, NULL);
    if (status != GW_OK) {
        free(bytes);
        return status;
    }
    *bytes_p = bytes;
    *n_p = (size_t)n;
    return GW_OK;
}

static void token_path(const char *dir, char path[GW_PATH_MAX])
{
    snprintf(path, GW_PATH_MAX, "%s/.gradweir-token", dir);
}

static enum gw_status hold_token(struct gw_disk *disk,
                                 const char *dir,
                                 const char *path,
                                 struct gw_file **file_p,
                                 struct gw_error *error)
{
    enum gw_status status =
        disk->ops->open(disk, path, GW_FILE_HOLD, file_p, error);
    if (status == GW_EEXIST)
        return gw_fail(error, status,
                       "another job runs with %s; wait for its end, or choose "
                       "another directory",
                       dir);
    return status;
}

enum gw_status gw_store_check_free(struct gw_disk *disk,
                                   const char *dir,
                                   struct gw_error *error)
{
    char path[GW_PATH_MAX];
    struct gw_file *file;
    token_path(dir, path);
    if (disk->ops->open(disk, path, GW_FILE_READ, &file, NULL) != GW_OK)
        return GW_OK;
    disk->ops->close(file, NULL);
    enum gw_status status = hold_token(disk, dir, path, &file, error);
    if (status == GW_OK)
        disk->ops->close(file, NULL);
    return status;
}

enum gw_status gw_store_put_token(struct gw_disk *disk,
                                  const char *dir,
                                  const char *token,
                                  struct gw_file **file_p,
                                  struct gw_error *error)
{
    char path[GW_PATH_MAX];
    struct gw_file *file;
    token_path(dir, path);
    enum gw_status status = hold_token(disk, dir, path, &file, error);
    if (status != GW_OK)
        return status;
    status = disk->ops->write(file, 0, token, strlen(token), error);
    if (status == GW_OK)
        *file_p = file;
    else
        gw_store_remove_token(disk, dir, file);
    return status;
}

void gw_store_remove_token(struct gw_disk *disk,
                           const char *dir,
                           struct gw_file *file)
{
    char path[GW_PATH_MAX];
    if (!file)
        return;
    token_path(dir, path);
    disk->ops->remove(disk, path, NULL); /* while nobody else can have it */
    disk->ops->close(file, NULL);
}

int gw_store_sees(struct gw_disk *disk, const char *dir, const char *token)
{
    char path[GW_PATH_MAX];
    uint8_t *text;
    size_t n;
    token_path(dir, path);
    if (gw_store_read(disk, path, GW_FILE_NAME_MAX, &text, &n, NULL) != GW_OK)
        return 0;
    int same = n == strlen(token) && memcmp(text, token, n) == 0;
    free(text);
    return same;
}

enum gw_status gw_store_manifest(struct gw_disk *disk,
                                 const char *dir,
                                 uint64_t clock,
                                 struct gw_manifest *manifest,
                                 struct gw_error *error)
{
    char path[GW_PATH_MAX];
    uint8_t *text;
    size_t n;
    gw_store_path(dir, clock, GW_MANIFEST_NAME, path);
    enum gw_status status =
        gw_store_read(disk, path, GW_MANIFEST_BYTES_MAX, &text, &n, error);
    if (status != GW_OK)
        return status;
    status = gw_manifest_parse(path, (const char *)text, n, manifest, error);
    free(text);
    if (status == GW_OK && manifest->state.clock != clock) {
        gw_manifest_free(manifest);
        status = gw_fail(error, GW_ECORRUPT,
                         "%s is the manifest of another step", path);
    }
    return status;
}

static enum gw_status verify_file(struct gw_disk *disk,
                                  const char *path,
                                  const struct gw_manifest_file *expected,
                                  struct gw_error *error)
{
    struct gw_file *file;
    uint8_t found[GW_DIGEST_BYTES];
    uint64_t bytes = 0;
    enum gw_status status =
        disk->ops->open(disk, path, GW_FILE_READ, &file, error);
    if (status != GW_OK)
        return status;
    uint8_t *piece = malloc(PIECE_BYTES);
    struct gw_digest *digest = gw_digest_begin();
    status = disk->ops->size(file, &bytes, error);
    if (status == GW_OK && bytes != expected->bytes)
        status = gw_fail(error, GW_ECORRUPT,
                         "%s has %llu bytes, its manifest says %llu", path,
                         (unsigned long long)bytes,
                         (unsigned long long)expected->bytes);
    if (status == GW_OK && !piece)
        status = gw_fail(error, GW_ENOMEM, "no memory to check %s", path);
    for (uint64_t at = 0; at < bytes && status == GW_OK; at += PIECE_BYTES) {
        uint64_t left = bytes - at;
        size_t n = (size_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
        status = disk->ops->read(file, at, piece, n, error);
        if (status == GW_OK)
            gw_digest_add(digest, piece, n);
    }
    gw_digest_end(digest, found);
    free(piece);
    disk->ops->close(file, NULL);
    if (status == GW_OK && memcmp(found, expected->sha256, sizeof found) != 0)
        status =
            gw_fail(error, GW_ECORRUPT,
                    "%s is damaged: its SHA-256 is not the manifest's", path);
    return status;
}

enum gw_status gw_store_verify(struct gw_disk *disk,
                               const char *dir,
                               const struct gw_manifest *manifest,
                               struct gw_error *error)
{
    for (size_t i = 0; i < manifest->n_files; i++) {
        char path[GW_PATH_MAX];
        gw_store_path(dir, manifest->state.clock, manifest->files[i].name,
                      path);
        enum gw_status status =
            verify_file(disk, path, &manifest->files[i], error);
        if (status != GW_OK)
            return status;
    }
    return GW_OK;
}

enum gw_status gw_store_whole(struct gw_disk *disk,
                              const char *dir,
                              uint64_t clock,
                              struct gw_manifest *manifest,
                              struct gw_error *error)
{
    enum gw_status status =
        gw_store_manifest(disk, dir, clock, manifest, error);
    if (status != GW_OK)
        return status;
    status = gw_store_verify(disk, dir, manifest, error);
    if (status == GW_ENOENT && error)
        error->status = GW_ECORRUPT;
    if (status == GW_ENOENT)
        status = GW_ECORRUPT;
    if (status != GW_OK)
        gw_manifest_free(manifest);
    return status;
}

/* ---- directories ---- */

struct clocks {
    uint64_t *at;
    size_t n, room;
};

static void note_clock(void *owner, const char *name)
{
    struct clocks *clocks = owner;
    uint64_t clock;
    if (!gw_checkpoint_clock(name, &clock))
        return;
    size_t at = clocks->n;
    if (at < clocks->room)
        clocks->n++;
    else if (at > 0 && clocks->at[at - 1] < clock)
        at--; /* the oldest makes room */
    else
        return;
    for (; at > 0 && clocks->at[at - 1] < clock; at--)
        clocks->at[at] = clocks->at[at - 1];
    clocks->at[at] = clock;
}

size_t gw_store_list(struct gw_disk *disk,
                     const char *dir,
                     uint64_t *clocks,
                     size_t room)
{
    struct clocks list = {.at = clocks, .room = room};
    disk->ops->list(disk, dir, note_clock, &list, NULL);
    return list.n;
}

struct names {
    char name[NAMES_MAX][GW_FILE_NAME_MAX];
    size_t n;
};

static void note_name(void *owner, const char *name)
{
    struct names *names = owner;
    if (names->n < NAMES_MAX && strlen(name) < GW_FILE_NAME_MAX)
        strcpy(names->name[names->n++], name);
}

void gw_store_remove(struct gw_disk *disk, const char *dir, uint64_t clock)
{
    char path[GW_PATH_MAX];
    struct names *names = calloc(1, sizeof *names);
    if (!names)
        return;
    gw_store_path(dir, clock, GW_MANIFEST_NAME, path);
    disk->ops->remove(disk, path, NULL);
    size_t removed = 1;
    while (removed > 0) { /* there may be more than a list takes */
        names->n = removed = 0;
        gw_store_path(dir, clock, "", path);
        disk->ops->list(disk, path, note_name, names, NULL);
        for (size_t i = 0; i < names->n; i++) {
            gw_store_path(dir, clock, names->name[i], path);
            removed += disk->ops->remove(disk, path, NULL) == GW_OK;
        }
    }
    gw_store_path(dir, clock, "", path);
    disk->ops->remove(disk, path, NULL);
    free(names);
}
