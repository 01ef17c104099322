/*
 * Settings of a job that its program may bring: the optimizer, and the largest
 * norm of a gradient. Members get them from the coordinator's start.
 */
#include <config.h>

#include "proto/config.h"

#include <stdio.h>
#include <string.h>

double gw_config_clip(const struct gw_config *config)
{
    const struct gw_config_key *key =
        gw_config_find(gw_config_clip_key(config));
    double clip;
    memcpy(&clip, (const char *)config + key->offset, sizeof clip);
    return clip;
}

static enum gw_status set_optimizer(struct gw_config *config,
                                    const char *name,
                                    struct gw_error *error)
{
    char assignment[GW_STRING_MAX + 32];
    if (!gw_config_optimizer_is_open(config))
        return gw_fail(error, GW_EMISMATCH,
                       "the job has optimizer.kind = \"%s\", the program asks "
                       "for %s; leave that line out of the job",
                       config->optimizer.kind, name);
    snprintf(assignment, sizeof assignment, "optimizer.kind=%s", name);
    return gw_config_set(config, assignment, error);
}

static enum gw_status
set_clip(struct gw_config *config, double clip, struct gw_error *error)
{
    char assignment[96];
    const char *key = gw_config_clip_key(config);
    double own = gw_config_clip(config);
    if (!gw_config_is_external(config) || (own != 0 && own != clip))
        return gw_fail(error, GW_EMISMATCH,
                       "the job has %s = %g, the program asks for %g; leave "
                       "that line out of the job",
                       key, own, clip);
    snprintf(assignment, sizeof assignment, "%s=%.17g", key, clip);
    return gw_config_set(config, assignment, error);
}

/* A program knows the norm by its own name for it. */
static enum gw_status check_max_norm(const struct gw_config *config,
                                     struct gw_error *error)
{
    struct gw_policy_plan plan;
    char shown[GW_WORD_BYTES];
    if (strcmp(gw_config_clip_key(config), "train.clip") != 0 ||
        gw_policy_plan_parse(config->cluster.policy, &plan, NULL))
        return GW_OK;
    for (size_t i = 0; i < plan.n; i++) {
        const struct gw_policy_word *word = &plan.phase[i].word;
        int is_local = gw_policy_is_local(word->kind);
        if (gw_policy_is_together(word->kind) && !is_local)
            continue;
        gw_policy_word_print(word, shown);
        return gw_fail(error, GW_EUSAGE,
                       "max_norm is that of the mean gradient, and under "
                       "cluster.policy = %s %s; leave max_norm out, or take "
                       "sync",
                       shown,
                       is_local ? "workers take steps of their own"
                                : "servers apply each push by itself");
    }
    return GW_OK;
}

enum gw_status gw_config_take_program(struct gw_config *config,
                                      const struct gw_program *program,
                                      struct gw_error *error)
{
    enum gw_status status = GW_OK;
    if (program->optimizer[0])
        status = set_optimizer(config, program->optimizer, error);
    if (status == GW_OK && program->clip != 0)
        status = set_clip(config, program->clip, error);
    if (status == GW_OK && program->clip != 0)
        status = check_max_norm(config, error);
    return status == GW_OK ? gw_config_check(config, error) : status;
}

void gw_config_copy_program(struct gw_config *config,
                            const struct gw_config *from)
{
    gw_config_set_optimizer(config, from->optimizer.kind);
    config->train.clip = from->train.clip;
    config->policy.inner_clip = from->policy.inner_clip;
}
