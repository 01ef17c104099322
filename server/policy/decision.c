/* The leader: opening; versions, stops and requests. */
#include "config.h"

#include "server/policy/decision_state.h"

#include <stdlib.h>
#include <string.h>

double gw_loss_scale_first(const struct gw_config *config)
{
    if (strcmp(config->train.loss_scale, "dynamic") == 0)
        return GW_LOSS_SCALE_FIRST;
    if (strcmp(config->train.loss_scale, "none") == 0)
        return 1;
    return strtod(config->train.loss_scale, NULL);
}

static const struct {
    enum gw_status (*open)(struct gw_leader *leader);
    void (*close)(struct gw_leader *leader);
} parts[] = {
    {gw_stream_open, gw_stream_close},
    {gw_cuts_open, gw_cuts_close},
    {gw_switch_open, gw_switch_close},
    {gw_scores_open, gw_scores_close},
    {gw_votes_open, gw_votes_close},
    {gw_count_open, gw_count_close},
    {gw_split_open, gw_split_close},
    {gw_leader_quiesce_open, gw_leader_quiesce_close},
};

enum gw_status gw_leader_create(const struct gw_leader_options *options,
                                struct gw_leader **leader_p,
                                struct gw_error *error)
{
    /* lamb, now or in another phase */
    if (strcmp(options->config->optimizer.kind, "lamb") == 0 &&
        options->map->keys > GW_TRUST_KEYS_MAX)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "optimizer.kind = lamb: the model has %zu keys, %d are "
                       "the limit; take another optimizer",
                       options->map->keys, GW_TRUST_KEYS_MAX);
    struct gw_leader *leader = calloc(1, sizeof *leader);
    if (!leader)
        return gw_fail(error, GW_ENOMEM, "no memory for decisions");
    leader->options = *options;
    leader->state = options->state;
    if (leader->state.loss_scale == 0)
        leader->state.loss_scale = gw_loss_scale_first(options->config);
    leader->seen_version = GW_NEVER_CLOCK;
    leader->end_clock = GW_NEVER_CLOCK;
    for (uint32_t shard = 0; shard < options->shards; shard++)
        leader->voters += options->map->shard_chunks[shard] > 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].open(leader) == GW_OK)
            continue;
        gw_leader_destroy(leader);
        return gw_fail(error, GW_ENOMEM, "no memory for decisions");
    }
    *leader_p = leader;
    return GW_OK;
}

void gw_leader_destroy(struct gw_leader *leader)
{
    if (!leader)
        return;
    for (size_t i = sizeof parts / sizeof *parts; i > 0; i--)
        parts[i - 1].close(leader);
    free(leader);
}

const struct gw_decision_state *gw_leader_state(const struct gw_leader *leader)
{
    return &leader->state;
}

/* ---- versions ---- */

/* Updates of a chunk from one version to another. */
static uint64_t
exchanges(const struct gw_leader *leader, uint64_t from, uint64_t to)
{
    uint64_t n = 0;
    for (; from < to; n++)
        from = gw_rounds_next(&leader->rounds, 0, from);
    return n;
}

/* Streaming applies every step. */
static void apply_to(struct gw_leader *leader, uint64_t version)
{
    struct gw_decision_state *state = &leader->state;
    uint64_t steps = version - state->clock;
    state->applied += exchanges(leader, state->clock, version);
    state->pushes += steps * leader->options.ranks;
    state->clock = version;
}

void gw_leader_before(struct gw_leader *leader, uint64_t version)
{
    if (leader->seen_version != GW_NEVER_CLOCK &&
        version <= leader->seen_version)
        return;
    if (!gw_rounds_meets(&leader->rounds, version))
        return; /* a version of one part of the model */
    leader->seen_version = version;
    if (!leader->regime.whole_step)
        apply_to(leader, version);
    uint64_t begun = gw_switch_begin(leader, version);
    if (begun != GW_NEVER_CLOCK)
        gw_leader_quiesce_begin(leader, begun);
    if (version >= leader->options.total_steps)
        gw_leader_end(leader, version, GW_END_COMPLETE);
    else if (leader->ends)
        gw_leader_end(leader, version, leader->ends);
    else
        gw_cuts_before(leader, version);
    gw_switch_announce(leader);
    gw_split_before(leader, gw_rounds_meeting(&leader->rounds, version));
}

