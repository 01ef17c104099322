/*
 * Inside the tcp transport. A link is a non-blocking socket polled by libuv;
 * reads and writes are our own, so that a payload goes from the socket into its
 * window and from its arena into the socket without a buffer in between. Most
 * are TCP sockets, some are stream sockets of the file system (unix(7)), which
 * differ in nothing but their addresses.
 *
 *   tcp.c          the table, listeners and links
 *   tcp_address.c  ports and local sockets
 *   tcp_flight.c   the amount of a stream that is in flight
 *   tcp_local.c    addresses of this host's file system
 *   tcp_login.c    from a socket to a link that is up
 *   tcp_read.c     frames in
 *   tcp_write.c    frames out
 */
#ifndef GW_TRANSPORT_TCP_H
#define GW_TRANSPORT_TCP_H

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

#include "transport/link/address.h"
#include "transport/link/connection.h"
#include "transport/link/interface.h"
#include "transport/link/loop_uv.h"
#include "transport/link/socket_listener.h"
#include "transport/link/transport.h"
#include "transport/tcp/tcp_flight.h"

/* Frames handed to the kernel in one call, when they are small. */
#define GW_TCP_BATCH       16
#define GW_TCP_BATCH_BYTES ((size_t)256 << 10)

/* A small frame is read with its header; of a large one this much is copied. */
#define GW_TCP_AHEAD_BYTES ((size_t)8 << 10)

/* Bytes read or written before other links and timers have their turn: a chunk.
   Quarters of a chunk would keep more of it in cache for its checksum, but the
   cost of more calls made the training path slower by a tenth. */
#define GW_TCP_TURN_BYTES ((size_t)1 << 20)

struct gw_tcp;

/* The file of a listening local socket: removed only if it is the same. */
struct gw_tcp_file {
    dev_t device;
    ino_t inode;
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* "": none */
};

/* Reading: a header, then perhaps a payload, then a header .. */
struct gw_tcp_in {
    uint8_t header[GW_FRAME_BYTES];
    size_t header_bytes; /* received so far */
    int in_payload;
    uint8_t ahead[GW_TCP_AHEAD_BYTES]; /* read, but not handled yet */
    size_t ahead_at, ahead_bytes;
    struct gw_frame frame;
    uint8_t *place; /* destination of the payload */
    size_t place_bytes;
    uint32_t crc;
    uint8_t *message; /* buffer for payloads without a window */
    size_t message_room;
};

/* Writing: frames already taken from the queue. */
struct gw_tcp_out {
    struct gw_send *send[GW_TCP_BATCH];
    uint8_t header[GW_TCP_BATCH][GW_FRAME_BYTES];
    size_t n;
    size_t sent_bytes; /* bytes of send[0] already sent, its header included */
    int blocked; /* wait for the poll: the socket is full, or the turn over */
    int over;    /* the peer is gone; its last bytes are still to be read */
};

struct gw_tcp_link {
    struct gw_link base;
    struct gw_connection connection;
    struct gw_tcp *tcp;
    int fd;
    uv_poll_t poll;
    int poll_open, events;
    struct gw_tcp_link *next_dirty;
    int dirty;
    /* in the list of links that wait for a turn */
    struct gw_tcp_link *next_late;
    int late;

    /* login */
    uint8_t greeting[GW_REPLY_BYTES]; /* hello or reply, as it comes in */
    size_t greeting_bytes;
    uint8_t hello[GW_HELLO_BYTES]; /* opener: to be sent */
    uint8_t index;                 /* opener: index of the link at its peer */
    struct gw_work resolve;
    int resolving; /* the link cannot be freed before the work is done */
    struct gw_places *found;
    size_t trying; /* index in `found` */
    int number;    /* errno of the previous address */
    /* opener: own address of the last attempt; bytes 0: unknown */
    struct gw_place from;
    struct gw_error error;

    struct gw_tcp_in in;
    struct gw_tcp_out out;
    struct gw_tcp_flight flight;
};

struct gw_tcp_listener {
    struct gw_socket_listener socket;
    struct gw_tcp_file file;
};

