/*
 * Inside the leader of decisions: what its files share.
 *
 *   decision.c        the stream, steps, evaluations
 *   decision_count.c  backup: whose pushes make a step
 *   decision_cut.c    cuts, and the state that they carry
 *   decision_split.c  speed: who gets how much of a step
 *   decision_meet.c   policies of single pushes: drains, and what is decided
 *                     where all ranks stand still
 *   decision_switch.c from one policy to the next
 */
#ifndef GW_SERVER_DECISION_STATE_H
#define GW_SERVER_DECISION_STATE_H

#include "server/policy/decision.h"

/* Cuts on their way to the disk; the end may add one. */
#define CUTS_OPEN_MAX 2

struct gw_leader_split;

struct gw_leader {
    struct gw_leader_options options;
    struct gw_decision_state state;
    struct gw_regime regime;
    struct gw_rounds rounds; /* of it */
    struct gw_regime next;   /* decided, and holds from */
    uint64_t next_clock;     /* this clock on; GW_NEVER_CLOCK: there is none */
    int asked;               /* by somebody, for this word */
    struct gw_policy_word asked_word;
    uint64_t number;
    uint64_t seen_version; /* gw_leader_before has been here */
    uint64_t end_clock;
    uint64_t cut_clock; /* of the last cut */
    uint32_t cuts_open; /* that are not stored yet */
    int score_waits;    /* for a cut to be stored */
    int stop, want_cut;
    uint8_t phase;        /* of the votes that are awaited */
    uint32_t voters;      /* shards that own a chunk */
    uint32_t votes;       /* of them, complete */
    uint32_t *voted;      /* [shards] values received */
    double *square;       /* [chunks], and [2 * chunks] in phase 2 */
    double *trust;        /* [keys] */
    uint64_t samples;     /* that votes of this phase count, */
    uint32_t samples_by;  /* as this shard was the first to say, */
    int has_samples;      /* if one was */
    uint64_t voted_clock; /* of the step that was decided last */
    uint32_t *bad;        /* [ranks] */
    uint32_t bad_n;
    struct gw_score *score; /* [ranks] */
    uint8_t *scored;        /* [ranks] */
    uint32_t scores;
    uint64_t score_clock;
    uint64_t dues_done; /* evaluations of those that were due */

    /* backup: whose pushes are where, of the clock that is gathered */
    uint8_t *arrived;   /* [shards][ranks] all of them are there */
    uint32_t *arrivals; /* [ranks] shards where that is so */
    uint32_t *first;    /* [ranks] whole at all shards, in that order */
    uint32_t first_n;
    int counted; /* it is decided who counts */

    struct gw_leader_split *split; /* NULL where parts are even */

    /* where each push makes a version */
    uint64_t base_clock, base_pushes; /* steps are counted from here */
    uint64_t cut_pushes;              /* of the last cut */
    uint64_t drain;                   /* number of the drain, 0: none */
    int scoring;        /* from a resume that says so to a score */
    uint64_t *at;       /* [ranks] clocks of the last meeting */
    uint64_t *standing; /* [shards][ranks] as settled */
    uint8_t *blocked;   /* [shards][ranks] */
    uint8_t *settled;   /* [shards] */
};

/* decision.c */
void gw_leader_emit(struct gw_leader *leader, struct gw_decision *decision);
void gw_leader_end(struct gw_leader *leader,
                   uint64_t clock,
                   enum gw_end_reason reason);
int gw_leader_saves(const struct gw_leader *leader);
/* Whether checkpoint.every asks for a cut between the last one and `clock`. */
int gw_leader_cut_is_due(const struct gw_leader *leader, uint64_t clock);
/* Evaluations that the job file has for the steps up to `clock`. */
uint64_t gw_evaluations_due(const struct gw_leader *leader, uint64_t clock);

/* decision_cut.c */
void gw_leader_cut(struct gw_leader *leader, uint64_t clock, int best);

/* decision_count.c */
enum gw_status gw_count_open(struct gw_leader *leader);
void gw_count_close(struct gw_leader *leader);
/* The next clock is gathered. */
void gw_count_next(struct gw_leader *leader);

/* decision_split.c */
enum gw_status gw_split_open(struct gw_leader *leader);
void gw_split_close(struct gw_leader *leader);
/* Decides how steps from `clock` on are divided, if that changes there; before
   the first answer for the version from which the one of `clock` is made. */
void gw_split_before(struct gw_leader *leader, uint64_t clock);

/* decision_switch.c */
/* A regime holds from this clock on. */
void gw_switch_hold(struct gw_leader *leader,
                    const struct gw_regime *regime,
                    uint64_t clock);
/* Pushes together, at a version that nobody has yet: decides what holds from
   the one after. */
void gw_switch_announce(struct gw_leader *leader);
/* What was decided for this version begins. */
void gw_switch_begin(struct gw_leader *leader, uint64_t version);
/* Single pushes: whether another policy is due; where all stand still it is
   decided, and begins behind `resume`. */
int gw_switch_is_due(const struct gw_leader *leader);
void gw_switch_meet(struct gw_leader *leader, struct gw_decision *resume);

/* decision_meet.c */
enum gw_status gw_meet_open(struct gw_leader *leader);
void gw_meet_close(struct gw_leader *leader);
/* Single pushes begin: every rank is at this clock. */
void gw_meet_begin(struct gw_leader *leader, uint64_t clock);
/* Decides a drain where something is to happen that needs one. */
void gw_meet_maybe(struct gw_leader *leader);

#endif
