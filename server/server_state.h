/*
 * Inside a server thread: what its files share.
 *
 *   server.c   a server's life, and its links
 *   server_message.c  control messages
 *   server_start.c  from the start to the first step
 *   session.c  the path of a gradient: pushes in
 *   session_answer.c  and weights out
 *   session_open.c  workers come and go
 *   session_update.c  what pushes do to a chunk
 *   due.c      chunks that are looked at again later
 *   sum.c      pushes of several workers in one
 *   measure.c  whether what members say in numbers can be
 *   shown.c    pushes that are read where their workers have them
 *   step.c     whole-step commits: votes, decisions, apply
 *   quorum.c   backup: whose pushes make a step
 *   each.c     policies of single pushes: apply, drain
 *   switch.c   from one policy to the next
 *   follow.c   the stream of decisions
 *   follow_fault.c  what is wrong with one of them
 *   vote.c     words for the leader of that stream
 *   behind.c   to whom decisions are told, where somebody is behind
 *   divide.c   speed: how steps are divided, as members tell
 *   tell.c     counters, and the faults of others
 *   stall.c    who is waited for, when nothing moves
 *   save.c     cuts and checkpoint files
 *   load.c     a checkpoint's weights back into the shard
 */
#ifndef GW_SERVER_SERVER_STATE_H
#define GW_SERVER_SERVER_STATE_H

#include "proto/config.h"
#include "proto/groups.h"
#include "server/due.h"
#include "server/policy/decision.h"
#include "server/policy/policy.h"
#include "server/policy/regime.h"
#include "server/server.h"
#include "server/shard.h"
#include "server/want.h"
#include "transport/member/member.h"
#include "transport/link/settle.h"

/* What the next sums of a group's member are made of, a row for each chunk of
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

/* What this shard knows of a worker. */
struct gw_session {
    struct gw_behind behind; /* shard 0: that it has not been told */
    struct gw_group group;   /* whose sums it is one of */
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
    uint32_t pushed; /* chunks of it that are in; backup: that are held, until
                        it is decided who counts */
};

/* A policy that is decided, and the clock from which it holds. */
struct gw_switch {
    uint64_t decision; /* number of the decision, 0: there is none */
    uint64_t clock;
    struct gw_regime regime;
    uint64_t cut; /* + 1, the name of a checkpoint of that clock, which comes
                     after; 0: there is none */
};

/* backup: whose pushes make a step. */
struct gw_quorum {
    uint64_t decided;   /* clock + 1 of the last decision, */
    uint8_t *counts;    /* [ranks] and what it was */
    uint32_t *arrived;  /* [ranks] whole here in the clock that is open, and */
    uint32_t arrived_n; /* not told yet, since shard 0 does not keep up */
};

/* Where a whole-step commit stands on this shard. */
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

struct gw_save;
struct gw_load;
struct gw_remote;

struct gw_server {
    struct gw_server_options options;
    struct gw_loop *loop;
    struct gw_log *log;
    struct gw_metrics *metrics;
    struct gw_member *member;
    struct gw_peer *coordinator;
    struct gw_peer *leader_peer; /* shard 0, where we are not it */
    int joined;   /* JOIN is told, once: messages outlive a link */
    int ended;    /* by the coordinator */
    int finished; /* the owner is told when the last words have left */
    enum gw_status end_status;
    char end_text[GW_ERROR_TEXT_BYTES];
    struct gw_timer linger;
    uint64_t linger_until_us;

    struct gw_config config;
    int has_config;
    uint32_t number, ranks, shards;
    uint32_t members_seen, members_total;
    int has_view; /* all of it, and it is one of this job */
    char leader_address[GW_ADDRESSES_MAX];
    uint64_t leader_incarnation;
    struct gw_shard_name {
        uint64_t incarnation;
        int has_secret;
        struct gw_secret secret; /* that its logins prove */
    } * shard_name;              /* [members_total], by number */
    struct gw_met met;           /* on this host */
    struct gw_key *keys;
    uint32_t keys_seen, keys_total;
    struct gw_map *map;
    struct gw_start start;
    uint64_t *clocks;        /* [ranks] the first clock of each */
    uint32_t *split;         /* [ranks] speed: in force then; NULL: even */
    struct gw_splits splits; /* speed, shard 0: to be repeated */
    char resume[GW_PATH_BYTES], dir[GW_PATH_BYTES], token[GW_STRING_MAX];

