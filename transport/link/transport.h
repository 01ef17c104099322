/*
 * Transports carry frames and their payloads from one process to another. A
 * transport is an entry of gw_transports; tests/table runs the same cases on
 * each. It knows no gradient, no rank and no retry: it moves bytes, checks them
 * as far as it can, and reports.
 *
 *   listen + judge          dial(hello)
 *        |                       |
 *        +------- login ---------+         proto/login
 *        |                       |
 *      link  <== frames ==>    link        proto/wire
 *
 * The data plane is put with notification: a frame's payload goes straight into
 * a window (window.h) of the receiver, and the receiver's handler is called
 * when the bytes are there and their checksum has passed. Frames of one link
 * arrive in the order in which they were sent; links are independent of each
 * other.
 *
 * Everything here runs on the loop's thread.
 */
#ifndef GW_TRANSPORT_TRANSPORT_H
#define GW_TRANSPORT_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/log.h"
#include "proto/login.h"
#include "proto/status.h"
#include "proto/wire.h"
#include "transport/link/heap.h"
#include "transport/link/loop.h"
#include "transport/link/memory.h"
#include "transport/link/window.h"

/* "host:port", "[v6]:port" or "unix:path", or a list of them, with its end. */
#define GW_ADDRESS_MAX 192

/* A list of the addresses at which a member is reached. */
#define GW_ADDRESSES_MAX 512

struct gw_link;
struct gw_transport;

/*
 * One frame to be sent. Owned by the caller, who fills in everything above the
 * line; frame, payload and this struct stay as they are until `done`, which is
 * called exactly once: GW_OK when the bytes have left this process, GW_ECLOSED
 * when the link is gone (they may or may not have arrived).
 */
struct gw_send {
    struct gw_frame frame; /* session is the link's; payload_crc see below */
    const void *payload;   /* frame.length bytes */
    uint32_t priority;     /* smaller leaves earlier; then smaller chunk */
    int crc_known;         /* 0: the link computes frame.payload_crc */
    void (*done)(struct gw_send *send, enum gw_status status);
    void *owner;
    /* -------- the link's */
    struct gw_heap_node node;
    uint64_t rank, order; /* priority and chunk; order among equals */
    int queued;
};

/* Events of a link, delivered to its owner. */
struct gw_link_handler {
    /* Login is done. `reply` is NULL on the acceptor's side. */
    void (*up)(struct gw_link *link, const struct gw_reply *reply);
    /*
     * A frame. `payload` is frame->length bytes: in the window for a put, else
     * in a buffer of the link that lasts for this call only.
     */
    void (*frame)(struct gw_link *link,
                  const struct gw_frame *frame,
                  const void *payload);
    /*
     * The link failed, or its dial did: every queued send has been given back
     * and `link` is gone after this call. Not called for gw_link_close.
     * GW_EUNSUPPORTED: another link will fare no better.
     */
    void (*down)(struct gw_link *link, enum gw_status status, const char *why);
};

/* Decides on logins. */
struct gw_acceptor {
    /*
     * GW_OK: has set link->handler, link->owner, link->windows and may fill in
     * reply->epoch, job, incarnation. Otherwise the reply's reason is sent (if
     * it is not empty) and the link closed.
     */
    enum gw_status (*judge)(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply);
    /* A stranger could not be answered because this process lacks memory. May
       be NULL. */
    void (*starves)(struct gw_acceptor *acceptor, const char *why);
    void *owner;
};

/* The begin of every transport's link. */
struct gw_link {
    const struct gw_transport_ops *ops;
    struct gw_transport *transport;
    const struct gw_link_handler *handler;
    void *owner;
    struct gw_windows *windows; /* the peer's, owned by the handler's owner */
    uint32_t session;
    int up;
    int local; /* through a socket of the file system: by this user, or root */
    struct gw_heap queue;
    uint64_t queue_order;
    uint64_t heard_us; /* when bytes last came in */
    uint64_t sent_us;  /* when bytes last went out */
    char remote[GW_ADDRESS_MAX];
};

