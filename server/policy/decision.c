#include "config.h"

#include "server/policy/decision_state.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"

static int dynamic_scale(const struct gw_leader *leader)
{
    return strcmp(leader->options.config->train.loss_scale, "dynamic") == 0;
}

double gw_loss_scale_first(const struct gw_config *config)
{
    if (strcmp(config->train.loss_scale, "dynamic") == 0)
        return GW_LOSS_SCALE_FIRST;
    if (strcmp(config->train.loss_scale, "none") == 0)
        return 1;
    return strtod(config->train.loss_scale, NULL);
}

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
    leader->dues_done = gw_evaluations_due(leader, options->state.clock);
    /* more were made where the interval was another */
    if (leader->dues_done > leader->state.evaluations)
        leader->dues_done = leader->state.evaluations;
    gw_switch_hold(leader, &options->regime, options->state.clock);
    leader->next_clock = GW_NEVER_CLOCK;
    leader->seen_version = GW_NEVER_CLOCK;
    leader->end_clock = GW_NEVER_CLOCK;
    leader->cut_clock =
        options->resumed ? options->state.clock : GW_NEVER_CLOCK;
    leader->score_clock = GW_NEVER_CLOCK;
    leader->phase = 1;
    for (uint32_t shard = 0; shard < options->shards; shard++)
        leader->voters += options->map->shard_chunks[shard] > 0;
    leader->voted = calloc(options->shards, sizeof *leader->voted);
    leader->square = calloc(2 * options->map->chunks, sizeof *leader->square);
    leader->trust = calloc(options->map->keys, sizeof *leader->trust);
    leader->bad = calloc(options->ranks, sizeof *leader->bad);
    leader->score = calloc(options->ranks, sizeof *leader->score);
    leader->scored = calloc(options->ranks, sizeof *leader->scored);
    if (!leader->voted || !leader->square || !leader->trust || !leader->bad ||
        !leader->score || !leader->scored || gw_count_open(leader) != GW_OK ||
        gw_split_open(leader) != GW_OK || gw_meet_open(leader) != GW_OK) {
        gw_leader_destroy(leader);
        return gw_fail(error, GW_ENOMEM, "no memory for decisions");
    }
    if (leader->state.loss_scale == 0)
        leader->state.loss_scale = gw_loss_scale_first(options->config);
    *leader_p = leader;
    return GW_OK;
}

void gw_leader_destroy(struct gw_leader *leader)
{
    if (!leader)
        return;
    free(leader->voted);
    free(leader->square);
    free(leader->trust);
    free(leader->bad);
    free(leader->score);
    free(leader->scored);
    gw_count_close(leader);
    gw_split_close(leader);
    gw_meet_close(leader);
    free(leader);
}

void gw_leader_emit(struct gw_leader *leader, struct gw_decision *decision)
{
    int stands = decision->kind == GW_DECIDE_CUT ||
                 decision->kind == GW_DECIDE_END ||
                 decision->kind == GW_DECIDE_RESUME ||
                 decision->kind == GW_DECIDE_SWITCH;
    if (leader->regime.each && stands) {
        decision->clocks = leader->at;
        decision->clocks_n = leader->options.ranks;
    }
    decision->number = ++leader->number;
    leader->options.emit(leader->options.owner, decision);
}

/* Whether the last cut is of this very state. */
static int is_cut(const struct gw_leader *leader, uint64_t clock)
{
    return leader->cut_clock >= clock && leader->cut_clock != GW_NEVER_CLOCK &&
           leader->cut_pushes == leader->state.pushes;
}

int gw_leader_saves(const struct gw_leader *leader)
{
    return leader->options.config->checkpoint.dir[0] != '\0';
}

void gw_leader_end(struct gw_leader *leader,
                   uint64_t clock,
                   enum gw_end_reason reason)
{
    if (leader->end_clock <= clock)
        return;
    leader->end_clock = clock;
    if (gw_leader_saves(leader) && !is_cut(leader, clock))
        gw_leader_cut(leader, clock, 0);
    struct gw_decision end = {
        .kind = GW_DECIDE_END, .reason = (uint8_t)reason, .clock = clock};
    gw_leader_emit(leader, &end);
}

/* Versions, and the steps of single pushes, may be some steps apart. */
int gw_leader_cut_is_due(const struct gw_leader *leader, uint64_t clock)
{
    const struct gw_leader_options *options = &leader->options;
    const struct gw_every *every = &options->config->checkpoint.every;
    return gw_course_dues(&options->course, every, clock) >
           gw_course_dues(&options->course, every, leader->cut_clock);
}

