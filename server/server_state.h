/*
 * Inside a server thread: the state that its files share.
 *
 *   server.c          a server's life, and its links
 *   server_message.c  control messages
 *   server_start.c    from the start to the first step
 *   view.c            the members of the job
 *   session_frame.c   frames of workers
 *   session.c         the path of a push
 *   session_answer.c  the way of weights out
 *   session_open.c    workers come and go
 *   push.c            a push as its frame tells it
 *   sum.c             pushes of several workers in one
 *   measure.c         numbers that members may say
 *   shown.c           pushes that are read where their workers have them
 *   due.c             chunks that are looked at again
 *   commit.c          the stages of commits
 *   commit_table.c    the table of commits
 *   commit_*.c        its entries; commit_update.c is for all
 *   drain.c           all ranks come to stand still
 *   switch.c          from one policy to the next
 *   follow.c          the stream of decisions
 *   follow_fault.c    decisions that cannot be
 *   vote.c            words for the leader of that stream
 *   behind.c          decisions for members that do not keep up
 *   divide.c          speed: how steps are divided
 *   tell.c            counters, faults of others, the end
 *   stall.c           members that a stuck shard waits for
 *   save.c            cuts and checkpoint files
 *   load.c            a checkpoint's weights back into the shard
 *   lend.c            memory of answers and pushes, for the transports
 */
#ifndef GW_SERVER_SERVER_STATE_H
#define GW_SERVER_SERVER_STATE_H

#include "proto/config.h"
#include "proto/groups.h"
#include "server/drain.h"
#include "server/due.h"
#include "server/policy/decision.h"
#include "server/policy/policy.h"
#include "server/policy/regime.h"
#include "server/server.h"
#include "server/shard.h"
#include "server/want.h"
#include "transport/member/member.h"
#include "transport/link/settle.h"

/* The parts of the next sums of a group's member, a row for each chunk of
   the shard. */
struct gw_parts {
    uint64_t *clock;      /* [chunks] + 1; 0: nothing is known */
    struct gw_part *part; /* [chunks][n of the group] */
};

/* Decisions of steps that a worker is behind, as one. */
struct gw_behind {
    uint32_t n;      /* so many, */
    uint64_t number; /* up to this one */
    double loss_scale;
    uint64_t counts, late; /* + 1, the last clock in which it does, or not */
};

/* A worker, as this shard knows it. */
struct gw_session {
    struct gw_behind behind; /* shard 0: that it has not been told */
    struct gw_group group;   /* its sums are pushed together */
    struct gw_parts parts;   /* none where it is by itself */
    struct gw_peer *peer;    /* NULL while it is not connected */
    uint64_t incarnation;    /* that the view names */
    int has_secret;          /* the view has one: */
    struct gw_secret secret; /* that its logins prove */
    char host[64];
    uint32_t landing;   /* window: its pushes */
    uint32_t seeds;     /* window: rank 0's first weights */
    uint32_t gradients; /* window of its own, that it shows, as it said last */
    uint64_t clock;     /* each push: the next one, of all chunks here */
    uint32_t pushed;    /* its chunks that are in; quorum: held, until it is
                           decided which ranks count */
};

/* A regime that is decided, and the clock from which it holds. */
struct gw_switch {
    uint64_t decision; /* number of the decision, 0: there is none */
    uint64_t clock;
    struct gw_regime regime;
    uint64_t cut; /* + 1, the name of a checkpoint of that clock, which comes
                     after; 0: there is none */
};

/* Private to switch.c. */
struct gw_switches {
    struct gw_switch next, after; /* two where phases are of one exchange */
    uint64_t base_clock;          /* where the regime began */
    uint64_t renumbered; /* the decision that numbered clocks anew; 0: none */
};

/* Private to commit_quorum.c: the ranks that make a step. */
struct gw_quorum {
    uint64_t decided;   /* clock + 1 of the last decision, */
    uint8_t *counts;    /* [ranks] and what it was */
    uint32_t *arrived;  /* [ranks] whole here in the clock that is open, and */
    uint32_t arrived_n; /* not told yet, since shard 0 does not keep up */
};

