/*
 * The caller waits: it takes the loop, turns it until a condition holds, above
 * all until weights are there, and gives it back.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <assert.h>
#include <stdlib.h>

struct gw_client_waits {
    struct gw_client_wait now;
};

enum gw_status gw_client_waits_open(struct gw_client *client)
{
    client->waits = calloc(1, sizeof *client->waits);
    return client->waits ? GW_OK : GW_ENOMEM;
}

void gw_client_waits_close(struct gw_client *client)
{
    free(client->waits);
}

struct gw_client_wait gw_client_waits_for(const struct gw_client *client)
{
    return client->waits->now;
}

void gw_client_begin_wait(struct gw_client *client,
                          const struct gw_client_wait *wait)
{
    gw_loop_enter(client->loop);
    client->waits->now = *wait;
    client->progress_us = gw_loop_now(client->loop);
}

void gw_client_end_wait(struct gw_client *client)
{
    client->waits->now.reason = GW_WAITING_UNWATCHED;
    gw_loop_leave(client->loop);
}

/* ---- for a condition ---- */

struct condition {
    const struct gw_client *client;
    int (*done)(const struct gw_client *client);
};

static int is_met(void *owner)
{
    const struct condition *condition = owner;
    return gw_client_is_over(condition->client) ||
           condition->done(condition->client);
}

enum gw_status gw_client_wait_for(struct gw_client *client,
                                  int (*done)(const struct gw_client *client),
                                  enum gw_client_waiting reason)
{
    struct condition condition = {client, done};
    gw_client_begin_wait(client, &(struct gw_client_wait){.reason = reason});
    gw_loop_await(client->loop, is_met, &condition);
    gw_client_end_wait(client);
    return gw_client_is_over(client) ? client->error.status : GW_OK;
}

/* ---- for weights ---- */

/*
 * Single pushes: at this clock all ranks stand still, to score the test set or
 * for good, or clocks get new numbers, and wanted weights may never come. A
 * rank that is late may be called before it has taken up per-push policies, and
 * to a clock further on.
 */
static int is_called(const struct gw_client *client, uint64_t version)
{
    return gw_client_renews(client) || gw_client_called(client) > version ||
           (gw_client_ends_standing(client) &&
            gw_client_end_clock(client) <= version);
}

/* Weights of that version that are not here do not come, or not before ranks
   have stood still. An end that rank 0 asked for may be before the version: it
   never comes then. */
static int comes_not(const struct gw_client *client, uint64_t version)
{
    return gw_client_is_over(client) || is_called(client, version) ||
           gw_client_end_clock(client) < version;
}

struct arrival {
    const struct gw_client *client;
    uint64_t version;
    uint32_t next, end; /* all chunks before `next` are there */
};

/* Goes on from the first chunk that was missing at the last look. */
static int has_arrived(void *owner)
{
    struct arrival *arrival = owner;
    const struct gw_client *client = arrival->client;
    arrival->next = gw_client_next_missing(client, arrival->next, arrival->end,
                                           arrival->version);
    return comes_not(client, arrival->version) ||
           (arrival->next == arrival->end && gw_client_has_decisions(client));
}

static int has_weights(const struct gw_client *client,
                       size_t first,
                       size_t n,
                       uint64_t version)
{
    return gw_client_first_missing(client, first, n, version) ==
               GW_CHUNK_NONE &&
           gw_client_has_decisions(client);
}

/* Waits for chunks of keys [first, first + n), which a report of a long wait
   names. */
static enum gw_status
await(struct gw_client *client, struct arrival *arrival, size_t first, size_t n)
{
    uint64_t before = gw_loop_now(client->loop);
    const struct gw_client_wait wait = {.reason = GW_WAITING_WEIGHTS,
                                        .first = first,
                                        .n = n,
                                        .version = arrival->version};
    gw_client_begin_wait(client, &wait);
    gw_loop_await(client->loop, has_arrived, arrival);
    gw_client_end_wait(client);
    gw_metrics_add(client->metrics, GW_METRIC_WAIT_US,
                   gw_loop_now(client->loop) - before);
    return gw_client_is_over(client) ? client->error.status : GW_OK;
}

/* Also for weights of the end. */
static enum gw_status
wait_last(struct gw_client *client, size_t first, size_t n, uint64_t version)
{
    struct arrival arrival = {.client = client,
                              .version = version,
                              .next = client->map->key_chunk[first],
                              .end = client->map->key_chunk[first + n]};
    if (gw_client_is_over(client))
        return client->error.status;
    if (has_weights(client, first, n, version))
        return GW_OK;
    return await(client, &arrival, first, n);
}

/* The reason why a step at that clock does not go on, else GW_OK. */
static enum gw_status judge(const struct gw_client *client, uint64_t version)
{
    /* in this order: an end that is known is one behind that switch */
    int ends = gw_client_end_clock(client) <= version;
    if (gw_client_renews(client))
        return GW_EAGAIN;
    if (ends)
        return GW_EEND;
    return gw_client_called(client) > version ? GW_EAGAIN : GW_OK;
}

int gw_client_has(const struct gw_client *client,
                  size_t first,
                  size_t n,
                  uint64_t version)
{
    return !gw_client_is_over(client) &&
           has_weights(client, first, n, version) &&
           judge(client, version) == GW_OK;
}

