/*
 * Which way a group of workers reduces. Each tells its neighbours by which
 * words a device finds its gradients and weights, looks for theirs, and tells
 * what works for it; what works for all is taken, or some would wait for what
 * others leave elsewhere.
 */
#include "config.h"

#include "worker/client/client_node_state.h"

#include <assert.h>
#include <stdio.h>

#define WHY_BYTES 512

/* In order of preference, by falling verdicts. What one of them works for,
   those behind it do; the last one works for all. */
static const struct gw_reduction_ops *const reductions[] = {
    &gw_reduction_nvlink,
    &gw_reduction_shm,
};
#define REDUCTIONS (sizeof reductions / sizeof *reductions)

int gw_node_is_on_device(const struct gw_client_node *node)
{
    return node && node->way && node->way->on_device;
}

/* ---- who finds what ---- */

void gw_node_tell_words(struct gw_client_node *node,
                        const struct gw_neighbour *to)
{
    struct gw_message message = {.kind = GW_MESSAGE_SIGHT};
    if (node->device) {
        message.sight.gradients = node->device->own_gradients;
        message.sight.weights = node->device->own_weights;
        message.sight.trial = node->device->own_trial;
        message.sight.nonce = node->device->nonce;
    }
    gw_client_tell(node->client, to->peer, &message);
}

static void unsee(const struct gw_client_node *node, struct gw_neighbour *who)
{
    if (who->seen.gradients)
        node->device->unsee(node->device->owner, who->seen.gradients);
    if (who->seen.weights)
        node->device->unsee(node->device->owner, who->seen.weights);
    who->seen = (struct gw_seen){NULL, NULL};
}

/* All of it, and as it was written. */
static int finds(const struct gw_client_node *node,
                 struct gw_neighbour *from,
                 const struct gw_sight *sight,
                 struct gw_error *error)
{
    const struct gw_device_arenas *device = node->device;
    from->seen.gradients =
        device->see(device->owner, sight->gradients.byte, error);
    if (from->seen.gradients)
        from->seen.weights =
            device->see(device->owner, sight->weights.byte, error);
    return from->seen.weights &&
           device->try(device->owner, &sight->trial, sight->nonce,
                       node->client->loop, error) == GW_OK;
}

static void look(struct gw_client_node *node,
                 struct gw_neighbour *from,
                 const struct gw_sight *sight)
{
    struct gw_error error;
    from->has_words = 1;
    if (!node->device || sight->gradients.n != GW_SIGHT_WORDS_MAX ||
        sight->weights.n != GW_SIGHT_WORDS_MAX)
        return;
    if (finds(node, from, sight, &error))
        return;
    unsee(node, from);
    snprintf(from->unseen, sizeof from->unseen, "%.255s", error.text);
}

static int have_words(struct gw_client_node *node)
{
    for (uint32_t i = 0; i < node->group.n; i++) {
        const struct gw_neighbour *who = gw_node_at(node, i);
        if (who && !who->has_words)
            return 0;
    }
    return 1;
}

/* ---- what is taken ---- */

/* When the last one has told its words, all are told what works here. */
static void judge(struct gw_client_node *node)
{
    struct gw_message message = {.kind = GW_MESSAGE_SIGHT};
    size_t i = 0;
    char why[WHY_BYTES];
    while (reductions[i]->probe(node, why, sizeof why) != GW_OK) {
        gw_log_info(node->client->log, "no sums over %s: %s",
                    reductions[i]->name, why);
        i++;
        assert(i < REDUCTIONS);
    }
    node->verdict = message.sight.verdict = reductions[i]->verdict;
    for (uint32_t k = 0; k < node->group.n; k++)
        if (gw_node_at(node, k))
            gw_client_tell(node->client, gw_node_at(node, k)->peer, &message);
}

/* Of what works for each, our own too, the least; *whose_p is not ours. */
static enum gw_sees least_verdict(struct gw_client_node *node,
                                  const struct gw_neighbour **whose_p)
{
    enum gw_sees least = node->verdict;
    *whose_p = NULL;
    for (uint32_t i = 0; i < node->group.n; i++) {
        const struct gw_neighbour *who = gw_node_at(node, i);
        if (!who || who->verdict >= least)
            continue;
        least = who->verdict;
        *whose_p = who;
    }
    return least;
}

static void tell_paths(struct gw_client_node *node)
{
    for (uint32_t i = 0; i < node->group.n; i++) {
        const struct gw_neighbour *who = gw_node_at(node, i);
        const char *path =
            who ? node->device->path(node->device->owner, who->seen.gradients)
                : "";
        if (path[0])
            gw_log_info(node->client->log,
                        "between the GPU of %s and this one: %s",
                        who->peer->name, path);
    }
}

/* `whose` it is: not what works best here; NULL: it is. */
static void take(struct gw_client_node *node,
                 const struct gw_reduction_ops *way,
                 const struct gw_neighbour *whose)
{
    if (node->device)
        node->device->tried(node->device->owner);
    if (way->open(node, &node->reduction) != GW_OK) {
        gw_client_fail(node->client, GW_ENOMEM, "no memory for sums");
        return;
    }
    node->way = way;
    if (whose)
        gw_log_info(node->client->log, "%s can sum over no more than %s",
                    whose->peer->name, way->name);
    gw_log_info(node->client->log, "sums of %u workers are made over %s, %s",
                node->group.n, way->name, way->where);
    if (way->on_device)
        tell_paths(node);
}

enum gw_status gw_node_sight(struct gw_client_node *node,
                             struct gw_neighbour *from,
                             const struct gw_sight *sight)
{
    int words = sight->verdict == GW_SIGHT_WORDS;
    if (words ? from->has_words : from->verdict != GW_SIGHT_WORDS)
        return GW_EPROTO;
    if (words) {
        look(node, from, sight);
        if (have_words(node))
            judge(node);
    } else {
        from->verdict = sight->verdict;
    }
    const struct gw_neighbour *whose;
    enum gw_sees least = least_verdict(node, &whose);
    for (size_t i = 0; i < REDUCTIONS; i++)
        if (reductions[i]->verdict == least)
            take(node, reductions[i], whose);
    return GW_OK;
}

/* ---- the end ---- */

void gw_node_let_go(struct gw_client_node *node)
{
    if (!node)
        return;
    node->let_go = 1; /* what is stopped lets the loop run */
    if (node->way)
        node->way->stop(node->reduction);
    for (uint32_t i = 0; node->device && i < node->group.n; i++) {
        struct gw_neighbour *who = gw_node_at(node, i);
        if (who)
            unsee(node, who);
    }
}
