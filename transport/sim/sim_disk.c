/*
 * The disk of a simulated host. Files have two contents, the current one and
 * the synced one; so do names. Losing power restores the synced state. Any
 * changing operation can be made to fail, or to be the last before the power
 * goes.
 */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

struct bytes {
    uint8_t *at;
    size_t n;
};

/* A file's content lives as long as a name or a handle refers to it. */
struct inode {
    struct bytes now, synced;
    unsigned references;
    int is_dir;
};

struct name {
    char path[PATH_BYTES];
    struct inode *now, *synced; /* NULL: the name does not exist */
    struct name *next;
};

/* The whole disk of a host, or an entered directory. */
struct gw_disk_dir {
    struct gw_sim_disk *disk;
    char name[PATH_BYTES]; /* "": the whole disk */
};

struct gw_sim_disk {
    struct gw_disk base;
    struct gw_disk_dir whole;
    struct gw_sim_disk *next;
    struct gw_sim *sim;
    char host[64];
    struct name *names;
    uint64_t operations, fail_at;
    enum gw_status fail_status;
    int dead;
    uint64_t sync_us; /* duration of a sync, */
    uint64_t late_us; /* and the time to add to the running work */
};

struct gw_file {
    struct gw_sim_disk *disk;
    struct inode *inode;
    char path[PATH_BYTES];
};

static struct gw_sim_disk *disk_of(struct gw_disk *disk)
{
    return disk->dir->disk;
}

/* A path of the host. */
struct whole {
    char path[PATH_BYTES];
};

static struct whole whole_of(const struct gw_disk *disk, const char *path)
{
    struct whole whole;
    const char *dir = disk->dir->name;
    int is_dir = dir[0] && strcmp(path, ".") == 0;
    int n = snprintf(whole.path, sizeof whole.path, "%s%s%s", dir,
                     dir[0] && !is_dir ? "/" : "", is_dir ? "" : path);
    assert(n >= 0 && n < PATH_BYTES);
    return whole;
}

static void bytes_copy(struct bytes *to, const struct bytes *from)
{
    free(to->at);
    *to = (struct bytes){0};
    if (from->n == 0)
        return;
    to->at = malloc(from->n);
    assert(to->at);
    memcpy(to->at, from->at, from->n);
    to->n = from->n;
}

static struct inode *inode_new(int is_dir)
{
    struct inode *inode = calloc(1, sizeof *inode);
    assert(inode);
    inode->is_dir = is_dir;
    return inode;
}

static void inode_set(struct inode **slot, struct inode *inode)
{
    struct inode *before = *slot;
    if (inode)
        inode->references++;
    *slot = inode;
    if (before && --before->references == 0) {
        free(before->now.at);
        free(before->synced.at);
        free(before);
    }
}

static struct name *name_find(struct gw_sim_disk *disk, const char *path)
{
    struct name *one = disk->names;
    while (one && strcmp(one->path, path) != 0)
        one = one->next;
    return one;
}

static struct name *name_make(struct gw_sim_disk *disk, const char *path)
{
    struct name *one = name_find(disk, path);
    if (one)
        return one;
    one = calloc(1, sizeof *one);
    assert(one);
    snprintf(one->path, sizeof one->path, "%s", path);
    one->next = disk->names;
    disk->names = one;
    return one;
}

/* The name inside directory `dir`, or NULL if the path is not right in it. */
static const char *name_in(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    if (strcmp(dir, ".") == 0)
        return strchr(path, '/') ? NULL : path;
    if (strncmp(path, dir, n) != 0 || path[n] != '/' ||
        strchr(path + n + 1, '/'))
        return NULL;
    return path + n + 1;
}

