/*
 * Terms of this rank on their way to the shards: each time that some change, a
 * frame with all of them goes over every connection before the first push of
 * that clock, ahead of queued frames. A connection that comes again begins with
 * those that pushes without an answer need, and the newest. Memory is allocated
 * when terms change, not for pushes.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdlib.h>

#include "proto/terms.h"

struct set;

/* A frame on its way over one connection. */
struct leaving {
    struct gw_send send;
    struct set *set;
    uint8_t sending;
};

/* All terms as they are from a clock on. */
struct set {
    struct set *next; /* the newer one */
    uint64_t clock;
    uint8_t *payload;
    uint32_t bytes;
    uint32_t sending; /* connections */
    int unlinked;     /* freed when the last frame has left */
    struct leaving leaving[];
};

/* Sets that may be needed, oldest first; the loop's. */
struct gw_client_terms {
    struct set *first;
};

/* ---- opening and closing ---- */

enum gw_status gw_client_terms_open(struct gw_client *client)
{
    client->terms = calloc(1, sizeof *client->terms);
    return client->terms ? GW_OK : GW_ENOMEM;
}

static void free_set(struct set *set)
{
    free(set->payload);
    free(set);
}

static void unlink_first(struct gw_client_terms *terms)
{
    struct set *set = terms->first;
    terms->first = set->next;
    set->unlinked = 1;
    if (set->sending == 0)
        free_set(set);
}

/* Frames have been given back by then. */
void gw_client_terms_close(struct gw_client *client)
{
    while (client->terms && client->terms->first)
        unlink_first(client->terms);
    free(client->terms);
}

/* ---- a connection ---- */

static size_t connections_of(const struct gw_client *client)
{
    return (size_t)gw_client_shards(client) * gw_client_connections(client);
}

/* A connection that breaks gives its frames back before it comes again. */
static void on_sent(struct gw_send *send, enum gw_status status)
{
    struct leaving *leaving = (struct leaving *)(void *)send;
    struct set *set = leaving->set;
    (void)status;
    leaving->sending = 0;
    set->sending--;
    if (set->unlinked && set->sending == 0)
        free_set(set);
}

static void send_over(struct gw_client *client,
                      struct set *set,
                      uint32_t shard,
                      unsigned link)
{
    struct gw_peer *peer = gw_client_shard_peer(client, shard);
    struct leaving *leaving =
        &set->leaving[shard * gw_client_connections(client) + link];
    if (leaving->sending || !peer || !gw_peer_is_up(peer, link))
        return;
    leaving->set = set;
    leaving->sending = 1;
    set->sending++;
    leaving->send = (struct gw_send){
        .frame = {.kind = GW_FRAME_TERMS,
                  .clock = set->clock,
                  .chunk = GW_CHUNK_NONE,
                  .length = set->bytes,
                  .decision = (uint32_t)gw_client_decided(client)},
        .payload = set->payload,
        .priority = GW_CLIENT_PRIORITY - 1, /* before chunks that are queued */
        .done = on_sent,
    };
    gw_peer_send(peer, link, &leaving->send);
}

void gw_client_terms_link_up(struct gw_client *client,
                             uint32_t shard,
                             unsigned link)
{
    for (struct set *set = client->terms->first; set; set = set->next)
        send_over(client, set, shard, link);
}

/* ---- sets ---- */

/* The clock of the oldest push without an answer, or `clock`. */
static uint64_t oldest_push(const struct gw_client *client, uint64_t clock)
{
    for (uint32_t c = 0; c < client->map->chunks; c++) {
        uint64_t pushed = client->chunk[c].pushed;
        if (pushed > 0 && pushed - 1 < clock)
            clock = pushed - 1;
    }
    return clock;
}

static void add(struct gw_client *client, struct set *set)
{
    struct gw_client_terms *terms = client->terms;
    struct set **end = &terms->first;
    uint64_t oldest = oldest_push(client, set->clock);
    while (*end)
        end = &(*end)->next;
    *end = set;
    while (terms->first->next && terms->first->next->clock <= oldest)
        unlink_first(terms);
}

static struct set *make_set(const struct gw_client *client,
                            uint64_t clock,
                            const struct gw_group_terms *terms,
                            uint32_t n)
{
    struct set *set =
        calloc(1, sizeof *set + connections_of(client) * sizeof *set->leaving);
    uint8_t *payload = malloc((size_t)n * GW_TERMS_BYTES + 1);
    if (!set || !payload) {
        free(set);
        free(payload);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        gw_terms_encode(&terms[i], payload + (size_t)i * GW_TERMS_BYTES);
    set->clock = clock;
    set->payload = payload;
    set->bytes = n * GW_TERMS_BYTES;
    return set;
}

enum gw_status gw_client_set_terms(struct gw_client *client,
                                   uint64_t clock,
                                   const struct gw_group_terms *terms,
                                   uint32_t n)
{
    struct set *set = make_set(client, clock, terms, n);
    gw_loop_enter(client->loop);
    if (set)
        add(client, set);
    else
        gw_client_fail(client, GW_ENOMEM, "no memory for the terms of groups");
    for (uint32_t s = 0; set && s < gw_client_shards(client); s++)
        for (unsigned link = 0; link < gw_client_connections(client); link++)
            send_over(client, set, s, link);
    gw_loop_leave(client->loop);
    return gw_client_is_over(client) ? client->error.status : GW_OK;
}

/* Only the newest are needed; terms that are set at the clock itself are
   others. */
void gw_client_terms_renumber(struct gw_client *client, uint64_t clock)
{
    struct gw_client_terms *terms = client->terms;
    while (terms->first && terms->first->next)
        unlink_first(terms);
    if (terms->first)
        terms->first->clock = clock > 0 ? clock - 1 : 0;
}

int gw_client_sets_terms(const struct gw_client *client, uint64_t clock)
{
    const struct set *set = client->terms->first;
    while (set && set->clock != clock)
        set = set->next;
    return set != NULL;
}
