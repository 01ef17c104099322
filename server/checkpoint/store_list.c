/* The checkpoints that a directory holds, and removing them. */
#include "config.h"

#include "server/checkpoint/store.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX  4096
#define CLOCKS_MAX 1024

/* ---- which there are ---- */

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

size_t gw_store_list(struct gw_disk *dir, uint64_t *clocks, size_t room)
{
    struct clocks list = {.at = clocks, .room = room};
    dir->ops->list(dir, ".", note_clock, &list, NULL);
    return list.n;
}

/* The size of a file of a checkpoint; 0 where there is none. */
static int find_file(struct gw_disk *dir,
                     uint64_t clock,
                     const char *name,
                     uint64_t *bytes_p)
{
    char path[GW_PATH_MAX];
    struct gw_file *file;
    gw_store_path(clock, name, path);
    if (dir->ops->open(dir, path, GW_FILE_READ, &file, NULL) != GW_OK)
        return 0;
    enum gw_status status = dir->ops->size(file, bytes_p, NULL);
    dir->ops->close(file, NULL);
    return status == GW_OK;
}

int gw_store_is_finished(struct gw_disk *dir, uint64_t clock)
{
    uint64_t bytes;
    return find_file(dir, clock, GW_MANIFEST_NAME, &bytes);
}

enum gw_status gw_store_has_files(struct gw_disk *dir,
                                  const struct gw_manifest *manifest,
                                  struct gw_error *error)
{
    uint64_t bytes;
    for (size_t i = 0; i < manifest->n_files; i++) {
        const struct gw_manifest_file *file = &manifest->files[i];
        if (!find_file(dir, manifest->state.clock, file->name, &bytes) ||
            bytes != file->bytes)
            return gw_fail(error, GW_ENOENT, "%s is not there any more",
                           file->name);
    }
    return GW_OK;
}

static int has_all_files(struct gw_disk *dir, uint64_t clock)
{
    struct gw_manifest manifest;
    if (gw_store_manifest(dir, clock, &manifest, NULL) != GW_OK)
        return 0;
    int has = gw_store_has_files(dir, &manifest, NULL) == GW_OK;
    gw_manifest_free(&manifest);
    return has;
}

/* The newest of which something is so; 0: of none. */
static int find_newest(struct gw_disk *dir,
                       int (*is_so)(struct gw_disk *dir, uint64_t clock),
                       uint64_t *clock_p)
{
    uint64_t clocks[CLOCKS_MAX];
    size_t n = gw_store_list(dir, clocks, CLOCKS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!is_so(dir, clocks[i]))
            continue;
        *clock_p = clocks[i];
        return 1;
    }
    return 0;
}

int gw_store_newest(struct gw_disk *dir, uint64_t *clock_p)
{
    return find_newest(dir, gw_store_is_finished, clock_p);
}

int gw_store_newest_there(struct gw_disk *dir, uint64_t *clock_p)
{
    return find_newest(dir, has_all_files, clock_p);
}

/* ---- removing ---- */

struct names {
    char name[NAMES_MAX][GW_FILE_NAME_MAX + sizeof GW_TEMPORARY];
    size_t n;
    int (*is_wanted)(const char *name);
};

static void note_name(void *owner, const char *name)
{
    struct names *names = owner;
    if (names->n < NAMES_MAX && strlen(name) < sizeof names->name[0] &&
        names->is_wanted(name))
        strcpy(names->name[names->n++], name);
}

static int is_any(const char *name)
{
    (void)name;
    return 1;
}

static int begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Files of a checkpoint, written or being written. */
static int is_of_a_job(const char *name)
{
    static const char ending[] = ".safetensors";
    const char *dot = strchr(name, '.');
    if (!dot)
        return 0;
    if (begins_with(name, GW_MANIFEST_NAME))
        dot = name + strlen(GW_MANIFEST_NAME);
    else if ((begins_with(name, "shard-") || begins_with(name, "worker-")) &&
             begins_with(dot, ending))
        dot += strlen(ending);
    else
        return 0;
    return dot[0] == '\0' || strcmp(dot, GW_TEMPORARY) == 0;
}

/* Removes the files with these names, and the directory, if that leaves it
   empty. Returns non-zero when it is gone. */
static int remove_names(struct gw_disk *dir,
                        uint64_t clock,
                        int (*is_wanted)(const char *name))
{
    char path[GW_PATH_MAX];
    size_t removed = 1;
    struct names *names = calloc(1, sizeof *names);
    if (!names)
        return 0;
    names->is_wanted = is_wanted;
    while (removed > 0) { /* there may be more than a list takes */
        names->n = removed = 0;
        gw_store_path(clock, "", path);
        dir->ops->list(dir, path, note_name, names, NULL);
        for (size_t i = 0; i < names->n; i++) {
            gw_store_path(clock, names->name[i], path);
            removed += dir->ops->remove(dir, path, NULL) == GW_OK;
        }
    }
    free(names);
    gw_store_path(clock, "", path);
    return dir->ops->remove(dir, path, NULL) == GW_OK;
}

void gw_store_remove(struct gw_disk *dir, uint64_t clock)
{
    char path[GW_PATH_MAX];
    gw_store_path(clock, GW_MANIFEST_NAME, path);
    dir->ops->remove(dir, path, NULL);
    remove_names(dir, clock, is_any);
}

void gw_store_sweep(struct gw_disk *dir,
                    void (*told)(void *owner, uint64_t clock),
                    void *owner)
{
    uint64_t clocks[CLOCKS_MAX];
    size_t n = gw_store_list(dir, clocks, CLOCKS_MAX);
    for (size_t i = 0; i < n; i++)
        if (!gw_store_is_finished(dir, clocks[i]) &&
            remove_names(dir, clocks[i], is_of_a_job))
            told(owner, clocks[i]);
}
