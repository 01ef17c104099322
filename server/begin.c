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

/* The newest checkpoint that is whole; those that are not are named. */
static enum gw_status choose(struct gw_begin *begin, struct gw_error *error)
{
    const char *dir = begin->resume;
    static const char none[] = "there is no checkpoint to resume from in";
    uint64_t *clocks = calloc(KEPT_MAX, sizeof *clocks);
    if (!clocks)
        return gw_fail(error, GW_ENOMEM, "no memory to look for checkpoints");
    size_t n = gw_store_list(begin->disk, dir, clocks, KEPT_MAX);
    size_t unfinished = 0;
    enum gw_status status =
        gw_fail(error, GW_ENOENT, "%s %s (checkpoint.dir)", none, dir);
    for (size_t i = 0; i < n && status != GW_OK; i++) {
        status =
            gw_store_whole(begin->disk, dir, clocks[i], &begin->from, error);
        unfinished += status == GW_ENOENT;
        if (status != GW_OK)
            note(begin, "the checkpoint of step %" PRIu64 " is refused: %s",
                 clocks[i], error->text);
    }
    free(clocks);
    if (n > 0 && unfinished == n) {
        /* it died within its first checkpoint: nothing is lost */
        note(begin, "no checkpoint in %s was finished, so the job begins anew",
             dir);
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
             "the checkpoint was made under %s, whose servers ran %s: %s "
             "begins without state",
             from->policy, from->optimizer, optimizer);
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
    uint64_t newest;
    if (gw_store_list(begin->disk, begin->dir, &newest, 1) == 0)
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
    if (!begin->dir[0] ||
        gw_store_check_free(begin->disk, begin->dir, error) == GW_OK)
        return GW_OK;
    return gw_fail_in(error, "checkpoint.dir");
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
    return status == GW_OK ? check_optimizer(begin, error) : status;
}

void gw_begin_free(struct gw_begin *begin)
{
    gw_manifest_free(&begin->from);
}
