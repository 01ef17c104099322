/*
 * Decisions that hold for all shards and workers. They form one ordered
 * stream, led by shard 0, which every member follows in order.
 *
 * The leader gathers votes and scores and emits; a follower keeps the
 * decisions. Both are pure state: messages in, decisions out through `emit`.
 *
 * A decision is given a clock before shard 0 has answered any want for it, or,
 * at an evaluation, before any worker goes on. Answers and pushes carry the
 * number of the last decision their sender had, so nobody can act at that clock
 * without it.
 */
#ifndef GW_SERVER_DECISION_H
#define GW_SERVER_DECISION_H

#include <stdint.h>

#include "proto/config.h"
#include "proto/control.h"
#include "proto/map.h"
#include "server/policy/regime.h"
#include "server/policy/splits.h"

#define GW_NEVER_CLOCK UINT64_MAX

/* Skipped steps in a row that end a job. */
#define GW_SKIPS_MAX 3

/* Bounds of a dynamic loss scale, and when it grows. */
#define GW_LOSS_SCALE_FIRST 65536.0
#define GW_LOSS_SCALE_MIN   1.0
#define GW_LOSS_SCALE_MAX   16777216.0
#define GW_LOSS_SCALE_AFTER 2000

/* Keys with trust ratios that fit into one message (lamb). */
#define GW_TRUST_KEYS_MAX 8000

struct gw_leader;

/* The loss scale that a job begins with; 1 where there is none. */
double gw_loss_scale_first(const struct gw_config *config);

struct gw_leader_options {
    const struct gw_config *config;
    const struct gw_map *map;
    uint32_t ranks, shards;
    uint64_t total_steps;
    struct gw_course course;
    struct gw_regime regime; /* in which it begins */
    struct gw_decision_state state;
    const uint64_t *clocks; /* [ranks] first clocks, NULL: all state.clock */
    const uint32_t *split;  /* [ranks] in force there, NULL: even */
    const struct gw_splits *splits; /* to be repeated, NULL: none */
    int resumed; /* a checkpoint of state.clock is there already */
    /* Called for each decision, in order; it lasts for the call. */
    void (*emit)(void *owner, const struct gw_decision *decision);
    void *owner;
};

/* GW_EUNSUPPORTED: two phases of more keys than GW_TRUST_KEYS_MAX. GW_ENOMEM.
 */
enum gw_status gw_leader_create(const struct gw_leader_options *options,
                                struct gw_leader **leader_p,
                                struct gw_error *error);
void gw_leader_destroy(struct gw_leader *leader);

/*
 * To be called before the first answer for `version`: emits the decisions that
 * must be known at that clock. Calls for versions that were seen before do
 * nothing.
 */
void gw_leader_before(struct gw_leader *leader, uint64_t version);

/*
 * A shard's vote. Emits the step's decision with the last one. GW_EPROTO, with
 * a line: a vote for another clock or phase, of a shard that has voted, out of
 * range, or before it is decided which ranks count; of other samples than
 * another shard counts, or than a step can have.
 */
enum gw_status gw_leader_vote(struct gw_leader *leader,
                              uint32_t shard,
                              const struct gw_vote *vote,
                              struct gw_error *error);

/*
 * backup: all of some ranks' pushes of a clock are at a shard. When `quorum`
 * ranks are whole at every shard that owns chunks, decides that these count:
 * the first ones in the order of the calls. Repeated calls, and calls for a
 * clock that is decided, are ignored; GW_EPROTO: a clock to come, or out of
 * range.
 */
enum gw_status gw_leader_arrived(struct gw_leader *leader,
                                 uint32_t shard,
                                 const struct gw_arrived *arrived);

/*
 * A rank's part of the evaluation at its clock. Emits cut, end and score with
 * the last one. Repeated parts are ignored; GW_EPROTO: a rank out of range, or
 * a clock that is not the one at which all score.
 */
enum gw_status gw_leader_score(struct gw_leader *leader,
                               uint32_t rank,
                               const struct gw_score *score);

/*
 * speed: how fast a rank computes. Splits are decided by it when all ranks have
 * been measured with the one in force. GW_EPROTO: nobody asked, or no speed.
 */
enum gw_status gw_leader_speed(struct gw_leader *leader,
                               uint32_t rank,
                               const struct gw_speed *speed);

/* speed: shard 0 has answered a rank's want for a version, has taken a push.
   Measures the part of an exchange that is not computing; does nothing where
   parts are even. */
void gw_leader_answered(struct gw_leader *leader,
                        uint32_t rank,
                        uint64_t version,
                        uint64_t now_us);
void gw_leader_took(struct gw_leader *leader,
                    uint32_t rank,
                    uint64_t clock,
                    uint32_t samples,
                    uint64_t now_us);

