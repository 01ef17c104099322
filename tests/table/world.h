/*
 * A place in which a table test runs the same case on every entry: two
 * processes A and B of one transport, driven until a condition holds. For tcp
 * and rdma both live on one real loop; for sim they are two processes of one
 * world.
 * "unix" is tcp over sockets of the file system.
 */
#ifndef GW_TESTS_WORLD_H
#define GW_TESTS_WORLD_H

#include "transport/sim/sim.h"
#include "transport/link/transport.h"

struct world {
    const struct gw_transport_ops *ops;
    struct gw_sim *sim; /* NULL: real */
    struct gw_loop *loop[2];
    struct gw_transport *transport[2];
    char directory[32]; /* of the sockets; "": not unix */
    unsigned sockets;
    char address[GW_ADDRESS_MAX];
};

/*
 * Runs the cases of a table, each with the name of its transport as its state;
 * those of a transport that is not here are left out, and the reason is said.
 * What a program's main returns.
 */
struct CMUnitTest;
int world_run_tests(const char *name, const struct CMUnitTest *tests, size_t n);

/* A case of a table: the test on a transport, by name. */
#define ON(transport, test)                                                    \
    {                                                                          \
        transport "/" #test, test, NULL, NULL, (void *)(uintptr_t)transport    \
    }

void world_open(struct world *world, const char *transport);
void world_close(struct world *world);

/* Runs until done(owner); fails the test after 30 s (real or virtual). */
void world_run(struct world *world, int (*done)(void *owner), void *owner);

/* Lets everything that can still happen within `us` happen. */
void world_settle(struct world *world, uint64_t us);

/* The address on which tests listen: any free port of this host. Lasts until
   the next call. */
const char *world_any_port(struct world *world);

#endif
