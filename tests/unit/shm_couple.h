/*
 * Two threads with a link in shared memory between them: each has a loop and a
 * transport of its own, which it drives by hand, so that they meet where the
 * loop would have them meet once in a while. Both map the link's memory, and
 * the window of the one that was dialled, at one address, for a sanitizer that
 * knows memory by its address.
 */
#ifndef GW_TESTS_SHM_COUPLE_H
#define GW_TESTS_SHM_COUPLE_H

#include <stdatomic.h>

#include "transport/shm/shm.h"

#define SHM_COUPLE_SENDS 4
#define SHM_COUPLE_WORDS (12u << 10) /* of a payload, and of its place */

/* A frame on its way. */
struct shm_put {
    struct gw_send send;
    uint32_t payload[SHM_COUPLE_WORDS];
    int busy;  /* it has not left */
    int heard; /* the last put is answered, or there was none */
};

struct shm_end {
    const struct gw_transport_ops *ops;
    struct gw_loop *loop;
    struct gw_transport *transport;
    struct gw_listener *listener; /* of a */
    struct gw_link *link;         /* NULL: it is over */
    struct gw_memory memory;
    struct gw_windows windows;
    uint32_t window; /* its own: the memory, a place for each put */
    uint32_t into;   /* the peer's */
    struct shm_put put[SHM_COUPLE_SENDS];
    struct gw_send answer[SHM_COUPLE_SENDS];
    int answer_busy[SHM_COUPLE_SENDS];
    uint64_t sent; /* frames */
    uint64_t puts, answered;
    uint64_t got; /* the number of the last one that came */
    uint64_t random;
    int judges; /* what comes, and answers puts */
    int ups;
    int wrong; /* bytes, or the order of frames */
    int lost;  /* it was to be woken, and was not */
};

struct shm_couple {
    struct shm_end a, b; /* b dials */
    struct gw_acceptor acceptor;
    struct gw_shm_map map; /* of a's memory, as b has it */
    int processor;         /* of the thread that opened it */
    atomic_int stop;
    atomic_uint came; /* to where both meet */
};

/* A link that is up. Fails the test. */
struct shm_couple *shm_couple_open(void);
/* Both threads are one again. */
void shm_couple_close(struct shm_couple *couple);

/* The thread that calls runs on another processor than the one that opened the
   couple, where there is one: two that live for a moment would share it. */
void shm_go_elsewhere(const struct shm_couple *couple);

uint32_t shm_draw(struct shm_end *end);
/* Less than the time for `most` additions. */
void shm_wait_a_little(struct shm_end *end, uint32_t most);

/* Sends a put into the slot's place in the peer's window, or a message through
   the ring. */
void shm_begin(struct shm_end *end, uint32_t slot, int message, size_t words);

/* One look, as the loop has them; the socket is heard for a window that was
   asked for. Whether something was done. */
int shm_look(struct shm_end *end);
/* As the loop does before it sleeps: 0, nothing has come. */
int shm_arm_and_look(struct shm_end *end);

#endif
