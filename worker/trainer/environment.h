/*
 * Variables by which a launcher tells a process its place in a job: those of
 * gradweir run and torchrun, Slurm, Open MPI and MPICH.
 */
#ifndef GW_WORKER_ENVIRONMENT_H
#define GW_WORKER_ENVIRONMENT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/log.h"
#include "proto/status.h"

/* gradweir run sets these for a program. */
#define GW_ENVIRONMENT_COORDINATOR "GRADWEIR_COORDINATOR" /* HOST:PORT */
#define GW_ENVIRONMENT_SECRET_FD   "GRADWEIR_SECRET_FD"
/* Launchers of other frameworks set these. */
#define GW_ENVIRONMENT_MASTER "MASTER_ADDR, MASTER_PORT"

/* A variable; NULL if it is unset or empty. */
const char *gw_environment_get(const char *name);

/* The address of the coordinator: GRADWEIR_COORDINATOR, else MASTER_ADDR and
   MASTER_PORT, as HOST:PORT in `room`; *from_p names the variables. NULL: they
   are unset. */
const char *
gw_environment_coordinator(char *room, size_t room_bytes, const char **from_p);

/* RANK; *rank_p stays as it is where that is unset. GW_EUSAGE. */
enum gw_status gw_environment_rank(uint32_t *rank_p, struct gw_error *error);

/* Slurm's number of this task where the step's tasks are the job's workers,
   else GW_RANK_NONE. */
uint32_t gw_environment_task(uint64_t workers);

/* The number among the tasks of a node, or `otherwise`. */
uint32_t gw_environment_place(uint32_t otherwise);

/*
 * A launcher should start as many workers as the job has: the others would wait
 * for them, or be turned away. GW_EUSAGE: WORLD_SIZE is wrong or another
 * number. Warns where another launcher has too few tasks; some of its tasks may
 * be servers. `log` may be NULL.
 */
enum gw_status gw_environment_compare(uint64_t workers,
                                      const struct gw_log *log,
                                      struct gw_error *error);

#endif
