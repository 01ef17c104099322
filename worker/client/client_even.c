/*
 * One version of all chunks, where others do not wait for us (backup:B): shards
 * are asked for what is newer until all have answered with the same.
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
   for what was asked for already. Returns 0 if there is none. */
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
 * Whether all chunks have one version, at least `version`; asks for what is
 * missing. Shards that others do not let stand still may answer with different
 * versions. Then the lower ones are asked for again and, if a version has gone
 * by meanwhile, all of them, so that every shard is asked at the same time.
 */
int gw_client_is_even(struct gw_client *client,
                      uint64_t version,
                      unsigned *rounds,
                      uint64_t *even_p)
{
    /* what the caller has pushed goes first */
    if (atomic_load(&client->runs_out) != atomic_load(&client->runs_in))
        return 0;
    if (want_newer(client, version, 0))
        return 0;
    struct versions all = versions_of(client, 0, (uint32_t)client->map->chunks);
    if (all.wanted ||
        atomic_load(&client->decision) < atomic_load(&client->decision_needed))
        return 0;
    if (all.low < all.high) {
        want_newer(client, all.high - 1, (*rounds)++ > 0);
        return 0;
    }
    *even_p = all.low - 1;
    return 1;
}
