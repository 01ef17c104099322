/* Frames of workers: which of them is a push, and first weights. */
#include "config.h"

#include "server/push.h"
#include "server/server_state.h"

/* Rank 0's first weights; the job runs when the last chunk is here. `exported`:
   where they are, NULL: in its slot. */
static void got_seed(struct gw_server *server,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const struct gw_exported *exported)
{
    struct gw_shard *shard = server->shard;
    uint32_t index;
    if (peer->id != 0 || !gw_shard_find(server->shard, frame->chunk, &index) ||
        (exported ? !gw_push_is_plain(frame)
                  : !gw_push_fits_slot(server, frame, index,
                                       server->session[0].seeds))) {
        gw_peer_reject(peer, link, "seed that fits no chunk of this shard");
        return;
    }
    if (shard->chunk[index].ready)
        return; /* sent again after a broken connection */
    const float *from =
        exported ? gw_imports_find(server, peer, exported->window, index)
                 : shard->landing[0] + shard->chunk[index].first;
    if (!from)
        return;
    gw_shard_seed(shard, index, from);
    gw_copy_ready(server);
    gw_save_reached(server, index);
    gw_session_answer(server, index);
}

static void got_exported(struct gw_server *server,
                         struct gw_peer *peer,
                         unsigned link,
                         const struct gw_frame *frame,
                         const uint8_t *payload)
{
    struct gw_session *session = &server->session[peer->id];
    struct gw_exported exported;
    int fits = gw_exported_decode(payload, &exported) == GW_OK &&
               frame->chunk % peer->links == link;
    /* one window has all gradients of a worker, as long as it lives */
    if (fits && exported.kind == GW_FRAME_PUSH)
        fits = session->gradients == GW_WINDOW_NONE ||
               session->gradients == exported.window;
    if (!fits) {
        gw_peer_reject(peer, link, "shows what no shard reads");
    } else if (exported.kind == GW_FRAME_SEED) {
        got_seed(server, peer, link, frame, &exported);
    } else {
        session->gradients = exported.window;
        gw_session_push(server, peer, link, frame);
    }
}

void gw_session_frame(struct gw_server *server,
                      struct gw_peer *peer,
                      unsigned link,
                      const struct gw_frame *frame,
                      const void *payload)
{
    if (gw_server_is_over(server))
        return; /* who sent it will hear */
    if (peer->role != GW_ROLE_WORKER || !server->running) {
        gw_peer_reject(peer, link, "frame that its role does not send");
        return;
    }
    if (server->leader &&
        gw_session_decision(server, frame) > server->decision) {
        gw_peer_reject(peer, link, "frame of a decision that nobody has made");
        return;
    }
    switch (frame->kind) {
    case GW_FRAME_PUSH:
        gw_session_push(server, peer, link, frame);
        break;
    case GW_FRAME_EXPORTED:
        got_exported(server, peer, link, frame, payload);
        break;
    case GW_FRAME_PARTS:
        gw_sum_parts(server, peer, link, frame, payload);
        break;
    case GW_FRAME_TERMS:
        gw_terms_frame(server, peer, link, frame, payload);
        break;
    case GW_FRAME_WANT:
        gw_session_want(server, peer, link, frame, payload);
        break;
    case GW_FRAME_SEED:
        got_seed(server, peer, link, frame, NULL);
        break;
    default:
        gw_peer_reject(peer, link, "frame that its role does not send");
    }
}
