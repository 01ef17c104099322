/*
 * Members: this process among the others. A member listens and dials; a peer is
 * another process, known by its role and incarnation, over one or more links
 * that may break and come back without the peer being gone. Heartbeats keep
 * silence short; only silence means death.
 *
 *   links     opened by the dialling side, again and again, each time with a
 *             higher generation; the accepting side closes the older one first
 *   messages  control messages, reliable and in order across broken links
 *   frames    everything else, as reliable as one link: after link_up the owner
 *             resends unacknowledged ones
 *   windows   belong to the peer, so they outlive a link
 *
 * Everything runs on the loop's thread.
 */
#ifndef GW_TRANSPORT_MEMBER_H
#define GW_TRANSPORT_MEMBER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/control.h"
#include "proto/login.h"
#include "transport/link/transport.h"
#include "transport/member/channel.h"

#define GW_HEARTBEAT_US   200000  /* at most */
#define GW_SILENCE_US     1000000 /* default, until gw_member_set_silence */
#define GW_PEER_NAME_MAX  96
#define GW_PEER_FAULT_MAX 128

struct gw_member;

/* A route to a peer: a transport, and the peer's address there. */
struct gw_peer_route {
    struct gw_transport *transport;
    char address[GW_ADDRESS_MAX];
};

/* One of the connections to a peer. */
struct gw_peer_link {
    struct gw_peer *peer;
    unsigned index;
    struct gw_link *link; /* NULL while the link is down */
    int was_up;           /* the owner was told that it is up */
    uint32_t generation;
    unsigned moves; /* number of changes of route: gw_peer_route_of */
    unsigned gone;  /* routes in a row that failed for good */
    struct gw_timer redial;
    uint64_t redial_us;
    struct gw_send heartbeat;
    int heartbeat_queued;
};

/* Another process. Fields are for reading; `owner`, `id`, `name` and `taken`
   are for the owner to set. */
struct gw_peer {
    struct gw_windows windows;
    /* fields that every frame uses, next to the windows that it goes to */
    struct gw_member *member;
    void *owner;
    /* Called when it has acknowledged messages: there is room for more. It may
       close the peer. Never NULL. */
    void (*taken)(struct gw_peer *peer);
    uint8_t role;
    uint32_t id; /* rank of a worker, number of a shard */
    uint64_t incarnation;
    uint64_t heard_us; /* anything, on any link */
    unsigned links;
    struct gw_secret secret; /* shared by this pair, from gw_peer_expect on */
    int has_secret;
    int local;                 /* all its links came through a local listener */
    int silent;                /* its silence was reported to the owner */
    int renews;                /* gw_peer_may_renew */
    struct gw_peer_link *link; /* [links] */
    char fault[GW_PEER_FAULT_MAX]; /* its last fault against the protocol, ""
                                      after its next link */
    char name[GW_PEER_NAME_MAX];   /* "worker 3 (host)", for people */
    char address[GW_ADDRESSES_MAX];
    /* [routes], of a peer that we dial; best first */
    struct gw_peer_route *route;
    unsigned routes;
    /* private to the members */
    struct gw_peer *next, **back;
    struct gw_peer *same; /* next in its bucket of admitted peers */
    struct gw_channel channel;
    int opener, was_up, closed, rests;
    uint32_t clock;    /* as its heartbeats say */
    uint64_t since_us; /* opener: when dialling began */
    /* opener: time since which a link is down; 0: all are up */
    uint64_t stuck_us;
    struct gw_peer_dial *dial; /* its failed dials; NULL: none */
};

