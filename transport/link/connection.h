/*
 * The life of a link between processes (tcp, shm, rdma), from its dial or its
 * accept to its end. A link's life is a part of it, and stands in a list of its
 * transport's, the newest first:
 *
 *   opener    dial ... greet ... got_reply - go_up ... fail or drop
 *   acceptor  accept ............. (judge) - go_up ... fail or drop
 *
 * Until it is up a link has a deadline, and those that were accepted are at
 * most logins_max: when all places are taken the oldest stranger makes room. A
 * link ends once, however many want it to: with `down` to its owner, with a
 * line about a stranger that has none, or, if dropped, without a word.
 *
 * The transport has the way from an address to a socket or queue pair, what
 * goes over it, and the memory of links: three calls (gw_connection_ops) tell
 * it what to do with that. All on the loop's thread; nothing here takes memory.
 */
#ifndef GW_TRANSPORT_CONNECTION_H
#define GW_TRANSPORT_CONNECTION_H

#include "transport/link/transport.h"

enum gw_connection_state {
    GW_CONNECTION_RESOLVING,  /* opener: looking the name up */
    GW_CONNECTION_CONNECTING, /* opener: on its way there */
    GW_CONNECTION_GREETING, /* opener: the reply is to come; acceptor: the hello
                             */
    GW_CONNECTION_UP,
    GW_CONNECTION_CLOSED,
};

struct gw_connection_ops {
    /* The deadline has passed while connecting: 1, if it goes on elsewhere, or
       has failed with more words than are known here. */
    int (*goes_on)(struct gw_link *link);

    /*
     * The link is over, and out of the list. Takes it out of everything else
     * that could still reach it, and gives back every send, the queue's last.
     */
    void (*detach)(struct gw_link *link);

    /* Its owner knows, and it may be freed: now, or when nothing holds it. */
    void (*release)(struct gw_link *link);
};

struct gw_connections;

struct gw_connection {
    struct gw_connections *of;
    struct gw_link *link;
    enum gw_connection_state state;
    struct gw_connection *next, **back;
    struct gw_listener *listener; /* acceptor's side only */
    struct gw_timer timer;        /* of the login; then the transport's */
    int owned;                    /* somebody is to be told of its end */
    int refused; /* a stranger that was told so: its end is no news */
};

/* A transport's. */
struct gw_connections {
    struct gw_transport *transport;
    const struct gw_connection_ops *ops;
    struct gw_connection *newest;
    unsigned strangers; /* accepted links that have not logged in */
    uint32_t logins_max;
    uint64_t login_us;
};

/* `config`: NULL, or what it says of logins. */
void gw_connections_open(struct gw_connections *connections,
                         struct gw_transport *transport,
                         const struct gw_connection_ops *ops,
                         const struct gw_transport_config *config);

/* Drops every link that is left. */
void gw_connections_close(struct gw_connections *connections);

/* Before a link is accepted: where all places are taken the oldest fails. */
void gw_connections_make_room(struct gw_connections *connections);

/* A new link, all zeros, stands in the list from now on; then exactly one of
   dial and accept, each of which starts the deadline, unless it is dropped. */
void gw_connection_begin(struct gw_connection *connection,
                         struct gw_connections *of,
                         struct gw_link *link);
void gw_connection_dial(struct gw_connection *connection,
                        const char *address,
                        const struct gw_link_handler *handler,
                        void *owner,
                        struct gw_windows *windows);
void gw_connection_accept(struct gw_connection *connection,
                          struct gw_listener *listener);

/* Opener: connects, with a deadline of its own for each address. */
void gw_connection_connect(struct gw_connection *connection);

/* Opener: takes the answer to the hello. 0: the link has failed. 1: it has its
   session, and may go up. */
int gw_connection_got_reply(struct gw_connection *connection,
                            const uint8_t reply_bytes[GW_REPLY_BYTES],
                            struct gw_reply *reply);

/* Both: tells the owner, who may end it within this call. `reply`: see up. */
void gw_connection_go_up(struct gw_connection *connection,
                         const struct gw_reply *reply);

/* Both end the link, unless that has been done, and the transport has released
   it when they return. */
void gw_connection_fail(struct gw_connection *connection,
                        enum gw_status status,
                        const char *why);
void gw_connection_drop(struct gw_connection *connection);

#endif
