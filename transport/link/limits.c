#include "config.h"

#include "transport/link/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- open files ---- */

void gw_limits_raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static uint64_t limit_of(__rlimit_resource_t what)
{
    struct rlimit limit;
    if (getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

uint64_t gw_limits_files(void)
{
    return limit_of(RLIMIT_NOFILE);
}

const char *gw_limits_why_no_file(int number, char why[GW_LIMITS_WHY_BYTES])
{
    if (number == EMFILE)
        snprintf(why, GW_LIMITS_WHY_BYTES,
                 "a process may have %" PRIu64 " open files here, and this one "
                 "has them: ulimit -n (nofile in /etc/security/limits.conf)",
                 gw_limits_files());
    else if (number == ENFILE)
        snprintf(why, GW_LIMITS_WHY_BYTES,
                 "this host has as many open files as it may: sysctl "
                 "fs.file-max");
    else
        snprintf(why, GW_LIMITS_WHY_BYTES, "%s", strerror(number));
    return why;
}

/* ---- processes and threads ---- */

#define PATH_BYTES 512

/* Reads a number in a file of a cgroup; UINT64_MAX: "max", or no file. */
static uint64_t
read_number(const char *root, const char *group, const char *file)
{
    char path[PATH_BYTES], word[32] = "";
    snprintf(path, sizeof path, "%s%.300s/%s", root, group, file);
    FILE *from = fopen(path, "re");
    if (!from)
        return UINT64_MAX;
    int got = fgets(word, sizeof word, from) != NULL;
    fclose(from);
    return got && word[0] >= '0' && word[0] <= '9' ? strtoull(word, NULL, 10)
                                                   : UINT64_MAX;
}

/* The limit of the first cgroup, from this one outward, that is reached;
   UINT64_MAX: none is. */
static uint64_t reached_in(const char *root, char *group)
{
    for (;;) {
        uint64_t most = read_number(root, group, "pids.max");
        uint64_t now = read_number(root, group, "pids.current");
        char *slash = strrchr(group, '/');
        if (most != UINT64_MAX && now != UINT64_MAX && now >= most)
            return most;
        if (!slash)
            return UINT64_MAX;
        *slash = '\0';
    }
}

/* Finds the cgroup that limits this process: "8:pids:/a/b", or "0::/a/b". */
static uint64_t reached_of_container(void)
{
    char line[PATH_BYTES];
    uint64_t most = UINT64_MAX;
    FILE *groups = fopen("/proc/self/cgroup", "re");
    while (groups && most == UINT64_MAX && fgets(line, sizeof line, groups)) {
        char *name = strchr(line, ':');
        char *path = name ? strchr(name + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (strcmp(name, ":pids") == 0)
            most = reached_in("/sys/fs/cgroup/pids", path);
        else if (strcmp(name, ":") == 0)
            most = reached_in("/sys/fs/cgroup", path);
    }
    if (groups)
        fclose(groups);
    return most;
}

const char *gw_limits_why_no_process(int number, char why[GW_LIMITS_WHY_BYTES])
{
    uint64_t container = number == EAGAIN ? reached_of_container() : UINT64_MAX;
    uint64_t user = limit_of(RLIMIT_NPROC);
    if (container < user)
        snprintf(why, GW_LIMITS_WHY_BYTES,
                 "this container may have %" PRIu64 " processes and threads: "
                 "--pids-limit (pids.max of its cgroup, TasksMax of a service)",
                 container);
    else if (number == EAGAIN && user != UINT64_MAX)
        snprintf(why, GW_LIMITS_WHY_BYTES,
                 "this user may have %" PRIu64 " processes and threads: ulimit "
                 "-u (nproc in /etc/security/limits.conf)",
                 user);
    else
        snprintf(why, GW_LIMITS_WHY_BYTES, "%s", strerror(number));
    return why;
}

/* Blocks trial threads until all have started. */
struct trial {
    pthread_mutex_t mutex;
};

static void *wait_for_trial(void *argument)
{
    struct trial *trial = argument;
    pthread_mutex_lock(&trial->mutex);
    pthread_mutex_unlock(&trial->mutex);
    return NULL;
}

/* Returns how many could be started; if not n, with the reason. */
static unsigned
start_threads(pthread_t *thread, unsigned n, char why[GW_LIMITS_WHY_BYTES])
{
    struct trial trial = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_attr_t small;
    unsigned started = 0;
    int failed = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, (size_t)PTHREAD_STACK_MIN + 65536);
    pthread_mutex_lock(&trial.mutex);
    while (started < n && !failed) {
        failed =
            pthread_create(&thread[started], &small, wait_for_trial, &trial);
        started += !failed;
    }
    if (failed) /* while they run: a limit that is reached shows now */
        gw_limits_why_no_process(failed, why);
    pthread_mutex_unlock(&trial.mutex);
    for (unsigned i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_attr_destroy(&small);
    return started;
}

enum gw_status
gw_limits_try_threads(const char *who, unsigned n, struct gw_error *error)
{
    char why[GW_LIMITS_WHY_BYTES];
    pthread_t *thread = calloc(n + 1, sizeof *thread);
    if (!thread)
        return gw_fail(error, GW_ENOMEM, "no memory for %u threads", n);
    unsigned started = start_threads(thread, n, why);
    free(thread);
    if (started == n)
        return GW_OK;
    return gw_fail(error, GW_ENOMEM,
                   "%s needs %u more processes and threads, and %u can be "
                   "started: %s",
                   who, n, started, why);
}

unsigned gw_limits_pool_threads(void)
{
    const char *told = getenv("UV_THREADPOOL_SIZE");
    unsigned long threads = told ? strtoul(told, NULL, 10) : 4;
    return threads < 1 ? 1 : threads > 1024 ? 1024 : (unsigned)threads;
}