struct gw_member_handler {
    /*
     * A stranger logs in. GW_OK admits it (and may set peer->owner, id and
     * name); otherwise it is told `why`. If its secret is known it must first
     * prove it, gw_peer_admit.
     */
    enum gw_status (*admit)(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes);
    /* A link is up, for the first time or again. */
    void (*link_up)(void *owner, struct gw_peer *peer, unsigned link);
    /* A control message; it lasts for this call. */
    void (*message)(void *owner,
                    struct gw_peer *peer,
                    const struct gw_message *message);
    /* Any other frame; payload as in struct gw_link_handler. */
    void (*frame)(void *owner,
                  struct gw_peer *peer,
                  unsigned link,
                  const struct gw_frame *frame,
                  const void *payload);
    /* A link that was up broke. The peer is suspect, no more. GW_EPROTO: it was
       closed here, for a fault of the peer, and that has been logged. */
    void (*link_down)(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why);
    /*
     * GW_ETIMEOUT: nothing was heard for silence_us on any link. GW_EREFUSED,
     * GW_EVERSION: the other side refuses us. GW_EUNSUPPORTED: there is no
     * transport that both have. GW_EUNREACHABLE: dialled for join_us without
     * success. Called once until something is heard again.
     */
    void (*lost)(void *owner,
                 struct gw_peer *peer,
                 enum gw_status status,
                 const char *why);
    /*
     * For starves_us this process had no memory to answer logins or to dial,
     * with the last reason in `why`: others wait for it in vain. Called once;
     * NULL: it waits on.
     */
    void (*starves)(void *owner, const char *why);
    /*
     * A peer that we dial has been down for most of a second, over at least one
     * link: `text` tells people where it is dialled and how that failed,
     * "cannot reach server 0 (b) at 10.0.0.2:4000: Connection refused". Called
     * again when that changes, at most every few seconds. "": it is reached
     * again. Not called for a peer that answers "later".
     */
    void (*stuck)(void *owner, struct gw_peer *peer, const char *text);
};

/* For handlers that ignore it. */
void gw_member_stuck_unheard(void *owner,
                             struct gw_peer *peer,
                             const char *text);

#define GW_MEMBER_STARVES_US 5000000

struct gw_member_options {
    struct gw_loop *loop;
    const struct gw_transport_ops *transport; /* spoken by every member */
    /* Transports over which others dial us, best first, ended by NULL; NULL:
       `transport` alone. */
    const struct gw_transport_ops *const *data;
    struct gw_transport_config transport_config;
    /* interface from which the coordinator is dialled, "" or NULL: by routes;
       the interfaces of transport_config are for all other links */
    const char *control_interface;
    uint8_t role;
    uint32_t rank;                  /* or GW_RANK_NONE */
    uint64_t incarnation;           /* 0: random */
    const struct gw_secret *secret; /* NULL: random */
    uint64_t job;                   /* 0: not known yet */
    /* 0: the defaults */
    uint64_t heartbeat_us, silence_us, join_us, starves_us;
    int quiet; /* pauses of this process are logged by another of its members */
    const struct gw_member_handler *handler;
    void *owner;
};

/* GW_ENOMEM, or the status of the transport's open. The loop, the handler and
   its owner outlive the member. */
enum gw_status gw_member_open(const struct gw_member_options *options,
                              struct gw_member **member_p,
                              struct gw_error *error);

/* Closes every peer and listener. Not from within a handler's call. */
void gw_member_close(struct gw_member *member);

uint64_t gw_member_incarnation(const struct gw_member *member);

/*
 * Fills in the secrets of a Join: the member's own, with which it proves its
 * logins, and a proof of the job's secret, if that is not NULL. When a link to
 * the coordinator is up. GW_ENOMEM.
 */
enum gw_status gw_member_sign(const struct gw_member *member,
                              const struct gw_peer *coordinator,
                              const struct gw_secret *of_job,
                              struct gw_join *join);

/* The secret that it proves its logins with: for members of the same process
   that speak for it. */
const struct gw_secret *gw_member_secret(const struct gw_member *member);
uint64_t gw_member_job(const struct gw_member *member);
void gw_member_set_rank(struct gw_member *member, uint32_t rank);
void gw_member_set_epoch(struct gw_member *member, uint64_t epoch);
uint64_t gw_member_epoch(const struct gw_member *member);

