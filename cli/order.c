#include "config.h"

#include "cli/order.h"

#include <string.h>
#include <strings.h>

enum gw_status gw_order_load(const struct gw_order *order,
                             struct gw_config *config,
                             struct gw_error *error)
{
    enum gw_status status = gw_cli_job_load(&order->job, config, error);
    return status == GW_OK ? gw_order_check(order, config, error) : status;
}

enum gw_status gw_order_check(const struct gw_order *order,
                              const struct gw_config *config,
                              struct gw_error *error)
{
    enum gw_status status = gw_config_check(config, error);
    if (status == GW_OK && order->resume && !config->checkpoint.dir[0])
        status = gw_fail(error, GW_EUSAGE,
                         "--resume: checkpoint.dir is empty, so there is "
                         "nothing to go on from");
    return status;
}

const char *gw_order_origin(const struct gw_order *order, const char *line)
{
    const struct gw_cli_job *job = &order->job;
    size_t bytes = strcspn(line, " :");
    for (size_t i = 0; i < job->sets; i++)
        if (strncasecmp(job->set[i], line, bytes) == 0 &&
            job->set[i][bytes] == '=')
            return "--set";
    return job->file;
}

enum gw_status gw_order_check_builtin(const struct gw_config *config,
                                      const char *instead,
                                      struct gw_error *error)
{
    if (!gw_config_is_external(config))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "model.kind: \"external\" is a program of yours, %s",
                   instead);
}
