/* Inside the coordinator: orders, waits, and how a job ends. */
#ifndef GW_SERVER_COORDINATOR_END_H
#define GW_SERVER_COORDINATOR_END_H

#include "server/coordinator/coordinator_state.h"

/* ---- coordinator_message.c: members' handler ---- */

extern const struct gw_member_handler gw_coordinator_handler;

/* ---- coordinator_ctl.c ---- */

void gw_coordinator_requested(struct gw_coordinator *self,
                              struct gw_peer *peer,
                              const struct gw_request *request);
/* Shard 0 is another process: it hears of a user's request, too. */
void gw_ctl_ask_again(struct gw_coordinator *self);
/* A worker asks for a checkpoint. */
void gw_coordinator_save(struct gw_coordinator *self,
                         struct gw_seat *who,
                         const struct gw_request *request);

/* ---- coordinator_watch.c ---- */

enum gw_status gw_waits_open(struct gw_coordinator *self,
                             struct gw_error *error);
void gw_waits_close(struct gw_coordinator *self);
/* `over` of struct gw_upcalls. */
void gw_waits_stop(struct gw_coordinator *self);

/* ---- coordinator_stop.c ---- */

enum gw_status gw_stop_open(struct gw_coordinator *self,
                            struct gw_error *error);
void gw_stop_close(struct gw_coordinator *self);
/* Asked to, and it has not ended; since_p may be NULL. */
int gw_stop_is_asked(const struct gw_coordinator *self, uint64_t *since_us_p);
/* After a stop nothing has come on for so long; `wait` names the cause. */
void gw_stop_in_vain(struct gw_coordinator *self,
                     double waited_s,
                     const char *wait);
/* The program of rank 0 has no step behind that clock; the job may not have
   begun yet. A claim of any other worker is turned away. */
void gw_coordinator_finished(struct gw_coordinator *self,
                             struct gw_seat *who,
                             uint64_t clock);
/* The job has begun. */
void gw_stop_running(struct gw_coordinator *self);
/* The job runs on here, under another coordinator than before. */
void gw_stop_rejoined(struct gw_coordinator *self);
/* Ends the job when its end is decided and saved and the workers have left:
   `concluded` of struct gw_upcalls. */
void gw_coordinator_maybe_done(struct gw_coordinator *self);
void gw_coordinator_bye(struct gw_coordinator *self,
                        struct gw_seat *who,
                        const struct gw_bye *bye);

/* ---- coordinator_lost.c ---- */

/* A member has broken the protocol, `where`: at this other one, "": here. */
void gw_coordinator_faulted(struct gw_coordinator *self,
                            struct gw_seat *who,
                            const char *where,
                            const char *what);
void gw_coordinator_lost(struct gw_coordinator *self,
                         struct gw_peer *peer,
                         enum gw_status status,
                         const char *why);
/* The member is lost, and the reason in a word: its rank is vacant, or the job
   ends. */
void gw_coordinator_give_up(struct gw_coordinator *self,
                            struct gw_seat *who,
                            const char *why);
/* Another process asks for the rank of a worker. If that has no connection, it
   is dead; nothing else is done. */
void gw_coordinator_asked_for(struct gw_coordinator *self, uint32_t rank);
/* The same of a server with so many threads. */
void gw_coordinator_asked_to_serve(struct gw_coordinator *self,
                                   uint32_t threads);
/* A member cannot go on. */
void gw_coordinator_failed(struct gw_coordinator *self,
                           const struct gw_peer *peer,
                           const struct gw_end *end);

/* ---- coordinator_suspect.c ---- */

/* A member is silent. Non-zero: it is waited for; else it is to be given up. */
int gw_suspect_begin(struct gw_coordinator *self, struct gw_seat *who);
/* Takes those back that are heard again; one that was waited for in vain, which
   is to be given up. Called often. */
struct gw_seat *gw_suspect_overdue(struct gw_coordinator *self);

/* ---- coordinator_look.c ---- */

enum gw_status gw_look_open(struct gw_coordinator *self,
                            struct gw_error *error);
void gw_look_close(struct gw_coordinator *self);
/* gw_coordinator_end; where checkpoints were made, the line also names the one
   that --resume goes on from, as far as the disk answers in time. */
void gw_coordinator_end_and_look(struct gw_coordinator *self,
                                 enum gw_status status,
                                 const char *format,
                                 ...) __attribute__((format(printf, 3, 4)));

#endif
