/*
 * Messages out. The most urgent sends are posted together, in one list with a
 * completion now and then and at its end; the device reads a payload in place.
 * A posted send stays ahead of later ones, so only as much is posted as keeps
 * the line busy.
 */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Interval at which a stalled link is polled, since sends queued later may be
   more urgent, and number of intervals after which it gives a sign of life. */
#define STALL_US  10000
#define KEEPALIVE 20
#define TELL      (GW_RDMA_DEPTH / 4)

/* A list of requests that is being made. */
struct list {
    struct gw_rdma_link *link;
    struct ibv_send_wr request[GW_RDMA_BATCH];
    struct ibv_sge part[GW_RDMA_BATCH];
    int n;
    uint32_t first; /* index in posted of its first message */
    int waits;      /* a message in it needs its completion */
};

/* Does not clear its large arrays, whose used part is always written. */
static void begin(struct list *list, struct gw_rdma_link *link)
{
    list->link = link;
    list->n = 0;
    list->first = link->out.next;
    list->waits = 0;
}

/* ---- room ---- */

/* Non-zero if the peer has room for a message. */
static int has_credit(const struct gw_rdma_link *link)
{
    const struct gw_rdma_out *out = &link->out;
    return (uint16_t)(out->sent - out->taken) < GW_RDMA_DEPTH;
}

/* Checks for room on the device, and for free slots. */
static int has_room(const struct list *list, uint32_t requests)
{
    const struct gw_rdma_out *out = &list->link->out;
    return out->next - out->first < GW_RDMA_DEPTH &&
           out->requests + requests <= GW_RDMA_SENDS &&
           list->n + (int)requests <= GW_RDMA_BATCH;
}

static uint32_t immediate(struct gw_rdma_link *link, enum gw_rdma_type type)
{
    link->in.told = link->in.taken;
    return htonl((uint32_t)type << 28 | link->in.told);
}

/* ---- requests ---- */

static struct ibv_send_wr *add(struct list *list,
                               enum ibv_wr_opcode opcode,
                               uint64_t from,
                               uint32_t bytes,
                               uint32_t key)
{
    struct gw_rdma_link *link = list->link;
    struct ibv_send_wr *request = &list->request[list->n];
    struct ibv_sge *part = &list->part[list->n];
    *part = (struct ibv_sge){.addr = from, .length = bytes, .lkey = key};
    *request = (struct ibv_send_wr){
        .wr_id =
            (uint64_t)link->serial << 32 | (link->out.next & ~GW_RDMA_RECEIVE),
        .sg_list = part,
        .num_sge = bytes > 0,
        .opcode = opcode,
    };
    if (list->n > 0)
        list->request[list->n - 1].next = request;
    list->n++;
    return request;
}

/* Ends an entry: its message has `requests` requests. An inline message is done
   when the list is posted, and needs no completion. */
static void
close_entry(struct list *list, struct gw_send *send, struct gw_rdma_posted what)
{
    struct gw_rdma_out *out = &list->link->out;
    struct ibv_send_wr *last = &list->request[list->n - 1];
    what.send = send;
    what.copied = what.bytes == 0 && last->send_flags & IBV_SEND_INLINE;
    list->waits |= send && !what.copied;
    out->posted[out->next % GW_RDMA_SENDS] = what;
    out->next++;
    out->requests += what.requests;
    out->flight.bytes += what.bytes;
    out->unsignalled += what.requests;
    /* a put is completed as soon as it has left: the answer to it may come at
       once */
    if (out->unsignalled < GW_RDMA_SIGNAL && what.bytes == 0)
        return;
    last->send_flags |= IBV_SEND_SIGNALED;
    out->unsignalled = 0;
}

/* Messages copied inline are done. Their owners may close the link. */
static void finish_copied(struct gw_rdma_link *link, uint32_t from, uint32_t to)
{
    for (; from != to && link->connection.state != GW_CONNECTION_CLOSED;
         from++) {
        struct gw_rdma_posted *one = &link->out.posted[from % GW_RDMA_SENDS];
        struct gw_send *send = one->send;
        if (!send || !one->copied)
            continue;
        one->send = NULL;
        send->done(send, GW_OK);
    }
}

