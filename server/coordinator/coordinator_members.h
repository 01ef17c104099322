/* Inside the coordinator: members join, declare and start. */
#ifndef GW_SERVER_COORDINATOR_MEMBERS_H
#define GW_SERVER_COORDINATOR_MEMBERS_H

#include "server/coordinator/coordinator_state.h"

/* ---- coordinator_join.c ---- */

void gw_coordinator_joined(struct gw_coordinator *self,
                           struct gw_peer *peer,
                           const struct gw_join *join);

/* ---- coordinator_start.c ---- */

/* One more has joined: numbers shards and tells the view, if it is the last. */
void gw_start_maybe_complete(struct gw_coordinator *self);
/* "worker 1 (host, pid 7)", as lines name it. */
void gw_start_name_member(struct gw_seat *one);
void gw_coordinator_declared(struct gw_coordinator *self,
                             struct gw_seat *who,
                             const struct gw_declare *declare);
void gw_coordinator_ready(struct gw_coordinator *self, struct gw_seat *who);
/* Members that have declared or are ready, and keys: grows. */
uint64_t gw_start_progress(const struct gw_coordinator *self);

/* ---- coordinator_declare.c ---- */

enum gw_status gw_declaration_open(struct gw_coordinator *self,
                                   struct gw_error *error);
void gw_declaration_close(struct gw_coordinator *self);
/* The first declaration, all zero before it, and its keys so far. */
const struct gw_declare *gw_declaration(const struct gw_coordinator *self);
const struct gw_key *gw_declaration_key(const struct gw_coordinator *self);
uint32_t gw_declaration_keys(const struct gw_coordinator *self);
int gw_declaration_is_here(const struct gw_coordinator *self);
/* NULL where a worker's declaration is that of the others but for its keys,
   which the first one always is; else the difference, in words. */
const char *gw_declaration_difference(struct gw_coordinator *self,
                                      const struct gw_seat *who,
                                      const struct gw_declare *declare);
/* GW_EMISMATCH: a worker's program asks for other settings than the others'. */
enum gw_status gw_declaration_check_program(const struct gw_coordinator *self,
                                            const struct gw_seat *who,
                                            const struct gw_declare *declare,
                                            struct gw_error *error);
/* Non-zero if a worker has declared other keys than worker 0, which has. */
int gw_declaration_is_other(const struct gw_coordinator *self,
                            const struct gw_seat *one);
/* The next keys of rank 0; 0: they are not. */
int gw_declaration_add_keys(struct gw_coordinator *self,
                            const struct gw_declare *declare);

/* ---- coordinator_tell.c ---- */

enum gw_status gw_teller_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_teller_close(struct gw_coordinator *self);
/* All are here: sends the view to everybody. GW_ENOMEM. */
enum gw_status gw_coordinator_tell_all(struct gw_coordinator *self);
/* The keys of worker 0, all of which are here, to a worker that has others and
   ends the job by their first difference. */
void gw_coordinator_tell_keys(struct gw_coordinator *self, struct gw_seat *to);
/* Keys and start behind it. Arrays of the start outlive the teller. */
void gw_coordinator_tell_start(struct gw_coordinator *self,
                               const struct gw_start *start);

/* ---- coordinator_decline.c ---- */

enum gw_status gw_decline_open(struct gw_coordinator *self,
                               struct gw_error *error);
void gw_decline_close(struct gw_coordinator *self);
/* The sender cannot join. It is answered once; from then on `is_of` is true,
   and its links are closed when it has the answer. */
void gw_decline(struct gw_coordinator *self,
                struct gw_peer *peer,
                const struct gw_join *join);
int gw_decline_is_of(const struct gw_peer *peer);
/* A member has joined, perhaps in the place of one of the same host. */
void gw_decline_replaced(struct gw_coordinator *self,
                         const struct gw_seat *who);
/* The line of the last one, if it was this process and nobody has replaced it;
   else NULL. */
const char *gw_decline_of_process(const struct gw_coordinator *self,
                                  uint64_t machine,
                                  uint32_t pid);
/* The same of the last one that asked for that rank. */
const char *gw_decline_of_rank(const struct gw_coordinator *self,
                               uint32_t rank);
/* Ends the job where nobody joins any more. Called often. */
void gw_decline_judge(struct gw_coordinator *self, uint64_t now);

/* ---- coordinator_group.c ---- */

enum gw_status gw_grouper_open(struct gw_coordinator *self,
                               struct gw_error *error);
void gw_grouper_close(struct gw_coordinator *self);
/* A worker asks for a rank of its own choice. */
void gw_grouper_asked(struct gw_coordinator *self);
/* The rank for a worker that asks for none and is at that address. One is
   free. */
uint32_t gw_grouper_free_rank(struct gw_coordinator *self, const char *address);
/* Groups for the start. GW_ENOMEM. */
enum gw_status gw_grouper_fill_start(struct gw_coordinator *self,
                                     struct gw_start *start,
                                     struct gw_error *error);

/* ---- coordinator_strangers.c ---- */

/* One more has logged in, which has its place. */
void gw_strangers_make_room(struct gw_coordinator *self,
                            const struct gw_peer *newest);
/* Called often. */
void gw_strangers_expire(struct gw_coordinator *self, uint64_t now);

#endif
