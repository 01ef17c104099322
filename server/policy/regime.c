#include "config.h"

#include "server/policy/regime.h"

/* Arrays that a shard keeps under the word, besides weights and the optimizer's
   state. */
static unsigned arrays_of(const struct gw_config *config,
                          const struct gw_regime *regime)
{
    unsigned arrays = config->train.arithmetic == GW_ARITHMETIC_NONE
                          ? GW_SHARD_PAYLOAD_FREE
                          : 0;
    if (config->train.weights == GW_ENCODING_BF16)
        arrays |= GW_SHARD_BF16;
    if (regime->whole_step || regime->group > 1 || config->cluster.copies > 1)
        arrays |= GW_SHARD_SUM;
    if (regime->word.kind == GW_POLICY_EASGD)
        arrays |= GW_SHARD_OWN;
    if (regime->word.kind == GW_POLICY_DC_ASYNC)
        arrays |= GW_SHARD_GIVEN;
    if (regime->word.kind == GW_POLICY_DC_ASYNC && config->policy.adaptive)
        arrays |= GW_SHARD_SQUARES;
    return arrays;
}

static enum gw_commit_kind commit_of(const struct gw_regime *regime)
{
    if (regime->per_push)
        return GW_COMMIT_KIND_PER_PUSH;
    if (regime->quorum > 0)
        return GW_COMMIT_KIND_QUORUM;
    return regime->whole_step ? GW_COMMIT_KIND_WHOLE : GW_COMMIT_KIND_STREAMING;
}

enum gw_status gw_regime_make(const struct gw_config *config,
                              const struct gw_policy_word *word,
                              uint64_t step,
                              struct gw_regime *regime_p,
                              struct gw_error *error)
{
    uint32_t workers = (uint32_t)config->cluster.workers;
    struct gw_policy_plan plan;
    enum gw_status status =
        gw_policy_plan_parse(config->cluster.policy, &plan, error);
    if (status != GW_OK)
        return status;
    struct gw_regime regime = {.word = *word};
    if (word->kind == GW_POLICY_BACKUP && word->n == 0)
        regime.word.kind = GW_POLICY_SYNC; /* nobody is left out */
    regime.until = gw_policy_next_switch(&plan, step);
    regime.terms = gw_config_policy_terms(config, &regime.word);
    regime.policy = gw_policy_find(regime.word.kind);
    regime.optimizer = gw_optimizer_find(regime.terms.server);
    if (!regime.policy || !regime.optimizer)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "no optimizer \"%s\" or no policy \"%s\" in this "
                       "version",
                       regime.terms.server, config->cluster.policy);
    regime.per_push = regime.policy->per_push;
    regime.whole_step = gw_config_whole_step_under(config, &regime.word);
    regime.two_phase = regime.optimizer->two_phase;
    if (regime.word.kind == GW_POLICY_BACKUP)
        regime.quorum = workers - (uint32_t)regime.word.n;
    regime.group = gw_policy_group(&regime.word, workers);
    regime.commit = commit_of(&regime);
    regime.lockstep = regime.word.kind == GW_POLICY_SYNC;
    regime.outer = gw_policy_is_local(regime.word.kind);
    regime.can_skip = !regime.per_push && !regime.outer;
    regime.arrays = arrays_of(config, &regime);
    *regime_p = regime;
    return GW_OK;
}

enum gw_status gw_regime_at(const struct gw_config *config,
                            uint64_t step,
                            struct gw_regime *regime_p,
                            struct gw_error *error)
{
    struct gw_policy_plan plan;
    enum gw_status status =
        gw_policy_plan_parse(config->cluster.policy, &plan, error);
    if (status != GW_OK)
        return status;
    const struct gw_policy_word word = gw_policy_at(&plan, step);
    return gw_regime_make(config, &word, step, regime_p, error);
}

uint64_t gw_regime_steps(const struct gw_regime *regime)
{
    const struct gw_policy_word *word = &regime->word;
    return gw_policy_is_local(word->kind) && word->n > 0 ? word->n : 1;
}

uint64_t gw_regime_push_max(const struct gw_regime *regime, uint64_t part)
{
    /* under easgd a push counts its steps */
    return (regime->word.kind == GW_POLICY_EASGD ? 1 : part) *
           gw_regime_steps(regime);
}

uint64_t gw_regime_clock_max(const struct gw_regime *regime, uint64_t step)
{
    return regime->per_push ? UINT64_MAX : step * gw_regime_steps(regime);
}
