/*
 * Messages in. A put's payload is in its window when its header arrives; the
 * header is copied out of the ring before it is judged, since the peer may
 * write there at any time. Receives are posted again in batches; the number of
 * taken messages travels with any message to the peer, or by itself when much
 * has come in and nothing goes out.
 */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <stdio.h>
#include <string.h>

#define REFILL (GW_RDMA_DEPTH / 4)

/* ---- receives ---- */

/* Posts the receives of these slots in one call. */
static int post(struct gw_rdma_link *link, const uint16_t *slot, uint32_t n)
{
    struct ibv_recv_wr request[GW_RDMA_RECEIVES], *bad;
    struct ibv_sge part[GW_RDMA_RECEIVES];
    for (uint32_t i = 0; i < n; i++) {
        part[i] =
            (struct ibv_sge){.addr = (uintptr_t)gw_rdma_in_slot(link, slot[i]),
                             .length = GW_RDMA_SLOT_BYTES,
                             .lkey = link->mr->lkey};
        request[i] = (struct ibv_recv_wr){
            .wr_id = (uint64_t)link->serial << 32 | GW_RDMA_RECEIVE | slot[i],
            .next = i + 1 < n ? &request[i + 1] : NULL,
            .sg_list = &part[i],
            .num_sge = 1};
    }
    return ibv_post_recv(link->qp, request, &bad);
}

enum gw_status gw_rdma_read_open(struct gw_rdma_link *link)
{
    uint16_t all[GW_RDMA_RECEIVES];
    for (uint16_t i = 0; i < GW_RDMA_RECEIVES; i++)
        all[i] = i;
    return post(link, all, GW_RDMA_RECEIVES) == 0 ? GW_OK : GW_EIO;
}

/* Gives a read slot back. The peer may use it once it is posted again. */
static void spend(struct gw_rdma_link *link, uint32_t slot, int counts)
{
    struct gw_rdma_in *in = &link->in;
    in->spent_slot[in->spent++] = (uint16_t)slot;
    in->counted = (uint16_t)(in->counted + counts);
    if (in->spent < REFILL)
        return;
    if (post(link, in->spent_slot, in->spent) != 0) {
        gw_rdma_fail(link, GW_EIO, "cannot post receives");
        return;
    }
    in->taken = (uint16_t)(in->taken + in->counted);
    in->spent = in->counted = 0;
    if ((uint16_t)(in->taken - in->told) >= REFILL)
        gw_rdma_make_dirty(link);
}

/* ---- frames ---- */

static int is_whole(struct gw_rdma_link *link,
                    const struct gw_frame *frame,
                    const void *payload)
{
    if (frame->length == 0 || frame->flags & GW_FLAG_NO_CRC ||
        gw_crc32c(0, payload, frame->length) == frame->payload_crc)
        return 1;
    gw_rdma_fail(link, GW_ECRC, "payload checksum does not match");
    return 0;
}

static void judge_and_pass(struct gw_rdma_link *link,
                           const struct gw_frame *frame,
                           const void *payload)
{
    if (is_whole(link, frame, payload))
        link->base.handler->frame(&link->base, frame, payload);
}

/* Finds the place of the payload of a frame whose header decoded to `status`.
   0: the link is over. */
static int find_place(struct gw_rdma_link *link,
                      enum gw_status status,
                      const struct gw_frame *frame,
                      void **place_p)
{
    const char *why = "not a frame header";
    if (status == GW_OK)
        status = gw_link_place(&link->base, frame, place_p, &why);
    if (status != GW_OK)
        gw_rdma_fail(link, status, why);
    return status == GW_OK;
}

/* Reads a header that was copied out of the peer's reach. */
static int read_header(struct gw_rdma_link *link,
                       const uint8_t header[GW_FRAME_BYTES],
                       struct gw_frame *frame,
                       void **place_p)
{
    return find_place(link, gw_frame_decode(header, frame), frame, place_p);
}