enum gw_status gw_client_wait(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t version)
{
    enum gw_status status = wait_last(client, first, n, version);
    return status == GW_OK ? judge(client, version) : status;
}

/* Every map gives its first chunk to shard 0. */
enum gw_status gw_client_wait_leader(struct gw_client *client, uint64_t version)
{
    struct arrival arrival = {.client = client, .version = version, .end = 1};
    assert(client->map->chunk[0].shard == 0);
    if (gw_client_is_over(client))
        return client->error.status;
    enum gw_status status =
        has_arrived(&arrival) ? GW_OK : await(client, &arrival, 0, 1);
    return status == GW_OK ? judge(client, version) : status;
}

/* ---- for the outcome of a push ---- */

int gw_client_has_made(const struct gw_client *client,
                       size_t first,
                       size_t n,
                       uint64_t version)
{
    return comes_not(client, version) || has_weights(client, first, n, version);
}

enum gw_status gw_client_wait_made(struct gw_client *client,
                                   size_t first,
                                   size_t n,
                                   uint64_t version)
{
    enum gw_status status = wait_last(client, first, n, version);
    if (status != GW_OK || has_weights(client, first, n, version))
        return status;
    return judge(client, version);
}

/* ---- for the end ---- */

static int has_end(const struct gw_client *client)
{
    return gw_client_renews(client) || gw_client_called(client) ||
           gw_client_end_clock(client) != UINT64_MAX;
}

enum gw_status gw_client_await_end(struct gw_client *client, uint64_t clock)
{
    struct condition condition = {client, has_end};
    const struct gw_client_wait wait = {
        .reason = GW_WAITING_WEIGHTS, .n = client->map->keys, .version = clock};
    gw_client_begin_wait(client, &wait); /* which is told if it is long */
    gw_loop_await(client->loop, is_met, &condition);
    gw_client_end_wait(client);
    return gw_client_is_over(client) ? client->error.status
                                     : judge(client, clock);
}

/* ---- for all weights as they are ---- */

enum gw_status gw_client_pull(struct gw_client *client)
{
    gw_loop_enter(client->loop);
    gw_client_pull_all(client, gw_client_leave_standstill(client));
    gw_loop_leave(client->loop);
    gw_client_set_pulled(client, 1);
    return gw_client_wait_for(client, gw_client_has_pulled, GW_WAITING_PULL);
}

/* Weights of a clock that goes on behind a pull, or has a new number. */
static void ask_again(struct gw_client *client, uint64_t clock)
{
    gw_client_forget(client);
    gw_client_want_all(client, clock);
}

enum gw_status gw_client_go_on(struct gw_client *client, uint64_t clock)
{
    gw_loop_enter(client->loop);
    ask_again(client, clock);
    gw_loop_leave(client->loop);
    gw_client_set_pulled(client, 0);
    return gw_client_is_over(client) ? client->error.status : GW_OK;
}

int gw_client_switch(struct gw_client *client, uint64_t *clock_p)
{
    enum gw_client_taken taken;
    int any = 0;
    if (!gw_client_has_next_policy(client))
        return 0; /* as nearly always: the loop is left alone */
    gw_loop_enter(client->loop);
    do {
        taken = gw_client_take_policy(client, clock_p);
        if (taken == GW_SWITCH_RENUMBERED)
            ask_again(client, *clock_p);
        any |= taken != GW_SWITCH_NONE;
    } while (taken != GW_SWITCH_NONE);
    gw_loop_leave(client->loop);
    return any;
}

/* All ranks are at the last clock, which a decision tells, so the standstill
   has a name, as where per-push policies stand still. */
static void meet_at_end(struct gw_client *client, uint64_t clock)
{
    gw_loop_enter(client->loop);
    gw_client_meet_at_end(client, clock);
    gw_loop_leave(client->loop);
}

/* The weights that come are the job's last ones, unchanged: as bf16 they are
   rounded, and weights that devices give each other never come to the host,
   where rank 0 looks at all of them. */
static int come_whole(const struct gw_client *client)
{
    return gw_client_encoding(client) == GW_ENCODING_RAW &&
           (client->job->rank > 0 || !gw_client_pushes_sums(client) ||
            !gw_host_group_is_on_device(client->group));
}

/* Devices have the same weights, and others copy them from ours. */
static enum gw_status pull_to_host(struct gw_client *client)
{
    enum gw_status status = gw_client_pull(client);
    gw_client_set_pulled(client, 0);
    return status;
}

/* Weights that came for a first step of per-push policies, where the job ends
   instead, may be this rank's alone (easgd). */
enum gw_status gw_client_wait_end(struct gw_client *client)
{
    uint64_t clock = gw_client_end_clock(client);
    if (!gw_client_ends_standing(client)) {
        enum gw_status status = wait_last(client, 0, client->map->keys, clock);
        int stands = gw_client_is_per_push(client) || gw_client_called(client);
        if (status != GW_OK || (!stands && come_whole(client)))
            return status;
        if (!stands)
            meet_at_end(client, clock);
        if (!stands && gw_client_encoding(client) == GW_ENCODING_RAW)
            return pull_to_host(client);
    }
    return gw_client_pull(client);
}
