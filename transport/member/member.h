/*
 * Members: this process among the others. A member listens and dials; a peer is
 * another process, known by its role and incarnation, over one or more links
 * that may break and come back without the peer being gone. Heartbeats keep
 * silence short; silence is the only thing that speaks of death.
 *
 *   links     opened by the dialling side, again and again, each time with a
 *             higher generation; the accepting side closes the older one first
 *   messages  control messages, reliable and in order whatever the links do
 *   frames    everything else, as reliable as one link: after link_up the owner
 *             sends again what is not acknowledged
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
#include "transport/member/channel.h"
#include "transport/link/transport.h"

#define GW_HEARTBEAT_US   200000  /* at most */
#define GW_SILENCE_US     1000000 /* until something else is said */
#define GW_PEER_NAME_MAX  96
#define GW_PEER_FAULT_MAX 128

struct gw_member;

/* A transport, and the peer's address there. */
struct gw_peer_way {
    struct gw_transport *transport;
    char address[GW_ADDRESS_MAX];
};

/* One of the connections to a peer. */
struct gw_peer_link {
    struct gw_peer *peer;
    unsigned index;
    struct gw_link *link; /* NULL while there is none */
    int was_up;           /* the owner was told that it is up */
    uint32_t generation;
    unsigned moves; /* from way to way: gw_peer_way_of */
    unsigned gone;  /* ways in a row that will not come back */
    struct gw_timer redial;
    uint64_t redial_us;
    struct gw_send heartbeat;
    int heartbeat_queued;
};

/* Another process. Fields are for reading; `owner`, `id`, `name` and `taken`
   are for the owner to set. */
struct gw_peer {
    struct gw_windows windows;
    /* what every frame looks at, behind the windows that it goes to */
    struct gw_member *member;
    void *owner;
    /* It has acknowledged messages: whoever waits for that may tell it more. It
       may close the peer. Never NULL. */
    void (*taken)(struct gw_peer *peer);
    uint8_t role;
    uint32_t id; /* rank of a worker, number of a shard */
    uint64_t incarnation;
    uint64_t heard_us; /* anything, on any link */
    unsigned links;
    struct gw_secret secret; /* of this pair, from gw_peer_expect on */
    int has_secret;
    int local;  /* it came through a local listener, on all its links */
    int silent; /* nothing was heard for so long that the owner was told */
    struct gw_peer_link *link;     /* [links] */
    char fault[GW_PEER_FAULT_MAX]; /* how it broke the protocol last, "" from
                                      when it is back */
    char name[GW_PEER_NAME_MAX];   /* "worker 3 (host)", for people */
    char address[GW_ADDRESSES_MAX];
    struct gw_peer_way *way; /* [ways], of one that we dial; the best first */
    unsigned ways;
    /* the members' own */
    struct gw_peer *next, **back;
    struct gw_peer *same; /* in its bucket of those that were admitted */
    struct gw_channel channel;
    int opener, was_up, closed, rests;
    uint32_t clock;    /* of the peer, as its heartbeats say */
    uint64_t since_us; /* opener: when dialling began */
    uint64_t stuck_us; /* opener: since when a link is not there; 0: all are */
    struct gw_peer_dial *dial; /* what came of it; NULL: nothing that failed */
};

struct gw_member_handler {
    /*
     * A stranger logs in. GW_OK admits it (and may set peer->owner, id and
     * name); otherwise `why` is what it is told. Whose secret is known is
     * asked for a proof of it first, gw_peer_admit.
     */
    enum gw_status (*admit)(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes);
    /* A link is there, for the first time or again. */
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
    /* A link that was up broke. The peer is suspect, no more. GW_EPROTO: it
       was closed here, for what the peer did, and that has been logged. */
    void (*link_down)(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why);
    /*
     * GW_ETIMEOUT: nothing was heard for silence_us on any link. GW_EREFUSED,
     * GW_EVERSION: the other side will not have us. GW_EUNSUPPORTED: over no
     * transport that both have. GW_EUNREACHABLE: dialled for join_us without
     * success. Told once until something is heard again.
     */
    void (*lost)(void *owner,
                 struct gw_peer *peer,
                 enum gw_status status,
                 const char *why);
    /*
     * For starves_us nobody could be answered or dialled for want of
     * this process's memory, `why` of late: others wait for it in vain. Told
     * once; NULL: it waits on.
     */
    void (*starves)(void *owner, const char *why);
    /*
     * A peer that we dial is not there for most of a second, over one link at
     * least: `text` says for people where it is dialled and what came of it,
     * "cannot reach server 0 (b) at 10.0.0.2:4000: Connection refused". Told
     * again when that changes, not more often than every few seconds. "": it
     * is reached again. Not told of a peer that answers "later".
     */
    void (*stuck)(void *owner, struct gw_peer *peer, const char *text);
};