/* Private to commit_whole.c: where a step stands on this shard. */
enum gw_whole_phase {
    GW_WHOLE_GATHERING, /* pushes come in; the vote follows the last */
    GW_WHOLE_DIRECTING, /* lamb: making directions */
    GW_WHOLE_TRUSTING,  /* lamb: waiting for the trust ratios */
    GW_WHOLE_APPLYING,
};

struct gw_whole_step {
    enum gw_whole_phase phase;
    int skip;
    uint32_t next; /* chunk to work on */
    struct gw_update update;
    double *votes; /* [2 * chunks] */
    uint32_t *bad; /* [ranks] */
    uint32_t bad_n;
    double *trust; /* [keys] */
    uint64_t samples;
    struct gw_task task;
};

/* Private to stall.c. */
struct gw_watch {
    struct gw_timer watch;
    uint64_t progress_us; /* when a push was last counted */
    uint64_t stalled_us;  /* when a stall was last reported */
};

struct gw_push;
/* Private to tell.c. */
struct gw_ending {
    void (*halt)(struct gw_server *server); /* stops its timers */
    int decided;                            /* by the coordinator */
    int over; /* the owner is told when the last words have left */
    enum gw_status status;
    char text[GW_ERROR_TEXT_BYTES];
    struct gw_timer linger;
    uint64_t until_us;
    uint64_t clock;       /* at which the job ends, once decided */
    uint64_t reported_us; /* when the counters were */
};

/* Private to server.c. */
struct gw_server_links {
    int joined; /* JOIN is told, once: messages outlive a link */
    struct gw_log_limit limit;
};

/* Private to view.c. */
struct gw_members {
    uint32_t seen, total;
    int whole; /* the view is here, and is one of this job */
    char leader_address[GW_ADDRESSES_MAX];
    uint64_t leader_incarnation;
    struct gw_shard_name {
        uint64_t incarnation;
        int has_secret;
        struct gw_secret secret; /* that its logins prove */
    } * shard_name;              /* [total], by number */
    struct gw_met met;           /* on this host */
    uint32_t shards_present;     /* shard 0: the others that are connected */
    int present;                 /* all that this shard waits for */
};

/* Private to server_start.c. */
struct gw_startup {
    struct gw_key *keys;
    uint32_t keys_seen, keys_total;
    char resume[GW_PATH_BYTES], dir[GW_PATH_BYTES], token[GW_STRING_MAX];
    struct gw_settling pages; /* the shard's arrays, before it is ready */
    struct gw_memory *memory; /* all of them, until then */
};

/* Private to divide.c. */
struct gw_divide {
    uint32_t *first;           /* [ranks] in force at the start; NULL: even */
    struct gw_splits repeated; /* shard 0: of the run before */
};

struct gw_push;
struct gw_save;
struct gw_load;
struct gw_remote;

/*
 * Fields that are read where they are needed, then the parts, each of which one
 * file has for itself.
 */
struct gw_server {
    struct gw_server_options options;
    struct gw_loop *loop;
    struct gw_log *log;
    struct gw_metrics *metrics;
    struct gw_member *member;
    struct gw_peer *coordinator;
    struct gw_peer *leader_peer; /* shard 0, where this is another shard */
    struct gw_remote *remote;    /* files, through the coordinator */

    /* the job */
    struct gw_config config;
    int has_config;
    uint32_t number, ranks, shards;
    struct gw_map *map;
    struct gw_start start;
    uint64_t *clocks; /* [ranks] the first clock of each */

    /* the run */
    int running; /* weights are there: workers may log in */
    struct gw_regime regime;
    struct gw_shard *shard;
    struct gw_wants *wants;
    struct gw_session *session; /* [ranks] */
    struct gw_leader *leader;   /* shard 0 only */
    uint64_t decision;          /* number of the last one followed */
    double loss_scale;

