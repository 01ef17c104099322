/*
 * Frames out. A large put goes straight into the peer's window, if this process
 * can map its memory; its header follows when the bytes are there. Everything
 * else goes through the ring in pieces, which the other side takes out while
 * the next ones are put in. A frame that has begun stays ahead of later ones; a
 * turn copies no more than others can wait for.
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- room ---- */

/* Reads how far the peer is. 0: its answer is impossible, the link is over. */
static int update_taken(struct gw_shm_link *link)
{
    struct gw_shm_out *out = &link->out;
    uint32_t taken = atomic_load(&out->queue->taken);
    if (taken - out->taken > out->published - out->taken) {
        gw_shm_fail(link, GW_EPROTO, "has taken more than was sent");
        return 0;
    }
    if (taken != out->taken)
        out->ring_taken = out->ring_end[(taken - 1) % GW_SHM_ENTRIES];
    out->taken = taken;
    return 1;
}

/* The next place in the ring for so many contiguous bytes. */
static uint64_t place_in_ring(const struct gw_shm_out *out, size_t bytes)
{
    uint64_t left = GW_SHM_RING_BYTES - out->ring_at % GW_SHM_RING_BYTES;
    return out->ring_at + (bytes <= left ? 0 : left);
}

static int fits(const struct gw_shm_out *out, size_t bytes)
{
    return out->published - out->taken < GW_SHM_ENTRIES &&
           place_in_ring(out, bytes) + bytes - out->ring_taken <=
               GW_SHM_RING_BYTES;
}

/* Checks for room for an entry with so many bytes; if there is none, asks the
   peer to say when there is, and checks once more. */
static int has_room(struct gw_shm_link *link, size_t bytes)
{
    struct gw_shm_out *out = &link->out;
    if (fits(out, bytes))
        return 1;
    if (!update_taken(link))
        return 0;
    if (fits(out, bytes))
        return 1;
    atomic_store(&out->queue->starved, 1);
    return update_taken(link) && fits(out, bytes);
}

/* Written pages of the ring stay allocated, on both sides: when the peer has
   taken everything, the first pages are used again. 0: the link is over. */
static int begin_ring_anew(struct gw_shm_link *link)
{
    struct gw_shm_out *out = &link->out;
    uint64_t used = out->ring_at % GW_SHM_RING_BYTES;
    if (used < GW_SHM_RING_LEAST)
        return 1;
    if (!update_taken(link))
        return 0;
    if (out->taken == out->published)
        out->ring_taken = out->ring_at += GW_SHM_RING_BYTES - used;
    return 1;
}

/* There is room, and the entry's bytes are written already. */
static void publish(struct gw_shm_link *link,
                    enum gw_shm_type type,
                    const uint8_t *header,
                    size_t bytes)
{
    struct gw_shm_out *out = &link->out;
    uint32_t place = out->published % GW_SHM_ENTRIES;
    struct gw_shm_entry *entry = &out->queue->entry[place];
    uint64_t at = place_in_ring(out, bytes);
    entry->type = type;
    entry->at = (uint32_t)(at % GW_SHM_RING_BYTES);
    entry->bytes = (uint32_t)bytes;
    entry->zero = 0;
    if (header)
        memcpy(entry->header, header, GW_FRAME_BYTES);
    /* at a cache line of its own */
    out->ring_at = (at + bytes + 63) / 64 * 64;
    out->ring_end[place] = out->ring_at;
    out->published++;
    atomic_store(&out->queue->published, out->published);
}

/* ---- windows ---- */

