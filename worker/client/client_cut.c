/*
 * Cuts at which this worker saves its part of a checkpoint: decided on the
 * loop's thread, taken by the caller at their clocks.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdlib.h>

#include "kernels/update/update.h"
#include "proto/policy.h"

/* A power of two; shard 0 has no more open at once. */
#define CUTS 4

/* A checkpoint: its step, and this rank's clock there. */
struct cut {
    uint64_t name, clock;
};

/* Checkpoints without this worker's part, oldest first. */
struct gw_client_cuts {
    struct cut cut[CUTS];
    _Atomic uint32_t in, out;
};

enum gw_status gw_client_cuts_open(struct gw_client *client)
{
    client->cuts = calloc(1, sizeof *client->cuts);
    return client->cuts ? GW_OK : GW_ENOMEM;
}

void gw_client_cuts_close(struct gw_client *client)
{
    free(client->cuts);
}

/* A checkpoint of this clock has a file of this worker if its own optimizer has
   a state, under a policy that may be about to begin. */
static int has_part(const struct gw_client *client, uint64_t clock)
{
    const struct gw_policy_word *word = gw_client_policy_at(client, clock);
    const struct gw_optimizer *optimizer = gw_optimizer_find(
        gw_config_policy_terms(&client->job->config, word).inner);
    return gw_policy_is_local(word->kind) && optimizer && optimizer->states > 0;
}

void gw_client_cut_decided(struct gw_client *client,
                           uint64_t clock,
                           uint64_t name)
{
    struct gw_client_cuts *cuts = client->cuts;
    uint32_t in = atomic_load(&cuts->in);
    if (!has_part(client, clock))
        return;
    if (in - atomic_load(&cuts->out) == CUTS) {
        gw_client_fail(client, GW_EPROTO, "too many cuts at once");
        return;
    }
    cuts->cut[in % CUTS] = (struct cut){name, clock};
    atomic_store(&cuts->in, in + 1);
}

int gw_client_cut(struct gw_client *client, uint64_t clock, uint64_t *name_p)
{
    struct gw_client_cuts *cuts = client->cuts;
    uint32_t out = atomic_load(&cuts->out);
    const struct cut *cut = &cuts->cut[out % CUTS];
    if (out == atomic_load(&cuts->in) || cut->clock != clock)
        return 0;
    *name_p = cut->name;
    atomic_store(&cuts->out, out + 1);
    return 1;
}
