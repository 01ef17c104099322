/*
 * Inside the sim transport: the ends of links, shared by sim_link.c (making and
 * breaking them), sim_incoming.c and sim_flight.c (frames on their way) and
 * sim_login.c (how links come up).
 */
#ifndef GW_TRANSPORT_SIM_LINK_H
#define GW_TRANSPORT_SIM_LINK_H

#include "transport/sim/sim_world.h"

/*
 * One end of a link, used by its host's region alone. The other end may be in
 * another region; here it is an address, to which frames are sent, and one last
 * word: that this end is closed or that the link is broken.
 *
 *   opener -- request -> listener       opener is unanswered
 *          <-- answer --   acceptor     refused: opener has no peer;
 *                                       else each end is owed a last word
 *          <-- frames -->
 *          -- last word -->             the acceptor is owed nothing any more,
 *          <-- last word --             and now neither is the opener
 *
 * Frames and notes find the end they were sent to, because it is freed only
 * when it is released, and neither unanswered nor owed.
 */
struct gw_sim_link {
    struct gw_link base;

    /* fields that every outgoing frame uses */
    _Alignas(GW_CACHE_LINE) struct gw_sim_process *process;
    /* NULL: none yet, or it has been sent the last word */
    struct gw_sim_link *peer;
    struct gw_sim_host *there; /* where the peer is, or was */
    struct gw_send *leaving;
    int closed;
    int asked;  /* in line to send */
    int abroad; /* the peer is at another host */
    int ends;   /* the peer has closed it: frames that it sent before come first
                 */
    double leaving_us;   /* time of the leaving frame from its first byte to its
                            last */
    uint64_t left_us;    /* time when it has left, unless its host's interface
                            takes longer */
    uint64_t arrives_us; /* arrival of the last frame that was sent */
    struct gw_sim_turn out;

    /* incoming frames, in the order in which they were sent: first frames
       through the interface and kept, then the others. The first of the others
       is under way or in line; the arrival of the next is checked when it
       becomes the first */
    _Alignas(GW_CACHE_LINE) struct gw_sim_turn in;
    struct gw_sim_flight *incoming, **incoming_last;
    struct gw_sim_flight *outside; /* the first frame that is not through */
    struct gw_sim_event comes; /* the first frame outside reaches the host */
    size_t kept;               /* frames that came during a pause */
    int tells_end; /* tells its end as soon as no frame is on its way */
    int deaf;      /* broken: arriving frames are lost */

    int unanswered;       /* opener: the answer will look for this end */
    int owed;             /* the peer's last word */
    int released;         /* closed, and no callback refers to it any more */
    uint64_t answered_us; /* acceptor: arrival of its answer */
    uint32_t exported[GW_WINDOWS_MAX]; /* windows that the peer may read */
    struct gw_sim_link *sibling, **sibling_back; /* in process->links */
    struct gw_sim_event line;                    /* the line is free again */
    struct gw_sim_event takes;                   /* handles a kept frame */
    struct gw_sim_event news;                    /* up or down is to be told */
    struct gw_sim_event *deadline;               /* opener: of its login */
    enum gw_status down_status;
    char *down_why;
};

/* A frame on its way. */
struct gw_sim_flight {
    struct gw_sim_flight *next; /* in to->incoming */
    uint64_t at_us;             /* arrival at the host */
    struct gw_sim_place place;
    struct gw_frame frame;
    float sent_us; /* time that the sender took for it */
    uint8_t waits; /* in line for the host's interface */
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

/* Connects the end to its peer, at host `there`. */
void gw_sim_link_join(struct gw_sim_link *end,
                      struct gw_sim_link *peer,
                      struct gw_sim_host *there);

/* Takes the end out of everything that could still reach it; tells the peer, if
   it still has one, that it is closed. */
void gw_sim_link_detach(struct gw_sim_link *end);

/* See struct gw_transport_ops. */
enum gw_status gw_sim_link_export(struct gw_link *base, uint32_t window);
const void *
gw_sim_link_import(struct gw_link *base, uint32_t window, size_t bytes);

/* Frees a detached end once the callbacks that may refer to it have returned,
   and everything sent to it has arrived. */
void gw_sim_link_release(struct gw_sim_link *end);

/* An awaited message has arrived: frees the end if that was the last. */
void gw_sim_link_free_if_last(struct gw_sim_link *end);

/* Tells the peer, if there is one, that the link is broken. */
void gw_sim_link_reset(struct gw_sim_link *end);

/* Records the status and reason of its end. */
void gw_sim_link_note_down(struct gw_sim_link *end,
                           enum gw_status status,
                           const char *why);

/* Detaches the end, tells its owner and releases it, now. */
void gw_sim_link_tell_down(struct gw_sim_link *end);

/* Makes the end fail when the current event has been handled. */
void gw_sim_link_fail(struct gw_sim_link *end,
                      enum gw_status status,
                      const char *why);

/* Breaks the link: frames on their way are lost, to this end now, to the peer
   when it is told. */
void gw_sim_link_break(struct gw_sim_link *end,
                       enum gw_status status,
                       const char *why);

/* Frames that have left before an orderly close still arrive. */
void gw_sim_link_close(struct gw_link *base);

/* Ends the login deadline of an opener, if it has one. */
void gw_sim_deadline_free(struct gw_sim_link *opener);

/* sim_flight.c: the queue of this end is no longer empty. */
void gw_sim_link_kick(struct gw_link *base);

/* Sets up events, turns and lists of a new end. */
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

/* Draws the latency of a message between two hosts. */
uint64_t gw_sim_latency(struct gw_sim_host *from, const struct gw_sim_host *to);

#endif