/* A put's payload is copied to its place, because it came in a slot. */
static void got_brief(struct gw_rdma_link *link, const uint8_t *bytes, size_t n)
{
    const void *payload = bytes + GW_BRIEF_BYTES;
    struct gw_frame frame;
    void *to = NULL;
    enum gw_status status = GW_EPROTO;
    if (n >= GW_BRIEF_BYTES)
        status = gw_brief_decode(bytes, link->base.session,
                                 (uint32_t)(n - GW_BRIEF_BYTES), &frame);
    if (!find_place(link, status, &frame, &to))
        return;
    if (to && gw_rdma_is_device_memory(link->rdma, to)) {
        gw_rdma_fail(link, GW_EUNSUPPORTED,
                     "a put into the memory of a GPU, too small for that");
        return;
    }
    if (!is_whole(link, &frame, payload))
        return;
    if (to)
        payload = memcpy(to, payload, frame.length);
    link->base.handler->frame(&link->base, &frame, payload);
}

static void got_put(struct gw_rdma_link *link)
{
    uint8_t header[GW_FRAME_BYTES];
    struct gw_frame frame;
    void *place = NULL;
    uint32_t slot = link->in.puts++ % GW_RDMA_DEPTH;
    memcpy(header, gw_rdma_ring(link) + slot * GW_FRAME_BYTES, sizeof header);
    if (!read_header(link, header, &frame, &place))
        return;
    if (!place)
        gw_rdma_fail(link, GW_EPROTO, "a put without a window");
    else if (gw_rdma_is_device_memory(link->rdma, place) &&
             !(frame.flags & GW_FLAG_NO_CRC) && frame.length > 0)
        gw_rdma_fail(link, GW_EUNSUPPORTED,
                     "a put into the memory of a GPU, with a checksum");
    else
        judge_and_pass(link, &frame, place);
}

/* The first piece of a message: its header, and bytes of its payload. */
static void begin_message(struct gw_rdma_link *link,
                          const uint8_t *bytes,
                          size_t n,
                          int last)
{
    struct gw_rdma_in *in = &link->in;
    void *place = NULL;
    if (n < GW_FRAME_BYTES) {
        gw_rdma_fail(link, GW_EPROTO, "not a frame header");
        return;
    }
    if (!read_header(link, bytes, &in->frame, &place))
        return;
    n -= GW_FRAME_BYTES;
    if (place || n > in->frame.length || (last && n != in->frame.length)) {
        gw_rdma_fail(link, GW_EPROTO, "a message of another length");
        return;
    }
    if (last) {
        judge_and_pass(link, &in->frame, bytes + GW_FRAME_BYTES);
        return;
    }
    if (!gw_message_room(&in->message, &in->message_room, in->frame.length)) {
        gw_rdma_fail(link, GW_ENOMEM, "no memory for a message");
        return;
    }
    memcpy(in->message, bytes + GW_FRAME_BYTES, n);
    in->message_bytes = n;
    in->in_message = 1;
}

static void
got_piece(struct gw_rdma_link *link, const uint8_t *bytes, size_t n, int last)
{
    struct gw_rdma_in *in = &link->in;
    if (!in->in_message) {
        begin_message(link, bytes, n, last);
        return;
    }
    size_t missing = in->frame.length - in->message_bytes;
    if (n > missing || (last && n != missing)) {
        gw_rdma_fail(link, GW_EPROTO, "a message of another length");
        return;
    }
    memcpy(in->message + in->message_bytes, bytes, n);
    in->message_bytes += n;
    if (!last)
        return;
    in->in_message = 0;
    judge_and_pass(link, &in->frame, in->message);
}

/* ---- windows ---- */

/* The put itself will follow, if its window is granted. */
static void got_ask(struct gw_rdma_link *link, const uint8_t *bytes, size_t n)
{
    struct gw_frame frame;
    void *place = NULL;
    if (n != GW_FRAME_BYTES) {
        gw_rdma_fail(link, GW_EPROTO, "not a frame header");
        return;
    }
    if (!read_header(link, bytes, &frame, &place))
        return;
    if (!place) {
        gw_rdma_fail(link, GW_EPROTO, "asks for no window");
        return;
    }
    link->in.wanted |= (uint8_t)(1u << frame.window % GW_WINDOWS_MAX);
    if (!gw_rdma_domain_window(link->domain, frame.window))
        gw_rdma_fail(link, GW_ENOMEM, "no memory to register a window");
    else
        gw_rdma_make_dirty(link);
}

