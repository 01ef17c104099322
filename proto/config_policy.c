/* Demands of a job's policies on its other keys, phase by phase. */
#include <config.h>

#include "proto/config.h"

#include <inttypes.h>
#include <string.h>

#include "proto/config_value.h"
#include "proto/policy.h"

/* A job that was not checked may have any text: it is taken for sync. */
static void read_plan(const struct gw_config *config,
                      struct gw_policy_plan *plan)
{
    if (gw_policy_plan_parse(config->cluster.policy, plan, NULL))
        *plan =
            (struct gw_policy_plan){.n = 1, .phase[0] = {.until = UINT64_MAX}};
}

/* The key that asks for one decision per step under `word`, NULL for none;
 *why_p: why. */
static const char *whole_step_key(const struct gw_config *config,
                                  const struct gw_policy_word *word,
                                  const char **why_p)
{
    if (config->train.clip > 0) {
        *why_p = "the norm of the whole gradient comes first";
        return "train.clip";
    }
    if (config->train.nonfinite == GW_NONFINITE_SKIP) {
        *why_p = "all shards must skip the same steps";
        return "train.nonfinite = skip";
    }
    if (strcmp(config->train.loss_scale, "none") != 0) {
        *why_p = "all shards must skip the steps that overflow";
        return "train.loss_scale";
    }
    /* under local policies it is the optimizer of workers, or unused */
    if (!gw_policy_is_local(word->kind) &&
        strcmp(config->optimizer.kind, "lamb") == 0) {
        *why_p = "the norm of a whole key comes first";
        return "optimizer.kind = lamb";
    }
    if (word->kind == GW_POLICY_BACKUP && word->n > 0) {
        *why_p = "all shards must count the same workers";
        return "cluster.policy = backup";
    }
    return NULL;
}

const char *gw_config_whole_step_key(const struct gw_config *config,
                                     const struct gw_policy_word *word)
{
    const char *why;
    return whole_step_key(config, word, &why);
}

int gw_config_whole_step_under(const struct gw_config *config,
                               const struct gw_policy_word *word)
{
    const char *why;
    return config->train.commit == GW_COMMIT_WHOLE ||
           (config->train.commit == GW_COMMIT_AUTO &&
            whole_step_key(config, word, &why));
}

static int has_phase(const struct gw_policy_plan *plan,
                     int (*is)(enum gw_policy_kind kind))
{
    for (size_t i = 0; i < plan->n; i++)
        if (is(plan->phase[i].word.kind))
            return 1;
    return 0;
}

static int is_sync(enum gw_policy_kind kind)
{
    return kind == GW_POLICY_SYNC;
}

const char *gw_config_clip_key(const struct gw_config *config)
{
    struct gw_policy_plan plan;
    read_plan(config, &plan);
    for (size_t i = 0; i < plan.n; i++)
        if (!gw_policy_is_local(plan.phase[i].word.kind))
            return "train.clip";
    return "policy.inner_clip";
}

int gw_config_may_sum(const struct gw_config *config)
{
    struct gw_policy_plan plan;
    read_plan(config, &plan);
    return strcmp(config->cluster.local_reduction, "off") != 0 &&
           has_phase(&plan, is_sync);
}

int gw_config_may_sum_on_devices(const struct gw_config *config)
{
    return gw_config_may_sum(config) &&
           strcmp(config->cluster.local_reduction, "host") != 0;
}

int gw_config_sums_anyway(const struct gw_config *config)
{
    const char *word = config->cluster.local_reduction;
    return strcmp(word, "on") == 0 || strcmp(word, "host") == 0;
}

int gw_config_splits_by_speed(const struct gw_config *config)
{
    return strcmp(config->train.split, "speed") == 0;
}

struct gw_policy_terms gw_config_policy_terms(const struct gw_config *config,
                                              const struct gw_policy_word *word)
{
    double workers = (double)config->cluster.workers;
    int diloco = word->kind == GW_POLICY_DILOCO;
    struct gw_policy_terms terms = {
        .scale = config->policy.scale,
        .lambda = config->policy.lambda,
        .alpha = config->policy.alpha,
        .outer_lr = config->policy.outer_lr,
        .inner = config->policy.inner,
        .outer = config->policy.outer,
    };
    if (terms.scale == 0)
        terms.scale = 1 / workers;
    if (terms.lambda == 0)
        terms.lambda = config->policy.adaptive ? 2 : 0.04;
    if (terms.alpha == 0)
        terms.alpha = 0.9 / workers;
    if (terms.outer_lr == 0)
        terms.outer_lr = diloco ? 0.7 : 1;
    if (strcmp(terms.inner, "auto") == 0)
        terms.inner = gw_config_optimizer(config);
    if (strcmp(terms.outer, "auto") == 0)
        terms.outer = diloco ? "nesterov" : "sgd";
    terms.server = gw_config_optimizer(config);
    if (word->kind == GW_POLICY_EASGD)
        terms.server = "sgd"; /* keeps nothing: centres are drawn, not driven */
    else if (gw_policy_is_local(word->kind))
        terms.server = terms.outer;
    return terms;
}