    /* parts */
    struct gw_server_links links;
    struct gw_members members;
    struct gw_startup startup;
    struct gw_due due;
    struct gw_whole_step step;
    struct gw_quorum quorum;
    struct gw_drain drain;
    struct gw_switches switches;
    struct gw_timer cut_timer; /* private to follow.c */
    struct gw_divide divide;
    struct gw_watch stall;
    struct gw_save *save;
    struct gw_load *load;
    struct gw_ending end;
};

/* The last decision that the sender of a frame had followed. */
static inline uint64_t gw_session_decision(const struct gw_server *server,
                                           const struct gw_frame *frame)
{
    return gw_decision_near(server->decision, frame->decision);
}

/* tell.c: the job is over for this thread */
void gw_server_finish(struct gw_server *server,
                      enum gw_status status,
                      const char *format,
                      ...) __attribute__((format(printf, 3, 4)));
int gw_server_is_over(const struct gw_server *server);
void gw_server_tell(struct gw_server *server,
                    struct gw_peer *peer,
                    const struct gw_message *message);
/* The coordinator ends the job, and needs no word of it. */
void gw_server_end_decided(struct gw_server *server);
/* halt: stops the timers of a job that is over. */
void gw_server_end_open(struct gw_server *server,
                        void (*halt)(struct gw_server *server));
void gw_server_end_close(struct gw_server *server);
/* The clock at which the job ends, GW_NEVER_CLOCK: not decided. */
void gw_server_end_at(struct gw_server *server, uint64_t clock);
int gw_server_is_ending(const struct gw_server *server);

/* Its counters, every second at most. */
void gw_server_report(struct gw_server *server);
/* Tells the coordinator, and through it the waiting members, about a peer
   that this shard dials in vain. A call of struct gw_member_handler. */
void gw_server_tell_stuck(struct gw_server *server,
                          const struct gw_peer *peer,
                          const char *text);
/* A worker or shard broke the protocol, for the coordinator to name, at the
   job's end if it comes to that. */
void gw_server_tell_fault(struct gw_server *server,
                          const struct gw_peer *peer,
                          const char *why);

/* session_open.c */
enum gw_status gw_session_open(struct gw_server *server,
                               struct gw_error *error);
void gw_session_close(struct gw_server *server);
enum gw_status gw_session_admit(struct gw_server *server, struct gw_peer *peer);
/* A link is up: perhaps all are. */
void gw_session_present(struct gw_server *server);
void gw_session_link_down(struct gw_server *server,
                          struct gw_peer *peer,
                          unsigned link);
/* session_frame.c */
void gw_session_frame(struct gw_server *server,
                      struct gw_peer *peer,
                      unsigned link,
                      const struct gw_frame *frame,
                      const void *payload);
/* session.c: a push; all that is due of one chunk, the owner is the server. */
void gw_session_push(struct gw_server *server,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame);
void gw_session_look(void *owner, uint32_t chunk);

/* session_answer.c: wants; answers to all that may have weights by now, where
   the turn is over later. */
void gw_session_want(struct gw_server *server,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const uint8_t *payload);
struct gw_policy_view
gw_session_view(const struct gw_server *server, uint32_t rank, uint32_t chunk);
void gw_session_answer(struct gw_server *server, uint32_t chunk);

/*
 * shown.c: a chunk's place in an arena that a worker shows, valid until the
 * loop goes on; NULL: its link was cut, and the pushes that came by the link
 * are taken back. The other does so for all held pushes of a chunk, before they
 * are summed; 0: some were taken back.
 */
const float *gw_shown_find(const struct gw_server *server,
                           struct gw_peer *peer,
                           uint32_t window,
                           uint32_t chunk);
int gw_shown_find_all(struct gw_server *server, uint32_t chunk);

/* sum.c: pushes that are sums of groups. GW_EPROTO: groups that do not add up.
   GW_ENOMEM. */
