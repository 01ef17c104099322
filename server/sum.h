/*
 * Pushes that are sums of groups (proto/groups.h). The struct is private to
 * sum.c.
 */
#ifndef GW_SERVER_SUM_H
#define GW_SERVER_SUM_H

#include "proto/control.h"
#include "proto/groups.h"
#include "transport/member/member.h"

struct gw_server;
struct gw_push;

/* The parts of the next sums of a group's member, a row for each chunk of
   the shard. */
struct gw_parts {
    uint64_t *clock;      /* [chunks] + 1; 0: nothing is known */
    struct gw_part *part; /* [chunks][n of the group] */
};

/* GW_EPROTO: groups that do not add up. GW_ENOMEM. */
enum gw_status gw_sum_start(struct gw_server *server,
                            const struct gw_start *start,
                            struct gw_error *error);
enum gw_status gw_sum_admit(struct gw_server *server, struct gw_peer *peer);
void gw_sum_close(struct gw_server *server);
void gw_sum_parts(struct gw_server *server,
                  struct gw_peer *peer,
                  unsigned link,
                  const struct gw_frame *frame,
                  const uint8_t *payload);
/* The parts of a push that is a sum, [n of the group]; NULL: they are not known
   or do not add up, or this policy has no sums. */
const struct gw_part *gw_sum_of(const struct gw_server *server,
                                const struct gw_push *push);

#endif
