/* Inside the coordinator: the running job, its policies, reports, decisions. */
#ifndef GW_SERVER_COORDINATOR_RUN_H
#define GW_SERVER_COORDINATOR_RUN_H

#include "server/coordinator/coordinator_state.h"
#include "server/policy/decision.h"
#include "server/policy/regime.h"

/* ---- coordinator_run.c ---- */

/* `report` of struct gw_upcalls: decisions that its sender knew are here. */
void gw_coordinator_report_act(struct gw_coordinator *self,
                               struct gw_seat *who,
                               const struct gw_report *report);
void gw_coordinator_decided(struct gw_coordinator *self,
                            const struct gw_decision *decision);

/* ---- coordinator_stall.c ---- */

#define GW_STUCK_BYTES 512

void gw_coordinator_stalled(struct gw_coordinator *self,
                            struct gw_seat *who,
                            const struct gw_stall *stall);
/* One line for all members that are newly stuck. Called often. */
void gw_stall_tell_stuck(struct gw_coordinator *self);
/* The cause of a wait: "; worker 1 (b) cannot reach ...", one for all; "":
   nothing is known. */
void gw_stall_cause(const struct gw_coordinator *self,
                    char words[GW_STUCK_BYTES]);

/* ---- coordinator_ahead.c ---- */

enum gw_status gw_ahead_open(struct gw_coordinator *self,
                             struct gw_error *error);
void gw_ahead_close(struct gw_coordinator *self);
/* Acts on the report when all decisions that its sender knew are here. */
void gw_coordinator_reported(struct gw_coordinator *self,
                             struct gw_seat *who,
                             const struct gw_report *report);
/* After each decision, and when the job ends. */
void gw_ahead_recheck(struct gw_coordinator *self);
int gw_ahead_is_empty(const struct gw_coordinator *self);
/* The sender of some of them is gone. */
void gw_ahead_forget(struct gw_coordinator *self, const struct gw_seat *who);

/* ---- coordinator_fault.c ---- */

/* The fault of a decision, in words; NULL: none that can be known here. */
const char *gw_coordinator_fault(const struct gw_coordinator *self,
                                 const struct gw_decision *decision);
/* The same for a worker's report, once its decisions are here. */
const char *gw_coordinator_report_fault(const struct gw_coordinator *self,
                                        const struct gw_report *report);

/* ---- coordinator_switch.c ---- */

void gw_coordinator_switch(struct gw_coordinator *self,
                           const struct gw_decision *decision);
/* The job has reached this clock: policies that are decided until there
   begin. */
void gw_coordinator_switch_reached(struct gw_coordinator *self, uint64_t clock);

/* ---- coordinator_gather.c ---- */

enum gw_status gw_gather_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_gather_close(struct gw_coordinator *self);
/* A worker's report of a step; the step is told when it is complete. */
void gw_gather_report(struct gw_coordinator *self,
                      struct gw_seat *who,
                      const struct gw_report *report);
/* Staleness of a worker's pushes so far, by bucket. */
void gw_gather_set_staleness(struct gw_coordinator *self,
                             const struct gw_seat *who,
                             const struct gw_report *report);
const struct gw_staleness *
gw_gather_staleness(const struct gw_coordinator *self, uint32_t rank);
/* backup: the ranks that count in a step are decided. */
void gw_gather_count(struct gw_coordinator *self,
                     const struct gw_decision *decision);
/* A step is skipped. */
void gw_gather_skip(struct gw_coordinator *self, uint64_t clock);
/* Another policy begins at this clock. */
void gw_gather_restart(struct gw_coordinator *self, uint64_t clock);
/* This coordinator begins at this clock; so many steps were skipped since the
   policy began. */
void gw_gather_rejoin(struct gw_coordinator *self,
                      uint64_t clock,
                      uint64_t skips);
/* Asks workers for the present step where none was told for as long as
   log.every says. Called often, while the job runs. */
void gw_gather_poll(struct gw_coordinator *self, uint64_t now);

/* ---- coordinator_steps.c ---- */

enum gw_status gw_steps_open(struct gw_coordinator *self,
                             struct gw_error *error);
void gw_steps_close(struct gw_coordinator *self);
/* The job goes on from this clock. */
void gw_steps_resume(struct gw_coordinator *self, uint64_t clock);
/* The clock with which it begins. */
uint64_t gw_steps_begin(const struct gw_coordinator *self);
/* The furthest step that was reported; gw_coordinator_step also looks at
   heartbeats. */
uint64_t gw_steps_known(const struct gw_coordinator *self);
void gw_steps_reach(struct gw_coordinator *self, uint64_t clock);
/* The end: workers may have reported later ones. */
void gw_steps_set(struct gw_coordinator *self, uint64_t clock);
/* [workers] the clock from which each rank's steps count, per push. */
const uint64_t *gw_steps_first(const struct gw_coordinator *self);
void gw_steps_set_first(struct gw_coordinator *self,
                        uint32_t rank,
                        uint64_t clock);
/* The last step of the job. */
uint64_t gw_steps_last(const struct gw_coordinator *self);
/* Steps that a worker may be beyond the last one: workers that exchange every
   so many steps go on to the end of an exchange, and finish their step before
   they stand still. */
#define GW_STEPS_BEYOND (2 * GW_WORD_N_MAX)
/* Steps that all take together never reach this one. */
int gw_steps_is_beyond(const struct gw_coordinator *self, uint64_t clock);
/* The step of the worker that is furthest behind, by heartbeats. */
uint64_t gw_steps_least(const struct gw_coordinator *self);

