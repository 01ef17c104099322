/*
 * Tables of (senders, kind, handler) for the control messages that an actor
 * takes: the coordinator, a server, a client. A message without a row breaks
 * the protocol, and the actor closes its sender's link. Pure; any thread.
 *
 *   static const struct gw_message_handler handlers[] = {
 *       {GW_FROM_COORDINATOR, GW_MESSAGE_VIEW, got_view},
 *       {GW_FROM_LEADER, GW_MESSAGE_DECISION, got_decision},
 *   };
 */
#ifndef GW_PROTO_DISPATCH_H
#define GW_PROTO_DISPATCH_H

#include <stddef.h>

#include "proto/control.h"

struct gw_peer; /* transport/member/member.h */

/*
 * Senders, as bits; the actor maps a peer to them. Shard 0 has two: SHARD and
 * LEADER. The role of a login is not enough: the coordinator is the peer that
 * the actor dialled, and a worker or server that has not joined is a stranger.
 */
enum gw_sender {
    GW_FROM_STRANGER = 1 << 0,
    GW_FROM_OBSERVER = 1 << 1,
    GW_FROM_COORDINATOR = 1 << 2,
    GW_FROM_WORKER = 1 << 3,
    GW_FROM_SHARD = 1 << 4,
    GW_FROM_LEADER = 1 << 5,
};
#define GW_FROM_MEMBER (GW_FROM_WORKER | GW_FROM_SHARD)

/*
 * The message lasts for this call. A handler that cannot use it in this state
 * (there is no open request for it) rejects the peer itself.
 */
typedef void gw_message_handle_fn(void *actor,
                                  struct gw_peer *peer,
                                  const struct gw_message *message);

struct gw_message_handler {
    unsigned senders; /* any of these bits */
    enum gw_message_kind kind;
    gw_message_handle_fn *handle; /* never NULL */
};

/* The reason to give to gw_peer_reject for a message without a handler. */
#define GW_MESSAGE_UNEXPECTED "message that its role does not send"

/*
 * Calls the first handler for the kind and any of the sender's bits. 0: there
 * is none, and nothing was called. A server keeps the messages that only shard
 * 0 takes in a second table, and asks it only where it is shard 0.
 */
int gw_message_dispatch(const struct gw_message_handler *handlers,
                        size_t n,
                        unsigned sender,
                        void *actor,
                        struct gw_peer *peer,
                        const struct gw_message *message);

#endif
