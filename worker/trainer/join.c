#include "config.h"

#include "worker/trainer/join.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/login.h"
#include "proto/text.h"
#include "transport/link/loop.h"
#include "transport/link/paths.h"
#include "transport/member/ask.h"
#include "transport/member/place.h"
#include "transport/member/secret_fd.h"
#include "worker/trainer/environment.h"

/* Descriptors beyond are no launcher's. */
#define SECRET_FD_MAX 1000

/* The time to tell why this member does not come. */
#define DECLINE_US 1000000

/* ---- what a launcher says ---- */

/* Such launchers number their processes, too: without that a variable was left
   behind, or is missing. */
static enum gw_status check_master(const struct gw_join_options *options,
                                   struct gw_error *error)
{
    if (gw_environment_get(GW_ENVIRONMENT_COORDINATOR) ||
        options->rank != GW_RANK_NONE || gw_environment_get("RANK"))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "MASTER_ADDR is set, and RANK is not: set RANK to the "
                   "number of this process, 0 to cluster.workers - 1, or join "
                   "by " GW_ENVIRONMENT_COORDINATOR " alone");
}

static enum gw_status take_coordinator(struct gw_join_options *options,
                                       struct gw_error *error)
{
    const char *from;
    if (options->coordinator && options->coordinator[0])
        return GW_OK;
    options->coordinator = gw_environment_coordinator(
        options->address, sizeof options->address, &from);
    if (!options->coordinator)
        return gw_fail(error, GW_EUSAGE,
                       "no coordinator to join: start the program by gradweir "
                       "run, or set " GW_ENVIRONMENT_COORDINATOR
                       ", or MASTER_ADDR, MASTER_PORT and RANK, to the address "
                       "that the coordinator prints");
    enum gw_status status =
        gw_text_address(from, options->coordinator, 0, error);
    return status == GW_OK ? check_master(options, error) : status;
}

static enum gw_status take_secret(struct gw_join_options *options,
                                  struct gw_error *error)
{
    static const char name[] = GW_ENVIRONMENT_SECRET_FD;
    const char *text = gw_environment_get(name);
    uint64_t fd;
    if (!text || options->secret)
        return GW_OK;
    if (gw_text_number(name, text, 3, SECRET_FD_MAX, &fd, error) != GW_OK)
        return error->status;
    if (gw_secret_read((int)fd, &options->handed, error) != GW_OK)
        return gw_fail_in(error,
                          "%s: a program between the launcher and this one "
                          "has closed it",
                          name);
    options->secret = &options->handed;
    return GW_OK;
}

enum gw_status gw_join_environment(struct gw_join_options *options,
                                   struct gw_error *error)
{
    enum gw_status status = take_coordinator(options, error);
    if (status == GW_OK)
        status = take_secret(options, error);
    if (status == GW_OK && options->rank == GW_RANK_NONE)
        status = gw_environment_rank(&options->rank, error);
    if (options->wait_us == 0)
        options->wait_us = GW_JOIN_WAIT_S * UINT64_C(1000000);
    options->compare_world = 1;
    return status;
}

/* ---- the job ---- */

/* A key of the job is set where the coordinator is started. */
static enum gw_status check_key(const char *set, struct gw_error *error)
{
    char name[GW_STRING_MAX] = "";
    size_t bytes = strcspn(set, "= \t");
    if (bytes < sizeof name)
        memcpy(name, set, bytes);
    const struct gw_config_key *key = gw_config_find(name);
    if (key && key->local)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "--set: %s: is the job's, not this host's; set it where the "
                   "coordinator is started",
                   name);
}

static enum gw_status set_own(const struct gw_join_options *options,
                              struct gw_config *config,
                              struct gw_error *error)
{
    for (size_t i = 0; i < options->sets; i++)
        if (gw_config_set(config, options->set[i], error) != GW_OK)
            return gw_fail_in(error, "--set");
    return GW_OK;
}

enum gw_status gw_join_check(const struct gw_join_options *options,
                             struct gw_error *error)
{
    struct gw_config *scratch = malloc(sizeof *scratch);
    enum gw_status status = GW_OK;
    if (!scratch)
        return gw_fail(error, GW_ENOMEM, "no memory for settings");
    gw_config_default(scratch);
    for (size_t i = 0; i < options->sets && status == GW_OK; i++) {
        status = gw_config_set(scratch, options->set[i], error);
        if (status != GW_OK)
            gw_fail_in(error, "--set");
        else
            status = check_key(options->set[i], error);
    }
    free(scratch);
    return status;
}

static enum gw_status read_job(const struct gw_join_options *options,
                               const char *text,
                               struct gw_config *config,
                               struct gw_error *error)
{
    gw_config_default(config);
    if (gw_config_parse(config, "job", text, error) != GW_OK)
        return gw_fail_in(error, "the coordinator's job");
    enum gw_status status = set_own(options, config, error);
    if (status == GW_OK)
        status = gw_paths_root(config, NULL, error);
    return status == GW_OK ? gw_config_check(config, error) : status;
}

