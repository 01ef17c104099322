#include "config.h"

#include "cli/log_file.h"

#include <stdio.h>

#include "transport/link/loop.h"

static void look_around(struct gw_disk *dir, char *doubt, size_t room)
{
    char text[256];
    doubt[0] = '\0';
    if (dir->ops->doubt(dir, text, sizeof text))
        snprintf(doubt, room,
                 "log.dir: %s: logs there can be replaced or taken away", text);
}

enum gw_status gw_log_file_open(const struct gw_log_file *file,
                                int *fd_p,
                                char *doubt,
                                size_t room,
                                struct gw_error *error)
{
    struct gw_disk all = {.ops = &gw_disk_posix_ops, .access = file->access};
    struct gw_disk dir;
    char name[256];
    if (file->name)
        snprintf(name, sizeof name, "%s", file->name);
    else
        snprintf(name, sizeof name, "%s-%s-%u.log", file->role, file->host,
                 file->pid);
    enum gw_status status = all.ops->make_dir(&all, file->dir, error);
    if (status == GW_OK)
        status = all.ops->enter(&all, file->dir, &dir, error);
    if (status != GW_OK)
        return gw_fail_in(error, "log.dir");
    status = gw_disk_append(&dir, name, fd_p, error);
    if (status == GW_OK)
        look_around(&dir, doubt, room);
    dir.ops->leave(&dir);
    return status == GW_OK ? status : gw_fail_in(error, "log.dir");
}
