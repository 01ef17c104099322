/*
 * Frames in. An entry is copied out of the shared memory before it is judged,
 * and a message before it is read: the peer may change both at any time. A
 * window that it changes after its header holds its own gradient.
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <string.h>

/* Gives the used entry, and its bytes in the ring, back to the sender. */
static void take(struct gw_shm_link *link)
{
    link->in.taken++;
    atomic_store(&link->in.queue->taken, link->in.taken);
}

static void pass(struct gw_shm_link *link)
{
    struct gw_shm_in *in = &link->in;
    in->in_frame = 0;
    if (in->frame.length > 0 && !(in->frame.flags & GW_FLAG_NO_CRC) &&
        in->crc != in->frame.payload_crc) {
        gw_shm_fail(link, GW_ECRC, "payload checksum does not match");
        return;
    }
    link->base.handler->frame(&link->base, &in->frame, in->place);
}

/* 0: the link is over. */
static int read_header(struct gw_shm_link *link, const uint8_t *header)
{
    struct gw_shm_in *in = &link->in;
    const char *why = "not a frame header";
    void *place = NULL;
    enum gw_status status = GW_EPROTO;
    if (in->in_frame)
        why = "a frame within another";
    else
        status = gw_frame_decode(header, &in->frame);
    if (status == GW_OK)
        status = gw_link_place(&link->base, &in->frame, &place, &why);
    if (status != GW_OK) {
        gw_shm_fail(link, status, why);
        return 0;
    }
    in->place = place;
    in->place_bytes = 0;
    in->crc = 0;
    return 1;
}

/* The bytes are in the window, if it was granted. Returns how many. */
static size_t got_put(struct gw_shm_link *link,
                      const struct gw_shm_entry *entry)
{
    struct gw_shm_in *in = &link->in;
    if (!read_header(link, entry->header))
        return 0;
    uint32_t window = in->frame.window;
    size_t bytes = in->frame.length;
    if (window == GW_WINDOW_NONE ||
        in->granted[window % GW_WINDOWS_MAX].window != window) {
        gw_shm_fail(link, GW_EPROTO, "a put into a window that is not shared");
        return 0;
    }
    take(link);
    if (!(in->frame.flags & GW_FLAG_NO_CRC))
        in->crc = gw_crc32c(0, in->place, bytes);
    pass(link);
    return bytes;
}

/* 0: the link is over. */
static int begin_frame(struct gw_shm_link *link,
                       const struct gw_shm_entry *entry)
{
    struct gw_shm_in *in = &link->in;
    if (!read_header(link, entry->header))
        return 0;
    if (in->place && link->shm->fenced &&
        gw_shm_is_fenced(link->shm, in->place, in->frame.length)) {
        gw_shm_fail(link, GW_EAGAIN,
                    "a process that was given up is still writing there");
        return 0;
    }
    if (!in->place && in->frame.length > 0) {
        if (!gw_message_room(&in->message, &in->message_room,
                             in->frame.length)) {
            gw_shm_fail(link, GW_ENOMEM, "no memory for a message");
            return 0;
        }
        in->place = in->message;
    }
    in->in_frame = 1;
    return 1;
}

/* A window may close between two pieces. */
static int still_has_place(const struct gw_shm_link *link)
{
    const struct gw_frame *frame = &link->in.frame;
    return frame->window == GW_WINDOW_NONE ||
           gw_window_at(link->base.windows, frame->kind, frame->window,
                        frame->offset, frame->length) == link->in.place;
}

/* The checksum is of the copied bytes, which cannot change any more. Returns
   how many bytes. */
static size_t got_bytes(struct gw_shm_link *link,
                        const struct gw_shm_entry *entry)
{
    struct gw_shm_in *in = &link->in;
    if (entry->type == GW_SHM_FRAME && !begin_frame(link, entry))
        return 0;
    if (!in->in_frame || entry->bytes > in->frame.length - in->place_bytes ||
        entry->at > GW_SHM_RING_BYTES ||
        entry->bytes > GW_SHM_RING_BYTES - entry->at ||
        (entry->bytes == 0 && in->frame.length > 0)) {
        gw_shm_fail(link, GW_EPROTO, "a piece of another length");
        return 0;
    }
    if (!still_has_place(link)) {
        gw_shm_fail(link, GW_EPROTO, "put into a window that has closed");
        return 0;
    }
    int checked = !(in->frame.flags & GW_FLAG_NO_CRC);
    for (size_t at = 0; at < entry->bytes; at += GW_SHM_BLOCK_BYTES) {
        size_t n = entry->bytes - at;
        if (n > GW_SHM_BLOCK_BYTES)
            n = GW_SHM_BLOCK_BYTES;
        uint8_t *to = in->place + in->place_bytes;
        memcpy(to, in->queue->ring + entry->at + at, n);
        if (checked)
            in->crc = gw_crc32c(in->crc, to, n);
        in->place_bytes += n;
    }
    take(link);
    if (in->place_bytes == in->frame.length)
        pass(link);
    return entry->bytes;
}

/* The put itself will follow, if its window is granted. */
static void got_ask(struct gw_shm_link *link, const struct gw_shm_entry *entry)
{
    if (!read_header(link, entry->header))
        return;
    if (link->in.frame.window == GW_WINDOW_NONE) {
        gw_shm_fail(link, GW_EPROTO, "asks for no window");
        return;
    }
    take(link);
    link->in.wanted |= (uint8_t)(1u << link->in.frame.window % GW_WINDOWS_MAX);
}

/* Returns how many bytes of a payload it has brought. */
static size_t read_one(struct gw_shm_link *link)
{
    struct gw_shm_in *in = &link->in;
    struct gw_shm_entry entry;
    memcpy(&entry, &in->queue->entry[in->taken % GW_SHM_ENTRIES],
           offsetof(struct gw_shm_entry, rest));
    if (entry.type == GW_SHM_PUT)
        return got_put(link, &entry);
    if (entry.type == GW_SHM_FRAME || entry.type == GW_SHM_MORE)
        return got_bytes(link, &entry);
    if (entry.type == GW_SHM_ASK)
        got_ask(link, &entry);
    else
        gw_shm_fail(link, GW_EPROTO, "an entry of no known type");
    return 0;
}

/* Other links have their turn after so many bytes, or when the loop's turn is
   over; the entries of a link that has ended are its last. Asking sends
   heartbeats. */
static int goes_on(const struct gw_shm_link *link, size_t bytes)
{
    int over = gw_loop_turn_is_over(link->shm->base.loop);
    return link->ended || (bytes < GW_SHM_TURN_BYTES && !over);
}

int gw_shm_read(struct gw_shm_link *link, uint32_t entries)
{
    struct gw_shm_queue *queue = link->in.queue;
    size_t bytes = 0;
    uint32_t there = atomic_load(&queue->published) - link->in.taken;
    if (there == 0)
        return 0;
    if (there > GW_SHM_ENTRIES) {
        gw_shm_fail(link, GW_EPROTO, "has sent more than there is room for");
        return 1;
    }
    link->base.heard_us = link->shm->now_us;
    if (there > entries)
        there = entries;
    for (uint32_t i = 0;
         i < there && link->base.up && (i == 0 || goes_on(link, bytes)); i++)
        bytes += read_one(link);
    if (link->base.up && atomic_load(&queue->starved) &&
        atomic_exchange(&queue->starved, 0))
        gw_shm_wake(link);
    return 1;
}