    /* the running job */
    int running; /* weights are there: workers may log in */
    struct gw_regime regime;
    struct gw_switch next, after; /* two where phases are of one exchange */
    uint64_t base_clock;          /* where the regime began */
    uint64_t renumbered; /* the decision that numbered clocks anew; 0: none */
    uint64_t voided;     /* wants of before this decision are void; 0: none */
    struct gw_quorum quorum;
    struct gw_shard *shard;
    struct gw_settling pages; /* of its arrays, before it is ready */
    struct gw_memory *memory; /* all of them, until then */
    struct gw_wants *wants;
    struct gw_session *session; /* [ranks] */
    uint32_t shards_present;    /* shard 0: the others that are connected */
    int all_present;
    struct gw_due due;
    struct gw_whole_step step;

    struct gw_leader *leader; /* shard 0 only */
    uint64_t decision;        /* number of the last one followed */
    double loss_scale;
    uint64_t end_clock;
    uint64_t draining;         /* number of the drain that goes on, 0: none */
    uint64_t *settled_clocks;  /* [ranks] what is said of them then */
    uint32_t *settled_blocked; /* [ranks] */
    struct gw_timer settle_timer; /* to say it later */

    struct gw_remote *remote;
    struct gw_save *save;
    struct gw_load *load;

    struct gw_timer watch;
    uint64_t progress_us; /* when a push was last counted */
    uint64_t stalled_us;  /* when a stall was last reported */
    uint64_t reported_us; /* when the counters were */
    struct gw_timer cut_timer;
    struct gw_log_limit limit;
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
void gw_server_tell(struct gw_server *server,
                    struct gw_peer *peer,
                    const struct gw_message *message);

/* Its counters, every second at most. */
void gw_server_report(struct gw_server *server);
/* A cause that stops others is to be seen where they are missed: the
   coordinator says whom this shard dials in vain. Of struct gw_member_handler.
 */
void gw_server_tell_stuck(struct gw_server *server,
                          const struct gw_peer *peer,
                          const char *text);
/* A worker or shard broke the protocol, for the coordinator to name, at the
   job's end if it comes to that. */
void gw_server_tell_fault(struct gw_server *server,
                          const struct gw_peer *peer,
                          const char *why);

/* session.c */
enum gw_status gw_session_open(struct gw_server *server,
                               struct gw_error *error);
void gw_session_close(struct gw_server *server);
enum gw_status gw_session_admit(struct gw_server *server, struct gw_peer *peer);
void gw_session_present(struct gw_server *server);
void gw_session_link_down(struct gw_server *server,
                          struct gw_peer *peer,
                          unsigned link);
void gw_session_frame(struct gw_server *server,
                      struct gw_peer *peer,
                      unsigned link,
                      const struct gw_frame *frame,
                      const void *payload);
/* session_answer.c */
struct gw_policy_view
gw_session_view(const struct gw_server *server, uint32_t rank, uint32_t chunk);
/* One frame may ask for all that a shard has: where the turn is over its wants
   have another one. */
void gw_session_want_opened(void *owner, uint32_t rank, uint32_t chunk);
/* Answers all who may have weights by now; where the turn is over, the others
   later. */
void gw_session_answer(struct gw_server *server, uint32_t chunk);
/* All that is due of one chunk; the owner is the server. */
void gw_session_look(void *owner, uint32_t chunk);
void gw_session_complete(struct gw_server *server, uint32_t chunk);
/* session_update.c: of a chunk as it stands; samples: of the sum, lr_factor: on
   the schedule. */
void gw_session_fill_update(const struct gw_server *server,
                            uint32_t chunk,
                            uint64_t samples,
                            double clip,
                            double lr_factor,
                            struct gw_update *update);
/* So many arrays of a chunk were read or written. */
void gw_session_worked(const struct gw_server *server,
                       uint32_t chunk,
                       uint32_t arrays);
void gw_session_blame(struct gw_server *server, uint32_t chunk, uint64_t clock);

/*
 * shown.c: where a chunk lies in an arena that a worker shows, until others
 * have their turn; or NULL, and what came by that link is taken back. The same
 * for all held pushes of a chunk, before they are summed: 0, and it has fewer
 * of them.
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
/* The parts of a push of a chunk (its local index) that is a sum, [n of the
   group]; NULL: they are not known or do not add up, or this policy has no
   sums. */
const struct gw_part *gw_sum_of(const struct gw_server *server,
                                const struct gw_peer *peer,
                                uint32_t index,
                                const struct gw_frame *frame);

/*
 * measure.c: numbers that results are divided and multiplied by, or chosen by.
 * Samples of a rank's push, at most; and whether the parts of a push of a chunk
 * (its local index) may have those that they say, beside what is there, counted
 * or not yet: else 0, with a reason. The same of what a rank says of the test
 * set.
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

/* quorum.c */
/* Shard 0 has taken what it was told: it is told more. */
void gw_quorum_taken(struct gw_peer *leader);
enum gw_status gw_quorum_open(struct gw_server *server, struct gw_error *error);
void gw_quorum_close(struct gw_server *server);
/* A push is held, or the one that was is not to be trusted any more. */
void gw_quorum_held(struct gw_server *server, uint32_t rank, uint32_t chunk);
/* Whether it is decided who counts, and all of those are held. */
int gw_quorum_is_met(const struct gw_server *server, uint32_t chunk);
void gw_quorum_unheld(struct gw_server *server, uint32_t rank, uint32_t chunk);
void gw_quorum_late(struct gw_server *server,
                    uint32_t rank,
                    uint32_t chunk,
                    uint64_t clock);
void gw_quorum_decided(struct gw_server *server,
                       const struct gw_decision *decision);
/* Whether it is decided that the chunk's clock goes on without the rank. */
int gw_quorum_leaves_out(const struct gw_server *server,
                         uint32_t rank,
                         uint32_t chunk);
/* Whether the chunk waits for the rank, as far as is known here. */
int gw_quorum_awaits(const struct gw_server *server,
                     uint32_t rank,
                     uint32_t chunk);

/* switch.c */
/* Tells the shard when chunks are exchanged in the regime that holds. */
enum gw_status gw_switch_follow_rounds(struct gw_server *server,
                                       struct gw_error *error);
void gw_switch_decided(struct gw_server *server,
                       const struct gw_decision *decision);
/* A chunk has got further, perhaps to where the next policy begins. */
void gw_switch_reached(struct gw_server *server);
/* Whether the cut of this name, at a version, waits until the next policy has
   begun. */
int gw_switch_delays_cut(struct gw_server *server,
                         uint64_t clock,
                         uint64_t version);

/* each.c */
void gw_each_complete(struct gw_server *server, uint32_t chunk);
void gw_each_drain(struct gw_server *server);
/* Whether a drain goes on, no rank is within a clock, and no answer under way:
   from there on nothing moves here before the drain ends. */
int gw_each_stands_still(const struct gw_server *server);
void gw_each_settle(struct gw_server *server);
void gw_each_meet(struct gw_server *server);
void gw_each_resume(struct gw_server *server, int pulls);
uint64_t gw_each_version(const struct gw_server *server);
/* The step, for people, that a chunk's version belongs to, under any policy. */
uint64_t gw_each_step(const struct gw_server *server, uint64_t version);
/* Whether the rank waits for weights of its next clock here. */
int gw_each_is_blocked(const struct gw_server *server, uint32_t rank);

/* step.c */
enum gw_status gw_whole_open(struct gw_server *server, struct gw_error *error);
void gw_whole_close(struct gw_server *server);
void gw_whole_chunk(struct gw_server *server, uint32_t chunk);
void gw_whole_decided(struct gw_server *server,
                      const struct gw_decision *decision);
void gw_whole_resume(
    struct gw_server *server); /* a snapshot is out of the way */

/* behind.c: shard 0 tells a member of a decision, or of several as one where it
   does not take what it is told; `taken` goes on with that. */
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

/* follow_fault.c: what is wrong with the decision, in words, from where this
   shard stands; NULL: nothing. */
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
                        uint64_t version);
void gw_divide_took(struct gw_server *server,
                    uint32_t rank,
                    uint64_t clock,
                    uint32_t samples);
void gw_divide_close(struct gw_server *server);

/* stall.c: from here on, until gw_server_finish */
void gw_stall_watch(struct gw_server *server);
/* Nothing is heard of the coordinator any more: ends with who was away. */
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

/* server_message.c: of struct gw_member_handler */
void gw_server_message(void *owner,
                       struct gw_peer *peer,
                       const struct gw_message *message);

/* server_start.c */
void gw_server_start(struct gw_server *server, const struct gw_start *start);

/* load.c: `loaded` is called when the weights are there */
enum gw_status gw_load_begin(struct gw_server *server,
                             void (*loaded)(struct gw_server *server),
                             struct gw_error *error);
void gw_load_close(struct gw_server *server);

/* lend.c: of the arrays that answers are sent from, as they are now. What
   gw_shard_keep may drop is taken back before: no answer is on its way then. */
void gw_lend_arrays(struct gw_server *server);
void gw_take_copies_back(struct gw_server *server);

#endif
