/*
 * Inside the shm transport, between processes of one host. A link is a socket
 * of the host's network namespace, by which the two have met, and memory that
 * both have mapped, through which everything goes:
 *
 *   shm.c          the table, dials and listeners
 *   shm_export.c   windows that the peer reads in place
 *   shm_host.c     identity of a host, and addresses in it
 *   shm_link.c     making, closing and freeing links; the fence
 *   shm_login.c    from an address to a link that is up
 *   shm_memory.c   the link's memory, and windows that the sender writes itself
 *   shm_poll.c     polling of the queues by the loop
 *   shm_read.c     frames in
 *   shm_receive.c  messages that arrive over the socket
 *   shm_socket.c   messages sent over the socket: descriptors, wake-ups
 *   shm_write.c    frames out
 *
 * The memory has two queues, one for each direction (docs/PROTOCOL.md, "Links
 * in shared memory"): entries, each with a frame's header or what the link
 * itself has to say, and a ring of bytes that payloads go through.
 *
 *   put into shared memory   the sender writes it into the window, then an
 * entry other put, message       in pieces through the ring, an entry for each
 *
 * The peer may write anything into this memory at any time, so everything that
 * is read there is copied out, and then judged. The socket ends with its
 * process, whatever that dies of.
 */
#ifndef GW_TRANSPORT_SHM_H
#define GW_TRANSPORT_SHM_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <uv.h>

#include "transport/link/socket_listener.h"
#include "transport/link/connection.h"
#include "transport/link/loop_uv.h"
#include "transport/link/transport.h"

#define GW_SHM_VERSION 1

/* Of one direction. */
#define GW_SHM_ENTRIES    256u
#define GW_SHM_RING_BYTES (1u << 20)

/* So much of the ring is used in any case, the rest while the other side is
   behind. */
#define GW_SHM_RING_LEAST (64u << 10)

/* What goes through the ring at once: the other side takes it out meanwhile. */
#define GW_SHM_PIECE_BYTES (64u << 10)

/* A put of at most so much goes through the ring in any case. */
#define GW_SHM_SMALL_BYTES 2048u

/* Copied together with its checksum, while it is in cache. */
#define GW_SHM_BLOCK_BYTES ((size_t)16 << 10)

/* Copied before others have their turn. */
#define GW_SHM_TURN_BYTES ((size_t)256 << 10)

/* Entries that are read before. */
#define GW_SHM_TURN_ENTRIES 64

/* What an entry says. */
enum gw_shm_type {
    GW_SHM_PUT = 1,   /* header: its payload is in the window */
    GW_SHM_FRAME = 2, /* header, and the first bytes of its payload */
    GW_SHM_MORE = 3,  /* further bytes of it */
    GW_SHM_ASK = 4,   /* header of a put whose window is not granted */
};

struct gw_shm_entry {
    uint32_t type;
    uint32_t at; /* of its bytes, in the ring */
    uint32_t bytes;
    uint32_t zero;
    uint8_t header[GW_FRAME_BYTES];
    uint8_t rest[48];
};

/*
 * One direction. Each of the first three parts is written by one side and has
 * cache lines of its own. Every access to an atomic word is sequentially
 * consistent, and has to be: see docs/design.md, "Order in shared memory".
 */
struct gw_shm_queue {
    /* the sender's */
    _Alignas(128) _Atomic uint32_t published; /* entries, counted on and on */
    _Atomic uint32_t starved; /* waits until entries are taken */
    _Atomic uint32_t writing; /* into this window, at this moment */
    /* the receiver's */
    _Alignas(128) _Atomic uint32_t taken;
    _Atomic uint32_t asleep;                             /* is to be woken */
    _Alignas(128) _Atomic uint32_t open[GW_WINDOWS_MAX]; /* granted windows */
    _Alignas(128) struct gw_shm_entry entry[GW_SHM_ENTRIES];
    uint8_t ring[GW_SHM_RING_BYTES];
};

/* What the two share: of the opener's, then of the acceptor's direction. */
struct gw_shm_area {
    struct gw_shm_queue queue[2];
};

/* Over the socket, one message each; numbers are little-endian. */
enum gw_shm_word {
    GW_SHM_HELLO = 0x4d485347, /* "GSHM": version 4, hello; with the area */
    GW_SHM_REPLY = 1,          /* reply */
    GW_SHM_WAKE = 2,
    GW_SHM_GRANT = 3, /* window 4, offset 8, bytes 8; with its memory, or not */
    GW_SHM_EXPORT = 4, /* the same, with its memory: to be read by the peer */
};

