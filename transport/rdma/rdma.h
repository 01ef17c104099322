/*
 * Inside the rdma transport. A link is a reliable connected queue pair, made by
 * librdmacm; each transport, that is each thread, has its own context of a
 * device and its own completion queue, and each peer has a protection domain of
 * its own, so that nothing is shared between shards or between peers.
 *
 *   rdma.c           the table, dials and listeners, the end of a link
 *   rdma_absent.c    in place of all others in a build without rdma-core
 *   rdma_choose.c    the choice among ways of registering memory
 *   rdma_complete.c  completions, handed to their links
 *   rdma_device.c    devices: completion queues, failures of the device itself
 *   rdma_domain.c    a peer's protection domain and registered memory
 *   rdma_end.c       destroying queue pairs
 *   rdma_fail.c      failures in words
 *   rdma_flight.c    bytes of payloads that a device has at once
 *   rdma_host.c      devices, addresses and ports of this host
 *   rdma_library.c   libibverbs and librdmacm, loaded
 *   rdma_link.c      the set of links
 *   rdma_login.c     from an address to a link that is up
 *   rdma_memory.c    registering memory, by its kind
 *   rdma_poll.c      polling of completion queues by the loop
 *   rdma_read.c      messages in
 *   rdma_sent.c      messages that have left
 *   rdma_write.c     messages out
 *
 * rdma_port.h is the door for other rooms.
 *
 * On the wire (docs/PROTOCOL.md, "Links over RDMA"):
 *
 *   put       WRITE of the payload into the window,
 *             WRITE_WITH_IMM of the header into the receiver's ring
 *   message   SEND_WITH_IMM of header and payload, in pieces
 *   brief     SEND_WITH_IMM of brief header and payload: either, if it fits
 * into the request itself
 *
 * The immediate value is the message's type and, in its low half, the number of
 * messages taken from the other side: so many more may come. A window is
 * granted when a put for it is due the first time: ask, with the put's header,
 * which is judged as if it had come; grant, with the key of its memory.
 *
 * GPU memory is registered like any other, if the device can (rdma_memory.h),
 * and then never touched by this process's code: payloads in it have no
 * checksum, and are not small. Sends come from there, but windows do not lie
 * there yet, since nothing could test it: a put that has completed may still be
 * on its way from the NIC to the GPU, behind the completion. got_put
 * (rdma_read.c) has to end that before it calls the handler, by reading a byte
 * of the window back through a queue pair that this device has with itself, in
 * a domain that has the window as well; the put's handler is called when that
 * read has completed, and later puts wait. Until then kernels must not be
 * started from the handler's call.
 */
#ifndef GW_TRANSPORT_RDMA_H
#define GW_TRANSPORT_RDMA_H

#include <unistd.h>
#include <uv.h>

#include "transport/link/address.h"
#include "transport/link/connection.h"
#include "transport/link/interface.h"
#include "transport/link/loop_uv.h"
#include "transport/link/transport.h"
#include "transport/rdma/rdma_flight.h"
#include "transport/rdma/rdma_library.h"

#define GW_RDMA_VERSION 2

/* Messages in flight in each direction. */
#define GW_RDMA_DEPTH 64

/* Posted receives. The spare ones are for credits, which need no credit of the
   peer's, and for slots that were read and not posted again yet. */
#define GW_RDMA_SPARE    24
#define GW_RDMA_RECEIVES (GW_RDMA_DEPTH + GW_RDMA_SPARE)

/* A message goes in pieces of this size; the first begins with the header. */
#define GW_RDMA_PIECE_BYTES 1024
#define GW_RDMA_SLOT_BYTES  (GW_FRAME_BYTES + GW_RDMA_PIECE_BYTES)

/* Work requests of a send queue: a put takes two. */
#define GW_RDMA_SENDS (2 * GW_RDMA_DEPTH + GW_RDMA_SPARE)

/* At most so many requests are posted in one call; so many ask for one
   completion. */
#define GW_RDMA_BATCH  32
#define GW_RDMA_SIGNAL 16

#define GW_RDMA_INLINE_BYTES 220

/* A completion's id: the link's serial, and below it the number of the sent
   message, or with this bit, the slot that was filled. */
#define GW_RDMA_RECEIVE 0x80000000u