/* Answers asks of the peer. 0: the link is over, or about to be. */
static int answer_asks(struct gw_shm_link *link)
{
    for (uint32_t i = 0; i < GW_WINDOWS_MAX && link->in.wanted; i++) {
        const struct gw_window *window =
            link->base.windows ? &link->base.windows->window[i] : NULL;
        uint8_t bytes[GW_SHM_GRANT_BYTES];
        if (!(link->in.wanted & 1u << i))
            continue;
        if (!window || window->id == GW_WINDOW_NONE) {
            gw_shm_fail(link, GW_EPROTO, "asked for a window that has closed");
            return 0;
        }
        if (gw_shm_is_fenced(link->shm, window->base, window->bytes))
            continue;
        const struct gw_memory *lent = gw_registered_at(
            link->shm->registered, window->base, window->bytes);
        link->in.wanted &= (uint8_t) ~(1u << i);
        gw_put_u32(bytes, GW_SHM_GRANT);
        gw_put_u32(bytes + 4, window->id);
        gw_put_u64(bytes + 8,
                   lent ? (uint64_t)(window->base - (uint8_t *)lent->base) : 0);
        gw_put_u64(bytes + 16, window->bytes);
        if (lent)
            gw_shm_grant(link, window);
        if (!gw_shm_socket_send(link, bytes, sizeof bytes,
                                lent ? lent->fd : -1)) {
            gw_shm_socket_failed(link);
            return 0;
        }
    }
    return 1;
}

void gw_shm_got_grant(struct gw_shm_link *link,
                      const uint8_t *bytes,
                      size_t n,
                      int fd)
{
    struct gw_shm_out *out = &link->out;
    uint32_t window = n == GW_SHM_GRANT_BYTES ? gw_get_u32(bytes + 4) : 0;
    if (window == GW_WINDOW_NONE || window != out->asked) {
        gw_shm_fail(link, GW_EPROTO, "grants what was not asked for");
        return;
    }
    out->asked = GW_WINDOW_NONE;
    struct gw_shm_target *target = &out->window[window % GW_WINDOWS_MAX];
    gw_shm_target_close(link->shm, target);
    if (!gw_shm_target_open(link->shm, target, window, gw_get_u64(bytes + 8),
                            gw_get_u64(bytes + 16), fd))
        gw_shm_fail(link, GW_EPROTO, "grants memory that it could take away");
    else
        gw_shm_do_not_sleep(link->shm);
}

/* Asks for the window of a put, once; the peer judges the put as if it had
   come. */
static void ask(struct gw_shm_link *link, const struct gw_send *send)
{
    struct gw_shm_out *out = &link->out;
    uint8_t header[GW_FRAME_BYTES];
    if (out->asked != GW_WINDOW_NONE || !has_room(link, 0))
        return;
    gw_frame_encode(&send->frame, header);
    publish(link, GW_SHM_ASK, header, 0);
    out->asked = send->frame.window;
}

/* ---- frames ---- */

/* Takes the next send from the queue, if it can begin. */
static int begin(struct gw_shm_link *link)
{
    struct gw_shm_out *out = &link->out;
    struct gw_send *send = gw_link_first(&link->base);
    struct gw_shm_target *target = NULL;
    if (!send)
        return 0;
    const struct gw_frame *frame = &send->frame;
    if (frame->window != GW_WINDOW_NONE && frame->length > GW_SHM_SMALL_BYTES) {
        target = &out->window[frame->window % GW_WINDOWS_MAX];
        if (target->window != frame->window) {
            ask(link, send);
            return 0;
        }
        /* the other side judges a put that leaves the window */
        if (!target->base || frame->offset > target->bytes ||
            frame->length > target->bytes - frame->offset)
            target = NULL;
    }
    gw_link_next(&link->base);
    out->send = send;
    out->target = target;
    out->send_bytes = 0;
    out->began = 0;
    return 1;
}

static void finish(struct gw_shm_link *link)
{
    struct gw_send *send = link->out.send;
    link->out.send = NULL;
    send->done(send, GW_OK);
}

/* The window stays open until the end of writing. */
static int begin_writing(struct gw_shm_out *out, uint32_t window)
{
    atomic_store(&out->queue->writing, window);
    if (atomic_load(&out->queue->open[window % GW_WINDOWS_MAX]) == window)
        return 1;
    atomic_store(&out->queue->writing, GW_WINDOW_NONE);
    return 0;
}

