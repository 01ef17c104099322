/*
 * Sums on devices, and weights that they give each other. Work that waits for
 * the device is done on another thread.
 *
 *   all parts are there --> sums --> push
 *   weights arrive on the host --> puts --> they are ours, and are given:
 *       a frame without bytes, for the others' devices copy from this one
 */
#include "config.h"

#include "worker/client/client_host_group_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_MODEL_US 15000 /* links may break meanwhile */

/* Chunks that we own, of which a device makes something, on another thread. */
struct queue {
    struct gw_host_group *group;
    enum gw_status (*make)(struct gw_host_group *group,
                           uint32_t chunk,
                           struct gw_error *error);
    /* after some of them; NULL: each is made when it returns */
    enum gw_status (*flush)(struct gw_host_group *group,
                            struct gw_error *error);
    void (*made)(struct gw_host_group *group, uint32_t chunk);
    struct gw_work work;       /* of [0, working) of the list */
    uint32_t *list;            /* [2 * chunks that we own] */
    uint32_t working, waiting; /* counts in the list; waiting ones are last */
    struct gw_error failure;   /* of that work */
};

struct nvlink {
    struct queue sums, puts;
};

/* Works if each device has imported the arenas of all. */
static enum gw_status
probe_nvlink(struct gw_host_group *group, char *why, size_t why_bytes)
{
    if (!group->device) {
        snprintf(why, why_bytes, "no device shows what it has");
        return GW_EUNSUPPORTED;
    }
    for (uint32_t i = 0; i < group->ranks.n; i++) {
        const struct gw_group_peer *who = gw_host_group_at(group, i);
        if (!who || (who->imported.gradients && who->imported.weights))
            continue;
        snprintf(why, why_bytes, "%s: %s", who->peer->name,
                 who->why_not[0] ? who->why_not : "its device shows nothing");
        return GW_EUNSUPPORTED;
    }
    return GW_OK;
}

/* ---- what devices make of chunks ---- */

/* Nobody else touches its results for these chunks meanwhile. */
static void run_queue(struct gw_work *work)
{
    struct queue *queue = work->owner;
    enum gw_status status = GW_OK;
    for (uint32_t i = 0; i < queue->working && status == GW_OK; i++)
        status = queue->make(queue->group, queue->list[i], &queue->failure);
    if (status == GW_OK && queue->flush)
        status = queue->flush(queue->group, &queue->failure);
    queue->failure.status = status;
}

static void begin_queue(struct queue *queue);

static void done_queue(struct gw_work *work)
{
    struct queue *queue = work->owner;
    uint32_t made = queue->working;
    if (queue->failure.status != GW_OK) {
        gw_client_fail(queue->group->client, queue->failure.status, "%s",
                       queue->failure.text);
        return;
    }
    for (uint32_t i = 0; i < made; i++)
        queue->made(queue->group, queue->list[i]);
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
    gw_loop_work(queue->group->client->loop, &queue->work);
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
        gw_loop_cancel(queue->group->client->loop, &queue->work);
    queue->working = queue->waiting = 0;
}

/* ---- sums ---- */

static enum gw_status
sum_chunk(struct gw_host_group *group, uint32_t index, struct gw_error *error)
{
    const struct gw_chunk *place = &group->client->map->chunk[index];
    struct gw_sum_chunk *chunk = &group->chunk[index];
    const float *part[GW_GROUP_MAX];
    uint8_t nonfinite[GW_GROUP_MAX] = {0};
    uint32_t self = group->client->job->rank - group->ranks.first;
    for (uint32_t i = 0; i < group->ranks.n; i++)
        part[i] = gw_sum_part_is_empty(&chunk->part[i]) ? NULL
                  : i == self ? gw_client_gradients(group->client)
                              : gw_host_group_at(group, i)->imported.gradients;
    const struct gw_device_sum what = {
        .part = part,
        .n = group->ranks.n,
        .self = self,
        .first = place->arena_offset / sizeof(float),
        .elems = place->elems,
        .stays = gw_client_is_on_device(group->client, index),
    };
    enum gw_status status =
        group->device->sum(group->device->owner, &what, nonfinite, error);
    for (uint32_t i = 0; i < group->ranks.n; i++)
        if (nonfinite[i])
            chunk->part[i].gradient = GW_GRADIENT_NONFINITE;
    return status;
}

static void sum(struct gw_host_group *group, uint32_t index)
{
    struct nvlink *nvlink = group->reduction;
    struct gw_sum_chunk *chunk = &group->chunk[index];
    uint64_t pushed = group->client->chunk[index].pushed;
    if (chunk->summing == pushed || group->released)
        return;
    chunk->summing = pushed;
    gw_client_set_on_device(group->client, index,
                            gw_client_leaves_device(group->client, index));
    add_to_queue(&nvlink->sums, index);
}

/* ---- weights ---- */

/* All have pushed the chunk, so that nothing is queued any more, here or
   elsewhere, that reads the weights which these replace. */
static enum gw_status
put_chunk(struct gw_host_group *group, uint32_t index, struct gw_error *error)
{
    const struct gw_chunk *place = &group->client->map->chunk[index];
    (void)error; /* flush_puts has it */
    group->device->put(group->device->owner, gw_client_encoding(group->client),
                       place->arena_offset / sizeof(float), place->elems);
    return GW_OK;
}

static enum gw_status flush_puts(struct gw_host_group *group,
                                 struct gw_error *error)
{
    return group->device->flush(group->device->owner, error);
}

static void has_put(struct gw_host_group *group, uint32_t index)
{
    gw_client_put(group->client, &group->chunk[index].had,
                  group->device->weights);
}

/* Nothing is asked any more of the chunk, which therefore comes once. */
static void land(struct gw_host_group *group, uint32_t index)
{
    struct nvlink *nvlink = group->reduction;
    if (!group->released)
        add_to_queue(&nvlink->puts, index);
}

/* Nothing: its device copies them by itself. */
static void give(const struct gw_host_group *group,
                 uint32_t index,
                 const struct gw_group_peer *to,
                 struct gw_send *share)
{
    (void)group, (void)index, (void)to;
    share->frame.window = GW_WINDOW_NONE;
}

static const void *given(const struct gw_group_peer *from, uint32_t *window_p)
{
    *window_p = GW_WINDOW_NONE;
    return from->imported.weights;
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

static enum gw_status open_nvlink(struct gw_host_group *group, void **state_p)
{
    struct nvlink *nvlink = calloc(1, sizeof *nvlink);
    if (!nvlink)
        return GW_ENOMEM;
    nvlink->sums = (struct queue){
        .group = group, .make = sum_chunk, .made = gw_host_group_summed};
    nvlink->puts = (struct queue){.group = group,
                                  .make = put_chunk,
                                  .flush = flush_puts,
                                  .made = has_put};
    nvlink->sums.list = calloc(group->owned, 2 * sizeof *nvlink->sums.list);
    nvlink->puts.list = calloc(group->owned, 2 * sizeof *nvlink->puts.list);
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
