/*
 * Under per-push policies ranks are at clocks of their own. A decision
 * that needs one state of the whole job (a checkpoint, an evaluation, a
 * switch, the end) waits until all stand still. server/quiesce.h is the side of
 * the shards. On the wire: QUIESCE, QUIESCED of each shard, RESUME.
 */
#include "config.h"

#include "server/policy/decision_state.h"

#include <stdlib.h>
#include <string.h>

struct gw_leader_quiesce {
    uint64_t base_clock, base_pushes; /* steps are counted from here */
    uint64_t number;                  /* number of the quiesce, 0: none */
    uint64_t *standing;               /* [shards][ranks] as quiesced */
    uint8_t *blocked;                 /* [shards][ranks] */
    uint8_t *quiesced;                /* [shards] */
};

enum gw_status gw_leader_quiesce_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    size_t all = (size_t)options->shards * options->ranks;
    struct gw_leader_quiesce *quiesce = calloc(1, sizeof *quiesce);
    leader->quiesce = quiesce;
    if (!quiesce)
        return GW_ENOMEM;
    quiesce->standing = calloc(all, sizeof *quiesce->standing);
    quiesce->blocked = calloc(all, sizeof *quiesce->blocked);
    quiesce->quiesced = calloc(options->shards, sizeof *quiesce->quiesced);
    quiesce->base_clock = options->state.clock;
    quiesce->base_pushes = options->state.pushes;
    return quiesce->standing && quiesce->blocked && quiesce->quiesced
               ? GW_OK
               : GW_ENOMEM;
}

void gw_leader_quiesce_close(struct gw_leader *leader)
{
    struct gw_leader_quiesce *quiesce = leader->quiesce;
    if (!quiesce)
        return;
    free(quiesce->standing);
    free(quiesce->blocked);
    free(quiesce->quiesced);
    free(quiesce);
}

void gw_leader_quiesce_begin(struct gw_leader *leader, uint64_t clock)
{
    gw_stream_stand(leader, clock);
    leader->quiesce->base_clock = clock;
    leader->quiesce->base_pushes = leader->state.pushes;
}

/* ---- due decisions ---- */

static int is_over(const struct gw_leader *leader)
{
    return leader->ends || leader->state.clock >= leader->options.total_steps;
}

void gw_leader_quiesce_maybe(struct gw_leader *leader)
{
    struct gw_leader_quiesce *quiesce = leader->quiesce;
    /* before the first answers no push is under way */
    if (!leader->regime.per_push || quiesce->number ||
        leader->seen_version == GW_NEVER_CLOCK ||
        leader->end_clock != GW_NEVER_CLOCK || gw_scores_is_asked(leader))
        return;
    if (!is_over(leader) && !gw_cuts_is_due(leader) &&
        !gw_scores_is_due(leader) && !gw_switch_is_due(leader))
        return;
    struct gw_decision decision = {.kind = GW_DECIDE_QUIESCE,
                                   .clock = leader->state.clock};
    memset(quiesce->quiesced, 0, leader->options.shards);
    quiesce->number = gw_stream_number(leader) + 1;
    gw_leader_emit(leader, &decision);
}

void gw_leader_pushed(struct gw_leader *leader,
                      uint64_t updates,
                      uint64_t pushes)
{
    const struct gw_leader_quiesce *quiesce = leader->quiesce;
    leader->state.applied = updates;
    leader->state.pushes = pushes;
    leader->state.clock =
        quiesce->base_clock +
        (pushes - quiesce->base_pushes) / leader->options.ranks;
    gw_leader_quiesce_maybe(leader);
}

/* ---- where all stand still ---- */

/* Non-zero where another policy begins: it resumes by itself. */
static int decide_due(struct gw_leader *leader, struct gw_decision *resume)
{
    uint64_t clock = leader->state.clock;
    if (clock >= leader->options.total_steps) {
        gw_leader_end(leader, leader->options.total_steps, GW_END_COMPLETE);
    } else if (leader->ends) {
        gw_leader_end(leader, clock, leader->ends);
    } else if (gw_switch_is_due(leader) && !gw_scores_is_due(leader)) {
        if (gw_switch_meet(leader, resume))
            gw_leader_quiesce_begin(leader, clock);
        return 1;
    } else {
        if (gw_cuts_is_due(leader))
            gw_leader_cut(leader, clock, 0);
        resume->reason = gw_scores_is_due(leader) != 0;
    }
    return 0;
}

/* A rank that waits for a score is not blocked, so nothing else may begin. */
static void go_on(struct gw_leader *leader)
{
    struct gw_decision resume = {.kind = GW_DECIDE_RESUME};
    leader->quiesce->number = 0;
    if (decide_due(leader, &resume))
        return;
    gw_scores_ask(leader, resume.reason);
    resume.clock = leader->end_clock != GW_NEVER_CLOCK ? leader->end_clock
                                                       : leader->state.clock;
    gw_leader_emit(leader, &resume);
}

/* Every shard that owns a chunk says the same of the rank, and one of them has
   it waiting. */
static int stands_still(const struct gw_leader *leader, uint32_t rank)
{
    const struct gw_leader_options *options = &leader->options;
    int blocked = 0, first = 1;
    uint64_t clock = 0;
    for (uint32_t shard = 0; shard < options->shards; shard++) {
        size_t place = (size_t)shard * options->ranks + rank;
        if (options->map->shard_chunks[shard] == 0)
            continue;
        if (!first && leader->quiesce->standing[place] != clock)
            return 0;
        clock = leader->quiesce->standing[place];
        blocked |= leader->quiesce->blocked[place];
        first = 0;
    }
    return blocked;
}

static int all_stand_still(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    for (uint32_t shard = 0; shard < options->shards; shard++)
        if (options->map->shard_chunks[shard] > 0 &&
            !leader->quiesce->quiesced[shard])
            return 0;
    for (uint32_t rank = 0; rank < options->ranks; rank++)
        if (!stands_still(leader, rank))
            return 0;
    return 1;
}

enum gw_status gw_leader_quiesced(struct gw_leader *leader,
                                  uint32_t shard,
                                  const struct gw_quiesced *quiesced)
{
    struct gw_leader_quiesce *quiesce = leader->quiesce;
    uint32_t ranks = leader->options.ranks;
    if (shard >= leader->options.shards || quiesced->clocks_n != ranks)
        return GW_EPROTO;
    if (quiesced->decision != quiesce->number || !quiesce->number)
        return GW_OK; /* the answer to a quiesce that is over */
    size_t place = (size_t)shard * ranks;
    memset(quiesce->blocked + place, 0, ranks);
    for (uint32_t i = 0; i < quiesced->blocked_n; i++) {
        if (quiesced->blocked[i] >= ranks)
            return GW_EPROTO;
        quiesce->blocked[place + quiesced->blocked[i]] = 1;
    }
    memcpy(quiesce->standing + place, quiesced->clocks,
           ranks * sizeof *quiesced->clocks);
    quiesce->quiesced[shard] = 1;
    if (!all_stand_still(leader))
        return GW_OK;
    gw_stream_stand_apart(leader, quiesced->clocks);
    go_on(leader);
    return GW_OK;
}
