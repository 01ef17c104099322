/* Checks between the keys of a job, and against the limits of this version. */
#include <config.h>

#include "proto/config.h"

#include <stdlib.h>
#include <string.h>

#include "proto/config_value.h"
#include "proto/interfaces.h"
#include "proto/policy.h"

#define SHARDS_PER_SERVER_MAX 1024 /* the range of server.threads */

static enum gw_status check_texts(const struct gw_config *config,
                                  struct gw_error *error)
{
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    for (size_t i = 0; i < n; i++) {
        if (keys[i].type != GW_TYPE_STRING)
            continue;
        const char *text = (const char *)config + keys[i].offset;
        enum gw_status status = gw_config_check_text(&keys[i], text, error);
        if (status)
            return status;
    }
    return GW_OK;
}

static enum gw_status check_either(uint64_t a,
                                   uint64_t b,
                                   const char *names,
                                   const char *units,
                                   struct gw_error *error)
{
    if ((a == 0) != (b == 0))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE, "%s: %s given, set exactly one (%s)",
                   names, a ? "both are" : "neither is", units);
}

static enum gw_status check_data(const struct gw_config *config,
                                 struct gw_error *error)
{
    if (config->data.train.n == 0)
        return gw_fail(error, GW_EUSAGE,
                       "data.train: no files are given to train on");
    if (config->data.test.n == 0 && config->train.eval_every.unit != GW_NEVER)
        return gw_fail(error, GW_EUSAGE,
                       "data.test: no files are given for train.eval_every; "
                       "give some, or set that to \"never\"");
    if (config->data.normalize.n % 2 != 0)
        return gw_fail(error, GW_EUSAGE,
                       "data.normalize: %zu numbers are given, but they come "
                       "in pairs of mean and deviation",
                       config->data.normalize.n);
    if (config->model.layers.n == 0)
        return gw_fail(error, GW_EUSAGE,
                       "model.layers: no layers are given, such as 784, 512, "
                       "10 for an mlp");
    return GW_OK;
}

static enum gw_status check_evaluation(const struct gw_config *config,
                                       struct gw_error *error)
{
    enum gw_every_unit unit = config->train.eval_every.unit;
    if (unit == GW_SECONDS)
        return gw_fail(error, GW_EUSAGE,
                       "train.eval_every: takes steps or epochs, since seconds "
                       "differ from run to run");
    if (config->train.early_stop > 0 && unit == GW_NEVER)
        return gw_fail(error, GW_EUSAGE,
                       "train.early_stop: nothing is scored while "
                       "train.eval_every is \"never\"");
    return GW_OK;
}

static int has_local_steps(const struct gw_config *config)
{
    struct gw_policy_plan plan = {.n = 0};
    int any = 0;
    gw_policy_plan_parse(config->cluster.policy, &plan, NULL);
    for (size_t i = 0; i < plan.n; i++)
        any |= gw_policy_is_local(plan.phase[i].word.kind);
    return any;
}

/* A model without bytes can be sent in simulation only, and cannot be scored or
   kept. */
static enum gw_status check_arithmetic(const struct gw_config *config,
                                       struct gw_error *error)
{
    if (config->train.arithmetic == GW_ARITHMETIC_FULL)
        return GW_OK;
    if (strcmp(config->cluster.transport, "sim") != 0)
        return gw_fail(error, GW_EUSAGE,
                       "train.arithmetic: none is for simulations, which "
                       "gradweir study makes; leave it at full");
    if (config->train.eval_every.unit != GW_NEVER)
        return gw_fail(error, GW_EUSAGE,
                       "train.arithmetic: none leaves nothing to score; set "
                       "train.eval_every to \"never\"");
    if (has_local_steps(config))
        return gw_fail(error, GW_EUSAGE,
                       "train.arithmetic: none is for policies that push "
                       "gradients, cluster.policy = \"%s\" has steps of the "
                       "workers' own",
                       config->cluster.policy);
    if (config->checkpoint.dir[0])
        return gw_fail(error, GW_EUSAGE,
                       "train.arithmetic: none leaves nothing to keep; leave "
                       "checkpoint.dir empty");
    return GW_OK;
}

/* Non-zero when every step is of all ranks, and its gradients go to the
   servers. */
static int has_whole_steps(const struct gw_config *config)
{
    struct gw_policy_plan plan = {.n = 0};
    int all = 1;
    gw_policy_plan_parse(config->cluster.policy, &plan, NULL);
    for (size_t i = 0; i < plan.n; i++)
        all &= gw_policy_is_together(plan.phase[i].word.kind) &&
               !gw_policy_is_local(plan.phase[i].word.kind);
    return all;
}

/* Gradients that underflow in fp16 are lost silently. */
static enum gw_status check_precision(const struct gw_config *config,
                                      struct gw_error *error)
{
    if (strcmp(config->train.precision, "fp16") != 0 ||
        strcmp(config->train.loss_scale, "none") != 0)
        return GW_OK;
    if (!has_whole_steps(config))
        return gw_fail(error, GW_EUSAGE,
                       "train.precision: fp16 loses small gradients unless the "
                       "loss is scaled, for which cluster.policy = \"%s\" has "
                       "no common steps; take bf16",
                       config->cluster.policy);
    return gw_fail(error, GW_EUSAGE,
                   "train.precision: fp16 loses small gradients unless the "
                   "loss is scaled; set train.loss_scale to \"dynamic\" or a "
                   "number, or take bf16");
}