/* Sets the step this member is in: heartbeats carry it. Thread: any. */
void gw_member_set_clock(struct gw_member *member, uint64_t clock);

uint64_t gw_member_clock(const struct gw_member *member);

/* Sets how long silence is tolerated, of peers and on each link, from now on. A
   short time makes heartbeats more frequent. */
void gw_member_set_silence(struct gw_member *member, uint64_t silence_us);
uint64_t gw_member_silence_us(const struct gw_member *member);

/*
 * A wait since *since_us does not count pauses of this process: moves *since_us
 * by those up to `now` since the last call, which *paused_us counts, at first
 * 0; never beyond `now`. A wait that began anew with each pause would never be
 * long on a busy host.
 */
void gw_member_excuse(const struct gw_member *member,
                      uint64_t now,
                      uint64_t *paused_us,
                      uint64_t *since_us);

/* Prefix for a line about a dead peer: "this process was paused for 1.5 s; ",
   if the pause was recent and long enough for others to have missed this
   process; else "". */
#define GW_PAUSED_BYTES 64
void gw_member_paused_words(const struct gw_member *member,
                            char words[GW_PAUSED_BYTES]);

/* The same as an answer. A connection that the other side closed says nothing
   of it then: it may have missed this process. */
int gw_member_was_paused(const struct gw_member *member);

/*
 * Listens until gw_member_close at an address, or at several, separated by
 * commas: interfaces over which links are spread. Several transports listen on
 * the same port of each address. A preferred transport that cannot listen there
 * is logged and left out, and so is an address where no transport can, unless
 * the port is taken. Errors: of the last transport's listen.
 */
enum gw_status gw_member_listen(struct gw_member *member,
                                const char *addresses,
                                struct gw_error *error);

/*
 * Writes the addresses at which it listened first, with the real ports, for
 * gw_member_dial of others: of each transport, best first. `host`, if it is not
 * "", replaces its own. "": it does not listen.
 */
void gw_member_advertise(const struct gw_member *member,
                         const char *host,
                         char text[GW_ADDRESSES_MAX]);

/* The same with its own host; lasts as long as the member. */
const char *gw_member_address(const struct gw_member *member);

/*
 * A peer that this side opens `links` links to, and keeps open. If its address
 * names several transports, each link takes the best that works, and the next
 * one when it breaks; if it names several addresses of a transport, the links
 * are spread over them, and try the other addresses before the next transport.
 * `expects`: its incarnation, or 0. Errors: GW_ENOMEM, GW_EINVAL (address).
 */
enum gw_status gw_member_dial(struct gw_member *member,
                              const char *address,
                              uint8_t role,
                              uint64_t expects,
                              unsigned links,
                              void *owner,
                              struct gw_peer **peer_p,
                              struct gw_error *error);

/*
 * From now on another process may take the place of a peer that we dial over
 * one link: link_up comes with its incarnation, and it knows nothing of what
 * the one before was told; messages that were on their way are forgotten. Else
 * such a peer is lost, GW_EREFUSED.
 */
void gw_peer_may_renew(struct gw_peer *peer);

/* Registers memory for sends and windows with all transports: see struct
   gw_transport_ops. */
void gw_member_register_memory(struct gw_member *member,
                               const struct gw_memory *memory);
void gw_member_deregister_memory(struct gw_member *member, void *base);

/*
 * Asks if one of the transports for tensors takes memory of that kind (struct
 * gw_transport_ops describes the owner's duties in either case).
 * GW_EUNSUPPORTED: none does; names the best, with its reason.
 */
enum gw_status gw_member_takes(const struct gw_member *member,
                               const struct gw_memory *memory,
                               char *why,
                               size_t why_bytes);

/*
 * The same for all links to a peer that are up now. A link that comes back may
 * take another route: ask again at link_up, before sending from the memory.
 * GW_EUNSUPPORTED names the first link's transport that does not.
 */
