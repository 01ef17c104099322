/* Evaluations: gathers the ranks' scores, and decides the best weights. */
#include "config.h"

#include "server/policy/decision_state.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

struct gw_leader_scores {
    struct gw_score *score; /* [ranks] */
    uint8_t *scored;        /* [ranks] */
    uint32_t n;
    uint64_t clock;
    uint64_t decided;   /* + 1: the clock of the last one; 0: none */
    uint64_t noted;     /* + 1: the clock of one that a cut before it has
                           counted, of another leader */
    int waits;          /* for a cut to be stored */
    int is_asked;       /* by a resume, until the score */
    uint64_t dues_done; /* evaluations that were due and are over */
};

/* Evaluations that the job file has for the steps up to `clock`. */
static uint64_t dues_by(const struct gw_leader *leader, uint64_t clock)
{
    const struct gw_leader_options *options = &leader->options;
    return gw_course_dues(&options->course, &options->config->train.eval_every,
                          clock);
}

/* With another interval, more may have been made. */
void gw_scores_stand(struct gw_leader *leader)
{
    uint64_t dues = dues_by(leader, leader->state.clock);
    uint64_t made = leader->state.evaluations;
    leader->scores->dues_done = dues < made ? dues : made;
}

enum gw_status gw_scores_open(struct gw_leader *leader)
{
    uint32_t ranks = leader->options.ranks;
    struct gw_leader_scores *scores = calloc(1, sizeof *scores);
    leader->scores = scores;
    if (!scores)
        return GW_ENOMEM;
    scores->clock = GW_NEVER_CLOCK;
    gw_scores_stand(leader);
    scores->score = calloc(ranks, sizeof *scores->score);
    scores->scored = calloc(ranks, sizeof *scores->scored);
    return scores->score && scores->scored ? GW_OK : GW_ENOMEM;
}

void gw_scores_close(struct gw_leader *leader)
{
    if (!leader->scores)
        return;
    free(leader->scores->score);
    free(leader->scores->scored);
    free(leader->scores);
}

int gw_scores_is_due(const struct gw_leader *leader)
{
    return dues_by(leader, leader->state.clock) > leader->scores->dues_done;
}

void gw_scores_ask(struct gw_leader *leader, int asked)
{
    leader->scores->is_asked = asked;
}

int gw_scores_is_asked(const struct gw_leader *leader)
{
    return leader->scores->is_asked;
}

int gw_leader_awaits_score(const struct gw_leader *leader, uint32_t rank)
{
    return leader->scores->n > 0 && !leader->scores->scored[rank];
}

/* ---- sums ---- */

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

/* ---- the decision ---- */

/* Evaluations that are over. One that stands for several that were due counts
   as so many: steps may go by in between where nothing can be scored. */
static uint32_t evaluations_by(const struct gw_leader *leader, uint64_t clock)
{
    uint64_t due = dues_by(leader, clock);
    uint64_t made = (uint64_t)leader->state.evaluations + 1;
    return (uint32_t)(due > made ? due : made);
}

/* Counts an evaluation, if it is not; non-zero where it is the best so far. NaN
   and infinity are never the best, and manifests cannot hold them. */
static int note_loss(struct gw_leader *leader, uint64_t clock, double loss)
{
    struct gw_decision_state *state = &leader->state;
    if (leader->scores->noted == clock + 1)
        return state->best_clock == clock;
    if (state->evaluations == 0)
        state->best_loss = DBL_MAX;
    int best = loss < state->best_loss;
    state->evaluations = evaluations_by(leader, clock);
    state->evaluations_without_progress++;
    if (best) {
        state->best_loss = loss;
        state->best_clock = clock;
        state->evaluations_without_progress = 0;
    }
    return best;
}

/*
 * The best checkpoint cannot be made later, so where the disk is far behind the
 * score, and with it the job, waits for it.
 */
static void decide(struct gw_leader *leader)
{
    const struct gw_config *config = leader->options.config;
    struct gw_leader_scores *scores = leader->scores;
    uint64_t clock = scores->clock;
    scores->waits = gw_cuts_are_late(leader);
    if (scores->waits)
        return;
    struct gw_score sum =
        gw_score_tree(scores->score, 0, leader->options.ranks);
    double n = sum.samples ? (double)sum.samples : 1;
    double values[2] = {sum.loss / n, (double)sum.correct / n};
    /* programs that have left score nothing */
    int best = sum.samples > 0 && note_loss(leader, clock, values[0]);
    leader->scores->dues_done = dues_by(leader, clock);
    /* workers go on with the score, so other decisions on this clock come
       first */
    if (best)
        gw_cuts_keep_best(leader, clock);
    if (config->train.early_stop &&
        leader->state.evaluations_without_progress >= config->train.early_stop)
        gw_leader_end(leader, clock, GW_END_EARLY);
    struct gw_decision score = {
        .kind = GW_DECIDE_SCORE,
        .reason = best != 0,
        .clock = clock,
        .values = values,
        .values_n = sum.samples > 0 ? 2 : 0,
    };
    gw_leader_emit(leader, &score);
    scores->decided = clock + 1;
    scores->noted = 0;
    memset(scores->scored, 0, leader->options.ranks);
    scores->n = 0;
    scores->is_asked = 0;
}

void gw_scores_follow(struct gw_leader *leader,
                      const struct gw_decision *decision)
{
    if (decision->values_n > 0)
        note_loss(leader, decision->clock, decision->values[0]);
    gw_scores_recall(leader, decision->clock);
}

void gw_scores_counted(struct gw_leader *leader, uint64_t clock)
{
    leader->scores->noted = clock + 1;
}

void gw_scores_recall(struct gw_leader *leader, uint64_t clock)
{
    leader->scores->noted = 0;
    leader->scores->dues_done = dues_by(leader, clock);
    leader->scores->decided = clock + 1;
}

void gw_scores_recheck(struct gw_leader *leader)
{
    if (leader->scores->waits)
        decide(leader);
}

/* The version that all score: the last one given out, or the one at which all
   stand. */
static uint64_t scored_clock(const struct gw_leader *leader)
{
    if (!leader->regime.per_push)
        return leader->seen_version;
    return leader->end_clock != GW_NEVER_CLOCK ? leader->end_clock
                                               : leader->state.clock;
}

/* The score is decided: the part is that of a worker in the place of one that
   had given it. */
static int is_over(const struct gw_leader *leader, uint64_t clock)
{
    return !leader->regime.per_push && leader->scores->n == 0 &&
           leader->scores->decided == clock + 1;
}

enum gw_status gw_leader_score(struct gw_leader *leader,
                               uint32_t rank,
                               const struct gw_score *score)
{
    struct gw_leader_scores *scores = leader->scores;
    if (rank >= leader->options.ranks || score->clock != scored_clock(leader))
        return GW_EPROTO;
    if (scores->scored[rank] || is_over(leader, score->clock))
        return GW_OK;
    scores->clock = score->clock;
    scores->score[rank] = *score;
    scores->scored[rank] = 1;
    if (++scores->n == leader->options.ranks)
        decide(leader);
    return GW_OK;
}
