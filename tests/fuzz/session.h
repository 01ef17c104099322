/*
 * The world of fuzz_session.c, fuzz_follower.c and fuzz_standby.c, and of tests
 * in tests/sim that lie to a server: one server, in a simulation with a
 * coordinator that gives the job and then only listens, and with members that
 * are logged in on bare links, without the manners of one.
 */
#ifndef GW_TESTS_FUZZ_SESSION_H
#define GW_TESTS_FUZZ_SESSION_H

#include "proto/config.h"
#include "proto/control.h"
#include "proto/copy.h"
#include "proto/log.h"
#include "proto/metrics.h"
#include "proto/wire.h"
#include "server/server.h"
#include "transport/member/member.h"
#include "transport/sim/sim.h"

#define SESSION_WORKERS 2
#define SESSION_MEMBERS (SESSION_WORKERS + 2)
#define SESSION_COPIES  2 /* more members, where shards have copies */
#define SESSION_SENDERS 3 /* the workers, and shard 1 */
#define SESSION_KEYS    3
#define SESSION_TESTS   5 /* samples to test with: rank 0 has 2, rank 1 has 3 */

#define SESSION_JOB 77
/* Rank of the first sender; the next ones follow. */
#define SESSION_INCARNATION 1000

/* The link of each sender with the server. */
static const struct gw_secret session_pair = {{1}};

struct session_world;

struct session_options {
    const char *const *settings; /* --set assignments, ended by NULL */
    uint32_t number; /* of the shard that is tested: 0 leads, 1 follows */
    int stands_by;   /* it is the copy of shard 0, in a job with copies */
    int near;        /* the senders are where the server is, and are seen */
    int grouped;     /* the workers push sums */
    /* How the coordinator gives the job, to a server at which nobody logs in
       then; NULL: as it should. */
    void (*give)(struct session_world *world);
};

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
    char why[128];   /* its link was closed by the server */
};

struct session_world {
    struct session_options options;
    struct gw_sim *sim;
    struct gw_loop *loop[3]; /* coordinator, server, senders */
    struct gw_member *coordinator;
    struct gw_member *leader; /* shard 0, where the server is another */
    struct gw_peer *to_server, *leader_to_server; /* of these two */
    uint32_t sums, arrays[GW_COPY_ARRAYS]; /* windows of the copy of shard 0 */
    struct gw_server *server;
    struct gw_transport *transport;
    struct session_sender sender[SESSION_SENDERS];
    struct gw_log log;
    struct gw_metrics metrics;
    struct gw_config config;
    struct gw_key key[SESSION_KEYS];
    struct gw_map *map;
    struct gw_view_member member[SESSION_MEMBERS + SESSION_COPIES];
    uint32_t members;
    char server_address[GW_ADDRESS_MAX];
    uint64_t server_incarnation;
    struct gw_quiesced quiesced; /* that shard 0 has heard last: numbers only */
    int ready, finished;
    enum gw_status status;          /* how it finished, */
    char text[GW_ERROR_TEXT_BYTES]; /* and what it said then */
    size_t live;
    float *arena;
    struct gw_control_arena encode, decode;
};

/* Everyone is there and logged in, unless the server was lied to: it may be
   ready then, or finished. Breaks a promise where that fails. NULL: no memory.
 */
struct session_world *session_open(const struct session_options *options);
void session_close(struct session_world *world);

/* The parts of what the coordinator gives, for `give`. */
void session_welcome(struct session_world *world);
/* `n` members, of so many in all. */
void session_view(struct session_world *world, uint32_t n, uint32_t total);
void session_keys(struct session_world *world);
void session_start(struct session_world *world);

/* From the coordinator, and from shard 0 where the server is another; nothing
   once the server has finished. */
void session_coordinate(struct session_world *world,
                        const struct gw_message *message);
void session_lead(struct session_world *world,
                  const struct gw_message *message);

/* A frame from shard 0, with a payload like that of session_send. */
void session_lead_frame(struct session_world *world,
                        const struct gw_frame *frame,
                        const uint8_t *bytes,
                        size_t n);

/* Part of session_open: who may log in does. */
void session_open_senders(struct session_world *world);

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

/* A control message, the next in order. */
void session_tell(struct session_sender *sender,
                  const struct gw_message *message);

/* A push or a seed as it should be, of zeros: the caller may change it. */
struct gw_frame session_put(const struct session_sender *sender,
                            uint8_t kind,
                            uint32_t chunk,
                            uint64_t clock);

/* Wants a chunk at a version; `decision`: of the frame. */
void session_want(struct session_sender *sender,
                  uint32_t chunk,
                  uint64_t version,
                  uint32_t decision);

void session_pass_time(struct session_world *world, uint64_t us);

#endif