struct gw_tcp {
    struct gw_transport base;
    uv_loop_t *uv;
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    struct gw_connections connections;
    struct gw_tcp_link *dirty;
    /* links that wait for a turn, oldest first */
    struct gw_tcp_link *late, **late_last;
    int took_turn; /* a link had a turn, in the current turn of the loop */
    struct gw_task flush; /* of the links that are still dirty */
    struct gw_listener *listeners;
    unsigned handles;         /* open libuv handles that point here */
    struct gw_own_places own; /* to dial from */
};

static inline struct gw_tcp *gw_tcp_of(struct gw_transport *transport)
{
    return GW_CONTAINER(transport, struct gw_tcp, base);
}

static inline struct gw_tcp_listener *
gw_tcp_listener_of(struct gw_listener *listener)
{
    return GW_CONTAINER(listener, struct gw_tcp_listener, socket.base);
}

static inline struct gw_tcp_link *gw_tcp_link_of(struct gw_link *link)
{
    return GW_CONTAINER(link, struct gw_tcp_link, base);
}

static inline void
gw_tcp_fail(struct gw_tcp_link *link, enum gw_status status, const char *why)
{
    gw_connection_fail(&link->connection, status, why);
}

/* tcp.c */
struct gw_tcp_link *gw_tcp_link_new(struct gw_tcp *tcp);
enum gw_status gw_tcp_adopt(struct gw_tcp_link *link, int fd);
void gw_tcp_watch(struct gw_tcp_link *link);
void gw_tcp_release(struct gw_link *base);
void gw_tcp_let_go(struct gw_tcp_link *link);

/* tcp_address.c */
/* Checks the syntax of an address, without a lookup. GW_EINVAL. */
enum gw_status gw_tcp_check(const char *address, struct gw_error *error);
/* All places of an address; the caller frees them. GW_EINVAL, GW_ENOMEM. */
enum gw_status gw_tcp_resolve(const char *address,
                              int numeric,
                              int passive,
                              struct gw_places **found_p,
                              struct gw_error *error);
void gw_tcp_name(int fd, int peer, char text[GW_ADDRESS_MAX]);

/* Explains why an attempt to connect failed: `why`, the place that was tried,
   the own address, and the reason for choosing that one. */
void gw_tcp_tell_attempt(const struct gw_tcp_link *link,
                         const char *why,
                         char text[GW_ERROR_TEXT_BYTES]);

/* tcp_local.c */
/* Non-zero for "unix:PATH". */
int gw_tcp_is_unix(const char *address);
/* GW_EINVAL: there is no path, or it is too long for a socket. */
enum gw_status gw_tcp_local_place(const char *address,
                                  struct sockaddr_un *at,
                                  struct gw_error *error);
/*
 * Listens at a path, on a socket that only this user can connect to. Replaces
 * the socket of a dead process, and nothing else: GW_EADDRINUSE. GW_EINVAL,
 * GW_EIO.
 */
enum gw_status gw_tcp_local_listen(const char *address,
                                   int *fd_p,
                                   struct gw_tcp_file *file_p,
                                   struct gw_error *error);
/* Removes the file, if it is still the same. */
void gw_tcp_local_remove(const struct gw_tcp_file *file);
/* Non-zero if the peer is this user, or root. */
int gw_tcp_local_may(int fd);
/* "unix:PATH" of the own end, "local, pid 7" of the peer's. */
void gw_tcp_local_name(int fd, int peer, char text[GW_ADDRESS_MAX]);

/* tcp_login.c */
void gw_tcp_dial(struct gw_tcp_link *link);
int gw_tcp_goes_on(struct gw_link *base); /* goes on with the next address */
void gw_tcp_connect(struct gw_tcp_link *link);
void gw_tcp_connected(struct gw_tcp_link *link);
void gw_tcp_accept(struct gw_socket_listener *listener, int fd);
void gw_tcp_greet(struct gw_tcp_link *link);

/* tcp_read.c and tcp_write.c */
/* A turn of reading; the poll announces bytes that are left. */
void gw_tcp_read(struct gw_tcp_link *link);
/* A turn of writing; non-zero when there is more to write. */
int gw_tcp_write(struct gw_tcp_link *link);
void gw_tcp_give_back(struct gw_tcp_link *link);
int gw_tcp_pulse(struct gw_link *base, struct gw_send *beat);

#endif
