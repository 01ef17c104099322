/*
 * A process that is no part of the job, or plays one that is: it logs in at a
 * member of a simulated cluster, says what a test has it say, and keeps what it
 * hears.
 */
#ifndef GW_TESTS_STRANGER_H
#define GW_TESTS_STRANGER_H

#include "tests/sim/cluster.h"
#include "transport/member/member.h"

struct stranger {
    struct gw_loop *loop;
    struct gw_member *member;
    struct gw_peer *peer;
    int up, down;
    int gets_ready; /* as a shard, when it is told to */
    enum gw_status lost, ended, answered;
    char why[256], text[256], answer[256];
};

/* A process of the cluster's world that dials `address`, where a member of
   `peer_role` should be; `job`: 0 for any. Fails the test on errors. */
void stranger_open(struct stranger *stranger,
                   struct cluster *cluster,
                   uint64_t job,
                   const char *address,
                   uint8_t role,
                   uint32_t rank,
                   uint8_t peer_role);
/* The same under an incarnation that is another's. */
void stranger_open_as(struct stranger *stranger,
                      struct cluster *cluster,
                      uint64_t job,
                      const char *address,
                      uint8_t role,
                      uint32_t rank,
                      uint64_t incarnation,
                      uint8_t peer_role);
void stranger_close(struct stranger *stranger);

void stranger_tell(struct stranger *stranger, const struct gw_message *message);

/* Opens one that joins the coordinator in place of a member: rank 1, or a shard
   that says it listens at stranger:1. */
void stranger_join(struct stranger *stranger,
                   struct cluster *cluster,
                   uint8_t role);

/* For cluster_run_until, with the stranger for their owner. */
int stranger_is_lost(void *stranger);
int stranger_is_up(void *stranger);
int stranger_is_down(void *stranger);

#endif
