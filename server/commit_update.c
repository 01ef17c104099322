/* The size of an update, and the worker that is named if the sum is not
   finite. */
#include "config.h"

#include "server/commit.h"

#include <inttypes.h>

void gw_commit_fill_update(const struct gw_server *server,
                           uint32_t index,
                           const struct gw_commit_size *size,
                           struct gw_update *update)
{
    const struct gw_config *config = &server->config;
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    double scale = size->clip / ((double)size->samples * size->loss_scale);
    if (chunk->mean)
        scale = 1 / (double)size->samples;
    *update = (struct gw_update){
        .scale = (float)scale,
        .lr = size->lr_factor * size->terms.lr,
        .weight_decay = size->terms.weight_decay,
        .momentum = size->terms.momentum,
        .beta1 = size->terms.beta1,
        .beta2 = size->terms.beta2,
        .eps = size->terms.eps,
        .t = gw_shard_changes(chunk) + 1,
        .trust_ratio = 1,
    };
    if (server->regime.outer) {
        /* pushes are sums of workers' own steps: the outer optimizer */
        update->lr = server->regime.terms.outer_lr;
        update->momentum = config->policy.outer_momentum;
        update->weight_decay = 0;
    }
    gw_update_prepare(update);
}

int gw_commit_passes_nonfinite(const struct gw_server *server, uint32_t index)
{
    return server->config.train.nonfinite == GW_NONFINITE_PASS ||
           server->shard->chunk[index].mean;
}

void gw_commit_blame(struct gw_server *server, uint32_t index, uint64_t clock)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    const char *key =
        server->map->key[server->map->chunk[chunk->global].key].name;
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        if (!gw_shard_is_nonfinite(server->shard, rank, index))
            continue;
        gw_server_finish(server, GW_ENONFINITE,
                         "step %" PRIu64 ", key %s: worker %u (%s) sent a "
                         "gradient that is not finite; lower optimizer.lr%s",
                         clock, key, rank, server->session[rank].host,
                         server->regime.can_skip
                             ? ", or set train.nonfinite = \"skip\""
                             : "");
        return;
    }
    gw_server_finish(server, GW_ENONFINITE,
                     "step %" PRIu64 ", key %s: the sum of the gradients is "
                     "not finite; lower optimizer.lr",
                     clock, key);
}

void gw_commit_worked(const struct gw_server *server,
                      uint32_t index,
                      uint32_t arrays)
{
    gw_loop_worked(server->loop, (uint64_t)arrays * sizeof(float) *
                                     server->shard->chunk[index].elems);
}
