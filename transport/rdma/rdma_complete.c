/* Completions: each belongs to a link, which it is handed to. */
#include "config.h"

#include "transport/rdma/rdma.h"

#define POLL_BATCH 32

static void handle(struct gw_rdma *rdma, const struct ibv_wc *wc)
{
    struct gw_rdma_link *link =
        gw_rdma_link_find(rdma, (uint32_t)(wc->wr_id >> 32));
    if (!link)
        return; /* its link is closed: some devices keep these */
    uint32_t which = (uint32_t)wc->wr_id;
    if (wc->status == IBV_WC_SUCCESS) {
        if (which & GW_RDMA_RECEIVE)
            gw_rdma_received(link, wc);
        else
            gw_rdma_sent(link, which);
    } else {
        gw_rdma_broke(link, wc->status);
    }
}

int gw_rdma_device_poll(struct gw_rdma_device *device)
{
    struct gw_rdma *rdma = device->rdma;
    struct ibv_wc wc[POLL_BATCH];
    int n = device->cq ? ibv_poll_cq(device->cq, POLL_BATCH, wc) : 0;
    for (int i = 0; i < n; i++)
        handle(rdma, &wc[i]);
    return n < 0 ? 0 : n;
}
