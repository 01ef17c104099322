#include "config.h"

#include "cli/available.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

/* The number after a name in a file of "name number" lines; 0: none. */
static uint64_t field(const char *path, const char *name)
{
    char line[256], word[64];
    uint64_t value, found = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %" SCNu64, word, &value) == 2 &&
            strcmp(word, name) == 0)
            found = value;
    if (file)
        fclose(file);
    return found;
}

/* Reads a file with a number; 0: it has none, such as "max". */
static int number(const char *path, uint64_t *value_p)
{
    FILE *file = fopen(path, "r");
    int found = file && fscanf(file, "%" SCNu64, value_p) == 1;
    if (file)
        fclose(file);
    return found;
}

static void
keep_least(struct gw_available *least, uint64_t bytes, const char *what)
{
    if (bytes >= least->bytes)
        return;
    least->bytes = bytes;
    snprintf(least->what, sizeof least->what, "%s", what);
}

static void look_at_host(const char *root, struct gw_available *least)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    uint64_t available = field(path, "MemAvailable:");
    if (available)
        keep_least(least, (available + field(path, "SwapFree:")) << 10,
                   "available on this host");
}

/* Memory left to a control group; its page cache can be reclaimed. */
static void look_at_group(const char *dir,
                          const char *limit_name,
                          const char *used_name,
                          const char *total,
                          struct gw_available *least)
{
    char path[PATH_BYTES + 64], name[64];
    uint64_t limit, used, files;
    snprintf(path, sizeof path, "%s/%s", dir, limit_name);
    if (!number(path, &limit) || limit > UINT64_MAX / 4)
        return;
    snprintf(path, sizeof path, "%s/%s", dir, used_name);
    if (!number(path, &used))
        return;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    snprintf(name, sizeof name, "%sinactive_file", total);
    files = field(path, name);
    snprintf(name, sizeof name, "%sactive_file", total);
    files += field(path, name);
    used = used > files ? used - files : 0;
    keep_least(least, limit > used ? limit - used : 0,
               "left of the control group's limit");
}

/* The group of a line of /proc/self/cgroup, and its ancestors. */
static void
look_at_groups(const char *root, char *line, struct gw_available *least)
{
    char dir[PATH_BYTES];
    char *names = strchr(line, ':'),
         *group = names ? strchr(names + 1, ':') : 0;
    if (!group)
        return;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    int second = strcmp(names + 1, "") == 0;
    if (!second && strcmp(names + 1, "memory") != 0)
        return;
    for (;;) {
        char *end = strrchr(group, '/');
        snprintf(dir, sizeof dir, "%s/sys/fs/cgroup%s%s", root,
                 second ? "" : "/memory", group);
        if (second)
            look_at_group(dir, "memory.max", "memory.current", "", least);
        else
            look_at_group(dir, "memory.limit_in_bytes", "memory.usage_in_bytes",
                          "total_", least);
        if (!end || group[0] == '\0')
            return;
        *end = '\0';
    }
}

struct gw_available gw_available_here(const char *root)
{
    struct gw_available least = {.bytes = UINT64_MAX,
                                 .what = "not known on this host"};
    char path[PATH_BYTES], line[PATH_BYTES];
    look_at_host(root, &least);
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        look_at_groups(root, line, &least);
    if (file)
        fclose(file);
    return least;
}
