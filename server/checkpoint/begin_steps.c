/*
 * A checkpoint counts in units that keys of its job define: steps of a global
 * batch, epochs of a training set, pushes of so many workers, evaluations of
 * an interval. Their values in the job that goes on, and the lines about them;
 * and other lines that need the number of the job's steps.
 */
#include "config.h"

#include "server/checkpoint/begin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Every job was checked before; a checkpoint's was when that was made. */
static struct gw_policy_plan plan_of(const struct gw_config *config)
{
    struct gw_policy_plan plan;
    if (gw_policy_plan_parse(config->cluster.policy, &plan, NULL) != GW_OK)
        plan.n = 0;
    return plan;
}

static void note_phases(const struct gw_begin *begin,
                        const struct gw_policy_plan *plan,
                        uint64_t total_steps)
{
    char word[GW_WORD_BYTES];
    size_t last = 0;
    while (last < plan->n && plan->phase[last].until < total_steps)
        last++;
    if (last + 1 >= plan->n)
        return;
    gw_policy_word_print(&plan->phase[last + 1].word, word);
    gw_begin_note(
        begin,
        "cluster.policy: %s from step %" PRIu64 " on never comes, since the "
        "job has %" PRIu64 " step%s",
        word, plan->phase[last].until, total_steps, gw_plural(total_steps));
}

/* Rounds of downpour and easgd know no end: a worker's own clock is all that it
   has. */
static void note_long_rounds(const struct gw_begin *begin,
                             const struct gw_policy_plan *plan,
                             uint64_t total_steps)
{
    uint64_t first = begin->is_resumed ? begin->from.state.clock : 0;
    char shown[GW_WORD_BYTES];
    for (size_t i = 0; i < plan->n && first < total_steps; i++) {
        const struct gw_policy_word *word = &plan->phase[i].word;
        uint64_t until = plan->phase[i].until;
        uint64_t last = until < total_steps ? until : total_steps;
        if (last <= first)
            continue;
        gw_policy_word_print(word, shown);
        if (gw_policy_is_local(word->kind) &&
            !gw_policy_is_together(word->kind) && word->n > last - first)
            gw_begin_note(begin,
                          "cluster.policy: %s takes %" PRIu64
                          " steps to an exchange, and there are %" PRIu64
                          " for it: workers go beyond them",
                          shown, word->n, last - first);
        first = last;
    }
}

/* Fragments of the first phase from `clock` on that has the model in parts. */
static struct gw_rounds rounds_from(const struct gw_config *config,
                                    uint64_t clock,
                                    const struct gw_course *course)
{
    struct gw_rounds rounds = {.streams = 0};
    const struct gw_policy_plan plan = plan_of(config);
    for (size_t i = 0; i < plan.n && !rounds.streams; i++) {
        if (plan.phase[i].until > clock)
            rounds = gw_rounds_of(config, &plan.phase[i].word, clock,
                                  UINT64_MAX, UINT64_MAX, course);
    }
    return rounds;
}

static void note_every(const struct gw_begin *begin,
                       const char *key,
                       const struct gw_every *then,
                       const struct gw_every *now)
{
    char was[GW_EVERY_BYTES], is[GW_EVERY_BYTES];
    gw_every_print(then, was);
    gw_every_print(now, is);
    if (strcmp(was, is) != 0)
        gw_begin_note(
            begin,
            "%s was %s, now it is %s: all parts of the model meet at other "
            "steps, so the bits will differ",
            key, was, is);
}

/* Other keys that change the bits are there to change them; of these two
   nobody would think it. */
static void note_meetings(const struct gw_begin *begin,
                          const struct gw_course *course)
{
    const struct gw_config *then = begin->then, *now = begin->config;
    uint64_t clock = begin->from.state.clock;
    struct gw_rounds was = rounds_from(then, clock, course);
    struct gw_rounds is = rounds_from(now, clock, course);
    if (!was.streams || !is.streams || gw_rounds_meet_alike(&was, &is))
        return;
    note_every(begin, "train.eval_every", &then->train.eval_every,
               &now->train.eval_every);
    note_every(begin, "checkpoint.every", &then->checkpoint.every,
               &now->checkpoint.every);
}