#define GW_SHM_WORD_BYTES  4
#define GW_SHM_HELLO_BYTES (8 + GW_HELLO_BYTES)
#define GW_SHM_REPLY_BYTES (4 + GW_REPLY_BYTES)
#define GW_SHM_GRANT_BYTES 24
#define GW_SHM_WORDS_BYTES (8 + GW_REPLY_BYTES) /* no message is longer */

struct gw_shm;

/* Memory of a peer, mapped once for all windows in it, whatever their links. */
struct gw_shm_map {
    struct gw_shm_map *next;
    unsigned windows;
    dev_t device;
    ino_t inode;
    uint8_t *base;
    size_t bytes;
};

/* A window of the peer, as this side writes into it. */
struct gw_shm_target {
    uint32_t window; /* GW_WINDOW_NONE: none */
    uint64_t bytes;
    uint8_t *base; /* NULL: payloads go through the ring */
    struct gw_shm_map *map;
};

/* A window of ours that the peer writes into by itself. */
struct gw_shm_granted {
    uint32_t window;
    const uint8_t *base;
    size_t bytes;
};

struct gw_shm_in {
    struct gw_shm_queue *queue;
    uint32_t taken;
    struct gw_frame frame; /* that comes in pieces */
    int in_frame;
    uint8_t *place; /* of its payload: in a window, or `message` */
    size_t place_bytes;
    uint32_t crc;
    uint8_t *message;
    size_t message_room;
    uint8_t wanted; /* windows asked for, a bit for each place */
    struct gw_shm_granted granted[GW_WINDOWS_MAX];
    struct gw_window_watch watch;
    int watching;
    struct gw_shm_target imported[GW_WINDOWS_MAX]; /* that the peer has shown */
};

struct gw_shm_out {
    struct gw_shm_queue *queue;
    uint32_t published, taken;
    uint64_t ring_at, ring_taken;      /* bytes, counted on and on */
    uint64_t ring_end[GW_SHM_ENTRIES]; /* of each entry */
    struct gw_send *send;              /* of which a part has left */
    struct gw_shm_target *target;      /* that it goes into, or NULL */
    size_t send_bytes;
    int began;      /* its first piece is published */
    uint32_t asked; /* the window that it waits for */
    struct gw_shm_target window[GW_WINDOWS_MAX];
};

struct gw_shm_link {
    struct gw_link base;
    struct gw_connection connection;
    struct gw_shm *shm;
    int fd;
    uv_poll_t poll;
    int poll_open;
    struct gw_shm_link *next, **back; /* among the fenced */
    int fenced;
    int ended;  /* the socket has: what was published before is still read */
    int broken; /* with `broken_why`, at the next look */
    const char *broken_why;

    struct gw_shm_area *area;
    struct gw_shm_in in;
    struct gw_shm_out out;

    /* login */
    struct gw_timer again; /* opener: the listener's queue was full */
    uint8_t hello[GW_SHM_HELLO_BYTES];
};

struct gw_shm {
    struct gw_transport base;
    int busy; /* as the config says */
    uv_loop_t *uv;
    unsigned handles; /* of libuv, that point here, and its own */
    struct gw_poller poller;
    uint64_t now_us; /* as the look has begun */
    int asleep;      /* the peers have been told so, and for how many looks */
    int polling, in_vain;
    struct gw_connections connections;
    struct gw_connection *cursor; /* the next that is looked at */
    struct gw_shm_link *fenced;   /* over, but the peer may still be writing */
    struct gw_listener *listeners;
    struct gw_lent *lent; /* shared: peers may map it */
    struct gw_shm_map *maps;
};

static inline struct gw_shm *gw_shm_of(struct gw_transport *transport)
{
    return GW_CONTAINER(transport, struct gw_shm, base);
}

static inline struct gw_shm_link *gw_shm_link_of(struct gw_link *link)
{
    return GW_CONTAINER(link, struct gw_shm_link, base);
}

static inline void
gw_shm_fail(struct gw_shm_link *link, enum gw_status status, const char *why)
{
    gw_connection_fail(&link->connection, status, why);
}

/* Makes the loop poll once more before it sleeps. */
static inline void gw_shm_do_not_sleep(struct gw_shm *shm)
{
    gw_uv_poll_soon(shm->base.loop);
}

/* ---- shm_link.c ---- */

extern const struct gw_connection_ops gw_shm_connection_ops;

/* NULL: no memory. It has no socket yet. */
struct gw_shm_link *gw_shm_link_new(struct gw_shm *shm);
/* GW_EIO: the socket is the caller's still. */
enum gw_status gw_shm_adopt(struct gw_shm_link *link, int fd);

/* Frees a fenced link, with the memory that its peer may still be writing. */
void gw_shm_drop_fence(struct gw_shm_link *link);
/* The same for every fenced link whose peer has finished or ended. */
void gw_shm_unfence(struct gw_shm *shm);

