#include "config.h"

#include "cli/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/child_run.h"
#include "cli/available.h"
#include "cli/needs.h"
#include "transport/member/place.h"
#include "worker/data/dataset.h"

#define PATH_BYTES 4096 /* longest name that the kernel takes */

/* 0, or the errno of a write to that path. */
static int why_not_written(const char *path, int how)
{
    return faccessat(AT_FDCWD, path, how, AT_EACCESS) == 0 ? 0 : errno;
}

/* 0, or the errno with which a missing path could not be made. */
static int why_not_made(const char *path)
{
    char parent[PATH_BYTES];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (!slash)
        strcpy(parent, ".");
    else
        /* with its slash, so that it must be a directory */
        slash[1] = '\0';
    return why_not_written(parent, W_OK | X_OK);
}

static enum gw_status check_json(const char *file, struct gw_error *error)
{
    struct stat info;
    int number;
    if (!file || strcmp(file, "-") == 0)
        return GW_OK;
    if (stat(file, &info) != 0)
        number = errno == ENOENT ? why_not_made(file) : errno;
    else
        number = S_ISDIR(info.st_mode) ? EISDIR : why_not_written(file, W_OK);
    if (number == 0)
        return GW_OK;
    return gw_fail(error, GW_EIO, "--json: %s cannot be opened: %s", file,
                   strerror(number));
}

static enum gw_status check_log_dir(const char *dir, struct gw_error *error)
{
    struct stat info;
    int number = 0;
    if (!dir[0])
        return GW_OK;
    if (stat(dir, &info) == 0) {
        number =
            S_ISDIR(info.st_mode) ? why_not_written(dir, W_OK | X_OK) : ENOTDIR;
        if (number)
            return gw_fail(error, GW_EIO, "log.dir: %s cannot be opened: %s",
                           dir, strerror(number));
        return GW_OK;
    }
    number = errno == ENOENT ? why_not_made(dir) : errno;
    if (number)
        return gw_fail(error, GW_EIO, "log.dir %s cannot be made: %s", dir,
                       strerror(number));
    return GW_OK;
}

/* Missing parents are made too, so the first existing one decides. */
static enum gw_status check_dir(const char *dir, struct gw_error *error)
{
    char path[PATH_BYTES];
    struct stat info;
    for (size_t n = 1; dir[n - 1] && n < sizeof path; n++) {
        if ((dir[n] != '/' && dir[n] != '\0') || dir[n - 1] == '/')
            continue;
        snprintf(path, n + 1, "%s", dir);
        if (stat(path, &info) == 0)
            continue;
        int number = errno == ENOENT ? why_not_made(path) : errno;
        if (number == 0)
            return GW_OK;
        return gw_fail(error, GW_EIO,
                       "checkpoint.dir: cannot make directory %s: %s", path,
                       strerror(number));
    }
    int number = why_not_written(dir, W_OK | X_OK);
    if (number)
        return gw_fail(error, GW_EIO,
                       "checkpoint.dir: cannot create %s/.gradweir-token: %s",
                       dir, strerror(number));
    return GW_OK;
}

static void print_note(void *owner, const char *text)
{
    (void)owner;
    puts(text);
}

enum gw_status gw_check_start(const struct gw_config *config,
                              int resume,
                              const char *json,
                              struct gw_begin *begin,
                              struct gw_error *error)
{
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    const char *dir = config->checkpoint.dir;
    char address[GW_ADDRESS_MAX], why[256];
    struct gw_routes routes;
    *begin = (struct gw_begin){
        .disk = &disk,
        .dir = dir,
        .resume = resume ? dir : NULL,
        .config = config,
        .note = print_note,
    };
    enum gw_status status = check_log_dir(config->log.dir, error);
    if (status == GW_OK)
        status = check_json(json, error);
    if (status == GW_OK)
        status = gw_place_routes(config, &routes, why, sizeof why, error);
    if (status == GW_OK)
        status = gw_place_address(config, config->cluster.port, address, error);
    if (status == GW_OK)
        status = gw_begin_find(begin, error);
    if (status == GW_OK && dir[0])
        status = check_dir(dir, error);
    if (status == GW_OK)
        status = gw_begin_check_free(begin, error);
    if (status == GW_OK)
        status = gw_begin_check_splits(begin, config, error);
    begin->disk = NULL; /* ours ends here */
    return status;
}

/* Devices that do not tell their memory are not counted. */
static enum gw_status look_at_devices(const struct gw_worker_case *what,
                                      struct gw_needs_host *host,
                                      struct gw_error *error)
{
    struct gw_device_room room;
    if (what->backend->on_host)
        return GW_OK;
    enum gw_status status = gw_device_look(
        what->config, (uint32_t)what->config->cluster.workers, &room, error);
    if (status == GW_OK) {
        host->devices = room.devices;
        host->device_bytes = room.free_bytes;
        host->device_what = "free";
    }
    return status == GW_ENOMEM ? status : GW_OK;
}

static enum gw_status look_at_needs(const struct gw_worker_case *what,
                                    struct gw_error *error)
{
    const struct gw_available available = gw_available_here("");
    struct gw_needs_host host = {
        .name = "this host",
        .workers = what->config->cluster.workers,
        .servers = what->config->cluster.servers,
        .all = 1,
        .bytes = available.bytes,
        .what = available.what,
        .device_bytes = UINT64_MAX,
    };
    enum gw_status status = look_at_devices(what, &host, error);
    return status == GW_OK ? gw_needs_check(what, &host, error) : status;
}

/* Several GPUs may have to start their driver first; their users report
   more. */
#define PATIENCE_S 60

/* Errors of the data, the model or the device are reported when they are
   opened. */
static enum gw_status look(const void *owner, struct gw_error *said)
{
    const struct gw_config *config = owner;
    struct gw_dataset *train = NULL, *test = NULL;
    struct gw_error other;
    struct gw_worker_case what = {
        .config = config,
        .backend = gw_backend_find(config->worker.device, &other)};
    if (!what.backend ||
        gw_dataset_look(config, GW_DATASET_TRAIN, &train, &other) != GW_OK)
        return GW_OK;
    what.train = train;
    if (config->data.test.n > 0 &&
        gw_dataset_look(config, GW_DATASET_TEST, &test, &other) == GW_OK)
        what.test = test;
    enum gw_status status = look_at_needs(&what, said);
    gw_dataset_close(test);
    gw_dataset_close(train);
    return status;
}

enum gw_status gw_check_memory(const struct gw_config *config,
                               struct gw_error *error)
{
    struct gw_error said = {.text = ""};
    if (gw_child_run(look, config, PATIENCE_S, &said) != GW_ENOMEM)
        return GW_OK;
    *error = said;
    return said.status;
}
