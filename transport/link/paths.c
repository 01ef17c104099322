#include "config.h"

#include "transport/link/paths.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pipe has no folder, and neither has a descriptor's name: it may be a
   regular file here, and nothing in another process of the job. */
static int lies_somewhere(const char *file)
{
    struct stat found;
    if (strcmp(file, "/dev/stdin") == 0 || strncmp(file, "/dev/fd/", 8) == 0 ||
        strncmp(file, "/proc/", 6) == 0)
        return 0;
    return stat(file, &found) != 0 || S_ISREG(found.st_mode);
}

/* Strips "./" and "../" from the front of a path of `*bytes_p` below `dir`, and
   shortens `dir`. No component of `dir` is a symbolic link, so its textual
   parent is its parent. */
static const char *climb(const char *path, size_t *bytes_p, char *dir)
{
    for (;;) {
        size_t dots = strspn(path, ".");
        dots = dots < *bytes_p ? dots : *bytes_p;
        if (dots == 0 || dots > 2 || (dots < *bytes_p && path[dots] != '/'))
            return path;
        char *last = strrchr(dir, '/');
        if (dots == 2)
            last[last == dir] = '\0';
        for (; dots < *bytes_p && path[dots] == '/'; dots++)
            ;
        path += dots;
        *bytes_p -= dots;
    }
}

enum gw_status
gw_paths_dir(const char *file, char dir[GW_PATH_BYTES], struct gw_error *error)
{
    const char *slash =
        file && lies_somewhere(file) ? strrchr(file, '/') : NULL;
    size_t bytes = slash ? (size_t)(slash - file) : 0;
    dir[0] = '\0';
    if (slash && slash == file)
        bytes = 1; /* the root */
    if (bytes == 0 || file[0] != '/') {
        if (!getcwd(dir, GW_PATH_BYTES))
            return gw_fail(error, GW_EIO,
                           "relative paths: the current folder cannot be "
                           "found: %s",
                           strerror(errno));
        file = climb(slash ? file : "", &bytes, dir);
    }
    size_t used = strlen(dir);
    if (used + bytes + 2 > GW_PATH_BYTES)
        return gw_fail(error, GW_EUSAGE, "%s: its path is too long", file);
    if (used > 1 && bytes > 0)
        dir[used++] = '/';
    memcpy(dir + used, file, bytes);
    dir[used + bytes] = '\0';
    return GW_OK;
}

enum gw_status gw_paths_root(struct gw_config *config,
                             const char *file,
                             struct gw_error *error)
{
    char dir[GW_PATH_BYTES];
    if (!gw_config_has_relative(config))
        return GW_OK;
    enum gw_status status = gw_paths_dir(file, dir, error);
    return status ? status : gw_config_root_paths(config, dir, error);
}
