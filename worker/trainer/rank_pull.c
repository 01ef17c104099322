/*
 * Weights of a step before its end: a trainer pulls keys that it has pushed, as
 * soon as servers have made their next weights. With servers that take means,
 * that is an all-reduce of these keys.
 *
 * A key's weights come before other keys are pushed where servers update chunks
 * by themselves: under sync with streaming updates. Elsewhere they come when
 * all keys of the step are in. Under local policies a step makes none.
 */
#include "config.h"

#include "worker/trainer/rank_state.h"

/* Ranks that step alone are brought to a stand between two steps, never within
   one. */
static int is_streaming(const struct gw_rank *rank,
                        const struct gw_policy_word *word)
{
    return (word->kind == GW_POLICY_SYNC ||
            (word->kind == GW_POLICY_BACKUP && word->n == 0)) &&
           !gw_config_whole_step_under(&rank->config, word);
}

/* The first key of the run that is neither ready nor skipped, or its end. */
static size_t first_open(const struct gw_rank *rank, size_t first, size_t n)
{
    size_t key = first;
    while (key < first + n && rank->done[key].ready)
        key++;
    return key;
}

int gw_rank_is_final(const struct gw_rank *rank)
{
    return first_open(rank, 0, rank->keys) == rank->keys;
}

static enum gw_status check_kind(const struct gw_rank *rank,
                                 struct gw_error *error)
{
    if (rank->step.task != GW_RANK_TRAIN || rank->whole)
        return gw_fail(error, GW_EUSAGE, "this step only scores");
    if (!rank->backend->on_host)
        return gw_fail(error, GW_EUSAGE,
                       "weights are pulled to host memory, and %s computes in "
                       "its own",
                       rank->backend->name);
    return GW_OK;
}

static enum gw_status check_policy(const struct gw_rank *rank,
                                   const struct gw_policy_word *word,
                                   struct gw_error *error)
{
    char text[GW_WORD_BYTES];
    size_t open = first_open(rank, 0, rank->keys);
    gw_policy_word_print(word, text);
    if (rank->local)
        return gw_fail(error, GW_EUSAGE,
                       "under cluster.policy = \"%s\" servers make no weights "
                       "of a step; take \"sync\"",
                       text);
    if (open < rank->keys && !is_streaming(rank, word))
        return gw_fail(error, GW_EUSAGE,
                       "key %s is to be pushed or skipped first: with this "
                       "train.commit, or cluster.policy = \"%s\", a step's "
                       "weights are made when all its keys are in",
                       rank->key[open].name, text);
    return GW_OK;
}

enum gw_status gw_rank_may_pull(const struct gw_rank *rank,
                                size_t first,
                                size_t n,
                                struct gw_error *error)
{
    uint64_t until;
    size_t open = first_open(rank, first, n);
    enum gw_status status = check_kind(rank, error);
    if (status == GW_OK && open < first + n)
        status = gw_fail(error, GW_EUSAGE,
                         "key %s was neither pushed nor skipped in this step",
                         rank->key[open].name);
    return status == GW_OK
               ? check_policy(rank, gw_client_policy(rank->client, &until),
                              error)
               : status;
}

int gw_rank_pull_is_prompt(const struct gw_rank *rank, size_t first, size_t n)
{
    return gw_client_has_made(rank->client, first, n, rank->clock + 1);
}

enum gw_status gw_rank_pull(struct gw_rank *rank, size_t first, size_t n)
{
    enum gw_status status = gw_rank_may_pull(rank, first, n, rank->error);
    if (status != GW_OK)
        return gw_rank_fail(rank, status);
    status = gw_client_wait_made(rank->client, first, n, rank->clock + 1);
    if (status == GW_OK)
        gw_rank_refill_tensors(rank, first, n);
    return status;
}
