/*
 * The copy of this shard: what its standby gets, and what it has. The structs
 * are private to copy.c.
 *
 *   bare --> copying --> followed      each chunk
 *
 *   copying    its arrays leave, and it does not change
 *   followed   the standby makes the same steps of the same sums. A step is
 *              stored there before it is made here, so no version is given out
 *              that the standby has not
 */
#ifndef GW_SERVER_COPY_H
#define GW_SERVER_COPY_H

#include "kernels/update/update.h"
#include "proto/control.h"
#include "proto/copy.h"
#include "transport/member/member.h"

struct gw_server;
struct gw_copied;

struct gw_copy {
    struct gw_peer *peer; /* the standby, once it has logged in */
    uint64_t incarnation;
    uint32_t sums, arrays[GW_COPY_ARRAYS]; /* its windows */
    unsigned windows;                      /* of which so many are there */
    struct gw_copied *chunk;               /* [chunks]; NULL: no standby */
    uint32_t copying, followed;            /* chunks */
    uint64_t decided;   /* shard 0: the last decision that the standby has */
    int is_told;        /* all are followed */
    uint64_t heard_us;  /* when it or the coordinator was heard here, and */
    uint64_t paused_us; /* later by what this process was paused since */
    int is_missed;      /* the coordinator knows that it is silent */
    uint32_t waiting;   /* sums that the standby has not yet */
    void (*stored)(struct gw_server *server, uint32_t chunk);
};

/* `stored` is called when the standby has a step of a chunk that
   gw_copy_step has sent, or when there is no standby any more. GW_ENOMEM. */
enum gw_status gw_copy_open(struct gw_server *server,
                            void (*stored)(struct gw_server *server,
                                           uint32_t chunk),
                            struct gw_error *error);
void gw_copy_close(struct gw_server *server);

/* The standby that the view names. */
int gw_copy_is_of(const struct gw_server *server, uint64_t incarnation);
void gw_copy_admit(struct gw_server *server, struct gw_peer *peer);
void gw_copy_link_up(struct gw_server *server);
void gw_copy_frame(struct gw_server *server,
                   unsigned link,
                   const struct gw_frame *frame);
/* A call of struct gw_message_handler. */
void gw_copy_got_window(void *owner,
                        struct gw_peer *peer,
                        const struct gw_message *message);
/* To another coordinator: the standby has all. */
void gw_copy_tell_again(struct gw_server *server);
/* Now and then: where only this shard does not hear its standby, the
   coordinator is told. */
void gw_copy_watch(struct gw_server *server, uint64_t now);
/* The view names no standby any more. */
void gw_copy_drop(struct gw_server *server);

/* Some chunk has weights, or other ones: those that are bare may be copied. */
void gw_copy_ready(struct gw_server *server);
/* 0: the chunk is being copied, and becomes due when it is. */
int gw_copy_may_change(const struct gw_server *server, uint32_t chunk);
/* The standby repeats the steps of a chunk: their sums are to be kept. */
int gw_copy_is_followed(const struct gw_server *server, uint32_t chunk);
/* Sends a step of such a chunk, whose sum is in the shard's `reduced`; NULL: it
   has no gradient. */
void gw_copy_step(struct gw_server *server,
                  uint32_t chunk,
                  const struct gw_update *update);

/* Sends the sum of such a chunk, which shard 0 decides about; and whether the
   standby lacks some that were sent. */
void gw_copy_sum(struct gw_server *server, uint32_t chunk);
int gw_copy_waits(const struct gw_server *server);

#endif
