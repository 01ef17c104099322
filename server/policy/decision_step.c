/* Steps that are committed as a whole: the shards' votes, and the decision. */
#include "config.h"

#include "server/policy/decision_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"

struct gw_leader_votes {
    uint8_t phase;       /* 1, or 2 with trust ratios */
    uint32_t n;          /* shards that have voted in it */
    uint32_t *voted;     /* [shards] values received */
    double *square;      /* [chunks], and [2 * chunks] in phase 2 */
    double *trust;       /* [keys] */
    uint64_t samples;    /* as votes of this phase count them */
    uint32_t samples_by; /* the first shard that counted them */
    int has_samples;     /* a vote is here */
    uint64_t clock;      /* the step that was decided last */
    uint32_t *nonfinite; /* [ranks] rising: senders of nonfinite gradients */
    uint32_t nonfinite_n;
};

enum gw_status gw_votes_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    struct gw_leader_votes *votes = calloc(1, sizeof *votes);
    leader->votes = votes;
    if (!votes)
        return GW_ENOMEM;
    votes->phase = 1;
    votes->voted = calloc(options->shards, sizeof *votes->voted);
    votes->square = calloc(2 * options->map->chunks, sizeof *votes->square);
    votes->trust = calloc(options->map->keys, sizeof *votes->trust);
    votes->nonfinite = calloc(options->ranks, sizeof *votes->nonfinite);
    return votes->voted && votes->square && votes->trust && votes->nonfinite
               ? GW_OK
               : GW_ENOMEM;
}

void gw_votes_close(struct gw_leader *leader)
{
    struct gw_leader_votes *votes = leader->votes;
    if (!votes)
        return;
    free(votes->voted);
    free(votes->square);
    free(votes->trust);
    free(votes->nonfinite);
    free(votes);
}

static void note_nonfinite(struct gw_leader *leader, const struct gw_vote *vote)
{
    struct gw_leader_votes *votes = leader->votes;
    for (uint32_t i = 0; i < vote->nonfinite_ranks_n; i++) {
        uint32_t rank = vote->nonfinite_ranks[i], at = 0;
        while (at < votes->nonfinite_n && votes->nonfinite[at] < rank)
            at++;
        if (rank >= leader->options.ranks ||
            (at < votes->nonfinite_n && votes->nonfinite[at] == rank))
            continue;
        memmove(votes->nonfinite + at + 1, votes->nonfinite + at,
                (votes->nonfinite_n - at) * sizeof *votes->nonfinite);
        votes->nonfinite[at] = rank;
        votes->nonfinite_n++;
    }
}

static void forget_votes(struct gw_leader *leader, uint8_t phase)
{
    struct gw_leader_votes *votes = leader->votes;
    memset(votes->voted, 0, leader->options.shards * sizeof *votes->voted);
    votes->n = 0;
    votes->phase = phase;
    votes->has_samples = 0;
    if (phase == 1)
        votes->nonfinite_n = 0;
}

/* ---- decisions ---- */

static int is_scale_dynamic(const struct gw_leader *leader)
{
    return strcmp(leader->options.config->train.loss_scale, "dynamic") == 0;
}

/* The scale after a step, and whether a skip counts towards the end. */
static int adapt_scale(struct gw_leader *leader, int finite)
{
    struct gw_decision_state *state = &leader->state;
    if (!is_scale_dynamic(leader))
        return !finite;
    if (finite) {
        state->good_steps++;
        if (state->good_steps >= GW_LOSS_SCALE_AFTER) {
            state->good_steps = 0;
            state->loss_scale = fmin(2 * state->loss_scale, GW_LOSS_SCALE_MAX);
        }
        return 0;
    }
    int at_minimum = state->loss_scale <= GW_LOSS_SCALE_MIN;
    state->good_steps = 0;
    state->loss_scale = fmax(state->loss_scale / 2, GW_LOSS_SCALE_MIN);
    return at_minimum;
}

