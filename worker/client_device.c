/*
 * Sums of what devices have, and weights that they give each other. Each worker
 * tells its neighbours by which words a device finds its gradients and weights,
 * looks for theirs, and tells whether it has found all; only if each has are
 * sums made on devices, or some would wait for what others leave there. What
 * has to wait for the device is done on another thread.
 *
 *   all parts are there --> sums --> push
 *   weights arrive on the host --> puts --> they are ours, and are given:
 *       a frame without bytes, for the others' devices copy from this one
 */
#include "config.h"

#include "worker/client_node_state.h"

#include <stdlib.h>
#include <string.h>

#define QUEUE_MODEL_US 15000 /* links may break meanwhile */

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
        message.sight.gradients = node->device->own_gradients;
        message.sight.weights = node->device->own_weights;
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
        all &= !who || (who->seen.gradients && who->seen.weights);
    }
    node->verdict = all ? GW_SIGHT_SEES : GW_SIGHT_BLIND;
    message.sight.verdict = node->verdict;
    for (uint32_t i = 0; i < node->group.n; i++)
        if (neighbour_at(node, i))
            gw_client_tell(node->client, neighbour_at(node, i)->peer, &message);
}

static const void *find(const struct gw_client_node *node,
                        const struct gw_neighbour *from,
                        const struct gw_sight_words *words)
{
    struct gw_error error;
    if (words->n != GW_SIGHT_WORDS_MAX || !node->device)
        return NULL;
    const void *arena =
        node->device->see(node->device->owner, words->byte, &error);
    if (!arena)
        gw_log_info(node->client->log, "%s: %s", from->peer->name, error.text);
    return arena;
}

static void look(struct gw_client_node *node,
                 struct gw_neighbour *from,
                 const struct gw_sight *sight)
{
    from->has_words = 1;
    from->seen.gradients = find(node, from, &sight->gradients);
    if (from->seen.gradients)
        from->seen.weights = find(node, from, &sight->weights);
    judge(node);
}

static void tell_paths(struct gw_client_node *node)
{
    for (uint32_t i = 0; i < node->group.n; i++) {
        const struct gw_neighbour *who = neighbour_at(node, i);
        const char *path =
            who ? node->device->path(node->device->owner, who->seen.gradients)
                : "";
        if (path[0])
            gw_log_info(node->client->log,
                        "between the GPU of %s and this one: %s",
                        who->peer->name, path);
    }
}