/* Due by steps, by the clock on the wall, or because it is the beginning. */
static int cut_is_due(const struct gw_leader *leader, uint64_t version)
{
    if (!gw_leader_saves(leader) || leader->cut_clock == version)
        return 0;
    if (version == leader->options.state.clock)
        return 1; /* the beginning is a checkpoint too */
    return leader->want_cut || gw_leader_cut_is_due(leader, version);
}

/* Updates of a chunk from one version to another. */
static uint64_t
exchanges(const struct gw_leader *leader, uint64_t from, uint64_t to)
{
    uint64_t n = 0;
    for (; from < to; n++)
        from = gw_rounds_next(&leader->rounds, 0, from);
    return n;
}

void gw_leader_before(struct gw_leader *leader, uint64_t version)
{
    if (leader->seen_version != GW_NEVER_CLOCK &&
        version <= leader->seen_version)
        return;
    if (!gw_rounds_meets(&leader->rounds, version))
        return; /* of a part of the model */
    leader->seen_version = version;
    if (!leader->regime.whole_step) {
        /* streaming applies every step */
        uint64_t steps = version - leader->state.clock;
        leader->state.applied +=
            exchanges(leader, leader->state.clock, version);
        leader->state.pushes += steps * leader->options.ranks;
        leader->state.clock = version;
    }
    gw_switch_begin(leader, version);
    if (version >= leader->options.total_steps) {
        gw_leader_end(leader, version, GW_END_COMPLETE);
    } else if (leader->stop) {
        gw_leader_end(leader, version, GW_END_STOPPED);
    } else if (cut_is_due(leader, version)) {
        /* a disk that is late makes the next checkpoint late, not the job */
        if (leader->cuts_open)
            leader->want_cut = 1;
        else
            gw_leader_cut(leader, version, 0);
    }
    gw_switch_announce(leader);
    gw_split_before(leader, gw_rounds_meeting(&leader->rounds, version));
}

void gw_leader_stop(struct gw_leader *leader)
{
    leader->stop = 1;
    gw_meet_maybe(leader);
}

void gw_leader_want_cut(struct gw_leader *leader)
{
    leader->want_cut = 1;
    gw_meet_maybe(leader);
}

static void decide_score(struct gw_leader *leader);

void gw_leader_stored(struct gw_leader *leader)
{
    if (leader->cuts_open > 0)
        leader->cuts_open--;
    if (leader->score_waits)
        decide_score(leader);
}

/* ---- steps ---- */

static void note_bad(struct gw_leader *leader, const struct gw_vote *vote)
{
    for (uint32_t i = 0; i < vote->bad_ranks_n; i++) {
        uint32_t rank = vote->bad_ranks[i], at = 0;
        while (at < leader->bad_n && leader->bad[at] < rank)
            at++;
        if (rank >= leader->options.ranks ||
            (at < leader->bad_n && leader->bad[at] == rank))
            continue;
        memmove(leader->bad + at + 1, leader->bad + at,
                (leader->bad_n - at) * sizeof *leader->bad);
        leader->bad[at] = rank;
        leader->bad_n++;
    }
}

static void forget_votes(struct gw_leader *leader, uint8_t phase)
{
    memset(leader->voted, 0, leader->options.shards * sizeof *leader->voted);
    leader->votes = 0;
    leader->phase = phase;
    leader->has_samples = 0;
    if (phase == 1)
        leader->bad_n = 0;
}

