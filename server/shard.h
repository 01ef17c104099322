/*
 * A shard's memory and arithmetic: two arrays of weights, the optimizer's
 * state, one landing slot per (rank, chunk), and the chunks' versions. Knows no
 * peer and no frame: session.c moves bytes in and out, decision.c says when.
 *
 *   landing[rank]  | chunk | chunk | ...     written by the transport
 *        \ tree reduction /
 *         sum (scratch, or the `reduced` array where it has to wait: for the
 *              decision of its step, or for the pushes of its group)
 *              | optimizer
 *   weights[0], weights[1]   a chunk's next version goes to the other array, so
 *                            that the version before stays whole
 *
 * One thread.
 */
#ifndef GW_SERVER_SHARD_H
#define GW_SERVER_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/update/blend.h"
#include "kernels/update/update.h"
#include "proto/config.h"
#include "proto/control.h"
#include "proto/map.h"
#include "server/policy/regime.h"
#include "proto/rounds.h"
#include "server/source.h"
#include "proto/status.h"
#include "proto/terms.h"
#include "proto/wire.h"
#include "transport/link/memory.h"

struct gw_shard_chunk {
    uint32_t global; /* index in the map */
    uint32_t elems;
    uint32_t
        stored;   /* elements in memory: all, or none in a payload-free shard */
    size_t first; /* element, in every array of this shard */
    uint64_t version;
    uint64_t updates; /* optimizer steps so far, and of these */
    uint64_t skipped; /* without a gradient of any rank: they changed nothing */
    uint64_t pushes;  /* applied, a step counting as one of each rank */
    uint64_t least;   /* the smallest mark of all ranks */
    uint64_t most;    /* each push: the largest behind a push with samples */
    uint32_t held;    /* ranks with a push here that is not yet applied */
    uint64_t samples; /* their samples, and of these */
    uint64_t uncounted; /* those of ranks that leave the chunk out */
    uint8_t ready;      /* it has weights */
    uint8_t current;    /* which of weights[] holds `version`, */
    uint8_t before;     /* and the version before it */
    uint8_t reduced;    /* whole step: the sum of this clock is made */
    uint8_t rounded;    /* `bf16` holds the current weights */
    uint8_t crc_known[GW_ENCODINGS]; /* of the current weights */
    uint8_t group_bytes;             /* a push of the group below has bytes */
    uint8_t mean;                    /* GW_KEY_RULE_MEAN: no optimizer */
    uint32_t crc[GW_ENCODINGS];
    double square_sum; /* whole step: of the unscaled sum */
    uint32_t fragment; /* its fragment of the model, by which it is exchanged */
    /* per push, in groups: the content of `reduced`, 0 pushes: none */
    uint32_t group;
    uint64_t group_samples;
    double group_lr;             /* sum of the learning rates of its pushes */
    struct gw_terms group_terms; /* the rest is that of its last push */
};

/* Pushes without samples, one after the other, of a rank that has run out of
   them. One alone is the short last step of an epoch. */
#define GW_SHARD_IDLE 2

/* One rank's place in one chunk. */
struct gw_shard_slot {
    uint64_t mark;  /* clocks below it are in: the next one to come */
    uint64_t given; /* each push: the chunk's changes at the last answer */
    struct gw_source source; /* its values; of one that is exported, once
                                imports.c has found them */
    uint32_t staleness; /* each push: updates between that and the last push */
    uint32_t sender;    /* the rank that pushed it */
    uint32_t samples;
    uint64_t decision;
    uint8_t held;      /* counted for the chunk's current clock */
    uint8_t landed;    /* arrived, but waits for a decision or for terms */
    uint8_t terms;     /* summed: its rank sets terms at this clock */
    uint8_t summed;    /* a part of a sum, which the sender's slot has */
    uint8_t nonfinite; /* summed: it was not finite */
    uint8_t exported;  /* its sender has it, and not the landing slot */
    uint8_t uncounted; /* without bytes: its samples do not divide the sum */
    uint8_t idle;      /* each push: so many had no samples of late, up to
                          GW_SHARD_IDLE */
};

