#include "config.h"

#include "server/checkpoint/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"

#define PIECE_BYTES ((uint64_t)4 << 20)

/* With the directory's name before it, for messages. */
#define NAME_BYTES 1024

void gw_store_path(uint64_t clock, const char *file, char path[GW_PATH_MAX])
{
    char name[GW_FILE_NAME_MAX];
    gw_checkpoint_name(clock, name);
    snprintf(path, GW_PATH_MAX, "%s%s%s", name, file[0] ? "/" : "", file);
}

enum gw_status gw_store_read(struct gw_disk *dir,
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
        dir->ops->open(dir, path, GW_FILE_READ, &file, error);
    if (status != GW_OK)
        return status;
    status = dir->ops->size(file, &n, error);
    if (status == GW_OK && n > most)
        status = gw_fail(error, GW_ECORRUPT, "%s is too large", path);
    if (status == GW_OK) {
        bytes = malloc((size_t)n + 1);
        if (!bytes)
            status = gw_fail(error, GW_ENOMEM, "no memory to read %s", path);
    }
    if (status == GW_OK)
        status = dir->ops->read(file, 0, bytes, (size_t)n, error);
    dir->ops->close(file, NULL);
    if (status != GW_OK) {
        free(bytes);
        return status;
    }
    *bytes_p = bytes;
    *n_p = (size_t)n;
    return GW_OK;
}

/* ---- the token ---- */

#define TOKEN_NAME ".gradweir-token"

static enum gw_status
hold_token(struct gw_disk *dir, struct gw_file **file_p, struct gw_error *error)
{
    enum gw_status status =
        dir->ops->open(dir, TOKEN_NAME, GW_FILE_HOLD, file_p, error);
    if (status == GW_EEXIST)
        return gw_fail(error, status,
                       "another job runs with %s; wait for its end, or choose "
                       "another directory",
                       dir->name);
    return status;
}

enum gw_status gw_store_check_free(struct gw_disk *dir, struct gw_error *error)
{
    struct gw_file *file;
    if (dir->ops->open(dir, TOKEN_NAME, GW_FILE_READ, &file, NULL) != GW_OK)
        return GW_OK;
    dir->ops->close(file, NULL);
    enum gw_status status = hold_token(dir, &file, error);
    if (status == GW_OK)
        dir->ops->close(file, NULL);
    return status;
}

enum gw_status gw_store_put_token(struct gw_disk *dir,
                                  const char *token,
                                  struct gw_file **file_p,
                                  struct gw_error *error)
{
    struct gw_file *file;
    enum gw_status status = hold_token(dir, &file, error);
    if (status != GW_OK)
        return status;
    status = dir->ops->write(file, 0, token, strlen(token), error);
    if (status == GW_OK)
        *file_p = file;
    else
        gw_store_remove_token(dir, file);
    return status;
}

void gw_store_remove_token(struct gw_disk *dir, struct gw_file *file)
{
    if (!file)
        return;
    dir->ops->remove(dir, TOKEN_NAME, NULL); /* while nobody else can have it */
    dir->ops->close(file, NULL);
}

int gw_store_sees(struct gw_disk *dir, const char *token)
{
    uint8_t *text;
    size_t n;
    if (gw_store_read(dir, TOKEN_NAME, GW_FILE_NAME_MAX, &text, &n, NULL) !=
        GW_OK)
        return 0;
    int same = n == strlen(token) && memcmp(text, token, n) == 0;
    free(text);
    return same;
}

/* ---- one checkpoint: `where` is its directory in `dir`, "" for dir itself */

static void path_in(const char *where, const char *file, char path[GW_PATH_MAX])
{
    snprintf(path, GW_PATH_MAX, "%.*s%s%s", GW_FILE_NAME_MAX, where,
             where[0] ? "/" : "", file);
}

static enum gw_status read_manifest(struct gw_disk *dir,
                                    const char *where,
                                    struct gw_manifest *manifest,
                                    struct gw_error *error)
{
    char path[GW_PATH_MAX], name[NAME_BYTES];
    uint8_t *text;
    size_t n;
    path_in(where, GW_MANIFEST_NAME, path);
    enum gw_status status =
        gw_store_read(dir, path, GW_MANIFEST_BYTES_MAX, &text, &n, error);
    if (status != GW_OK)
        return status;
    snprintf(name, sizeof name, "%s/%s", dir->name, path);
    status = gw_manifest_parse(name, (const char *)text, n, manifest, error);
    free(text);
    return status;
}

