/*
 * A server thread: one shard, its loop, its links. A process with several
 * threads runs several of these side by side; nothing is shared between them.
 *
 * A state machine: opened, it joins the coordinator and obeys it until the job
 * ends. Everything happens on the loop's thread.
 */
#ifndef GW_SERVER_SERVER_H
#define GW_SERVER_SERVER_H

#include <stdint.h>

#include "proto/control.h"
#include "proto/log.h"
#include "proto/colocated.h"
#include "proto/metrics.h"
#include "proto/secret.h"
#include "proto/status.h"
#include "transport/link/loop.h"
#include "transport/link/transport.h"

struct gw_server;

struct gw_server_options {
    struct gw_loop *loop;
    const struct gw_transport_ops *transport;   /* to the coordinator */
    const struct gw_transport_ops *const *data; /* see gw_member_options */
    const char *interface;          /* to bind, "" for the default */
    const char *control_interface;  /* to dial the coordinator from, "" or NULL
                                       for the default */
    const char *coordinator;        /* address to join */
    const struct gw_secret *secret; /* the job's; NULL: it has none */
    const char *listen;             /* address to listen on, port 0 for any */
    const char *advertise; /* host that others dial, or "" for `listen`'s */
    const char *host;      /* name of this host, for people */
    uint64_t machine;      /* equal for processes that share a kernel */
    uint64_t process;      /* equal for the threads of one process */
    uint32_t pid;
    uint32_t threads, thread;
    int again; /* it follows another server of this thread, which ended with
                  GW_EAGAIN, and so does this one where the coordinator dies
                  before it has begun */
    struct gw_need need;
    uint64_t join_us;    /* 0: the default */
    uint64_t silence_us; /* until the coordinator says it; 0: the default */
    struct gw_log *log;
    struct gw_metrics *metrics; /* of this thread */
    /* Called once, on the loop, when all members have joined and before the
       shard has memory; may be NULL. The colocated are the server's. */
    void (*colocated)(void *owner, const struct gw_colocated *colocated);
    /* Called once, on the loop, when the job is over: why, in one line.
       GW_EAGAIN: it is not, and wants another server of this thread, opened
       with the same options and `again`, when this one is closed. */
    void (*finished)(void *owner, enum gw_status status, const char *text);
    void *owner;
};

/* Everything the options point to outlives the server. */
enum gw_status gw_server_open(const struct gw_server_options *options,
                              struct gw_server **server_p,
                              struct gw_error *error);

/* Asks the coordinator to stop the job, as a signal does. */
void gw_server_stop(struct gw_server *server, const char *why);

/* Asks the coordinator to let this server's process leave, with all its
   threads, and the job go on; where that cannot be the job is stopped. */
void gw_server_leave(struct gw_server *server, const char *why);

/* Not from within `finished`. */
void gw_server_close(struct gw_server *server);

#endif