struct gw_shard {
    const struct gw_map *map;
    uint32_t number;
    uint32_t ranks;
    uint32_t chunks;
    size_t elems;     /* of one array, padding included */
    int payload_free; /* payloads are lengths: arrays are addresses and no more
                       */
    int shared;       /* members of this host may write their landing slots
                         themselves */
    struct gw_shard_chunk *chunk;
    struct gw_shard_slot *slot; /* [chunks][ranks] */
    float *weights[2];
    /* current weights, rounded; NULL without GW_SHARD_BF16. One array where
       weights have two: a version's answers are all in before the next one is
       made, or they are copies. */
    uint16_t *bf16;
    float *state[GW_STATE_MAX];
    float **landing;          /* [ranks] */
    struct gw_memory *landed; /* [ranks], below them; NULL unless `shared` */
    float *reduced;           /* NULL without GW_SHARD_SUM */
    float **given;            /* [ranks], NULL without GW_SHARD_GIVEN */
    float **squares;          /* [ranks], NULL without GW_SHARD_SQUARES */
    float **own;              /* [ranks], NULL without GW_SHARD_OWN */
    const struct gw_optimizer *optimizer;
    const float **sources; /* [ranks] scratch of a sum */
    uint32_t chunks_reduced;
    struct gw_rounds rounds;
    /* Called between parts of long work, so that peers hear of this process;
       the owner may set both. */
    void (*breathe)(void *breather);
    void *breather;
    uint32_t taken;      /* arrays so far, for their places in a page */
    size_t memory_bytes; /* bytes of all arrays that are there */
};

/* `arrays`: of enum gw_shard_array. `map` stays the caller's and outlives the
   shard. GW_ENOMEM. */
enum gw_status gw_shard_create(const struct gw_map *map,
                               uint32_t number,
                               uint32_t ranks,
                               unsigned arrays,
                               const struct gw_optimizer *optimizer,
                               struct gw_shard **shard_p,
                               struct gw_error *error);
void gw_shard_destroy(struct gw_shard *shard);

/* Gives all arrays back: part of gw_shard_destroy. */
void gw_shard_drop(struct gw_shard *shard);

/*
 * From here on the shard keeps these arrays and no others. Arrays that it kept
 * already stay as they are. Another optimizer begins with zeros and its first
 * step; an array of a rank begins as if a checkpoint lacked it, and given
 * weights are the weights as they are. All chunks are at one version and hold
 * nothing. GW_ENOMEM: only destroy is left.
 */
enum gw_status gw_shard_keep(struct gw_shard *shard,
                             unsigned arrays,
                             const struct gw_optimizer *optimizer,
                             struct gw_error *error);

/* The memory of all arrays as they are, of those of ranks for the first `ranks`
   of them, into `memory` unless that is NULL; how many there are. Of a
   payload-free shard none. */
uint32_t gw_shard_memory(const struct gw_shard *shard,
                         uint32_t ranks,
                         struct gw_memory *memory);

/* How many arrays a shard has of each kind, and the bytes of one. */
struct gw_shard_counts {
    size_t array_bytes;
    size_t weights, states, landing, sum, given, squares, own;
    size_t bf16_bytes;
};
struct gw_shard_counts gw_shard_count(const struct gw_map *map,
                                      uint32_t number,
                                      uint32_t ranks,
                                      unsigned arrays,
                                      const struct gw_optimizer *optimizer);

/* Bytes that gw_shard_create takes for arrays: the formula of the manual. */
size_t gw_shard_bytes(const struct gw_map *map,
                      uint32_t number,
                      uint32_t ranks,
                      unsigned arrays,
                      const struct gw_optimizer *optimizer);

/* *chunk_p: the local index of a chunk of the map. 0: another shard has it, or
   none. */
int gw_shard_find(const struct gw_shard *shard,
                  uint32_t global,
                  uint32_t *chunk_p);

struct gw_shard_slot *
gw_shard_slot(const struct gw_shard *shard, uint32_t rank, uint32_t chunk);

/* The current weights of a chunk, NULL in a payload-free shard. */
const float *gw_shard_weights(const struct gw_shard *shard, uint32_t chunk);

/*
 * The same in an encoding that the shard has (gw_shard_encodes), and their
 * checksum, both made when first asked. As bf16 they stay until another version
 * is asked for: an answer that may still be on its way then needs a copy
 * (gw_shard_give).
 */
int gw_shard_encodes(const struct gw_shard *shard, enum gw_encoding encoding);
const void *gw_shard_encoded(struct gw_shard *shard,
                             uint32_t chunk,
                             enum gw_encoding encoding);
uint32_t
gw_shard_crc(struct gw_shard *shard, uint32_t chunk, enum gw_encoding encoding);

/*
 * The weights of a version that is the chunk's, or the one before; NULL in a
 * payload-free shard. As bf16 the version before is put into the landing slot
 * of the rank, which pushes nothing to the chunk until it has them.
 */
