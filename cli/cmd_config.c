/* gradweir config: prints the table of keys, or a job as it was read. */
#include "config.h"

#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/options.h"

static void print_keys(void)
{
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    for (size_t i = 0; i < n; i++) {
        char takes[256];
        const char *value = keys[i].fallback;
        gw_config_describe(&keys[i], takes, sizeof takes);
        printf("%s = %s\n    %s.\n    Takes %s%s.\n", keys[i].name,
               value[0] ? value : "(empty)", keys[i].help, takes,
               keys[i].local ? "; may differ per host" : "");
    }
}

static enum gw_status
print_job(const struct gw_config *config, int help, struct gw_error *error)
{
    size_t bytes = gw_config_print(config, help, NULL, 0) + 1;
    char *text = malloc(bytes);
    if (!text)
        return gw_fail(error, GW_ENOMEM, "no memory to print the job");
    gw_config_print(config, help, text, bytes);
    fputs(text, stdout);
    free(text);
    return GW_OK;
}

/* Prints the job even if it contradicts itself, since that shows the cause. */
static enum gw_status show(const struct gw_cli_job *job, struct gw_error *error)
{
    struct gw_config *config = malloc(sizeof *config);
    if (!config)
        return gw_fail(error, GW_ENOMEM, "no memory to read the job");
    int template = !job->file && job->sets == 0;
    enum gw_status status = gw_cli_job_load(job, config, error);
    if (!status)
        status = print_job(config, template, error);
    if (!status && job->file)
        status = gw_config_check(config, error);
    free(config);
    return status;
}

struct order {
    struct gw_cli_job job;
    int keys;
};

static enum gw_exit run(int argc, char **argv)
{
    struct order order = {0};
    struct gw_error error;
    enum gw_exit code;
    int operands =
        gw_options_read(&gw_command_config, argc, argv, &order, &code);
    if (operands < 0)
        return code;
    if (operands > 1)
        return gw_cli_usage("config: one job at a time, not also %s",
                            argv[optind + 1]);
    if (operands == 1)
        order.job.file = argv[optind];
    if (order.keys && (order.job.file || order.job.sets))
        return gw_cli_usage("config: --keys is the same for every job");
    if (order.keys) {
        print_keys();
        return GW_EXIT_DONE;
    }
    return show(&order.job, &error) ? gw_cli_fail(&error) : GW_EXIT_DONE;
}

/* clang-format off */
static const struct gw_option options[] = {
    GW_OPTION_SET(struct order, job, "change a key, such as train.batch=64"),
    {.name = "keys", .take = gw_option_flag,
     .at = offsetof(struct order, keys),
     .help = "one paragraph per key: default, meaning, values"},
    {.name = NULL},
};
/* clang-format on */

const struct gw_command gw_command_config = {
    .name = "config",
    .help = "print every key of a job file, or what a job sets",
    .usage = "[JOB] [--set KEY=VALUE ...]\n"
             "--keys",
    .about = "Without a job: a job file with every key, its default and its "
             "help.\n"
             "With a job: every key as that job has it, checked.",
    .options = options,
    .run = run,
};
