/*
 * A regime: a server's behaviour while one word of cluster.policy holds. A job
 * has several, one after the other, where its plan says so or somebody asks
 * for another (decision_switch.c, switch.c). Pure, any thread.
 */
#ifndef GW_SERVER_REGIME_H
#define GW_SERVER_REGIME_H

#include <stdint.h>

#include "kernels/update/update.h"
#include "proto/config.h"
#include "proto/rounds.h"
#include "proto/status.h"
#include "server/policy/policy.h"

/* Arrays of a shard that not every regime needs. */
enum gw_shard_array {
    GW_SHARD_SUM = 1,     /* sum of a clock or a group, until it is applied */
    GW_SHARD_GIVEN = 2,   /* per rank: the weights that it was last given */
    GW_SHARD_SQUARES = 4, /* per rank: the mean square of its gradients */
    GW_SHARD_OWN = 8,     /* easgd, per rank: the weights it goes on from */
    GW_SHARD_PAYLOAD_FREE = 16, /* not an array: none has memory, sums are of
                             nothing; an answer is only a length */
    GW_SHARD_SHARED = 32, /* not an array: landing slots lie in memory that
                             other processes of this host can map */
    GW_SHARD_BF16 = 64,   /* current weights as bf16, for wants in bf16 */
};

/* How pushes become versions: server/commit.h. */
enum gw_commit_kind {
    GW_COMMIT_KIND_STREAMING,
    GW_COMMIT_KIND_WHOLE,
    GW_COMMIT_KIND_QUORUM,
    GW_COMMIT_KIND_PER_PUSH,
    GW_COMMIT_KINDS
};

struct gw_regime {
    struct gw_policy_word word;
    uint64_t until; /* the step at which the plan has another phase */
    struct gw_policy_terms terms; /* texts of the job's config */
    const struct gw_policy *policy;
    const struct gw_optimizer *optimizer; /* of the servers */
    int per_push;                         /* each push makes a version */
    int whole_step;                       /* steps are committed as a whole, */
    int two_phase;                        /* with trust ratios in between */
    enum gw_commit_kind commit;
    int lockstep; /* no rank goes on before its push is in a version: until then
                     its gradients stay as they are, may be exported and summed
                   */
    int outer;    /* pushes are steps of the workers' own, for an optimizer of
                     the servers' */
    int can_skip; /* a step of all ranks can be left out */
    uint32_t quorum; /* backup: ranks that count in a step, 0: all */
    uint32_t group;  /* per push: pushes that make an update */
    unsigned arrays; /* enum gw_shard_array: kept by shards */
};

/*
 * The regime of the job's servers under `word` from `step` on. The config
 * outlives the regime and has been checked. GW_EUNSUPPORTED with a line where
 * this version has not got the optimizer or the policy, GW_EUSAGE where the
 * plan cannot be read; *regime_p is unchanged then.
 */
enum gw_status gw_regime_make(const struct gw_config *config,
                              const struct gw_policy_word *word,
                              uint64_t step,
                              struct gw_regime *regime_p,
                              struct gw_error *error);

/* Steps that one push stands for. */
uint64_t gw_regime_steps(const struct gw_regime *regime);

/* Samples that a push may have, where a rank has `part` of a step at most; that
   all pushes of a clock may have together, of steps of `step` samples,
   UINT64_MAX where each makes a version. */
uint64_t gw_regime_push_max(const struct gw_regime *regime, uint64_t part);
uint64_t gw_regime_clock_max(const struct gw_regime *regime, uint64_t step);

/* gw_regime_make with the word that the job's plan has for `step`. */
enum gw_status gw_regime_at(const struct gw_config *config,
                            uint64_t step,
                            struct gw_regime *regime_p,
                            struct gw_error *error);

#endif
