/*
 * Destroys queue pairs and their ids. A device may take long to let go of them:
 * on soft-RoCE each packet in flight holds its queue pair, and ibv_destroy_qp
 * and rdma_destroy_id wait up to 50 s for packets that an interface kept when
 * it went down. So a queue pair is only moved to the error state here, after
 * which it sends nothing and nobody writes through it; another thread destroys
 * both, one link after the other, and occupies at most one thread of the loop's
 * pool at a time. The link, which is in no list any more, is freed after that;
 * until then posted requests complete without effect.
 *
 * The error state, not a reset: soft-RoCE of Linux 6.1 resets a queue pair
 * while another processor handles its packets. Both then let go of the same
 * packet, the device is counted as gone, and it carries nothing any more.
 */
#include "config.h"

#include "transport/rdma/rdma.h"

static void run_ends(struct gw_work *work)
{
    const struct gw_rdma *rdma = work->owner;
    for (const struct gw_rdma_link *one = rdma->ending; one; one = one->later) {
        rdma->lib.destroy_id(one->id); /* tells the peer as well */
        rdma->lib.destroy_qp(one->qp);
    }
}

static void begin_ends(struct gw_rdma *rdma);

static void done_ends(struct gw_work *work)
{
    struct gw_rdma *rdma = work->owner;
    while (rdma->ending) {
        struct gw_rdma_link *link = rdma->ending;
        rdma->ending = link->later;
        link->qp = NULL; /* the next poll frees it */
        link->id = NULL;
        gw_rdma_device_release(link->left->device);
        gw_rdma_domain_release(link->left);
    }
    begin_ends(rdma);
    gw_rdma_handle_gone(rdma);
}

static void begin_ends(struct gw_rdma *rdma)
{
    if (rdma->ending || !rdma->to_end)
        return;
    rdma->ending = rdma->to_end;
    rdma->to_end = NULL;
    rdma->ends =
        (struct gw_work){.run = run_ends, .done = done_ends, .owner = rdma};
    rdma->handles++;
    gw_loop_work(rdma->base.loop, &rdma->ends);
}

static void end_here(struct gw_rdma_link *link)
{
    const struct gw_rdma_library *lib = &link->rdma->lib;
    if (link->qp)
        lib->destroy_qp(link->qp);
    if (link->id)
        lib->destroy_id(link->id);
    link->qp = NULL;
    link->id = NULL;
}

void gw_rdma_end(struct gw_rdma_link *link)
{
    struct gw_rdma *rdma = link->rdma;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (!link->qp || rdma->lib.modify_qp(link->qp, &attr, IBV_QP_STATE) != 0) {
        end_here(link); /* nothing else stops it, or there is no queue pair */
        return;
    }
    link->id->context = NULL; /* its events are ignored from now on */
    link->left = link->domain;
    gw_rdma_domain_hold(link->left);
    link->later = rdma->to_end;
    rdma->to_end = link;
    begin_ends(rdma);
}
