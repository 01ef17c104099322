/*
 * Jobs of other trainers (model.kind = "external"): a program of the user's
 * computes the gradients, and knows model, data and batches. Keys that describe
 * these are refused, so that no value in a job file is without effect.
 */
#include <config.h>

#include "proto/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/config_value.h"

/* A key that such a job has not, and why. */
struct foreign {
    const char *key;
    const char *why;
};

static const struct foreign foreign[] = {
    {"data.train", "reads its own data"},
    {"data.test", "reads its own data"},
    {"data.normalize", "reads its own data"},
    {"data.augment", "reads its own data"},
    {"model.layers", "has a model of its own"},
    {"model.init", "makes the first weights"},
    {"model.dropout", "has a model of its own"},
    {"train.batch", "says what each gradient weighs"},
    {"train.global_batch", "says what each gradient weighs"},
    {"train.epochs", "knows its epochs; give train.steps, or 0: until it ends"},
    {"train.accumulate", "sums its own micro-batches"},
    {"train.split", "chooses its samples"},
    {"train.split_from", "chooses its samples"},
    {"train.precision", "computes"},
    {"train.loss_scale", "scales its own loss"},
    {"train.scale_lr", "knows its batch, and sets optimizer.lr"},
};

int gw_config_is_external(const struct gw_config *config)
{
    return config->model.kind == GW_MODEL_EXTERNAL;
}

uint64_t gw_config_steps(const struct gw_config *config)
{
    int is_open = gw_config_is_external(config) && config->train.steps == 0;
    return is_open ? GW_STEPS_OPEN : config->train.steps;
}

static int optimizer_is_auto(const struct gw_config *config)
{
    return strcmp(config->optimizer.kind, "auto") == 0;
}

const char *gw_config_optimizer(const struct gw_config *config)
{
    return optimizer_is_auto(config) ? "momentum" : config->optimizer.kind;
}

int gw_config_optimizer_is_open(const struct gw_config *config)
{
    return gw_config_is_external(config) && optimizer_is_auto(config);
}

void gw_config_set_optimizer(struct gw_config *config, const char *name)
{
    snprintf(config->optimizer.kind, sizeof config->optimizer.kind, "%s", name);
}

static enum gw_status check_foreign(const struct gw_config *config,
                                    const struct gw_config *plain,
                                    struct gw_error *error)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const struct gw_config_key *key = gw_config_find(foreign[i].key);
        if (!gw_config_is_same(key, config, plain))
            return gw_fail(error, GW_EUSAGE,
                           "%s: is not for model.kind = \"external\", whose "
                           "program %s; leave it out",
                           key->name, foreign[i].why);
    }
    return GW_OK;
}

/* Events that the default has once an epoch never come. */
static enum gw_status check_events(const struct gw_config *config,
                                   const struct gw_config *plain,
                                   struct gw_error *error)
{
    static const char *const names[] = {"train.eval_every", "checkpoint.every"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct gw_config_key *key = gw_config_find(names[i]);
        const struct gw_every *every =
            (const void *)((const char *)config + key->offset);
        if (every->unit == GW_EPOCHS && !gw_config_is_same(key, config, plain))
            return gw_fail(error, GW_EUSAGE,
                           "%s: takes steps where model.kind is \"external\", "
                           "whose epochs only its program knows",
                           key->name);
    }
    return GW_OK;
}

/* A decay goes towards the last step. */
static enum gw_status check_schedule(const struct gw_config *config,
                                     struct gw_error *error)
{
    if (config->train.steps > 0 ||
        config->optimizer.schedule == GW_SCHEDULE_CONSTANT ||
        config->optimizer.schedule == GW_SCHEDULE_STEP)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "optimizer.schedule: %s goes towards the last step, which "
                   "train.steps = 0 leaves open; set train.steps, or take step "
                   "or constant",
                   config->optimizer.schedule == GW_SCHEDULE_COSINE ? "cosine"
                                                                    : "linear");
}

enum gw_status gw_config_check_external(const struct gw_config *config,
                                        struct gw_error *error)
{
    struct gw_config *plain = malloc(sizeof *plain);
    if (!plain)
        return gw_fail(error, GW_ENOMEM, "no memory to check a job");
    gw_config_default(plain);
    enum gw_status status = check_foreign(config, plain, error);
    if (status == GW_OK)
        status = check_events(config, plain, error);
    if (status == GW_OK)
        status = check_schedule(config, error);
    free(plain);
    return status;
}
