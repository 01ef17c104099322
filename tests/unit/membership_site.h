/* A place for the list of members, and a list to write there. */
#ifndef TESTS_UNIT_MEMBERSHIP_SITE_H
#define TESTS_UNIT_MEMBERSHIP_SITE_H

#include "server/checkpoint/membership.h"
#include "server/checkpoint/store.h"
#include "transport/sim/sim.h"

/* A simulated host with a directory for checkpoints. */
struct membership_site {
    struct gw_sim *sim;
    struct gw_loop *loop;
    struct gw_disk dir;
    struct gw_error error;
};

/* For cmocka. */
int membership_begin(void **state);
int membership_end(void **state);

/* Each kind of member, with the least and the most that it may have. */
#define MEMBERSHIP_SOME 4
extern struct gw_membership_member membership_some_members[MEMBERSHIP_SOME];
extern uint32_t membership_some_threads[MEMBERSHIP_SOME];
struct gw_membership membership_some(void);

/* Both say the same. */
void membership_is_same(const struct gw_membership *read,
                        const struct gw_membership *is);

void membership_write(struct membership_site *site,
                      const struct gw_membership *membership);

/* This one is in the file, and no remains of another are beside it. */
void membership_holds(struct membership_site *site,
                      const struct gw_membership *is);

#endif
