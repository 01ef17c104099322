/*
 * The choice of a reduction. Each worker tells its peers the words by which a
 * device finds its gradients and weights, imports theirs, and tells the best
 * way that works for it; the group takes one that works for all, or some would
 * wait for tensors that others leave elsewhere.
 */
#include "config.h"

#include "worker/client/client_host_group_state.h"

#include <assert.h>
#include <stdio.h>

#define WHY_BYTES 512

/* In order of preference, by falling verdicts. Where one works, so do all
   behind it; the last one works everywhere. */
static const struct gw_reduction_ops *const reductions[] = {
    &gw_reduction_nvlink,
    &gw_reduction_shm,
};
#define REDUCTIONS (sizeof reductions / sizeof *reductions)

int gw_host_group_is_on_device(const struct gw_host_group *group)
{
    return group && group->ops && group->ops->on_device;
}

/* ---- who finds what ---- */

void gw_host_group_tell_words(struct gw_host_group *group,
                              const struct gw_group_peer *to)
{
    struct gw_message message = {.kind = GW_MESSAGE_SIGHT};
    if (group->device) {
        message.sight.gradients = group->device->own_gradients;
        message.sight.weights = group->device->own_weights;
        message.sight.trial = group->device->own_trial;
        message.sight.nonce = group->device->nonce;
    }
    gw_client_tell(group->client, to->peer, &message);
}

static void release(const struct gw_host_group *group,
                    struct gw_group_peer *who)
{
    if (who->imported.gradients)
        group->device->release_arena(group->device->owner,
                                     who->imported.gradients);
    if (who->imported.weights)
        group->device->release_arena(group->device->owner,
                                     who->imported.weights);
    who->imported = (struct gw_imported){NULL, NULL};
}

/* All of it, and as it was written. */
static int finds(const struct gw_host_group *group,
                 struct gw_group_peer *from,
                 const struct gw_sight *sight,
                 struct gw_error *error)
{
    const struct gw_device_arenas *device = group->device;
    from->imported.gradients =
        device->import_arena(device->owner, sight->gradients.byte, error);
    if (from->imported.gradients)
        from->imported.weights =
            device->import_arena(device->owner, sight->weights.byte, error);
    return from->imported.weights &&
           device->try(device->owner, &sight->trial, sight->nonce,
                       group->client->loop, error) == GW_OK;
}

static void look(struct gw_host_group *group,
                 struct gw_group_peer *from,
                 const struct gw_sight *sight)
{
    struct gw_error error;
    from->has_words = 1;
    if (!group->device || sight->gradients.n != GW_SIGHT_WORDS_MAX ||
        sight->weights.n != GW_SIGHT_WORDS_MAX)
        return;
    if (finds(group, from, sight, &error))
        return;
    release(group, from);
    snprintf(from->why_not, sizeof from->why_not, "%.255s", error.text);
}

static int have_words(struct gw_host_group *group)
{
    for (uint32_t i = 0; i < group->ranks.n; i++) {
        const struct gw_group_peer *who = gw_host_group_at(group, i);
        if (who && !who->has_words)
            return 0;
    }
    return 1;
}

/* ---- what is taken ---- */

/* When the last peer has told its words, all are told the best way that works
   here. */
static void judge(struct gw_host_group *group)
{
    struct gw_message message = {.kind = GW_MESSAGE_SIGHT};
    size_t i = 0;
    char why[WHY_BYTES];
    while (reductions[i]->probe(group, why, sizeof why) != GW_OK) {
        gw_log_info(group->client->log, "no sums over %s: %s",
                    reductions[i]->name, why);
        i++;
        assert(i < REDUCTIONS);
    }
    group->verdict = message.sight.verdict = reductions[i]->verdict;
    for (uint32_t k = 0; k < group->ranks.n; k++)
        if (gw_host_group_at(group, k))
            gw_client_tell(group->client, gw_host_group_at(group, k)->peer,
                           &message);
}

/* The least verdict, ours included; *limiter_p: the peer that has it, or NULL.
 */
static enum gw_sees least_verdict(struct gw_host_group *group,
                                  const struct gw_group_peer **limiter_p)
{
    enum gw_sees least = group->verdict;
    *limiter_p = NULL;
    for (uint32_t i = 0; i < group->ranks.n; i++) {
        const struct gw_group_peer *who = gw_host_group_at(group, i);
        if (!who || who->verdict >= least)
            continue;
        least = who->verdict;
        *limiter_p = who;
    }
    return least;
}

static void tell_paths(struct gw_host_group *group)
{
    for (uint32_t i = 0; i < group->ranks.n; i++) {
        const struct gw_group_peer *who = gw_host_group_at(group, i);
        const char *path = who ? group->device->path(group->device->owner,
                                                     who->imported.gradients)
                               : "";
        if (path[0])
            gw_log_info(group->client->log,
                        "between the GPU of %s and this one: %s",
                        who->peer->name, path);
    }
}

/* `limiter`: the peer for which no better way works; NULL: this is the best. */
static void take(struct gw_host_group *group,
                 const struct gw_reduction_ops *ops,
                 const struct gw_group_peer *limiter)
{
    if (group->device)
        group->device->tried(group->device->owner);
    if (ops->open(group, &group->reduction) != GW_OK) {
        gw_client_fail(group->client, GW_ENOMEM, "no memory for sums");
        return;
    }
    group->ops = ops;
    if (limiter)
        gw_log_info(group->client->log, "%s can sum over no more than %s",
                    limiter->peer->name, ops->name);
    gw_log_info(group->client->log, "sums of %u workers are made over %s, %s",
                group->ranks.n, ops->name, ops->where);
    if (ops->on_device)
        tell_paths(group);
}

enum gw_status gw_host_group_got_sight(struct gw_host_group *group,
                                       struct gw_group_peer *from,
                                       const struct gw_sight *sight)
{
    int words = sight->verdict == GW_SIGHT_WORDS;
    if (words ? from->has_words : from->verdict != GW_SIGHT_WORDS)
        return GW_EPROTO;
    if (words) {
        look(group, from, sight);
        if (have_words(group))
            judge(group);
    } else {
        from->verdict = sight->verdict;
    }
    const struct gw_group_peer *limiter;
    enum gw_sees least = least_verdict(group, &limiter);
    for (size_t i = 0; i < REDUCTIONS; i++)
        if (reductions[i]->verdict == least)
            take(group, reductions[i], limiter);
    return GW_OK;
}

/* ---- the end ---- */

void gw_host_group_release(struct gw_host_group *group)
{
    if (!group)
        return;
    group->released = 1; /* stopping lets the loop run */
    if (group->ops)
        group->ops->stop(group->reduction);
    for (uint32_t i = 0; group->device && i < group->ranks.n; i++) {
        struct gw_group_peer *who = gw_host_group_at(group, i);
        if (who)
            release(group, who);
    }
}
