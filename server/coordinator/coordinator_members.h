/* Inside the coordinator: members join, declare and start. */
#ifndef GW_SERVER_COORDINATOR_MEMBERS_H
#define GW_SERVER_COORDINATOR_MEMBERS_H

#include "server/checkpoint/membership.h"
#include "server/coordinator/coordinator_state.h"

/* ---- coordinator_join.c ---- */

void gw_coordinator_joined(struct gw_coordinator *self,
                           struct gw_peer *peer,
                           const struct gw_join *join);

/* ---- coordinator_start.c ---- */

/* One more has joined: numbers shards and tells the view, if it is the last. */
void gw_start_maybe_complete(struct gw_coordinator *self);
/* A job that leaves settings to its program has them from here on, as workers
   have declared them. */
enum gw_status gw_start_take_program(struct gw_coordinator *self,
                                     struct gw_error *error);
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

/* Keeps what a worker declares of itself. */
void gw_seat_declare(struct gw_seat *who, const struct gw_declare *declare);

/* ---- coordinator_tell.c ---- */

enum gw_status gw_teller_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_teller_close(struct gw_coordinator *self);
/* All are here: sends the view to everybody. GW_ENOMEM. */
enum gw_status gw_coordinator_tell_all(struct gw_coordinator *self);
/* The keys of worker 0, all of which are here, to a worker that has others and
   ends the job by their first difference. */
void gw_coordinator_tell_keys(struct gw_coordinator *self, struct gw_seat *to);
/* All have been told by another coordinator. GW_ENOMEM. */
enum gw_status gw_coordinator_tell_rejoined(struct gw_coordinator *self);
/* Keys and start behind it. Arrays of the start outlive the teller. */
void gw_coordinator_tell_start(struct gw_coordinator *self,
                               const struct gw_start *start);

/* Begins anew for a worker in the place of another, whose number it gets; its
   start is its own. */
void gw_coordinator_tell_again(struct gw_coordinator *self,
                               struct gw_seat *who,
                               uint32_t number);
void gw_coordinator_tell_begin(struct gw_coordinator *self,
                               struct gw_seat *who,
                               const struct gw_start *start);
/* The start of the job. */
const struct gw_start *gw_teller_start(const struct gw_coordinator *self);
/* A view of a later epoch: one member is new. */
void gw_coordinator_tell_member(struct gw_coordinator *self,
                                struct gw_seat *to,
                                uint64_t epoch,
                                const struct gw_seat *one);

/* The servers of all shards and their standbys, to one that may have heard of
   them: it passes over what it has. In views of epochs behind this one; the
   last is returned. */
uint64_t gw_coordinator_tell_shards(struct gw_coordinator *self,
                                    struct gw_seat *to,
                                    uint64_t epoch);

/* The same to all that have a view. Returns its epoch. */
uint64_t gw_coordinator_tell_everybody(struct gw_coordinator *self,
                                       const struct gw_seat *one);

/* ---- coordinator_leave.c ---- */

/* The member has no seat any more; `close`: and is not heard any more. */
void gw_seat_leave(struct gw_coordinator *self, struct gw_seat *who);
void gw_seat_close(struct gw_coordinator *self, struct gw_seat *who);

/* ---- coordinator_vacant.c ---- */

enum gw_status gw_vacant_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_vacant_close(struct gw_coordinator *self);
/* A worker has died, in words: its rank waits for another one, and the seat is
   gone. 0: the job cannot go on like that. */
int gw_vacant_make(struct gw_coordinator *self,
                   struct gw_seat *who,
                   const char *died);
/* Another worker could take its place. */
int gw_vacant_may_replace(const struct gw_coordinator *self,
                          const struct gw_seat *who);
/* The peer was the worker of a rank that waits; it is heard again, and goes on
   as before. */
int gw_vacant_keeps(const struct gw_coordinator *self,
                    const struct gw_peer *peer);
void gw_vacant_heard(struct gw_coordinator *self, const struct gw_peer *peer);
/* The same for all of them. Called often. */
void gw_vacant_look(struct gw_coordinator *self);
/* The register has the workers in the place of others: shards are told. */
void gw_vacant_registered(struct gw_coordinator *self);
/* A worker may join as some rank. */
int gw_vacant_is_open(const struct gw_coordinator *self);
/* Some rank waits. */
int gw_vacant_any(const struct gw_coordinator *self);
/* Shards are asked once more where they stand: another one has come. */
void gw_vacant_ask_again(struct gw_coordinator *self);
/* It has joined, and it has declared. */
void gw_vacant_taken(struct gw_coordinator *self, struct gw_seat *who);
void gw_vacant_declared(struct gw_coordinator *self,
                        struct gw_seat *who,
                        const struct gw_declare *declare);
/* 0: no shard owes it, and the link is closed. */
int gw_vacant_standing(struct gw_coordinator *self,
                       struct gw_seat *shard,
                       const struct gw_standing *standing);
/* Nobody will take a vacant rank, and why: the job ends. */
void gw_vacant_give_up(struct gw_coordinator *self,
                       uint32_t rank,
                       const char *why);
