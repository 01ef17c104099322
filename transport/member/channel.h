/*
 * The control channel of one peer: messages leave in order, are kept until the
 * other side acknowledges them, and are sent again when their link breaks.
 * Arriving messages are passed on once and in order. Memory is one ring: room
 * for a few messages at first, which is enough for most peers; a channel that
 * is used more gets a full ring, once. Messages that do not fit because the
 * peer does not acknowledge have memory of their own, up to a bound. Private to
 * transport/; other rooms use member.h.
 */
#ifndef GW_TRANSPORT_CHANNEL_H
#define GW_TRANSPORT_CHANNEL_H

#include "proto/control.h"
#include "transport/link/transport.h"

/* Room for two of the largest messages and their records. */
#define GW_CHANNEL_BYTES     ((size_t)160 << 10)
#define GW_CHANNEL_BYTES_FEW ((size_t)1 << 10)

/* Unacknowledged bytes outside of the ring: twice the longest vote, of 1048576
   chunks with two values each. */
#define GW_CHANNEL_OWED_BYTES ((size_t)32 << 20)

struct gw_channel_record;

struct gw_channel {
    uint8_t *ring;
    size_t bytes;      /* of the ring */
    size_t head, tail; /* used bytes: [head, tail), or around the end */
    uint8_t *ring_few; /* the ring before, while it has messages */
    size_t in_ring;    /* messages in the ring */
    size_t owed_bytes; /* bytes of messages with memory of their own */
    struct gw_channel_record *first, *last;
    uint64_t sent;     /* number of the last message made, from 1 */
    uint64_t acked;    /* the peer has everything up to here */
    uint64_t received; /* we have passed on everything up to here */
    uint64_t told;     /* the value of `received` that the peer was last told */
};

/*
 * Keeps a message and puts it on `link` (NULL: later). GW_EAGAIN: the peer owes
 * acknowledgements for GW_CHANNEL_OWED_BYTES. GW_ERANGE: too large. GW_ENOMEM:
 * no memory for it.
 */
enum gw_status gw_channel_tell(struct gw_channel *channel,
                               struct gw_link *link,
                               const struct gw_message *message,
                               struct gw_control_arena *arena,
                               uint32_t epoch);

/* A new link: everything that is not acknowledged goes out again. */
void gw_channel_resend(struct gw_channel *channel, struct gw_link *link);

/* The peer has everything up to `number`. GW_EPROTO: never sent that much. */
enum gw_status gw_channel_acked(struct gw_channel *channel, uint64_t number);

/*
 * Takes the number of an arriving message: GW_OK to pass it on, GW_EEXIST when
 * it is known already, GW_EPROTO when one is missing in between.
 */
enum gw_status gw_channel_take(struct gw_channel *channel, uint64_t number);

/* Non-zero when an acknowledgement should be sent soon. */
int gw_channel_owes_ack(const struct gw_channel *channel);

/* No send of this channel may be on a link any more. */
void gw_channel_free(struct gw_channel *channel);

#endif
