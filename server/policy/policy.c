#include "config.h"

#include "server/policy/policy.h"

#include <stddef.h>

/*
 * sync (BSP), and local and diloco, which have clocks some steps apart:
 * version v + 1 is made of the pushes of clock v of all ranks. A rank that
 * pushes clock v has every chunk at version v, so no chunk it pushes to can be
 * further behind.
 */
static enum gw_push_verdict sync_judge(const struct gw_policy_view *view,
                                       uint64_t clock)
{
    if (clock < view->version || (clock == view->version && view->held))
        return GW_PUSH_DUPLICATE;
    return clock == view->version ? GW_PUSH_HOLD : GW_PUSH_VIOLATION;
}

static int sync_complete(uint32_t held, uint32_t ranks)
{
    return held == ranks;
}

/* A want that was posted for the first clock of a policy may have the condition
   of the one before. All say the same there: the pushes are in. */
static int sync_answerable(const struct gw_want *want,
                           const struct gw_policy_view *view)
{
    return view->version >= want->value;
}

/*
 * Backup workers (Chen et al. 2016): as sync, but a version may be made
 * without a rank's push, which is late then, and the late rank goes on at a
 * newer version. A rank's mark tells a late push from one that was in or late
 * before.
 */
static enum gw_push_verdict backup_judge(const struct gw_policy_view *view,
                                         uint64_t clock)
{
    if (clock > view->version)
        return GW_PUSH_VIOLATION;
    if (clock < view->mark || view->held)
        return GW_PUSH_DUPLICATE;
    return clock < view->version || view->left_out ? GW_PUSH_LATE
                                                   : GW_PUSH_HOLD;
}

/* The number of held pushes says nothing before it is decided which ranks
   count. */
static int backup_complete(uint32_t held, uint32_t ranks)
{
    (void)held;
    (void)ranks;
    return 0;
}

/*
 * Each push by itself: a rank pushes its clocks in order, and the next one of a
 * chunk only when it has got weights for the one before.
 */
static enum gw_push_verdict each_judge(const struct gw_policy_view *view,
                                       uint64_t clock)
{
    if (clock < view->mark || (clock == view->mark && view->held))
        return GW_PUSH_DUPLICATE;
    return clock == view->mark ? GW_PUSH_HOLD : GW_PUSH_VIOLATION;
}

static int each_complete(uint32_t held, uint32_t ranks)
{
    (void)ranks;
    return held > 0;
}

/*
 * A rank without samples would go through clocks as fast as messages go, and
 * the job's step, the mean of all clocks, with it. So it goes no further than
 * the ranks with samples have come. The slowest rank of all is always answered,
 * or ranks without samples would wait for each other.
 */
static int goes_on(const struct gw_want *want,
                   const struct gw_policy_view *view)
{
    return !view->idle || want->value <= view->most ||
           want->value <= view->least;
}

/*
 * Under ssp wants have a slack. Stale synchronous parallel (Ho et al. 2013): a
 * rank that computes clock c has read every update of clocks below c - slack.
 * Each chunk holds to it by its own marks, so the bound needs no decision.
 */
static int each_answerable(const struct gw_want *want,
                           const struct gw_policy_view *view)
{
    uint64_t least = want->value > want->slack ? want->value - want->slack : 0;
    return view->mark >= want->value && goes_on(want, view) &&
           (want->condition != GW_WANT_MINIMUM || view->least >= least);
}

static const struct gw_policy sync = {
    .judge = sync_judge,
    .complete = sync_complete,
    .answerable = sync_answerable,
};
static const struct gw_policy backup = {
    .judge = backup_judge,
    .complete = backup_complete,
    .answerable = sync_answerable,
};
static const struct gw_policy each = {
    .per_push = 1,
    .judge = each_judge,
    .complete = each_complete,
    .answerable = each_answerable,
};

/* Two policies that share an entry differ in how pushes become updates, or in
   the workers' wants. */
static const struct gw_policy *const policies[GW_POLICY_KINDS] = {
    [GW_POLICY_SYNC] = &sync,     [GW_POLICY_BACKUP] = &backup,
    [GW_POLICY_SSP] = &each,      [GW_POLICY_ASYNC] = &each,
    [GW_POLICY_STALE_LR] = &each, [GW_POLICY_DC_ASYNC] = &each,
    [GW_POLICY_DOWNPOUR] = &each, [GW_POLICY_EASGD] = &each,
    [GW_POLICY_LOCAL] = &sync,    [GW_POLICY_DILOCO] = &sync,
};

const struct gw_policy *gw_policy_find(enum gw_policy_kind kind)
{
    return kind < GW_POLICY_KINDS ? policies[kind] : NULL;
}

double gw_policy_lr_factor(enum gw_policy_kind kind,
                           double scale,
                           uint32_t ranks,
                           uint64_t samples,
                           uint64_t clock_samples,
                           uint64_t staleness)
{
    double part = (double)samples / (double)clock_samples;
    return scale * ranks * part * gw_policy_weight(kind, staleness);
}

double gw_policy_weight(enum gw_policy_kind kind, uint64_t staleness)
{
    return kind == GW_POLICY_STALE_LR && staleness > 1 ? 1 / (double)staleness
                                                       : 1;
}

uint32_t gw_policy_group(const struct gw_policy_word *word, uint32_t ranks)
{
    if (word->kind != GW_POLICY_STALE_LR || word->n == 0 || word->n > ranks)
        return 1;
    return ranks / (uint32_t)word->n;
}
