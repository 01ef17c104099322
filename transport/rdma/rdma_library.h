/*
 * libibverbs and librdmacm, loaded when RDMA is first asked for: a program, or
 * a process that has loaded libgradweir.so, runs without them on a host that
 * has none. Their functions are found by name; inline ones of verbs.h, such as
 * ibv_post_send and ibv_poll_cq, go through the device's context and need no
 * entry here.
 */
#ifndef GW_TRANSPORT_RDMA_LIBRARY_H
#define GW_TRANSPORT_RDMA_LIBRARY_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>

#include "proto/status.h"

/* Symbols, and the names by which the transport calls them. */
#define GW_RDMA_VERBS(X)                                                       \
    X(ibv_ack_async_event, ack_async_event)                                    \
    X(ibv_ack_cq_events, ack_cq_events)                                        \
    X(ibv_alloc_pd, alloc_pd)                                                  \
    X(ibv_close_device, close_device)                                          \
    X(ibv_create_comp_channel, create_comp_channel)                            \
    X(ibv_create_cq, create_cq)                                                \
    X(ibv_create_qp, create_qp)                                                \
    X(ibv_dealloc_pd, dealloc_pd)                                              \
    X(ibv_dereg_mr, dereg_mr)                                                  \
    X(ibv_destroy_comp_channel, destroy_comp_channel)                          \
    X(ibv_destroy_cq, destroy_cq)                                              \
    X(ibv_destroy_qp, destroy_qp)                                              \
    X(ibv_event_type_str, event_type_str)                                      \
    X(ibv_free_device_list, free_device_list)                                  \
    X(ibv_get_async_event, get_async_event)                                    \
    X(ibv_get_cq_event, get_cq_event)                                          \
    X(ibv_get_device_list, get_device_list)                                    \
    X(ibv_modify_qp, modify_qp)                                                \
    X(ibv_open_device, open_device)                                            \
    X(ibv_query_device, query_device)                                          \
    X(_ibv_query_gid_table, query_gid_table)                                   \
    X(ibv_query_port, query_port)                                              \
    X(ibv_reg_dmabuf_mr, reg_dmabuf_mr)                                        \
    X(ibv_reg_mr, reg_mr)                                                      \
    X(ibv_reg_mr_iova, reg_mr_iova)                                            \
    X(ibv_resize_cq, resize_cq)                                                \
    X(ibv_wc_status_str, wc_status_str)
#define GW_RDMA_CM(X)                                                          \
    X(rdma_accept, accept)                                                     \
    X(rdma_ack_cm_event, ack_cm_event)                                         \
    X(rdma_bind_addr, bind_addr)                                               \
    X(rdma_connect, connect)                                                   \
    X(rdma_create_event_channel, create_event_channel)                         \
    X(rdma_create_id, create_id)                                               \
    X(rdma_destroy_event_channel, destroy_event_channel)                       \
    X(rdma_destroy_id, destroy_id)                                             \
    X(rdma_establish, establish)                                               \
    X(rdma_event_str, cm_event_str)                                            \
    X(rdma_get_cm_event, get_cm_event)                                         \
    X(rdma_init_qp_attr, init_qp_attr)                                         \
    X(rdma_listen, listen)                                                     \
    X(rdma_reject, reject)                                                     \
    X(rdma_resolve_addr, resolve_addr)                                         \
    X(rdma_resolve_route, resolve_route)

struct gw_rdma_library {
#define GW_RDMA_POINTER(symbol, name) __typeof__(symbol) *name;
    GW_RDMA_VERBS(GW_RDMA_POINTER)
    GW_RDMA_CM(GW_RDMA_POINTER)
#undef GW_RDMA_POINTER
};

/*
 * Fills the table. GW_EUNSUPPORTED: a library is not here, or is older than
 * rdma-core 34; the reason in words. The libraries stay loaded, as librdmacm
 * keeps devices open until the process ends; each call gives the same
 * functions. Thread: any.
 */
enum gw_status gw_rdma_library_load(struct gw_rdma_library *library,
                                    char *why,
                                    size_t why_bytes);

/* The attributes of a port that libibverbs has had since its version 1.0; the
   others are 0. 0, or an errno. */
int gw_rdma_query_port(const struct gw_rdma_library *library,
                       struct ibv_context *verbs,
                       uint8_t number,
                       struct ibv_port_attr *port);

#endif