/* For handlers to whom that is no news. */
void gw_member_stuck_unheard(void *owner,
                             struct gw_peer *peer,
                             const char *text);

#define GW_MEMBER_STARVES_US 5000000

struct gw_member_options {
    struct gw_loop *loop;
    const struct gw_transport_ops *transport; /* that everybody speaks */
    /* Over which others dial us, the best first, ended by NULL; NULL: the same.
     */
    const struct gw_transport_ops *const *data;
    struct gw_transport_config transport_config;
    /* from where the coordinator is dialled, "" or NULL: as routes say; what
       transport_config says of interfaces is for all others */
    const char *control_interface;
    uint8_t role;
    uint32_t rank;                  /* or GW_RANK_NONE */
    uint64_t incarnation;           /* 0: drawn */
    const struct gw_secret *secret; /* NULL: drawn */
    uint64_t job;                   /* 0: not known yet */
    uint64_t heartbeat_us, silence_us, join_us,
        starves_us; /* 0: the defaults */
    int quiet;      /* of pauses of this process another of its members tells */
    const struct gw_member_handler *handler;
    void *owner;
};

/* GW_ENOMEM, or what the transport's open says. The loop, the handler and its
   owner outlive the member. */
enum gw_status gw_member_open(const struct gw_member_options *options,
                              struct gw_member **member_p,
                              struct gw_error *error);

/* Closes every peer and listener. Not from within a handler's call. */
void gw_member_close(struct gw_member *member);

uint64_t gw_member_incarnation(const struct gw_member *member);

/*
 * Fills in what a Join says of secrets: the member's own, with which it proves
 * its logins, and a proof of the job's, if that is not NULL. When a link to the
 * coordinator is up. GW_ENOMEM.
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

/* The step this member is in: heartbeats carry it. Thread: any. */
void gw_member_set_clock(struct gw_member *member, uint64_t clock);

uint64_t gw_member_clock(const struct gw_member *member);

/* How long silence is borne, of peers and on each link, from here on. Where
   that is short, heartbeats come as much more often. */
void gw_member_set_silence(struct gw_member *member, uint64_t silence_us);

/* Microseconds since this process last found that it had been paused, 0 while
   that is to be found yet. */
uint64_t gw_member_paused_us_ago(const struct gw_member *member);

/* Before a line that says who died: "this process was paused for 1.5 s; ",
   where that was so lately and so long that the others may have missed this
   process; else "". */
#define GW_PAUSED_BYTES 64
void gw_member_paused_words(const struct gw_member *member,
                            char words[GW_PAUSED_BYTES]);

/*
 * Listens until gw_member_close at an address, or at several, separated by
 * commas: interfaces that links are to be spread over. With several transports
 * on the same port of each; one of the better ones that cannot listen there is
 * logged, and left out, and so is one of several addresses where none can, but
 * for a port that is taken. Errors: of the last transport's listen.
 */
enum gw_status gw_member_listen(struct gw_member *member,
                                const char *addresses,
                                struct gw_error *error);

/*
 * Where it listened first, with the real ports, for gw_member_dial of others:
 * of each transport, the best first. `host`, if it is not "", stands for its
 * own.
 * "": it does not listen.
 */
void gw_member_advertise(const struct gw_member *member,
                         const char *host,
                         char text[GW_ADDRESSES_MAX]);

/* The same with its own host; lasts as long as the member. */
const char *gw_member_address(const struct gw_member *member);

/*
 * A peer that this side opens `links` links to, and keeps open. Where its
 * address names several transports, each link takes the best that works, and
 * the next one when it breaks; where it names several addresses of a transport,
 * the links are spread over them, and go from one to the others before they go
 * to the next transport. `expects`: its incarnation, or 0. Errors:
 * GW_ENOMEM, GW_EINVAL (address).
 */
enum gw_status gw_member_dial(struct gw_member *member,
                              const char *address,
                              uint8_t role,
                              uint64_t expects,
                              unsigned links,
                              void *owner,
                              struct gw_peer **peer_p,
                              struct gw_error *error);

