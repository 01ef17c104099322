/*
 * Inside the coordinator: its parts.
 *
 * `struct gw_coordinator` holds the fields that every file reads, and a pointer
 * per part. A part's struct is defined in the file that is named for it, and
 * only that file reads its fields. Calls between files never form a circle: the
 * six calls that go back up are in `struct gw_upcalls`.
 *
 *   coordinator.c            opening and closing
 *   coordinator_message.c    handlers of the members' messages
 *   coordinator_status.c     the text of `gradweir status`
 *   coordinator_ctl.c        orders of the job's user
 *   coordinator_watch.c      waits: their names and their limits
 *   coordinator_stall.c      steps that do not come on, links that fail
 *
 *   coordinator_members.h: joining
 *   coordinator_join.c       ranks and server numbers
 *   coordinator_start.c      all are here, all declared, all ready
 *   coordinator_decline.c    processes that report that they cannot join
 *   coordinator_strangers.c  peers that have logged in and not joined
 *   coordinator_group.c      workers that sum before they push
 *   coordinator_leave.c      a seat is left
 *   coordinator_vacant.c     workers in the place of others that have died
 *   coordinator_copies.c     standbys in the place of servers that have died
 *   coordinator_places.c     other servers, which get copies
 *   coordinator_moves.c      shards of a server that has more than another
 *   coordinator_depart.c     servers that leave in order
 *   coordinator_names.c      which process has a shard, told to all
 *   coordinator_register.c   the list of members, for another coordinator
 *   coordinator_before.c     the list of the coordinator that has died
 *   coordinator_rejoin.c     its members come back to this one
 *   coordinator_missing.c    those that do not
 *   coordinator_early.c      others that join meanwhile
 *   coordinator_tell.c       view, keys and start, sent to every member
 *   coordinator_declare.c    keys and data as rank 0 declared them
 *
 *   coordinator_run.h: the running job
 *   coordinator_run.c        acts on reports and on decisions
 *   coordinator_ahead.c      reports that arrive before their decisions
 *   coordinator_fault.c      checks of decisions and reports
 *   coordinator_switch.c     from one policy to the next
 *   coordinator_gather.c     reports of a step, until it is complete
 *   coordinator_split.c      train.split = speed
 *   coordinator_steps.c      the furthest step
 *   coordinator_regimes.c    policies: past, present and decided
 *   coordinator_decided.c    decisions of shard 0 so far
 *
 *   coordinator_end.h: the end
 *   coordinator_stop.c       all steps done, or a stop
 *   coordinator_lost.c       lost and faulty members
 *   coordinator_suspect.c    silent members that are waited for
 *   coordinator_look.c       checkpoints that are left at the end
 *
 *   coordinator_keep.h: checkpoints
 *   coordinator_files.c      files of members that do not see checkpoint.dir
 *   coordinator_keep.c       the keeper: files in, manifest last
 *   coordinator_save.c       workers that wait for a checkpoint
 *   coordinator_inner.c      state of the workers' own optimizers
 *   coordinator_origin.c     the origin: the checkpoint that --resume names
 *
 *   leaves, called by all
 *   coordinator_say.c        lines, and messages to members
 *   coordinator_end.c        ends the job
 *   coordinator_final.c      the final report
 *   coordinator_roster.c     the list of members
 */
#ifndef GW_SERVER_COORDINATOR_STATE_H
#define GW_SERVER_COORDINATOR_STATE_H

#include <stdarg.h>

#include "proto/policy.h"
#include "server/coordinator/coordinator.h"
#include "server/checkpoint/manifest.h"
#include "transport/member/member.h"

enum gw_phase {
    GW_PHASE_GATHERING, /* members join */
    GW_PHASE_STARTING,  /* all are here: shards make or load their weights */
    GW_PHASE_REJOINING, /* the job runs, and this is another coordinator */
    GW_PHASE_RUNNING,
    GW_PHASE_ENDING, /* END is sent; members leave */
    GW_PHASE_OVER,
};

struct gw_served;

