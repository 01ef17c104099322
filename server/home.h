/*
 * The coordinator of a running job, as a server thread has it: here, away, or
 * another one in its place. The struct is private to home.c.
 */
#ifndef GW_SERVER_HOME_H
#define GW_SERVER_HOME_H

#include "proto/status.h"
#include "transport/link/loop.h"
#include "transport/member/away.h"

struct gw_server;

struct gw_home {
    struct gw_away away;   /* others ask its questions */
    const char *stop;      /* the reason to stop that it was told; NULL: none */
    uint8_t leaves;        /* it alone, if possible */
    struct gw_timer watch; /* while it is away */
};

/* Its link is up: joins, the first time and where another process answers. */
void gw_home_link_up(struct gw_server *server);
void gw_home_link_down(struct gw_server *server, enum gw_status status);
/* It is silent: the job goes on without it, or ends here; a thread that had not
   begun joins anew. */
void gw_home_lost(struct gw_server *server, const char *why);
/* It refuses the login. 0: this thread is a member, or has none of before; else
   another server of it is wanted, and this one is over. */
int gw_home_begin_anew(struct gw_server *server, const char *why);
/* A new one has all members, and gets what the one before may not have had. */
void gw_home_back(struct gw_server *server);
/* The job is over here. */
void gw_home_stop(struct gw_server *server);
/* Asks it to end the job in order; or to let this server's process go, and not
   the job. `why` outlives the server. */
void gw_home_ask_stop(struct gw_server *server, const char *why);
void gw_home_ask_to_leave(struct gw_server *server, const char *why);

#endif
