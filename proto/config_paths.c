/* Paths of a job: lists of them, and making relative ones absolute. */
#include <config.h>

#include "proto/config.h"

#include <stdio.h>
#include <string.h>

#include "proto/config_value.h"

const char *gw_path_at(const struct gw_path_list *list, size_t i)
{
    const char *at = list->text;
    for (; i > 0; i--)
        at += strlen(at) + 1;
    return at;
}

int gw_path_add(struct gw_path_list *list, const char *path)
{
    size_t at = (size_t)(gw_path_at(list, list->n) - list->text);
    size_t bytes = strlen(path) + 1;
    if (list->n == GW_LIST_MAX || bytes > sizeof list->text - at)
        return 0;
    memcpy(list->text + at, path, bytes);
    list->n++;
    return 1;
}

static enum gw_status too_long(const struct gw_config_key *key,
                               const char *dir,
                               const char *path,
                               struct gw_error *error)
{
    return gw_fail(error, GW_EUSAGE,
                   "%s: \"%.64s\" is too long a path below %s", key->name, path,
                   dir);
}

/* Makes `path` absolute, in at most `most` bytes with its end; 0: it is longer.
 */
static int
root(const char *dir, const char *path, char out[GW_PATH_BYTES], size_t most)
{
    const char *slash = dir[0] && dir[strlen(dir) - 1] != '/' ? "/" : "";
    int below = path[0] && path[0] != '/';
    while (below && path[0] == '.' && path[1] == '/')
        path += 2 + strspn(path + 2, "/");
    int n = below ? snprintf(out, most, "%s%s%s", dir, slash, path)
                  : snprintf(out, most, "%s", path);
    return n >= 0 && (size_t)n < most;
}

static enum gw_status root_list(struct gw_path_list *list,
                                const struct gw_config_key *key,
                                const char *dir,
                                struct gw_error *error)
{
    struct gw_path_list rooted = {.n = 0};
    char path[GW_PATH_BYTES];
    for (size_t i = 0; i < list->n; i++)
        if (!root(dir, gw_path_at(list, i), path, sizeof path) ||
            !gw_path_add(&rooted, path))
            return too_long(key, dir, gw_path_at(list, i), error);
    *list = rooted;
    return GW_OK;
}

enum gw_status gw_config_root_paths(struct gw_config *config,
                                    const char *dir,
                                    struct gw_error *error)
{
    enum gw_status status = GW_OK;
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    for (size_t i = 0; i < n && status == GW_OK; i++) {
        void *place = (char *)config + keys[i].offset;
        char path[GW_PATH_BYTES];
        if (keys[i].type == GW_TYPE_PATHS)
            status = root_list(place, &keys[i], dir, error);
        if (keys[i].type != GW_TYPE_PATH)
            continue;
        if (root(dir, place, path, gw_config_text_max(&keys[i])))
            memcpy(place, path, strlen(path) + 1);
        else
            status = too_long(&keys[i], dir, place, error);
    }
    return status;
}

static int is_relative(const char *path)
{
    return path[0] && path[0] != '/';
}

int gw_config_has_relative(const struct gw_config *config)
{
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    for (size_t i = 0; i < n; i++) {
        const void *place = (const char *)config + keys[i].offset;
        const struct gw_path_list *list = place;
        if (keys[i].type == GW_TYPE_PATH && is_relative(place))
            return 1;
        for (size_t p = 0; keys[i].type == GW_TYPE_PATHS && p < list->n; p++)
            if (is_relative(gw_path_at(list, p)))
                return 1;
    }
    return 0;
}

/* The path relative to `dir`, or unchanged when it does not lie below it. */
static const char *unrooted(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

void gw_config_unroot_paths(struct gw_config *config, const char *dir)
{
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    for (size_t i = 0; i < n; i++) {
        void *place = (char *)config + keys[i].offset;
        if (keys[i].type == GW_TYPE_PATH) {
            const char *path = unrooted(dir, place);
            memmove(place, path, strlen(path) + 1);
        } else if (keys[i].type == GW_TYPE_PATHS) {
            struct gw_path_list *list = place, shorter = {.n = 0};
            for (size_t p = 0; p < list->n; p++)
                gw_path_add(&shorter, unrooted(dir, gw_path_at(list, p)));
            *list = shorter;
        }
    }
}
