#include "config.h"

#include "cli/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/paths.h"
#include "cli/place.h"
#include "cli/room.h"
#include "cli/secret.h"
#include "proto/login.h"

/* To tell why this member does not come. */
#define DECLINE_US 1000000

enum gw_status gw_join_take_secret(const struct gw_option *option,
                                   const char *value,
                                   void *to,
                                   struct gw_error *error)
{
    struct gw_join_options *options = to;
    int fd;
    enum gw_status status = gw_option_fd(option, value, &fd, error);
    if (status == GW_OK)
        status = gw_secret_take(fd, &options->secret, error);
    options->has_secret = status == GW_OK;
    return status;
}

/* Keys of the job are set where the job is. */
static enum gw_status check_own(const struct gw_join_options *options,
                                struct gw_error *error)
{
    struct gw_config *scratch = malloc(sizeof *scratch);
    enum gw_status status = GW_OK;
    if (!scratch)
        return gw_fail(error, GW_ENOMEM, "no memory for settings");
    gw_config_default(scratch);
    for (size_t i = 0; i < options->own.sets && status == GW_OK; i++) {
        const char *set = options->own.set[i];
        char name[GW_STRING_MAX] = "";
        status = gw_config_set(scratch, set, error);
        if (status != GW_OK) {
            gw_fail_in(error, "--set");
            break;
        }
        size_t bytes = strcspn(set, "= \t");
        if (bytes < sizeof name)
            memcpy(name, set, bytes);
        const struct gw_config_key *key = gw_config_find(name);
        if (!key || !key->local)
            status = gw_fail(error, GW_EUSAGE,
                             "--set: %s: is the job's, not this host's; set it "
                             "where the coordinator is started",
                             name);
    }
    free(scratch);
    return status;
}

enum gw_status gw_join_complete(struct gw_join_options *options,
                                struct gw_error *error)
{
    const char *host = gw_cli_environment("MASTER_ADDR");
    const char *port = gw_cli_environment("MASTER_PORT");
    const char *from = options->join ? "--join" : "MASTER_ADDR, MASTER_PORT";
    if (!options->join && host && port) {
        snprintf(options->address, sizeof options->address,
                 strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
        options->join = options->address;
    }
    if (!options->join)
        return gw_fail(error, GW_EUSAGE,
                       "%s: --join HOST:PORT is missing, the address that the "
                       "coordinator prints (or MASTER_ADDR and MASTER_PORT)",
                       options->command);
    if (gw_cli_address(from, options->join, 0, error) != GW_OK)
        return error->status;
    return check_own(options, error);
}

static enum gw_status read_job(const struct gw_join_options *options,
                               const char *text,
                               struct gw_config *config,
                               struct gw_error *error)
{
    gw_config_default(config);
    if (gw_config_parse(config, "job", text, error) != GW_OK)
        return gw_fail_in(error, "the coordinator's job");
    for (size_t i = 0; i < options->own.sets; i++)
        if (gw_config_set(config, options->own.set[i], error) != GW_OK)
            return gw_fail_in(error, "--set");
    enum gw_status status = gw_paths_root(config, NULL, error);
    return status ? status : gw_config_check(config, error);
}

/* This host's own settings are what was said here, in no job. */
static enum gw_status check_host(const struct gw_config *config,
                                 struct gw_error *error)
{
    if (gw_place_own(config, error) == GW_OK)
        return GW_OK;
    return gw_fail_in(error, "--set");
}

enum gw_status gw_join_job(struct gw_process *process,
                           struct gw_join_options *options,
                           struct gw_config *config,
                           struct gw_error *error)
{
    char *text;
    gw_config_default(config);
    for (size_t i = 0; i < options->own.sets; i++)
        if (gw_config_set(config, options->own.set[i], error) != GW_OK)
            return gw_fail_in(error, "--set");
    const struct gw_ask_options ask = {
        .coordinator = options->join,
        .interface = config->cluster.control_interface,
        .request = GW_ASK_JOB,
        .wait_us = options->wait_s * 1000000,
        .log = &process->log,
    };
    enum gw_status status = gw_ask(&ask, &text, error);
    if (status != GW_OK)
        return status;
    options->asked = 1;
    status = read_job(options, text, config, error);
    free(text);
    if (status == GW_OK)
        status = check_host(config, error);
    if (status == GW_OK)
        status = gw_process_logs(process, config, error);
    if (status == GW_OK)
        status = gw_process_guard(process, config, options->join, error);
    if (status == GW_OK)
        status = gw_room_check(config, options->role, error);
    return status;
}

void gw_join_decline(struct gw_process *process,
                     const struct gw_join_options *options,
                     uint8_t role,
                     uint32_t rank,
                     const struct gw_error *why)
{
    char *text = NULL;
    struct gw_error error;
    if (!options->asked || atomic_load(&process->joined) ||
        why->status == GW_OK || why->status == GW_EINTERRUPTED)
        return;
    const struct gw_join join = {
        .role = role,
        .host = process->host,
        .machine = process->machine,
        .pid = process->pid,
        .address = "",
        .rank = rank,
        .cannot = why->text,
    };
    const struct gw_ask_options ask = {
        .coordinator = options->join,
        .interface = "", /* a wrong one may be the reason */
        .decline = &join,
        .secret = options->has_secret ? &options->secret : NULL,
        .limit_us = DECLINE_US,
        .log = &process->log,
    };
    /* it tells the same line then */
    process->told = gw_ask(&ask, &text, &error) == GW_OK;
    free(text);
}
