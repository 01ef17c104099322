/* The stream of decisions: numbers them and emits them. */
#include "config.h"

#include "server/policy/decision_state.h"

#include <stdlib.h>
#include <string.h>

struct gw_leader_stream {
    uint64_t number; /* of the last decision */
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
    leader->options.emit(leader->options.owner, decision);
}
