/*
 * The client among the other workers of its host (proto/groups.h): they see
 * each other's gradients, each sums the chunks that it owns, pushes the sums,
 * and gives the weights that come back to the others.
 *
 *   ours is made  -- parts -->  owner: all parts are there: sum, push
 *                               owner: weights arrive
 *   weights arrive <-- weights --
 *
 * A member of its own, with the transport that can show memory. Everything here
 * runs on the loop's thread.
 */
#ifndef GW_WORKER_CLIENT_NODE_H
#define GW_WORKER_CLIENT_NODE_H

#include <stdint.h>

#include "proto/control.h"
#include "proto/groups.h"
#include "transport/link/memory.h"
#include "transport/link/transport.h"

struct gw_client;
struct gw_client_node;

/*
 * Begins to listen for others; where that does not work there are none, and the
 * log says why. *node_p is NULL then. GW_ENOMEM.
 */
enum gw_status gw_node_open(struct gw_client *client,
                            struct gw_client_node **node_p,
                            struct gw_error *error);
void gw_node_close(struct gw_client_node *node);

/* client_reduce.c: what is seen of others' devices is seen no longer. Before
   the job may end: they free it then. NULL: nothing. */
void gw_node_let_go(struct gw_client_node *node);

/* Where others meet us, "" for nowhere. */
const char *gw_node_address(const struct gw_client_node *node);

/* Another worker of the job, of any host. */
void gw_node_view(struct gw_client_node *node,
                  const struct gw_view_member *member);

/* Which of them are of our group. GW_EPROTO: groups that do not add up, or a
   neighbour that the view has not named. GW_ENOMEM. */
enum gw_status gw_node_start(struct gw_client_node *node,
                             const struct gw_start *start);

/* Connects; the arenas and what a device has (NULL: nothing) are the
   client's. Errors of gw_member_dial. */
struct gw_client_arenas;
struct gw_device_arenas;
enum gw_status gw_node_connect(struct gw_client_node *node,
                               const struct gw_client_arenas *arenas,
                               const struct gw_device_arenas *device,
                               struct gw_error *error);

/* Non-zero when all of them are there, and have said what they show. */
int gw_node_is_whole(const struct gw_client_node *node);

/* When all are there: whether gradients stay on devices, which sum them. Any
   thread, after that. */
int gw_node_is_on_device(const struct gw_client_node *node);

/* Ours of a chunk of the clock that is pushed now is made. */
void gw_node_push(struct gw_client_node *node, uint32_t chunk);

/* Whether the sum of what was pushed of a chunk is made. */
int gw_node_has_sum(const struct gw_client_node *node, uint32_t chunk);

/* The frame that has to leave right before a sum; it comes back to `done`. */
struct gw_send *gw_node_parts(struct gw_client_node *node,
                              uint32_t chunk,
                              void (*done)(struct gw_send *send,
                                           enum gw_status status));

/* A shard has sent weights of a chunk that we own, of which nothing is asked
   any more, so that they come once: gw_client_put follows when they are where
   they are given to the others from, */
void gw_node_arrived(struct gw_client_node *node, const struct gw_frame *frame);
/* and that they are. */
void gw_node_give(struct gw_client_node *node, uint32_t chunk);

/* Whose part of a chunk that was pushed, or whose weights of it, are waited
   for; NULL: no neighbour's, also where there is no node. */
const struct gw_peer *gw_node_waits_for(const struct gw_client_node *node,
                                        uint32_t chunk);

/* Who gives us the weights of a chunk. */
const struct gw_peer *gw_node_giver(const struct gw_client_node *node,
                                    uint32_t chunk);

#endif
