/* gradweir export and import: checkpoints and single safetensors files. */
#include "config.h"

#include "cli/cli.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/inspect.h"
#include "server/checkpoint/checkpoint.h"

/* ---- export ---- */

static void print_export_usage(void)
{
    puts("Usage: gradweir export CHECKPOINT FILE\n\n"
         "Writes the weights of a checkpoint as one safetensors file. Links "
         "are\n"
         "followed, devices and FIFOs written into.\n"
         "CHECKPOINT is one (DIR/step-00000120, under whatever name), or a\n"
         "checkpoint.dir, of which the newest that is whole is taken.\n\n"
         "  --help  this text");
}

/* Standard output, or standard error where the weights have gone there. */
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

enum gw_exit gw_cmd_export(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 1},
                                            {0}};
    struct gw_error error;
    int option;
    while ((option = gw_cli_option(argc, argv, options)) != -1) {
        if (option == '?')
            return GW_EXIT_USAGE;
        print_export_usage();
        return GW_EXIT_DONE;
    }
    if (argc - optind != 2)
        return gw_cli_usage("export: takes a checkpoint and a file (gradweir "
                            "export --help)");
    return write_file(argv[optind], argv[optind + 1], &error) == GW_OK
               ? GW_EXIT_DONE
               : gw_cli_fail(&error);
}

/* ---- import ---- */

static void print_import_usage(void)
{
    puts("Usage: gradweir import FILE --job JOB [--to DIR]\n"
         "                       [--set KEY=VALUE ...]\n\n"
         "Makes a checkpoint of step 0 out of a safetensors file that has the\n"
         "tensors of the job's model and no others, in fp32, or in fp16,\n"
         "bf16 or fp64, which are converted, or out of the weights of a\n"
         "checkpoint. Then gradweir train JOB --resume begins with it.\n\n"
         "  --job JOB        the job that is to go on from it\n"
         "  --to DIR         where to put it, checkpoint.dir unless given\n"
         "  --set KEY=VALUE  change a key of the job\n"
         "  --help           this text");
}

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

enum gw_exit gw_cmd_import(int argc, char **argv)
{
    enum {
        JOB = 1,
        TO,
        SET,
        HELP
    };
    static const struct option options[] = {
        {"job", required_argument, NULL, JOB},
        {"to", required_argument, NULL, TO},
        {"set", required_argument, NULL, SET},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    struct gw_cli_job job = {0};
    struct gw_error error;
    const char *to = NULL;
    int option;
    while ((option = gw_cli_option(argc, argv, options)) != -1) {
        switch (option) {
        case JOB:
            job.file = optarg;
            break;
        case TO:
            to = optarg;
            break;
        case SET:
            if (gw_cli_job_set(&job, optarg, &error) != GW_OK)
                return gw_cli_fail(&error);
            break;
        case HELP:
            print_import_usage();
            return GW_EXIT_DONE;
        default:
            return GW_EXIT_USAGE;
        }
    }
    if (argc - optind != 1 || !job.file)
        return gw_cli_usage("import: takes one file and --job JOB (gradweir "
                            "import --help)");
    return begin_import(argv[optind], &job, to);
}