/* The scale after a step, and whether a skip counts towards the end. */
static int adapt_scale(struct gw_leader *leader, int finite)
{
    struct gw_decision_state *state = &leader->state;
    if (!dynamic_scale(leader))
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

static void decide_step(struct gw_leader *leader)
{
    const struct gw_config *config = leader->options.config;
    struct gw_decision_state *state = &leader->state;
    double total = 0;
    for (size_t i = 0; i < leader->options.map->chunks; i++)
        total += leader->square[i];
    int finite = isfinite(total) && leader->bad_n == 0;
    /* where nobody who counts had a sample the sum is zero */
    double norm =
        leader->samples > 0
            ? sqrt(total) / ((double)leader->samples * state->loss_scale)
            : 0;
    double clip = 1;
    if (finite && config->train.clip > 0)
        clip = gw_clip_to(config->train.clip, norm);
    int counts = adapt_scale(leader, finite);
    double values[3] = {clip, state->loss_scale, norm};
    leader->voted_clock = state->clock;
    struct gw_decision step = {
        .kind = GW_DECIDE_STEP,
        .apply = finite != 0,
        .clock = state->clock,
        .values = values,
        .values_n = 3,
        .ranks = leader->bad,
        .ranks_n = leader->bad_n,
    };
    uint64_t next = gw_rounds_next(&leader->rounds, 0, state->clock);
    state->pushes += finite ? (next - state->clock) * leader->options.ranks : 0;
    state->clock = next;
    gw_count_next(leader);
    state->applied += finite != 0;
    if (finite)
        state->skipped_in_a_row = 0;
    else if (counts)
        state->skipped_in_a_row++;
    gw_leader_emit(leader, &step);
    int limit = config->train.nonfinite == GW_NONFINITE_SKIP ? GW_SKIPS_MAX : 1;
    if ((int)state->skipped_in_a_row >= limit)
        gw_leader_end(leader, state->clock, GW_END_NONFINITE);
    forget_votes(leader, leader->regime.two_phase && finite ? 2 : 1);
}

/* LAMB: r = |w| / |u| of each key, 1 where either is 0 (You et al., 2019). */
static void decide_trust(struct gw_leader *leader)
{
    const struct gw_map *map = leader->options.map;
    for (size_t key = 0; key < map->keys; key++) {
        double w = 0, u = 0;
        for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1];
             c++) {
            w += leader->square[2 * c];
            u += leader->square[2 * c + 1];
        }
        leader->trust[key] = w > 0 && u > 0 ? sqrt(w) / sqrt(u) : 1;
    }
    struct gw_decision trust = {
        .kind = GW_DECIDE_TRUST,
        .clock = leader->voted_clock,
        .values = leader->trust,
        .values_n = (uint32_t)map->keys,
    };
    gw_leader_emit(leader, &trust);
    forget_votes(leader, 1);
}

static int is_asked_for(const struct gw_leader *leader,
                        uint32_t shard,
                        const struct gw_vote *vote)
{
    uint64_t clock =
        leader->phase == 2 ? leader->voted_clock : leader->state.clock;
    if (shard >= leader->options.shards || vote->phase != leader->phase ||
        vote->clock != clock ||
        (leader->regime.quorum > 0 && leader->phase == 1 && !leader->counted))
        return 0;
    uint32_t chunks = leader->options.map->shard_chunks[shard];
    return chunks > 0 && vote->total == leader->phase * chunks &&
           vote->first == leader->voted[shard] &&
           vote->values_n <= vote->total - vote->first;
}

/* Gradients are divided by them. Every chunk has the same: each rank pushes all
   of them. There are none only where those are late who had some. */
static enum gw_status judge_samples(const struct gw_leader *leader,
                                    uint32_t shard,
                                    const struct gw_vote *vote,
                                    struct gw_error *error)
{
    uint64_t most =
        gw_regime_steps(&leader->regime) *
        gw_schedule_step_max(leader->options.config, &leader->options.course);
    if (vote->samples > most ||
        (vote->samples == 0 && leader->regime.quorum == 0))
        return gw_fail(error, GW_EPROTO,
                       "shard %u counts %" PRIu64 " samples in step %" PRIu64
                       ", which has 1 to %" PRIu64,
                       shard, vote->samples, vote->clock, most);
    if (leader->has_samples && vote->samples != leader->samples)
        return gw_fail(error, GW_EPROTO,
                       "shard %u counts %" PRIu64 " samples in step %" PRIu64
                       ", shard %u counts %" PRIu64,
                       shard, vote->samples, vote->clock, leader->samples_by,
                       leader->samples);
    return GW_OK;
}

enum gw_status gw_leader_vote(struct gw_leader *leader,
                              uint32_t shard,
                              const struct gw_vote *vote,
                              struct gw_error *error)
{
    const struct gw_map *map = leader->options.map;
    if (!is_asked_for(leader, shard, vote))
        return gw_fail(error, GW_EPROTO,
                       "shard %u voted on step %" PRIu64
                       " when it was not asked",
                       shard, vote->clock);
    if (judge_samples(leader, shard, vote, error) != GW_OK)
        return GW_EPROTO;
    uint32_t width = leader->phase;
    for (uint32_t i = 0; i < vote->values_n; i++) {
        uint32_t at = vote->first + i;
        uint32_t global = map->shard_chunk[shard][at / width];
        leader->square[width * global + at % width] = vote->values[i];
    }
    note_bad(leader, vote);
    if (!leader->has_samples)
        leader->samples_by = shard;
    leader->has_samples = 1;
    leader->samples = vote->samples;
    leader->voted[shard] += vote->values_n;
    if (leader->voted[shard] < vote->total)
        return GW_OK;
    if (++leader->votes < leader->voters)
        return GW_OK;
    if (leader->phase == 1)
        decide_step(leader);
    else
        decide_trust(leader);
    return GW_OK;
}