/* Memory that many payloads will come from, or windows lie in, and no more:
   see struct gw_transport_ops. */
void gw_member_lend(struct gw_member *member, const struct gw_memory *memory);
void gw_member_take_back(struct gw_member *member, void *base);

/*
 * Whether one of the transports that tensors may go over takes memory of that
 * kind (see struct gw_transport_ops, which says what the owner does in either
 * case). GW_EUNSUPPORTED: none does; names the best, with its reason.
 */
enum gw_status gw_member_takes(const struct gw_member *member,
                               const struct gw_memory *memory,
                               char *why,
                               size_t why_bytes);

/*
 * The same of all links to a peer that are up now. One that comes back may take
 * another way: whoever sends from such memory asks again at link_up, before it
 * sends again. GW_EUNSUPPORTED names the first that does not.
 */
enum gw_status gw_peer_takes(const struct gw_peer *peer,
                             const struct gw_memory *memory,
                             char *why,
                             size_t why_bytes);

/*
 * From now on a login as this peer, which dials us, is refused unless it proves
 * that it has this secret, which is of the pair (gw_secret_of_pair):
 * incarnation and rank alone are known to all members. And the same for a login
 * that is being judged: GW_EREFUSED, or GW_EAGAIN where there is no memory to
 * tell, with the reason in words.
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

/* Nothing more is sent to it, and it may go before we do: a link that breaks
   then says nothing of its way, and is not dialled over another one. */
void gw_peer_rest(struct gw_peer *peer);

/* Ends the acquaintance; `peer` is gone after the current callback. */
void gw_peer_close(struct gw_peer *peer);

/*
 * Sends a control message: reliable, in order. GW_EAGAIN: the peer does not
 * take them fast enough. GW_ENOMEM: no memory to keep it in until the peer has
 * it. Either way it is not sent, and later ones do not wait for it: reports may
 * be dropped, anything else is a reason to give the peer up. GW_ERANGE: larger
 * than a message may be. GW_ECLOSED: the peer is closed, there is nobody to
 * tell.
 */
enum gw_status gw_peer_tell(struct gw_peer *peer,
                            const struct gw_message *message);

/* Messages that the peer was told and has not acknowledged yet. It does so at
   the latest when it has got 8, or with its next heartbeat. */
uint64_t gw_peer_untaken(const struct gw_peer *peer);

/* Non-zero when there is none. */
int gw_peer_flushed(const struct gw_peer *peer);

/* Something will be sent to it soon, over that link: asks for the memory that
   this takes, each part as the one before leads to it, so many times down to 1.
   Where there are few peers it changes nothing. */
#define GW_PEER_NEARS 3
void gw_peer_nears(const struct gw_peer *peer, unsigned link, int times);

/*
 * Sends a frame over one of the links; done(GW_ECLOSED) at once if that link
 * is not there now: the owner sends again at link_up.
 */
void gw_peer_send(struct gw_peer *peer, unsigned link, struct gw_send *send);

/* See struct gw_transport_ops, show and see: of a peer's window of our own,
   and of one of the peer's. GW_ECLOSED: the link is not there now; the owner
   shows again at link_up. GW_EUNSUPPORTED: not over this transport. */
enum gw_status
gw_peer_show(struct gw_peer *peer, unsigned link, uint32_t window);
const void *gw_peer_see(const struct gw_peer *peer,
                        unsigned link,
                        uint32_t window,
                        size_t bytes);

/* Non-zero when link `link` is up. */
int gw_peer_is_up(const struct gw_peer *peer, unsigned link);

/* Non-zero when what goes over it does not leave this host's memory, so that
   checksums of payloads are nobody's business. */
int gw_peer_is_within_host(const struct gw_peer *peer, unsigned link);

/* Microseconds since anything was heard from the peer. */
uint64_t gw_peer_silent_us(const struct gw_peer *peer);

/* Frames of one link must not be trusted any more: closes it with a warning,
   which names the peer; the opener will dial again. */
void gw_peer_reject(struct gw_peer *peer, unsigned link, const char *why);

/* The same for a frame that a peer of its role does not send: names its kind.
 */
void gw_peer_reject_frame(struct gw_peer *peer,
                          unsigned link,
                          const struct gw_frame *frame);

/* Closes a link that is of no use any more, for which there may be no blame;
   the opener will dial again. */
void gw_peer_cut(struct gw_peer *peer, unsigned link, const char *why);

#endif
