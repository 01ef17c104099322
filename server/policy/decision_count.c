/*
 * Backup workers: which ranks a step is made of. The first `quorum` whose
 * pushes are whole at every shard count, the others' are late; one decision for
 * all shards says so, before they reduce.
 */
#include "config.h"

#include "server/policy/decision_state.h"

#include <stdlib.h>
#include <string.h>

enum gw_status gw_count_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    leader->arrived = calloc((size_t)options->shards * options->ranks,
                             sizeof *leader->arrived);
    leader->arrivals = calloc(options->ranks, sizeof *leader->arrivals);
    leader->first = calloc(options->ranks, sizeof *leader->first);
    return leader->arrived && leader->arrivals && leader->first ? GW_OK
                                                                : GW_ENOMEM;
}

void gw_count_close(struct gw_leader *leader)
{
    free(leader->arrived);
    free(leader->arrivals);
    free(leader->first);
}

void gw_count_next(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    if (leader->regime.quorum == 0)
        return;
    memset(leader->arrived, 0, (size_t)options->shards * options->ranks);
    memset(leader->arrivals, 0, options->ranks * sizeof *leader->arrivals);
    leader->first_n = 0;
    leader->counted = 0;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

static void decide_count(struct gw_leader *leader)
{
    qsort(leader->first, leader->first_n, sizeof *leader->first, by_rank);
    struct gw_decision count = {
        .kind = GW_DECIDE_COUNT,
        .clock = leader->state.clock,
        .ranks = leader->first,
        .ranks_n = leader->first_n,
    };
    leader->counted = 1;
    gw_leader_emit(leader, &count);
}

static void
note_arrival(struct gw_leader *leader, uint32_t shard, uint32_t rank)
{
    uint8_t *seen =
        &leader->arrived[(size_t)shard * leader->options.ranks + rank];
    if (leader->counted || *seen)
        return;
    *seen = 1;
    if (++leader->arrivals[rank] < leader->voters)
        return;
    leader->first[leader->first_n++] = rank;
    if (leader->first_n == leader->regime.quorum)
        decide_count(leader);
}

enum gw_status gw_leader_arrived(struct gw_leader *leader,
                                 uint32_t shard,
                                 const struct gw_arrived *arrived)
{
    const struct gw_leader_options *options = &leader->options;
    uint64_t clock = leader->state.clock;
    if (leader->regime.quorum == 0 || shard >= options->shards ||
        options->map->shard_chunks[shard] == 0 || arrived->clock > clock)
        return GW_EPROTO;
    for (uint32_t i = 0; i < arrived->ranks_n; i++)
        if (arrived->ranks[i] >= options->ranks)
            return GW_EPROTO;
    /* with the last one another clock may begin */
    for (uint32_t i = 0;
         i < arrived->ranks_n && arrived->clock == leader->state.clock; i++)
        note_arrival(leader, shard, arrived->ranks[i]);
    return GW_OK;
}
