/*
 * Inside the leader of decisions: its parts.
 *
 * `struct gw_leader` holds the fields that several files read, and a pointer
 * per part. A part's struct is defined in the file that is named for it, and
 * only that file reads its fields. Calls between files go down this list.
 *
 *   decision.c          opening; versions, stops and requests
 *   decision_quiesce.c  per-push policies: brings all ranks to a stand,
 *                       for decisions that need one state of the whole job
 *   decision_switch.c   from one policy to the next
 *   decision_step.c     votes of the shards, and the step that they decide
 *   decision_score.c    evaluations
 *   decision_count.c    backup: the ranks that make a step
 *   decision_split.c    speed: the ranks' parts of a step
 *   decision_cut.c      cuts, the state that they carry, and the end
 *   decision_stream.c   numbers the decisions and emits them
 */
#ifndef GW_SERVER_DECISION_STATE_H
#define GW_SERVER_DECISION_STATE_H

#include "server/policy/decision.h"

struct gw_leader {
    struct gw_leader_options options;
    struct gw_decision_state state; /* the job's, as far as it is decided */
    struct gw_regime regime;
    struct gw_rounds rounds; /* of the regime */
    struct gw_regime next;   /* decided, and holds from */
    uint64_t next_clock;     /* this clock on; GW_NEVER_CLOCK: there is none */
    uint64_t seen_version;   /* gw_leader_before has been here */
    uint64_t end_clock;      /* GW_NEVER_CLOCK: not decided */
    uint32_t voters;         /* shards that own a chunk */
    /* the job is to end where it can, for this reason; 0: it goes on */
    enum gw_end_reason ends;

    struct gw_leader_stream *stream;
    struct gw_leader_cuts *cuts;
    struct gw_leader_switch *policy;
    struct gw_leader_votes *votes;
    struct gw_leader_scores *scores;
    struct gw_leader_count *count;
    struct gw_leader_quiesce *quiesce;
    struct gw_leader_split *split; /* NULL where parts are even */
};

/* The regime in which a version is made, as far as is decided. */
static inline const struct gw_regime *
gw_leader_regime_at(const struct gw_leader *leader, uint64_t version)
{
    return leader->next_clock <= version ? &leader->next : &leader->regime;
}

/* ---- decision_stream.c ---- */

enum gw_status gw_stream_open(struct gw_leader *leader);
void gw_stream_close(struct gw_leader *leader);
/* The next decision, with its number; of per-push policies, with the clocks
   where the ranks stand. */
void gw_leader_emit(struct gw_leader *leader, struct gw_decision *decision);
uint64_t gw_stream_number(const struct gw_leader *leader);
/* A decision of another leader's; the last number is that. */
void gw_stream_keep(struct gw_leader *leader,
                    const struct gw_decision *decision);
void gw_stream_set_number(struct gw_leader *leader, uint64_t number);
/* gw_leader_recall_all, but for the cuts. */
void gw_stream_recall(struct gw_leader *leader,
                      uint64_t after,
                      void (*tell)(void *owner,
                                   const struct gw_decision *decision),
                      void *owner);
/* All ranks stand at this clock, or each at its own of [ranks]. */
void gw_stream_stand(struct gw_leader *leader, uint64_t clock);
void gw_stream_stand_apart(struct gw_leader *leader, const uint64_t *clocks);

/* ---- decision_cut.c ---- */

enum gw_status gw_cuts_open(struct gw_leader *leader);
void gw_cuts_close(struct gw_leader *leader);
void gw_leader_cut(struct gw_leader *leader, uint64_t clock, int best);
/* At a version, where pushes are applied together: a cut is due, by steps, by
   the clock on the wall, or because it is the beginning; makes it, or has it
   made later where the disk is late. */
void gw_cuts_before(struct gw_leader *leader, uint64_t version);
/* A cut is due, with all ranks standing still. */
int gw_cuts_is_due(const struct gw_leader *leader);
/* The next cut is made as soon as one can be. */
void gw_cuts_want(struct gw_leader *leader);
void gw_cuts_hold(struct gw_leader *leader, uint64_t clock);
/* Cuts on their way to the disk: one less; none; as many as there may be. */
void gw_cuts_stored(struct gw_leader *leader);
int gw_cuts_are_stored(const struct gw_leader *leader);
int gw_cuts_are_late(const struct gw_leader *leader);
/* All but the last of them are given up. */
void gw_cuts_forget(struct gw_leader *leader);
/* A cut of another leader's: takes the state that it carries. */
void gw_cuts_follow(struct gw_leader *leader,
                    const struct gw_decision *decision);
