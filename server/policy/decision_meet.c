/*
 * Meetings: where each push makes a version, ranks are at clocks of their own,
 * and what needs one state of the whole job (a checkpoint, an evaluation, the
 * end) waits until all stand still. See each.c for how shards bring that about.
 */
#include "config.h"

#include "server/policy/decision_state.h"

#include <stdlib.h>
#include <string.h>

enum gw_status gw_meet_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    size_t all = (size_t)options->shards * options->ranks;
    leader->at = calloc(options->ranks, sizeof *leader->at);
    leader->standing = calloc(all, sizeof *leader->standing);
    leader->blocked = calloc(all, sizeof *leader->blocked);
    leader->settled = calloc(options->shards, sizeof *leader->settled);
    if (!leader->at || !leader->standing || !leader->blocked ||
        !leader->settled)
        return GW_ENOMEM;
    gw_meet_begin(leader, options->state.clock);
    for (uint32_t rank = 0; rank < options->ranks && options->clocks; rank++)
        leader->at[rank] = options->clocks[rank];
    leader->cut_pushes = options->state.pushes;
    return GW_OK;
}

void gw_meet_begin(struct gw_leader *leader, uint64_t clock)
{
    for (uint32_t rank = 0; rank < leader->options.ranks; rank++)
        leader->at[rank] = clock;
    leader->base_clock = clock;
    leader->base_pushes = leader->state.pushes;
}

void gw_meet_close(struct gw_leader *leader)
{
    free(leader->at);
    free(leader->standing);
    free(leader->blocked);
    free(leader->settled);
}

/* ---- what is due ---- */

static int is_over(const struct gw_leader *leader)
{
    return leader->stop || leader->state.clock >= leader->options.total_steps;
}

static int cut_is_due(const struct gw_leader *leader)
{
    if (!gw_leader_saves(leader) || leader->cuts_open > 0 ||
        leader->cut_clock == GW_NEVER_CLOCK)
        return 0;
    return leader->want_cut ||
           gw_leader_cut_is_due(leader, leader->state.clock);
}

static int evaluation_is_due(const struct gw_leader *leader)
{
    return gw_evaluations_due(leader, leader->state.clock) > leader->dues_done;
}

void gw_meet_maybe(struct gw_leader *leader)
{
    /* before the first answers there is nothing to be drained */
    if (!leader->regime.each || leader->drain ||
        leader->seen_version == GW_NEVER_CLOCK ||
        leader->end_clock != GW_NEVER_CLOCK || leader->scoring)
        return;
    if (!is_over(leader) && !cut_is_due(leader) && !evaluation_is_due(leader) &&
        !gw_switch_is_due(leader))
        return;
    struct gw_decision drain = {.kind = GW_DECIDE_DRAIN,
                                .clock = leader->state.clock};
    memset(leader->settled, 0, leader->options.shards);
    leader->drain = leader->number + 1;
    gw_leader_emit(leader, &drain);
}

void gw_leader_pushed(struct gw_leader *leader,
                      uint64_t updates,
                      uint64_t pushes)
{
    leader->state.applied = updates;
    leader->state.pushes = pushes;
    leader->state.clock = leader->base_clock + (pushes - leader->base_pushes) /
                                                   leader->options.ranks;
    gw_meet_maybe(leader);
}

/* ---- where all stand still ---- */

static void meet(struct gw_leader *leader)
{
    struct gw_decision resume = {.kind = GW_DECIDE_RESUME};
    leader->drain = 0;
    if (leader->state.clock >= leader->options.total_steps)
        gw_leader_end(leader, leader->options.total_steps, GW_END_COMPLETE);
    else if (leader->stop)
        gw_leader_end(leader, leader->state.clock, GW_END_STOPPED);
    else if (gw_switch_is_due(leader) && !evaluation_is_due(leader)) {
        gw_switch_meet(leader, &resume);
        return;
    } else {
        if (cut_is_due(leader))
            gw_leader_cut(leader, leader->state.clock, 0);
        resume.reason = evaluation_is_due(leader) != 0;
    }
    /* who waits for a score is not blocked, so nothing else may begin */
    leader->scoring = resume.reason;
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
        if (!first && leader->standing[place] != clock)
            return 0;
        clock = leader->standing[place];
        blocked |= leader->blocked[place];
        first = 0;
    }
    return blocked;
}

static int all_stand_still(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    for (uint32_t shard = 0; shard < options->shards; shard++)
        if (options->map->shard_chunks[shard] > 0 && !leader->settled[shard])
            return 0;
    for (uint32_t rank = 0; rank < options->ranks; rank++)
        if (!stands_still(leader, rank))
            return 0;
    return 1;
}

enum gw_status gw_leader_settled(struct gw_leader *leader,
                                 uint32_t shard,
                                 const struct gw_settled *settled)
{
    uint32_t ranks = leader->options.ranks;
    if (shard >= leader->options.shards || settled->clocks_n != ranks)
        return GW_EPROTO;
    if (settled->decision != leader->drain || !leader->drain)
        return GW_OK; /* of a drain that is over */
    size_t place = (size_t)shard * ranks;
    memset(leader->blocked + place, 0, ranks);
    for (uint32_t i = 0; i < settled->blocked_n; i++) {
        if (settled->blocked[i] >= ranks)
            return GW_EPROTO;
        leader->blocked[place + settled->blocked[i]] = 1;
    }
    memcpy(leader->standing + place, settled->clocks,
           ranks * sizeof *settled->clocks);
    leader->settled[shard] = 1;
    if (!all_stand_still(leader))
        return GW_OK;
    memcpy(leader->at, settled->clocks, ranks * sizeof *leader->at);
    meet(leader);
    return GW_OK;
}