/* Counts a changing operation; fails if the test asked for it. */
static enum gw_status
change(struct gw_sim_disk *disk, const char *path, struct gw_error *error)
{
    uint64_t number = disk->operations++;
    if (disk->dead)
        return gw_fail(error, GW_EIO, "cannot reach the disk for %s", path);
    if (disk->fail_at == 0 || number + 1 != disk->fail_at)
        return GW_OK;
    disk->fail_at = 0;
    if (disk->fail_status == GW_OK) {
        disk->dead = 1;
        return gw_fail(error, GW_EIO, "power lost while writing %s", path);
    }
    return gw_fail(error, disk->fail_status, "cannot write %s: %s", path,
                   gw_status_text(disk->fail_status));
}

static enum gw_status disk_open(struct gw_disk *base,
                                const char *given,
                                enum gw_file_mode mode,
                                struct gw_file **file_p,
                                struct gw_error *error)
{
    struct gw_sim_disk *disk = disk_of(base);
    const struct whole whole = whole_of(base, given);
    const char *path = whole.path;
    struct name *name = name_find(disk, path);
    if (mode != GW_FILE_READ) {
        enum gw_status status = change(disk, path, error);
        if (status != GW_OK)
            return status;
        name = name_make(disk, path);
        inode_set(&name->now, inode_new(0));
    } else if (!name || !name->now || name->now->is_dir) {
        return gw_fail(error, GW_ENOENT,
                       "cannot open %s: No such file or directory", path);
    }
    struct gw_file *file = calloc(1, sizeof *file);
    assert(file);
    file->disk = disk;
    inode_set(&file->inode, name->now);
    snprintf(file->path, sizeof file->path, "%s", path);
    *file_p = file;
    return GW_OK;
}

static enum gw_status disk_close(struct gw_file *file, struct gw_error *error)
{
    (void)error;
    inode_set(&file->inode, NULL);
    free(file);
    return GW_OK;
}

static enum gw_status disk_read(struct gw_file *file,
                                uint64_t offset,
                                void *bytes,
                                size_t n,
                                struct gw_error *error)
{
    const struct bytes *data = &file->inode->now;
    if (offset > data->n || n > data->n - offset)
        return gw_fail(error, GW_ECORRUPT, "%s ends at byte %zu", file->path,
                       data->n);
    if (n > 0)
        memcpy(bytes, data->at + offset, n);
    return GW_OK;
}

static enum gw_status disk_write(struct gw_file *file,
                                 uint64_t offset,
                                 const void *bytes,
                                 size_t n,
                                 struct gw_error *error)
{
    struct bytes *data = &file->inode->now;
    enum gw_status status = change(file->disk, file->path, error);
    if (status != GW_OK || n == 0)
        return status;
    if (offset + n > data->n) {
        data->at = realloc(data->at, offset + n);
        assert(data->at);
        memset(data->at + data->n, 0, offset + n - data->n);
        data->n = offset + n;
    }
    memcpy(data->at + offset, bytes, n);
    return GW_OK;
}

static enum gw_status
disk_size(struct gw_file *file, uint64_t *bytes_p, struct gw_error *error)
{
    (void)error;
    *bytes_p = file->inode->now.n;
    return GW_OK;
}

static enum gw_status
disk_reserve(struct gw_file *file, uint64_t bytes, struct gw_error *error)
{
    (void)bytes;
    return change(file->disk, file->path, error);
}

static enum gw_status disk_flush(struct gw_file *file,
                                 uint64_t offset,
                                 uint64_t n,
                                 struct gw_error *error)
{
    (void)file;
    (void)offset;
    (void)n;
    (void)error;
    return GW_OK;
}

static enum gw_status disk_sync(struct gw_file *file, struct gw_error *error)
{
    enum gw_status status = change(file->disk, file->path, error);
    if (status == GW_OK)
        bytes_copy(&file->inode->synced, &file->inode->now);
    file->disk->late_us += file->disk->sync_us;
    return status;
}