/* Written by coordinator_tell.c: how far a member has been told. */
struct gw_telling {
    struct gw_coordinator *self;
    uint32_t number;        /* among all members */
    uint32_t members, keys; /* that it has been told of */
    int compares; /* a worker with other keys than worker 0, whose it gets */
    int waits;    /* for a start of its own: */
    struct gw_start begin;
    int started;
};

/* A worker, or a shard of a server process. */
struct gw_seat {
    /* as it joined */
    struct gw_peer *peer;
    uint8_t role;
    uint32_t id;     /* rank or shard; of a standby that of its primary */
    uint32_t server; /* number of the server process */
    char host[64];
    char address[GW_ADDRESSES_MAX];
    uint64_t process, machine, incarnation;
    struct gw_secret secret;
    struct gw_need need;
    uint32_t pid, threads, thread;

    /* as a worker declared */
    int declared;
    uint64_t keys_hash, types_hash;
    char device[128];
    char tuned[GW_TUNED_BYTES]; /* kernels chosen for its products */
    int shares;                 /* others of its host can see its gradients */

    int again;         /* it has joined in the place of another one */
    uint64_t stood;    /* shard: epoch of the last view that it has answered */
    int ready;         /* shard: it has its weights */
    int caught;        /* standby: it has all that its primary has, */
    int is_counted;    /* and the register says so */
    int is_lost;       /* a server's thread: others have its part, */
    int is_replaced;   /* and another one has its number */
    int moves;         /* coordinator_moves.c: it leaves, and joins again */
    int departs;       /* coordinator_depart.c: its process is told to leave, */
    int asks_to_leave; /* or asks to, */
    uint64_t asked_us; /* since then */
    int is_unnamed;    /* coordinator_names.c: others are to hear of it, */
    uint64_t named;    /* and have, by the view of that epoch */
    int bye;

    /* as last reported */
    uint64_t rss_bytes;
    struct gw_metrics_snapshot counters;
    uint64_t clocks; /* per push: reported since its first one */

    /* coordinator_save.c: it waits for a checkpoint of that clock, or a later
       one */
    int saves;
    uint64_t saves_from;

    int broke;   /* its last connection was not closed by this side */
    int suspect; /* coordinator_suspect.c: it is silent, and waited for */

    /* coordinator_lost.c: how it broke the protocol last, and when, or 0 */
    char fault[GW_PEER_FAULT_MAX + 64];
    uint64_t fault_us;
    unsigned faults;

    /* coordinator_stall.c: the peers that it cannot reach, and why, or "" */
    char stuck[320];
    int stuck_told;

    struct gw_telling telling;
    struct gw_served *served; /* coordinator_files.c */
    struct gw_seat *next;
};

/* A thread of a server that is told to leave, be it to come again. */
static inline int gw_seat_leaves(const struct gw_seat *seat)
{
    return seat->moves || seat->departs;
}

/* It has a part of the weights. */
static inline int gw_seat_has_shard(const struct gw_seat *seat)
{
    return gw_role_has_shard(seat->role);
}

/* A standby is the server of its shard from now on. */
static inline void gw_seat_lead(struct gw_seat *seat)
{
    seat->role = GW_ROLE_SERVER;
    seat->caught = seat->is_counted = 0;
}

/* Calls from a lower file to a higher one; coordinator.c connects them. */
struct gw_upcalls {
    /* Sender and contents are checked when its decisions are here. */
    void (*report)(struct gw_coordinator *self,
                   struct gw_seat *who,
                   const struct gw_report *report);
    /* The register has the members as they are: what waited for that is told.
     */
    void (*registered)(struct gw_coordinator *self);
    /* A process asks to join. */
    void (*joined)(struct gw_coordinator *self,
                   struct gw_peer *peer,
                   const struct gw_join *join);
    /* A checkpoint is complete, or has failed. */
    void (*concluded)(struct gw_coordinator *self);
    /* The job ends: decisions are no longer waited for. */
    void (*ending)(struct gw_coordinator *self);
    /* All have left: nothing is waited for. */
    void (*over)(struct gw_coordinator *self);
};