/* Posts the list. Failures, and the end of inline messages, are told here. */
static int post(struct list *list)
{
    struct gw_rdma_link *link = list->link;
    struct ibv_send_wr *bad;
    uint32_t first = list->first, end = link->out.next;
    if (list->n == 0)
        return 1;
    if (list->waits) {
        list->request[list->n - 1].send_flags |= IBV_SEND_SIGNALED;
        link->out.unsignalled = 0;
    }
    link->base.sent_us = link->rdma->now_us;
    int failed = ibv_post_send(link->qp, list->request, &bad);
    begin(list, link);
    if (failed)
        gw_rdma_fail(link, GW_ECLOSED, "the queue pair takes nothing");
    else
        finish_copied(link, first, end);
    return link->connection.state != GW_CONNECTION_CLOSED;
}

/* Adds a message from a slot of the link, inline if it is small enough. */
static void add_slot(struct list *list,
                     enum gw_rdma_type type,
                     const uint8_t *slot,
                     uint32_t bytes)
{
    struct gw_rdma_link *link = list->link;
    struct ibv_send_wr *request =
        add(list, IBV_WR_SEND_WITH_IMM, (uintptr_t)slot, bytes, link->mr->lkey);
    request->imm_data = immediate(link, type);
    if (bytes <= link->inline_bytes)
        request->send_flags |= IBV_SEND_INLINE;
    link->out.sent++;
}

/* ---- messages of the link itself ---- */

static void add_own(struct list *list,
                    enum gw_rdma_type type,
                    const uint8_t *bytes,
                    size_t n)
{
    uint8_t *slot = gw_rdma_out_slot(list->link, list->link->out.next);
    memcpy(slot, bytes, n);
    add_slot(list, type, slot, (uint32_t)n);
    close_entry(list, NULL, (struct gw_rdma_posted){.requests = 1});
}

int gw_rdma_send_own(struct gw_rdma_link *link,
                     enum gw_rdma_type type,
                     const uint8_t *bytes,
                     size_t n)
{
    struct list list;
    begin(&list, link);
    if (has_credit(link) && has_room(&list, 1)) {
        add_own(&list, type, bytes, n);
        return post(&list);
    }
    gw_rdma_fail(link, GW_EPROTO, "the peer takes no messages");
    return 0;
}

void gw_rdma_put_ring(const struct gw_rdma_link *link, uint8_t *out)
{
    gw_put_u32(out, link->ring_mr->rkey);
    gw_put_u32(out + 4, 0);
    gw_put_u64(out + 8, gw_rdma_first_offset(gw_rdma_ring(link)));
}

void gw_rdma_get_ring(struct gw_rdma_link *link, const uint8_t *in)
{
    link->out.key = gw_get_u32(in);
    link->out.ring = gw_get_u64(in + 8);
}

/* A credit counts as no message: it needs none, and has no slot. */
static void add_credit(struct list *list)
{
    struct ibv_send_wr *request = add(list, IBV_WR_SEND_WITH_IMM, 0, 0, 0);
    request->imm_data = immediate(list->link, GW_RDMA_CREDIT);
    close_entry(list, NULL, (struct gw_rdma_posted){.requests = 1});
}

/*
 * A window cannot be registered: no put will ever come into it over this link.
 * The opener decides what follows; it is told, unless this side is the opener.
 */
static void give_up(struct gw_rdma_link *link,
                    const struct gw_rdma_region *region)
{
    uint8_t bytes[GW_RDMA_BYE_BYTES] = {0};
    struct gw_error error;
    gw_rdma_register_why(region->bytes, region->number, &error);
    if (!link->connection.listener) {
        gw_rdma_fail(link, GW_EUNSUPPORTED, error.text);
        return;
    }
    gw_log_error(link->rdma->base.loop->log, "%s: %s", link->base.remote,
                 error.text);
    link->in.wanted = 0;
    snprintf((char *)bytes + 4, GW_RDMA_BYE_TEXT_MAX, "%.*s",
             GW_RDMA_BYE_TEXT_MAX - 1, error.text);
    gw_rdma_send_own(link, GW_RDMA_BYE, bytes, sizeof bytes);
}

