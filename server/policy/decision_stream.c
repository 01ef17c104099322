/* The stream of decisions: numbers them and emits them. */
#include "config.h"

#include "server/policy/decision_state.h"

#include <stdlib.h>
#include <string.h>

/* A decision that a worker has to know that begins later. */
struct kept {
    struct gw_decision decision; /* number 0: there is none */
    double values[2];
};

struct gw_leader_stream {
    uint64_t number;        /* of the last decision */
    struct kept score, end; /* the last ones */
    uint64_t *at; /* [ranks] per-push policies: clocks where ranks last stood */
};

enum gw_status gw_stream_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    struct gw_leader_stream *stream = calloc(1, sizeof *stream);
    leader->stream = stream;
    if (stream)
        stream->at = calloc(options->ranks, sizeof *stream->at);
    if (!stream || !stream->at)
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

/* ---- for a worker that begins later ---- */

static void keep(struct kept *kept, const struct gw_decision *decision)
{
    kept->decision = *decision;
    kept->decision.clocks_n = kept->decision.ranks_n = 0;
    for (uint32_t i = 0; i < 2 && i < decision->values_n; i++)
        kept->values[i] = decision->values[i];
    kept->decision.values = kept->values;
}

static void note(struct gw_leader *leader, const struct gw_decision *decision)
{
    if (decision->kind == GW_DECIDE_SCORE)
        keep(&leader->stream->score, decision);
    else if (decision->kind == GW_DECIDE_END)
        keep(&leader->stream->end, decision);
}

void gw_leader_recall(const struct gw_leader *leader,
                      void (*tell)(void *owner,
                                   const struct gw_decision *decision),
                      void *owner)
{
    const struct gw_leader_stream *stream = leader->stream;
    const struct kept *kept[] = {&stream->score, &stream->end};
    uint64_t told = 0;
    if (stream->score.decision.number > stream->end.decision.number) {
        kept[0] = &stream->end;
        kept[1] = &stream->score;
    }
    for (size_t i = 0; i < 2; i++) {
        struct gw_decision decision = kept[i]->decision;
        if (decision.number == 0)
            continue;
        decision.stands_for = (uint32_t)(decision.number - told);
        told = decision.number;
        tell(owner, &decision);
    }
    const struct gw_decision rest = {
        .kind = GW_DECIDE_PASSED,
        .number = stream->number,
        .stands_for = (uint32_t)(stream->number - told),
    };
    if (rest.stands_for > 0)
        tell(owner, &rest);
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