static enum gw_status disk_rename(struct gw_disk *base,
                                  const char *given,
                                  const char *given_to,
                                  struct gw_error *error)
{
    struct gw_sim_disk *disk = disk_of(base);
    const struct whole old = whole_of(base, given);
    const struct whole new = whole_of(base, given_to);
    const char *from = old.path, *to = new.path;
    enum gw_status status = change(disk, from, error);
    if (status != GW_OK)
        return status;
    size_t n = strlen(from);
    struct name *source = name_find(disk, from);
    if (!source || !source->now)
        return gw_fail(error, GW_ENOENT, "cannot rename %s: no such file",
                       from);
    inode_set(&name_make(disk, to)->now, source->now);
    inode_set(&source->now, NULL);
    /* the content of a directory moves with it */
    for (struct name *one = disk->names; one; one = one->next) {
        char path[PATH_BYTES];
        if (!one->now || strncmp(one->path, from, n) != 0 ||
            one->path[n] != '/')
            continue;
        snprintf(path, sizeof path, "%.*s%.*s", PATH_BYTES / 2, to,
                 PATH_BYTES / 2 - 1, one->path + n);
        struct name *moved = name_make(disk, path);
        inode_set(&moved->now, one->now);
        if (one->synced == one->now)
            inode_set(&moved->synced, one->synced);
        inode_set(&one->now, NULL);
    }
    return GW_OK;
}

static enum gw_status
disk_remove(struct gw_disk *base, const char *given, struct gw_error *error)
{
    struct gw_sim_disk *disk = disk_of(base);
    const struct whole whole = whole_of(base, given);
    const char *path = whole.path;
    enum gw_status status = change(disk, path, error);
    if (status != GW_OK)
        return status;
    struct name *name = name_find(disk, path);
    if (!name || !name->now)
        return gw_fail(error, GW_ENOENT, "cannot remove %s: no such file",
                       path);
    for (struct name *one = disk->names; one; one = one->next)
        if (one->now && name_in(path, one->path))
            return gw_fail(error, GW_EEXIST,
                           "cannot remove %s: Directory not empty", path);
    inode_set(&name->now, NULL);
    return GW_OK;
}

static enum gw_status
disk_make_dir(struct gw_disk *base, const char *given, struct gw_error *error)
{
    struct gw_sim_disk *disk = disk_of(base);
    const struct whole whole = whole_of(base, given);
    const char *path = whole.path;
    struct name *name = name_find(disk, path);
    if (name && name->now)
        return GW_OK;
    enum gw_status status = change(disk, path, error);
    if (status == GW_OK)
        inode_set(&name_make(disk, path)->now, inode_new(1));
    return status;
}

static enum gw_status
disk_sync_dir(struct gw_disk *base, const char *given, struct gw_error *error)
{
    struct gw_sim_disk *disk = disk_of(base);
    const struct whole whole = whole_of(base, given);
    const char *path = whole.path;
    enum gw_status status = change(disk, path, error);
    if (status != GW_OK)
        return status;
    for (struct name *one = disk->names; one; one = one->next)
        if (name_in(path, one->path))
            inode_set(&one->synced, one->now);
    return GW_OK;
}

static enum gw_status disk_list(struct gw_disk *base,
                                const char *given,
                                void (*each)(void *owner, const char *name),
                                void *owner,
                                struct gw_error *error)
{
    struct gw_sim_disk *disk = disk_of(base);
    const struct whole whole = whole_of(base, given);
    const char *path = whole.path;
    struct name *dir = name_find(disk, path);
    if (!dir || !dir->now || !dir->now->is_dir)
        return gw_fail(error, GW_ENOENT, "cannot list directory %s", path);
    for (struct name *one = disk->names; one; one = one->next) {
        const char *name = name_in(path, one->path);
        if (one->now && name)
            each(owner, name);
    }
    return GW_OK;
}