enum gw_status gw_sum_start(struct gw_server *server,
                            const struct gw_start *start,
                            struct gw_error *error);
enum gw_status gw_sum_admit(struct gw_server *server, struct gw_peer *peer);
void gw_sum_close(struct gw_server *server);
void gw_sum_parts(struct gw_server *server,
                  struct gw_peer *peer,
                  unsigned link,
                  const struct gw_frame *frame,
                  const uint8_t *payload);
/* The parts of a push that is a sum, [n of the group]; NULL: they are not known
   or do not add up, or this policy has no sums. */
const struct gw_part *gw_sum_of(const struct gw_server *server,
                                const struct gw_push *push);

/*
 * measure.c: bounds of numbers by which results are divided, multiplied or
 * chosen. Samples of a rank's push, at most. The parts of a push of a chunk
 * (its local index) are within bounds, together with those that are held or
 * deferred there: 0, with a reason, if they are not. The same for a rank's
 * score of the test set.
 */
uint64_t gw_measure_push_max(const struct gw_server *server);
int gw_measure_push(const struct gw_server *server,
                    uint32_t index,
                    const struct gw_part *part,
                    uint32_t n,
                    char *why,
                    size_t why_bytes);
int gw_measure_score(const struct gw_server *server,
                     uint32_t rank,
                     const struct gw_score *score,
                     char *why,
                     size_t why_bytes);

/* switch.c */
/* Tells the shard when chunks are exchanged in the regime that holds. */
enum gw_status gw_switch_follow_rounds(struct gw_server *server,
                                       struct gw_error *error);
void gw_switch_decided(struct gw_server *server,
                       const struct gw_decision *decision);
/* A chunk has got further, perhaps to where the next policy begins. */
void gw_switch_reached(struct gw_server *server);
/* The regime begins at a clock, as the job does. */
void gw_switch_start(struct gw_server *server, uint64_t clock);
uint64_t gw_switch_base_clock(const struct gw_server *server);
/* The regime that follows this one, NULL: none is decided; the last that is
   decided, or the one that holds. */
const struct gw_regime *gw_switch_next(const struct gw_server *server);
const struct gw_regime *gw_switch_last(const struct gw_server *server);
/* A further switch may be decided, of that clock. */
int gw_switch_may_follow(const struct gw_server *server, uint64_t clock);
/* A push of the clock belongs to the next regime, and nobody can be there. */
int gw_switch_forbids(const struct gw_server *server, uint64_t clock);
/* Clocks were numbered anew after this decision; by this decision. */
int gw_switch_renumbered(const struct gw_server *server, uint64_t decision);
int gw_switch_renumbers(const struct gw_server *server, uint64_t decision);
/* The cut of this name, at a version, waits until the next policy has begun. */
int gw_switch_delays_cut(struct gw_server *server,
                         uint64_t clock,
                         uint64_t version);

/* behind.c: shard 0 tells a member of a decision, or of several as one if
   the member does not keep up; `taken` goes on with them. */
void gw_behind_tell(struct gw_server *server,
                    struct gw_peer *peer,
                    const struct gw_decision *decision);
void gw_behind_taken(struct gw_peer *peer);

/* follow.c */
enum gw_status gw_follow_open(struct gw_server *server, struct gw_error *error);
void gw_follow_close(struct gw_server *server);
void gw_follow_decision(struct gw_server *server,
                        const struct gw_decision *decision);
/* vote.c: of this shard, peer = NULL, or of another one to the leader. */
void gw_vote_step(struct gw_server *server,
                  struct gw_peer *peer,
                  const struct gw_vote *vote);
void gw_vote_score(struct gw_server *server,
                   struct gw_peer *peer,
                   const struct gw_score *score);
void gw_vote_arrived(struct gw_server *server,
                     struct gw_peer *peer,
                     const struct gw_arrived *arrived);
void gw_vote_settled(struct gw_server *server,
                     struct gw_peer *peer,
                     const struct gw_settled *settled);

