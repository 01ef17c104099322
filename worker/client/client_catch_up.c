/*
 * One version of all chunks, for a worker that others do not wait for
 * (backup:B): shards are asked for newer weights until all have answered with
 * the same version.
 */
#include "config.h"

#include "worker/client/client_state.h"

/* Versions, + 1, that the chunks of a run have. */
struct versions {
    uint64_t low, high;
    int wanted; /* one of them is on its way */
};

static struct versions
versions_of(const struct gw_client *client, uint32_t first, uint32_t end)
{
    struct versions are = {.low = UINT64_MAX};
    for (uint32_t c = first; c < end; c++) {
        uint64_t have = atomic_load(&client->chunk[c].have);
        are.low = have < are.low ? have : are.low;
        are.high = have > are.high ? have : are.high;
        are.wanted |= client->chunk[c].want != 0;
    }
    return are;
}

/* Asks for the keys that have something older than `version`, or for all, but
   not for keys that were asked for already. Returns 0 if there is none. */
static int want_newer(struct gw_client *client, uint64_t version, int all)
{
    const struct gw_map *map = client->map;
    int asked = 0;
    for (size_t key = 0; key < map->keys; key++) {
        struct versions are =
            versions_of(client, map->key_chunk[key], map->key_chunk[key + 1]);
        if (are.wanted || (are.low > version && !all))
            continue;
        gw_client_want_key(client, key, version);
        asked = 1;
    }
    return asked;
}

/*
 * All chunks have one version, at least `version`; asks for missing ones.
 * Shards that others do not let stand still may answer with different versions.
 * Then the lower ones are asked for again and, if a version has gone by
 * meanwhile, all of them, so that every shard is asked at the same time.
 */
static int is_level(struct gw_client *client,
                    uint64_t version,
                    unsigned *rounds,
                    uint64_t *level_p)
{
    /* pushes of the caller go first */
    if (!gw_client_has_taken_pushes(client))
        return 0;
    if (want_newer(client, version, 0))
        return 0;
    struct versions all = versions_of(client, 0, (uint32_t)client->map->chunks);
    if (all.wanted || !gw_client_has_decisions(client))
        return 0;
    if (all.low < all.high) {
        want_newer(client, all.high - 1, (*rounds)++ > 0);
        return 0;
    }
    *level_p = all.low - 1;
    return 1;
}

/* The others have gone on to per-push policies, and stand still, or have done
   so: wanted weights may never come. */
static int is_elsewhere(const struct gw_client *client)
{
    return gw_client_called(client) || gw_client_renews(client);
}

enum gw_status gw_client_catch_up(struct gw_client *client, uint64_t *clock_p)
{
    uint64_t level = *clock_p, before = gw_loop_now(client->loop);
    unsigned rounds = 0;
    const struct gw_client_wait wait = {.reason = GW_WAITING_WEIGHTS,
                                        .n = client->map->keys,
                                        .version = *clock_p};
    if (!gw_client_may_jump(client))
        return GW_OK;
    gw_client_begin_wait(client, &wait);
    while (!gw_client_is_over(client) && !is_elsewhere(client) &&
           !is_level(client, *clock_p, &rounds, &level))
        gw_loop_turn(client->loop);
    int renews = gw_client_renews(client);
    uint64_t called = gw_client_called(client);
    gw_client_end_wait(client);
    gw_metrics_add(client->metrics, GW_METRIC_WAIT_US,
                   gw_loop_now(client->loop) - before);
    if (gw_client_is_over(client))
        return client->error.status;
    if (renews)
        return GW_OK; /* gw_client_switch */
    *clock_p = called ? called - 1 : level;
    return gw_client_end_clock(client) <= *clock_p ? GW_EEND : GW_OK;
}