/* Connections that the kernel queues for a listener. */
#define GW_LISTEN_BACKLOG 1024

/* The begin of every transport's listener. */
struct gw_listener {
    struct gw_transport *transport;
    struct gw_acceptor *acceptor;
    struct gw_listener *next, **back; /* in a list of its transport */
    char address[GW_ADDRESS_MAX];
};

struct gw_transport_config {
    const char *interface; /* names or addresses to bind and dial from, or "" */
    const char *key;       /* name of the job key that set `interface`; NULL:
                              cluster.interface */
    const char *host;      /* sim: the simulated host */
    uint32_t logins_max;   /* links that have not logged in, 0: 64 */
    uint64_t login_us;     /* time for a login, 0: 5 s */
    int busy; /* shm, rdma: a thread polls all the time and never sleeps */
};

struct gw_transport_ops {
    const char *name;
    /* Its addresses are of one host, and name no interface; payloads do not
       leave that host's memory, and carry GW_FLAG_NO_CRC. */
    int within_host;

    /* GW_OK, or GW_EUNSUPPORTED with the reason in words. */
    enum gw_status (*probe)(char *why, size_t why_bytes);

    /* A host for processes of one machine to listen at and to dial, in brackets
       if it is IPv6. GW_EUNSUPPORTED: none. */
    enum gw_status (*meet)(char host[GW_ADDRESS_MAX], struct gw_error *error);

    /* Non-zero if an address can be dialled from here; 0: only other hosts can
       reach it, which is no failure. */
    int (*reaches)(const char *address);

    enum gw_status (*open)(struct gw_loop *loop,
                           const struct gw_transport_config *config,
                           struct gw_transport **transport_p,
                           struct gw_error *error);
    /* Closes the remaining listeners and links; frees the transport. */
    void (*close)(struct gw_transport *transport);

    /*
     * Listens on `address`: "host:port", port 0 for any. tcp: or "unix:path", a
     * file that is made for this user alone, replaces the socket of a dead
     * process, and is removed with the listener; any user who may write into
     * its directory can take it away, which is for the caller to judge.
     * GW_EADDRINUSE (names the address), GW_EINVAL (address), GW_EIO.
     */
    enum gw_status (*listen)(struct gw_transport *transport,
                             const char *address,
                             struct gw_acceptor *acceptor,
                             struct gw_listener **listener_p,
                             struct gw_error *error);
    void (*close_listener)(struct gw_listener *listener);
    /* The address to dial, with the real port; owned by the listener. */
    const char *(*listener_address)(const struct gw_listener *listener);

    /*
     * Begins to open a link; `up` or `down` follows, never from within this
     * call. Errors: GW_ENOMEM, GW_EINVAL (address).
     */
    enum gw_status (*dial)(struct gw_transport *transport,
                           const char *address,
                           const struct gw_hello *hello,
                           const struct gw_link_handler *handler,
                           void *owner,
                           struct gw_windows *windows,
                           struct gw_link **link_p,
                           struct gw_error *error);

    /* The queue is no longer empty. */
    void (*kick)(struct gw_link *link);

    /*
     * The loop's turn is long: tells the peer of a link that is up at once that
     * this process is alive, with the heartbeat `beat` or by other means of the
     * link. Calls no callback but beat->done. 0: `beat` was not taken.
     */
    int (*pulse)(struct gw_link *link, struct gw_send *beat);

    /* See gw_link_close. */
    void (*close_link)(struct gw_link *link);

    /*
     * Registers memory from which many payloads will be sent, or in which
     * windows lie, so that a device or another process is given access once and
     * not per payload; and ends that. Optional: payloads may be sent from, and
     * windows may lie in, any memory of this process. Registration lasts until
     * the transport's close at most; when it ends, no send from the memory is
     * queued, and no window is open in it. *memory is copied.
     */
    void (*register_memory)(struct gw_transport *transport,
                            const struct gw_memory *memory);
    void (*deregister_memory)(struct gw_transport *transport, void *base);