enum gw_status gw_peer_takes(const struct gw_peer *peer,
                             const struct gw_memory *memory,
                             char *why,
                             size_t why_bytes);

/*
 * From now on a login as this peer, which dials us, is refused unless it proves
 * that it has this secret of the pair (gw_secret_of_pair): incarnation and rank
 * alone are known to all members. gw_peer_admit does the same for a login that
 * is being judged: GW_EREFUSED, or GW_EAGAIN if there is no memory to check,
 * with the reason in words.
 */
void gw_peer_expect(struct gw_peer *peer, const struct gw_secret *pair);
enum gw_status gw_peer_admit(struct gw_peer *peer,
                             const struct gw_hello *hello,
                             const struct gw_secret *pair,
                             char *why,
                             size_t why_bytes);

/* All peers: first, then next until NULL. */
struct gw_peer *gw_member_peers(const struct gw_member *member);
struct gw_peer *gw_peer_next(const struct gw_peer *peer);

/* Nothing more will be sent to the peer, and it may exit before we do: a broken
   link is then neither logged nor dialled again. */
void gw_peer_rest(struct gw_peer *peer);

/* Closes the peer; `peer` is gone after the current callback. */
void gw_peer_close(struct gw_peer *peer);

/*
 * Sends a control message: reliable, in order. GW_EAGAIN: the peer does not
 * take them fast enough. GW_ENOMEM: no memory to keep it in until the peer has
 * it. Either way it is not sent, and later ones do not wait for it: reports
 * may be dropped, anything else is a reason to give the peer up. GW_ERANGE:
 * larger than a message may be. GW_ECLOSED: the peer is closed.
 */
enum gw_status gw_peer_tell(struct gw_peer *peer,
                            const struct gw_message *message);

/* Number of messages that the peer has not acknowledged yet. It does so at the
   latest after 8 messages, or with its next heartbeat. */
uint64_t gw_peer_untaken(const struct gw_peer *peer);

/* Non-zero when there is none. */
int gw_peer_flushed(const struct gw_peer *peer);

/* Software prefetch of a peer's send state for a link. Three dependent loads,
   so call it three iterations ahead, with times 3, 2, 1. Useful with many peers
   only. */
#define GW_PEER_PREFETCHES 3
void gw_peer_prefetch(const struct gw_peer *peer, unsigned link, int times);

/*
 * Sends a frame over one of the links; done(GW_ECLOSED) at once if that link is
 * down: the owner sends again at link_up.
 */
void gw_peer_send(struct gw_peer *peer, unsigned link, struct gw_send *send);

/* See export and import of struct gw_transport_ops: exports our own window to a
   peer, and imports one of the peer's. GW_ECLOSED: the link is down; the owner
   exports again at link_up. GW_EUNSUPPORTED: not over this transport. */
enum gw_status
gw_peer_export(struct gw_peer *peer, unsigned link, uint32_t window);
const void *gw_peer_import(const struct gw_peer *peer,
                           unsigned link,
                           uint32_t window,
                           size_t bytes);

/* Non-zero when link `link` is up. */
int gw_peer_is_up(const struct gw_peer *peer, unsigned link);

/* Non-zero if payloads do not leave this host's memory, so that they need no
   checksums. */
int gw_peer_is_within_host(const struct gw_peer *peer, unsigned link);

/* Microseconds since anything was heard from the peer. */
uint64_t gw_peer_silent_us(const struct gw_peer *peer);

/* The frames of a link cannot be trusted any more: closes it with a warning
   that names the peer; the opener will dial again. */
void gw_peer_reject(struct gw_peer *peer, unsigned link, const char *why);

/* The same for a kind of frame that the peer's role does not send. */
void gw_peer_reject_frame(struct gw_peer *peer,
                          unsigned link,
                          const struct gw_frame *frame);

/* Closes a link that is useless without blaming the peer; the opener will dial
   again. */
void gw_peer_cut(struct gw_peer *peer, unsigned link, const char *why);

#endif