/* ---- coordinator_regimes.c ---- */

enum gw_status gw_regimes_open(struct gw_coordinator *self,
                               struct gw_error *error);
void gw_regimes_close(struct gw_coordinator *self);
/* The job begins with this one, or goes on with it. */
void gw_regimes_begin(struct gw_coordinator *self,
                      const struct gw_regime *regime,
                      uint64_t clock,
                      uint64_t pushes);
/* The same for a coordinator that takes another's place; another policy may
   have been in force before. */
void gw_regimes_rejoin(struct gw_coordinator *self,
                       const struct gw_regime *regime,
                       uint64_t clock,
                       uint64_t pushes,
                       int has_changed);
/* The policy in force, the clock where it began, and the pushes that were
   applied by then. */
const struct gw_regime *gw_regimes_now(const struct gw_coordinator *self);
uint64_t gw_regimes_base_clock(const struct gw_coordinator *self);
uint64_t gw_regimes_base_pushes(const struct gw_coordinator *self);
/* The policy in force makes a version of each push. */
int gw_regimes_is_per_push(const struct gw_coordinator *self);
/* The policy at a clock, as far as is known: two that are decided, two that are
   past. */
const struct gw_regime *gw_regimes_at(const struct gw_coordinator *self,
                                      uint64_t clock);
/* The word in force at a step; *last_p: nothing is decided to follow it. */
const struct gw_policy_word *
gw_regimes_word(const struct gw_coordinator *self, uint64_t step, int *last_p);
/* The clock at which the next one begins; UINT64_MAX: none is decided. */
uint64_t gw_regimes_next_clock(const struct gw_coordinator *self);
/* Another one was in force before. */
int gw_regimes_has_changed(const struct gw_coordinator *self);
/* A policy may be decided now: together behind the others, or per push, where
   all ranks stand still (`stands`), as the only one. */
int gw_regimes_may_add(const struct gw_coordinator *self,
                       uint64_t clock,
                       int stands);
void gw_regimes_add(struct gw_coordinator *self,
                    const struct gw_regime *regime,
                    uint64_t clock,
                    uint64_t pushes);
/* The next one is in force. */
void gw_regimes_advance(struct gw_coordinator *self);
/* A step's pushes are not applied; the next one counted on them. */
void gw_regimes_skip(struct gw_coordinator *self);
/* The user has asked for a word, which is not decided yet. */
void gw_regimes_ask(struct gw_coordinator *self,
                    const struct gw_policy_word *word);
int gw_regimes_is_asked(const struct gw_coordinator *self);

/* ---- coordinator_decided.c ---- */

enum gw_status gw_decided_open(struct gw_coordinator *self,
                               struct gw_error *error);
void gw_decided_close(struct gw_coordinator *self);
/* All decisions up to this number are known, and the last one that came. */
uint64_t gw_decided_number(const struct gw_coordinator *self);
uint64_t gw_decided_last(const struct gw_coordinator *self);
/* This coordinator begins in the middle of the stream, behind that number. Of
   those before it shard 0 tells the ones that still matter once more. */
void gw_decided_rejoin(struct gw_coordinator *self,
                       uint64_t number,
                       uint64_t renumbered);
int gw_decided_is_recalled(const struct gw_coordinator *self, uint64_t number);
void gw_decided_set_number(struct gw_coordinator *self, uint64_t number);
/* The last decision that numbered the clocks again from a common one. */
uint64_t gw_decided_renumbered(const struct gw_coordinator *self);
void gw_decided_renumber(struct gw_coordinator *self, uint64_t number);
/* The last cut, or the one that the job goes on from; 0: none. */
int gw_decided_cut(const struct gw_coordinator *self, uint64_t *clock_p);
void gw_decided_set_cut(struct gw_coordinator *self, uint64_t clock);
/* A user has asked for one, which is not decided yet. */
void gw_decided_await_cut(struct gw_coordinator *self);
int gw_decided_awaits_cut(const struct gw_coordinator *self);
/* The end. Its clock is UINT64_MAX until it is decided. */
int gw_decided_has_end(const struct gw_coordinator *self);
uint64_t gw_decided_end_clock(const struct gw_coordinator *self);
enum gw_end_reason gw_decided_end_reason(const struct gw_coordinator *self);
void gw_decided_set_end(struct gw_coordinator *self,
                        uint64_t clock,
                        enum gw_end_reason reason);

/* ---- coordinator_split.c ---- */

/* Opened when it is known where the job begins. GW_ENOMEM, and the errors of
   gw_splits_read. */
enum gw_status gw_splitter_open(struct gw_coordinator *self,
                                struct gw_error *error);
void gw_splitter_close(struct gw_coordinator *self);
/* Non-zero when shard 0 has all splits that it is to repeat; else they are
   being sent, and `again` is called to ask again, unless the job ends. */
int gw_splitter_hand_over(struct gw_coordinator *self,
                          void (*again)(struct gw_coordinator *self));
/* The split with which the job begins: for members, and told as an event. */
void gw_splitter_fill_start(struct gw_coordinator *self,
                            struct gw_start *start);
void gw_splitter_decided(struct gw_coordinator *self,
                         const struct gw_decision *decision);
/* The split in force at `clock`, the last decided one or the one before. */
void gw_splitter_fill_cut(const struct gw_coordinator *self,
                          uint64_t clock,
                          struct gw_manifest *manifest);
/* [workers] samples of the parts of a step, until the next call; NULL where
   they are even, or `part` is. */
const uint64_t *gw_splitter_samples(struct gw_coordinator *self,
                                    const struct gw_score *part);

#endif
