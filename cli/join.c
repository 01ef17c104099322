#include "config.h"

#include "cli/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/room.h"
#include "proto/login.h"
#include "proto/text.h"
#include "transport/member/secret_fd.h"
#include "worker/trainer/environment.h"

enum gw_status gw_cli_join_take_secret(const struct gw_option *option,
                                       const char *value,
                                       void *to,
                                       struct gw_error *error)
{
    struct gw_cli_join *join = to;
    int fd;
    enum gw_status status = gw_option_fd(option, value, &fd, error);
    if (status == GW_OK && gw_secret_take(fd, &join->secret, error) != GW_OK)
        status = gw_fail_in(error, "--secret");
    join->has_secret = status == GW_OK;
    return status;
}

enum gw_status gw_cli_join_complete(struct gw_cli_join *join,
                                    struct gw_error *error)
{
    const char *from = "--join";
    if (!join->join)
        join->join = gw_environment_coordinator(join->address,
                                                sizeof join->address, &from);
    if (!join->join)
        return gw_fail(error, GW_EUSAGE,
                       "%s: --join HOST:PORT is missing, the address that the "
                       "coordinator prints (or GRADWEIR_COORDINATOR, or "
                       "MASTER_ADDR and MASTER_PORT)",
                       join->command);
    if (gw_text_address(from, join->join, 0, error) != GW_OK)
        return error->status;
    const struct gw_join_options options = {.set = join->own.set,
                                            .sets = join->own.sets};
    return gw_join_check(&options, error);
}

struct gw_join_options gw_cli_join_options(const struct gw_cli_join *join,
                                           struct gw_process *process,
                                           uint32_t rank)
{
    return (struct gw_join_options){
        .coordinator = join->join,
        .set = join->own.set,
        .sets = join->own.sets,
        .secret = join->has_secret ? &join->secret : NULL,
        .wait_us = join->wait_s * 1000000,
        .rank = rank,
        .log = &process->log,
    };
}

enum gw_status gw_cli_join_job(struct gw_process *process,
                               struct gw_cli_join *join,
                               struct gw_config *config,
                               struct gw_error *error)
{
    const struct gw_join_options options =
        gw_cli_join_options(join, process, GW_RANK_NONE);
    enum gw_status status = gw_join_job(&options, config, &join->heard, error);
    if (status == GW_OK)
        status = gw_process_logs(process, config, error);
    if (status == GW_OK)
        status = gw_process_guard(process, config, join->join, error);
    if (status == GW_OK)
        status = gw_room_check(config, join->role, error);
    return status;
}

void gw_cli_join_decline(struct gw_process *process,
                         const struct gw_cli_join *join,
                         uint8_t role,
                         uint32_t rank,
                         const struct gw_error *why)
{
    if (!join->heard || atomic_load(&process->joined) || why->status == GW_OK ||
        why->status == GW_EINTERRUPTED)
        return;
    const struct gw_join_options options =
        gw_cli_join_options(join, process, rank);
    const struct gw_join member = {
        .role = role,
        .host = process->host,
        .machine = process->machine,
        .pid = process->pid,
        .address = "",
        .rank = rank,
        .cannot = why->text,
    };
    /* it tells the same line then */
    process->told = gw_join_decline(&options, &member);
}
