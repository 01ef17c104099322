/*
 * Pushes that are the sum of a group (proto/groups.h). A chunk of a group comes
 * from its owner alone, with the parts that it is made of before it on the same
 * link: the owner's slot holds the sum, the others' nothing, and each
 * its own samples. The rest of the server sees as many pushes as without.
 */
#include "config.h"

#include "server/push.h"
#include "server/server_state.h"

#include <stdlib.h>

enum gw_status gw_sum_start(struct gw_server *server,
                            const struct gw_start *start,
                            struct gw_error *error)
{
    if (!gw_groups_are_valid(start->groups, start->groups_n, server->ranks))
        return gw_fail(error, GW_EPROTO,
                       "the start's groups are none of %u workers",
                       server->ranks);
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        server->session[rank].group =
            gw_group_of(start->groups, start->groups_n, rank);
    return GW_OK;
}

enum gw_status gw_sum_admit(struct gw_server *server, struct gw_peer *peer)
{
    struct gw_session *session = &server->session[peer->id];
    size_t chunks = server->shard->chunks;
    if (session->group.n == 1 || session->parts.part)
        return GW_OK;
    if (!session->parts.clock)
        session->parts.clock = calloc(chunks + 1, sizeof *session->parts.clock);
    if (session->parts.clock)
        session->parts.part =
            calloc(chunks * session->group.n + 1, sizeof *session->parts.part);
    return session->parts.part ? GW_OK : GW_ENOMEM;
}

void gw_sum_close(struct gw_server *server)
{
    for (uint32_t rank = 0; rank < server->ranks && server->session; rank++) {
        free(server->session[rank].parts.clock);
        free(server->session[rank].parts.part);
    }
}

void gw_sum_parts(struct gw_server *server,
                  struct gw_peer *peer,
                  unsigned link,
                  const struct gw_frame *frame,
                  const uint8_t *payload)
{
    struct gw_session *session = &server->session[peer->id];
    const struct gw_group group = session->group;
    uint32_t index;
    if (!gw_shard_find(server->shard, frame->chunk, &index) ||
        !session->parts.part ||
        gw_group_owner(group, frame->chunk) != peer->id ||
        gw_parts_decode(payload, frame->length, group.first, group.n,
                        session->parts.part + (size_t)index * group.n) !=
            GW_OK) {
        gw_peer_reject(peer, link, "parts of no sum that is its to push");
        return;
    }
    session->parts.clock[index] = frame->clock + 1;
}

const struct gw_part *gw_sum_of(const struct gw_server *server,
                                const struct gw_push *push)
{
    const struct gw_session *session = &server->session[push->rank];
    const struct gw_parts *parts = &session->parts;
    uint64_t samples = 0, counted = 0;
    if (!parts->part || parts->clock[push->chunk] != push->clock + 1 ||
        !server->regime.lockstep)
        return NULL;
    const struct gw_part *row =
        parts->part + (size_t)push->chunk * session->group.n;
    for (uint32_t i = 0; i < session->group.n; i++) {
        samples += row[i].samples;
        if (row[i].gradient != GW_GRADIENT_UNCOUNTED)
            counted += row[i].samples;
    }
    return samples == push->samples && (push->absent || counted > 0) ? row
                                                                     : NULL;
}