struct gw_coordinator {
    struct gw_coordinator_options options;
    struct gw_config own;           /* the job; its optimizer may be declared */
    const struct gw_config *config; /* `own` */
    struct gw_loop *loop;
    struct gw_log *log;
    struct gw_log_limit limit; /* of lines that strangers provoke */
    struct gw_member *member;
    const struct gw_upcalls *up;
    enum gw_phase phase;
    uint64_t job;        /* its number */
    char *job_text;      /* the job file as members and checkpoints have it */
    uint64_t silence_us; /* limit of every member; known when all are here */
    size_t parts_n;      /* opened, or tried: coordinator.c */
    int has_local;       /* it listens at options.local */
    int expects_inner;   /* coordinator_inner.c */

    struct gw_before *before;
    struct gw_register *book;
    struct gw_rejoin *rejoin;
    struct gw_missing *missing;
    struct gw_early *early;
    struct gw_roster *roster;
    struct gw_final *final;
    struct gw_ending *ending;
    struct gw_steps *steps;
    struct gw_regimes *regimes;
    struct gw_decided *decided;
    struct gw_declaration *declaration;
    struct gw_gathers *gathers;
    struct gw_ahead *ahead;
    struct gw_origin *origin;
    struct gw_keeper *keeper;
    struct gw_splitter *splitter; /* NULL where parts are even */
    struct gw_grouper *grouper;
    struct gw_teller *teller;
    struct gw_declines *declines;
    struct gw_vacancies *vacancies;
    struct gw_places *places;
    struct gw_departures *departures;
    struct gw_stopping *stopping;
    struct gw_look *look;
    struct gw_waits *watch;
};

/* ---- coordinator_roster.c ---- */

enum gw_status gw_roster_open(struct gw_coordinator *self,
                              struct gw_error *error);
/* Members' own parts are closed by then. */
void gw_roster_close(struct gw_coordinator *self);
/* A peer that is no member has no seat: NULL. */
struct gw_seat *gw_roster_of(const struct gw_coordinator *self,
                             const struct gw_peer *peer);
struct gw_seat *
gw_roster_find(const struct gw_coordinator *self, uint8_t role, uint32_t id);
/* Shard 0; NULL until all are here. */
struct gw_seat *gw_roster_leader(const struct gw_coordinator *self);
/* The newest member; the others follow by `next`. */
struct gw_seat *gw_roster_first(const struct gw_coordinator *self);
void gw_roster_add(struct gw_coordinator *self, struct gw_seat *who);
/* Its worker is gone: the seat counts no more, and stays as it is. */
void gw_roster_remove(struct gw_coordinator *self, struct gw_seat *who);
/* It is there again. */
void gw_roster_restore(struct gw_coordinator *self, struct gw_seat *who);
/* The seat of a rank that has declared; of a vacant one, the last that had.
   NULL: none has. */
struct gw_seat *gw_roster_last(const struct gw_coordinator *self,
                               uint32_t rank);
/* The seats that were removed; the others follow by `next`. */
struct gw_seat *gw_roster_gone(const struct gw_coordinator *self);
/* "worker 1 (host, pid 7)", as lines name it. */
void gw_roster_print(const struct gw_seat *one, char name[GW_PEER_NAME_MAX]);
/* The same of one that has no seat. */
void gw_roster_print_name(uint8_t role,
                          uint32_t id,
                          uint32_t server,
                          const char *host,
                          uint32_t pid,
                          char name[GW_PEER_NAME_MAX]);
/* Any thread of a server that has a seat; NULL: none has. */
struct gw_seat *gw_roster_thread(const struct gw_coordinator *self,
                                 uint32_t server);
/* The number of a server process; gw_roster_servers for a new one. */
uint32_t gw_roster_server(const struct gw_coordinator *self, uint64_t process);
/* The server of that number is that process, which has so many threads. */
void gw_roster_place_server(struct gw_coordinator *self,
                            uint32_t number,
                            uint64_t process,
                            uint32_t threads);
