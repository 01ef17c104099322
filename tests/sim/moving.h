/* What tests of jobs share whose shards move, and whose servers leave. Each
   fails the test where its words do not hold. */
#ifndef TESTS_SIM_MOVING_H
#define TESTS_SIM_MOVING_H

#include "tests/sim/cluster.h"

#define MOVING_LIMIT_US 120000000

/* A job of 40 steps, or as the settings say; NULL: none. */
void moving_open(struct cluster *cluster,
                 const char *copies,
                 const char *more,
                 const char *most);
/* Its workers are slow, so that it takes time. */
void moving_slow(struct cluster *cluster);
/* The bits of the job without copies. */
void moving_calm(struct cluster *cluster,
                 const char *more,
                 const char *most,
                 char hex[65]);
/* The job is complete, with these bits, and is closed. */
void moving_comes_to(struct cluster *cluster, const char *hex);

/* For cluster_run_until; the owner is the cluster. */
int moving_has_copies(void *cluster);
int moving_has_a_place(void *cluster);
int moving_has_saved(void *cluster);
int moving_one_moves(void *cluster);

/* Server `who` dies, when all shards have two copies, and another one comes. */
void moving_replace(struct cluster *cluster, size_t who);

/* The thread that is told to leave; NULL: none is. */
struct gw_seat *moving_seat(const struct cluster *cluster);

/* By a thread that does not move. */
void moving_ask_to_leave(struct cluster *cluster, size_t who);

/* Settings, of which each job comes to the same bits. */
struct moving_row {
    const char *more, *most;
};
#define MOVING_ROWS 6
extern const struct moving_row moving_rows[MOVING_ROWS];

#endif