/* ---- evaluations ---- */

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

struct gw_score
gw_score_tree(const struct gw_score *score, uint32_t first, uint32_t n)
{
    if (n == 1)
        return score[first];
    uint32_t half = 1;
    while (2 * half < n)
        half *= 2;
    struct gw_score left = gw_score_tree(score, first, half);
    struct gw_score right = gw_score_tree(score, first + half, n - half);
    left.loss += right.loss;
    left.correct = sum_of(left.correct, right.correct);
    left.samples = sum_of(left.samples, right.samples);
    return left;
}

uint64_t gw_evaluations_due(const struct gw_leader *leader, uint64_t clock)
{
    const struct gw_leader_options *options = &leader->options;
    return gw_course_dues(&options->course, &options->config->train.eval_every,
                          clock);
}

/* Those that are over, one that stands for several that were due counted as so
   many: steps may go by in between where nothing can be scored. */
static uint32_t evaluations_by(const struct gw_leader *leader, uint64_t clock)
{
    uint64_t due = gw_evaluations_due(leader, clock);
    uint64_t made = (uint64_t)leader->state.evaluations + 1;
    return (uint32_t)(due > made ? due : made);
}

/*
 * The best checkpoint cannot be made later, so where the disk is far behind the
 * score, and with it the job, waits for it.
 */
static void decide_score(struct gw_leader *leader)
{
    const struct gw_config *config = leader->options.config;
    leader->score_waits =
        gw_leader_saves(leader) && leader->cuts_open >= CUTS_OPEN_MAX;
    if (leader->score_waits)
        return;
    struct gw_decision_state *state = &leader->state;
    struct gw_score sum =
        gw_score_tree(leader->score, 0, leader->options.ranks);
    double n = sum.samples ? (double)sum.samples : 1;
    double values[2] = {sum.loss / n, (double)sum.correct / n};
    /* NaN and infinity are never the best, and manifests cannot hold them */
    if (state->evaluations == 0)
        state->best_loss = DBL_MAX;
    int best = values[0] < state->best_loss;
    uint64_t clock = leader->score_clock;
    state->evaluations = evaluations_by(leader, clock);
    leader->dues_done = gw_evaluations_due(leader, clock);
    state->evaluations_without_progress++;
    if (best) {
        state->best_loss = values[0];
        state->best_clock = clock;
        state->evaluations_without_progress = 0;
    }
    /* workers go on with the score, so what concerns this clock comes first */
    if (best && gw_leader_saves(leader) && !is_cut(leader, clock))
        gw_leader_cut(leader, clock, 1);
    if (config->train.early_stop &&
        state->evaluations_without_progress >= config->train.early_stop)
        gw_leader_end(leader, clock, GW_END_EARLY);
    struct gw_decision score = {
        .kind = GW_DECIDE_SCORE,
        .reason = best != 0,
        .clock = clock,
        .values = values,
        .values_n = 2,
    };
    gw_leader_emit(leader, &score);
    memset(leader->scored, 0, leader->options.ranks);
    leader->scores = 0;
    leader->scoring = 0;
}

int gw_leader_awaits_score(const struct gw_leader *leader, uint32_t rank)
{
    return leader->scores > 0 && !leader->scored[rank];
}

/* The version that all score: the one given out last, or where all stand. */
static uint64_t scored_clock(const struct gw_leader *leader)
{
    if (!leader->regime.each)
        return leader->seen_version;
    return leader->end_clock != GW_NEVER_CLOCK ? leader->end_clock
                                               : leader->state.clock;
}

enum gw_status gw_leader_score(struct gw_leader *leader,
                               uint32_t rank,
                               const struct gw_score *score)
{
    if (rank >= leader->options.ranks || score->clock != scored_clock(leader))
        return GW_EPROTO;
    if (leader->scored[rank])
        return GW_OK;
    leader->score_clock = score->clock;
    leader->score[rank] = *score;
    leader->scored[rank] = 1;
    if (++leader->scores == leader->options.ranks)
        decide_score(leader);
    return GW_OK;
}
