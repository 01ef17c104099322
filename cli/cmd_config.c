/* gradweir config: the table of keys, and jobs as they are understood. */
#include "config.h"

#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static void print_usage(void)
{
    puts("Usage: gradweir config [JOB] [--set KEY=VALUE ...]\n"
         "       gradweir config --keys\n\n"
         "Without a job: a job file with every key, its default and its help.\n"
         "With a job: every key as that job has it, checked.\n\n"
         "  --set KEY=VALUE  change a key, such as train.batch=64\n"
         "  --keys           one paragraph per key: default, meaning, values\n"
         "  --help           this text");
}

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

/* The job is printed even if it contradicts itself, since it shows why. */
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

enum gw_exit gw_cmd_config(int argc, char **argv)
{
    enum {
        SET = 1,
        KEYS,
        HELP
    };
    static const struct option options[] = {
        {"set", required_argument, NULL, SET},
        {"keys", no_argument, NULL, KEYS},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct gw_cli_job job = {0};
    struct gw_error error;
    int option, keys = 0;
    while ((option = gw_cli_option(argc, argv, options)) != -1) {
        switch (option) {
        case SET:
            if (gw_cli_job_set(&job, optarg, &error))
                return gw_cli_fail(&error);
            break;
        case KEYS:
            keys = 1;
            break;
        case HELP:
            print_usage();
            return GW_EXIT_DONE;
        default:
            return GW_EXIT_USAGE;
        }
    }
    if (argc - optind > 1)
        return gw_cli_usage("config: one job at a time, not also %s",
                            argv[optind + 1]);
    if (optind < argc)
        job.file = argv[optind];
    if (keys && (job.file || job.sets))
        return gw_cli_usage("config: --keys is the same for every job");
    if (keys) {
        print_keys();
        return GW_EXIT_DONE;
    }
    return show(&job, &error) ? gw_cli_fail(&error) : GW_EXIT_DONE;
}
