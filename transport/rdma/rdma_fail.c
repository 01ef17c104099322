/* Failures of a device, told in words: requests, and memory of a GPU. */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

void gw_rdma_register_why(size_t bytes, int number, struct gw_error *error)
{
    struct rlimit limit;
    if (number == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY) {
        gw_fail(error, GW_ENOMEM,
                "cannot register %zu MiB for RDMA: this process may lock %llu "
                "KiB of memory; raise it (ulimit -l unlimited, or memlock in "
                "/etc/security/limits.conf, or LimitMEMLOCK= of its service)",
                (bytes >> 20) + 1, (unsigned long long)limit.rlim_cur >> 10);
        return;
    }
    gw_fail(error, GW_ENOMEM, "cannot register %zu MiB for RDMA: %s",
            (bytes >> 20) + 1, strerror(number));
}

void gw_rdma_refuse_device_memory(struct gw_rdma_link *link, const char *why)
{
    struct gw_rdma_reach *reach = &link->rdma->reach;
    *reach = (struct gw_rdma_reach){
        .asked = 1, .refused = 1, .status = GW_EUNSUPPORTED};
    snprintf(reach->why, sizeof reach->why, "%s", why);
    gw_rdma_fail(link, GW_EAGAIN, why); /* the same route will do */
}

static int has_sent_device_memory(const struct gw_rdma_link *link)
{
    const struct gw_rdma_out *out = &link->out;
    for (uint32_t i = out->first; i != out->next; i++) {
        const struct gw_send *send = out->posted[i % GW_RDMA_SENDS].send;
        if (send && gw_rdma_is_device_memory(link->rdma, send->payload))
            return 1;
    }
    return 0;
}

/* Errors of a device that could not read memory of this host. */
static int is_of_reading(enum ibv_wc_status status)
{
    return status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_QP_OP_ERR ||
           status == IBV_WC_FATAL_ERR || status == IBV_WC_GENERAL_ERR;
}

/* Messages received before have been handled before, and with them the peer's
   reason. */
void gw_rdma_broke(struct gw_rdma_link *link, enum ibv_wc_status status)
{
    char why[128];
    if (status == IBV_WC_RETRY_EXC_ERR) {
        gw_rdma_fail(link, GW_ETIMEOUT, "the peer's device does not answer");
    } else if (status == IBV_WC_REM_ACCESS_ERR ||
               status == IBV_WC_LOC_ACCESS_ERR) {
        gw_rdma_fail(link, GW_EPROTO, "put outside of the windows");
    } else if (is_of_reading(status) && has_sent_device_memory(link)) {
        snprintf(why, sizeof why, "reading the memory of a GPU failed: %s",
                 link->rdma->lib.wc_status_str(status));
        gw_rdma_refuse_device_memory(link, why);
    } else if (status == IBV_WC_WR_FLUSH_ERR) {
        gw_rdma_fail(link, GW_ECLOSED,
                     "the queue pair failed: the connection was lost, or the "
                     "peer wrote where it may not");
    } else {
        snprintf(why, sizeof why, "the queue pair failed: %s",
                 link->rdma->lib.wc_status_str(status));
        gw_rdma_fail(link, GW_ECLOSED, why);
    }
}