/* One of them, as a thing that is waited for. */
void gw_vacant_awaited(const struct gw_coordinator *self,
                       char *text,
                       size_t room);
/* A line for each rank that waits; bytes, at most `room`. */
size_t
gw_vacant_print(const struct gw_coordinator *self, char *text, size_t room);

/* ---- coordinator_copies.c ---- */

/* Shards are numbered: gives each a standby, or ends the job. */
void gw_copies_place(struct gw_coordinator *self);
/* A primary says that its standby has all, or is not heard there. */
void gw_copies_got_caught(struct gw_coordinator *self,
                          struct gw_seat *who,
                          const struct gw_caught *caught);
/* The register has the standbys that have all: from now on these count as
   copies. Non-zero if all do, and one did not. */
int gw_copies_registered(struct gw_coordinator *self);
/* All shards have two copies, for people. */
void gw_copies_tell_all(struct gw_coordinator *self);
/* Keeps the gauge of shards with one copy. */
void gw_copies_count(const struct gw_coordinator *self);
/* Standbys that have. */
uint32_t gw_copies_caught_up(const struct gw_coordinator *self);
/* A line in a job with copies: how many shards have two. Returns its bytes, at
   most `room`. */
size_t
gw_copies_print(const struct gw_coordinator *self, char *text, size_t room);
/* The job goes on without the server process. */
int gw_copies_can_lose(const struct gw_coordinator *self,
                       const struct gw_seat *who);
/* A thread of a server process has died, in words: the process is given up, and
   standbys take the place of its shards. 0: the job cannot go on like that. */
int gw_copies_lose(struct gw_coordinator *self,
                   const struct gw_seat *who,
                   const char *died);

/* The standby that could take the place of a shard's server: it has all, and is
   another process. NULL: there is none. */
struct gw_seat *gw_copies_standby(const struct gw_coordinator *self,
                                  const struct gw_seat *who);
/* The thread is none of the job any more, and is not heard; that standby leads.
   Members hear of it when the register is written. */
void gw_copies_lose_thread(struct gw_coordinator *self, struct gw_seat *who);

/* ---- coordinator_moves.c ---- */

/* All standbys may have caught up: a shard moves, if there is a server with
   fewer. 0: there is none, or they have not. */
int gw_moves_look(struct gw_coordinator *self);
/* A thread that moves has left. */
void gw_moves_left(struct gw_coordinator *self, struct gw_seat *who);
/* A thread joins; where it has a seat it has left that, which may be news. */
void gw_moves_joined(struct gw_coordinator *self, const struct gw_join *join);

/* ---- coordinator_depart.c ---- */

enum gw_status gw_depart_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_depart_close(struct gw_coordinator *self);
/* The process of a server asks to leave, and does when the job can do without
   it; where it never can it is stopped. 0: that is known now. */
int gw_depart_ask(struct gw_coordinator *self, struct gw_seat *who);
/* A thread of such a process has left. */
void gw_depart_left(struct gw_coordinator *self, struct gw_seat *who);

/* ---- coordinator_names.c ---- */

/* The register has the seats that are unnamed: all members are told of them.
   Changes of one process are registered together: no register has half of it.
 */
void gw_names_registered(struct gw_coordinator *self);
/* Members are to hear of some, and the disk has not taken the register. */
int gw_names_wait(const struct gw_coordinator *self);

/* ---- coordinator_places.c ---- */

/* GW_ENOMEM. */
enum gw_status gw_places_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_places_close(struct gw_coordinator *self);
/* The server process of that seat is lost, and all members are told what has
   changed: another one may take its place. */
void gw_places_lose(struct gw_coordinator *self, const struct gw_seat *who);
/* That seat alone is left: its process may join with another thread for it. */
void gw_places_open_thread(struct gw_coordinator *self,
                           const struct gw_seat *who);
/* Somebody is about to get copies. */
int gw_places_are_filling(const struct gw_coordinator *self);
/* One that another process may take. */
int gw_places_are_open(const struct gw_coordinator *self);
/* A thread of another process may join. */
int gw_places_may_join(const struct gw_coordinator *self,
                       const struct gw_join *join);
/* The number of its server. */
uint32_t gw_places_number(const struct gw_coordinator *self,
                          const struct gw_join *join);
/* Such a thread has its seat, and its process a place; with the last thread all
   members hear of them. */
void gw_places_taken(struct gw_coordinator *self, struct gw_seat *who);
/* A shard answers a view. */
void gw_places_standing(struct gw_coordinator *self,
                        const struct gw_seat *shard,
                        const struct gw_standing *standing);

/* ---- coordinator_before.c ---- */

/* Where this one takes another's place: its phase, job and silence are those.
   GW_EMISMATCH, the errors of gw_membership_read. */
enum gw_status gw_before_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_before_close(struct gw_coordinator *self);
/* The list of the coordinator before; NULL: this one takes nobody's place. */
const struct gw_membership *gw_before(const struct gw_coordinator *self);

/* ---- coordinator_register.c ---- */

enum gw_status gw_register_open(struct gw_coordinator *self,
                                struct gw_error *error);