/* The state after a step; whether a skip counts towards the end. */
static void advance(struct gw_leader *leader, int finite, int counts)
{
    struct gw_decision_state *state = &leader->state;
    uint64_t next = gw_rounds_next(&leader->rounds, 0, state->clock);
    state->pushes += finite ? (next - state->clock) * leader->options.ranks : 0;
    state->clock = next;
    gw_count_next(leader);
    state->applied += finite != 0;
    if (finite)
        state->skipped_in_a_row = 0;
    else if (counts)
        state->skipped_in_a_row++;
}

static void decide_step(struct gw_leader *leader)
{
    const struct gw_config *config = leader->options.config;
    struct gw_decision_state *state = &leader->state;
    struct gw_leader_votes *votes = leader->votes;
    double total = 0;
    for (size_t i = 0; i < leader->options.map->chunks; i++)
        total += votes->square[i];
    int finite = config->train.nonfinite == GW_NONFINITE_PASS ||
                 (isfinite(total) && votes->nonfinite_n == 0);
    /* without samples in the ranks that count, the sum is zero */
    double norm =
        votes->samples > 0
            ? sqrt(total) / ((double)votes->samples * state->loss_scale)
            : 0;
    double clip = 1;
    if (finite && config->train.clip > 0)
        clip = gw_clip_to(config->train.clip, norm);
    int counts = adapt_scale(leader, finite);
    double values[3] = {clip, state->loss_scale, norm};
    votes->clock = state->clock;
    struct gw_decision step = {
        .kind = GW_DECIDE_STEP,
        .apply = finite != 0,
        .clock = state->clock,
        .values = values,
        .values_n = 3,
        .ranks = votes->nonfinite,
        .ranks_n = votes->nonfinite_n,
    };
    advance(leader, finite, counts);
    gw_leader_emit(leader, &step);
    int limit = config->train.nonfinite == GW_NONFINITE_SKIP ? GW_SKIPS_MAX : 1;
    if ((int)state->skipped_in_a_row >= limit)
        gw_leader_end(leader, state->clock, GW_END_NONFINITE);
    forget_votes(leader, leader->regime.two_phase && finite ? 2 : 1);
}

/* LAMB: r = |w| / |u| of each key, 1 where either is 0 (You et al., 2019), or
   where it is not finite. */
static void decide_trust(struct gw_leader *leader)
{
    const struct gw_map *map = leader->options.map;
    for (size_t key = 0; key < map->keys; key++) {
        double w = 0, u = 0;
        for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1];
             c++) {
            w += leader->votes->square[2 * c];
            u += leader->votes->square[2 * c + 1];
        }
        double ratio = w > 0 && u > 0 ? sqrt(w) / sqrt(u) : 1;
        leader->votes->trust[key] = isfinite(ratio) ? ratio : 1;
    }
    struct gw_decision trust = {
        .kind = GW_DECIDE_TRUST,
        .clock = leader->votes->clock,
        .values = leader->votes->trust,
        .values_n = (uint32_t)map->keys,
    };
    gw_leader_emit(leader, &trust);
    forget_votes(leader, 1);
}

void gw_votes_follow(struct gw_leader *leader,
                     const struct gw_decision *decision)
{
    int finite = decision->apply != 0;
    if (decision->kind == GW_DECIDE_TRUST) {
        forget_votes(leader, 1);
    } else if (decision->kind == GW_DECIDE_STEP) {
        leader->votes->clock = decision->clock;
        advance(leader, finite, adapt_scale(leader, finite));
        forget_votes(leader, leader->regime.two_phase && finite ? 2 : 1);
    }
}

/* ---- votes ---- */

/* Said again, to a leader in the place of another or by a shard in the place of
   another: the step is decided, or the same values are here. */
