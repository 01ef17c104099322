/*
 * Sums of what devices have. Each worker tells its neighbours by which words a
 * device finds its gradients, looks for theirs, and tells whether it has found
 * all; only if each has are sums made on devices, or some would wait for what
 * others leave there. A sum is made on another thread, for it has to wait for
 * the device.
 */
#include "config.h"

#include "worker/client_node_state.h"

#include <string.h>

/* ---- who finds whom ---- */

static struct gw_neighbour *neighbour_at(struct gw_client_node *node,
                                         uint32_t i)
{
    uint32_t rank = node->group.first + i;
    return rank == node->client->rank ? NULL : gw_node_neighbour(node, rank);
}

void gw_node_tell_words(struct gw_client_node *node,
                        const struct gw_neighbour *to)
{
    struct gw_message message = {.kind = GW_MESSAGE_SIGHT};
    if (node->device) {
        message.sight.words_n = GW_SIGHT_WORDS_MAX;
        memcpy(message.sight.words, node->device->own, GW_SIGHT_WORDS_MAX);
    }
    gw_client_tell(node->client, to->peer, &message);
}

/* When the last one has told its words, all are told what has been found. */
static void judge(struct gw_client_node *node)
{
    struct gw_message message = {.kind = GW_MESSAGE_SIGHT};
    int all = node->device != NULL;
    for (uint32_t i = 0; i < node->group.n; i++) {
        const struct gw_neighbour *who = neighbour_at(node, i);
        if (who && !who->has_words)
            return;
        all &= !who || who->seen;
    }
    node->verdict = all ? GW_SIGHT_SEES : GW_SIGHT_BLIND;
    message.sight.verdict = node->verdict;
    for (uint32_t i = 0; i < node->group.n; i++)
        if (neighbour_at(node, i))
            gw_client_tell(node->client, neighbour_at(node, i)->peer, &message);
}

static void look(struct gw_client_node *node,
                 struct gw_neighbour *from,
                 const struct gw_sight *sight)
{
    struct gw_error error;
    from->has_words = 1;
    if (sight->words_n == GW_SIGHT_WORDS_MAX && node->device) {
        from->seen =
            node->device->see(node->device->owner, sight->words, &error);
        if (!from->seen)
            gw_log_info(node->client->log, "%s: %s", from->peer->name,
                        error.text);
    }
    judge(node);
}

enum gw_status gw_node_sight(struct gw_client_node *node,
                             struct gw_neighbour *from,
                             const struct gw_sight *sight)
{
    int words = sight->verdict == GW_SIGHT_WORDS;
    if (words ? from->has_words : from->verdict != GW_SIGHT_WORDS)
        return GW_EPROTO;
    if (words)
        look(node, from, sight);
    else
        from->verdict = sight->verdict;
    if (gw_node_is_settled(node) && node->device)
        gw_log_info(node->client->log, "sums of %u workers are made on the %s",
                    node->group.n,
                    gw_node_is_on_device(node) ? "devices" : "host");
    return GW_OK;
}

/* Of those of all, our own too, the one that is least far: enum gw_sees has
   them in that order. */
static enum gw_sees least_verdict(const struct gw_client_node *node)
{
    enum gw_sees least = node->verdict;
    for (uint32_t i = 0; i < node->group.n; i++) {
        uint32_t rank = node->group.first + i;
        const struct gw_neighbour *who = &node->neighbour[rank % GW_GROUP_MAX];
        if (rank != node->client->rank && who->verdict < least)
            least = who->verdict;
    }
    return least;
}

int gw_node_is_settled(const struct gw_client_node *node)
{
    return least_verdict(node) != GW_SIGHT_WORDS;
}

int gw_node_is_on_device(const struct gw_client_node *node)
{
    return least_verdict(node) == GW_SIGHT_SEES;
}

/* ---- sums ---- */

static enum gw_status sum_chunk(struct gw_client_node *node, uint32_t index)
{
    const struct gw_chunk *place = &node->client->map->chunk[index];
    struct gw_sum_chunk *chunk = &node->chunk[index];
    const float *part[GW_GROUP_MAX];
    uint8_t bad[GW_GROUP_MAX] = {0};
    uint32_t self = node->client->rank - node->group.first;
    for (uint32_t i = 0; i < node->group.n; i++)
        part[i] = chunk->part[i].samples == 0 ? NULL
                  : i == self                 ? node->client->gradients
                                              : neighbour_at(node, i)->seen;
    const struct gw_device_sum what = {
        .part = part,
        .n = node->group.n,
        .self = self,
        .first = place->arena_offset / sizeof(float),
        .elems = place->elems,
        .stays = node->client->chunk[index].stays,
    };
    enum gw_status status =
        node->device->sum(node->device->owner, &what, bad, &node->failure);
    for (uint32_t i = 0; i < node->group.n; i++)
        chunk->part[i].bad = bad[i];
    return status;
}

/* On another thread. Nobody else touches these chunks meanwhile. */
static void run_sums(struct gw_work *work)
{
    struct gw_client_node *node = work->owner;
    enum gw_status status = GW_OK;
    for (uint32_t i = 0; i < node->working && status == GW_OK; i++)
        status = sum_chunk(node, node->list[i]);
    node->failure.status = status;
}

static void begin_sums(struct gw_client_node *node);

static void done_sums(struct gw_work *work)
{
    struct gw_client_node *node = work->owner;
    uint32_t made = node->working;
    if (node->failure.status != GW_OK) {
        gw_client_fail_with(node->client, &node->failure);
        return;
    }
    node->working = 0;
    for (uint32_t i = 0; i < made; i++)
        gw_node_summed(node, node->list[i]);
    memmove(node->list, node->list + made, node->waiting * sizeof *node->list);
    begin_sums(node);
}

static void begin_sums(struct gw_client_node *node)
{
    if (node->working > 0 || node->waiting == 0)
        return;
    node->working = node->waiting;
    node->waiting = 0;
    node->work =
        (struct gw_work){.run = run_sums, .done = done_sums, .owner = node};
    gw_loop_work(node->client->loop, &node->work);
}

void gw_node_sum_on_device(struct gw_client_node *node, uint32_t index)
{
    struct gw_sum_chunk *chunk = &node->chunk[index];
    uint64_t pushed = node->client->chunk[index].pushed;
    if (chunk->summing == pushed || node->let_go)
        return;
    chunk->summing = pushed;
    gw_client_set_stays(node->client, index,
                        gw_client_is_far(node->client, index));
    node->list[node->working + node->waiting++] = index;
    begin_sums(node);
}

void gw_node_let_go(struct gw_client_node *node)
{
    if (!node || !node->device)
        return;
    if (node->working > 0)
        gw_loop_cancel(node->client->loop, &node->work);
    node->working = node->waiting = 0;
    node->let_go = 1;
    for (uint32_t i = 0; i < node->group.n; i++) {
        struct gw_neighbour *who = neighbour_at(node, i);
        if (who && who->seen)
            node->device->unsee(node->device->owner, who->seen);
        if (who)
            who->seen = NULL;
    }
}
