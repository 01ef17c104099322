/* The talk with the coordinator, and the coordinator that may be away. Private
   to the client. */
#ifndef GW_WORKER_CLIENT_SESSION_H
#define GW_WORKER_CLIENT_SESSION_H

#include "worker/client/client_state.h"

/* ---- client_session.c ---- */

enum gw_status gw_client_session_open(struct gw_client *client);
void gw_client_session_cancel(struct gw_client *client); /* its task */
void gw_client_session_close(struct gw_client *client);
/* Tells the coordinator a JOIN. */
void gw_client_session_join(struct gw_client *client);
/* Another coordinator hears of the good-bye, of a finish and of a stop. */
void gw_client_session_renew(struct gw_client *client);
gw_message_handle_fn gw_client_got_welcome, gw_client_got_view,
    gw_client_got_start, gw_client_got_end;
/* Sends the good-bye, with which the worker has done its part. */
void gw_client_session_bye(struct gw_client *client,
                           uint64_t clock,
                           const uint8_t digest[GW_DIGEST_BYTES],
                           uint64_t rss_bytes);
/* The program of rank 0 has no step behind `clock`: the coordinator hears it.
 */
void gw_client_session_finished(struct gw_client *client, uint64_t clock);
/* A client that failed by itself tells the coordinator why, and lingers until
   the message has left. */
void gw_client_session_last_words(struct gw_client *client);
int gw_client_has_job(const struct gw_client *client);
int gw_client_has_view(const struct gw_client *client);
int gw_client_has_started(const struct gw_client *client);
/* It has, and the job goes on without its coordinator. */
int gw_client_outlives(const struct gw_client *client);
void gw_client_colocated(const struct gw_client *client,
                         struct gw_colocated *colocated_p);
/* The step at which the job began or goes on. */
uint64_t gw_client_first_step(const struct gw_client *client);

/* ---- client_home.c ---- */

/* A link to the coordinator: joins, the first time and where another process
   answers. */
void gw_client_home_link_up(struct gw_client *client);
void gw_client_home_link_down(struct gw_client *client, enum gw_status status);
/* It is silent: the client goes on without it, or fails. */
void gw_client_home_lost(struct gw_client *client);
/* Fails the client where it has been away for too long. Called often. */
void gw_client_home_judge(struct gw_client *client);
/* One of another coordinator, which gets what the one before may not have had,
   or one for gw_client_got_view. */
gw_message_handle_fn gw_client_home_got_view;

/* ---- client_declare.c ---- */

enum gw_status gw_client_declared_open(struct gw_client *client);
void gw_client_declared_close(struct gw_client *client);
/* The declaration once more, for another coordinator. */
void gw_client_declare_again(struct gw_client *client);

#endif
