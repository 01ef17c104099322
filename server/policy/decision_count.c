/*
 * Backup workers: the ranks that make a step. The first `quorum` ranks that
 * have their pushes whole at every shard count, the others are late; one
 * decision tells all shards, before they reduce.
 */
#include "config.h"

#include "server/policy/decision_state.h"

#include <stdlib.h>
#include <string.h>

/* The clock that is gathered. */
struct gw_leader_count {
    uint8_t *arrived;   /* [shards][ranks] all pushes are there */
    uint32_t *arrivals; /* [ranks] shards with all pushes */
    uint32_t *first;    /* [ranks] whole at all shards, in that order */
    uint32_t first_n;
    int is_decided;
};

enum gw_status gw_count_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    struct gw_leader_count *count = calloc(1, sizeof *count);
    leader->count = count;
    if (!count)
        return GW_ENOMEM;
    count->arrived = calloc((size_t)options->shards * options->ranks,
                            sizeof *count->arrived);
    count->arrivals = calloc(options->ranks, sizeof *count->arrivals);
    count->first = calloc(options->ranks, sizeof *count->first);
    return count->arrived && count->arrivals && count->first ? GW_OK
                                                             : GW_ENOMEM;
}

void gw_count_close(struct gw_leader *leader)
{
    struct gw_leader_count *count = leader->count;
    if (!count)
        return;
    free(count->arrived);
    free(count->arrivals);
    free(count->first);
    free(count);
}

int gw_count_is_decided(const struct gw_leader *leader)
{
    return leader->count->is_decided;
}

void gw_count_next(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    struct gw_leader_count *count = leader->count;
    if (leader->regime.quorum == 0)
        return;
    memset(count->arrived, 0, (size_t)options->shards * options->ranks);
    memset(count->arrivals, 0, options->ranks * sizeof *count->arrivals);
    count->first_n = 0;
    count->is_decided = 0;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

static void decide(struct gw_leader *leader)
{
    struct gw_leader_count *count = leader->count;
    qsort(count->first, count->first_n, sizeof *count->first, by_rank);
    struct gw_decision decision = {
        .kind = GW_DECIDE_COUNT,
        .clock = leader->state.clock,
        .ranks = count->first,
        .ranks_n = count->first_n,
    };
    count->is_decided = 1;
    gw_leader_emit(leader, &decision);
}

static void
note_arrival(struct gw_leader *leader, uint32_t shard, uint32_t rank)
{
    struct gw_leader_count *count = leader->count;
    uint8_t *seen =
        &count->arrived[(size_t)shard * leader->options.ranks + rank];
    if (count->is_decided || *seen)
        return;
    *seen = 1;
    if (++count->arrivals[rank] < leader->voters)
        return;
    count->first[count->first_n++] = rank;
    if (count->first_n == leader->regime.quorum)
        decide(leader);
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
    /* the last rank may begin another clock */
    for (uint32_t i = 0;
         i < arrived->ranks_n && arrived->clock == leader->state.clock; i++)
        note_arrival(leader, shard, arrived->ranks[i]);
    return GW_OK;
}