static void got_grant(struct gw_rdma_link *link, const uint8_t *bytes, size_t n)
{
    struct gw_rdma_out *out = &link->out;
    uint32_t window = n == GW_RDMA_GRANT_BYTES ? gw_get_u32(bytes) : 0;
    if (window == GW_WINDOW_NONE || window != out->asked) {
        gw_rdma_fail(link, GW_EPROTO, "grants what was not asked for");
        return;
    }
    out->asked = GW_WINDOW_NONE;
    out->grant[window % GW_WINDOWS_MAX] =
        (struct gw_rdma_grant){.window = window,
                               .key = gw_get_u32(bytes + 4),
                               .offset = gw_get_u64(bytes + 8),
                               .bytes = gw_get_u64(bytes + 16)};
    gw_rdma_make_dirty(link);
}

static void got_bye(struct gw_rdma_link *link, const uint8_t *bytes, size_t n)
{
    char why[GW_RDMA_BYE_TEXT_MAX + 1] = "no reason";
    if (n == GW_RDMA_BYE_BYTES) {
        memcpy(why, bytes + 4, GW_RDMA_BYE_TEXT_MAX);
        gw_text_clean(why);
    }
    gw_rdma_fail(link, GW_EUNSUPPORTED, why);
}

/* ---- dispatch ---- */

/* Before login only the greeting is accepted. */
static void got_greeting(struct gw_rdma_link *link,
                         unsigned type,
                         const uint8_t *bytes,
                         size_t n)
{
    if (link->connection.listener && !link->connection.refused &&
        type == GW_RDMA_HELLO && n == GW_RDMA_HELLO_BYTES)
        gw_rdma_got_hello(link, bytes);
    else if (!link->connection.listener && type == GW_RDMA_REPLY &&
             n == GW_RDMA_REPLY_BYTES)
        gw_rdma_got_reply(link, bytes);
    else if (type != GW_RDMA_CREDIT)
        gw_rdma_fail(link, GW_EPROTO, "not a login");
}

static void dispatch(struct gw_rdma_link *link,
                     unsigned type,
                     const uint8_t *bytes,
                     size_t n)
{
    if (!link->base.up)
        got_greeting(link, type, bytes, n);
    else if (type == GW_RDMA_PUT)
        got_put(link);
    else if (type == GW_RDMA_MORE || type == GW_RDMA_LAST)
        got_piece(link, bytes, n, type == GW_RDMA_LAST);
    else if (type == GW_RDMA_BRIEF)
        got_brief(link, bytes, n);
    else if (type == GW_RDMA_ASK)
        got_ask(link, bytes, n);
    else if (type == GW_RDMA_GRANT)
        got_grant(link, bytes, n);
    else if (type == GW_RDMA_BYE)
        got_bye(link, bytes, n);
    else if (type != GW_RDMA_CREDIT)
        gw_rdma_fail(link, GW_EPROTO, "a message of no known type");
}

/* The peer's count of messages that it has taken. */
static int take_credits(struct gw_rdma_link *link, uint32_t value)
{
    struct gw_rdma_out *out = &link->out;
    uint16_t more = (uint16_t)((value & 0xffff) - out->taken);
    if (more > (uint16_t)(out->sent - out->taken)) {
        gw_rdma_fail(link, GW_EPROTO, "has taken more than was sent");
        return 0;
    }
    if (more > 0)
        gw_rdma_make_dirty(link);
    out->taken = (uint16_t)(out->taken + more);
    return 1;
}

void gw_rdma_received(struct gw_rdma_link *link, const struct ibv_wc *wc)
{
    struct gw_rdma *rdma = link->rdma;
    uint32_t serial = link->serial;
    uint32_t slot = (uint32_t)wc->wr_id & ~GW_RDMA_RECEIVE;
    uint32_t value = ntohl(wc->imm_data);
    unsigned type = value >> 28;
    link->base.heard_us = rdma->now_us;
    if (!(wc->wc_flags & IBV_WC_WITH_IMM) ||
        (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) != (type == GW_RDMA_PUT)) {
        gw_rdma_fail(link, GW_EPROTO, "a message of no known type");
        return;
    }
    if (!take_credits(link, value))
        return;
    dispatch(link, type, gw_rdma_in_slot(link, slot), wc->byte_len);
    link = gw_rdma_link_find(rdma, serial);
    if (link)
        spend(link, slot, type != GW_RDMA_CREDIT);
}
