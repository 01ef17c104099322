/*
 * Words of a server on itself and on others: its counters, faults, and its end.
 * The struct is private to tell.c.
 */
#ifndef GW_SERVER_TELL_H
#define GW_SERVER_TELL_H

#include "proto/control.h"
#include "proto/status.h"
#include "transport/member/member.h"

struct gw_server;

struct gw_server_ending {
    void (*halt)(struct gw_server *server); /* stops its timers */
    int decided;                            /* by the coordinator */
    int over; /* the owner is told when the last words have left */
    enum gw_status status;
    char text[GW_ERROR_TEXT_BYTES];
    struct gw_timer linger;
    int is_told; /* the owner is */
    uint64_t until_us;
    uint64_t clock;       /* at which the job ends, once decided */
    uint64_t reported_us; /* when the counters were */
};

/* The job is over for this thread. */
void gw_server_finish(struct gw_server *server,
                      enum gw_status status,
                      const char *format,
                      ...) __attribute__((format(printf, 3, 4)));
int gw_server_is_over(const struct gw_server *server);
void gw_server_tell(struct gw_server *server,
                    struct gw_peer *peer,
                    const struct gw_message *message);
/* The coordinator ends the job, and needs no word of it. */
void gw_server_ending_decided(struct gw_server *server);
/* The link to the coordinator is down: the owner hears of the end at once. */
void gw_server_ending_unheard(struct gw_server *server);
/* halt: stops the timers of a job that is over. */
void gw_server_ending_open(struct gw_server *server,
                           void (*halt)(struct gw_server *server));
void gw_server_ending_close(struct gw_server *server);
/* The clock at which the job ends, GW_NEVER_CLOCK: not decided. */
void gw_server_ending_at(struct gw_server *server, uint64_t clock);
int gw_server_is_ending(const struct gw_server *server);

/* Its counters, every second at most. */
void gw_tell_counters(struct gw_server *server);
/* Tells the coordinator, and through it the waiting members, about a peer
   that this shard dials in vain. A call of struct gw_member_handler. */
void gw_tell_stuck(struct gw_server *server,
                   const struct gw_peer *peer,
                   const char *text);
/* A decision of this shard 0, to any member. */
void gw_tell_decision(struct gw_server *server,
                      struct gw_peer *peer,
                      const struct gw_decision *decision);
/* A worker or shard broke the protocol, for the coordinator to name, at the
   job's end if it comes to that. */
void gw_tell_fault(struct gw_server *server,
                   const struct gw_peer *peer,
                   const char *why);

#endif