/* The type of a message, in the high bits of its immediate value. */
enum gw_rdma_type {
    GW_RDMA_HELLO = 1, /* opener: hello, ring */
    GW_RDMA_REPLY = 2, /* acceptor: reply, ring */
    GW_RDMA_PUT = 3,   /* a header is in the ring */
    GW_RDMA_MORE = 4,  /* a piece of a message */
    GW_RDMA_LAST = 5,  /* its last, or only one */
    GW_RDMA_ASK = 6,   /* the header of a put whose window is not granted yet */
    GW_RDMA_GRANT = 7,
    GW_RDMA_BYE = 8,    /* the reason why the sender cannot go on */
    GW_RDMA_CREDIT = 9, /* no content; needs no credit itself */
    GW_RDMA_BRIEF = 10, /* a whole frame under a brief header */
};

/* Sizes of messages that are no pieces. */
#define GW_RDMA_RING_BYTES    16 /* key 4, 0 4, offset 8 */
#define GW_RDMA_HELLO_BYTES   (GW_HELLO_BYTES + GW_RDMA_RING_BYTES)
#define GW_RDMA_REPLY_BYTES   (GW_REPLY_BYTES + GW_RDMA_RING_BYTES)
#define GW_RDMA_GRANT_BYTES   24 /* window 4, key 4, offset 8, bytes 8 */
#define GW_RDMA_BYE_TEXT_MAX  252
#define GW_RDMA_BYE_BYTES     (4 + GW_RDMA_BYE_TEXT_MAX)
#define GW_RDMA_PRIVATE_BYTES 16 /* magic 4, version 4, incarnation 8 */

struct gw_rdma;
struct gw_rdma_link;

/* A device, as opened by this transport. */
struct gw_rdma_device {
    struct gw_rdma *rdma;
    struct gw_rdma_device *next;
    struct ibv_device *device;
    /* keeps librdmacm's context of the device open */
    struct rdma_cm_id *anchor;
    struct ibv_context *verbs;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    int cq_room, cq_used;
    int armed;   /* the channel will announce the next completion */
    int closing; /* nothing new begins on it; closed with its last domain */
    unsigned handles; /* number of libuv handles that point here */
    uv_poll_t completions, events;
    struct gw_rdma_domain *domains;
};

enum gw_rdma_region_state {
    GW_RDMA_REGION_BUSY, /* being registered, on another thread */
    GW_RDMA_REGION_READY,
    GW_RDMA_REGION_FAILED,
};

/* Memory registered for a peer: a window, or registered memory of ours. */
struct gw_rdma_region {
    struct gw_rdma_domain *domain;
    struct gw_memory memory;     /* the registered memory that contains it */
    struct gw_rdma_region *next; /* in the domain's list */
    enum gw_rdma_region_state state;
    uint32_t window; /* its id; GW_WINDOW_NONE: no window */
    void *base;
    size_t bytes;
    uint64_t offset; /* offset of its first byte, as the device counts */
    struct ibv_mr *mr;
    int number; /* errno of the failure */
    int orphan; /* not wanted any more, but still busy */
    struct gw_work work;
};

/* State of a peer on a device. Links hold it; the last one frees it. */
struct gw_rdma_domain {
    struct gw_rdma_device *device;
    struct gw_rdma_domain *next;
    struct ibv_pd *pd;
    uint64_t incarnation; /* claimed by the opener; 0: we are the opener */
    struct gw_windows *windows; /* NULL: nobody has logged in */
    struct gw_window_watch watch;
    struct gw_rdma_region *regions;
    unsigned busy; /* regions being registered, queue pairs being destroyed */
    struct gw_rdma_link *links;
};

/* A window of the peer. */
struct gw_rdma_grant {
    uint32_t window; /* GW_WINDOW_NONE: none */
    uint32_t key;
    uint64_t offset; /* offset of its first byte, as the peer's device counts */
    uint64_t bytes;
};

/* A message posted to the device. */
struct gw_rdma_posted {
    struct gw_send *send; /* given back when it is done; NULL: none */
    struct ibv_mr *mr;    /* registered for this payload alone, or NULL */
    uint32_t bytes;
    uint32_t requests;
    int copied; /* inline: it is done when the request is posted */
};

