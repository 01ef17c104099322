/*
 * Numbers by which results are divided, multiplied or chosen. A shard knows the
 * job, so it knows their bounds: a worker that exceeds them has a fault, and
 * would spoil the model without a word.
 */
#include "config.h"

#include "server/server_state.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/schedule.h"
#include "proto/split.h"

static uint64_t step_samples(const struct gw_server *server)
{
    return gw_schedule_step_max(&server->config, &server->start.course);
}

uint64_t gw_measure_push_max(const struct gw_server *server)
{
    return gw_regime_push_max(&server->regime,
                              gw_schedule_part_max(&server->config,
                                                   step_samples(server),
                                                   server->ranks));
}

/* Samples that count for a chunk's next version, or will. */
static uint64_t samples_here(const struct gw_server *server, uint32_t index)
{
    uint64_t sum = server->shard->chunk[index].samples;
    for (uint32_t rank = 0;
         rank < server->ranks && gw_due_has_deferred(&server->due); rank++) {
        const struct gw_shard_slot *slot =
            gw_shard_slot(server->shard, rank, index);
        sum += slot->landed ? slot->samples : 0;
    }
    return sum;
}

int gw_measure_push(const struct gw_server *server,
                    uint32_t index,
                    const struct gw_part *part,
                    uint32_t n,
                    char *why,
                    size_t why_bytes)
{
    uint64_t most = gw_measure_push_max(server);
    uint64_t all = gw_regime_clock_max(&server->regime, step_samples(server));
    uint64_t held = samples_here(server, index), sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += part[i].samples;
        if (part[i].samples <= most)
            continue;
        snprintf(why, why_bytes,
                 "push of %" PRIu32 " samples of rank %" PRIu32
                 ", which has %" PRIu64 " at most",
                 part[i].samples, part[i].rank, most);
        return 0;
    }
    /* by speed a rank alone may have all of them, but not two */
    if (held + sum <= all)
        return 1;
    snprintf(why, why_bytes,
             "push of %" PRIu64 " samples beside %" PRIu64
             " of others, all have %" PRIu64 " at most",
             sum, held, all);
    return 0;
}

/* Test sets of programs are of any size, a part for each rank, and their losses
   of either sign. */
static int fits_program(const struct gw_server *server,
                        const struct gw_score *score)
{
    return gw_config_is_external(&server->config) &&
           score->correct <= score->samples &&
           score->samples <= server->start.test_samples / server->ranks;
}

/* A loss may be infinite or NaN, if the model is; it is never below 0. A
   rank scores its part of the test set, all of it. */
int gw_measure_score(const struct gw_server *server,
                     uint32_t rank,
                     const struct gw_score *score,
                     char *why,
                     size_t why_bytes)
{
    uint64_t all = server->start.test_samples;
    uint64_t part = gw_split_place(all, server->ranks, rank + 1) -
                    gw_split_place(all, server->ranks, rank);
    if (fits_program(server, score))
        return 1;
    if (score->correct > score->samples || score->loss < 0) {
        snprintf(why, why_bytes,
                 "score of a loss below 0, or of more that is right than there "
                 "is");
        return 0;
    }
    if (score->samples == part)
        return 1;
    snprintf(why, why_bytes,
             "score of %" PRIu64 " samples, its part of the test set has "
             "%" PRIu64,
             score->samples, part);
    return 0;
}
