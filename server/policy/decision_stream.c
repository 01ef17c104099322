/* The stream of decisions: numbers them and emits them. */
#include "config.h"

#include "server/policy/decision_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 16 /* more than the kinds that are kept have */

/* A decision that somebody has to know who begins later. */
struct kept {
    struct gw_decision decision; /* number 0: there is none */
    double values[VALUES_MAX];
    uint64_t *clocks; /* [ranks] of a cut; else NULL */
    char policy[GW_WORD_BYTES];
};

/* The last ones of a kind; of switches the last two. */
enum {
    KEPT_SCORE,
    KEPT_END,
    KEPT_CUT,
    KEPT_SWITCH,
    KEPT_SWITCH_BEFORE,
    KEPT
};

struct gw_leader_stream {
    uint64_t number; /* of the last decision */
    struct kept kept[KEPT];
    uint64_t *at; /* [ranks] per-push policies: clocks where ranks last stood */
};

enum gw_status gw_stream_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    struct gw_leader_stream *stream = calloc(1, sizeof *stream);
    leader->stream = stream;
    if (stream) {
        uint64_t **clocks = &stream->kept[KEPT_CUT].clocks;
        stream->at = calloc(options->ranks, sizeof *stream->at);
        *clocks = calloc(options->ranks, sizeof **clocks);
    }
    if (!stream || !stream->at || !stream->kept[KEPT_CUT].clocks)
        return GW_ENOMEM;
    gw_stream_stand(leader, options->state.clock);
    if (options->clocks)
        gw_stream_stand_apart(leader, options->clocks);
    return GW_OK;
}

void gw_stream_close(struct gw_leader *leader)
{
    if (!leader->stream)
        return;
    free(leader->stream->kept[KEPT_CUT].clocks);
    free(leader->stream->at);
    free(leader->stream);
}

uint64_t gw_stream_number(const struct gw_leader *leader)
{
    return leader->stream->number;
}

void gw_stream_stand(struct gw_leader *leader, uint64_t clock)
{
    for (uint32_t rank = 0; rank < leader->options.ranks; rank++)
        leader->stream->at[rank] = clock;
}

void gw_stream_stand_apart(struct gw_leader *leader, const uint64_t *clocks)
{
    memcpy(leader->stream->at, clocks,
           leader->options.ranks * sizeof *leader->stream->at);
}

/* ---- for those who begin later ---- */

static void keep(struct kept *kept, const struct gw_decision *decision)
{
    uint32_t clocks = kept->clocks ? decision->clocks_n : 0;
    kept->decision = *decision;
    for (uint32_t i = 0; i < VALUES_MAX && i < decision->values_n; i++)
        kept->values[i] = decision->values[i];
    if (clocks > 0)
        memcpy(kept->clocks, decision->clocks, clocks * sizeof *kept->clocks);
    if (kept->decision.values_n > VALUES_MAX)
        kept->decision.values_n = VALUES_MAX;
    snprintf(kept->policy, sizeof kept->policy, "%s",
             decision->policy ? decision->policy : "");
    kept->decision.values = kept->values;
    kept->decision.clocks = kept->clocks;
    kept->decision.clocks_n = clocks;
    kept->decision.ranks_n = 0;
    kept->decision.policy = kept->policy;
}

static void note(struct gw_leader *leader, const struct gw_decision *decision)
{
    struct kept *kept = leader->stream->kept;
    if (decision->kind == GW_DECIDE_SCORE)
        keep(&kept[KEPT_SCORE], decision);
    else if (decision->kind == GW_DECIDE_END)
        keep(&kept[KEPT_END], decision);
    else if (decision->kind == GW_DECIDE_CUT)
        keep(&kept[KEPT_CUT], decision);
    if (decision->kind != GW_DECIDE_SWITCH)
        return;
    kept[KEPT_SWITCH_BEFORE] = kept[KEPT_SWITCH];
    keep(&kept[KEPT_SWITCH], decision);
}

void gw_stream_keep(struct gw_leader *leader,
                    const struct gw_decision *decision)
{
    note(leader, decision);
}

void gw_stream_set_number(struct gw_leader *leader, uint64_t number)
{
    leader->stream->number = number;
}

/* The first one of those kinds behind a number; NULL: there is none. The last
   switch but one has its values elsewhere. */
static const struct gw_decision *
next_kept(const struct gw_leader *leader, unsigned kinds, uint64_t number)
{
    const struct gw_decision *next = NULL;
    for (unsigned i = 0; i < KEPT; i++) {
        struct kept *kept = &leader->stream->kept[i];
        struct gw_decision *one = &kept->decision;
        if (!(kinds >> i & 1) || one->number <= number ||
            (next && next->number < one->number))
            continue;
        one->values = kept->values;
        one->policy = kept->policy;
        next = one;
    }
    return next;
}

void gw_leader_recall(const struct gw_leader *leader,
                      void (*tell)(void *owner,
                                   const struct gw_decision *decision),
                      void *owner)
{
    const unsigned kinds = 1 << KEPT_SCORE | 1 << KEPT_END;
    const struct gw_decision *one;
    uint64_t told = 0;
    while ((one = next_kept(leader, kinds, told))) {
        struct gw_decision decision = *one;
        decision.clocks_n = 0;
        decision.stands_for = (uint32_t)(decision.number - told);
        told = decision.number;
        tell(owner, &decision);
    }
    const struct gw_decision rest = {
        .kind = GW_DECIDE_PASSED,
        .number = leader->stream->number,
        .stands_for = (uint32_t)(leader->stream->number - told),
    };
    if (rest.stands_for > 0)
        tell(owner, &rest);
}

void gw_stream_recall(struct gw_leader *leader,
                      uint64_t after,
                      void (*tell)(void *owner,
                                   const struct gw_decision *decision),
                      void *owner)
{
    const struct gw_decision *one;
    for (uint64_t told = 0; (one = next_kept(leader, (1 << KEPT) - 1, told));
         told = one->number)
        if (one->kind != GW_DECIDE_SWITCH || one->number > after)
            tell(owner, one);
}

/* ---- decisions ---- */

void gw_leader_emit(struct gw_leader *leader, struct gw_decision *decision)
{
    int stands = decision->kind == GW_DECIDE_CUT ||
                 decision->kind == GW_DECIDE_END ||
                 decision->kind == GW_DECIDE_RESUME ||
                 decision->kind == GW_DECIDE_SWITCH;
    if (leader->regime.per_push && stands) {
        decision->clocks = leader->stream->at;
        decision->clocks_n = leader->options.ranks;
    }
    decision->number = ++leader->stream->number;
    note(leader, decision);
    leader->options.emit(leader->options.owner, decision);
}