/* ---- what a checkpoint counts ---- */

/* The course that led to it, told in full: an older program did not write down
   how many samples there were, and is taken to have had the same. */
static struct gw_course course_then(const struct gw_begin *begin,
                                    const struct gw_course *now)
{
    struct gw_course then = begin->cut.course;
    then.batch = then.batch ? then.batch : now->batch;
    then.samples = then.samples ? then.samples : now->samples;
    return then;
}

int gw_begin_keeps_course(const struct gw_begin *begin,
                          const struct gw_course *now)
{
    const struct gw_course then = course_then(begin, now);
    return then.batch == now->batch && then.samples == now->samples;
}

uint64_t gw_begin_pushes(const struct gw_begin *begin)
{
    const struct gw_manifest *from = &begin->from;
    uint64_t workers = begin->config->cluster.workers;
    if (from->n_ranks == 0 || from->n_ranks == workers)
        return from->state.pushes;
    return (uint64_t)((unsigned __int128)from->state.pushes * workers /
                      from->n_ranks);
}

uint32_t gw_begin_evaluations(const struct gw_begin *begin,
                              const struct gw_course *now)
{
    const struct gw_decision_state *state = &begin->from.state;
    if (!begin->then || state->evaluations == 0)
        return state->evaluations;
    const struct gw_course then = course_then(begin, now);
    uint64_t was =
        gw_course_dues(&then, &begin->then->train.eval_every, state->clock);
    uint64_t is =
        gw_course_dues(now, &begin->config->train.eval_every, state->clock);
    if (was == is)
        return state->evaluations;
    /* one that had not come about yet does so if it is due there by now too */
    is -= is > 0 && state->evaluations < was;
    return is > UINT32_MAX ? UINT32_MAX : is > 0 ? (uint32_t)is : 1;
}

/* ---- the lines about it ---- */

/* The unit of steps and epochs, and where the schedule is. */
static void say_units(const struct gw_config *config, char *text, size_t room)
{
    int decays = config->optimizer.schedule == GW_SCHEDULE_COSINE ||
                 config->optimizer.schedule == GW_SCHEDULE_LINEAR;
    int by_epochs = decays && config->train.steps == 0;
    snprintf(text, room,
             "warm-up%s and all that comes every N steps go on counting steps, "
             "%swhat comes every N epochs follows epochs",
             by_epochs ? "" : ", the schedule",
             by_epochs ? "the schedule and " : "");
}

static void note_other_steps(const struct gw_begin *begin,
                             const struct gw_course *then,
                             const struct gw_course *now)
{
    char units[GW_ERROR_TEXT_BYTES / 2];
    say_units(begin->config, units, sizeof units);
    gw_begin_note(begin,
                  "a step takes %" PRIu64 " samples, before the checkpoint it "
                  "took %" PRIu64 ": the job goes on with sample %" PRIu64
                  " of epoch %" PRIu64 ", and each sample of each epoch comes "
                  "once; %s, of %" PRIu64 " steps now, %" PRIu64 " before",
                  now->batch, then->batch, now->sample, now->epoch, units,
                  gw_course_steps(now), gw_course_steps(then));
}

static void note_other_samples(const struct gw_begin *begin,
                               const struct gw_course *then,
                               const struct gw_course *now)
{
    char units[GW_ERROR_TEXT_BYTES / 2];
    say_units(begin->config, units, sizeof units);
    gw_begin_note(begin,
                  "the training set has %" PRIu64 " samples, before the "
                  "checkpoint it had %" PRIu64 ": the job goes on with sample "
                  "%" PRIu64 " of epoch %" PRIu64 "%s; %s, of %" PRIu64
                  " steps now, %" PRIu64 " before",
                  now->samples, then->samples, now->sample, now->epoch,
                  now->sample > 0 ? ", which is in another order now, so that "
                                    "some of it comes twice or never"
                                  : "",
                  units, gw_course_steps(now), gw_course_steps(then));
}

