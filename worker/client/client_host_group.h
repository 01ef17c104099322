/*
 * The workers of a host as a group (proto/groups.h): each reads the gradients
 * of the others, sums the chunks that it owns, pushes the sums, and shares the
 * weights that come back with the others.
 *
 *   our gradient -- parts -->  owner: all parts are there: sum, push
 *                              owner: weights arrive
 *   weights arrive <-- share --
 *
 * The group has a member of its own, with the transport that can export memory.
 * Everything here runs on the loop's thread.
 */
#ifndef GW_WORKER_CLIENT_HOST_GROUP_H
#define GW_WORKER_CLIENT_HOST_GROUP_H

#include <stdint.h>

#include "proto/control.h"
#include "proto/groups.h"
#include "transport/link/memory.h"
#include "transport/link/transport.h"

struct gw_client;
struct gw_host_group;

/*
 * Begins to listen for peers. If that fails there is no group: *group_p is
 * NULL, and the log has the reason. GW_ENOMEM.
 */
enum gw_status gw_host_group_open(struct gw_client *client,
                                  struct gw_host_group **group_p,
                                  struct gw_error *error);
void gw_host_group_close(struct gw_host_group *group);

/* client_reduce.c: lets go of imported arenas of the peers' devices, which free
   them when the job ends. NULL: nothing. */
void gw_host_group_release(struct gw_host_group *group);

/* The address for peers, "" for none. */
const char *gw_host_group_address(const struct gw_host_group *group);

/* Another worker of the job, of any host. */
void gw_host_group_view(struct gw_host_group *group,
                        const struct gw_view_member *member);

/* Takes the ranks of the group from the start. GW_EPROTO: groups that do not
   add up, or a peer that the view has not named. GW_ENOMEM. */
enum gw_status gw_host_group_start(struct gw_host_group *group,
                                   const struct gw_start *start);

/* Connects; the arenas, and the device's (NULL: none), are the client's. Errors
   of gw_member_dial. */
struct gw_client_arenas;
struct gw_device_arenas;
enum gw_status gw_host_group_connect(struct gw_host_group *group,
                                     const struct gw_client_arenas *arenas,
                                     const struct gw_device_arenas *device,
                                     struct gw_error *error);

/* Non-zero when all peers are there, and have told their windows and words. */
int gw_host_group_is_whole(const struct gw_host_group *group);

/* When all are there: non-zero if gradients stay on devices, which sum them.
   Any thread, after that. */
int gw_host_group_is_on_device(const struct gw_host_group *group);

/* Our gradient of a chunk is made, for the clock that is pushed now. */
void gw_host_group_push(struct gw_host_group *group, uint32_t chunk);

/* Non-zero if the sum of the last push of a chunk is made. */
int gw_host_group_has_sum(const struct gw_host_group *group, uint32_t chunk);

/* The frame that has to leave right before a sum; it comes back to `done`. */
struct gw_send *gw_host_group_parts(struct gw_host_group *group,
                                    uint32_t chunk,
                                    void (*done)(struct gw_send *send,
                                                 enum gw_status status));

/* A shard has sent weights of a chunk that we own. Nothing is asked of the
   chunk any more, so they come once. gw_client_put follows when they have
   reached the place from which the peers take them, */
void gw_host_group_arrived(struct gw_host_group *group,
                           const struct gw_frame *frame);
/* and this shares them. */
void gw_host_group_give(struct gw_host_group *group, uint32_t chunk);

/* The peer whose part of a pushed chunk, or share of its weights, is missing;
   NULL: none, also without a group. */
const struct gw_peer *gw_host_group_waits_for(const struct gw_host_group *group,
                                              uint32_t chunk);

/* The peer that owns a chunk, and shares its weights. */
const struct gw_peer *gw_host_group_owner_of(const struct gw_host_group *group,
                                             uint32_t chunk);

#endif