/* This host's own settings are in no job: the line says where they are. */
static enum gw_status check_host(const struct gw_config *config,
                                 struct gw_error *error)
{
    if (gw_place_own(config, error) == GW_OK)
        return GW_OK;
    return gw_fail_in(error, "--set");
}

enum gw_status gw_join_job(const struct gw_join_options *options,
                           struct gw_config *config,
                           int *heard_p,
                           struct gw_error *error)
{
    char *text;
    gw_config_default(config);
    if (gw_join_check(options, error) != GW_OK ||
        set_own(options, config, error) != GW_OK)
        return error->status;
    const struct gw_ask_options ask = {
        .coordinator = options->coordinator,
        .interface = config->cluster.control_interface,
        .request = GW_ASK_JOB,
        .wait_us = options->wait_us,
        .log = options->log,
        .gives_up = options->gives_up,
        .owner = options->owner,
    };
    enum gw_status status = gw_ask(&ask, &text, error);
    if (status != GW_OK)
        return status;
    *heard_p = 1;
    status = read_job(options, text, config, error);
    free(text);
    if (status == GW_OK && options->compare_world)
        status = gw_environment_compare(config->cluster.workers, options->log,
                                        error);
    return status == GW_OK ? check_host(config, error) : status;
}

int gw_join_decline(const struct gw_join_options *options,
                    const struct gw_join *member)
{
    char *text = NULL;
    struct gw_error error;
    const struct gw_ask_options ask = {
        .coordinator = options->coordinator,
        .interface = "", /* a wrong one may be the reason */
        .decline = member,
        .secret = options->secret,
        .limit_us = DECLINE_US,
        .log = options->log,
    };
    enum gw_status status = gw_ask(&ask, &text, &error);
    free(text);
    return status == GW_OK;
}

static void fill_in(const struct gw_join_options *options,
                    const struct gw_config *config,
                    struct gw_joining *joining)
{
    int is_near = gw_place_is_loopback(options->coordinator);
    gw_host_name(joining->host);
    joining->rank = (struct gw_rank_options){
        .client = {.loop = joining->loop,
                   .transport = joining->routes.control,
                   .data = joining->routes.data,
                   .host_group = joining->routes.host_group,
                   .interface = config->cluster.interface,
                   .control_interface = config->cluster.control_interface,
                   .secret = options->secret,
                   .coordinator = options->coordinator,
                   .host = joining->host,
                   .machine = gw_host_machine(),
                   .pid = (uint32_t)getpid(),
                   .rank = options->rank,
                   .join_us = options->wait_us,
                   .silence_us = gw_config_silence_us(config, is_near),
                   .log = options->log,
                   .metrics = &joining->metrics,
                   .gives_up = options->gives_up,
                   .owner = options->owner},
        .local = config,
        .opened = options->opened,
        .owner = options->owner,
    };
}

enum gw_status gw_joining_open(const struct gw_join_options *options,
                               const struct gw_config *config,
                               struct gw_joining *joining,
                               struct gw_error *error)
{
    enum gw_status status = gw_place_guard(config, options->coordinator, error);
    if (status == GW_OK)
        status = gw_place_routes(config, &joining->routes, joining->why,
                                 sizeof joining->why, error);
    if (status == GW_OK)
        status = gw_loop_open_uv(&joining->loop, error);
    if (status != GW_OK)
        return status;
    joining->loop->log = options->log;
    fill_in(options, config, joining);
    return GW_OK;
}

void gw_joining_close(struct gw_joining *joining)
{
    if (joining->loop)
        gw_loop_close(joining->loop);
    joining->loop = NULL;
}

/* The coordinator may wait for this worker. */
static void decline(const struct gw_join_options *options,
                    const struct gw_error *error)
{
    char host[GW_HOST_NAME_MAX];
    gw_host_name(host);
    const struct gw_join member = {.role = GW_ROLE_WORKER,
                                   .host = host,
                                   .machine = gw_host_machine(),
                                   .pid = (uint32_t)getpid(),
                                   .address = "",
                                   .rank = options->rank,
                                   .cannot = error->text};
    gw_join_decline(options, &member);
}

enum gw_status gw_join_rank(const struct gw_join_options *options,
                            struct gw_joining *joining,
                            struct gw_rank **rank_p,
                            struct gw_error *error)
{
    int heard = 0;
    *rank_p = NULL;
    enum gw_status status = gw_join_job(options, &joining->own, &heard, error);
    if (status == GW_OK)
        status = gw_joining_open(options, &joining->own, joining, error);
    if (status == GW_OK)
        return gw_rank_open(&joining->rank, rank_p, error);
    if (heard)
        decline(options, error);
    return status;
}