/* A dynamic scale learns from the steps that overflow. */
static enum gw_status check_nonfinite(const struct gw_config *config,
                                      struct gw_error *error)
{
    if (config->train.nonfinite != GW_NONFINITE_PASS ||
        strcmp(config->train.loss_scale, "dynamic") != 0)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "train.loss_scale: dynamic halves the scale at steps that "
                   "are skipped, and with train.nonfinite = \"pass\" none is; "
                   "set a number, or take \"skip\"");
}

/* A worker that changes weights by itself goes on from all of their bits. */
static enum gw_status check_weights(const struct gw_config *config,
                                    struct gw_error *error)
{
    if (config->train.weights == GW_ENCODING_RAW || !has_local_steps(config))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "train.weights: bf16 is for policies that push gradients, "
                   "cluster.policy = \"%s\" has steps of the workers' own; "
                   "leave it at fp32",
                   config->cluster.policy);
}

/* Only a global batch can be divided, and only by speed can a division be
   repeated. */
static enum gw_status check_shares(const struct gw_config *config,
                                   struct gw_error *error)
{
    int by_speed = gw_config_splits_by_speed(config);
    if (by_speed && config->train.global_batch == 0)
        return gw_fail(error, GW_EUSAGE,
                       "train.split: speed divides train.global_batch, but "
                       "train.batch gives every worker the same; set "
                       "train.global_batch instead");
    if (!by_speed && config->train.split_from[0])
        return gw_fail(error, GW_EUSAGE,
                       "train.split_from: repeats how a run with train.split = "
                       "speed divided its samples; set train.split to "
                       "\"speed\" too, or leave this empty");
    return GW_OK;
}

/* Checks that depend on the words of cluster.policy. */
static enum gw_status check_words(const struct gw_config *config,
                                  struct gw_error *error)
{
    enum gw_status status = check_arithmetic(config, error);
    if (!status)
        status = check_precision(config, error);
    if (!status)
        status = check_nonfinite(config, error);
    if (!status)
        status = check_weights(config, error);
    return status;
}

enum gw_status gw_config_check_word(const struct gw_config *config,
                                    const struct gw_policy_word *word,
                                    struct gw_error *error)
{
    struct gw_config *alone = malloc(sizeof *alone);
    if (!alone)
        return gw_fail(error, GW_ENOMEM, "no memory to check a policy");
    *alone = *config;
    gw_policy_word_print(word, alone->cluster.policy);
    if (word->kind != GW_POLICY_DILOCO) {
        /* other phases of the job use them */
        alone->policy.fragments = 1;
        alone->policy.overlap = 0;
    }
    enum gw_status status = check_words(alone, error);
    if (!status)
        status = gw_config_check_phase(alone, word, error);
    free(alone);
    return status;
}

uint64_t gw_config_members_max(const struct gw_config *config)
{
    return config->cluster.workers + config->cluster.servers *
                                         config->cluster.copies *
                                         SHARDS_PER_SERVER_MAX;
}

struct gw_cadence gw_config_log_every(const struct gw_config *config,
                                      int terminal)
{
    struct gw_cadence every = config->log.every;
    if (every.steps == 0 && every.seconds == 0)
        every = (struct gw_cadence){.steps = 100, .seconds = terminal ? 1 : 5};
    if (every.steps == 0)
        every.steps = UINT64_MAX;
    return every;
}

uint64_t gw_config_connections(const struct gw_config *config)
{
    size_t interfaces = gw_interfaces_count(config->cluster.interface);
    if (config->cluster.connections > 0)
        return config->cluster.connections;
    return interfaces > 0 ? interfaces : 1;
}

uint64_t gw_config_silence_us(const struct gw_config *config, int within_host)
{
    if (config->cluster.silence > 0)
        return (uint64_t)(config->cluster.silence * 1e6);
    return within_host ? GW_SILENCE_HOST_US : GW_SILENCE_FAR_US;
}

static enum gw_status check_silence(const struct gw_config *config,
                                    struct gw_error *error)
{
    double silence = config->cluster.silence;
    if (silence <= 0 || silence * 1e6 >= GW_SILENCE_MIN_US)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "cluster.silence: %g s is less than a busy host may take to "
                   "answer, give at least %g, or 0 for the default",
                   silence, GW_SILENCE_MIN_US / 1e6);
}

/* Model, data and batches. */
static enum gw_status check_builtin(const struct gw_config *config,
                                    struct gw_error *error)
{
    enum gw_status status =
        check_either(config->train.batch, config->train.global_batch,
                     "train.batch and train.global_batch",
                     "samples per worker, or over all workers", error);
    if (!status)
        status = check_either(config->train.epochs, config->train.steps,
                              "train.epochs and train.steps",
                              "passes over the data, or updates", error);
    return status ? status : check_data(config, error);
}

enum gw_status gw_config_check(const struct gw_config *config,
                               struct gw_error *error)
{
    enum gw_status status = check_texts(config, error);
    if (!status)
        status = gw_config_is_external(config)
                     ? gw_config_check_external(config, error)
                     : check_builtin(config, error);
    if (!status)
        status = check_evaluation(config, error);
    if (!status)
        status = check_words(config, error);
    if (!status)
        status = check_shares(config, error);
    if (!status)
        status = check_silence(config, error);
    if (!status)
        status = gw_config_check_policy(config, error);
    if (!status && gw_config_print(config, 0, NULL, 0) > GW_JOB_TEXT_MAX)
        status = gw_fail(error, GW_EUSAGE,
                         "the job is longer than %u bytes as text, members "
                         "cannot be sent it; shorten its lists",
                         GW_JOB_TEXT_MAX);
    return status;
}