/* A permutation is of a seed. */
static void note_seed(const struct gw_begin *begin, const struct gw_course *now)
{
    const struct gw_course_step at = gw_course_at(now, begin->cut.clock);
    if (!begin->then || at.first == 0 ||
        begin->then->train.seed == begin->config->train.seed)
        return;
    gw_begin_note(begin,
                  "train.seed was %" PRIu64 ", now it is %" PRIu64
                  ": the rest of epoch %" PRIu64 " is in another order, so "
                  "that some of its samples come twice or never",
                  begin->then->train.seed, begin->config->train.seed, at.epoch);
}

/* Workers that wait for nobody have come to steps of their own. */
static void note_ranks(const struct gw_begin *begin,
                       const struct gw_course *now)
{
    const struct gw_manifest *from = &begin->from;
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < from->n_ranks; i++) {
        uint64_t at = from->ranks[i].data_cursor;
        least = at < least ? at : least;
        most = at > most ? at : most;
    }
    if (least >= most || gw_begin_goes_apart(begin, now))
        return;
    gw_begin_note(begin,
                  "workers had come to steps %" PRIu64 " to %" PRIu64
                  ", and all go on at step %" PRIu64 ": some samples in "
                  "between come twice or never",
                  least, most, from->state.clock);
}

/* `now` may be the file that was `then`, perhaps by a relative path. */
static int is_same_file(const char *then, const char *now)
{
    size_t n = strlen(then), all = strlen(now);
    int ends = n < all && strcmp(now + all - n, then) == 0;
    return strcmp(then, now) == 0 ||
           (then[0] != '/' && ends && now[all - n - 1] == '/');
}

static int are_same_files(const struct gw_path_list *then,
                          const struct gw_path_list *now)
{
    int same = then->n == now->n;
    for (size_t i = 0; same && i < then->n; i++)
        same = is_same_file(gw_path_at(then, i), gw_path_at(now, i));
    return same;
}

/* The best score so far is of a test set, too. */
static void note_scores(const struct gw_begin *begin)
{
    const struct gw_config *then = begin->then, *now = begin->config;
    if (!then || begin->from.state.evaluations == 0 || now->data.test.n == 0 ||
        are_same_files(&then->data.test, &now->data.test))
        return;
    gw_begin_note(begin,
                  "data.test names other files than before the "
                  "checkpoint: where they hold other samples, the best "
                  "score so far, %g, is no measure for them",
                  begin->from.state.best_loss);
}

static void note_course(const struct gw_begin *begin,
                        const struct gw_course *now)
{
    const struct gw_course then = course_then(begin, now);
    if (begin->cut.clock == 0 || gw_course_steps(now) == 0)
        return;
    if (then.samples != now->samples)
        note_other_samples(begin, &then, now);
    else if (then.batch != now->batch)
        note_other_steps(begin, &then, now);
    note_seed(begin, now);
    note_ranks(begin, now);
}

int gw_begin_goes_apart(const struct gw_begin *begin,
                        const struct gw_course *now)
{
    const struct gw_manifest *from = &begin->from;
    char policy[GW_WORD_BYTES];
    gw_policy_word_print(&begin->regime.word, policy);
    return begin->is_resumed && begin->regime.per_push &&
           from->n_ranks == begin->config->cluster.workers &&
           strcmp(from->policy, policy) == 0 &&
           gw_begin_keeps_course(begin, now);
}

void gw_begin_note_steps(const struct gw_begin *begin,
                         uint64_t total_steps,
                         const struct gw_course *course)
{
    const struct gw_policy_plan plan = plan_of(begin->config);
    note_phases(begin, &plan, total_steps);
    note_long_rounds(begin, &plan, total_steps);
    if (!begin->is_resumed)
        return;
    note_course(begin, course);
    note_scores(begin);
    if (begin->then)
        note_meetings(begin, course);
}
