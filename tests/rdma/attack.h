/*
 * An attack over RDMA on a victim: it runs on a thread of its own, beside the
 * victim's loop, to its end.
 */
#ifndef GW_TESTS_ATTACK_H
#define GW_TESTS_ATTACK_H

#include "tests/rdma/hostile.h"
#include "tests/table/victim.h"

struct attack {
    const struct victim *victim;
    uint64_t incarnation; /* of the attacker */
    int (*run)(struct hostile *peer, const struct attack *attack);
    int result; /* of run: 0 when all went as it was meant */
    int done;
    struct gw_task over; /* tells the victim's loop */
};

/* attack->run after a login; where it went as it was meant the attacker stays
   until it is thrown out. */
void attack_run(struct victim *victim, struct attack *attack);
/* A thread that ends with attack_is_over. */
void attack_run_thread(struct victim *victim,
                       struct attack *attack,
                       void *(*main)(void *));
void attack_is_over(struct attack *attack);

/* Fails the test unless an honest peer is served, as before. */
void attack_leaves_others(struct victim *victim, uint64_t incarnation);

#endif
