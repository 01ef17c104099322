/*
 * Where the caller waits: its calls take the loop, wait for a condition, above
 * all for weights, and give the loop back.
 */
#include "config.h"

#include "worker/client/client_state.h"

/*
 * Single pushes: at this clock all ranks stand still, to score the test set or
 * for good, or clocks are numbered anew, and what is wanted may never come. Who
 * is late may be called before it has taken up single pushes, and to a clock
 * further on.
 */
static int is_called(const struct gw_client *client)
{
    return atomic_load(&client->renews) ||
           atomic_load(&client->called) > client->waits_version ||
           (gw_client_ends_standing(client) &&
            atomic_load(&client->end_clock) <= client->waits_version);
}

struct wait {
    const struct gw_client *client;
    int (*done)(const struct gw_client *client);
    uint32_t chunk; /* all that is waited for before it is there */
};

/* Takes the loop until `has_ended`, which looks for failure too. */
static enum gw_status take_loop(struct gw_client *client,
                                int (*has_ended)(void *wait),
                                struct wait *wait,
                                enum gw_client_waiting waiting)
{
    gw_loop_enter(client->loop);
    client->waiting = waiting;
    client->progress_us = gw_loop_now(client->loop);
    gw_loop_await(client->loop, has_ended, wait);
    client->waiting = GW_WAITING_UNWATCHED;
    gw_loop_leave(client->loop);
    return atomic_load(&client->failed) ? client->error.status : GW_OK;
}

static int has_ended(void *owner)
{
    const struct wait *wait = owner;
    return atomic_load(&wait->client->failed) || wait->done(wait->client);
}

enum gw_status gw_client_wait_for(struct gw_client *client,
                                  int (*done)(const struct gw_client *client),
                                  enum gw_client_waiting waiting)
{
    struct wait wait = {.client = client, .done = done};
    return take_loop(client, has_ended, &wait, waiting);
}

/* ---- for weights ---- */

/* It goes on from the first chunk that was missing when it last looked. */
static int has_weights(void *owner)
{
    struct wait *wait = owner;
    const struct gw_client *client = wait->client;
    uint32_t end =
        client->map->key_chunk[client->waits_first + client->waits_n];
    wait->chunk =
        gw_client_next_missing(client, wait->chunk, end, client->waits_version);
    return atomic_load(&client->failed) || is_called(client) ||
           (wait->chunk == end && gw_client_has_decisions(client));
}

/* Also for weights of the end. */
static enum gw_status
wait_last(struct gw_client *client, size_t first, size_t n, uint64_t version)
{
    if (atomic_load(&client->failed))
        return client->error.status;
    if (gw_client_has(client, first, n, version))
        return GW_OK;
    uint64_t before = gw_loop_now(client->loop);
    client->waits_first = first;
    client->waits_n = n;
    client->waits_version = version;
    struct wait wait = {.client = client,
                        .chunk = client->map->key_chunk[first]};
    enum gw_status status =
        take_loop(client, has_weights, &wait, GW_WAITING_WEIGHTS);
    gw_metrics_add(client->metrics, GW_METRIC_WAIT_US,
                   gw_loop_now(client->loop) - before);
    return status;
}

enum gw_status gw_client_wait(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t version)
{
    enum gw_status status = wait_last(client, first, n, version);
    /* in this order: an end that is known is one behind that switch */
    int ends = atomic_load(&client->end_clock) <= version;
    if (status == GW_OK && atomic_load(&client->renews))
        return GW_EAGAIN;
    if (status == GW_OK && ends)
        return GW_EEND;
    if (status == GW_OK && atomic_load(&client->called) > version)
        return GW_EAGAIN;
    return status;
}

enum gw_status gw_client_pull(struct gw_client *client)
{
    gw_loop_enter(client->loop);
    client->scores = 0;
    atomic_store(&client->called, 0);
    gw_client_pull_all(client, client->meeting.name);
    gw_loop_leave(client->loop);
    client->pulled = 1;
    return gw_client_wait_for(client, gw_client_has_pulled, GW_WAITING_PULL);
}

/* All are at the last clock, of which a decision tells, so it has a number: as
   where single pushes stand still. */
static void meet_at_end(struct gw_client *client, uint64_t clock)
{
    gw_loop_enter(client->loop);
    client->meeting = (struct gw_client_meeting){
        .step = clock, .name = atomic_load(&client->decision)};
    gw_loop_leave(client->loop);
}

/* Whether weights as they come are those that the job is to end with: as bf16
   they are rounded, and what devices give each other never comes to the host,
   where rank 0 looks at all of them. */
static int come_whole(const struct gw_client *client)
{
    return gw_client_encoding(client) == GW_ENCODING_RAW &&
           (client->rank > 0 || !gw_client_pushes_sums(client) ||
            !gw_node_is_on_device(client->node));
}

/* Devices have the same, and others copy it from ours. */
static enum gw_status pull_beside(struct gw_client *client)
{
    enum gw_status status = gw_client_pull(client);
    client->pulled = 0;
    return status;
}

/* What came for a first step of single pushes, where the job ends instead, may
   be weights of this rank alone (easgd). */
enum gw_status gw_client_wait_end(struct gw_client *client)
{
    uint64_t clock = atomic_load(&client->end_clock);
    if (!gw_client_ends_standing(client)) {
        enum gw_status status = wait_last(client, 0, client->map->keys, clock);
        int stands = client->each || atomic_load(&client->called);
        if (status != GW_OK || (!stands && come_whole(client)))
            return status;
        if (!stands)
            meet_at_end(client, clock);
        if (!stands && gw_client_encoding(client) == GW_ENCODING_RAW)
            return pull_beside(client);
    }
    return gw_client_pull(client);
}

enum gw_status gw_client_go_on(struct gw_client *client, uint64_t clock)
{
    gw_loop_enter(client->loop);
    gw_client_forget(client);
    gw_client_want_all(client, clock, 0);
    gw_loop_leave(client->loop);
    client->pulled = 0;
    return atomic_load(&client->failed) ? client->error.status : GW_OK;
}

/* The others have gone on to single pushes, and stand still, or have done so:
   what is wanted may never come. */
static int is_elsewhere(const struct gw_client *client)
{
    return atomic_load(&client->called) || atomic_load(&client->renews);
}

enum gw_status gw_client_catch_up(struct gw_client *client, uint64_t *clock_p)
{
    uint64_t even = *clock_p, before = gw_loop_now(client->loop);
    unsigned rounds = 0;
    if (!client->may_jump)
        return GW_OK;
    gw_loop_enter(client->loop);
    client->waits_first = 0;
    client->waits_n = client->map->keys;
    client->waits_version = *clock_p;
    client->waiting = GW_WAITING_WEIGHTS;
    client->progress_us = before;
    while (!atomic_load(&client->failed) && !is_elsewhere(client) &&
           !gw_client_is_even(client, *clock_p, &rounds, &even))
        gw_loop_turn(client->loop);
    int renews = atomic_load(&client->renews);
    uint64_t called = atomic_load(&client->called);
    client->waiting = GW_WAITING_UNWATCHED;
    gw_loop_leave(client->loop);
    gw_metrics_add(client->metrics, GW_METRIC_WAIT_US,
                   gw_loop_now(client->loop) - before);
    if (atomic_load(&client->failed))
        return client->error.status;
    if (renews)
        return GW_OK; /* gw_client_switch */
    *clock_p = called ? called - 1 : even;
    return atomic_load(&client->end_clock) <= *clock_p ? GW_EEND : GW_OK;
}
