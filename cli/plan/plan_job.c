/*
 * The two inputs of a plan: what travels, and what a step computes. A job of
 * gradweir's own model has both by its data and its layers. Of a program's
 * model the number of weights is given, and computing is known as far as it is
 * given.
 */
#include "config.h"

#include "cli/plan/plan_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/forecast.h"
#include "worker/model/model.h"
#include "worker/trainer/plan.h"

/* Tensors of one size stand for a program's own, whose number and shapes are
   not known: as many as a model of 4 to 64 MiB has chunks. */
#define KEYS 64

/* ---- a model of gradweir's own ---- */

static enum gw_status check_labels(const struct planning *planning)
{
    enum gw_status status = gw_model_check_labels(
        planning->config, planning->train, planning->train, planning->error);
    if (status == GW_OK && planning->test)
        status = gw_model_check_labels(planning->config, planning->train,
                                       planning->test, planning->error);
    return status;
}

static enum gw_status open_data(struct planning *planning)
{
    const struct gw_config *config = planning->config;
    enum gw_status status = gw_dataset_open(config, GW_DATASET_TRAIN,
                                            &planning->train, planning->error);
    if (status == GW_OK && config->data.test.n > 0)
        status = gw_dataset_open(config, GW_DATASET_TEST, &planning->test,
                                 planning->error);
    return status == GW_OK ? check_labels(planning) : status;
}

static enum gw_status find_batch(struct planning *planning)
{
    const struct gw_config *config = planning->config;
    struct gw_planned *planned = planning->planned;
    struct gw_plan plan;
    enum gw_status status =
        gw_plan_make(config, gw_dataset_shape(planning->train)->samples,
                     config->cluster.workers, NULL, &plan, planning->error);
    if (status != GW_OK)
        return status;
    planned->global_batch = plan.course.batch < plan.course.samples
                                ? plan.course.batch
                                : plan.course.samples;
    planned->batch = (planned->global_batch + plan.workers - 1) / plan.workers;
    planned->steps_per_epoch = gw_course_steps(&plan.course);
    return GW_OK;
}

static enum gw_status open_builtin(struct planning *planning)
{
    if (planning->options->weights > 0)
        return gw_fail(planning->error, GW_EUSAGE,
                       "plan: --weights is for model.kind = \"external\"; this "
                       "job has a model of gradweir's, of known size: leave it "
                       "out");
    enum gw_status status = open_data(planning);
    if (status != GW_OK)
        return status;
    planning->what = (struct gw_worker_case){
        .config = planning->config,
        .train = planning->train,
        .test = planning->test,
    };
    status = gw_plan_choose_device(planning);
    return status == GW_OK ? find_batch(planning) : status;
}

/* ---- a program's ---- */

static enum gw_status check_program(const struct planning *planning)
{
    const struct gw_plan_options *options = planning->options;
    if (options->weights <= 0)
        return gw_fail(planning->error, GW_EUSAGE,
                       "model.kind: \"external\" is a program of yours, whose "
                       "size no job file says: give the number of its weights, "
                       "such as --weights 124M");
    if (options->flops > 0)
        return gw_fail(planning->error, GW_EUSAGE,
                       "plan: --flops: what a step computes only your program "
                       "knows; give --step-time");
    if (gw_plan_gives_gpus(options))
        return gw_fail(planning->error, GW_EUSAGE,
                       "plan: --gpu-memory, --gpus, --device-link and "
                       "--peer-link are about GPUs that gradweir computes on; "
                       "here your program does, and brings its tensors to the "
                       "host");
    return GW_OK;
}

static enum gw_status make_keys(struct planning *planning)
{
    uint64_t weights = (uint64_t)ceil(planning->options->weights);
    size_t n = weights < KEYS ? (size_t)weights : KEYS;
    planning->key = calloc(n, sizeof *planning->key);
    if (!planning->key)
        return gw_fail(planning->error, GW_ENOMEM, "no memory for a plan");
    for (size_t i = 0; i < n; i++) {
        struct gw_key *key = &planning->key[i];
        *key = (struct gw_key){.dtype = GW_DTYPE_F32, .dims = 1};
        snprintf(key->name, sizeof key->name, "tensor%zu", i);
        key->shape[0] = weights / n + (i < weights % n);
    }
    planning->what = (struct gw_worker_case){
        .config = planning->config, .key = planning->key, .keys = n};
    return GW_OK;
}

static enum gw_status open_program(struct planning *planning)
{
    enum gw_status status = check_program(planning);
    planning->planned->is_external = 1;
    return status == GW_OK ? make_keys(planning) : status;
}

/* ---- both ---- */

static enum gw_status make_map(struct planning *planning)
{
    struct gw_planned *planned = planning->planned;
    enum gw_status status = gw_worker_map(
        &planning->what, &planned->map, &planned->sample_flop, planning->error);
    if (status == GW_OK || !planned->is_external)
        return status;
    const struct gw_error why = *planning->error;
    return gw_fail(planning->error, status == GW_ERANGE ? GW_EUSAGE : status,
                   "--weights: %.400s", why.text);
}

/* A worker's bytes, to and from all servers, under each word of the job. */
static enum gw_status find_exchanges(struct planning *planning)
{
    struct gw_planned *planned = planning->planned;
    const struct gw_config *config = planning->config;
    struct gw_policy_plan plan;
    enum gw_status status =
        gw_policy_plan_parse(config->cluster.policy, &plan, planning->error);
    if (status != GW_OK)
        return status;
    double bytes = (double)planned->map->model_bytes;
    double share =
        gw_encoded_bytes(config->train.weights, 1) / (double)sizeof(float);
    for (size_t i = 0; i < plan.n; i++) {
        const struct gw_policy_word *word = &plan.phase[i].word;
        double period = (double)gw_forecast_period(word);
        planned->exchange[i] =
            (struct gw_plan_exchange){.word = *word,
                                      .push = bytes / period,
                                      .get = share * bytes / period};
    }
    planned->exchanges = plan.n;
    return GW_OK;
}

enum gw_status gw_plan_open_job(struct planning *planning)
{
    enum gw_status status = gw_config_is_external(planning->config)
                                ? open_program(planning)
                                : open_builtin(planning);
    if (status != GW_OK)
        return status;
    status =
        gw_forecast_word(planning->config, &planning->word, planning->error);
    planning->planned->period = gw_forecast_period(&planning->word);
    if (status == GW_OK)
        status = make_map(planning);
    return status == GW_OK ? find_exchanges(planning) : status;
}

void gw_plan_close_job(struct planning *planning)
{
    gw_dataset_close(planning->test);
    gw_dataset_close(planning->train);
    free(planning->key);
}
