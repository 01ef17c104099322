/* Inside the coordinator: checkpoints. */
#ifndef GW_SERVER_COORDINATOR_KEEP_H
#define GW_SERVER_COORDINATOR_KEEP_H

#include "server/coordinator/coordinator_state.h"
#include "server/policy/decision.h"

/*
 * coordinator_origin.c: opening it finds where the job begins, and holds the
 * directories until it is closed. GW_ENOMEM, the errors of gw_begin_find and
 * gw_begin_check_empty, and the disk's.
 */
enum gw_status gw_origin_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_origin_close(struct gw_coordinator *self);
/* The state with which the job begins. */
const struct gw_decision_state *
gw_origin_state(const struct gw_coordinator *self);
const char *gw_origin_token(const struct gw_coordinator *self);
/* checkpoint.dir, where there is one, and the directory that the job goes on
   from, where it does: entered, until the origin is closed. Thread: any. */
struct gw_disk *gw_origin_dir(struct gw_coordinator *self);
struct gw_disk *gw_origin_resume_dir(struct gw_coordinator *self);
/* Before the start: does the checkpoint fit the workers' declaration? */
/* The settings that the job leaves to its program are known by now: errors of
   gw_begin_take_program. */
enum gw_status gw_origin_take_program(struct gw_coordinator *self,
                                      struct gw_error *error);
enum gw_status gw_origin_check(struct gw_coordinator *self,
                               struct gw_error *error);
/* The tuning of a worker before: of the one whose place it takes, or in the
   checkpoint; "": none. */
const char *gw_origin_tuned(const struct gw_coordinator *self,
                            const struct gw_seat *who);
/* A line where a worker computes otherwise than the one before. */
void gw_origin_note_device(struct gw_coordinator *self,
                           const struct gw_seat *who,
                           const char *device,
                           const char *tuned);
void gw_origin_fill_start(struct gw_coordinator *self, struct gw_start *start);
/* The cut that the job goes on from, all zero where it begins; and a rank's
   first clock, once workers have declared their course. */
struct gw_course_cut gw_origin_cut(const struct gw_coordinator *self);
uint64_t gw_origin_first_clock(const struct gw_coordinator *self,
                               uint32_t rank);
/* The split that the job goes on with, [workers]; 0 where there is none. */
int gw_origin_first_split(const struct gw_coordinator *self, uint32_t *weight);
/* Non-zero where a file is part of the checkpoint that the job goes on from,
   and the member's to read. */
int gw_origin_may_read(const struct gw_coordinator *self,
                       const struct gw_seat *who,
                       uint64_t clock,
                       const char *name);

/*
 * coordinator_save.c: a worker waits for a checkpoint of that clock, or a later
 * one, and is told when it is complete; at once if it is already.
 */
void gw_saves_ask(struct gw_coordinator *self,
                  struct gw_seat *who,
                  uint64_t clock);
/* The checkpoint of that clock is complete, or has failed with a line. */
void gw_saves_answer(struct gw_coordinator *self,
                     uint64_t clock,
                     enum gw_status status,
                     const char *text);

/* coordinator_keep.c: opened when it is known where the job begins */
enum gw_status gw_keeper_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_keeper_close(struct gw_coordinator *self);
void gw_keeper_cut(struct gw_coordinator *self,
                   const struct gw_decision *decision,
                   const struct gw_cut *cut);
void gw_keeper_saved(struct gw_coordinator *self,
                     struct gw_seat *who,
                     const struct gw_saved *saved);
/* Shard 0 is another process, and may not know that its last cut is complete:
   it is told, unless one is being made. */
void gw_keeper_tell_stored(struct gw_coordinator *self);
/* The same for the last cut before this coordinator took another's place: it
   may be complete, or come to be it, or never. */
void gw_keeper_recall(struct gw_coordinator *self,
                      const struct gw_decision *decision,
                      const struct gw_cut *cut);
/* The job stands there. */
void gw_keeper_rejoin(struct gw_coordinator *self,
                      const struct gw_decision_state *state);
/* The clock of the last cut that is decided, or that the job goes on from, + 1;
   0: there is none. */
uint64_t gw_keeper_newest(const struct gw_coordinator *self);
/* Non-zero when a checkpoint of `clock` is complete, or none are made. */
int gw_keeper_has(const struct gw_coordinator *self, uint64_t clock);
/* Non-zero where the member's file is called `name`, and is waited for in the
   checkpoint of `clock`. */
int gw_keeper_awaits(struct gw_coordinator *self,
                     const struct gw_seat *who,
                     uint64_t clock,
                     const char *name);
/* Nobody waits for files of that checkpoint any more: it is complete, or has
   failed. */
int gw_keeper_is_past(const struct gw_coordinator *self, uint64_t clock);
/* Non-zero while a checkpoint that is decided is being made; its missing files,
   in words; and a number that grows as it comes on. */
int gw_keeper_is_busy(const struct gw_coordinator *self);
void gw_keeper_awaited(const struct gw_coordinator *self,
                       char *text,
                       size_t room);
uint64_t gw_keeper_progress(const struct gw_coordinator *self);
/* Non-zero while a manifest is written: that checkpoint may become complete
   after the job's end, the others do not. */
int gw_keeper_may_finish(const struct gw_coordinator *self);
/* A piece of a file of a member that does not see the directory is written. */
void gw_keeper_grew(struct gw_coordinator *self);

/* ---- coordinator_inner.c ---- */

/* At first the words of the job's plan are expected. */
enum gw_status gw_inner_open(struct gw_coordinator *self,
                             struct gw_error *error);
/* The optimizer that workers run under the policy of this clock and keep state
   of, "" for none. */
const char *gw_inner_at(const struct gw_coordinator *self, uint64_t clock);
/* The same under this word. */
const char *gw_inner_under(const struct gw_coordinator *self,
                           const struct gw_policy_word *word);
/* This word may come into force: a worker's file may be here before its
   decision is. */
void gw_inner_expect(struct gw_coordinator *self,
                     const struct gw_policy_word *word);
int gw_inner_is_expected(const struct gw_coordinator *self);
/* Bytes of a worker's file, at most. */
uint64_t gw_inner_bytes_max(const struct gw_coordinator *self);
/* Non-zero where workers go on with their state in a checkpoint; `note` says a
   line where they do not, and it has some or they need some. */
int gw_inner_goes_on(const struct gw_coordinator *self,
                     const struct gw_manifest *from);
void gw_inner_note(struct gw_coordinator *self, const struct gw_manifest *from);

/* ---- coordinator_files.c ---- */

void gw_files_open(struct gw_coordinator *self,
                   struct gw_seat *who,
                   const struct gw_file_open *request);
void gw_files_frame(struct gw_coordinator *self,
                    struct gw_seat *who,
                    const struct gw_frame *frame);
/* A member is gone, and its links are closed. */
void gw_files_forget(struct gw_seat *who);
/* After the links are closed. */
void gw_files_close(struct gw_coordinator *self);

#endif
