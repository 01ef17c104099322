/*
 * The ways in which the workers of a host sum gradients and share weights: a
 * table, in order of preference. Each worker tells the first way that works for
 * it; all later ones do as well. The group takes the last of these. Messages
 * about chunks are the same for all ways (client_sum.c); they differ in the
 * place of the bytes and in the mover.
 *
 *   nvlink  on devices: each finds what all of them have, reads the others'
 *           gradients and copies the weights from where they arrived; over
 *           NVLink, or PCIe where there is none
 *   shm     in shared memory, by processors
 *
 * All of it is called on the loop's thread.
 */
#ifndef GW_WORKER_CLIENT_REDUCE_H
#define GW_WORKER_CLIENT_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/control.h"
#include "proto/status.h"
#include "transport/link/transport.h"

struct gw_host_group;
struct gw_group_peer;

struct gw_reduction_ops {
    const char *name;
    const char *where;    /* sums are made, in words */
    enum gw_sees verdict; /* told to the peers when the probe succeeds; higher
                             values are preferred */
    int on_device;        /* gradients stay there, and weights come there */

    /* When all peers have told their words. GW_OK if it works for this worker,
       or GW_EUNSUPPORTED with the reason in words. */
    enum gw_status (*probe)(struct gw_host_group *group,
                            char *why,
                            size_t why_bytes);

    /* When a group takes it. *state_p is handed to close. GW_ENOMEM. */
    enum gw_status (*open)(struct gw_host_group *group, void **state_p);
    /* Nothing on others' devices is looked at after that. */
    void (*stop)(void *state);
    void (*close)(void *state);

    /* All parts of a chunk that we own are there, and not all of them empty:
       gw_host_group_summed follows. Or nothing, if one of them cannot be read
       now: the call is repeated when its peer tells the part again, as it may
       before gw_host_group_summed. */
    void (*sum)(struct gw_host_group *group, uint32_t chunk);

    /* A shard has sent the weights of one, which are in our arena:
       gw_client_put follows when they have reached the place from which the
       peers take them. */
    void (*land)(struct gw_host_group *group, uint32_t chunk);

    /* Fills the window, the length, and the payload with its checksum of the
       frame to a peer. All else is the caller's. */
    void (*give)(const struct gw_host_group *group,
                 uint32_t chunk,
                 const struct gw_group_peer *to,
                 struct gw_send *share);

    /* The place of a peer's share: on a device, as a chunk has it, or NULL, in
       our arena; *window_p is the one that its frames name. */
    const void *(*given)(const struct gw_group_peer *from, uint32_t *window_p);
};

extern const struct gw_reduction_ops gw_reduction_nvlink, gw_reduction_shm;

/* Tells a peer, when its link is ours, the words by which a device finds our
   arenas. */
void gw_host_group_tell_words(struct gw_host_group *group,
                              const struct gw_group_peer *to);

/* A peer tells its words, or the best way that works for it. With the last
   verdict the group has its way. GW_EPROTO: it has told that already. */
enum gw_status gw_host_group_got_sight(struct gw_host_group *group,
                                       struct gw_group_peer *from,
                                       const struct gw_sight *sight);

#endif