static int is_known(const struct gw_leader *leader,
                    uint32_t shard,
                    const struct gw_vote *vote)
{
    const struct gw_leader_votes *votes = leader->votes;
    if (leader->options.config->cluster.copies == 1)
        return 0;
    if (vote->phase == 1 && vote->clock < leader->state.clock)
        return 1;
    if (vote->phase == 2 && (votes->phase != 2 || vote->clock < votes->clock))
        return 1;
    return shard < leader->options.shards && vote->phase == votes->phase &&
           vote->first < votes->voted[shard];
}

static int is_asked_for(const struct gw_leader *leader,
                        uint32_t shard,
                        const struct gw_vote *vote)
{
    const struct gw_leader_votes *votes = leader->votes;
    uint64_t clock = votes->phase == 2 ? votes->clock : leader->state.clock;
    if (shard >= leader->options.shards || vote->phase != votes->phase ||
        vote->clock != clock ||
        (leader->regime.quorum > 0 && votes->phase == 1 &&
         !gw_count_is_decided(leader)))
        return 0;
    uint32_t chunks = leader->options.map->shard_chunks[shard];
    return chunks > 0 && vote->total == votes->phase * chunks &&
           vote->first == votes->voted[shard] &&
           vote->values_n <= vote->total - vote->first;
}

/* A step may have no samples: those of all ranks that had some are late, or
   programs of the user's have given it no weight. */
static int may_be_empty(const struct gw_leader *leader)
{
    return leader->regime.quorum > 0 ||
           gw_config_is_external(leader->options.config);
}

/* Gradients are divided by the samples. Every chunk has the same number, since
   each rank pushes all chunks. */
static enum gw_status judge_samples(const struct gw_leader *leader,
                                    uint32_t shard,
                                    const struct gw_vote *vote,
                                    struct gw_error *error)
{
    uint64_t most =
        gw_regime_steps(&leader->regime) *
        gw_schedule_step_max(leader->options.config, &leader->options.course);
    if (vote->samples > most || (vote->samples == 0 && !may_be_empty(leader)))
        return gw_fail(error, GW_EPROTO,
                       "shard %u counts %" PRIu64 " samples in step %" PRIu64
                       ", which has 1 to %" PRIu64,
                       shard, vote->samples, vote->clock, most);
    if (leader->votes->has_samples && vote->samples != leader->votes->samples)
        return gw_fail(error, GW_EPROTO,
                       "shard %u counts %" PRIu64 " samples in step %" PRIu64
                       ", shard %u counts %" PRIu64,
                       shard, vote->samples, vote->clock,
                       leader->votes->samples_by, leader->votes->samples);
    return GW_OK;
}

enum gw_status gw_leader_vote(struct gw_leader *leader,
                              uint32_t shard,
                              const struct gw_vote *vote,
                              struct gw_error *error)
{
    const struct gw_map *map = leader->options.map;
    struct gw_leader_votes *votes = leader->votes;
    if (is_known(leader, shard, vote))
        return GW_OK;
    if (!is_asked_for(leader, shard, vote))
        return gw_fail(error, GW_EPROTO,
                       "shard %u voted on step %" PRIu64
                       " when it was not asked",
                       shard, vote->clock);
    if (judge_samples(leader, shard, vote, error) != GW_OK)
        return GW_EPROTO;
    uint32_t width = votes->phase;
    for (uint32_t i = 0; i < vote->values_n; i++) {
        uint32_t at = vote->first + i;
        uint32_t global = map->shard_chunk[shard][at / width];
        votes->square[width * global + at % width] = vote->values[i];
    }
    note_nonfinite(leader, vote);
    if (!votes->has_samples)
        votes->samples_by = shard;
    votes->has_samples = 1;
    votes->samples = vote->samples;
    votes->voted[shard] += vote->values_n;
    if (votes->voted[shard] < vote->total)
        return GW_OK;
    if (++votes->n < leader->voters)
        return GW_OK;
    if (votes->phase == 1)
        decide_step(leader);
    else
        decide_trust(leader);
    return GW_OK;
}
