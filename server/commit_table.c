/* The table of commits: found by its callers, so it calls none of them. */
#include "config.h"

#include "server/commit.h"

static const struct gw_commit_ops *const commits[GW_COMMIT_KINDS] = {
    [GW_COMMIT_KIND_STREAMING] = &gw_commit_streaming,
    [GW_COMMIT_KIND_WHOLE] = &gw_commit_whole,
    [GW_COMMIT_KIND_QUORUM] = &gw_commit_quorum,
    [GW_COMMIT_KIND_PER_PUSH] = &gw_commit_per_push,
};

const struct gw_commit_ops *gw_commit_find(const struct gw_regime *regime)
{
    return commits[regime->commit];
}

const struct gw_commit_ops *gw_commit_of(const struct gw_server *server)
{
    return gw_commit_find(&server->regime);
}

int gw_commit_is_due(const struct gw_server *server, uint32_t index)
{
    return !server->shard->chunk[index].reduced &&
           gw_commit_of(server)->is_complete(server, index);
}