/* Streaming gives chunks out before anyone has seen the whole step. */
static enum gw_status check_commit(const struct gw_config *config,
                                   const struct gw_policy_word *word,
                                   struct gw_error *error)
{
    const char *why;
    const char *key = whole_step_key(config, word, &why);
    if (config->train.commit != GW_COMMIT_STREAMING || !key)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "train.commit: streaming updates each chunk by itself, but "
                   "with %s %s; set it to auto or whole",
                   key, why);
}

/* A policy that makes a version of each push has no step of all ranks to decide
   about. */
static enum gw_status check_per_push(const struct gw_config *config,
                                     const struct gw_policy_word *word,
                                     const char *shown,
                                     struct gw_error *error)
{
    const char *why;
    if (gw_policy_is_together(word->kind))
        return GW_OK;
    const char *key = whole_step_key(config, word, &why);
    if (key)
        return gw_fail(error, GW_EUSAGE,
                       "cluster.policy: %s applies each push by itself, but "
                       "with %s %s; leave that out, or take sync",
                       shown, key, why);
    if (config->train.commit == GW_COMMIT_WHOLE)
        return gw_fail(error, GW_EUSAGE,
                       "cluster.policy: %s applies each push by itself, so no "
                       "step can be committed as a whole; set train.commit to "
                       "auto",
                       shown);
    return GW_OK;
}

/* Servers see no gradient when workers take steps of their own. */
static enum gw_status check_local(const struct gw_config *config,
                                  const struct gw_policy_word *word,
                                  const char *shown,
                                  struct gw_error *error)
{
    const char *why;
    if (!gw_policy_is_local(word->kind))
        return GW_OK;
    const char *key = whole_step_key(config, word, &why);
    if (!key)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "cluster.policy: %s has workers take steps of their own, "
                   "and %s is for gradients that servers see; leave it out%s",
                   shown, key,
                   strcmp(key, "train.clip") == 0
                       ? ", policy.inner_clip is for workers' own"
                       : "");
}

/* The number of a word against the number of workers. */
static enum gw_status check_workers(const struct gw_config *config,
                                    const struct gw_policy_word *word,
                                    const char *shown,
                                    struct gw_error *error)
{
    uint64_t workers = config->cluster.workers;
    if (word->kind == GW_POLICY_BACKUP && word->n >= workers)
        return gw_fail(error, GW_EUSAGE,
                       "cluster.policy: %s leaves none of %" PRIu64
                       " worker%s to wait for; B must be less than "
                       "cluster.workers",
                       shown, workers, gw_plural(workers));
    if (word->kind == GW_POLICY_STALE_LR && word->n > workers)
        return gw_fail(error, GW_EUSAGE,
                       "cluster.policy: %s cannot divide %" PRIu64
                       " worker%s into so many parts; N must be at most "
                       "cluster.workers",
                       shown, workers, gw_plural(workers));
    return GW_OK;
}

static enum gw_status check_inner(const struct gw_config *config,
                                  const struct gw_policy_word *word,
                                  const char *shown,
                                  struct gw_error *error)
{
    const char *inner = gw_config_policy_terms(config, word).inner;
    if (!gw_policy_is_local(word->kind) ||
        (strcmp(inner, "lamb") != 0 && strcmp(inner, "none") != 0))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "cluster.policy: %s has workers take steps of their own, "
                   "which optimizer.kind = %s does not do; name their "
                   "optimizer in policy.inner",
                   shown, inner);
}

/* dc-async compensates for the way that the weights have gone on. */
static enum gw_status check_weights(const struct gw_config *config,
                                    const struct gw_policy_word *word,
                                    struct gw_error *error)
{
    if (word->kind != GW_POLICY_DC_ASYNC ||
        strcmp(config->optimizer.kind, "none") != 0)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "cluster.policy: dc-async goes by how far the weights have "
                   "moved, but with optimizer.kind = none servers have no "
                   "weights; take another optimizer, or async");
}

/* A split shortens the wait for slow ranks; where nobody waits, each rank has
   its own pace already. */
