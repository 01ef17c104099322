/*
 * Everything that a client needs from outside: its loop, its transports, the
 * coordinator's address, and the identity of this process.
 */
#ifndef GW_WORKER_CLIENT_OPTIONS_H
#define GW_WORKER_CLIENT_OPTIONS_H

#include <stdint.h>

#include "proto/control.h"
#include "proto/log.h"
#include "proto/login.h"
#include "proto/metrics.h"

struct gw_loop;
struct gw_secret;
struct gw_transport_ops;

struct gw_client_options {
    struct gw_loop *loop; /* this client's alone; the caller closes it */
    const struct gw_transport_ops *transport;   /* to the coordinator */
    const struct gw_transport_ops *const *data; /* see gw_member_options */
    const struct gw_transport_ops
        *host_group;                /* to workers of this host with which
                                 it sums gradients; NULL: none */
    const char *interface;          /* to dial from, "" for the default */
    const char *control_interface;  /* the same for the coordinator; may be
                                       NULL */
    const struct gw_secret *secret; /* the job's; NULL: it has none */
    const char *coordinator;        /* address to join */
    const char *host;               /* name of this host, for people */
    uint64_t machine; /* equal for processes that share a kernel */
    uint32_t pid;
    uint32_t rank; /* wanted, or GW_RANK_NONE */
    struct gw_need need;
    uint64_t join_us;    /* 0: the default */
    uint64_t silence_us; /* until the coordinator says it; 0: the default */
    struct gw_log *log;
    struct gw_metrics *metrics;
    /* asked on the loop, a few times a second: a line ends the client, also
       while it waits; NULL: it goes on. May be NULL */
    const char *(*gives_up)(void *owner);
    void *owner; /* for gives_up */
};

#endif
