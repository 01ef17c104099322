/*
 * A checkpoint that the trainer asks for. Under sync nobody goes beyond a clock
 * of which a rank has pushed nothing, so servers can still cut at that clock
 * and the rank waits there. Under other policies the others have gone on, and
 * the cut is made where all come to one clock, for which this rank's steps are
 * needed, too.
 */
#include "config.h"

#include "worker/trainer/rank_state.h"

static int is_sync(const struct gw_rank *rank)
{
    uint64_t until;
    const struct gw_policy_word *word = gw_client_policy(rank->client, &until);
    return word->kind == GW_POLICY_SYNC ||
           (word->kind == GW_POLICY_BACKUP && word->n == 0);
}

/* With the weights of its clock a rank knows the policy that holds there. */
static enum gw_status ask(struct gw_rank *rank)
{
    enum gw_status status = GW_OK;
    if (is_sync(rank))
        status = gw_client_wait(rank->client, 0, rank->keys, rank->clock);
    if (status != GW_OK)
        return status;
    rank->saves = 1;
    rank->stands = is_sync(rank) && !gw_client_has_next_policy(rank->client);
    gw_client_ask_save(rank->client, rank->stands ? &rank->clock : NULL);
    return GW_OK;
}

enum gw_status gw_rank_save(struct gw_rank *rank, struct gw_error *why)
{
    enum gw_status status = rank->over;
    if (!rank->config.checkpoint.dir[0])
        return gw_fail(why, GW_EUSAGE,
                       "the job makes no checkpoints: it has no "
                       "checkpoint.dir");
    if (status == GW_OK && !rank->saves)
        status = ask(rank);
    if (status == GW_OK)
        status = gw_client_save_answer(rank->client, rank->stands, why);
    if (status == GW_OK || status == GW_EIO || status == GW_EEND)
        rank->saves = rank->stands = 0;
    return gw_rank_tell(rank, status);
}
