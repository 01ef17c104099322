/* gradweir export and import: checkpoints and single safetensors files. */
#include "config.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/inspect.h"
#include "cli/options.h"
#include "server/checkpoint/checkpoint.h"

/* ---- export ---- */

/* The stream for lines: standard output, or standard error if `file` is
   standard output. */
static FILE *line_beside(const char *file)
{
    struct stat written, out;
    int same = stat(file, &written) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
               written.st_dev == out.st_dev && written.st_ino == out.st_ino;
    return same ? stderr : stdout;
}

static enum gw_status
write_file(const char *path, const char *file, struct gw_error *error)
{
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    struct gw_checkpoint checkpoint;
    enum gw_status status =
        gw_inspect_checkpoint(&disk, path, &checkpoint, error);
    if (status != GW_OK)
        return status;
    status = gw_checkpoint_export(&checkpoint, file, error);
    if (status == GW_OK)
        fprintf(line_beside(file), "%s: %zu tensor%s of step %" PRIu64 "\n",
                file, checkpoint.map->keys, gw_plural(checkpoint.map->keys),
                checkpoint.clock);
    gw_checkpoint_close(&checkpoint);
    return status;
}

static enum gw_exit run_export(int argc, char **argv)
{
    struct gw_error error;
    enum gw_exit code;
    int operands = gw_options_read(&gw_command_export, argc, argv, NULL, &code);
    if (operands < 0)
        return code;
    if (operands != 2)
        return gw_cli_usage("export: takes a checkpoint and a file (gradweir "
                            "export --help)");
    return write_file(argv[optind], argv[optind + 1], &error) == GW_OK
               ? GW_EXIT_DONE
               : gw_cli_fail(&error);
}

const struct gw_command gw_command_export = {
    .name = "export",
    .help = "write a checkpoint as one safetensors file",
    .usage = "CHECKPOINT FILE",
    .about = "Writes the weights of a checkpoint as one safetensors file. "
             "Links are\n"
             "followed, devices and FIFOs written into.\n"
             "CHECKPOINT is one (DIR/step-00000120, under whatever name), or "
             "a\n"
             "checkpoint.dir, of which the newest that is whole is taken.",
    .run = run_export,
};

/* ---- import ---- */

static enum gw_status make_checkpoint(const char *file,
                                      const struct gw_config *config,
                                      const char *dir,
                                      struct gw_error *error)
{
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    struct gw_inspect inspect;
    size_t n, bytes = gw_config_print(config, 0, NULL, 0) + 1;
    char note[GW_ERROR_TEXT_BYTES] = "", *text = malloc(bytes);
    if (!text)
        return gw_fail(error, GW_ENOMEM, "no memory for the job");
    gw_config_print(config, 0, text, bytes);
    enum gw_status status =
        gw_inspect_open(config, GW_DATASET_TRAIN, 0, &inspect, error);
    if (status == GW_OK) {
        const struct gw_key *keys = gw_model_keys(inspect.model, &n);
        const struct gw_checkpoint_target to = {dir, config->checkpoint.access};
        status = gw_checkpoint_import(&disk, file, gw_inspect_refused, keys, n,
                                      text, &to, note, error);
        gw_inspect_close(&inspect);
    }
    free(text);
    if (status == GW_OK && note[0])
        printf("%s: %s\n", file, note);
    if (status == GW_OK)
        printf("%s: a checkpoint of step 0; go on from it with --resume\n",
               dir);
    return status;
}

static enum gw_exit
begin_import(const char *file, const struct gw_cli_job *job, const char *to)
{
    struct gw_error error;
    struct gw_config *config = malloc(sizeof *config);
    if (!config)
        return gw_cli_usage("import: no memory");
    enum gw_status status = gw_cli_job_load(job, config, &error);
    if (status == GW_OK)
        status = gw_config_check(config, &error);
    if (status == GW_OK && !to)
        to = config->checkpoint.dir;
    if (status == GW_OK && !to[0])
        status = gw_fail(&error, GW_EUSAGE,
                         "import: say where with --to, since checkpoint.dir "
                         "is empty");
    if (status == GW_OK)
        status = make_checkpoint(file, config, to, &error);
    free(config);
    return status == GW_OK ? GW_EXIT_DONE : gw_cli_fail(&error);
}

struct import {
    struct gw_cli_job job;
    const char *to;
};

static enum gw_exit run_import(int argc, char **argv)
{
    struct import import = {0};
    enum gw_exit code;
    int operands =
        gw_options_read(&gw_command_import, argc, argv, &import, &code);
    if (operands < 0)
        return code;
    if (operands != 1 || !import.job.file)
        return gw_cli_usage("import: takes one file and --job JOB (gradweir "
                            "import --help)");
    return begin_import(argv[optind], &import.job, import.to);
}

/* clang-format off */
static const struct gw_option import_options[] = {
    {.name = "job", .argument = "JOB", .take = gw_option_text,
     .at = offsetof(struct import, job.file),
     .help = "the job that is to go on from it"},
    {.name = "to", .argument = "DIR", .take = gw_option_text,
     .at = offsetof(struct import, to),
     .help = "where to put it, checkpoint.dir unless given"},
    GW_OPTION_SET(struct import, job, "change a key of the job"),
    {.name = NULL},
};
/* clang-format on */

const struct gw_command gw_command_import = {
    .name = "import",
    .help = "make a checkpoint out of a safetensors file",
    .usage = "FILE --job JOB [OPTIONS]",
    .about = "Makes a checkpoint of step 0 out of a safetensors file that has "
             "the\n"
             "tensors of the job's model and no others, in fp32, or in fp16,\n"
             "bf16 or fp64, which are converted, or out of the weights of a\n"
             "checkpoint. Then gradweir train JOB --resume begins with it.",
    .options = import_options,
    .run = run_import,
};
