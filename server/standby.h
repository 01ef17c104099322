/*
 * A standby: a shard that nobody talks to but the primary, whose copy it is.
 * The structs are private to standby.c.
 */
#ifndef GW_SERVER_STANDBY_H
#define GW_SERVER_STANDBY_H

#include "proto/control.h"
#include "proto/copy.h"
#include "transport/member/member.h"

struct gw_server;
struct gw_followed;

struct gw_standby {
    struct gw_peer *primary;   /* NULL: this shard stands by for none */
    uint32_t sums, arrays;     /* windows: the last one of the arrays' */
    struct gw_followed *chunk; /* [chunks] */
    struct gw_send decided;    /* shard 0's: tells of the last decision */
    uint64_t told;             /* by the frame that is on its way */
    int is_telling;
};

/* Opens the windows, and dials the primary. GW_ENOMEM, or an error of
   gw_member_dial. */
enum gw_status gw_standby_open(struct gw_server *server,
                               struct gw_error *error);
void gw_standby_close(struct gw_server *server);
void gw_standby_link_up(struct gw_server *server);
void gw_standby_frame(struct gw_server *server,
                      unsigned link,
                      const struct gw_frame *frame,
                      const void *payload);
/* A decided step is made: the next sum may come, which lands where that one's
   did. */
void gw_standby_applied(struct gw_server *server, uint32_t chunk);
/* A chunk is due: its note may have waited for a decision, or for the step
   before. */
void gw_standby_look(struct gw_server *server, uint32_t chunk);
/* The terms of a chunk's undecided step, if its sum is one that a primary has
   sent, also when that one is lost; else 0. */
int gw_standby_find_terms(const struct gw_server *server,
                          uint32_t chunk,
                          struct gw_terms *terms_p);
/* A decision of shard 0, whose standby this is, has been followed. */
void gw_standby_decided(struct gw_server *server);
/* This shard stands by no more: the links to its primary are closed. */
void gw_standby_end(struct gw_server *server);

#endif
