#include "config.h"

#include "transport/member/channel.h"

#include <assert.h>
#include <stdlib.h>

#define RECORD_ALIGN 16

/* The peer gets an acknowledgement after this many messages at the latest. */
#define MESSAGES_UNTOLD 8

/* A channel with more messages than this is used now and then: the ring is
   widened early, and not when it is full in the middle of a job. */
#define MESSAGES_FEW 4

/* One message, followed by its bytes. */
struct gw_channel_record {
    struct gw_send send;
    struct gw_channel_record *next;
    struct gw_channel *channel;
    const uint8_t *ring; /* its ring; NULL: memory of its own */
    size_t end; /* end of the record: an offset in that ring, or its size */
    uint64_t number;
    int on_link;
};

static size_t aligned(size_t bytes)
{
    return (bytes + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
}

/* The current ring is empty; the small one may still have messages. */
static int is_empty(const struct gw_channel *channel)
{
    return channel->in_ring == 0;
}

/* Contiguous free bytes at the tail, for the next record. */
static size_t room_at_tail(const struct gw_channel *channel)
{
    if (is_empty(channel) || channel->tail > channel->head)
        return channel->bytes - channel->tail;
    return channel->head - channel->tail;
}

static struct gw_channel_record *record_at(struct gw_channel *channel,
                                           size_t offset)
{
    return (struct gw_channel_record *)(void *)(channel->ring + offset);
}

/* Frees the record, which was the first. */
static void let_go(struct gw_channel *channel, struct gw_channel_record *record)
{
    const struct gw_channel_record *next = record->next;
    if (!record->ring) {
        channel->owed_bytes -= record->end;
        free(record);
    } else if (record->ring == channel->ring) {
        channel->head = record->end;
        if (--channel->in_ring == 0)
            channel->head = channel->tail = 0;
    } else if (!next || next->ring != channel->ring_few) {
        free(channel->ring_few);
        channel->ring_few = NULL;
    }
}

/* Frees acknowledged messages that are on no link, from the front. */
static void shrink(struct gw_channel *channel)
{
    while (channel->first && !channel->first->on_link &&
           channel->first->number <= channel->acked) {
        struct gw_channel_record *first = channel->first;
        channel->first = first->next;
        if (!channel->first)
            channel->last = NULL;
        let_go(channel, first);
    }
}

/* Messages of the small ring stay in it until they are freed. */
static enum gw_status widen(struct gw_channel *channel, size_t bytes)
{
    uint8_t *ring = malloc(bytes);
    if (!ring)
        return GW_ENOMEM;
    if (channel->first)
        channel->ring_few = channel->ring;
    else
        free(channel->ring);
    channel->ring = ring;
    channel->bytes = bytes;
    channel->head = channel->tail = channel->in_ring = 0;
    return GW_OK;
}

static void on_done(struct gw_send *send, enum gw_status status)
{
    struct gw_channel_record *record = send->owner;
    (void)status; /* lost messages go out again with the next link */
    record->on_link = 0;
    shrink(record->channel);
}

static void put_on_link(struct gw_channel_record *record, struct gw_link *link)
{
    record->on_link = 1;
    record->send.frame.offset = record->channel->received;
    record->channel->told = record->channel->received;
    gw_link_send(link, &record->send);
}

static void fill_record(struct gw_channel *channel,
                        struct gw_channel_record *record,
                        size_t bytes)
{
    *record = (struct gw_channel_record){
        .send = {.frame = {.kind = GW_FRAME_CONTROL,
                           .chunk = GW_CHUNK_NONE,
                           .length = (uint32_t)bytes},
                 .payload = (uint8_t *)(record + 1),
                 .done = on_done,
                 .owner = record},
        .channel = channel,
    };
}

static enum gw_status make_record(struct gw_channel *channel,
                                  const struct gw_message *message,
                                  struct gw_control_arena *arena,
                                  struct gw_channel_record **record_p)
{
    size_t room = room_at_tail(channel), bytes = 0;
    size_t head_bytes = sizeof(struct gw_channel_record);
    if (room < head_bytes + RECORD_ALIGN)
        return GW_ERANGE;
    struct gw_channel_record *record = record_at(channel, channel->tail);
    enum gw_status status =
        gw_message_encode(message, arena, (uint8_t *)(record + 1),
                          room - head_bytes - RECORD_ALIGN, &bytes);
    if (status != GW_OK)
        return status;
    fill_record(channel, record, bytes);
    record->ring = channel->ring;
    record->end = channel->tail + aligned(head_bytes + bytes);
    channel->tail = record->end;
    channel->in_ring++;
    *record_p = record;
    return GW_OK;
}

/* Allocates a record outside of the ring, of its own size. */
static enum gw_status make_own(struct gw_channel *channel,
                               const struct gw_message *message,
                               struct gw_control_arena *arena,
                               struct gw_channel_record **record_p)
{
    size_t head_bytes = sizeof(struct gw_channel_record), bytes = 0;
    if (channel->owed_bytes >= GW_CHANNEL_OWED_BYTES)
        return GW_EAGAIN;
    struct gw_channel_record *record =
        malloc(head_bytes + GW_MESSAGE_BYTES_MAX);
    if (!record)
        return GW_ENOMEM;
    enum gw_status status = gw_message_encode(
        message, arena, (uint8_t *)(record + 1), GW_MESSAGE_BYTES_MAX, &bytes);
    if (status != GW_OK) {
        free(record);
        return status;
    }
    struct gw_channel_record *fitting = realloc(record, head_bytes + bytes);
    if (fitting)
        record = fitting;
    fill_record(channel, record, bytes);
    record->end = head_bytes + bytes;
    channel->owed_bytes += record->end;
    *record_p = record;
    return GW_OK;
}

/* Tries behind the last record, then once more from the ring's beginning. */
static enum gw_status find_room(struct gw_channel *channel,
                                const struct gw_message *message,
                                struct gw_control_arena *arena,
                                struct gw_channel_record **record_p)
{
    enum gw_status status = make_record(channel, message, arena, record_p);
    if (status != GW_ERANGE || is_empty(channel))
        return status;
    if (channel->tail <= channel->head)
        return GW_EAGAIN;
    size_t tail = channel->tail;
    channel->tail = 0;
    status = make_record(channel, message, arena, record_p);
    if (status != GW_OK)
        channel->tail = tail;
    return status == GW_ERANGE ? GW_EAGAIN : status;
}

/* In the small ring, in the full one, or in memory of its own. */
static enum gw_status keep(struct gw_channel *channel,
                           const struct gw_message *message,
                           struct gw_control_arena *arena,
                           struct gw_channel_record **record_p)
{
    enum gw_status status = GW_OK;
    if (!channel->ring)
        status = widen(channel, GW_CHANNEL_BYTES_FEW);
    else if (channel->bytes < GW_CHANNEL_BYTES && channel->sent >= MESSAGES_FEW)
        widen(channel, GW_CHANNEL_BYTES); /* or when it has to be */
    if (status == GW_OK)
        status = find_room(channel, message, arena, record_p);
    if ((status == GW_EAGAIN || status == GW_ERANGE) &&
        channel->bytes < GW_CHANNEL_BYTES) {
        status = widen(channel, GW_CHANNEL_BYTES);
        if (status == GW_OK)
            status = find_room(channel, message, arena, record_p);
    }
    return status == GW_EAGAIN ? make_own(channel, message, arena, record_p)
                               : status;
}

enum gw_status gw_channel_tell(struct gw_channel *channel,
                               struct gw_link *link,
                               const struct gw_message *message,
                               struct gw_control_arena *arena,
                               uint32_t epoch)
{
    struct gw_channel_record *record;
    enum gw_status status = keep(channel, message, arena, &record);
    if (status != GW_OK)
        return status;
    record->number = ++channel->sent;
    record->send.frame.clock = record->number;
    record->send.frame.epoch = epoch;
    if (channel->last)
        channel->last->next = record;
    else
        channel->first = record;
    channel->last = record;
    if (link)
        put_on_link(record, link);
    return GW_OK;
}

void gw_channel_resend(struct gw_channel *channel, struct gw_link *link)
{
    for (struct gw_channel_record *one = channel->first; one; one = one->next)
        if (one->number > channel->acked && !one->on_link)
            put_on_link(one, link);
}

enum gw_status gw_channel_acked(struct gw_channel *channel, uint64_t number)
{
    if (number > channel->sent)
        return GW_EPROTO;
    if (number > channel->acked)
        channel->acked = number;
    shrink(channel);
    return GW_OK;
}

enum gw_status gw_channel_take(struct gw_channel *channel, uint64_t number)
{
    if (number <= channel->received)
        return GW_EEXIST;
    if (number != channel->received + 1)
        return GW_EPROTO;
    channel->received = number;
    return GW_OK;
}

int gw_channel_owes_ack(const struct gw_channel *channel)
{
    return channel->received >= channel->told + MESSAGES_UNTOLD;
}

void gw_channel_free(struct gw_channel *channel)
{
    struct gw_channel_record *next;
    for (struct gw_channel_record *one = channel->first; one; one = next) {
        next = one->next;
        assert(!one->on_link);
        if (!one->ring)
            free(one);
    }
    free(channel->ring);
    free(channel->ring_few);
    *channel = (struct gw_channel){0};
}
