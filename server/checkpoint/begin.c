#include "config.h"

#include "server/checkpoint/begin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"
#include "server/policy/splits.h"
#include "server/checkpoint/membership.h"
#include "server/checkpoint/store.h"

#define KEPT_MAX 1024

void gw_begin_note(const struct gw_begin *begin, const char *format, ...)
{
    char text[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    gw_text_print(text, sizeof text, format, args);
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

/* The newest whole checkpoint; incomplete ones are named. */
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
            gw_begin_note(begin,
                          "the checkpoint of step %" PRIu64 " is refused: %s",
                          clocks[i], error->text);
    }
    free(clocks);
    gw_store_leave(&dir);
    if (n > 0 && unfinished == n) {
        /* it died within its first checkpoint: nothing is lost */
        gw_begin_note(
            begin, "no checkpoint in %s was finished, so the job begins anew",
            begin->resume);
        return GW_OK;
    }
    if (status != GW_OK)
        return status;
    begin->is_resumed = 1;
    gw_begin_note(begin, "going on from the checkpoint of step %" PRIu64,
                  begin->from.state.clock);
    return GW_OK;
}

/* The job that made the checkpoint, and the course that it took. One of a
   program that did not write the course down took steps of one size. */
static enum gw_status read_then(struct gw_begin *begin, struct gw_error *error)
{
    const struct gw_manifest *from = &begin->from;
    struct gw_error why;
    begin->cut = (struct gw_course_cut){from->course, from->state.clock};
    begin->then = malloc(sizeof *begin->then);
    if (!begin->then)
        return gw_fail(error, GW_ENOMEM, "no memory for a checkpoint's job");
    gw_config_default(begin->then);
    if (gw_config_parse(begin->then, "job", from->job, &why) != GW_OK) {
        free(begin->then);
        begin->then = NULL;
    } else if (begin->cut.course.batch == 0) {
        begin->cut.course.batch = gw_schedule_batch(begin->then);
    }
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
    char word[GW_WORD_BYTES];
    gw_policy_word_print(&begin->regime.word, word);
    /* an imported checkpoint has weights only, and was made under none */
    if (begin->is_resumed && from->optimizer[0] && from->policy[0] &&
        strcmp(from->policy, word) != 0)
        gw_begin_note(
            begin, "the checkpoint was made under %s, the job goes on under %s",
            from->policy, word);
}

/* One optimizer cannot use the state of another. */
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
        gw_begin_note(
            begin,
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

int gw_begin_newest(struct gw_disk *disk, const char *path, uint64_t *clock_p)
{
    struct gw_disk dir;
    int is_there = 0;
    if (gw_store_enter(disk, path, GW_ACCESS_PRIVATE, &dir, NULL) == GW_OK)
        is_there = gw_store_newest_there(&dir, clock_p);
    gw_store_leave(&dir);
    return is_there;
}

/* A job ran, or runs, that did not end in order. */
static int has_members(struct gw_disk *dir)
{
    struct gw_membership left;
    if (gw_membership_read(dir, &left, NULL) != GW_OK)
        return 0;
    gw_membership_free(&left);
    return 1;
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
    int is_left = has_one && has_members(&dir);
    gw_store_leave(&dir);
    if (!has_one)
        return GW_OK;
    return gw_fail(error, GW_EEXIST,
                   "checkpoint.dir %s holds a checkpoint of step %" PRIu64
                   " already; go on from it with --resume,%s or choose another "
                   "directory",
                   begin->dir, newest,
                   is_left ? " or, where only its coordinator has died, with "
                             "gradweir coordinator --rejoin,"
                           : "");
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
                   "another model: its keys, their shapes or their groups "
                   "differ; set "
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
    if (status == GW_OK && begin->is_resumed)
        status = read_then(begin, error);
    if (status == GW_OK)
        status = gw_regime_at(begin->config,
                              begin->is_resumed ? begin->from.state.clock : 0,
                              &begin->regime, error);
    if (status != GW_OK)
        return status;
    note_policy(begin);
    return gw_config_optimizer_is_open(begin->config)
               ? GW_OK
               : check_optimizer(begin, error);
}

enum gw_status gw_begin_take_program(struct gw_begin *begin,
                                     struct gw_error *error)
{
    enum gw_status status = gw_regime_at(
        begin->config, begin->is_resumed ? begin->from.state.clock : 0,
        &begin->regime, error);
    /* gw_begin_find has found the same of another job */
    int is_known = begin->anew;
    return status == GW_OK && !is_known ? check_optimizer(begin, error)
                                        : status;
}

void gw_begin_free(struct gw_begin *begin)
{
    gw_manifest_free(&begin->from);
    free(begin->then);
    begin->then = NULL;
}