    /*
     * export lets the peer read a window of ours in place, besides the writes
     * that its kind allows. import returns a window of the peer, of so many
     * bytes, which the peer has exported before it sent the last frame that
     * came over this link. Both hold for one link and end with it. NULL: the
     * window is not exported, or this transport cannot export any. Imported
     * bytes change whenever the peer writes them.
     */
    enum gw_status (*export)(struct gw_link *link, uint32_t window);
    const void *(*import)(struct gw_link *link, uint32_t window, size_t bytes);

    /*
     * Asks, before the first window, if payloads may be sent from memory of
     * that kind, and windows may lie in it, without this process's code reading
     * or writing it. Host and shared memory: always. GW_EUNSUPPORTED, with the
     * reason in words: the owner keeps a mirror in host memory, pinned if its
     * device copies faster to and from pinned memory. It lends the mirror,
     * opens windows in it and sends from it; it copies to the mirror before it
     * sends, and from the mirror when a frame has come. GW_OK: the owner lends
     * the memory itself, with its kind and, for a GPU's, its dma-buf, before it
     * opens a window there or sends from it. It sends those payloads with
     * GW_FLAG_NO_CRC, and so does the peer for puts into the window, since no
     * process can compute a checksum of them; chunks of at most
     * GW_SMALL_PUT_MAX bytes go through a mirror all the same. A device may
     * find out later that it cannot: the link fails with GW_EAGAIN, because
     * another link on the same route works, and from then on the answer is
     * GW_EUNSUPPORTED. Only the kind of `memory` is used, and if it has a
     * descriptor.
     */
    enum gw_status (*takes)(struct gw_transport *transport,
                            const struct gw_memory *memory,
                            char *why,
                            size_t why_bytes);
};

/* Puts up to this size may be copied by the processes at both ends. */
#define GW_SMALL_PUT_MAX 1024

/* The begin of every transport's struct. */
struct gw_transport {
    const struct gw_transport_ops *ops;
    struct gw_loop *loop;
    struct gw_log_limit limit; /* for log lines that strangers provoke */
};

/* Every transport of this build in order of preference, ended by NULL. */
extern const struct gw_transport_ops *const gw_transports[];

/*
 * The transport called `name`, or the first that works here for "auto" (never
 * sim). NULL with a line in *error: GW_EUSAGE (no such name), GW_EUNSUPPORTED
 * (not here).
 */
const struct gw_transport_ops *gw_transport_find(const char *name,
                                                 struct gw_error *error);

#define GW_ROUTES_MAX 3

/* The transports of a member: to the coordinator, and for tensors. */
struct gw_routes {
    const struct gw_transport_ops *control;
    /* best first; ended by NULL */
    const struct gw_transport_ops *data[GW_ROUTES_MAX + 1];
    /* between workers of one host, which import windows; NULL: none */
    const struct gw_transport_ops *host_group;
};

/*
 * Chooses the routes of a job whose cluster.transport is `name`: every member
 * speaks tcp (or sim) with the coordinator; tensors go over the named
 * transport, or with "auto" over every transport that works here. `why`: the
 * choice, and the reason against each other transport. GW_EUNSUPPORTED: the
 * named transport does not work here.
 */
enum gw_status gw_routes_find(const char *name,
                              struct gw_routes *routes_p,
                              char *why,
                              size_t why_bytes,
                              struct gw_error *error);

/* The kind of memory for windows that peers reach over these transports, ended
   by NULL: shared memory if one of them is for processes of one host, which
   then write into the windows directly. */
enum gw_memory_kind
gw_routes_memory(const struct gw_transport_ops *const *data);

/* Queues a frame. On a link that is not up: done(GW_ECLOSED) at once. */
void gw_link_send(struct gw_link *link, struct gw_send *send);