/* follow_fault.c: the fault of a decision, in words, from where this shard
   stands; NULL: none. */
const char *gw_follow_fault(const struct gw_server *server,
                            const struct gw_decision *decision);

/* divide.c: speed, how steps are divided. From the coordinator, before the
   start: splits to be repeated. From a worker: how fast it is. */
void gw_divide_repeat(struct gw_server *server,
                      struct gw_peer *peer,
                      const struct gw_decision *splits);
enum gw_status gw_divide_start(struct gw_server *server,
                               const struct gw_start *start,
                               struct gw_error *error);
void gw_divide_speed(struct gw_server *server,
                     struct gw_peer *peer,
                     const struct gw_speed *speed);
/* An answer to a rank, a push of one: how long exchanges last. */
void gw_divide_answered(struct gw_server *server,
                        uint32_t rank,
                        uint32_t chunk);
void gw_divide_took(struct gw_server *server, uint32_t rank, uint32_t chunk);
/* For the leader; NULL: there is none. */
const uint32_t *gw_divide_first(const struct gw_server *server);
const struct gw_splits *gw_divide_repeated(const struct gw_server *server);
void gw_divide_close(struct gw_server *server);

/* stall.c: from here on, until gw_server_finish */
void gw_stall_watch(struct gw_server *server);
void gw_stall_stop(struct gw_server *server);
/* A push counts, so the shard gets further. */
void gw_stall_moved(struct gw_server *server, uint64_t now);
/* Nothing is heard of the coordinator any more: ends the job here. */
void gw_server_lost_coordinator(struct gw_server *server);

/* save.c */
enum gw_status gw_save_open(struct gw_server *server, struct gw_error *error);
void gw_save_close(struct gw_server *server);
/* The checkpoint of step `clock`, of every chunk at `version`. */
void gw_save_cut(struct gw_server *server, uint64_t clock, uint64_t version);
/* Before a chunk leaves its version. Returns 0 when it must wait. */
int gw_save_before_update(struct gw_server *server, uint32_t chunk);
void gw_save_reached(struct gw_server *server, uint32_t chunk);

/* view.c */
void gw_server_view(struct gw_server *server, const struct gw_view *view);
int gw_members_are_whole(const struct gw_server *server);
/* 0: the view has no shard of that number and incarnation, or no secret for
   it. */
int gw_members_shard(const struct gw_server *server,
                     uint32_t shard,
                     uint64_t incarnation,
                     const struct gw_secret **secret_p);
enum gw_status gw_members_dial_leader(struct gw_server *server,
                                      struct gw_error *error);
/* Another shard is connected. The second returns 1 once all ranks are, and at
   shard 0 all shards; the third tells later if it did. */
void gw_members_shard_comes(struct gw_server *server);
int gw_members_check_present(struct gw_server *server);
int gw_members_are_present(const struct gw_server *server);
void gw_members_close(struct gw_server *server);

/* server_message.c: of struct gw_member_handler */
void gw_server_message(void *owner,
                       struct gw_peer *peer,
                       const struct gw_message *message);

/* server_start.c: keys, of struct gw_message_handler; the start */
void gw_server_keys(void *owner,
                    struct gw_peer *peer,
                    const struct gw_message *message);
void gw_server_start_stop(struct gw_server *server);
void gw_server_start_close(struct gw_server *server);
void gw_server_start(struct gw_server *server, const struct gw_start *start);

/* load.c: `loaded` is called when the weights are there */
enum gw_status gw_load_begin(struct gw_server *server,
                             void (*loaded)(struct gw_server *server),
                             struct gw_error *error);
void gw_load_close(struct gw_server *server);

/* lend.c: registers the arrays of answers, as they are now. Copies are
   deregistered before gw_shard_keep may drop them: no answer is on its way
   then. */
void gw_lend_arrays(struct gw_server *server);
void gw_take_copies_back(struct gw_server *server);

#endif
