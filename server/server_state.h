/*
 * Inside a server thread: the state that its files share.
 *
 *   server.c            a server's life, and its links
 *   server_message.c    control messages
 *   startup.c           from the start to the first step
 *   home.c              the coordinator, which may be away
 *   members.c           the members of the job
 *   replace.c           workers in the place of others
 *   session_frame.c     frames of workers
 *   session.c           the path of a push
 *   session_answer.c    the way of weights out
 *   session_open.c      workers come and go
 *   push.c              a push as its frame tells it
 *   sum.c               pushes of several workers in one
 *   terms.c             hyperparameters that ranks set
 *   measure.c           numbers that members may say
 *   imports.c             pushes that are read where their workers have them
 *   due.c               chunks that are looked at again
 *   commit.c            the stages of commits
 *   commit_table.c      the table of commits
 *   commit_streaming.c  its entries
 *   commit_whole.c
 *   commit_quorum.c
 *   commit_per_push.c
 *   commit_update.c     updates of all of them
 *   quiesce.c             all ranks come to stand still
 *   switch.c            from one policy to the next
 *   copy.c              what this shard's standby gets of it
 *   standby.c           a copy of another server's shard
 *   promote.c           that takes its place
 *   recent.c            decisions that a standby has to hear of first
 *   standing.c          where this shard stands, in words
 *   follow.c            the stream of decisions
 *   follow_fault.c      decisions that cannot be
 *   vote.c              words for the leader of that stream
 *   behind.c            decisions for members that do not keep up
 *   divide.c            speed: how steps are divided
 *   tell.c              counters, faults of others, the end
 *   stall.c             members that a stuck shard waits for
 *   save.c              cuts and checkpoint files
 *   load.c              a checkpoint's weights back into the shard
 *   register.c          memory of answers and pushes, for the transports
 */
#ifndef GW_SERVER_SERVER_STATE_H
#define GW_SERVER_SERVER_STATE_H

#include "proto/config.h"
#include "server/commit_step.h"
#include "server/copy.h"
#include "server/divide.h"
#include "server/quiesce.h"
#include "server/recent.h"
#include "server/due.h"
#include "server/home.h"
#include "server/policy/decision.h"
#include "server/policy/policy.h"
#include "server/policy/regime.h"
#include "server/server.h"
#include "server/startup.h"
#include "server/session.h"
#include "server/shard.h"
#include "server/stall.h"
#include "server/standby.h"
#include "server/switch.h"
#include "server/tell.h"
#include "server/members.h"
#include "server/want.h"
#include "transport/member/member.h"

/* Private to server.c. */
struct gw_server_links {
    struct gw_log_limit limit;
};

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
    int stands_by; /* for another server of this shard */
    struct gw_map *map;
    struct gw_start start;
    uint64_t *clocks; /* [ranks] the first clock of each */

    /* the run */
    int running; /* weights are there: workers may log in */
    struct gw_regime regime;
    struct gw_shard *shard;
    struct gw_wants *wants;
    struct gw_session *session; /* [ranks] */
    struct gw_leader *leader;   /* shard 0 only, */
    struct gw_leader *led;      /* and its standby */
    uint64_t decision;          /* number of the last one followed */
    double loss_scale;
    int has_terms; /* a rank has set some */

    /* parts */
    struct gw_server_links links;
    struct gw_home home;
    struct gw_members members;
    struct gw_copy copy;
    struct gw_standby standby;
    struct gw_recent recent;
    struct gw_startup startup;
    struct gw_due due;
    struct gw_whole_step step;
    struct gw_quorum quorum;
    struct gw_quiesce quiesce;
    struct gw_switches switches;
    struct gw_timer cut_timer; /* private to follow.c */
    struct gw_divide divide;
    struct gw_watch stall;
    struct gw_save *save;
    struct gw_load *load;
    struct gw_server_ending end;
};

/* The last decision that the sender of a frame had followed. */
static inline uint64_t gw_session_decision(const struct gw_server *server,
                                           const struct gw_frame *frame)
{
    return gw_decision_near(server->decision, frame->decision);
}

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

/* follow.c */
enum gw_status gw_follow_open(struct gw_server *server, struct gw_error *error);
void gw_follow_close(struct gw_server *server);
void gw_follow_decision(struct gw_server *server,
                        const struct gw_decision *decision);
/* Shard 0: another shard has logged in, perhaps one that has followed none. */
void gw_follow_begin(struct gw_server *server,
                     struct gw_peer *peer,
                     int is_late);
/* Shard 0 says where it stands: this standby follows from there on. */
void gw_follow_standing(struct gw_server *server,
                        const struct gw_standing *standing);
/* This shard takes the place of shard 0, whose standby it was, and leads from
   its furthest version on; of other shards nothing. */
void gw_follow_take_over(struct gw_server *server, uint64_t version);
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
void gw_vote_quiesced(struct gw_server *server,
                      struct gw_peer *peer,
                      const struct gw_quiesced *quiesced);

/* standing.c: tells a peer where this shard stands. */
void gw_standing_tell(struct gw_server *server, struct gw_peer *peer);

/* follow_fault.c: the fault of a decision, in words, from where this shard
   stands; NULL: none. */
const char *gw_follow_fault(const struct gw_server *server,
                            const struct gw_decision *decision);

/* save.c */
enum gw_status gw_save_open(struct gw_server *server, struct gw_error *error);
void gw_save_close(struct gw_server *server);
/* The checkpoint of step `clock`, of every chunk at `version`. */
void gw_save_cut(struct gw_server *server, uint64_t clock, uint64_t version);
/* A standby hears of a cut of before it came. */
void gw_save_recall_cut(struct gw_server *server,
                        uint64_t clock,
                        uint64_t version);
/* The one before has lost what it had not written of the last cut: it is made
   here where it still can be. */
void gw_save_take_over(struct gw_server *server);
/* Before a chunk leaves its version. Returns 0 when it must wait. */
int gw_save_before_update(struct gw_server *server, uint32_t chunk);
void gw_save_reached(struct gw_server *server, uint32_t chunk);
/* The coordinator is another one: it hears of the last files that are saved. */
void gw_save_tell_again(struct gw_server *server);

/* server_message.c: of struct gw_member_handler */
void gw_server_message(void *owner,
                       struct gw_peer *peer,
                       const struct gw_message *message);

/* load.c: `loaded` is called when the weights are there */
enum gw_status gw_load_begin(struct gw_server *server,
                             void (*loaded)(struct gw_server *server),
                             struct gw_error *error);
void gw_load_close(struct gw_server *server);

/* register.c: registers the arrays of answers, as they are now. Copies are
   deregistered before gw_shard_keep may drop them: no answer is on its way
   then. */
void gw_register_arrays(struct gw_server *server);
void gw_deregister_copies(struct gw_server *server);

#endif
