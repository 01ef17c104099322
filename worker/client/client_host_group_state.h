/*
 * Inside the group of a host, for its files.
 *
 *   client_host_group.c   links to the peers; their windows
 *   client_reduce.c       the choice among client_reduce_*.c
 *   client_sum.c          parts, sums and shares of each chunk
 */
#ifndef GW_WORKER_CLIENT_HOST_GROUP_STATE_H
#define GW_WORKER_CLIENT_HOST_GROUP_STATE_H

#include "worker/client/client_reduce.h"
#include "worker/client/client_state.h"

#include "transport/link/backlog.h"

/* The only link between two workers. */
#define GW_HOST_GROUP_LINK 0

struct gw_group_peer {
    uint32_t rank;
    uint64_t incarnation; /* 0: the view has not named it */
    int has_secret;
    struct gw_secret secret; /* proved by the peer, if it dials */
    char address[GW_ADDRESSES_MAX];
    char host[64];
    struct gw_peer *peer;        /* NULL: not yet there, or this worker */
    uint32_t gradients, weights; /* windows that it gave us */
    uint32_t own_gradients, own_weights; /* windows that we gave it */
    struct gw_imported {
        const float *gradients;
        const void *weights;
    } imported;        /* arenas of its device, by ours; NULL: not imported */
    char why_not[256]; /* the reason; "": it exports nothing */
    int has_words;     /* it has told the words of its arenas, or that there are
                          none */
    enum gw_sees verdict; /* it has told the best way that works for it */
};

/* One rank's part of the sum of a chunk that we own. */
struct gw_sum_part {
    uint64_t clock; /* + 1, of its gradient; 0: none */
    uint32_t samples;
    enum gw_part_gradient gradient;
    uint8_t terms; /* its rank sets terms at this clock */
};

static inline int gw_sum_part_is_empty(const struct gw_sum_part *part)
{
    return part->samples == 0 || part->gradient >= GW_GRADIENT_COUNTED;
}

/* Weights of a chunk that we own, on their way to one peer. */
struct gw_group_share {
    struct gw_send send;
    uint64_t given; /* version + 1 that was sent over this link */
    int sending;
};

struct gw_sum_chunk {
    struct gw_send note; /* parts: to the owner, or to the shard */
    int telling;
    int tell_again;
    uint8_t bytes[GW_PART_BYTES]; /* to the owner */
    /* the rest is for chunks that we own */
    struct gw_sum_part *part;     /* [ranks.n] */
    struct gw_group_share *share; /* [ranks.n] */
    uint8_t *parts;               /* [ranks.n * GW_PART_BYTES] */
    uint64_t summed;              /* clock + 1 of the last sum */
    int apart;                    /* each worker asks for its weights itself */
    uint64_t summing;             /* clock + 1 of the sum that a device makes */
    struct gw_frame had;          /* the weights that came last */
};

struct gw_host_group {
    struct gw_client *client;
    struct gw_member *member;
    struct gw_group ranks;
    struct gw_group_peer peers[GW_GROUP_MAX]; /* by rank % GW_GROUP_MAX, for
                                                 any group of this rank */
    struct gw_sum_chunk *chunk;               /* [chunks of the map] */
    struct gw_sum_part *part;                 /* below them */
    struct gw_group_share *share;
    uint8_t *parts;
    size_t owned;          /* most chunks that are ours */
    struct gw_backlog due; /* sums that wait for a turn */
    int attached;
    /* exported to the others; NULL: there is none, or it is not */
    const struct gw_device_arenas *device;
    enum gw_sees verdict; /* ours */
    int released;         /* nothing of the peers is imported any more */
    /* NULL: not all have told. Set once, before anything is pushed, so that the
       caller's thread may read it */
    const struct gw_reduction_ops *ops;
    void *reduction; /* state of the ops */
};

static inline struct gw_group_peer *
gw_host_group_peer(struct gw_host_group *group, uint32_t rank)
{
    return &group->peers[rank % GW_GROUP_MAX];
}

/* The i-th rank of the group; NULL: this worker. */
static inline struct gw_group_peer *
gw_host_group_at(struct gw_host_group *group, uint32_t i)
{
    uint32_t rank = group->ranks.first + i;
    return rank == group->client->job->rank ? NULL
                                            : gw_host_group_peer(group, rank);
}

static inline int gw_host_group_owns(const struct gw_host_group *group,
                                     uint32_t chunk)
{
    return gw_group_owner(group->ranks, chunk) == group->client->job->rank;
}

/* client_sum.c: the sum of a chunk lies in our gradients. */
void gw_host_group_summed(struct gw_host_group *group, uint32_t chunk);
/* Tables for the chunks of the map. GW_ENOMEM. */
enum gw_status gw_host_group_sum_open(struct gw_host_group *group);
void gw_host_group_sum_close(struct gw_host_group *group);
/* A peer has made its part of a chunk that we own. */
void gw_host_group_sum_parts(struct gw_host_group *group,
                             struct gw_group_peer *from,
                             const struct gw_frame *frame,
                             const void *payload);
/* More of the peers' gradients may be readable: makes sums that waited. */
void gw_host_group_sum_recheck(struct gw_host_group *group);
/* A link is there, again: parts that were told over it are told again. */
void gw_host_group_sum_link_up(struct gw_host_group *group,
                               const struct gw_group_peer *to);
/* A link broke: shares that were sent over it may be lost. */
void gw_host_group_sum_link_down(struct gw_host_group *group,
                                 const struct gw_group_peer *to);

#endif
