/*
 * Commits: how the pushes that a chunk holds become its next version. The
 * regime names its entry of the table.
 *
 *   streaming  each chunk by itself, once all pushes of its clock are held
 *   whole      all chunks of all shards or none, after a vote
 *   quorum     whole, of the ranks that pushed first
 *   per push   each push by itself, as it comes
 *
 * Each goes through the same stages:
 *
 *   reduced --> stored --> applied --> answered
 *
 *   reduced    the pushes are one gradient. Only a whole step has it in memory;
 *              the others add block by block, while they apply it
 *   stored     the shard's standby has it: at once where there is none (copy.h)
 *   applied    the chunk is at its next version
 *   answered   wants for that version are answered
 */
#ifndef GW_SERVER_COMMIT_H
#define GW_SERVER_COMMIT_H

#include "server/policy/regime.h"
#include "server/server_state.h"

struct gw_commit_ops {
    const char *word; /* for people */
    /* Updates do not wait until answers have left: answers are copies. */
    int copies;
    /* Ranks are at different clocks: for a cut, an evaluation, a switch or the
       end shard 0 quiesces them first (quiesce.c). */
    int quiesces;

    /* ---- pushes ---- */

    /* The pushes that are held of a chunk can be reduced. */
    int (*is_complete)(const struct gw_server *server, uint32_t chunk);
    /* A rank's push is held; it is not any more, since its link broke. */
    void (*held)(struct gw_server *server, uint32_t rank, uint32_t chunk);
    void (*unheld)(struct gw_server *server, uint32_t rank, uint32_t chunk);
    /* It is decided that the chunk's clock has no push of the rank. */
    int (*leaves_out)(const struct gw_server *server,
                      uint32_t rank,
                      uint32_t chunk);
    /* The chunk waits for the rank, as far as this shard knows. */
    int (*awaits)(const struct gw_server *server,
                  uint32_t rank,
                  uint32_t chunk);
    /* A shard that does not lead can tell that ranks are missing. */
    int (*can_miss)(const struct gw_server *server, uint32_t chunk);

    /* ---- stages ---- */

    /* A chunk is complete: goes on with gw_commit_reduced. Where a snapshot is
       in the way it returns, and is called again later. */
    void (*reduce)(struct gw_server *server, uint32_t chunk);
    /* Goes on with gw_commit_applied, perhaps after a decision. `rank` is that
       of gw_commit_reduced. */
    void (*stored)(struct gw_server *server, uint32_t rank, uint32_t chunk);
    /* Before answers. */
    void (*applied)(struct gw_server *server, uint32_t rank, uint32_t chunk);
    /* Updates that waited for a snapshot may go on. */
    void (*resume)(struct gw_server *server);
    /* A regime with this commit begins, at a switch. */
    void (*begin)(struct gw_server *server);

    /* ---- clocks ---- */

    /* The clock that is decided before a chunk's weights are given out. */
    uint64_t (*decided)(const struct gw_server *server, uint32_t chunk);
    /* The clock and count of an answer, from the rank's last push. */
    void (*label)(const struct gw_shard_slot *push, struct gw_frame *answer);
    /* The step, for people, of a chunk's version. */
    uint64_t (*step)(const struct gw_server *server, uint64_t version);
    /* All stand still, or are about to: nothing gathered stays behind. */
    void (*quiesce)(struct gw_server *server);
    /* The version of a cut that was decided as `version`. */
    uint64_t (*cut)(const struct gw_server *server, uint64_t version);
    /* A fault of a cut at a version, of a switch at a clock; NULL: none. */
    const char *(*cut_fault)(const struct gw_server *server, uint64_t version);
    const char *(*switch_fault)(const struct gw_server *server, uint64_t clock);
};

extern const struct gw_commit_ops gw_commit_streaming, gw_commit_whole,
    gw_commit_quorum, gw_commit_per_push;

/* commit_table.c */
const struct gw_commit_ops *gw_commit_find(const struct gw_regime *regime);

