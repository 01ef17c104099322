/*
 * The states of a link between processes (tcp, shm, rdma), from its dial or its
 * accept to its end. The connection is a member of the link, and is in a list
 * of its transport, newest first:
 *
 *   opener    dial ... greet ... got_reply - go_up ... fail or drop
 *   acceptor  accept ............. (judge) - go_up ... fail or drop
 *
 * Until it is up a link has a deadline, and at most logins_max accepted links
 * are not logged in: when all places are taken the oldest stranger is dropped.
 * A link ends once, however often it is told to: with `down` to its owner, with
 * a log line for a stranger, which has no owner, or, if dropped, silently.
 *
 * The transport goes from an address to a socket or queue pair, moves the bytes
 * and owns the memory of links; it is called back through gw_connection_ops.
 * All on the loop's thread; nothing here allocates memory.
 */
#ifndef GW_TRANSPORT_CONNECTION_H
#define GW_TRANSPORT_CONNECTION_H

#include "transport/link/transport.h"

enum gw_connection_state {
    GW_CONNECTION_RESOLVING,  /* opener: resolving the name */
    GW_CONNECTION_CONNECTING, /* opener: connecting to an address */
    GW_CONNECTION_GREETING, /* opener: waits for the reply; acceptor: waits for
                               the hello */
    GW_CONNECTION_UP,
    GW_CONNECTION_CLOSED,
};

struct gw_connection_ops {
    /* The deadline has passed while connecting. 1: it goes on with another
       address, or has failed with a better reason than the caller's. */
    int (*goes_on)(struct gw_link *link);

    /*
     * The link is over, and out of the list. Takes it out of everything that
     * could still reach it, and gives back every send, the queue's last.
     */
    void (*detach)(struct gw_link *link);

    /* Its owner knows of its end: frees it, once nothing refers to it. */
    void (*release)(struct gw_link *link);
};

struct gw_connections;

struct gw_connection {
    struct gw_connections *of;
    struct gw_link *link;
    enum gw_connection_state state;
    struct gw_connection *next, **back;
    struct gw_listener *listener; /* acceptor's side only */
    struct gw_timer timer;        /* for the login; then the transport's */
    int owned;                    /* it has an owner, to be told of its end */
    int refused; /* a stranger that was told so: its end is not logged */
};

/* All connections of a transport. */
struct gw_connections {
    struct gw_transport *transport;
    const struct gw_connection_ops *ops;
    struct gw_connection *newest;
    unsigned strangers; /* accepted links that have not logged in */
    uint32_t logins_max;
    uint64_t login_us;
};

/* `config`: its limits of logins; may be NULL. */
void gw_connections_open(struct gw_connections *connections,
                         struct gw_transport *transport,
                         const struct gw_connection_ops *ops,
                         const struct gw_transport_config *config);

/* Drops every link that is left. */
void gw_connections_close(struct gw_connections *connections);

/* Enters a new, zeroed link into the list; then exactly one of dial and accept
   follows, which starts the deadline, unless it is dropped. */
void gw_connection_begin(struct gw_connection *connection,
                         struct gw_connections *of,
                         struct gw_link *link);
void gw_connection_dial(struct gw_connection *connection,
                        const char *address,
                        const struct gw_link_handler *handler,
                        void *owner,
                        struct gw_windows *windows);
/* If all places are taken the oldest stranger fails. */
void gw_connection_accept(struct gw_connection *connection,
                          struct gw_listener *listener);

/* Opener: connects, with a deadline of its own for each address. */
void gw_connection_connect(struct gw_connection *connection);

/* Opener: reads the answer to the hello. 0: the link has failed. 1: it has its
   session, and may go up. */
int gw_connection_got_reply(struct gw_connection *connection,
                            const uint8_t reply_bytes[GW_REPLY_BYTES],
                            struct gw_reply *reply);

/* Both: tells the owner, who may end the link within this call. `reply`: see
   up. */
void gw_connection_go_up(struct gw_connection *connection,
                         const struct gw_reply *reply);

/* Both end the link, unless it has ended; the transport has released it when
   they return. */
void gw_connection_fail(struct gw_connection *connection,
                        enum gw_status status,
                        const char *why);
void gw_connection_drop(struct gw_connection *connection);

#endif