static enum gw_status check_split(const struct gw_config *config,
                                  const struct gw_policy_word *word,
                                  const char *shown,
                                  struct gw_error *error)
{
    if (!gw_config_splits_by_speed(config) || gw_policy_is_together(word->kind))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "train.split: speed lets all workers finish a step at the "
                   "same time, but under cluster.policy = %s none waits for "
                   "the others; leave it \"even\"",
                   shown);
}

/* diloco in parts of the model, or with overlap. */
static enum gw_status check_streaming(const struct gw_config *config,
                                      const struct gw_policy_word *word,
                                      const char *shown,
                                      struct gw_error *error)
{
    const char *outer = gw_config_policy_terms(config, word).outer;
    int parts = config->policy.fragments > 1;
    if (word->kind != GW_POLICY_DILOCO ||
        (!parts && config->policy.overlap == 0))
        return GW_OK;
    if (config->policy.overlap >= word->n)
        return gw_fail(error, GW_EUSAGE,
                       "policy.overlap: %" PRIu64
                       " steps are too many for %s, where the next exchange "
                       "begins; it must be less than H",
                       config->policy.overlap, shown);
    if (config->train.commit == GW_COMMIT_WHOLE)
        return gw_fail(error, GW_EUSAGE,
                       "train.commit: whole decides about all of the model at "
                       "once, but with %s it is not exchanged at once; set it "
                       "to auto",
                       parts ? "policy.fragments" : "policy.overlap");
    if (parts && strncmp(outer, "adam", 4) == 0)
        return gw_fail(error, GW_EUSAGE,
                       "policy.outer: %s counts the updates of all of the "
                       "model, but with policy.fragments parts have had "
                       "unlike many; take sgd, momentum or nesterov",
                       outer);
    return GW_OK;
}

/* A standby repeats the steps of its primary, chunk by chunk. */
static enum gw_status check_copies(const struct gw_config *config,
                                   const struct gw_policy_word *word,
                                   const char *shown,
                                   struct gw_error *error)
{
    if (config->cluster.copies == 1)
        return GW_OK;
    if (word->kind != GW_POLICY_SYNC)
        return gw_fail(error, GW_EUSAGE,
                       "cluster.copies: 2 is for cluster.policy = sync; with "
                       "%s leave it 1",
                       shown);
    if (gw_config_splits_by_speed(config))
        return gw_fail(error, GW_EUSAGE,
                       "cluster.copies: 2 needs train.split = even; leave it "
                       "1, or set that");
    if (config->cluster.servers >= config->cluster.copies)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "cluster.copies: 2 needs two server processes; set "
                   "cluster.servers to 2 or more");
}

enum gw_status gw_config_check_phase(const struct gw_config *config,
                                     const struct gw_policy_word *word,
                                     struct gw_error *error)
{
    char shown[GW_WORD_BYTES];
    gw_policy_word_print(word, shown);
    enum gw_status status = check_commit(config, word, error);
    if (!status)
        status = check_per_push(config, word, shown, error);
    if (!status)
        status = check_workers(config, word, shown, error);
    if (!status)
        status = check_local(config, word, shown, error);
    if (!status)
        status = check_inner(config, word, shown, error);
    if (!status)
        status = check_weights(config, word, error);
    if (!status)
        status = check_split(config, word, shown, error);
    if (!status)
        status = check_streaming(config, word, shown, error);
    if (!status)
        status = check_copies(config, word, shown, error);
    return status;
}

static int is_diloco(enum gw_policy_kind kind)
{
    return kind == GW_POLICY_DILOCO;
}

/* A key that did nothing would be worse than one that is refused. */
static enum gw_status check_unused(const struct gw_config *config,
                                   const struct gw_policy_plan *plan,
                                   struct gw_error *error)
{
    int parts = config->policy.fragments > 1;
    if (config->policy.inner_clip > 0 && !has_phase(plan, gw_policy_is_local))
        return gw_fail(error, GW_EUSAGE,
                       "policy.inner_clip: only workers that take steps of "
                       "their own clip by it; leave it 0, train.clip is for "
                       "gradients that servers see");
    if ((!parts && config->policy.overlap == 0) || has_phase(plan, is_diloco))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "%s; leave it %d, or set cluster.policy to diloco:H",
                   parts ? "policy.fragments: only diloco exchanges the model "
                           "in parts"
                         : "policy.overlap: only diloco goes on while an "
                           "exchange is under way",
                   parts ? 1 : 0);
}

enum gw_status gw_config_check_policy(const struct gw_config *config,
                                      struct gw_error *error)
{
    struct gw_policy_plan plan;
    read_plan(config, &plan);
    for (size_t i = 0; i < plan.n; i++) {
        enum gw_status status =
            gw_config_check_phase(config, &plan.phase[i].word, error);
        if (status)
            return status;
    }
    return check_unused(config, &plan, error);
}