void gw_register_close(struct gw_coordinator *self);
/* Another coordinator could take the place of this one. */
int gw_register_outlives(const struct gw_coordinator *self);
/* Workers of a host push one sum. */
int gw_register_sums(const struct gw_coordinator *self);
/* The members get their start. From here on, when all have it and the job runs,
   the register is written: called often. */
void gw_register_begin(struct gw_coordinator *self, int sums);
void gw_register_maybe_write(struct gw_coordinator *self);
/* The members are these now. `registered` of the upcalls is called when that is
   written, or cannot be: others hear of it no earlier. It is called at once
   where there is no register, and not at all where the job ends. */
void gw_register_write(struct gw_coordinator *self);
/* The job ends: the register goes, before `settle` returns, which comes before
   the directory is closed. */
void gw_register_end(struct gw_coordinator *self);
void gw_register_settle(struct gw_coordinator *self);

/* ---- coordinator_missing.c: members of the register that are not back ---- */

enum gw_status gw_missing_open(struct gw_coordinator *self,
                               struct gw_error *error);
void gw_missing_close(struct gw_coordinator *self);
enum gw_missing_wait {
    GW_WAIT_FOR_ALL,
    GW_WAIT_FOR_NEEDED, /* servers that cannot be spared */
    GW_WAIT_FOR_NOBODY
};
void gw_missing_set_wait(struct gw_coordinator *self,
                         enum gw_missing_wait wait);
enum gw_missing_wait gw_missing_wait(const struct gw_coordinator *self);
/* One that is awaited, a server if there is one, or one that is given up. NULL:
   nobody is. */
const struct gw_membership_member *
gw_missing_awaited(const struct gw_coordinator *self, int even_given_up);
/* A server that is not, and without which the job cannot go on; or NULL. */
const struct gw_membership_member *
gw_missing_needed(const struct gw_coordinator *self);
/* Another process asks for the rank of a worker: non-zero where that one is not
   back, and so is gone. */
int gw_missing_asked_for(struct gw_coordinator *self, uint32_t rank);
/* Its process is gone, or has died since it was back. */
int gw_missing_has_gone(struct gw_coordinator *self, uint32_t pid);
void gw_missing_lost(struct gw_coordinator *self, const struct gw_seat *who);
/* Shards of servers that are not back are at their standbys. */
void gw_missing_leave(struct gw_coordinator *self);
/* The job goes on without that one, which is too late. */
int gw_missing_is_left(const struct gw_coordinator *self, uint64_t incarnation);
/* Seats for all that are missing, so that members have their numbers; these
   seats are left then, and others may take their places. GW_ENOMEM; the second
   returns 0 where the job has ended for one. */
enum gw_status gw_missing_make_seats(struct gw_coordinator *self);
int gw_missing_open_places(struct gw_coordinator *self);
/* The job ends: nobody is there to be told. */
void gw_missing_drop_seats(struct gw_coordinator *self);

/* ---- coordinator_early.c ---- */

enum gw_status gw_early_open(struct gw_coordinator *self,
                             struct gw_error *error);
void gw_early_close(struct gw_coordinator *self);
/* The process is heard later. 0: it is not, for want of room. */
int gw_early_keep(struct gw_coordinator *self,
                  struct gw_peer *peer,
                  const struct gw_join *join);
/* It is to be. */
int gw_early_is_of(const struct gw_peer *peer);
/* One of them is that thread of that server process. */
int gw_early_has_thread(const struct gw_coordinator *self,
                        uint64_t process,
                        uint32_t thread);
/* All of them are, now. */
void gw_early_hear(struct gw_coordinator *self);

/* ---- coordinator_rejoin.c ---- */

enum gw_status gw_rejoin_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_rejoin_close(struct gw_coordinator *self);
/* The register has the members that are back: shard 0 is asked. */
void gw_rejoin_registered(struct gw_coordinator *self);
/* NULL: the process is a member that may come back; else why not. */
const char *gw_rejoin_fault(const struct gw_coordinator *self,
                            const struct gw_peer *peer,
                            const struct gw_join *join);
/* It has its seat, and gets its number and its part from the register. `epoch`
   is of the last view that it has heard. */
void gw_rejoin_taken(struct gw_coordinator *self,
                     struct gw_seat *who,
                     uint64_t epoch);
void gw_rejoin_declared(struct gw_coordinator *self,
                        struct gw_seat *who,
                        const struct gw_declare *declare);
/* A process of this machine is gone: non-zero where it was a member. */
int gw_rejoin_gone(struct gw_coordinator *self, uint32_t pid);
/* Another process wants to join in the place of a worker, which has died if it
   is not back. */
void gw_rejoin_asked_for(struct gw_coordinator *self,
                         const struct gw_join *join);
/* One that had come back has died. */
void gw_rejoin_lost(struct gw_coordinator *self,
                    struct gw_seat *who,
                    const char *text);
/* Non-zero where the standing was asked for here. */
int gw_rejoin_standing(struct gw_coordinator *self,
                       struct gw_seat *shard,
                       const struct gw_standing *standing);
/* A member that has not come back, as a thing that is waited for. */
void gw_rejoin_awaited(const struct gw_coordinator *self,
                       char *text,
                       size_t room);

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