/* Those of a server, also where its process is lost. */
uint32_t gw_roster_threads(const struct gw_coordinator *self, uint32_t number);
/* Joined so far; shards are 0 until all are here and numbered. */
uint32_t gw_roster_workers(const struct gw_coordinator *self);
uint32_t gw_roster_servers(const struct gw_coordinator *self);
uint32_t gw_roster_shards(const struct gw_coordinator *self);
/* One that leaves; NULL: none does. */
struct gw_seat *gw_roster_leaving(const struct gw_coordinator *self);
/* Those that a server has, and does not stand by for. */
uint32_t gw_roster_shards_of(const struct gw_coordinator *self,
                             uint32_t server);
/* All of them, standbys too. */
uint32_t gw_roster_members(const struct gw_coordinator *self);
/* Numbers the shards by server, then by thread; 0 while one is missing. */
int gw_roster_number_shards(struct gw_coordinator *self);
/* They have their numbers from before. */
void gw_roster_set_shards(struct gw_coordinator *self, uint32_t shards);
/* No member has a link any more. */
int gw_roster_has_left(const struct gw_coordinator *self);
/* The file of a checkpoint that a member writes. */
void gw_roster_file_name(const struct gw_coordinator *self,
                         const struct gw_seat *who,
                         char name[GW_FILE_NAME_MAX]);

/* ---- coordinator_say.c ---- */

/* Ends the job where the message does not fit. */
void gw_coordinator_tell(struct gw_coordinator *self,
                         struct gw_peer *peer,
                         const struct gw_message *message);
/* To shard 0. One that has not heard that it is that is asked when it has. */
void gw_coordinator_tell_leader(struct gw_coordinator *self,
                                const struct gw_message *message);
void gw_coordinator_note(struct gw_coordinator *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gw_coordinator_warn(struct gw_coordinator *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- coordinator_end.c ---- */

enum gw_status gw_ending_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_ending_close(struct gw_coordinator *self);
/* Sends END to all, with this status and line; nothing where the job ends
   already. */
void gw_coordinator_end(struct gw_coordinator *self,
                        enum gw_status status,
                        const char *format,
                        ...) __attribute__((format(printf, 3, 4)));
/* The two halves of gw_coordinator_end. `begin` returns 0 where the job ends
   already; between the halves the final report can change. */
int gw_ending_begin(struct gw_coordinator *self,
                    enum gw_status status,
                    const char *format,
                    va_list args);
void gw_ending_send(struct gw_coordinator *self);
/* A member's link is down while the job ends. */
void gw_ending_link_down(struct gw_coordinator *self);

/* ---- coordinator_final.c ---- */

enum gw_status gw_final_open(struct gw_coordinator *self,
                             struct gw_error *error);
void gw_final_close(struct gw_coordinator *self);
void gw_final_set_score(struct gw_coordinator *self,
                        const struct gw_score_report *score);
void gw_final_set_weights(struct gw_coordinator *self, const uint8_t *sha256);
/* A checkpoint is complete. The newest one is reported. */
void gw_final_add_checkpoint(struct gw_coordinator *self, uint64_t clock);
/* The newest one that can be read at the end, if that is another one. */
void gw_final_found_checkpoint(struct gw_coordinator *self, uint64_t clock);
void gw_final_found_none(struct gw_coordinator *self);
/* Non-zero when there is one, with its clock; clock_p may be NULL. */
int gw_final_checkpoint(const struct gw_coordinator *self, uint64_t *clock_p);
void gw_final_set_text(struct gw_coordinator *self,
                       enum gw_status status,
                       const char *format,
                       va_list args);
void gw_final_set_status(struct gw_coordinator *self, enum gw_status status);
void gw_final_add_text(struct gw_coordinator *self, const char *text);
enum gw_status gw_final_status(const struct gw_coordinator *self);
/* The END that members get; it points into the report. */
struct gw_message gw_final_message(const struct gw_coordinator *self);
/* Adds up the members' counters and gives the report to the owner. */
void gw_final_give(struct gw_coordinator *self);

#endif
