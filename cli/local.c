#include "config.h"

#include "cli/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "worker/trainer/environment.h"

#define DIRECTORY_MAX 4096
#define SUFFIX        ".sock"

/* Lists the directories in their order, at most two. Ignores a relative
   XDG_RUNTIME_DIR, which differs between processes. */
static void name_directories(char names[2][DIRECTORY_MAX], size_t *n_p)
{
    const char *own = gw_environment_get("GRADWEIR_SOCKET_DIR");
    const char *runtime = gw_environment_get("XDG_RUNTIME_DIR");
    *n_p = 0;
    if (own) {
        snprintf(names[(*n_p)++], DIRECTORY_MAX, "%s", own);
        return;
    }
    if (runtime && runtime[0] == '/' && access(runtime, W_OK | X_OK) == 0)
        snprintf(names[(*n_p)++], DIRECTORY_MAX, "%s/gradweir", runtime);
    snprintf(names[(*n_p)++], DIRECTORY_MAX, "/tmp/gradweir-%u",
             (unsigned)geteuid());
}

/*
 * Opens a directory that only this user can enter. Checks the opened descriptor
 * and follows no symbolic link, since in /tmp anybody may have made the name.
 * GW_ENOENT: there is none.
 */
static enum gw_status
open_directory(const char *name, int *fd_p, struct gw_error *error)
{
    struct stat found;
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return gw_fail(error, GW_ENOENT, "there is no directory %s", name);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return gw_fail(error, GW_EREFUSED,
                       "%s is no directory, or a symbolic link; remove it",
                       name);
    if (fd < 0)
        return gw_fail(error, errno == EACCES ? GW_EREFUSED : GW_EIO,
                       "cannot open %s: %s", name, strerror(errno));
    if (fstat(fd, &found) != 0) {
        close(fd);
        return gw_fail(error, GW_EIO, "cannot look at %s: %s", name,
                       strerror(errno));
    }
    if (found.st_uid == geteuid() && (found.st_mode & 077) == 0) {
        *fd_p = fd;
        return GW_OK;
    }
    close(fd);
    if (found.st_uid != geteuid())
        return gw_fail(error, GW_EREFUSED,
                       "%s belongs to another user (%u); set "
                       "GRADWEIR_SOCKET_DIR to a directory of your own",
                       name, (unsigned)found.st_uid);
    return gw_fail(error, GW_EREFUSED,
                   "%s is open to others (mode %04o); see what is there, and "
                   "chmod 700 it",
                   name, (unsigned)found.st_mode & 07777);
}

enum gw_status gw_local_place(uint32_t pid,
                              char path[GW_LOCAL_PATH_MAX],
                              struct gw_error *error)
{
    char names[2][DIRECTORY_MAX];
    size_t n;
    int fd;
    name_directories(names, &n);
    if (mkdir(names[0], S_IRWXU) != 0 && errno != EEXIST)
        return gw_fail(error, GW_EIO, "cannot make the directory %s: %s",
                       names[0], strerror(errno));
    enum gw_status status = open_directory(names[0], &fd, error);
    if (status != GW_OK)
        return status;
    close(fd);
    int bytes = snprintf(path, GW_LOCAL_PATH_MAX, "%.*s/%" PRIu32 SUFFIX,
                         GW_LOCAL_PATH_MAX, names[0], pid);
    if (bytes >= GW_LOCAL_PATH_MAX)
        return gw_fail(error, GW_ERANGE,
                       "%s is too long for a socket's path; set "
                       "GRADWEIR_SOCKET_DIR to a shorter one",
                       names[0]);
    return GW_OK;
}

/* The pid in a socket's file name; 0: none. */
static uint32_t pid_of(const char *name)
{
    char *end;
    unsigned long pid = strtoul(name, &end, 10);
    if (name[0] < '1' || name[0] > '9' || strcmp(end, SUFFIX) != 0 ||
        pid > INT32_MAX)
        return 0;
    return (uint32_t)pid;
}

static void add_job(struct gw_local_jobs *jobs, const char *name, uint32_t pid)
{
    struct gw_local_job job = {.pid = pid};
    size_t at = jobs->n;
    int bytes = snprintf(job.path, sizeof job.path, "%.*s/%" PRIu32 SUFFIX,
                         GW_LOCAL_PATH_MAX, name, pid);
    if (jobs->n == GW_LOCAL_JOBS_MAX || bytes >= GW_LOCAL_PATH_MAX)
        return;
    for (; at > 0 && jobs->job[at - 1].pid > pid; at--)
        jobs->job[at] = jobs->job[at - 1];
    jobs->job[at] = job;
    jobs->n++;
}

static enum gw_status list_directory(const char *name,
                                     struct gw_local_jobs *jobs,
                                     struct gw_error *error)
{
    int fd;
    enum gw_status status = open_directory(name, &fd, error);
    if (status != GW_OK)
        return status;
    DIR *directory = fdopendir(fd);
    if (!directory) {
        close(fd);
        return gw_fail(error, GW_EIO, "cannot read %s: %s", name,
                       strerror(errno));
    }
    for (const struct dirent *one = readdir(directory); one;
         one = readdir(directory)) {
        uint32_t pid = pid_of(one->d_name);
        if (pid)
            add_job(jobs, name, pid);
    }
    closedir(directory);
    return GW_OK;
}

enum gw_status gw_local_list(struct gw_local_jobs *jobs, struct gw_error *error)
{
    char names[2][DIRECTORY_MAX];
    enum gw_status worst = GW_OK;
    size_t n;
    jobs->n = 0;
    name_directories(names, &n);
    for (size_t i = 0; i < n; i++) {
        struct gw_error why;
        enum gw_status status = list_directory(names[i], jobs, &why);
        if (status == GW_OK || status == GW_ENOENT)
            continue;
        worst = status;
        *error = why;
    }
    return jobs->n > 0 ? GW_OK : worst;
}