struct gw_rdma_in {
    uint16_t taken, told; /* messages; the peer knows of `told` */
    uint16_t spent;       /* receives to be posted again */
    uint16_t spent_slot[GW_RDMA_RECEIVES];
    uint16_t counted;      /* how many of them the peer counts as its credits */
    uint32_t puts;         /* place of the next header in the ring */
    struct gw_frame frame; /* frame of the message whose pieces are arriving */
    int in_message;
    uint8_t *message;
    size_t message_bytes, message_room;
    uint8_t wanted; /* windows asked for, a bit for each place */
};

struct gw_rdma_out {
    uint16_t sent, taken; /* messages; the difference is in flight */
    uint32_t puts;
    uint32_t key; /* key of the peer's ring */
    uint64_t ring;
    struct gw_rdma_grant grant[GW_WINDOWS_MAX];
    uint32_t asked; /* the window whose grant is awaited */
    struct gw_rdma_posted posted[GW_RDMA_SENDS];
    uint32_t first, next; /* in posted, counted on and on */
    uint32_t requests, unsignalled;
    struct gw_rdma_flight flight;
    struct gw_send *message; /* message with some pieces sent */
    size_t message_at;
    int stalled; /* waits for a grant, or for memory to be registered */
};

struct gw_rdma_link {
    struct gw_link base;
    struct gw_connection connection; /* its timer serves the stall as well */
    struct gw_rdma *rdma;
    uint32_t serial;           /* identifies the link in completions */
    struct gw_rdma_link *next; /* in the list of closed links */
    struct gw_rdma_link *same, **same_back; /* in its bucket */
    struct gw_rdma_link *beside;            /* in its domain's list */
    struct gw_rdma_link *next_dirty;
    int dirty;

    struct rdma_cm_id *id;
    struct gw_rdma_domain *domain;
    struct ibv_qp *qp;
    uint32_t inline_bytes;
    uint8_t *memory; /* slots in, slots out, ring */
    struct ibv_mr *mr, *ring_mr;

    /* login */
    struct gw_hello hello;
    struct gw_work resolve;
    int resolving;
    struct gw_rdma_link *later; /* in the list of queue pairs to destroy */
    /* the domain that the queue pair is still in */
    struct gw_rdma_domain *left;
    struct gw_places *found;
    size_t trying;
    struct gw_error error;

    struct gw_rdma_in in;
    struct gw_rdma_out out;
};

struct gw_rdma_listener {
    struct gw_listener base;
    struct rdma_cm_id *id; /* NULL: its device is gone */
};

#define GW_RDMA_BUCKETS 256

/* Answers of the devices about GPU memory, with a descriptor or without; asked
   once. */
struct gw_rdma_reach {
    int asked, has_fd;
    int refused; /* a device that had agreed has failed */
    enum gw_status status;
    char why[GW_ERROR_TEXT_BYTES];
};

struct gw_rdma {
    struct gw_transport base;
    int busy;                 /* from the config */
    struct gw_own_places own; /* to dial from */
    struct rdma_event_channel *channel;
    uv_loop_t *uv;
    struct gw_poller poller;
    uint64_t now_us; /* time of the last poll */
    uv_poll_t cm_events;
    unsigned handles;
    struct gw_rdma_device *devices;
    struct gw_connections connections;
    struct gw_rdma_link *dirty, *closed;
    /* lists of queue pairs to destroy; `ending` is the thread's */
    struct gw_rdma_link *to_end, *ending;
    struct gw_work ends;
    struct gw_rdma_link *bucket[GW_RDMA_BUCKETS];
    uint32_t serial;
    struct gw_listener *listeners;
    struct gw_registered *registered; /* registered memory, for sends */
    unsigned device_ranges; /* number of entries that this process's code cannot
                               touch */
    struct gw_rdma_reach reach;
    struct gw_rdma_library lib;
};

static inline struct gw_rdma *gw_rdma_of(struct gw_transport *transport)
{
    return GW_CONTAINER(transport, struct gw_rdma, base);
}

static inline struct gw_rdma_link *gw_rdma_link_of(struct gw_link *link)
{
    return GW_CONTAINER(link, struct gw_rdma_link, base);
}

static inline struct gw_rdma_listener *
gw_rdma_listener_of(struct gw_listener *listener)
{
    return GW_CONTAINER(listener, struct gw_rdma_listener, base);
}

