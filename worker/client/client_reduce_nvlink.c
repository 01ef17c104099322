/*
 * Sums on devices, and weights that they give each other. What has to wait for
 * the device is done on another thread.
 *
 *   all parts are there --> sums --> push
 *   weights arrive on the host --> puts --> they are ours, and are given:
 *       a frame without bytes, for the others' devices copy from this one
 */
#include "config.h"

#include "worker/client/client_node_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_MODEL_US 15000 /* links may break meanwhile */

/* Chunks that we own, of which a device makes something, on another thread. */
struct queue {
    struct gw_client_node *node;
    enum gw_status (*make)(struct gw_client_node *node,
                           uint32_t chunk,
                           struct gw_error *error);
    /* after some of them; NULL: each is made when it returns */
    enum gw_status (*settle)(struct gw_client_node *node,
                             struct gw_error *error);
    void (*made)(struct gw_client_node *node, uint32_t chunk);
    struct gw_work work;       /* of [0, working) of the list */
    uint32_t *list;            /* [2 * chunks that we own] */
    uint32_t working, waiting; /* of the list; waiting ones are last */
    struct gw_error failure;   /* of that work */
};

struct nvlink {
    struct queue sums, puts;
};

/* Where each device finds what all have. */
static enum gw_status
probe_nvlink(struct gw_client_node *node, char *why, size_t why_bytes)
{
    if (!node->device) {
        snprintf(why, why_bytes, "no device shows what it has");
        return GW_EUNSUPPORTED;
    }
    for (uint32_t i = 0; i < node->group.n; i++) {
        const struct gw_neighbour *who = gw_node_at(node, i);
        if (!who || (who->seen.gradients && who->seen.weights))
            continue;
        snprintf(why, why_bytes, "%s: %s", who->peer->name,
                 who->unseen[0] ? who->unseen : "its device shows nothing");
        return GW_EUNSUPPORTED;
    }
    return GW_OK;
}

/* ---- what devices make of chunks ---- */

/* Nobody else touches what it makes of these chunks meanwhile. */
static void run_queue(struct gw_work *work)
{
    struct queue *queue = work->owner;
    enum gw_status status = GW_OK;
    for (uint32_t i = 0; i < queue->working && status == GW_OK; i++)
        status = queue->make(queue->node, queue->list[i], &queue->failure);
    if (status == GW_OK && queue->settle)
        status = queue->settle(queue->node, &queue->failure);
    queue->failure.status = status;
}

static void begin_queue(struct queue *queue);

static void done_queue(struct gw_work *work)
{
    struct queue *queue = work->owner;
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

static void begin_queue(struct queue *queue)
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
static void add_to_queue(struct queue *queue, uint32_t index)
{
    queue->list[queue->working + queue->waiting++] = index;
    begin_queue(queue);
}

static void cancel_queue(struct queue *queue)
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
    uint32_t self = node->client->job->rank - node->group.first;
    for (uint32_t i = 0; i < node->group.n; i++)
        part[i] = chunk->part[i].samples == 0 ? NULL
                  : i == self ? gw_client_gradients(node->client)
                              : gw_node_at(node, i)->seen.gradients;
    const struct gw_device_sum what = {
        .part = part,
        .n = node->group.n,
        .self = self,
        .first = place->arena_offset / sizeof(float),
        .elems = place->elems,
        .stays = gw_client_is_on_device(node->client, index),
    };
    enum gw_status status =
        node->device->sum(node->device->owner, &what, bad, error);
    for (uint32_t i = 0; i < node->group.n; i++)
        chunk->part[i].bad = bad[i];
    return status;
}

static void sum(struct gw_client_node *node, uint32_t index)
{
    struct nvlink *nvlink = node->reduction;
    struct gw_sum_chunk *chunk = &node->chunk[index];
    uint64_t pushed = node->client->chunk[index].pushed;
    if (chunk->summing == pushed || node->let_go)
        return;
    chunk->summing = pushed;
    gw_client_set_on_device(node->client, index,
                            gw_client_leaves_device(node->client, index));
    add_to_queue(&nvlink->sums, index);
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
    gw_client_put(node->client, &node->chunk[index].had, node->device->weights);
}

/* Nothing is asked any more of the chunk, which therefore comes once. */
static void land(struct gw_client_node *node, uint32_t index)
{
    struct nvlink *nvlink = node->reduction;
    if (!node->let_go)
        add_to_queue(&nvlink->puts, index);
}

/* Nothing: its device copies them by itself. */
static void give(const struct gw_client_node *node,
                 uint32_t index,
                 const struct gw_neighbour *to,
                 struct gw_send *gift)
{
    (void)node, (void)index, (void)to;
    gift->frame.window = GW_WINDOW_NONE;
}

static const void *given(const struct gw_neighbour *from, uint32_t *window_p)
{
    *window_p = GW_WINDOW_NONE;
    return from->seen.weights;
}

/* ---- opening and closing ---- */

static void stop_nvlink(void *state)
{
    struct nvlink *nvlink = state;
    cancel_queue(&nvlink->sums);
    cancel_queue(&nvlink->puts);
}

static void close_nvlink(void *state)
{
    struct nvlink *nvlink = state;
    free(nvlink->sums.list);
    free(nvlink->puts.list);
    free(nvlink);
}

static enum gw_status open_nvlink(struct gw_client_node *node, void **state_p)
{
    struct nvlink *nvlink = calloc(1, sizeof *nvlink);
    if (!nvlink)
        return GW_ENOMEM;
    nvlink->sums =
        (struct queue){.node = node, .make = sum_chunk, .made = gw_node_summed};
    nvlink->puts = (struct queue){.node = node,
                                  .make = put_chunk,
                                  .settle = settle_puts,
                                  .made = has_put};
    nvlink->sums.list = calloc(node->owned, 2 * sizeof *nvlink->sums.list);
    nvlink->puts.list = calloc(node->owned, 2 * sizeof *nvlink->puts.list);
    if (!nvlink->sums.list || !nvlink->puts.list) {
        close_nvlink(nvlink);
        return GW_ENOMEM;
    }
    *state_p = nvlink;
    return GW_OK;
}

const struct gw_reduction_ops gw_reduction_nvlink = {
    .name = "nvlink",
    .where = "on the devices, which give each other the weights",
    .verdict = GW_SIGHT_SEES,
    .on_device = 1,
    .probe = probe_nvlink,
    .open = open_nvlink,
    .stop = stop_nvlink,
    .close = close_nvlink,
    .sum = sum,
    .land = land,
    .give = give,
    .given = given,
};