/* The last handle to close frees the transport. */
void gw_shm_handle_gone(struct gw_transport *transport);

/* ---- shm_receive.c ---- */

/* Handles messages that have arrived over the socket. */
void gw_shm_socket_receive(struct gw_shm_link *link);

/* ---- shm_host.c ---- */

enum gw_status gw_shm_probe(char *why, size_t why_bytes);
enum gw_status gw_shm_meet(char host[GW_ADDRESS_MAX], struct gw_error *error);
/* Whether an address is of this host, which is more than of this namespace and
   this user. */
int gw_shm_reaches(const char *address);
/*
 * The name of an address's socket. GW_EINVAL: it is none. GW_EUNREACHABLE: not
 * of this host, or of another network namespace or user of it.
 */
enum gw_status gw_shm_place(const char *address,
                            struct sockaddr_un *at,
                            socklen_t *bytes_p,
                            struct gw_error *error);
/* Whether who is at the other end is this user. */
int gw_shm_may(int fd);
void gw_shm_name_peer(int fd, char text[GW_ADDRESS_MAX]);

/* ---- shm_login.c ---- */

void gw_shm_dial(struct gw_shm_link *link);
void gw_shm_accept(struct gw_socket_listener *listener, int fd);
void gw_shm_got_hello(struct gw_shm_link *link,
                      const uint8_t *bytes,
                      size_t n,
                      int fd);
void gw_shm_got_reply(struct gw_shm_link *link, const uint8_t *bytes, size_t n);

/* ---- shm_memory.c ---- */

/* The area of a link that is opened: a descriptor for the peer, or -1. */
int gw_shm_area_make(struct gw_shm_link *link);
/* Maps the area that a peer has sent. GW_EPROTO: it is not what it has to be.
   GW_ENOMEM: it cannot be mapped. */
enum gw_status gw_shm_area_take(struct gw_shm_link *link, int fd);
void gw_shm_area_drop(struct gw_shm_link *link);

/* From now on the peer writes into this window by itself. */
void gw_shm_grant(struct gw_shm_link *link, const struct gw_window *window);
/* No more into any of them. 0: it is at it, at this moment. */
int gw_shm_revoke_all(struct gw_shm_link *link);
/* Whether the peer of a link that is over may still be writing here. */
int gw_shm_is_fenced(const struct gw_shm *shm, const void *base, size_t bytes);
/* Whether it is not, any more: it has finished, or is dead. */
int gw_shm_has_finished(const struct gw_shm_link *link);

/* A window of the peer: its memory, or -1. 0: what was sent is wrong. */
int gw_shm_target_open(struct gw_shm *shm,
                       struct gw_shm_target *target,
                       uint32_t window,
                       uint64_t offset,
                       uint64_t bytes,
                       int fd);
void gw_shm_target_close(struct gw_shm *shm, struct gw_shm_target *target);

/* ---- shm_poll.c ---- */

void gw_shm_poll_open(struct gw_shm *shm);
void gw_shm_poll_close(struct gw_shm *shm);

/* ---- shm_read.c and shm_write.c ---- */

/* Both return how much they did: nothing, or something. */
int gw_shm_read(struct gw_shm_link *link, uint32_t entries);
int gw_shm_write(struct gw_shm_link *link);
void gw_shm_give_back(struct gw_shm_link *link);
void gw_shm_got_grant(struct gw_shm_link *link,
                      const uint8_t *bytes,
                      size_t n,
                      int fd);

/* ---- shm_export.c ---- */

/* What the peer may read of us, and we of it: see struct gw_transport_ops. */
enum gw_status gw_shm_export(struct gw_link *base, uint32_t window);
const void *gw_shm_import(struct gw_link *base, uint32_t window, size_t bytes);
void gw_shm_got_export(struct gw_shm_link *link,
                       const uint8_t *bytes,
                       size_t n,
                       int fd);

/* ---- shm_socket.c ---- */

/* The ancillary data of a message with a descriptor. */
union gw_shm_control {
    struct cmsghdr header; /* for its alignment */
    uint8_t bytes[CMSG_SPACE(sizeof(int))];
};

/* One message, with a descriptor or -1. 0: the socket did not take it. */
int gw_shm_socket_send(struct gw_shm_link *link,
                       const uint8_t *bytes,
                       size_t n,
                       int fd);
/* After that, with its errno: the link ends at the next look, and if the peer
   has ended, behind what it had published. */
void gw_shm_socket_failed(struct gw_shm_link *link);
/* If the peer sleeps: there is something for it, or room. */
void gw_shm_wake(struct gw_shm_link *link);
/* Whether it sleeps or not: for the peer it has been heard. */
int gw_shm_pulse(struct gw_link *base, struct gw_send *beat);

#endif
