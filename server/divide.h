/*
 * train.split = speed: how steps are divided. The struct is private to
 * divide.c.
 */
#ifndef GW_SERVER_DIVIDE_H
#define GW_SERVER_DIVIDE_H

#include "proto/control.h"
#include "server/policy/splits.h"
#include "transport/member/member.h"

struct gw_server;

struct gw_divide {
    uint32_t *first;           /* [ranks] in force at the start; NULL: even */
    struct gw_splits repeated; /* shard 0: of the run before */
};

/* From the coordinator, before the start: splits to be repeated. From a worker:
   how fast it is. */
void gw_divide_repeat(struct gw_server *server,
                      struct gw_peer *peer,
                      const struct gw_decision *splits);
enum gw_status gw_divide_start(struct gw_server *server,
                               const struct gw_start *start,
                               struct gw_error *error);
void gw_divide_speed(struct gw_server *server,
                     struct gw_peer *peer,
                     const struct gw_speed *speed);
/* An answer to a rank, a push of one: how long exchanges last. */
void gw_divide_answered(struct gw_server *server,
                        uint32_t rank,
                        uint32_t chunk);
void gw_divide_took(struct gw_server *server, uint32_t rank, uint32_t chunk);
/* For the leader; NULL: there is none. */
const uint32_t *gw_divide_first(const struct gw_server *server);
const struct gw_splits *gw_divide_repeated(const struct gw_server *server);
void gw_divide_close(struct gw_server *server);

#endif
