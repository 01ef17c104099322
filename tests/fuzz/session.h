/*
 * The world of fuzz_session.c: a server after login, in a simulation with a
 * coordinator that gives the job and then only listens, and with members that
 * are logged in on bare links, without the manners of one.
 */
#ifndef GW_TESTS_FUZZ_SESSION_H
#define GW_TESTS_FUZZ_SESSION_H

#include "proto/config.h"
#include "proto/control.h"
#include "proto/log.h"
#include "proto/metrics.h"
#include "proto/wire.h"
#include "server/server.h"
#include "transport/member.h"
#include "transport/sim.h"

#define SESSION_WORKERS 2
#define SESSION_SENDERS 3 /* the workers, and shard 1 */
#define SESSION_KEYS    3

struct session_world;

/* A member that is logged in, without the manners of one. */
struct session_sender {
    struct session_world *world;
    uint8_t role;
    uint32_t rank, generation;
    struct gw_link *link;
    int up;
    struct gw_windows windows;
    uint32_t weights, landing, seeds;
    uint64_t number; /* of its last control message */
};

struct session_world {
    struct gw_sim *sim;
    struct gw_loop *loop[3]; /* coordinator, server, senders */
    struct gw_member *coordinator;
    struct gw_server *server;
    struct gw_transport *transport;
    struct session_sender sender[SESSION_SENDERS];
    struct gw_log log;
    struct gw_metrics metrics;
    struct gw_config config;
    struct gw_key key[SESSION_KEYS];
    struct gw_map *map;
    char server_address[GW_ADDRESS_MAX];
    uint64_t server_incarnation;
    int ready, finished;
    size_t live;
    float *arena;
    struct gw_control_arena encode, decode;
};

/* Everyone is there, logged in, and ready; `whole`: train.commit;
   `near`: the senders are where the server is, and see each other. Breaks a
   promise where that fails. NULL: no memory. */
struct session_world *session_open(int whole, int near);
void session_close(struct session_world *world);

/* Logs in again, on a new connection. */
void session_dial(struct session_sender *sender);

/*
 * Sends what a transport would let through: the header is read back first. The
 * payload is `bytes` over and over, as far as the frame's length goes.
 */
void session_send(struct session_sender *sender,
                  const struct gw_frame *frame,
                  const uint8_t *bytes,
                  size_t n);

void session_pass_time(struct session_world *world, uint64_t us);

#endif
