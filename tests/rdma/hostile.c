#include "config.h"

#include "tests/rdma/hostile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/rdma_verbs.h>

#include "tests/table/victim.h"
#include "transport/rdma/rdma.h"

#define PAGE       ((size_t)4096)
#define PATIENCE_S 6

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint32_t hostile_value(unsigned type)
{
    return (uint32_t)type << 28;
}

void hostile_greeting(uint64_t incarnation, uint8_t greeting[16])
{
    memcpy(greeting, "GRDM", 4);
    gw_put_u32(greeting + 4, GW_RDMA_VERSION);
    gw_put_u64(greeting + 8, incarnation);
}

int hostile_connect(struct hostile *peer,
                    const char *address,
                    const uint8_t *greeting,
                    size_t n)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = 64,
                .max_recv_wr = 64,
                .max_send_sge = 1,
                .max_recv_sge = 1},
    };
    struct rdma_conn_param param = {.private_data = greeting,
                                    .private_data_len = (uint8_t)n,
                                    .retry_count = 2,
                                    .rnr_retry_count = 2};
    char host[128], *port;
    *peer = (struct hostile){.id = NULL};
    snprintf(host, sizeof host, "%s", address);
    port = strrchr(host, ':');
    *port++ = '\0';
    if (rdma_getaddrinfo(host, port, &hints, &found) != 0)
        return errno;
    int failed = rdma_create_ep(&peer->id, found, NULL, &attr);
    rdma_freeaddrinfo(found);
    if (failed)
        return errno;
    if (posix_memalign((void **)&peer->memory, PAGE, HOSTILE_BYTES) != 0)
        return ENOMEM;
    memset(peer->memory, 0, HOSTILE_BYTES);
    peer->received = peer->memory + HOSTILE_BYTES - PAGE;
    peer->mr = ibv_reg_mr(peer->id->pd, peer->memory, HOSTILE_BYTES,
                          IBV_ACCESS_LOCAL_WRITE);
    for (int i = 0; i < 32 && peer->mr; i++)
        rdma_post_recv(peer->id, NULL, peer->received, PAGE, peer->mr);
    return rdma_connect(peer->id, &param) == 0 ? 0 : errno;
}

/* Made to fail first: what is on its way holds a queue pair of soft-RoCE, and
   its end may wait for that for most of a minute. Not reset: rdma_end.c. */
void hostile_close(struct hostile *peer)
{
    struct ibv_qp_attr fail = {.qp_state = IBV_QPS_ERR};
    if (peer->id && peer->id->qp)
        ibv_modify_qp(peer->id->qp, &fail, IBV_QP_STATE);
    if (peer->id)
        rdma_destroy_ep(peer->id);
    if (peer->mr)
        ibv_dereg_mr(peer->mr);
    free(peer->memory);
    *peer = (struct hostile){.id = NULL};
}

/* The next completion of a queue; 0 when none came in time. */
static int await(struct ibv_cq *cq, struct ibv_wc *wc)
{
    double until = now_s() + PATIENCE_S;
    while (now_s() < until) {
        int n = ibv_poll_cq(cq, 1, wc);
        if (n != 0)
            return n > 0;
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return 0;
}

static enum ibv_wc_status post(struct hostile *peer, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    wr->send_flags = IBV_SEND_SIGNALED;
    if (ibv_post_send(peer->id->qp, wr, &bad) != 0)
        return IBV_WC_GENERAL_ERR;
    return await(peer->id->send_cq, &wc) ? wc.status : IBV_WC_RESP_TIMEOUT_ERR;
}

void hostile_linger(const atomic_int *flag)
{
    double until = now_s() + PATIENCE_S;
    while (!atomic_load(flag) && now_s() < until)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

enum ibv_wc_status hostile_send(struct hostile *peer, uint32_t value, size_t n)
{
    struct ibv_sge part = {(uintptr_t)peer->memory, (uint32_t)n,
                           peer->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &part,
                             .num_sge = n > 0,
                             .opcode = IBV_WR_SEND_WITH_IMM,
                             .imm_data = htonl(value)};
    peer->sent++;
    return post(peer, &wr);
}

enum ibv_wc_status hostile_write(struct hostile *peer,
                                 size_t from,
                                 size_t n,
                                 uint64_t to,
                                 uint32_t key,
                                 uint32_t value)
{
    struct ibv_sge part = {(uintptr_t)(peer->memory + from), (uint32_t)n,
                           peer->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &part,
                             .num_sge = n > 0,
                             .opcode = value ? IBV_WR_RDMA_WRITE_WITH_IMM
                                             : IBV_WR_RDMA_WRITE,
                             .imm_data = htonl(value),
                             .wr.rdma = {.remote_addr = to, .rkey = key}};
    return post(peer, &wr);
}

unsigned hostile_receive(struct hostile *peer)
{
    struct ibv_wc wc;
    if (!await(peer->id->recv_cq, &wc) || wc.status != IBV_WC_SUCCESS ||
        !(wc.wc_flags & IBV_WC_WITH_IMM))
        return 0;
    rdma_post_recv(peer->id, NULL, peer->received, PAGE, peer->mr);
    return ntohl(wc.imm_data) >> 28;
}

void hostile_hello(const struct hostile *peer,
                   uint64_t incarnation,
                   uint8_t hello[GW_RDMA_HELLO_BYTES])
{
    memset(hello, 0, GW_RDMA_HELLO_BYTES);
    victim_hello(incarnation, hello);
    gw_put_u32(hello + GW_HELLO_BYTES, peer->mr->rkey);
}

int hostile_login(struct hostile *peer,
                  const char *address,
                  uint64_t incarnation)
{
    uint8_t greeting[GW_RDMA_PRIVATE_BYTES];
    struct gw_reply reply;
    hostile_greeting(incarnation, greeting);
    if (hostile_connect(peer, address, greeting, sizeof greeting) != 0)
        return -1;
    hostile_hello(peer, incarnation, peer->memory);
    if (hostile_send(peer, hostile_value(GW_RDMA_HELLO), GW_RDMA_HELLO_BYTES) !=
            IBV_WC_SUCCESS ||
        hostile_receive(peer) != GW_RDMA_REPLY ||
        gw_reply_decode(peer->received, &reply) != GW_OK ||
        reply.status != GW_OK)
        return -1;
    peer->session = reply.session;
    peer->ring_key = gw_get_u32(peer->received + GW_REPLY_BYTES);
    peer->ring = gw_get_u64(peer->received + GW_REPLY_BYTES + 8);
    return 0;
}

int hostile_ask(struct hostile *peer, uint32_t window, uint32_t length)
{
    victim_header(peer->session, window, 0, length, peer->memory);
    if (hostile_send(peer, hostile_value(GW_RDMA_ASK), GW_FRAME_BYTES) !=
            IBV_WC_SUCCESS ||
        hostile_receive(peer) != GW_RDMA_GRANT)
        return -1;
    peer->key = gw_get_u32(peer->received + 4);
    peer->offset = gw_get_u64(peer->received + 8);
    peer->bytes = gw_get_u64(peer->received + 16);
    return 0;
}