/* Grants windows that the peer has asked for, once they are registered. 0: the
   link is over. */
static int add_grants(struct list *list)
{
    struct gw_rdma_link *link = list->link;
    for (uint32_t i = 0; i < GW_WINDOWS_MAX && link->in.wanted; i++) {
        const struct gw_window *window =
            link->base.windows ? &link->base.windows->window[i] : NULL;
        uint8_t bytes[GW_RDMA_GRANT_BYTES];
        if (!(link->in.wanted & 1u << i))
            continue;
        if (!window || window->id == GW_WINDOW_NONE) {
            gw_rdma_fail(link, GW_EPROTO, "asked for a window that has closed");
            return 0;
        }
        struct gw_rdma_region *region =
            gw_rdma_domain_window(link->domain, window->id);
        if (!region || region->state == GW_RDMA_REGION_BUSY)
            continue;
        if (region->state == GW_RDMA_REGION_FAILED) {
            give_up(link, region);
            return 0;
        }
        if (!has_credit(link) || !has_room(list, 1))
            return 1;
        gw_put_u32(bytes, window->id);
        gw_put_u32(bytes + 4, region->mr->rkey);
        gw_put_u64(bytes + 8, region->offset);
        gw_put_u64(bytes + 16, region->bytes);
        add_own(list, GW_RDMA_GRANT, bytes, sizeof bytes);
        link->in.wanted &= (uint8_t) ~(1u << i);
    }
    return 1;
}

/* ---- frames ---- */

/* The next piece of a message; 0: no room, or it was its last. */
static int add_piece(struct list *list)
{
    struct gw_rdma_link *link = list->link;
    struct gw_rdma_out *out = &link->out;
    struct gw_send *send = out->message;
    if (!has_credit(link) || !has_room(list, 1))
        return 0;
    uint8_t *slot = gw_rdma_out_slot(link, out->next);
    size_t header = 0, n = send->frame.length - out->message_at;
    if (out->message_at == 0) {
        gw_send_seal(send, slot);
        header = GW_FRAME_BYTES;
    }
    if (n > GW_RDMA_PIECE_BYTES)
        n = GW_RDMA_PIECE_BYTES;
    if (n > 0)
        memcpy(slot + header, (const uint8_t *)send->payload + out->message_at,
               n);
    out->message_at += n;
    int last = out->message_at == send->frame.length;
    add_slot(list, last ? GW_RDMA_LAST : GW_RDMA_MORE, slot,
             (uint32_t)(header + n));
    close_entry(list, last ? send : NULL,
                (struct gw_rdma_posted){.requests = 1});
    if (last)
        out->message = NULL;
    return 1;
}

/* Credits need no credit of the peer's, but some of the spare receives that it
   has for them. The next request meets an error of the queue pair again. */
static int may_add_credit(const struct list *list)
{
    const struct gw_rdma_out *out = &list->link->out;
    return out->next - out->first < GW_RDMA_SPARE / 2 && has_room(list, 1);
}

/* Gives signs of life while the link is stalled, since a stall may take longer
   than the silence that a peer tolerates. */
static void on_keepalive(struct gw_timer *timer)
{
    struct gw_rdma_link *link =
        GW_CONTAINER(timer, struct gw_rdma_link, connection.timer);
    struct list list;
    if (!link->out.stalled)
        return;
    begin(&list, link);
    gw_timer_start(link->rdma->base.loop, timer, STALL_US);
    gw_rdma_make_dirty(link);
    if (link->out.stalled++ % KEEPALIVE == 0 && may_add_credit(&list)) {
        add_credit(&list);
        post(&list);
    }
}