/* ---- stops and requests ---- */

void gw_leader_stop(struct gw_leader *leader)
{
    if (!leader->ends)
        leader->ends = GW_END_STOPPED;
    gw_leader_quiesce_maybe(leader);
}

/* Non-zero if no chunk goes beyond that version while rank 0 does not push. */
static int is_last(const struct gw_leader *leader, uint64_t clock)
{
    return !leader->regime.per_push &&
           (leader->regime.quorum == 0 ||
            leader->regime.quorum == leader->options.ranks) &&
           leader->seen_version == clock;
}

void gw_leader_finish(struct gw_leader *leader, uint64_t clock)
{
    if (!leader->ends)
        leader->ends = GW_END_COMPLETE;
    if (is_last(leader, clock))
        gw_leader_end(leader, clock, leader->ends);
    gw_leader_quiesce_maybe(leader);
}

void gw_leader_want_cut(struct gw_leader *leader)
{
    gw_cuts_want(leader);
    gw_leader_quiesce_maybe(leader);
}

void gw_leader_want_cut_at(struct gw_leader *leader, uint64_t clock)
{
    gw_leader_want_cut(leader);
    gw_cuts_hold(leader, clock);
}

void gw_leader_switch(struct gw_leader *leader,
                      const struct gw_policy_word *word)
{
    gw_switch_ask(leader, word);
    gw_leader_quiesce_maybe(leader);
}

void gw_leader_recall_all(struct gw_leader *leader,
                          uint64_t after,
                          void (*tell)(void *owner,
                                       const struct gw_decision *decision),
                          void *owner)
{
    gw_cuts_forget(leader);
    gw_stream_recall(leader, after, tell, owner);
}

void gw_leader_follow(struct gw_leader *leader,
                      const struct gw_decision *decision)
{
    gw_stream_keep(leader, decision);
    gw_stream_set_number(leader, decision->number);
    if (decision->kind == GW_DECIDE_CUT)
        gw_cuts_follow(leader, decision);
    else if (decision->kind == GW_DECIDE_SCORE)
        gw_scores_follow(leader, decision);
    else if (decision->kind == GW_DECIDE_END)
        leader->end_clock = decision->clock;
    else if (gw_decision_is_of_each_step(decision))
        gw_votes_follow(leader, decision);
}

/* The job has begun: its beginning is no checkpoint any more. */
void gw_leader_stand(struct gw_leader *leader,
                     const struct gw_decision_state *state,
                     uint64_t number)
{
    leader->state = *state;
    leader->options.state.clock = 0;
    gw_stream_set_number(leader, number);
    gw_scores_stand(leader);
}

void gw_leader_recalled(struct gw_leader *leader,
                        const struct gw_decision *decision)
{
    gw_stream_keep(leader, decision);
    if (decision->kind == GW_DECIDE_CUT)
        gw_cuts_recall(leader, decision);
    else if (decision->kind == GW_DECIDE_SCORE)
        gw_scores_recall(leader, decision->clock);
    else if (decision->kind == GW_DECIDE_END)
        leader->end_clock = decision->clock;
}

void gw_leader_recall_kept(struct gw_leader *leader,
                           void (*tell)(void *owner,
                                        const struct gw_decision *decision),
                           void *owner)
{
    gw_stream_recall(leader, UINT64_MAX, tell, owner);
}

/* A whole step that is decided here may be given out already, by the one
   before, and not be made here yet. */
void gw_leader_take_over(struct gw_leader *leader, uint64_t version)
{
    gw_cuts_forget(leader);
    if (leader->regime.whole_step && version < leader->state.clock)
        version = leader->state.clock;
    gw_leader_before(leader, version);
}

uint64_t gw_leader_number(const struct gw_leader *leader)
{
    return gw_stream_number(leader);
}

void gw_leader_stored(struct gw_leader *leader)
{
    gw_cuts_stored(leader);
    gw_scores_recheck(leader);
}
