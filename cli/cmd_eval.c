/* gradweir eval: one checkpoint against the test set of its job. */
#include "config.h"

#include "cli/cli.h"
#include "cli/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/inspect.h"
#include "cli/order.h"
#include "cli/options.h"
#include "transport/link/paths.h"
#include "proto/digest.h"
#include "server/checkpoint/checkpoint.h"

struct score {
    uint64_t step, samples;
    double loss, accuracy;
    char digest[2 * GW_DIGEST_BYTES + 1];
};

/* Reads the job in the checkpoint, with --set over it. */
static enum gw_status read_job(const struct gw_checkpoint *checkpoint,
                               const struct gw_cli_job *job,
                               struct gw_config *config,
                               struct gw_error *error)
{
    gw_config_default(config);
    enum gw_status status =
        gw_config_parse(config, "the checkpoint's job", checkpoint->job, error);
    for (size_t i = 0; i < job->sets && status == GW_OK; i++)
        if (gw_config_set(config, job->set[i], error) != GW_OK)
            status = gw_fail_in(error, "--set");
    if (status == GW_OK)
        status = gw_paths_root(config, NULL, error);
    if (status == GW_OK)
        status = gw_order_check_builtin(config,
                                        "which scores it by itself; gradweir "
                                        "export gives it the weights",
                                        error);
    if (status == GW_OK && config->data.test.n == 0)
        status = gw_fail(error, GW_EUSAGE,
                         "data.test: the checkpoint's job has no test set; "
                         "give one with --set data.test=...");
    return status;
}

static enum gw_status score(const struct gw_checkpoint *checkpoint,
                            struct gw_inspect *inspect,
                            struct score *score,
                            struct gw_error *error)
{
    const struct gw_map *map = checkpoint->map;
    struct gw_model_result sum;
    uint8_t digest[GW_DIGEST_BYTES];
    size_t n;
    const struct gw_key *keys = gw_model_keys(inspect->model, &n);
    if (gw_keys_hash(keys, n) != gw_keys_hash(map->key, map->keys))
        return gw_fail(error, GW_EMISMATCH,
                       "the checkpoint of step %" PRIu64
                       " is of another model than the job's: its keys or "
                       "their shapes differ",
                       checkpoint->clock);
    float **weights = calloc(n, sizeof *weights);
    if (!weights)
        return gw_fail(error, GW_ENOMEM, "no memory for weights");
    for (size_t i = 0; i < n; i++)
        weights[i] = checkpoint->weights + map->key_offset[i] / sizeof(float);
    enum gw_status status = gw_inspect_score(inspect, map, checkpoint->weights,
                                             weights, &sum, error);
    gw_digest_weights(weights, keys, n, digest);
    free(weights);
    if (status != GW_OK)
        return status;
    score->step = checkpoint->clock;
    score->samples = gw_dataset_shape(inspect->data)->samples;
    score->loss = sum.loss / (double)score->samples;
    score->accuracy = (double)sum.correct / (double)score->samples;
    gw_digest_hex(digest, score->digest);
    return GW_OK;
}

static enum gw_status evaluate(const char *path,
                               const struct gw_cli_job *job,
                               struct score *score_p,
                               struct gw_error *error)
{
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    struct gw_checkpoint checkpoint;
    struct gw_inspect inspect;
    struct gw_config *config = malloc(sizeof *config);
    if (!config)
        return gw_fail(error, GW_ENOMEM, "no memory to read the job");
    enum gw_status status =
        gw_inspect_checkpoint(&disk, path, &checkpoint, error);
    if (status != GW_OK) {
        free(config);
        return status;
    }
    /* the last key is the bias of the output layer */
    const struct gw_map *map = checkpoint.map;
    status = read_job(&checkpoint, job, config, error);
    if (status == GW_OK)
        status = gw_inspect_open(config, GW_DATASET_TEST,
                                 (size_t)map->key_elems[map->keys - 1],
                                 &inspect, error);
    if (status == GW_OK) {
        status = score(&checkpoint, &inspect, score_p, error);
        gw_inspect_close(&inspect);
    }
    gw_checkpoint_close(&checkpoint);
    free(config);
    return status;
}

static enum gw_status
write_json(const char *file, const struct score *score, struct gw_error *error)
{
    FILE *to = strcmp(file, "-") == 0 ? stdout : fopen(file, "ae");
    json_t *object =
        json_pack("{s:I, s:o, s:f, s:I, s:s}", "step", (json_int_t)score->step,
                  "test_loss", gw_json_number(score->loss), "test_accuracy",
                  score->accuracy, "samples", (json_int_t)score->samples,
                  "weights_sha256", score->digest);
    int failed =
        !to || !object ||
        json_dumpf(object, to, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0 ||
        fputc('\n', to) == EOF;
    json_decref(object);
    if (to && to != stdout && fclose(to) != 0)
        failed = 1;
    if (failed)
        return gw_fail(error, GW_EIO, "eval: cannot write %s: %s", file,
                       strerror(errno));
    return GW_OK;
}

struct order {
    struct gw_cli_job job;
    const char *json;
};

static enum gw_exit run(int argc, char **argv)
{
    struct order order = {0};
    struct gw_error error;
    struct score result;
    enum gw_exit code;
    int operands = gw_options_read(&gw_command_eval, argc, argv, &order, &code);
    if (operands < 0)
        return code;
    if (operands != 1)
        return gw_cli_usage("eval: takes one checkpoint (gradweir eval "
                            "--help)");
    enum gw_status status = evaluate(argv[optind], &order.job, &result, &error);
    if (status == GW_OK && order.json)
        status = write_json(order.json, &result, &error);
    if (status != GW_OK)
        return gw_cli_fail(&error);
    if (!order.json || strcmp(order.json, "-") != 0)
        printf("step %" PRIu64 ": loss %.6f, accuracy %.4f of %" PRIu64
               " test sample%s\n",
               result.step, result.loss, result.accuracy, result.samples,
               gw_plural(result.samples));
    return GW_EXIT_DONE;
}

/* clang-format off */
static const struct gw_option options[] = {
    GW_OPTION_SET(struct order, job,
                  "change a key of the job, such as data.test"),
    {.name = "json", .argument = "FILE", .take = gw_option_text,
     .at = offsetof(struct order, json),
     .help = "append the score as an object; - for standard output instead of "
             "the line"},
    {.name = NULL},
};
/* clang-format on */

const struct gw_command gw_command_eval = {
    .name = "eval",
    .help = "score a checkpoint on its test set",
    .usage = "CHECKPOINT [OPTIONS]",
    .about = "Scores a checkpoint on data.test of the job that made it.\n"
             "CHECKPOINT is one (DIR/step-00000120, under whatever name), or "
             "a\n"
             "checkpoint.dir, of which the newest that is whole is taken.",
    .options = options,
    .run = run,
};
