#include "config.h"

#include "cli/room.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/groups.h"
#include "transport/link/limits.h"

/* Standard streams, parent, logs, loops, listeners, memory, data, and
   short-lived ones: checkpoints, names, a descriptor in transit. */
#define FILES_BESIDE 32

/* A shard's loop, its listeners, its links to the coordinator and shard 0. */
#define FILES_SHARD 8

/* The launcher's own, without the children's links. */
#define FILES_LAUNCHER 16

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The threads of a server, standbys included. */
static uint64_t shards_of(const struct gw_config *config)
{
    return config->server.threads * config->cluster.copies;
}

/* A link is a socket; over shm a server shares memory with each worker. */
static uint64_t files_of_server(const struct gw_config *config)
{
    uint64_t threads = shards_of(config);
    uint64_t worker = gw_config_connections(config) + 1;
    return threads * (FILES_SHARD + config->cluster.workers * worker) +
           config->cluster.servers * threads;
}

/* Also memory that workers of a host share. */
static uint64_t files_of_worker(const struct gw_config *config)
{
    uint64_t shards = config->cluster.servers * config->server.threads;
    uint64_t near = least(config->cluster.workers, GW_GROUP_MAX) - 1;
    return shards * gw_config_connections(config) + 2 * near;
}

uint64_t gw_room_files(const struct gw_config *config, enum gw_role role)
{
    uint64_t shards = config->cluster.servers * shards_of(config);
    switch (role) {
    case GW_ROLE_COORDINATOR:
        return FILES_BESIDE + config->cluster.workers + shards;
    case GW_ROLE_SERVER:
        return FILES_BESIDE + files_of_server(config);
    case GW_ROLE_WORKER:
        return FILES_BESIDE + files_of_worker(config);
    default:
        return FILES_LAUNCHER + config->cluster.workers +
               config->cluster.servers;
    }
}

/* Threads of a process of that role, the first among them. */
static unsigned threads_of(const struct gw_config *config, enum gw_role role)
{
    unsigned each = 2 + gw_limits_pool_threads(); /* first, watch */
    switch (role) {
    case GW_ROLE_COORDINATOR:
        return each + 1; /* the printer */
    case GW_ROLE_SERVER:
        return each + (unsigned)shards_of(config) - 1;
    case GW_ROLE_WORKER:
        return each + 1 + (unsigned)config->worker.threads - 1;
    default:
        return 1;
    }
}

static enum gw_status check_files(const struct gw_config *config,
                                  enum gw_role role,
                                  const char *whose,
                                  struct gw_error *error)
{
    uint64_t needed = gw_room_files(config, role), most = gw_limits_files();
    if (needed <= most)
        return GW_OK;
    return gw_fail(error, GW_ENOMEM,
                   "%s of this job needs %" PRIu64
                   " open files, and a process may have %" PRIu64
                   " here: ulimit -n %" PRIu64
                   " (nofile in /etc/security/limits.conf, LimitNOFILE of a "
                   "service), or fewer workers, servers, server.threads or "
                   "cluster.connections",
                   whose, needed, most, needed);
}

enum gw_status gw_room_check(const struct gw_config *config,
                             enum gw_role role,
                             struct gw_error *error)
{
    char whose[32];
    snprintf(whose, sizeof whose, "this %s", gw_role_name((uint8_t)role));
    enum gw_status status = check_files(config, role, whose, error);
    if (status == GW_OK)
        status =
            gw_limits_try_threads(whose, threads_of(config, role) - 2, error);
    return status;
}

enum gw_status gw_room_check_job(const struct gw_config *config,
                                 struct gw_error *error)
{
    static const struct {
        enum gw_role role;
        const char *whose;
    } all[] = {
        {GW_ROLE_OBSERVER, "the launcher"},
        {GW_ROLE_COORDINATOR, "the coordinator"},
        {GW_ROLE_SERVER, "a server"},
        {GW_ROLE_WORKER, "a worker"},
    };
    enum gw_status status = GW_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && status == GW_OK; i++)
        status = check_files(config, all[i].role, all[i].whose, error);
    uint64_t threads =
        threads_of(config, GW_ROLE_COORDINATOR) +
        config->cluster.servers * threads_of(config, GW_ROLE_SERVER) +
        config->cluster.workers * threads_of(config, GW_ROLE_WORKER);
    if (status == GW_OK)
        status = gw_limits_try_threads("this job", (unsigned)threads, error);
    return status;
}
