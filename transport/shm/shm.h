/*
 * Inside the shm transport, between processes of one host. A link is a socket
 * of the host's network namespace, over which the two have met, and memory that
 * both have mapped, which carries all frames:
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
 * in shared memory"): entries, each with a frame's header or a message of the
 * link itself, and a ring of bytes for payloads.
 *
 *   put into shared memory   written into the window, then an entry
 *   other put, message       in pieces through the ring, an entry for each
 *
 * The peer may write anything into this memory at any time, so everything is
 * copied out before it is judged. The socket ends with its process, however
 * that dies.
 */
#ifndef GW_TRANSPORT_SHM_H
#define GW_TRANSPORT_SHM_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <uv.h>

#include "transport/link/connection.h"
#include "transport/link/loop_uv.h"
#include "transport/link/socket_listener.h"
#include "transport/link/transport.h"

#define GW_SHM_VERSION 1

/* Sizes of one direction. */
#define GW_SHM_ENTRIES    256u
#define GW_SHM_RING_BYTES (1u << 20)

/* Always used; the rest of the ring only while the other side is behind. */
#define GW_SHM_RING_LEAST (64u << 10)

/* Size of a piece in the ring: the other side takes pieces out meanwhile. */
#define GW_SHM_PIECE_BYTES (64u << 10)

/* A put up to this size always goes through the ring. */
#define GW_SHM_SMALL_BYTES 2048u

/* Copied together with its checksum, while it is in cache. */
#define GW_SHM_BLOCK_BYTES ((size_t)16 << 10)

/* Bytes copied before other links have their turn. */
#define GW_SHM_TURN_BYTES ((size_t)256 << 10)

/* Entries read before other links have their turn. */
#define GW_SHM_TURN_ENTRIES 64

/* Kinds of entries. */
enum gw_shm_type {
    GW_SHM_PUT = 1,   /* header; its payload is in the window */
    GW_SHM_FRAME = 2, /* header, and the first bytes of its payload */
    GW_SHM_MORE = 3,  /* further bytes of it */
    GW_SHM_ASK = 4,   /* header of a put whose window is not granted yet */
};

struct gw_shm_entry {
    uint32_t type;
    uint32_t at; /* place of its bytes in the ring */
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
    _Alignas(
        128) _Atomic uint32_t published; /* number of entries ever published */
    _Atomic uint32_t starved;            /* waits until entries are taken */
    _Atomic uint32_t writing; /* the window being written, at this moment */
    /* the receiver's */
    _Alignas(128) _Atomic uint32_t taken;
    _Atomic uint32_t asleep;                             /* wants to be woken */
    _Alignas(128) _Atomic uint32_t open[GW_WINDOWS_MAX]; /* granted windows */
    _Alignas(128) struct gw_shm_entry entry[GW_SHM_ENTRIES];
    uint8_t ring[GW_SHM_RING_BYTES];
};

/* The shared memory: the opener's direction, then the acceptor's. */
struct gw_shm_area {
    struct gw_shm_queue queue[2];
};

/* Messages over the socket; numbers are little-endian. */
enum gw_shm_word {
    GW_SHM_HELLO = 0x4d485347, /* "GSHM": version 4, hello; with the area */
    GW_SHM_REPLY = 1,          /* reply */
    GW_SHM_WAKE = 2,
    GW_SHM_GRANT = 3, /* window 4, offset 8, bytes 8; with its memory, or not */
    GW_SHM_EXPORT = 4, /* the same, with its memory: the peer may read it */
};

#define GW_SHM_WORD_BYTES  4
#define GW_SHM_HELLO_BYTES (8 + GW_HELLO_BYTES)
#define GW_SHM_REPLY_BYTES (4 + GW_REPLY_BYTES)
#define GW_SHM_GRANT_BYTES 24
#define GW_SHM_WORDS_BYTES (8 + GW_REPLY_BYTES) /* no message is longer */

struct gw_shm;

/* Memory of a peer, mapped once for all its windows, on any link. */
struct gw_shm_map {
    struct gw_shm_map *next;
    unsigned windows;
    dev_t device;
    ino_t inode;
    uint8_t *base;
    size_t bytes;
};

/* A window of the peer that this side writes into. */
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
    struct gw_frame frame; /* frame whose pieces are arriving */
    int in_frame;
    uint8_t *place; /* destination of its payload: in a window, or `message` */
    size_t place_bytes;
    uint32_t crc;
    uint8_t *message;
    size_t message_room;
    uint8_t wanted; /* windows asked for, a bit for each place */
    struct gw_shm_granted granted[GW_WINDOWS_MAX];
    struct gw_window_watch watch;
    int watching;
    struct gw_shm_target imported[GW_WINDOWS_MAX]; /* exported by the peer */
};

