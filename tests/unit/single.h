/*
 * A server of one shard without a network: the frames of its workers go in as
 * the member would hand them on, and its answers come out of links that have
 * copied them when they are sent. All that lies between is a server's own.
 */
#ifndef GW_TESTS_SINGLE_H
#define GW_TESTS_SINGLE_H

#include "server/commit.h"
#include "server/server_state.h"
#include "transport/member/member_state.h"
#include "transport/sim/sim.h"

#define SINGLE_RANKS 4

struct single;

/* Called for each answer, whose payload lasts for the call. */
typedef void (*single_answered)(void *owner,
                                uint32_t rank,
                                const struct gw_frame *frame,
                                const void *payload);

struct single_seat {
    struct single *single;
    uint32_t rank;
    struct gw_link link;
    struct gw_peer_link peer_link;
    struct gw_peer peer;
};

/* Large: not on the stack. */
struct single {
    struct gw_sim *sim;
    struct gw_member member;
    struct gw_transport transport;
    struct gw_metrics metrics;
    struct gw_server server;
    struct single_seat seat[SINGLE_RANKS];
    single_answered answered;
    void *owner;
};

/* Several settings, ended by NULL. */
#define SETTINGS(...)                                                          \
    (const char *const[])                                                      \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }

/*
 * Opens a server of a job with 4 workers and 32 samples a step, as the settings
 * of both lists say. Chunks have no weights yet, and nobody is connected. Fails
 * the test on any error.
 */
void single_open(struct single *single,
                 const struct gw_key *keys,
                 size_t n_keys,
                 uint64_t total_steps,
                 const char *const *job,
                 const char *const *more);
void single_close(struct single *single);

/*
 * Every worker is connected, and the server leads the job where it commits
 * whole steps. `answered` is called from within the calls below.
 */
void single_connect(struct single *single,
                    single_answered answered,
                    void *owner);

/* The weights of a chunk as rank 0 brings them. */
void single_seed(struct single *single, uint32_t chunk, const float *w);

/* A push of one chunk, whose elements are at `push`; samples = 0: without. */
void single_push(struct single *single,
                 uint32_t rank,
                 uint32_t chunk,
                 uint64_t clock,
                 uint32_t samples,
                 const float *push);

/* Asks for a chunk, with the condition that the policy makes of `clock`. */
void single_want(struct single *single,
                 uint32_t rank,
                 uint32_t chunk,
                 uint64_t clock);

/* Runs what the server has posted to its loop. */
void single_settle(struct single *single);

#endif
