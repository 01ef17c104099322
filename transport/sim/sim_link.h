/*
 * Inside the sim transport: the ends of links, shared by sim_link.c (making and
 * breaking them), sim_incoming.c and sim_flight.c (frames on their way) and
 * sim_login.c (how links come up).
 */
#ifndef GW_TRANSPORT_SIM_LINK_H
#define GW_TRANSPORT_SIM_LINK_H

#include "transport/sim/sim_world.h"

/*
 * One end of a link, which its host's region alone touches. The other end may
 * be in another one; it is an address, to which frames are sent, and one last
 * word, that this end is closed or that the link is broken:
 *
 *   opener -- request -> listener       opener is unanswered
 *          <-- answer --   acceptor     refused: opener has no peer;
 *                                       else each end is owed a last word
 *          <-- frames -->
 *          -- last word -->             the acceptor is owed nothing any more,
 *          <-- last word --             and now neither is the opener
 *
 * What has been sent to an end finds it: it is freed when it is released, and
 * neither unanswered nor owed.
 */
struct gw_sim_link {
    struct gw_link base;

    /* what every frame that goes out looks at lies together */
    _Alignas(GW_CACHE_LINE) struct gw_sim_process *process;
    struct gw_sim_link *peer;  /* NULL: none yet, or it has the last word */
    struct gw_sim_host *there; /* where the peer is, or was */
    struct gw_send *leaving;
    int closed;
    int asked;           /* for a turn to send */
    int abroad;          /* the peer is at another host */
    int ends;            /* the peer has closed it: what it sent comes first */
    double leaving_us;   /* that it takes from its first byte to its last */
    uint64_t left_us;    /* when, if not before its host's interface is free */
    uint64_t arrives_us; /* when the last frame that was sent is there */
    struct gw_sim_turn out;

    /* and what comes in, in the order of its sending: through the interface and
       kept, then what is not. The first of those is under way or waits for its
       turn; when the others are at the host is looked at when they are first */
    _Alignas(GW_CACHE_LINE) struct gw_sim_turn in;
    struct gw_sim_flight *incoming, **incoming_last;
    struct gw_sim_flight *outside; /* the first that is not through */
    struct gw_sim_event comes;     /* the first outside is at the host */
    size_t kept;                   /* while the process stood still */
    int tells_end;                 /* as soon as nothing comes any more */
    int deaf;                      /* broken: whatever comes is lost */

    int unanswered; /* opener: whoever hears the answer looks for this end */
    int owed;       /* the peer's last word */
    int released;   /* closed, and nothing here holds it any more */
    uint64_t answered_us;              /* acceptor: when its answer is there */
    uint32_t exported[GW_WINDOWS_MAX]; /* that the peer may read */
    struct gw_sim_link *sibling, **sibling_back; /* in process->links */
    struct gw_sim_event line;                    /* the line is free again */
    struct gw_sim_event takes;                   /* what was kept */
    struct gw_sim_event news;                    /* up or down, to be told */
    struct gw_sim_event *deadline;               /* opener: of the login */
    enum gw_status down_status;
    char *down_why;
};

/* A frame on its way. */
struct gw_sim_flight {
    struct gw_sim_flight *next; /* in to->incoming */
    uint64_t at_us;             /* when it is at the host */
    struct gw_sim_place place;
    struct gw_frame frame;
    float sent_us; /* that the sender took for it */
    uint8_t waits; /* for the host's interface */
    uint8_t has_bytes;
    _Alignas(uint64_t) uint8_t bytes[];
};

extern const struct gw_transport_ops gw_sim_transport;

static inline struct gw_sim_link *gw_sim_link_of(struct gw_link *link)
{
    return GW_CONTAINER(link, struct gw_sim_link, base);
}

/* sim_link.c: a new end of a process. */
struct gw_sim_link *gw_sim_link_new(struct gw_sim_process *process,
                                    struct gw_transport *transport);

/* The end has found its peer, there. */
void gw_sim_link_join(struct gw_sim_link *end,
                      struct gw_sim_link *peer,
                      struct gw_sim_host *there);

/* Takes the end out of everything that could still reach it; to the peer, if
   there is one still, it says that it is closed. */
void gw_sim_link_detach(struct gw_sim_link *end);

/* See struct gw_transport_ops. */
enum gw_status gw_sim_link_export(struct gw_link *base, uint32_t window);
const void *
gw_sim_link_import(struct gw_link *base, uint32_t window, size_t bytes);

/* Frees a detached end once the callbacks that may hold it have returned, and
   whatever was sent to it has come. */
void gw_sim_link_release(struct gw_sim_link *end);

/* Where something that was waited for has come: frees it if that was the last.
 */
void gw_sim_link_free_if_last(struct gw_sim_link *end);

/* The peer, if there is one still, hears that the link is broken. */
void gw_sim_link_reset(struct gw_sim_link *end);

/* What it will be told. */
void gw_sim_link_note_down(struct gw_sim_link *end,
                           enum gw_status status,
                           const char *why);

/* Detached, told and released, now. */
void gw_sim_link_tell_down(struct gw_sim_link *end);

/* The end will learn of its death when what runs now has returned. */
void gw_sim_link_fail(struct gw_sim_link *end,
                      enum gw_status status,
                      const char *why);

/* What is on its way is lost: to this end now, to the other when it hears. */
void gw_sim_link_break(struct gw_sim_link *end,
                       enum gw_status status,
                       const char *why);

/* What has left before an orderly close still arrives. */
void gw_sim_link_close(struct gw_link *base);

/* Ends the login deadline of an opener, if it has one. */
void gw_sim_deadline_free(struct gw_sim_link *opener);

/* sim_flight.c: the queue of this end is no longer empty. */
void gw_sim_link_kick(struct gw_link *base);

/* Events, turns and lists of a new end. */
void gw_sim_link_prepare(struct gw_sim_link *end);

/* sim_incoming.c: flights, with room for so many bytes of payload. */
struct gw_sim_flight *gw_sim_flight_new(struct gw_sim_region *region,
                                        size_t bytes);
void gw_sim_flight_free(struct gw_sim_region *region,
                        struct gw_sim_flight *flight);

/* A frame is on its way to this end, of this region. */
void gw_sim_link_enter(struct gw_sim_link *to, struct gw_sim_flight *flight);

/* Schedules the arrival of the first frame that is not through. */
void gw_sim_link_schedule_first(struct gw_sim_link *to);

/* Frees all frames on their way to this end. */
void gw_sim_link_forget(struct gw_sim_link *end);

/* Prefetches the fields of an end that every frame uses. */
void gw_sim_link_prefetch(const struct gw_sim_link *end);

/* A message from one host to the other takes so long. */
uint64_t gw_sim_latency(struct gw_sim_host *from, const struct gw_sim_host *to);

#endif