/*
 * Closes a link without calling `down`; queued sends come back with
 * GW_ECLOSED before this returns, and `link` is gone. Allowed in callbacks.
 */
void gw_link_close(struct gw_link *link);

/* For transports: the first send in order, taken out; NULL when empty. */
struct gw_send *gw_link_next(struct gw_link *link);

/* For transports: the same one, left in the queue. */
struct gw_send *gw_link_first(const struct gw_link *link);

/*
 * For transports: room for a message of so many bytes, which are at most
 * GW_MESSAGE_BYTES_MAX, in a buffer that grows and is the caller's to free. Its
 * content stays. 0: no memory, and nothing has changed.
 */
int gw_message_room(uint8_t **message, size_t *room, size_t bytes);

/* For transports: computes the checksum of a send's payload, if it needs one
   and has none; gw_send_seal encodes the header as well. */
void gw_send_check(struct gw_send *send);
void gw_send_seal(struct gw_send *send, uint8_t header[GW_FRAME_BYTES]);

/* For transports: gives every queued send back with GW_ECLOSED. */
void gw_link_drop_queue(struct gw_link *link);

/*
 * For transports: judges a received header against the link: session and, for
 * puts, the window. GW_OK sets *place_p to where the payload goes (NULL for a
 * message). Otherwise the link must be closed with *why.
 */
enum gw_status gw_link_place(struct gw_link *link,
                             const struct gw_frame *frame,
                             void **place_p,
                             const char **why_p);

/* For transports between hosts: any address can be dialled. */
int gw_transport_reaches_all(const char *address);

/* For transports that cannot send within a turn. */
int gw_transport_pulses_nothing(struct gw_link *link, struct gw_send *beat);

/* For transports whose payloads the kernel copies: nothing to do. */
void gw_transport_registers_nothing(struct gw_transport *transport,
                                    const struct gw_memory *memory);
void gw_transport_deregisters_nothing(struct gw_transport *transport,
                                      void *base);

/* For transports between hosts: no memory is shared. */
enum gw_status gw_transport_exports_nothing(struct gw_link *link,
                                            uint32_t window);
const void *gw_transport_imports_nothing(struct gw_link *link,
                                         uint32_t window,
                                         size_t bytes);

/* For transports that move bytes by this process's code, or the kernel's. */
enum gw_status gw_transport_takes_host(struct gw_transport *transport,
                                       const struct gw_memory *memory,
                                       char *why,
                                       size_t why_bytes);

/* For transports: a list of listeners, newest first; a listener's address. */
void gw_listener_enter(struct gw_listener **list, struct gw_listener *listener);
void gw_listener_leave(struct gw_listener *listener);
const char *gw_listener_address(const struct gw_listener *listener);

/* For transports: a stranger was refused a link; logs a line, at a limited
   rate. */
void gw_transport_refused(struct gw_transport *transport,
                          const char *remote,
                          const char *why);

/*
 * For transports: reads the answer to a hello. GW_OK: the link is up, with
 * reply->session. Otherwise *why has the reason.
 */
enum gw_status gw_reply_judge(const uint8_t reply_bytes[GW_REPLY_BYTES],
                              struct gw_reply *reply,
                              char *why,
                              size_t why_bytes);

/*
 * For transports: answers a hello as the acceptor decides. Fills in the reply
 * and, if it is GW_OK, link->session.
 */
enum gw_status gw_link_judge(struct gw_link *link,
                             struct gw_acceptor *acceptor,
                             const uint8_t hello_bytes[GW_HELLO_BYTES],
                             struct gw_reply *reply);

/* For transports: a connection cannot be answered for want of memory. */
void gw_listener_starves(struct gw_listener *listener, const char *why);

/* For transports: a connection cannot be accepted for want of a descriptor,
   with the errno; logged at a limited rate. */
void gw_listener_lacks(struct gw_listener *listener, int number);

#endif
