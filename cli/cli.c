/* Helpers of subcommands: options, jobs, error lines. */
#include "config.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/text.h"
#include "transport/link/paths.h"
#include "worker/trainer/environment.h"

enum gw_exit gw_cli_exit(enum gw_status status)
{
    switch (status) {
    case GW_OK:
        return GW_EXIT_DONE;
    case GW_EUSAGE:
        return GW_EXIT_USAGE;
    case GW_EINTERRUPTED:
    case GW_ERESUMABLE:
        return GW_EXIT_INTERRUPTED;
    default:
        return GW_EXIT_FAILED;
    }
}

enum gw_exit gw_cli_fail(const struct gw_error *error)
{
    fprintf(stderr, "gradweir: %s\n", error->text);
    return gw_cli_exit(error->status);
}

enum gw_exit gw_cli_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("gradweir: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return GW_EXIT_USAGE;
}

enum gw_status gw_cli_job_set(struct gw_cli_job *job,
                              const char *assignment,
                              struct gw_error *error)
{
    if (job->sets == GW_CLI_SETS_MAX)
        return gw_fail(error, GW_EUSAGE, "--set: given more than %d times",
                       GW_CLI_SETS_MAX);
    job->set[job->sets++] = assignment;
    return GW_OK;
}

enum gw_status gw_cli_job_count(struct gw_cli_job *job,
                                const char *key,
                                const char *value,
                                struct gw_error *error)
{
    char option[16];
    char *text = strcmp(key, "workers") == 0 ? job->workers : job->servers;
    uint64_t number;
    snprintf(option, sizeof option, "--%s", key);
    if (gw_text_number(option, value, 1, 4096, &number, error) != GW_OK)
        return error->status;
    snprintf(text, GW_CLI_COUNT_MAX, "cluster.%s=%.40s", key, value);
    return gw_cli_job_set(job, text, error);
}

enum gw_status gw_cli_job_device(struct gw_cli_job *job,
                                 const char *name,
                                 struct gw_error *error)
{
    if (strpbrk(name, "\"\\") || strlen(name) >= GW_STRING_MAX)
        return gw_fail(error, GW_EUSAGE, "--device: \"%.40s\" is no device",
                       name);
    snprintf(job->device, sizeof job->device, "worker.device=\"%s\"", name);
    return gw_cli_job_set(job, job->device, error);
}

/* The text of a job file or pipe; the caller frees it. GW_EUSAGE with a line.
 */
static enum gw_status
job_text(const struct gw_cli_job *job, char **text_p, struct gw_error *error)
{
    enum gw_status status = GW_OK;
    const size_t room = GW_JOB_TEXT_MAX + 2;
    size_t used = 0;
    char *text = malloc(room);
    int fd = job->lent ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                       : open(job->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !text) {
        status = gw_fail(error, GW_EUSAGE, "%s: cannot be opened: %s",
                         job->file, strerror(errno));
        goto out;
    }
    while (used < room - 1) {
        ssize_t got = read(fd, text + used, room - 1 - used);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            status = gw_fail(error, GW_EUSAGE, "%s: cannot be read: %s",
                             job->file, strerror(errno));
            goto out;
        }
        used += (size_t)got;
    }
    text[used] = '\0';
    if (strlen(text) < used) {
        status = gw_fail(error, GW_EUSAGE, "%s: is no text", job->file);
        goto out;
    }
    *text_p = text;
    text = NULL;

out:
    if (fd >= 0)
        close(fd);
    free(text);
    return status;
}

/* A --set that voids another key's value writes a line. */
static enum gw_status set_aloud(const struct gw_cli_job *job,
                                const char *assignment,
                                struct gw_config *config,
                                struct gw_error *error)
{
    uint64_t before = 0, after = 0;
    gw_config_rival(config, assignment, &before);
    if (gw_config_set(config, assignment, error) != GW_OK)
        return gw_fail_in(error, "--set");
    const struct gw_config_key *rival =
        gw_config_rival(config, assignment, &after);
    if (rival && before > 0 && after == 0 && !job->quiet)
        fprintf(stderr,
                "gradweir: --set %.64s takes the place of %s = %" PRIu64
                ", the later word wins\n",
                assignment, rival->name, before);
    return GW_OK;
}

/* Loads the file's keys, and keeps its text for *job->text_p. */
static enum gw_status load_file(const struct gw_cli_job *job,
                                struct gw_config *config,
                                struct gw_error *error)
{
    char *text = NULL;
    enum gw_status status = job_text(job, &text, error);
    if (status != GW_OK)
        return status;
    status = gw_config_parse(config, job->file, text, error);
    if (status == GW_OK)
        status = gw_paths_root(config, job->file, error);
    if (status == GW_OK && job->text_p)
        *job->text_p = text;
    else
        free(text);
    return status;
}

enum gw_status gw_cli_job_load(const struct gw_cli_job *job,
                               struct gw_config *config,
                               struct gw_error *error)
{
    enum gw_status status = GW_OK;
    gw_config_default(config);
    if (job->fallback)
        status = gw_config_set(config, job->fallback, error);
    if (status == GW_OK && job->file)
        status = load_file(job, config, error);
    for (size_t i = 0; i < job->sets && status == GW_OK; i++)
        status = set_aloud(job, job->set[i], config, error);
    return status ? status : gw_paths_root(config, NULL, error);
}

int gw_cli_core_warning(char *text, size_t room)
{
    const char *core = gw_environment_get("OPENBLAS_CORETYPE");
    if (core)
        snprintf(text, room,
                 "OPENBLAS_CORETYPE=%.64s is inherited: kernels for another "
                 "core can cost a factor of four; unset it",
                 core);
    return core != NULL;
}
