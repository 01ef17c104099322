/*
 * How the workers of a host sum their gradients and give each other the
 * weights: a table, in order of preference. Each worker tells the first way
 * that works for it, for which all later ones do; the group takes the last of
 * these. What is said of which chunk, and when, is the same for all of them
 * (client_sum.c); they differ in where the bytes lie and who moves them.
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

struct gw_client_node;
struct gw_neighbour;

struct gw_reduction_ops {
    const char *name;
    const char *where;    /* sums are made, in words */
    enum gw_sees verdict; /* told where it works: the more, the earlier here */
    int on_device;        /* where gradients stay, and weights come to */

    /* When all neighbours have told what they have: whether it works for this
       worker. GW_OK, or GW_EUNSUPPORTED with the reason in words. */
    enum gw_status (*probe)(struct gw_client_node *node,
                            char *why,
                            size_t why_bytes);

    /* When a group takes it. *state_p is handed to close. GW_ENOMEM. */
    enum gw_status (*open)(struct gw_client_node *node, void **state_p);
    /* Nothing on others' devices is looked at after that. */
    void (*stop)(void *state);
    void (*close)(void *state);

    /* All parts of a chunk that we own are there, and not all of them empty:
       gw_node_summed follows. Or nothing, where one of them is not seen now: it
       comes again when that one tells its part again, as it may before
       gw_node_summed. */
    void (*sum)(struct gw_client_node *node, uint32_t chunk);

    /* A shard has sent the weights of one, which are in our arena:
       gw_client_put follows when they are where they are given from. */
    void (*land)(struct gw_client_node *node, uint32_t chunk);

    /* Says in *gift what a neighbour is sent of them: the window, the length,
       and the payload with its checksum. All else is the caller's. */
    void (*give)(const struct gw_client_node *node,
                 uint32_t chunk,
                 const struct gw_neighbour *to,
                 struct gw_send *gift);

    /* Where those lie that a neighbour gives: on a device, as a chunk has it,
       or NULL, in our arena; *window_p is the one that its frames name. */
    const void *(*given)(const struct gw_neighbour *from, uint32_t *window_p);
};

extern const struct gw_reduction_ops gw_reduction_nvlink, gw_reduction_shm;

/* What a neighbour is told when its link is ours: by which words a device finds
   what we have. */
void gw_node_tell_words(struct gw_client_node *node,
                        const struct gw_neighbour *to);

/* What it tells: its words, or what works for it. With the last of those the
   group has its way. GW_EPROTO: nothing that it could say now. */
enum gw_status gw_node_sight(struct gw_client_node *node,
                             struct gw_neighbour *from,
                             const struct gw_sight *sight);

#endif