/* A cut of before, which is no news. */
void gw_cuts_recall(struct gw_leader *leader,
                    const struct gw_decision *decision);
/* The best state so far: cut, unless the last cut is of it. */
void gw_cuts_keep_best(struct gw_leader *leader, uint64_t clock);
/* Decides the end, with a cut before it. */
void gw_leader_end(struct gw_leader *leader,
                   uint64_t clock,
                   enum gw_end_reason reason);

/* ---- decision_step.c ---- */

/* A step, or trust ratios, of another leader's. */
void gw_votes_follow(struct gw_leader *leader,
                     const struct gw_decision *decision);
enum gw_status gw_votes_open(struct gw_leader *leader);
void gw_votes_close(struct gw_leader *leader);

/* ---- decision_score.c ---- */

enum gw_status gw_scores_open(struct gw_leader *leader);
void gw_scores_close(struct gw_leader *leader);
/* A score of another leader's; one of before, which is no news. */
void gw_scores_follow(struct gw_leader *leader,
                      const struct gw_decision *decision);
void gw_scores_recall(struct gw_leader *leader, uint64_t clock);
/* The state of a cut has the evaluation at its clock, of which the score is
   still to come. */
void gw_scores_counted(struct gw_leader *leader, uint64_t clock);
/* The state is where the job stands: evaluations up to there are over. */
void gw_scores_stand(struct gw_leader *leader);
/* At the present step an evaluation is due. */
int gw_scores_is_due(const struct gw_leader *leader);
/* A cut is stored: a score may have waited for it. */
void gw_scores_recheck(struct gw_leader *leader);
/* A resume asks for an evaluation, or does not; from one that does until the
   score nothing else may be decided. */
void gw_scores_ask(struct gw_leader *leader, int asked);
int gw_scores_is_asked(const struct gw_leader *leader);

/* ---- decision_count.c ---- */

enum gw_status gw_count_open(struct gw_leader *leader);
void gw_count_close(struct gw_leader *leader);
/* The next clock is gathered. */
void gw_count_next(struct gw_leader *leader);
/* The ranks that count are decided. */
int gw_count_is_decided(const struct gw_leader *leader);

/* ---- decision_split.c ---- */

enum gw_status gw_split_open(struct gw_leader *leader);
void gw_split_close(struct gw_leader *leader);
/* Decides how steps from `clock` on are divided, if that changes there; before
   the first answer for the version from which the one of `clock` is made. */
void gw_split_before(struct gw_leader *leader, uint64_t clock);

/* ---- decision_switch.c ---- */

enum gw_status gw_switch_open(struct gw_leader *leader);
void gw_switch_close(struct gw_leader *leader);
/* The user asks for this word. */
void gw_switch_ask(struct gw_leader *leader, const struct gw_policy_word *word);
int gw_switch_is_asked(const struct gw_leader *leader);
/* Pushes together, at a version that nobody has yet: decides the policy from
   the next version on. */
void gw_switch_announce(struct gw_leader *leader);
/* A policy that is decided for this version begins: returns its clock, or
   GW_NEVER_CLOCK. */
uint64_t gw_switch_begin(struct gw_leader *leader, uint64_t version);
/* Single pushes: another policy is due; where all stand still it is decided,
   and begins behind `resume`. `meet` returns 0 where it was not. */
int gw_switch_is_due(const struct gw_leader *leader);
int gw_switch_meet(struct gw_leader *leader, struct gw_decision *resume);

/* ---- decision_quiesce.c ---- */

enum gw_status gw_leader_quiesce_open(struct gw_leader *leader);
void gw_leader_quiesce_close(struct gw_leader *leader);
/* Single pushes begin: every rank is at this clock. */
void gw_leader_quiesce_begin(struct gw_leader *leader, uint64_t clock);
/* Decides to quiesce where a decision is due that needs it. */
void gw_leader_quiesce_maybe(struct gw_leader *leader);

#endif