const void *gw_shard_exact(struct gw_shard *shard,
                           uint32_t rank,
                           uint32_t chunk,
                           uint64_t version,
                           enum gw_encoding encoding);

/* The version of all chunks before the first push, and the clock of each
   rank. */
void gw_shard_begin(struct gw_shard *shard,
                    const struct gw_decision_state *state,
                    const uint64_t *clocks);

/* When chunks are exchanged from now on. GW_ENOMEM. */
enum gw_status gw_shard_follow(struct gw_shard *shard,
                               const struct gw_rounds *rounds,
                               struct gw_error *error);

/* All chunks are at this version, all ranks at this clock, whichever they
   had before; how pushes came is forgotten. */
void gw_shard_renumber(struct gw_shard *shard, uint64_t clock);

/*
 * A copy of a chunk of another server: its arrays, the weights of its version
 * into the first, those of the version before into the second of ours, or the
 * sum of its next step, have been put there. The age is the chunk's there,
 * behind that step; all ranks' pushes up to the version are in.
 */
struct gw_shard_age {
    uint64_t version, updates, skipped, pushes;
};
void gw_shard_take_copy(struct gw_shard *shard, uint32_t chunk);
void gw_shard_take_sum(struct gw_shard *shard, uint32_t chunk);
/* The same of a step that is not decided: a sum of that many samples, or of
   none with a gradient. */
void gw_shard_hold_sum(struct gw_shard *shard,
                       uint32_t chunk,
                       uint64_t samples,
                       uint64_t uncounted,
                       int empty);
void gw_shard_set_age(struct gw_shard *shard,
                      uint32_t chunk,
                      const struct gw_shard_age *age);

/* The weights that a chunk begins with. */
void gw_shard_seed(struct gw_shard *shard, uint32_t chunk, const float *from);

/* The caller has filled weights[0] and the saved arrays: all chunks are
   ready. Arrays that the checkpoint lacked have begun afresh, see below. */
void gw_shard_loaded(struct gw_shard *shard);

/*
 * Counts a push of the rank's next clock. Returns 1 when every rank has one.
 */
int gw_shard_hold(struct gw_shard *shard,
                  uint32_t rank,
                  uint32_t chunk,
                  uint32_t samples,
                  int empty);

/* Forgets a push that is held but not yet reduced: its bytes will be sent
   again. Returns 1 if there was one. */
int gw_shard_unhold(struct gw_shard *shard, uint32_t rank, uint32_t chunk);

/*
 * Backup: a rank's push of `clock` is not to count. Forgets it, if it is here,
 * and knows it when it comes again. The chunk is not yet reduced, or has no
 * push of this rank.
 */
void gw_shard_leave_out(struct gw_shard *shard,
                        uint32_t rank,
                        uint32_t chunk,
                        uint64_t clock);

/*
 * Streaming: reduces a complete chunk and updates it to its next version, block
 * by block; `update` is prepared. GW_ENONFINITE: a sum is NaN or infinite, the
 * chunk is spoilt and the job has to end.
 */
enum gw_status gw_shard_update(struct gw_shard *shard,
                               uint32_t chunk,
                               const struct gw_update *update);

/*
 * Each push by itself: updates a chunk with a held push of one rank, or passes
 * over one without samples. The chunk has a version more, the rank's mark is a
 * clock further. GW_ENONFINITE as above.
 */
enum gw_status gw_shard_update_each(struct gw_shard *shard,
                                    uint32_t rank,
                                    uint32_t chunk,
                                    const struct gw_update *update);
void gw_shard_pass(struct gw_shard *shard, uint32_t rank, uint32_t chunk);

/*
 * The same with the push compensated for its delay (GW_SHARD_GIVEN, and
 * GW_SHARD_SQUARES for the adaptive form); `update` is for the result, so its
 * scale is 1.
 */
enum gw_status
gw_shard_update_delayed(struct gw_shard *shard,
                        uint32_t rank,
                        uint32_t chunk,
                        const struct gw_compensation *compensation,
                        const struct gw_update *update);

/*
 * Each push is a rank's weights after its own steps (GW_SHARD_OWN): they and
 * the chunk's, the centre, go a part of the way towards each other
 * (kernels/update/blend.h, gw_elastic). GW_ENONFINITE as above.
 */
enum gw_status gw_shard_update_elastic(struct gw_shard *shard,
                                       uint32_t rank,
                                       uint32_t chunk,
                                       double alpha);