int gw_rdma_pulse(struct gw_link *base, struct gw_send *beat)
{
    struct gw_rdma_link *link = gw_rdma_link_of(base);
    struct ibv_send_wr *bad;
    struct list list;
    (void)beat;
    begin(&list, link);
    if (!may_add_credit(&list))
        return 0;
    add_credit(&list);
    base->sent_us = gw_loop_now(link->rdma->base.loop);
    (void)ibv_post_send(link->qp, list.request, &bad);
    return 0;
}

static void stall(struct gw_rdma_link *link)
{
    if (link->out.stalled)
        return;
    link->out.stalled = 1;
    link->connection.timer.fire = on_keepalive;
    gw_timer_start(link->rdma->base.loop, &link->connection.timer, STALL_US);
}

static void go_on(struct gw_rdma_link *link)
{
    if (!link->out.stalled)
        return;
    link->out.stalled = 0;
    gw_timer_stop(link->rdma->base.loop, &link->connection.timer);
}

static int covers(const struct gw_rdma_grant *grant,
                  const struct gw_frame *frame)
{
    return grant->window == frame->window && frame->offset <= grant->bytes &&
           frame->length <= grant->bytes - frame->offset;
}

/* Asks the peer for the window, once; the peer judges the header as if the put
   had come. */
static int ask(struct list *list, struct gw_send *send)
{
    struct gw_rdma_out *out = &list->link->out;
    uint8_t header[GW_FRAME_BYTES];
    stall(list->link);
    if (out->asked != GW_WINDOW_NONE)
        return 0;
    if (!has_credit(list->link) || !has_room(list, 1))
        return 0;
    gw_send_seal(send, header);
    send->crc_known = 1;
    add_own(list, GW_RDMA_ASK, header, sizeof header);
    out->asked = send->frame.window;
    return 0;
}

/* Place of a payload, for the device. */
struct source {
    uint32_t key;
    uint64_t place;
    struct ibv_mr *own; /* registered for this payload alone */
};

/* Registers a single payload, in memory that is not registered as a whole;
   never for a GPU's memory, which is not mapped like the host's. */
static struct ibv_mr *register_alone(const struct gw_rdma_link *link,
                                     const struct gw_send *send)
{
    return link->rdma->lib.reg_mr(link->domain->pd,
                                  (void *)(uintptr_t)send->payload,
                                  send->frame.length, 0);
}

/* 0: it has to wait, or the link is over. */
static int find_source(struct gw_rdma_link *link,
                       const struct gw_send *send,
                       struct source *source)
{
    struct gw_error error;
    const struct gw_rdma_region *region = gw_rdma_domain_registered(
        link->domain, send->payload, send->frame.length);
    if (region && region->state == GW_RDMA_REGION_BUSY) {
        stall(link);
        return 0;
    }
    if (region && region->state == GW_RDMA_REGION_READY) {
        size_t at = (size_t)((const uint8_t *)send->payload -
                             (const uint8_t *)region->base);
        *source = (struct source){region->mr->lkey, region->offset + at, NULL};
        return 1;
    }
    if (region && !gw_memory_is_host_accessible(region->memory.kind)) {
        gw_rdma_register_why(region->bytes, region->number, &error);
        gw_rdma_refuse_device_memory(link, error.text);
        return 0;
    }
    struct ibv_mr *own = register_alone(link, send);
    if (own) {
        *source = (struct source){own->lkey, (uintptr_t)send->payload, own};
        return 1;
    }
    gw_rdma_register_why(send->frame.length, errno, &error);
    gw_rdma_fail(link, GW_EUNSUPPORTED, error.text);
    return 0;
}

