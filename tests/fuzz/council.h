/*
 * The world of fuzz_coordinator.c, and of tests in tests/sim that lie to a
 * coordinator: one coordinator, in a simulation with a shard and two workers
 * that have joined, and say whatever they are made to say.
 */
#ifndef GW_TESTS_FUZZ_COUNCIL_H
#define GW_TESTS_FUZZ_COUNCIL_H

#include "proto/config.h"
#include "proto/control.h"
#include "proto/log.h"
#include "proto/metrics.h"
#include "server/coordinator/coordinator.h"
#include "transport/member/member.h"
#include "transport/sim/sim.h"

#define COUNCIL_SHARD   0 /* of the members; the others are the workers */
#define COUNCIL_MEMBERS 3
#define COUNCIL_STEPS   9 /* of the job */
#define COUNCIL_TESTS   5 /* samples to test with */

struct council_member {
    struct gw_loop *loop;
    struct gw_member *member;
    struct gw_peer *peer; /* the coordinator */
    uint32_t window;      /* the coordinator's, for what it writes; else none */
    uint32_t keys;        /* of the model, that it was told in their order */
    int down;             /* links that broke */
    enum gw_status ended; /* it was told that the job is over, */
    int has_ended;
};

struct council {
    struct gw_sim *sim;
    struct gw_loop *loop;
    struct gw_coordinator *coordinator;
    struct gw_config config;
    struct gw_log log;
    struct gw_metrics metrics;
    struct council_member member[COUNCIL_MEMBERS];
    int running, finished;
    uint64_t steps, scores; /* that were told */
    enum gw_status status;
    char text[GW_ERROR_TEXT_BYTES];
};

/* The job runs; `settings` are --set assignments over a small one, ended by
   NULL. Breaks a promise where that fails. NULL: no memory. */
struct council *council_open(const char *const *settings);
/* The same of a model with such keys, which the caller keeps meanwhile. */
struct gw_key;
struct council *council_open_with(const char *const *settings,
                                  const struct gw_key *keys,
                                  uint32_t n);
void council_close(struct council *council);

/* Nothing once the job is over. */
void council_tell(struct council *council,
                  unsigned member,
                  const struct gw_message *message);
/* A piece of a file, into the window that the coordinator gave. */
void council_put(struct council *council,
                 unsigned member,
                 const struct gw_frame *frame);
void council_pass_time(struct council *council, uint64_t us);

/* A member's file in a checkpoint. */
const char *council_file(unsigned member);

#endif
