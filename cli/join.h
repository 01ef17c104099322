/*
 * Joining: what the subcommands server and worker share. A member asks the
 * coordinator for the job, puts this host's settings over it, and only then
 * joins.
 */
#ifndef GW_CLI_JOIN_H
#define GW_CLI_JOIN_H

#include "cli/options.h"
#include "cli/process.h"
#include "proto/login.h"
#include "proto/secret.h"
#include "worker/trainer/join.h"

struct gw_cli_join {
    const char *command; /* for messages */
    enum gw_role role;
    const char *join;            /* HOST:PORT; NULL: the environment's */
    struct gw_cli_job own;       /* --set: keys that may differ per host */
    uint64_t wait_s;             /* for the coordinator to be there */
    int parent_fd;               /* or -1 */
    struct gw_secret secret;     /* of the job, */
    int has_secret;              /* where a launcher has handed it on */
    char address[GW_STRING_MAX]; /* where `join` is NULL */
    int heard; /* there is a coordinator, that waits perhaps for this member */
};

/* Their rows of a command's table; `options` is the member of `type`. */
/* clang-format off */
#define GW_JOIN_OPTIONS(type, options)                                         \
    {.name = "join", .argument = "HOST:PORT", .take = gw_option_text,          \
     .at = offsetof(type, options.join),                                       \
     .help = "of the coordinator; default: GRADWEIR_COORDINATOR, else "         \
             "MASTER_ADDR and MASTER_PORT"},                                   \
    GW_OPTION_SET(type, options.own, "a key that may differ per host"),        \
    {.name = "wait", .argument = "SECONDS", .take = gw_option_number,          \
     .at = offsetof(type, options.wait_s), .low = 1, .high = 1000000,          \
     .help = "for the coordinator to be there; default 60"},                   \
    {.name = "parent-fd", .argument = "FD", .take = gw_option_fd,                  \
     .at = offsetof(type, options.parent_fd)},                                     \
    {.name = "secret", .argument = "FD", .take = gw_cli_join_take_secret,          \
     .at = offsetof(type, options)}
/* clang-format on */

/* --secret: reads it from the descriptor. GW_EUSAGE, GW_EIO. */
enum gw_status gw_cli_join_take_secret(const struct gw_option *option,
                                       const char *value,
                                       void *options,
                                       struct gw_error *error);

/* The same, for the calls of worker/trainer/join.h; points into *join. `rank`:
   that is wanted, GW_RANK_NONE where any will do. */
struct gw_join_options gw_cli_join_options(const struct gw_cli_join *join,
                                           struct gw_process *process,
                                           uint32_t rank);

/* After the last option: fills in what the environment says. GW_EUSAGE. */
enum gw_status gw_cli_join_complete(struct gw_cli_join *join,
                                    struct gw_error *error);

/*
 * The job with this host's settings; the logs are as it says, and links to the
 * coordinator are allowed. Blocks until the coordinator is there. GW_ENOMEM:
 * this process may not open or start what the job needs of it.
 */
enum gw_status gw_cli_join_job(struct gw_process *process,
                               struct gw_cli_join *join,
                               struct gw_config *config,
                               struct gw_error *error);

/*
 * A member that has asked for the job and has not joined cannot go on: tells
 * the coordinator, which then waits no more for it. `role`: GW_ROLE_SERVER or
 * GW_ROLE_WORKER; `rank`: of a worker, or GW_RANK_NONE. Blocks for a second at
 * most.
 */
void gw_cli_join_decline(struct gw_process *process,
                         const struct gw_cli_join *join,
                         uint8_t role,
                         uint32_t rank,
                         const struct gw_error *why);

#endif