static enum gw_status disk_enter(struct gw_disk *base,
                                 const char *given,
                                 struct gw_disk *dir_p,
                                 struct gw_error *error)
{
    struct gw_sim_disk *disk = disk_of(base);
    const struct whole whole = whole_of(base, given);
    const struct name *name = name_find(disk, whole.path);
    if (!name || !name->now || !name->now->is_dir)
        return gw_fail(error, GW_ENOENT,
                       "cannot open directory %s: No such file or directory",
                       whole.path);
    struct gw_disk_dir *dir = calloc(1, sizeof *dir);
    assert(dir);
    dir->disk = disk;
    memcpy(dir->name, whole.path, sizeof dir->name);
    *dir_p = (struct gw_disk){.ops = base->ops,
                              .dir = dir,
                              .name = dir->name,
                              .access = base->access};
    return GW_OK;
}

static void disk_leave(struct gw_disk *dir)
{
    free(dir->dir);
    *dir = (struct gw_disk){0};
}

static int disk_doubt(struct gw_disk *dir, char *text, size_t room)
{
    (void)dir;
    (void)text;
    (void)room;
    return 0;
}

static const struct gw_disk_ops sim_disk_ops = {
    .open = disk_open,
    .close = disk_close,
    .read = disk_read,
    .write = disk_write,
    .size = disk_size,
    .reserve = disk_reserve,
    .flush = disk_flush,
    .sync = disk_sync,
    .rename = disk_rename,
    .remove = disk_remove,
    .make_dir = disk_make_dir,
    .sync_dir = disk_sync_dir,
    .list = disk_list,
    .enter = disk_enter,
    .leave = disk_leave,
    .doubt = disk_doubt,
};

struct gw_disk *gw_sim_disk_of(struct gw_sim *sim, const char *host)
{
    for (struct gw_sim_disk *one = sim->disks; one; one = one->next)
        if (strcmp(one->host, host) == 0)
            return &one->base;
    struct gw_sim_disk *disk = calloc(1, sizeof *disk);
    if (!disk)
        return NULL;
    disk->whole.disk = disk;
    disk->base =
        (struct gw_disk){.ops = &sim_disk_ops, .dir = &disk->whole, .name = ""};
    disk->sim = sim;
    snprintf(disk->host, sizeof disk->host, "%s", host);
    disk->next = sim->disks;
    sim->disks = disk;
    return &disk->base;
}

void gw_sim_disk_free(struct gw_sim_disk *disk)
{
    struct gw_sim_disk **at = &disk->sim->disks;
    while (*at != disk)
        at = &(*at)->next;
    *at = disk->next;
    while (disk->names) {
        struct name *name = disk->names;
        disk->names = name->next;
        inode_set(&name->now, NULL);
        inode_set(&name->synced, NULL);
        free(name);
    }
    free(disk);
}

void gw_sim_disk_fail(struct gw_loop *loop,
                      uint64_t operation,
                      enum gw_status status)
{
    struct gw_sim_disk *disk = disk_of(loop->disk);
    disk->fail_at = disk->operations + operation;
    disk->fail_status = status;
}

void gw_sim_disk_slow(struct gw_loop *loop, uint64_t sync_us)
{
    disk_of(loop->disk)->sync_us = sync_us;
}

uint64_t gw_sim_disk_late_us(struct gw_disk *base)
{
    struct gw_sim_disk *disk = disk_of(base);
    uint64_t late_us = disk->late_us;
    disk->late_us = 0;
    return late_us;
}

uint64_t gw_sim_disk_operations(const struct gw_loop *loop)
{
    return disk_of(loop->disk)->operations;
}

void gw_sim_disk_restart(struct gw_loop *loop)
{
    struct gw_sim_disk *disk = disk_of(loop->disk);
    disk->dead = 0;
    disk->fail_at = 0;
    for (struct name *one = disk->names; one; one = one->next) {
        inode_set(&one->now, one->synced);
        if (one->now)
            bytes_copy(&one->now->now, &one->now->synced);
    }
}