/* The commit of the regime that holds. */
const struct gw_commit_ops *gw_commit_of(const struct gw_server *server);

/* The pushes that are held of a chunk are to be reduced, and are not yet. */
int gw_commit_is_due(const struct gw_server *server, uint32_t chunk);

/* The stages, one after the other. `rank` has pushed; GW_RANK_NONE: all
   ranks of a clock have. */
void gw_commit_reduced(struct gw_server *server, uint32_t rank, uint32_t chunk);
/* The standby has the step of all ranks. */
void gw_commit_stored(struct gw_server *server, uint32_t chunk);
void gw_commit_applied(struct gw_server *server, uint32_t rank, uint32_t chunk);

/* commit.c: functions that several entries share. */
int gw_commit_all_held(const struct gw_server *server, uint32_t chunk);
void gw_commit_ignore(struct gw_server *server, uint32_t rank, uint32_t chunk);
int gw_commit_leaves_out_none(const struct gw_server *server,
                              uint32_t rank,
                              uint32_t chunk);
int gw_commit_awaits_unheld(const struct gw_server *server,
                            uint32_t rank,
                            uint32_t chunk);
int gw_commit_holds_any(const struct gw_server *server, uint32_t chunk);
void gw_commit_reached(struct gw_server *server, uint32_t rank, uint32_t chunk);
uint64_t gw_commit_decided_version(const struct gw_server *server,
                                   uint32_t chunk);
void gw_commit_label_version(const struct gw_shard_slot *push,
                             struct gw_frame *answer);
uint64_t gw_commit_step_is_version(const struct gw_server *server,
                                   uint64_t version);
void gw_commit_nothing(struct gw_server *server);
uint64_t gw_commit_cut_at(const struct gw_server *server, uint64_t version);
const char *gw_commit_cut_fault(const struct gw_server *server,
                                uint64_t version);
const char *gw_commit_switch_fault(const struct gw_server *server,
                                   uint64_t clock);

/* The factors of an update: its sum is divided by samples and loss scale. */
struct gw_commit_size {
    uint64_t samples; /* of the sum */
    double clip;
    double loss_scale; /* of the gradients */
    double lr_factor;  /* on that of the terms */
    struct gw_terms terms;
};

/* commit_update.c: the update of a chunk as it stands. */
void gw_commit_fill_update(const struct gw_server *server,
                           uint32_t chunk,
                           const struct gw_commit_size *size,
                           struct gw_update *update);
/* So many arrays of a chunk were read or written. */
void gw_commit_worked(const struct gw_server *server,
                      uint32_t chunk,
                      uint32_t arrays);
/* Values of a chunk that are not finite do not matter, since the job says so or
   the chunk's pushes are no gradients: they go through to the weights. */
int gw_commit_passes_nonfinite(const struct gw_server *server, uint32_t chunk);
/* Ends the job: the sum of a chunk is not finite. */
void gw_commit_blame(struct gw_server *server, uint32_t chunk, uint64_t clock);

/* commit_whole.c */
enum gw_status gw_whole_open(struct gw_server *server, struct gw_error *error);
void gw_whole_close(struct gw_server *server);
void gw_whole_reduce(struct gw_server *server, uint32_t chunk);
void gw_whole_stored(struct gw_server *server, uint32_t rank, uint32_t chunk);
void gw_whole_resume(struct gw_server *server);
void gw_whole_decided(struct gw_server *server,
                      const struct gw_decision *decision);
/* Shard 0 is another process; this one takes the place of its shard's. */
void gw_whole_vote_again(struct gw_server *server);
void gw_whole_take_over(struct gw_server *server);

/* commit_quorum.c */
enum gw_status gw_quorum_open(struct gw_server *server, struct gw_error *error);
void gw_quorum_close(struct gw_server *server);
void gw_quorum_decided(struct gw_server *server,
                       const struct gw_decision *decision);
/* Shard 0 acknowledged earlier arrivals: later ones follow. */
void gw_quorum_taken(struct gw_peer *leader);

#endif
