/* Streaming commits: a chunk is updated as soon as all pushes of its clock
   are held, independently of other chunks and shards; where it has a standby,
   as soon as that has the sum. */
#include "config.h"

#include "server/commit.h"

static void
fill(const struct gw_server *server, uint32_t index, struct gw_update *update)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    const struct gw_commit_size size = {.samples = gw_shard_divisor(chunk),
                                        .clip = 1,
                                        .loss_scale = server->loss_scale,
                                        .lr_factor = 1,
                                        .terms =
                                            gw_terms_of_step(server, index)};
    gw_commit_fill_update(server, index, &size, update);
}

/* Goes on in `stored` when the standby has the step. */
static void store(struct gw_server *server, uint32_t index)
{
    struct gw_shard *shard = server->shard;
    uint64_t clock = shard->chunk[index].version;
    struct gw_update update;
    if (!gw_terms_agree(server, index))
        return;
    if (!gw_shard_has_gradient(shard, index)) {
        gw_shard_take_sum(shard, index);
        gw_copy_step(server, index, NULL);
        return;
    }
    fill(server, index, &update);
    gw_commit_worked(server, index, shard->chunk[index].held + 1);
    if (gw_shard_reduce(shard, index) ||
        gw_commit_passes_nonfinite(server, index))
        gw_copy_step(server, index, &update);
    else
        gw_commit_blame(server, index, clock);
}

static void reduce(struct gw_server *server, uint32_t index)
{
    if (!gw_copy_may_change(server, index) ||
        !gw_save_before_update(server, index) ||
        !gw_imports_find_all(server, index))
        return;
    if (gw_copy_is_followed(server, index))
        store(server, index);
    else
        gw_commit_reduced(server, GW_RANK_NONE, index);
}

/* The sum is in memory where a standby has been sent it. */
static enum gw_status update(struct gw_server *server, uint32_t index)
{
    struct gw_shard *shard = server->shard;
    const struct gw_shard_chunk *chunk = &shard->chunk[index];
    uint32_t sums = chunk->reduced ? 1 : chunk->held;
    struct gw_update update;
    fill(server, index, &update);
    gw_commit_worked(server, index, sums + 2 + 2 * shard->optimizer->states);
    if (!chunk->reduced)
        return gw_shard_update(shard, index, &update);
    gw_shard_apply(shard, index, &update);
    return GW_OK;
}

static void stored(struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    enum gw_status status = GW_OK;
    if (!gw_terms_agree(server, index))
        return;
    gw_metrics_add(server->metrics, GW_METRIC_PUSHES_APPLIED, chunk->held);
    if (gw_shard_has_gradient(server->shard, index))
        status = update(server, index);
    else
        gw_shard_skip_update(server->shard, index);
    if (status != GW_OK && !gw_commit_passes_nonfinite(server, index))
        gw_commit_blame(server, index, chunk->version - 1);
    else
        gw_commit_applied(server, rank, index);
}

static void resume(struct gw_server *server)
{
    gw_due_add_all(&server->due);
}

const struct gw_commit_ops gw_commit_streaming = {
    .word = "streaming",
    .is_complete = gw_commit_all_held,
    .held = gw_commit_ignore,
    .unheld = gw_commit_ignore,
    .leaves_out = gw_commit_leaves_out_none,
    .awaits = gw_commit_awaits_unheld,
    .can_miss = gw_commit_holds_any,
    .reduce = reduce,
    .stored = stored,
    .applied = gw_commit_reached,
    .resume = resume,
    .begin = gw_commit_nothing,
    .decided = gw_commit_decided_version,
    .label = gw_commit_label_version,
    .step = gw_commit_step_is_version,
    .quiesce = gw_commit_nothing,
    .cut = gw_commit_cut_at,
    .cut_fault = gw_commit_cut_fault,
    .switch_fault = gw_commit_switch_fault,
};