enum gw_status gw_store_manifest(struct gw_disk *dir,
                                 uint64_t clock,
                                 struct gw_manifest *manifest,
                                 struct gw_error *error)
{
    char where[GW_FILE_NAME_MAX];
    gw_checkpoint_name(clock, where);
    enum gw_status status = read_manifest(dir, where, manifest, error);
    if (status == GW_OK && manifest->state.clock != clock) {
        gw_manifest_free(manifest);
        status = gw_fail(error, GW_ECORRUPT,
                         "%s/%s/" GW_MANIFEST_NAME
                         " is the manifest of another step",
                         dir->name, where);
    }
    return status;
}

static enum gw_status verify_file(struct gw_disk *dir,
                                  const char *path,
                                  const struct gw_manifest_file *expected,
                                  struct gw_error *error)
{
    struct gw_file *file;
    char name[NAME_BYTES];
    uint8_t found[GW_DIGEST_BYTES];
    uint64_t bytes = 0;
    enum gw_status status =
        dir->ops->open(dir, path, GW_FILE_READ, &file, error);
    if (status != GW_OK)
        return status;
    snprintf(name, sizeof name, "%s/%s", dir->name, path);
    uint8_t *piece = malloc(PIECE_BYTES);
    struct gw_digest *digest = gw_digest_begin();
    status = dir->ops->size(file, &bytes, error);
    if (status == GW_OK && bytes != expected->bytes)
        status = gw_fail(error, GW_ECORRUPT,
                         "%s has %llu bytes, its manifest says %llu", name,
                         (unsigned long long)bytes,
                         (unsigned long long)expected->bytes);
    if (status == GW_OK && !piece)
        status = gw_fail(error, GW_ENOMEM, "no memory to check %s", name);
    for (uint64_t at = 0; at < bytes && status == GW_OK; at += PIECE_BYTES) {
        uint64_t left = bytes - at;
        size_t n = (size_t)(left < PIECE_BYTES ? left : PIECE_BYTES);
        status = dir->ops->read(file, at, piece, n, error);
        if (status == GW_OK)
            gw_digest_add(digest, piece, n);
    }
    gw_digest_end(digest, found);
    free(piece);
    dir->ops->close(file, NULL);
    if (status == GW_OK && memcmp(found, expected->sha256, sizeof found) != 0)
        status =
            gw_fail(error, GW_ECORRUPT,
                    "%s is damaged: its SHA-256 is not the manifest's", name);
    return status;
}

static enum gw_status verify(struct gw_disk *dir,
                             const char *where,
                             const struct gw_manifest *manifest,
                             struct gw_error *error)
{
    for (size_t i = 0; i < manifest->n_files; i++) {
        char path[GW_PATH_MAX];
        path_in(where, manifest->files[i].name, path);
        enum gw_status status =
            verify_file(dir, path, &manifest->files[i], error);
        if (status != GW_OK)
            return status;
    }
    return GW_OK;
}

enum gw_status gw_store_verify(struct gw_disk *dir,
                               const struct gw_manifest *manifest,
                               struct gw_error *error)
{
    char where[GW_FILE_NAME_MAX];
    gw_checkpoint_name(manifest->state.clock, where);
    return verify(dir, where, manifest, error);
}

/* A manifest with which the files do not agree is freed. */
static enum gw_status verify_or_free(struct gw_disk *dir,
                                     const char *where,
                                     struct gw_manifest *manifest,
                                     struct gw_error *error)
{
    enum gw_status status = verify(dir, where, manifest, error);
    if (status == GW_ENOENT && error)
        error->status = GW_ECORRUPT;
    if (status == GW_ENOENT)
        status = GW_ECORRUPT;
    if (status != GW_OK)
        gw_manifest_free(manifest);
    return status;
}

enum gw_status gw_store_whole(struct gw_disk *dir,
                              uint64_t clock,
                              struct gw_manifest *manifest,
                              struct gw_error *error)
{
    char where[GW_FILE_NAME_MAX];
    gw_checkpoint_name(clock, where);
    enum gw_status status = gw_store_manifest(dir, clock, manifest, error);
    return status == GW_OK ? verify_or_free(dir, where, manifest, error)
                           : status;
}

enum gw_status gw_store_whole_here(struct gw_disk *dir,
                                   struct gw_manifest *manifest,
                                   struct gw_error *error)
{
    enum gw_status status = read_manifest(dir, "", manifest, error);
    return status == GW_OK ? verify_or_free(dir, "", manifest, error) : status;
}