static void copy(struct gw_shm_out *out, uint8_t *to, size_t n)
{
    memcpy(to, (const uint8_t *)out->send->payload + out->send_bytes, n);
    out->send_bytes += n;
}

/* A payload that stays in this host's memory needs no checksum. The send's own
   frame keeps its flags, as it may yet go over another link. */
static void seal(const struct gw_send *send, uint8_t header[GW_FRAME_BYTES])
{
    struct gw_frame frame = send->frame;
    frame.flags |= GW_FLAG_NO_CRC;
    gw_frame_encode(&frame, header);
}

/* Writes the next part of a put into its window; returns how many bytes. */
static size_t write_directly(struct gw_shm_link *link)
{
    struct gw_shm_out *out = &link->out;
    struct gw_send *send = out->send;
    const struct gw_frame *frame = &send->frame;
    const struct gw_shm_target *target = out->target;
    size_t n = least(frame->length - out->send_bytes, GW_SHM_TURN_BYTES);
    if (!has_room(link, 0))
        return 0;
    if (!begin_writing(out, target->window)) {
        /* the window has closed: the other side has to say so */
        gw_shm_target_close(link->shm, out->target);
        out->send_bytes = 0;
        ask(link, send);
        return 0;
    }
    copy(out, target->base + frame->offset + out->send_bytes, n);
    atomic_store(&out->queue->writing, GW_WINDOW_NONE);
    if (out->send_bytes < frame->length)
        return n;
    uint8_t header[GW_FRAME_BYTES];
    seal(send, header);
    publish(link, GW_SHM_PUT, header, 0);
    finish(link);
    return n;
}

/* Puts the next piece into the ring; returns its bytes, header included. */
static size_t write_piece(struct gw_shm_link *link)
{
    struct gw_shm_out *out = &link->out;
    struct gw_send *send = out->send;
    uint8_t header[GW_FRAME_BYTES];
    size_t n = least(send->frame.length - out->send_bytes, GW_SHM_PIECE_BYTES);
    if (!begin_ring_anew(link) || !has_room(link, n))
        return 0;
    int first = !out->began;
    if (first)
        seal(send, header);
    if (n > 0)
        copy(out, out->queue->ring + place_in_ring(out, n) % GW_SHM_RING_BYTES,
             n);
    out->began = 1;
    publish(link, first ? GW_SHM_FRAME : GW_SHM_MORE, first ? header : NULL, n);
    if (out->send_bytes == send->frame.length)
        finish(link);
    return n + GW_FRAME_BYTES;
}

static size_t write_next(struct gw_shm_link *link)
{
    struct gw_shm_out *out = &link->out;
    if (!out->send && !begin(link))
        return 0;
    if (!link->base.up)
        return 0;
    if (out->target && out->target->window != out->send->frame.window)
        return 0; /* waits for another grant, or for the end */
    if (out->target && !out->target->base)
        out->target = NULL;
    return out->target ? write_directly(link) : write_piece(link);
}

int gw_shm_write(struct gw_shm_link *link)
{
    uint32_t before = link->out.published;
    size_t turn = 0, n = 1;
    if (link->in.wanted && !answer_asks(link))
        return 1;
    while (n > 0 && turn < GW_SHM_TURN_BYTES && link->base.up) {
        n = write_next(link);
        turn += n;
    }
    if (!link->base.up)
        return 1;
    if (link->out.published != before) {
        link->base.sent_us = link->shm->now_us;
        gw_shm_wake(link);
    }
    return turn > 0 || link->out.published != before;
}

void gw_shm_give_back(struct gw_shm_link *link)
{
    struct gw_send *send = link->out.send;
    link->out.send = NULL;
    if (send)
        send->done(send, GW_ECLOSED);
}
