#include "config.h"

#include "server/begin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/splits.h"
#include "server/store.h"

#define KEPT_MAX 1024

static void note(const struct gw_begin *begin, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note(const struct gw_begin *begin, const char *format, ...)
{
    char text[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    begin->note(begin->owner, text);
}

/* To look into it. */
static enum gw_status enter(const struct gw_begin *begin,
                            const char *path,
                            struct gw_disk *dir,
                            struct gw_error *error)
{
    return gw_store_enter(begin->disk, path, GW_ACCESS_PRIVATE, dir, error);
}

/* The newest checkpoint that is whole; those that are not are named. */
static enum gw_status choose(struct gw_begin *begin, struct gw_error *error)
{
    struct gw_disk dir;
    uint64_t *clocks = calloc(KEPT_MAX, sizeof *clocks);
    if (!clocks)
        return gw_fail(error, GW_ENOMEM, "no memory to look for checkpoints");
    enum gw_status status = enter(begin, begin->resume, &dir, error);
    size_t n = status == GW_OK ? gw_store_list(&dir, clocks, KEPT_MAX) : 0;
    size_t unfinished = 0;
    if (status == GW_OK || status == GW_ENOENT)
        status = gw_fail(error, GW_ENOENT,
                         "there is no checkpoint to resume from in %s "
                         "(checkpoint.dir)",
                         begin->resume);
    for (size_t i = 0; i < n && status != GW_OK; i++) {
        status = gw_store_whole(&dir, clocks[i], &begin->from, error);
        unfinished += status == GW_ENOENT;
        if (status != GW_OK)
            note(begin, "the checkpoint of step %" PRIu64 " is refused: %s",
                 clocks[i], error->text);
    }
    free(clocks);
    gw_store_leave(&dir);
    if (n > 0 && unfinished == n) {
        /* it died within its first checkpoint: nothing is lost */
        note(begin, "no checkpoint in %s was finished, so the job begins anew",
             begin->resume);
        return GW_OK;
    }
    if (status != GW_OK)
        return status;
    begin->is_resumed = 1;
    note(begin, "going on from the checkpoint of step %" PRIu64,
         begin->from.state.clock);
    return GW_OK;
}

static int is_of_another_policy(const struct gw_begin *begin)
{
    struct gw_policy_word word;
    return begin->is_resumed &&
           gw_policy_word_parse(begin->from.policy, &word, NULL) == GW_OK &&
           word.kind != begin->regime.word.kind;
}

/* Also where somebody had asked for the one that held then. */
static void note_policy(const struct gw_begin *begin)
{
    const struct gw_manifest *from = &begin->from;
    char word[GW_POLICY_WORD_BYTES];
    gw_policy_word_print(&begin->regime.word, word);
    /* an imported checkpoint has weights only, and was made under none */
    if (begin->is_resumed && from->optimizer[0] && from->policy[0] &&
        strcmp(from->policy, word) != 0)
        note(begin,
             "the checkpoint was made under %s, the job goes on under %s",
             from->policy, word);
}

/* What another optimizer left cannot be used by this one. */
static enum gw_status check_optimizer(struct gw_begin *begin,
                                      struct gw_error *error)
{
    const struct gw_manifest *from = &begin->from;
    const char *optimizer = begin->regime.optimizer->name;
    if (!begin->is_resumed || from->optimizer[0] == '\0' ||
        strcmp(from->optimizer, optimizer) == 0)
        return GW_OK;
    begin->anew = is_of_another_policy(begin);
    if (begin->anew) {
        note(begin,
             "the servers' optimizer was %s, now it is %s: its state begins "
             "at zero",
             from->optimizer, optimizer);
        return GW_OK;
    }
    return gw_fail(error, GW_EMISMATCH,
                   "the checkpoint of step %" PRIu64 " in %s was made with "
                   "optimizer.kind = \"%s\", the job says \"%s\"; set it "
                   "back, or choose another checkpoint.dir",
                   from->state.clock, begin->resume, from->optimizer,
                   optimizer);
}

enum gw_status gw_begin_check_empty(const struct gw_begin *begin,
                                    struct gw_error *error)
{
    struct gw_disk dir;
    uint64_t newest;
    enum gw_status status = enter(begin, begin->dir, &dir, error);
    if (status != GW_OK)
        return status == GW_ENOENT ? GW_OK
                                   : gw_fail_in(error, "checkpoint.dir");
    int has_one = gw_store_newest(&dir, &newest);
    gw_store_leave(&dir);
    if (!has_one)
        return GW_OK;
    return gw_fail(error, GW_EEXIST,
                   "checkpoint.dir %s holds a checkpoint of step %" PRIu64
                   " already; go on from it with --resume, or choose another "
                   "directory",
                   begin->dir, newest);
}

enum gw_status gw_begin_check_free(const struct gw_begin *begin,
                                   struct gw_error *error)
{
    struct gw_disk dir;
    if (!begin->dir[0])
        return GW_OK;
    enum gw_status status = enter(begin, begin->dir, &dir, error);
    if (status == GW_ENOENT)
        return GW_OK;
    if (status == GW_OK)
        status = gw_store_check_free(&dir, error);
    gw_store_leave(&dir);
    return status == GW_OK ? status : gw_fail_in(error, "checkpoint.dir");
}

enum gw_status gw_begin_check_splits(const struct gw_begin *begin,
                                     const struct gw_config *config,
                                     struct gw_error *error)
{
    struct gw_splits splits;
    uint64_t first = begin->is_resumed ? begin->from.state.clock : 0;
    if (!config->train.split_from[0])
        return GW_OK;
    enum gw_status status = gw_splits_read(
        begin->disk, config->train.split_from,
        (uint32_t)config->cluster.workers, first, &splits, error);
    gw_splits_free(&splits);
    return status;
}

enum gw_status gw_begin_check_model(const struct gw_begin *begin,
                                    uint64_t keys_hash,
                                    struct gw_error *error)
{
    const struct gw_manifest *from = &begin->from;
    if (!begin->is_resumed || from->keys_hash == keys_hash)
        return GW_OK;
    return gw_fail(error, GW_EMISMATCH,
                   "the checkpoint of step %" PRIu64 " in %s is of "
                   "another model: its keys or their shapes differ; set "
                   "model back, or choose another checkpoint.dir",
                   from->state.clock, begin->resume);
}

enum gw_status gw_begin_find(struct gw_begin *begin, struct gw_error *error)
{
    enum gw_status status = GW_OK;
    if (begin->resume && begin->resume[0])
        status = choose(begin, error);
    else if (begin->dir[0])
        status = gw_begin_check_empty(begin, error);
    if (status == GW_OK)
        status = gw_regime_at(begin->config,
                              begin->is_resumed ? begin->from.state.clock : 0,
                              &begin->regime, error);
    if (status != GW_OK)
        return status;
    note_policy(begin);
    return check_optimizer(begin, error);
}

/* ---- what the number of steps shows ---- */

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
    char word[GW_POLICY_WORD_BYTES];
    size_t last = 0;
    while (last < plan->n && plan->phase[last].until < total_steps)
        last++;
    if (last + 1 >= plan->n)
        return;
    gw_policy_word_print(&plan->phase[last + 1].word, word);
    note(begin,
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
    char shown[GW_POLICY_WORD_BYTES];
    for (size_t i = 0; i < plan->n && first < total_steps; i++) {
        const struct gw_policy_word *word = &plan->phase[i].word;
        uint64_t until = plan->phase[i].until;
        uint64_t last = until < total_steps ? until : total_steps;
        if (last <= first)
            continue;
        gw_policy_word_print(word, shown);
        if (gw_policy_is_local(word->kind) &&
            !gw_policy_is_together(word->kind) && word->n > last - first)
            note(begin,
                 "cluster.policy: %s takes %" PRIu64
                 " steps to an exchange, and there are %" PRIu64
                 " for it: workers go beyond them",
                 shown, word->n, last - first);
        first = last;
    }
}

/* Of the first phase from `clock` on that has the model in parts. */
static struct gw_rounds rounds_from(const struct gw_config *config,
                                    uint64_t clock,
                                    uint64_t steps_per_epoch)
{
    struct gw_rounds rounds = {.streams = 0};
    const struct gw_policy_plan plan = plan_of(config);
    for (size_t i = 0; i < plan.n && !rounds.streams; i++) {
        if (plan.phase[i].until > clock)
            rounds = gw_rounds_of(config, &plan.phase[i].word, clock,
                                  UINT64_MAX, UINT64_MAX, steps_per_epoch);
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
        note(begin,
             "%s was %s, now it is %s: all parts of the model meet at other "
             "steps, so the bits will differ",
             key, was, is);
}

/* Other keys that change the bits are there to change them; of these two
   nobody would think it. */
static void note_meetings(const struct gw_begin *begin,
                          const struct gw_config *then,
                          uint64_t steps_per_epoch)
{
    const struct gw_config *now = begin->config;
    uint64_t clock = begin->from.state.clock;
    struct gw_rounds was = rounds_from(then, clock, steps_per_epoch);
    struct gw_rounds is = rounds_from(now, clock, steps_per_epoch);
    if (!was.streams || !is.streams || gw_rounds_meet_alike(&was, &is))
        return;
    note_every(begin, "train.eval_every", &then->train.eval_every,
               &now->train.eval_every);
    note_every(begin, "checkpoint.every", &then->checkpoint.every,
               &now->checkpoint.every);
}

void gw_begin_note_steps(const struct gw_begin *begin,
                         uint64_t total_steps,
                         uint64_t steps_per_epoch)
{
    const struct gw_policy_plan plan = plan_of(begin->config);
    note_phases(begin, &plan, total_steps);
    note_long_rounds(begin, &plan, total_steps);
    if (!begin->is_resumed)
        return;
    struct gw_error error;
    struct gw_config *then = malloc(sizeof *then);
    if (!then)
        return; /* a line less */
    gw_config_default(then);
    if (gw_config_parse(then, "job", begin->from.job, &error) == GW_OK)
        note_meetings(begin, then, steps_per_epoch);
    free(then);
}

void gw_begin_free(struct gw_begin *begin)
{
    gw_manifest_free(&begin->from);
}
