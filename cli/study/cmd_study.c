/* gradweir study: many runs of one job, and their results. */
#include "config.h"

#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/study/study.h"
#include "cli/study/study_plot.h"
#include "cli/study/study_report.h"
#include "cli/study/study_result.h"
#include "cli/study/study_run.h"
#include "cli/study/study_write.h"

struct order {
    const char *file, *dir;
    uint64_t jobs;
    int dry_run;
};

static void print_runs(const struct gw_study *study)
{
    for (size_t i = 0; i < study->runs; i++) {
        char what[256];
        gw_study_describe(&study->run[i], what, sizeof what);
        printf("%s  %s\n", study->run[i].id, what[0] ? what : "the job");
    }
    printf("%zu run%s of %zu point%s, %s\n", study->runs,
           gw_plural(study->runs), study->points, gw_plural(study->points),
           study->simulated ? "simulated" : "real processes");
}

/* The results of stragglers.study are in stragglers.results. */
static char *default_dir(const char *file)
{
    static const char ending[] = ".results";
    const char *slash = strrchr(file, '/');
    const char *dot = strrchr(slash ? slash : file, '.');
    size_t n = dot ? (size_t)(dot - file) : strlen(file);
    char *dir = malloc(n + sizeof ending);
    if (dir) {
        memcpy(dir, file, n);
        memcpy(dir + n, ending, sizeof ending);
    }
    return dir;
}

static uint64_t cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint64_t)n : 1;
}

/* Writes the report, without plots if gnuplot is missing. */
static enum gw_status report(const struct gw_study_run_options *options,
                             const struct gw_study_result *results,
                             struct gw_error *error)
{
    const struct gw_study *study = options->study;
    struct gw_error why = {.status = GW_OK};
    enum gw_status status = gw_study_draw(study, results, options->dir, error);
    if (status == GW_EUNSUPPORTED) {
        fprintf(stderr, "gradweir: %s\n", error->text);
        why = *error;
    } else if (status != GW_OK) {
        return status;
    }
    status = gw_study_report(study, results, options->dir,
                             why.status ? why.text : NULL, error);
    if (status == GW_OK)
        fprintf(options->out, "results     %s/results.csv, report.html\n",
                options->dir);
    return status;
}

static enum gw_status run_all(const struct gw_study_run_options *options,
                              struct gw_error *error)
{
    struct gw_study_result *results;
    enum gw_status status = gw_study_run_all(options, error);
    if (status == GW_OK)
        status = gw_study_results_read(options->study, options->dir, &results,
                                       error);
    if (status != GW_OK)
        return status;
    status = gw_study_write(options->study, results, options->dir, error);
    if (status == GW_OK)
        status = gw_study_print(options->study, results, options->out, error);
    if (status == GW_OK)
        status = report(options, results, error);
    gw_study_results_free(options->study, results);
    return status;
}

static enum gw_exit act(const struct order *order)
{
    struct gw_error error;
    struct gw_study *study;
    if (gw_study_read(order->file, &study, &error) != GW_OK)
        return gw_cli_fail(&error);
    if (order->dry_run) {
        print_runs(study);
        gw_study_free(study);
        return GW_EXIT_DONE;
    }
    char *dir = order->dir ? strdup(order->dir) : default_dir(order->file);
    const struct gw_study_run_options options = {
        .study = study,
        .dir = dir,
        .jobs = (unsigned)(order->jobs        ? order->jobs
                           : study->simulated ? cores()
                                              : 1),
        .out = stdout,
    };
    enum gw_status status =
        dir ? run_all(&options, &error)
            : gw_fail(&error, GW_ENOMEM, "no memory for a study");
    free(dir);
    gw_study_free(study);
    return status == GW_OK ? GW_EXIT_DONE : gw_cli_fail(&error);
}

static enum gw_exit run(int argc, char **argv)
{
    struct order order = {.file = NULL};
    enum gw_exit code;
    int operands =
        gw_options_read(&gw_command_study, argc, argv, &order, &code);
    if (operands < 0)
        return code;
    if (operands != 1)
        return gw_cli_usage("study: takes one study file (gradweir study "
                            "--help)");
    order.file = argv[optind];
    return act(&order);
}

/* clang-format off */
static const struct gw_option options[] = {
    {.name = "out", .argument = "DIR", .take = gw_option_text,
     .at = offsetof(struct order, dir),
     .help = "where results go (FILE without its ending, and .results)"},
    {.name = "jobs", .argument = "N", .take = gw_option_number,
     .at = offsetof(struct order, jobs), .low = 1, .high = 1024,
     .help = "runs at a time, and threads of a large simulation (one for each "
             "core; processes: 1)"},
    {.name = "dry-run", .take = gw_option_flag,
     .at = offsetof(struct order, dry_run),
     .help = "check the study, print what would run"},
    {.name = NULL},
};
/* clang-format on */

const struct gw_command gw_command_study = {
    .name = "study",
    .help = "run a grid of jobs, and compare what they come to",
    .usage = "FILE [OPTIONS]",
    .about = "Runs every job of a study file, in virtual time or as processes, "
             "and\n"
             "writes what they came to. What has been run is not run again.",
    .options = options,
    .run = run,
};