/*
 * Each push, in groups (GW_SHARD_SUM). Gather: a held push, times its source's
 * weight, joins the chunk's group, which adds up samples and learning rates of
 * its pushes; mark and version go on as above. Update: the group makes the next
 * weights, and is empty; a group without bytes is a skipped update.
 * GW_ENONFINITE as above.
 */
enum gw_status gw_shard_gather(struct gw_shard *shard,
                               uint32_t rank,
                               uint32_t chunk,
                               double lr);
void gw_shard_update_group(struct gw_shard *shard,
                           uint32_t chunk,
                           const struct gw_update *update);

/*
 * Each push by itself, and backup: the current weights for one rank, in a copy
 * that stays as it is until that rank's next push, however many updates others
 * make meanwhile. It lies in the rank's landing slot, which is free for as
 * long, or in `given`: fp32, as the rank has it. With GW_SHARD_OWN it is that
 * rank's own weights, raw. NULL in a payload-free shard.
 */
const void *gw_shard_give(struct gw_shard *shard,
                          uint32_t rank,
                          uint32_t chunk,
                          enum gw_encoding encoding);

/*
 * Whole step, in three parts. Reduce: the sum and its square sum are kept;
 * returns 0 if it is not finite. Direction: lamb only, the square sums of
 * weights and direction. Apply: the next version, from the reduced sum.
 */
int gw_shard_reduce(struct gw_shard *shard, uint32_t chunk);
/* The square sum of a sum that was made elsewhere. */
void gw_shard_square(struct gw_shard *shard, uint32_t chunk);
void gw_shard_direction(struct gw_shard *shard,
                        uint32_t chunk,
                        const struct gw_update *update,
                        double square_sums[2]);
void gw_shard_apply(struct gw_shard *shard,
                    uint32_t chunk,
                    const struct gw_update *update);

/* The step is not applied: the next version has the old bits. */
void gw_shard_skip(struct gw_shard *shard, uint32_t chunk);

/*
 * No rank has a gradient of the chunk in this clock: `has_gradient` is 0, for
 * no push that is held has bytes. The next version has the old bits, of weights
 * and states, and `skipped` counts the update; the clock counts all the same.
 */
int gw_shard_has_gradient(const struct gw_shard *shard, uint32_t chunk);
void gw_shard_skip_update(struct gw_shard *shard, uint32_t chunk);
/* The same of a single push that has samples, but no bytes. */
void gw_shard_skip_push(struct gw_shard *shard, uint32_t rank, uint32_t chunk);

/* Updates of the chunk that have changed it. */
uint64_t gw_shard_changes(const struct gw_shard_chunk *chunk);

/* Samples that divide the sum of the pushes that are held; not 0 where one of
   them has bytes. */
uint64_t gw_shard_divisor(const struct gw_shard_chunk *chunk);

/* This rank's push of a chunk has a value that is not finite. */
int gw_shard_is_nonfinite(const struct gw_shard *shard,
                          uint32_t rank,
                          uint32_t chunk);

/*
 * Arrays of a checkpoint besides the weights, in order: the optimizer's states,
 * then the mean square or the own weights of each rank. Given weights are not
 * among them: after a checkpoint every rank is given weights again.
 */
#define GW_SAVED_NAME_MAX 32
uint32_t gw_shard_saved(const struct gw_shard *shard);
float *gw_shard_saved_array(const struct gw_shard *shard, uint32_t i);
/* The name of array i there: "exp_avg", "mean_square.rank3", "own.rank3". */
void gw_shard_saved_name(const struct gw_shard *shard,
                         uint32_t i,
                         char name[GW_SAVED_NAME_MAX]);
/* A rank's array i that a checkpoint lacks: a mean square begins at zero, a
   rank's own weights are those of the shard, in weights[0]. */
void gw_shard_begin_saved(struct gw_shard *shard, uint32_t i);

/*
 * Within the shard. The current weights, an address and no more where it is
 * payload-free; the other array has the current weights from now on; an update
 * changes nothing; the clock of a chunk is over and its slots may be filled
 * again, and the clock counts in `pushes` if it was applied.
 */
float *gw_shard_weights_of(const struct gw_shard *shard,
                           const struct gw_shard_chunk *chunk);
void gw_shard_new_weights(struct gw_shard_chunk *chunk);
void gw_shard_old_weights(struct gw_shard_chunk *chunk);
void gw_shard_next_version(struct gw_shard *shard, uint32_t chunk, int applied);

#endif