/* A put without a payload is its header alone. 0: it has to wait. */
static int add_put(struct list *list, struct gw_send *send)
{
    struct gw_rdma_link *link = list->link;
    struct gw_rdma_out *out = &link->out;
    const struct gw_frame *frame = &send->frame;
    const struct gw_rdma_grant *grant =
        &out->grant[frame->window % GW_WINDOWS_MAX];
    uint32_t requests = frame->length > 0 ? 2 : 1;
    struct source source = {.own = NULL};
    if (!covers(grant, frame))
        return ask(list, send);
    if (!has_credit(link) || !has_room(list, requests))
        return 0;
    if (frame->length > 0 && !find_source(link, send, &source))
        return 0;
    go_on(link);
    gw_link_next(&link->base);
    uint8_t *header = gw_rdma_out_slot(link, out->next);
    gw_send_seal(send, header);
    if (frame->length > 0) {
        struct ibv_send_wr *put = add(list, IBV_WR_RDMA_WRITE, source.place,
                                      frame->length, source.key);
        put->wr.rdma.remote_addr = grant->offset + frame->offset;
        put->wr.rdma.rkey = grant->key;
    }
    struct ibv_send_wr *commit =
        add(list, IBV_WR_RDMA_WRITE_WITH_IMM, (uintptr_t)header, GW_FRAME_BYTES,
            link->mr->lkey);
    commit->imm_data = immediate(link, GW_RDMA_PUT);
    commit->wr.rdma.remote_addr =
        out->ring + out->puts++ % GW_RDMA_DEPTH * GW_FRAME_BYTES;
    commit->wr.rdma.rkey = out->key;
    if (GW_FRAME_BYTES <= link->inline_bytes)
        commit->send_flags |= IBV_SEND_INLINE;
    out->sent++;
    close_entry(list, send,
                (struct gw_rdma_posted){.mr = source.own,
                                        .bytes = frame->length,
                                        .requests = requests});
    return 1;
}

/* Non-zero if header and payload fit into one inline request, copied by both
   sides: a put arrives sooner than with two requests, and needs no grant. */
static int is_brief(const struct gw_rdma_link *link, const struct gw_send *send)
{
    return GW_BRIEF_BYTES + send->frame.length <= link->inline_bytes &&
           !gw_rdma_is_device_memory(link->rdma, send->payload);
}

static int add_brief(struct list *list)
{
    struct gw_rdma_link *link = list->link;
    if (!has_credit(link) || !has_room(list, 1))
        return 0;
    struct gw_send *send = gw_link_next(&link->base);
    uint8_t *slot = gw_rdma_out_slot(link, link->out.next);
    gw_send_check(send);
    gw_brief_encode(&send->frame, slot);
    if (send->frame.length > 0)
        memcpy(slot + GW_BRIEF_BYTES, send->payload, send->frame.length);
    add_slot(list, GW_RDMA_BRIEF, slot, GW_BRIEF_BYTES + send->frame.length);
    close_entry(list, send, (struct gw_rdma_posted){.requests = 1});
    return 1;
}

/* Adds the next queued send; 0: there is none, or it has to wait. */
static int add_next(struct list *list)
{
    struct gw_rdma_out *out = &list->link->out;
    if (out->message)
        return add_piece(list);
    struct gw_send *send = gw_link_first(&list->link->base);
    if (!send)
        return 0;
    if (is_brief(list->link, send))
        return add_brief(list);
    if (send->frame.window != GW_WINDOW_NONE) {
        if (!gw_rdma_flight_takes(&out->flight, send->frame.length))
            return 0;
        return add_put(list, send);
    }
    out->message = gw_link_next(&list->link->base);
    out->message_at = 0;
    return add_piece(list);
}

static void update_flight(struct gw_rdma_link *link)
{
    if (gw_rdma_flight_update(&link->out.flight))
        gw_log_debug(link->rdma->base.loop->log,
                     "%s: the device had nothing left to send, up to %zu KiB "
                     "are on their way from now on",
                     link->base.remote, link->out.flight.room >> 10);
}

void gw_rdma_write(struct gw_rdma_link *link)
{
    struct list list;
    update_flight(link);
    begin(&list, link);
    do {
        if (!add_grants(&list))
            return;
        while (link->base.up && add_next(&list))
            continue;
        if (!link->base.up)
            return;
        if ((uint16_t)(link->in.taken - link->in.told) >= TELL &&
            has_room(&list, 1))
            add_credit(&list);
    } while (list.n > 0 && post(&list) && link->base.up);
}