struct gw_shm_out {
    struct gw_shm_queue *queue;
    uint32_t published, taken;
    uint64_t ring_at, ring_taken; /* number of bytes ever written, and taken */
    uint64_t ring_end[GW_SHM_ENTRIES]; /* end of each entry's bytes */
    struct gw_send *send;              /* partly sent */
    struct gw_shm_target *target; /* window that it is written into, or NULL */
    size_t send_bytes;
    int began;      /* its first piece is published */
    uint32_t asked; /* the window whose grant is awaited */
    struct gw_shm_target window[GW_WINDOWS_MAX];
};

struct gw_shm_link {
    struct gw_link base;
    struct gw_connection connection;
    struct gw_shm *shm;
    int fd;
    uv_poll_t poll;
    int poll_open;
    struct gw_shm_link *next, **back; /* in the list of fenced links */
    int fenced;
    int ended;  /* the socket has ended; published entries are still read */
    int broken; /* with `broken_why`, at the next poll */
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
    int busy; /* from the config */
    uv_loop_t *uv;
    unsigned handles; /* number of libuv handles that point here, and its own */
    struct gw_poller poller;
    uint64_t now_us; /* begin of the poll */
    int asleep;      /* polls for which the peers are told that we sleep */
    int polling, in_vain;
    struct gw_connections connections;
    struct gw_connection *cursor; /* the next link to be polled */
    struct gw_shm_link *fenced;   /* over, but the peer may still be writing */
    struct gw_listener *listeners;
    struct gw_registered
        *registered; /* registered shared memory, which peers may map */
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
/* Non-zero for an address of this host, also of another namespace or user. */
int gw_shm_reaches(const char *address);
/*
 * Finds the socket's name in an address. GW_EINVAL: it has none.
 * GW_EUNREACHABLE: another host, or another network namespace or user of this
 * host.
 */
enum gw_status gw_shm_place(const char *address,
                            struct sockaddr_un *at,
                            socklen_t *bytes_p,
                            struct gw_error *error);
/* Non-zero if the peer of a socket is this user. */
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

/* Makes the area of an opener's link; returns a descriptor of it, or -1. */
int gw_shm_area_make(struct gw_shm_link *link);
/* Maps the area that a peer has sent. GW_EPROTO: it is not sealed, or too
   small. GW_ENOMEM: it cannot be mapped. */
enum gw_status gw_shm_area_take(struct gw_shm_link *link, int fd);
void gw_shm_area_drop(struct gw_shm_link *link);

/* Lets the peer write into this window by itself from now on. */
void gw_shm_grant(struct gw_shm_link *link, const struct gw_window *window);
/* Revokes all windows. 0: the peer is writing at this moment. */
int gw_shm_revoke_all(struct gw_shm_link *link);
/* Non-zero if the peer of a closed link may still be writing into the range. */
int gw_shm_is_fenced(const struct gw_shm *shm, const void *base, size_t bytes);
/* Non-zero if the peer of a fenced link has finished, or is dead. */
int gw_shm_has_finished(const struct gw_shm_link *link);

/* Opens a window of the peer in the memory of fd, or -1. 0: invalid. */
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

/* Both return 0 if there was nothing to do. */
int gw_shm_read(struct gw_shm_link *link, uint32_t entries);
int gw_shm_write(struct gw_shm_link *link);
void gw_shm_give_back(struct gw_shm_link *link);
void gw_shm_got_grant(struct gw_shm_link *link,
                      const uint8_t *bytes,
                      size_t n,
                      int fd);

/* ---- shm_export.c ---- */

/* See export and import in struct gw_transport_ops. */
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

/* Sends a message, with a descriptor or -1. 0: the socket did not take it. */
int gw_shm_socket_send(struct gw_shm_link *link,
                       const uint8_t *bytes,
                       size_t n,
                       int fd);
/* To be called then, with errno: the link ends at the next poll; if the peer
   has ended, after its published entries have been read. */
void gw_shm_socket_failed(struct gw_shm_link *link);
/* Wakes a sleeping peer: there are entries for it, or room. */
void gw_shm_wake(struct gw_shm_link *link);
/* Wakes the peer in any case, as a sign of life. */
int gw_shm_pulse(struct gw_link *base, struct gw_send *beat);

#endif
