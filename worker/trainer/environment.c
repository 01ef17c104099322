#include "config.h"

#include "worker/trainer/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"
#include "proto/login.h"

/* The names that a launcher has for the number of a process, for its number
   within the host, and for the number of processes; NULL: not used here. */
struct launcher {
    const char *rank, *place, *tasks;
};

enum {
    TORCHRUN, /* and gradweir run */
    SLURM,
    OPEN_MPI,
    MPICH,
    LAUNCHERS
};

static const struct launcher launchers[LAUNCHERS] = {
    [TORCHRUN] = {"RANK", "LOCAL_RANK", "WORLD_SIZE"},
    [SLURM] = {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"},
    [OPEN_MPI] = {NULL, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    [MPICH] = {NULL, "MPI_LOCALRANKID", "PMI_SIZE"},
};

const char *gw_environment_get(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

const char *
gw_environment_coordinator(char *room, size_t room_bytes, const char **from_p)
{
    const char *own = gw_environment_get(GW_ENVIRONMENT_COORDINATOR);
    const char *host = gw_environment_get("MASTER_ADDR");
    const char *port = gw_environment_get("MASTER_PORT");
    *from_p = own ? GW_ENVIRONMENT_COORDINATOR : GW_ENVIRONMENT_MASTER;
    if (own || !host || !port)
        return own;
    snprintf(room, room_bytes, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host,
             port);
    return room;
}

/* Reads a variable that has a number in that range, without a line. */
static int number_of(const char *name, uint64_t low, uint64_t high, uint64_t *n)
{
    const char *text = gw_environment_get(name);
    return text && gw_text_number(name, text, low, high, n, NULL) == GW_OK;
}

enum gw_status gw_environment_rank(uint32_t *rank_p, struct gw_error *error)
{
    const char *name = launchers[TORCHRUN].rank;
    const char *text = gw_environment_get(name);
    uint64_t rank;
    if (!text)
        return GW_OK;
    enum gw_status status =
        gw_text_number(name, text, 0, GW_RANK_NONE - 1, &rank, error);
    if (status == GW_OK)
        *rank_p = (uint32_t)rank;
    return status;
}

uint32_t gw_environment_task(uint64_t workers)
{
    const struct launcher *slurm = &launchers[SLURM];
    uint64_t tasks, rank;
    if (!number_of(slurm->tasks, workers, workers, &tasks) ||
        !number_of(slurm->rank, 0, workers - 1, &rank))
        return GW_RANK_NONE;
    return (uint32_t)rank;
}

uint32_t gw_environment_place(uint32_t otherwise)
{
    uint64_t place;
    for (size_t i = 0; i < LAUNCHERS; i++)
        if (number_of(launchers[i].place, 0, GW_RANK_NONE - 1, &place))
            return (uint32_t)place;
    return otherwise;
}

enum gw_status gw_environment_compare(uint64_t workers,
                                      const struct gw_log *log,
                                      struct gw_error *error)
{
    const char *name = launchers[TORCHRUN].tasks;
    const char *world = gw_environment_get(name);
    uint64_t number;
    if (world &&
        gw_text_number(name, world, 1, UINT32_MAX, &number, error) != GW_OK)
        return error->status;
    if (world && number != workers)
        return gw_fail(error, GW_EUSAGE,
                       "%s is %" PRIu64 ", but the job has %" PRIu64
                       " worker%s (cluster.workers); start as many, or unset "
                       "%s",
                       name, number, workers, gw_plural(workers), name);
    for (size_t i = 0; !world && log && i < LAUNCHERS; i++)
        if (number_of(launchers[i].tasks, 1, workers - 1, &number))
            gw_log_warn(log,
                        "%s is %" PRIu64 ", but the job waits for %" PRIu64
                        " workers (cluster.workers)",
                        launchers[i].tasks, number, workers);
    return GW_OK;
}