static void tell_where(struct gw_client_node *node)
{
    int on_device = gw_node_is_on_device(node);
    gw_log_info(node->client->log, "sums of %u workers are made on the %s",
                node->group.n,
                on_device ? "devices, which give each other the weights"
                          : "host");
    if (on_device)
        tell_paths(node);
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
        tell_where(node);
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

/* ---- what devices make of chunks ---- */

/* Nobody else touches what it makes of these chunks meanwhile. */
static void run_queue(struct gw_work *work)
{
    struct gw_node_queue *queue = work->owner;
    enum gw_status status = GW_OK;
    for (uint32_t i = 0; i < queue->working && status == GW_OK; i++)
        status = queue->make(queue->node, queue->list[i], &queue->failure);
    if (status == GW_OK && queue->settle)
        status = queue->settle(queue->node, &queue->failure);
    queue->failure.status = status;
}

static void begin_queue(struct gw_node_queue *queue);

static void done_queue(struct gw_work *work)
{
    struct gw_node_queue *queue = work->owner;
    uint32_t made = queue->working;
    if (queue->failure.status != GW_OK) {
        gw_client_fail_with(queue->node->client, &queue->failure);
        return;
    }
    for (uint32_t i = 0; i < made; i++)
        queue->made(queue->node, queue->list[i]);
    queue->working = 0;
    memmove(queue->list, queue->list + made,
            queue->waiting * sizeof *queue->list);
    begin_queue(queue);
}

static void begin_queue(struct gw_node_queue *queue)
{
    if (queue->working > 0 || queue->waiting == 0)
        return;
    queue->working = queue->waiting;
    queue->waiting = 0;
    queue->work = (struct gw_work){.run = run_queue,
                                   .done = done_queue,
                                   .owner = queue,
                                   .model_us = QUEUE_MODEL_US};
    gw_loop_work(queue->node->client->loop, &queue->work);
}

/* A chunk is in it once. */
static void add_to_queue(struct gw_node_queue *queue, uint32_t index)
{
    queue->list[queue->working + queue->waiting++] = index;
    begin_queue(queue);
}

static void cancel_queue(struct gw_node_queue *queue)
{
    if (queue->working > 0)
        gw_loop_cancel(queue->node->client->loop, &queue->work);
    queue->working = queue->waiting = 0;
}

/* ---- sums ---- */

static enum gw_status
sum_chunk(struct gw_client_node *node, uint32_t index, struct gw_error *error)
{
    const struct gw_chunk *place = &node->client->map->chunk[index];
    struct gw_sum_chunk *chunk = &node->chunk[index];
    const float *part[GW_GROUP_MAX];
    uint8_t bad[GW_GROUP_MAX] = {0};
    uint32_t self = node->client->rank - node->group.first;
    for (uint32_t i = 0; i < node->group.n; i++)
        part[i] = chunk->part[i].samples == 0 ? NULL
                  : i == self                 ? node->client->gradients
                              : neighbour_at(node, i)->seen.gradients;
    const struct gw_device_sum what = {
        .part = part,
        .n = node->group.n,
        .self = self,
        .first = place->arena_offset / sizeof(float),
        .elems = place->elems,
        .stays = node->client->chunk[index].stays,
    };
    enum gw_status status =
        node->device->sum(node->device->owner, &what, bad, error);
    for (uint32_t i = 0; i < node->group.n; i++)
        chunk->part[i].bad = bad[i];
    return status;
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
    add_to_queue(&node->sums, index);
}

/* ---- weights ---- */

/* All have pushed the chunk, so that nothing is queued any more, here or
   elsewhere, that reads the weights which these replace. */
static enum gw_status
put_chunk(struct gw_client_node *node, uint32_t index, struct gw_error *error)
{
    const struct gw_chunk *place = &node->client->map->chunk[index];
    (void)error; /* settle_puts has it */
    node->device->put(node->device->owner, gw_client_encoding(node->client),
                      place->arena_offset / sizeof(float), place->elems);
    return GW_OK;
}

static enum gw_status settle_puts(struct gw_client_node *node,
                                  struct gw_error *error)
{
    return node->device->settle(node->device->owner, error);
}

static void has_put(struct gw_client_node *node, uint32_t index)
{
    gw_client_put(node->client, &node->chunk[index].had);
}

/* Nothing is asked any more of the chunk, which therefore comes once. */
void gw_node_put(struct gw_client_node *node, const struct gw_frame *frame)
{
    if (node->let_go)
        return;
    node->chunk[frame->chunk].had = *frame;
    add_to_queue(&node->puts, frame->chunk);
}

/* ---- opening and closing ---- */

enum gw_status gw_node_device_open(struct gw_client_node *node, size_t owned)
{
    node->sums = (struct gw_node_queue){
        .node = node, .make = sum_chunk, .made = gw_node_summed};
    node->puts = (struct gw_node_queue){.node = node,
                                        .make = put_chunk,
                                        .settle = settle_puts,
                                        .made = has_put};
    node->sums.list = calloc(owned, 2 * sizeof *node->sums.list);
    node->puts.list = calloc(owned, 2 * sizeof *node->puts.list);
    return node->sums.list && node->puts.list ? GW_OK : GW_ENOMEM;
}

void gw_node_device_close(struct gw_client_node *node)
{
    free(node->sums.list);
    free(node->puts.list);
}

static void unsee(const struct gw_client_node *node, const void *arena)
{
    if (arena)
        node->device->unsee(node->device->owner, arena);
}

void gw_node_let_go(struct gw_client_node *node)
{
    if (!node || !node->device)
        return;
    node->let_go = 1; /* what is cancelled lets the loop run */
    cancel_queue(&node->sums);
    cancel_queue(&node->puts);
    for (uint32_t i = 0; i < node->group.n; i++) {
        struct gw_neighbour *who = neighbour_at(node, i);
        if (!who)
            continue;
        unsee(node, who->seen.gradients);
        unsee(node, who->seen.weights);
        who->seen = (struct gw_seen){NULL, NULL};
    }
}
