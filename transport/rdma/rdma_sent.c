/* Messages that have left, or never will: their sends are given back. */
#include "config.h"

#include "transport/rdma/rdma.h"

static void deregister(struct gw_rdma_link *link, struct gw_rdma_posted *posted)
{
    if (posted->mr)
        link->rdma->lib.dereg_mr(posted->mr);
    posted->mr = NULL;
}

static void finish_first(struct gw_rdma_link *link, enum gw_status status)
{
    struct gw_rdma_out *out = &link->out;
    struct gw_rdma_posted *first = &out->posted[out->first % GW_RDMA_SENDS];
    struct gw_send *send = first->send;
    deregister(link, first);
    out->requests -= first->requests;
    out->flight.bytes -= first->bytes;
    *first = (struct gw_rdma_posted){.send = NULL};
    out->first++;
    if (send)
        send->done(send, status);
}

void gw_rdma_sent(struct gw_rdma_link *link, uint32_t posted)
{
    struct gw_rdma_out *out = &link->out;
    link->base.sent_us = link->rdma->now_us;
    /* numbers wrap at the bit that marks receives */
    while (link->connection.state != GW_CONNECTION_CLOSED &&
           out->first != out->next &&
           ((posted - out->first) & ~GW_RDMA_RECEIVE) < GW_RDMA_SENDS)
        finish_first(link, GW_OK);
    if (link->base.up)
        gw_rdma_make_dirty(link);
}

void gw_rdma_unregister(struct gw_rdma_link *link)
{
    struct gw_rdma_out *out = &link->out;
    for (uint32_t i = out->first; i != out->next; i++)
        deregister(link, &out->posted[i % GW_RDMA_SENDS]);
}

void gw_rdma_give_back(struct gw_rdma_link *link)
{
    struct gw_rdma_out *out = &link->out;
    struct gw_send *message = out->message;
    out->message = NULL;
    while (out->first != out->next)
        finish_first(link, GW_ECLOSED);
    if (message)
        message->done(message, GW_ECLOSED);
}