/* When this returns, the device does nothing more for the link. */
static inline void
gw_rdma_fail(struct gw_rdma_link *link, enum gw_status status, const char *why)
{
    gw_connection_fail(&link->connection, status, why);
}

/* Parts of the link's memory: a slot for each receive, then for each message
   that is sent, then the ring of headers. */
static inline uint8_t *gw_rdma_in_slot(const struct gw_rdma_link *link,
                                       uint32_t slot)
{
    return link->memory + (size_t)slot * GW_RDMA_SLOT_BYTES;
}

static inline uint8_t *gw_rdma_out_slot(const struct gw_rdma_link *link,
                                        uint32_t slot)
{
    return gw_rdma_in_slot(link, GW_RDMA_RECEIVES + slot % GW_RDMA_DEPTH);
}

static inline uint8_t *gw_rdma_ring(const struct gw_rdma_link *link)
{
    return gw_rdma_in_slot(link, GW_RDMA_RECEIVES + GW_RDMA_DEPTH);
}

/* The offset at which a device counts memory of ours: its place in its first
   page, so that no address of this process crosses the wire. */
static inline uint64_t gw_rdma_first_offset(const void *base)
{
    return (uint64_t)(uintptr_t)base & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

/* Non-zero for memory that this process's code must not touch. */
static inline int gw_rdma_is_device_memory(const struct gw_rdma *rdma,
                                           const void *at)
{
    const struct gw_memory *of = rdma->device_ranges > 0
                                     ? gw_registered_at(rdma->registered, at, 1)
                                     : NULL;
    return of && !gw_memory_is_host_accessible(of->kind);
}

/* ---- rdma_complete.c ---- */

/* Handles a batch of completions of a device; returns how many. */
int gw_rdma_device_poll(struct gw_rdma_device *device);

/* ---- rdma_device.c ---- */

/* Returns this transport's context of the device that an id is bound to, opened
   at the first call. */
enum gw_status gw_rdma_device_get(struct gw_rdma *rdma,
                                  struct rdma_cm_id *id,
                                  struct gw_rdma_device **device_p,
                                  struct gw_error *error);
/* At once, or with its last domain. */
void gw_rdma_device_close(struct gw_rdma_device *device);
void gw_rdma_device_left(
    struct gw_rdma_device *device); /* a domain has been freed */

/* Reserves completions for a link, and releases them. */
enum gw_status gw_rdma_device_reserve(struct gw_rdma_device *device,
                                      struct gw_error *error);
void gw_rdma_device_release(struct gw_rdma_device *device);

/* Asks to be woken by the next completion. */
void gw_rdma_device_arm(struct gw_rdma_device *device);

/* The device is gone, or as good as gone: ends every link on it, and lets go of
   it. `theirs`: librdmacm's context of it, if we have no device of our own. */
void gw_rdma_device_lost(struct gw_rdma *rdma,
                         struct ibv_device *device,
                         struct ibv_context *theirs,
                         const char *why);

/* ---- rdma_domain.c ---- */

/* Finds or makes the domain of one peer: on the acceptor's side, by the
   incarnation that the opener claims; on the opener's, by its windows. The link
   holds it from now on. */
enum gw_status gw_rdma_domain_get(struct gw_rdma_device *device,
                                  struct gw_rdma_link *link,
                                  uint64_t incarnation,
                                  struct gw_error *error);
void gw_rdma_domain_put(struct gw_rdma_link *link);

/* The peer has logged in with these windows. 0: it is another's domain. */
int gw_rdma_domain_bind(struct gw_rdma_domain *domain,
                        struct gw_windows *windows);

/* Keeps the domain until its links and all holders have let go of it. */
void gw_rdma_domain_hold(struct gw_rdma_domain *domain);
void gw_rdma_domain_release(struct gw_rdma_domain *domain);

/* The region of a window that gw_link_place has found; begins to register it at
   the first call. */
struct gw_rdma_region *gw_rdma_domain_window(struct gw_rdma_domain *domain,
                                             uint32_t window);

/* The region that contains these bytes; one of registered memory is made at the
   first call, because few peers get data from everywhere. NULL: there is none.
   */
struct gw_rdma_region *gw_rdma_domain_registered(struct gw_rdma_domain *domain,
                                                 const void *bytes,
                                                 size_t n);

/* The memory is not registered with the transport any more. */
void gw_rdma_domain_deregister(struct gw_rdma_domain *domain,
                               const struct gw_memory *lent);

/* ---- rdma_end.c ---- */

/* Ends the link's queue pair and id, if it has them: when this returns nothing
   can write through them, and later they are destroyed. */
void gw_rdma_end(struct gw_rdma_link *link);

/* ---- rdma_fail.c ---- */

/* Explains why memory could not be registered, and how to change that. */
void gw_rdma_register_why(size_t bytes, int number, struct gw_error *error);

/* A request of the link has failed: fails the link with the reason. */
void gw_rdma_broke(struct gw_rdma_link *link, enum ibv_wc_status status);

/* A device that had agreed to take a GPU's memory fails with it: nothing is
   sent from such memory any more, and the link fails. Over the next link the
   payloads come from a mirror. */
void gw_rdma_refuse_device_memory(struct gw_rdma_link *link, const char *why);

/* ---- rdma_host.c ---- */

enum gw_status gw_rdma_probe(char *why, size_t why_bytes);
/* Explains by errno why librdmacm could not be opened, and the remedy. */
void gw_rdma_explain_closed(char *why, size_t why_bytes);
enum gw_status gw_rdma_meet(char host[GW_ADDRESS_MAX], struct gw_error *error);
enum gw_status gw_rdma_takes(struct gw_transport *transport,
                             const struct gw_memory *memory,
                             char *why,
                             size_t why_bytes);

/* ---- rdma_link.c ---- */

/* NULL: no memory. */
struct gw_rdma_link *gw_rdma_link_new(struct gw_rdma *rdma);

/* NULL: the link of that serial is gone. */
struct gw_rdma_link *gw_rdma_link_find(struct gw_rdma *rdma, uint32_t serial);

/* The link has something to send: the next poll writes it. */
void gw_rdma_make_dirty(struct gw_rdma_link *link);

/* No completion and no poll finds the link from now on. */
void gw_rdma_link_take_out(struct gw_rdma_link *link);

/* Frees links that are over. Not from within a callback. */
void gw_rdma_free_closed(struct gw_rdma *rdma);

/* One handle less that may call back; the last one frees the transport. */
void gw_rdma_handle_gone(struct gw_rdma *rdma);

/* ---- rdma_login.c ---- */

void gw_rdma_dial(struct gw_rdma_link *link);
int gw_rdma_goes_on(struct gw_link *base);        /* with the next address */
void gw_rdma_on_connection(struct gw_rdma *rdma); /* events of librdmacm */
void gw_rdma_got_hello(struct gw_rdma_link *link, const uint8_t *bytes);
void gw_rdma_got_reply(struct gw_rdma_link *link, const uint8_t *bytes);

/* ---- rdma_poll.c ---- */

enum gw_status gw_rdma_poll_open(struct gw_rdma *rdma, struct gw_error *error);
void gw_rdma_poll_close(struct gw_rdma *rdma);

/* ---- rdma_read.c ---- */

/* Posts every receive, before the queue pair is connected. */
enum gw_status gw_rdma_read_open(struct gw_rdma_link *link);
void gw_rdma_received(struct gw_rdma_link *link, const struct ibv_wc *wc);

/* ---- rdma_sent.c ---- */

/* All messages up to this one have left. */
void gw_rdma_sent(struct gw_rdma_link *link, uint32_t posted);
/* The queue pair is gone: deregisters memory of single payloads; then gives
   every send back. */
void gw_rdma_unregister(struct gw_rdma_link *link);
void gw_rdma_give_back(struct gw_rdma_link *link);

/* ---- rdma_write.c ---- */

/* Posts queued sends, as far as there is room. */
void gw_rdma_write(struct gw_rdma_link *link);
int gw_rdma_pulse(struct gw_link *base, struct gw_send *beat);
/* A message of the link itself; 0: there is no room, the link goes down. */
int gw_rdma_send_own(struct gw_rdma_link *link,
                     enum gw_rdma_type type,
                     const uint8_t *bytes,
                     size_t n);
/* Writes the place of this side's ring into a hello or a reply; reads the
   peer's. */
void gw_rdma_put_ring(const struct gw_rdma_link *link, uint8_t *out);
void gw_rdma_get_ring(struct gw_rdma_link *link, const uint8_t *in);

#endif
