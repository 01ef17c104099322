/*
 * Inside a client's node: what its files share.
 *
 *   client_node.c      neighbours come, show what they have, and go
 *   client_reduce.c    which way their sums are made, client_reduce_*.c
 *   client_sum.c       who has made what of which chunk, and has its weights
 */
#ifndef GW_WORKER_CLIENT_NODE_STATE_H
#define GW_WORKER_CLIENT_NODE_STATE_H

#include "worker/client/client_reduce.h"
#include "worker/client/client_state.h"

#include "transport/link/backlog.h"

/* The only link between two workers. */
#define GW_NODE_LINK 0

struct gw_neighbour {
    uint32_t rank;
    uint64_t incarnation; /* 0: the view has not named it */
    int has_secret;
    struct gw_secret secret; /* that it proves, if it dials */
    char address[GW_ADDRESSES_MAX];
    char host[64];
    struct gw_peer *peer;                /* NULL: not yet there, or it is us */
    uint32_t gradients, weights;         /* windows that it gave us */
    uint32_t own_gradients, own_weights; /* that we gave it */
    struct gw_seen {
        const float *gradients;
        const void *weights;
    } seen;           /* of its device, by ours; NULL: it is not */
    char unseen[256]; /* why not; "": it shows nothing */
    int has_words; /* it has told where they are, or that they are nowhere, */
    enum gw_sees verdict; /* and whether it finds all others' */
};

/* What one rank has for the sum of a chunk that we own. */
struct gw_sum_part {
    uint64_t clock; /* + 1, of its gradient; 0: none */
    uint32_t samples;
    int bad;
};

/* A chunk that we own, on its way to one neighbour. */
struct gw_gift {
    struct gw_send send;
    uint64_t given; /* version + 1 that this link has had */
    int sending;
};

struct gw_sum_chunk {
    struct gw_send note; /* parts: to the owner, or to the shard */
    int telling;
    int tell_again;
    uint8_t bytes[GW_PART_BYTES]; /* to the owner */
    /* of one that we own, the rest is of others */
    struct gw_sum_part *part; /* [group.n] */
    struct gw_gift *gift;     /* [group.n] */
    uint8_t *parts;           /* [group.n * GW_PART_BYTES] */
    uint64_t summed;          /* clock + 1, */
    int apart;                /* and whether each asks for what comes of it */
    uint64_t summing;         /* the same, of a sum that a device makes */
    struct gw_frame had;      /* the weights that came last */
};

struct gw_client_node {
    struct gw_client *client;
    struct gw_member *member;
    struct gw_group group;
    struct gw_neighbour neighbour[GW_GROUP_MAX]; /* by rank % GW_GROUP_MAX: of
                                                 every block that could be */
    struct gw_sum_chunk *chunk;                  /* [chunks of the map] */
    struct gw_sum_part *part;                    /* below them */
    struct gw_gift *gift;
    uint8_t *parts;
    size_t owned;          /* chunks that are ours, at most */
    struct gw_backlog due; /* of them, sums that wait for a turn */
    int attached;
    /* what one shows the others; NULL: there is none, or it does not */
    const struct gw_device_arenas *device;
    enum gw_sees verdict; /* ours */
    int let_go;           /* nothing of others' is seen any more */
    /* NULL: not all have told; set once, before anything is pushed, so that the
       caller's thread may look at it */
    const struct gw_reduction_ops *way;
    void *reduction; /* the way's */
};

static inline struct gw_neighbour *
gw_node_neighbour(struct gw_client_node *node, uint32_t rank)
{
    return &node->neighbour[rank % GW_GROUP_MAX];
}

/* The i-th rank of the group; NULL: that is us. */
static inline struct gw_neighbour *gw_node_at(struct gw_client_node *node,
                                              uint32_t i)
{
    uint32_t rank = node->group.first + i;
    return rank == node->client->job->rank ? NULL
                                           : gw_node_neighbour(node, rank);
}

static inline int gw_node_owns(const struct gw_client_node *node,
                               uint32_t chunk)
{
    return gw_group_owner(node->group, chunk) == node->client->job->rank;
}

/* client_sum.c: the sum of a chunk lies in our gradients. */
void gw_node_summed(struct gw_client_node *node, uint32_t chunk);
/* Tables for the chunks of the map. GW_ENOMEM. */
enum gw_status gw_node_sum_open(struct gw_client_node *node);
void gw_node_sum_close(struct gw_client_node *node);
/* What a neighbour has made of a chunk that we own. */
void gw_node_sum_parts(struct gw_client_node *node,
                       struct gw_neighbour *from,
                       const struct gw_frame *frame,
                       const void *payload);
/* A neighbour's gradients are seen that were not: sums that waited are made. */
void gw_node_sum_recheck(struct gw_client_node *node);
/* A link is there, again: what was told over it is told again. */
void gw_node_sum_link_up(struct gw_client_node *node,
                         const struct gw_neighbour *to);
/* One broke: what was given over it may be lost. */
void gw_node_sum_link_down(struct gw_client_node *node,
                           const struct gw_neighbour *to);

#endif