/* An evaluation has begun and lacks this rank's part. */
int gw_leader_awaits_score(const struct gw_leader *leader, uint32_t rank);

/*
 * Per push: a rank has pushed a whole clock to shard 0. Its chunks have had so
 * many pushes and updates, with one more update where a group has begun (the
 * next quiet point applies it). Decides to quiesce where that is due.
 */
void gw_leader_pushed(struct gw_leader *leader,
                      uint64_t updates,
                      uint64_t pushes);

/*
 * Per push: the clocks of the ranks at a shard. With the last one missing, the
 * decisions that the job was quiesced for are made, and it resumes. GW_EPROTO:
 * out of range.
 */
enum gw_status gw_leader_quiesced(struct gw_leader *leader,
                                  uint32_t shard,
                                  const struct gw_quiesced *quiesced);

/* The state of the job, as far as it is decided. */
const struct gw_decision_state *gw_leader_state(const struct gw_leader *leader);

/* For a worker that begins in the middle of the stream: calls `tell` for
   decisions that stand for all so far, the last one with the number of the
   last. Each lasts for the call. */
void gw_leader_recall(const struct gw_leader *leader,
                      void (*tell)(void *owner,
                                   const struct gw_decision *decision),
                      void *owner);

/*
 * A standby of shard 0 keeps a leader that emits nothing: it follows the
 * decisions of the one that leads, until it takes its place. From then on it
 * leads, as if it had given out `version`, the furthest that it has, and
 * decides what the job file says of that, unless it is decided.
 */
void gw_leader_follow(struct gw_leader *leader,
                      const struct gw_decision *decision);
void gw_leader_take_over(struct gw_leader *leader, uint64_t version);

/* The same for a standby that comes while the job runs: the state of the job
   behind decision `number`, before it follows any; then decisions of before, as
   gw_leader_recall_kept tells of them. */
void gw_leader_stand(struct gw_leader *leader,
                     const struct gw_decision_state *state,
                     uint64_t number);
void gw_leader_recalled(struct gw_leader *leader,
                        const struct gw_decision *decision);
void gw_leader_recall_kept(struct gw_leader *leader,
                           void (*tell)(void *owner,
                                        const struct gw_decision *decision),
                           void *owner);

/*
 * The same for a coordinator in the place of another: the last cut, the last
 * score and the end, as far as they are decided, and switches of policy after
 * the decision `after`; with their own numbers. Of cuts that are not stored
 * only the last is waited for from now on.
 */
void gw_leader_recall_all(struct gw_leader *leader,
                          uint64_t after,
                          void (*tell)(void *owner,
                                       const struct gw_decision *decision),
                          void *owner);
/* The number of the last decision. */
uint64_t gw_leader_number(const struct gw_leader *leader);

/* The job is to end, or to be saved, at the next clock where it can. */
void gw_leader_stop(struct gw_leader *leader);
/*
 * The program of rank 0 has no step behind its clock: the job ends there as
 * complete or, where other ranks go on without rank 0, as soon as it can. Where
 * no rank goes on without the others, rank 0 pushes nothing more before it has
 * heard of the end.
 */
void gw_leader_finish(struct gw_leader *leader, uint64_t clock);
void gw_leader_want_cut(struct gw_leader *leader);
/* A rank waits at that clock, without a push of it: where no rank goes on
   without it, the cut is made there. */
void gw_leader_want_cut_at(struct gw_leader *leader, uint64_t clock);

/*
 * The word is to hold from the next clock on where it can, until the job's plan
 * says something else. The word fits the job (gw_config_check_word).
 */
void gw_leader_switch(struct gw_leader *leader,
                      const struct gw_policy_word *word);

/* A checkpoint is complete (or was given up), in the order of their cuts. */
void gw_leader_stored(struct gw_leader *leader);

/* Scores [first, first + n), n >= 1, summed as the tree of the reduction.
   Counts that do not fit stay at the largest number. */
struct gw_score
gw_score_tree(const struct gw_score *score, uint32_t first, uint32_t n);

/* The values of a cut decision. */
struct gw_cut {
    struct gw_decision_state state;
    uint64_t version; /* at which it finds all chunks where pushes are applied
                         together; the decision's clock is the checkpoint's
                         name */
};

/* GW_EPROTO: a value that should be a number of something is none, or the loss
   scale or a loss is no number at all. Values that are not there are 0. */
enum gw_status gw_cut_read(const struct gw_decision *decision,
                           struct gw_cut *cut_p);

/* A count that came as a double; 0: the value is no count. */
int gw_decision_count(double value, uint64_t *count_p);

#endif
