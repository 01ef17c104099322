/*
 * The words of cluster.policy: how pushes become updates, and from which step
 * to which. "ssp:4" is a word; "sync until 2000, local:16" is a plan of two
 * phases. Servers and workers give the words their meaning. Pure, any thread.
 */
#ifndef GW_PROTO_POLICY_H
#define GW_PROTO_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

enum gw_policy_kind {
    GW_POLICY_SYNC,
    GW_POLICY_BACKUP,   /* backup:B, late pushes of B workers do not count */
    GW_POLICY_SSP,      /* ssp:S, no worker more than S clocks ahead */
    GW_POLICY_ASYNC,    /* each push is applied as it arrives */
    GW_POLICY_STALE_LR, /* stale-lr:N, N-softsync, lr over staleness */
    GW_POLICY_DC_ASYNC, /* async with compensated delay */
    GW_POLICY_DOWNPOUR, /* downpour:T, async; a push is the way of T steps */
    GW_POLICY_EASGD,    /* easgd:T, elastic averaging every T steps */
    GW_POLICY_LOCAL,    /* local:H, weights are averaged every H steps */
    GW_POLICY_DILOCO,   /* diloco:H, an outer optimizer every H steps */
    GW_POLICY_KINDS
};

#define GW_POLICY_BACKUP_MAX 4095           /* B: one worker must count */
#define GW_POLICY_SPLIT_MAX  4096           /* N, as cluster.workers */
#define GW_WORD_N_MAX        1000000        /* S, T and H */
#define GW_POLICY_STEP_MAX   1000000000000u /* as train.steps */
#define GW_WORD_BYTES        32             /* a word as text, with its end */
#define GW_POLICY_PHASES_MAX 16

/* One word of cluster.policy: "ssp:4". */
struct gw_policy_word {
    enum gw_policy_kind kind;
    uint64_t n; /* B, S, N, T or H; 0 where the word takes none */
};

/* Steps count from 0. A phase holds from the step where the phase before ends,
   the first one from 0, up to and without `until`. */
struct gw_policy_phase {
    struct gw_policy_word word;
    uint64_t until; /* UINT64_MAX: to the end */
};

struct gw_policy_plan {
    size_t n; /* at least 1 */
    struct gw_policy_phase phase[GW_POLICY_PHASES_MAX];
};

/*
 * Reads one word, with or without blanks around it: sync, backup:B, ssp:S,
 * async, stale-lr:N, dc-async, downpour:T, easgd:T, local:H or diloco:H, with B
 * in 0..GW_POLICY_BACKUP_MAX, N in 1..GW_POLICY_SPLIT_MAX, S in
 * 0..GW_WORD_N_MAX and T and H in 1..GW_WORD_N_MAX. `text` may come from
 * anyone. GW_EUSAGE with a line that names the fault and the words that may
 * stand there, the nearest included; *word_p is unchanged then.
 */
enum gw_status gw_policy_word_parse(const char *text,
                                    struct gw_policy_word *word_p,
                                    struct gw_error *error);

/*
 * Reads a plan, "WORD until STEP, WORD until STEP, WORD": STEP is in
 * 1..GW_POLICY_STEP_MAX and larger from phase to phase, the last phase has none
 * and goes to the end. One word alone is a plan. Errors as above; where there
 * are several phases the line begins with "phase 2: ".
 */
enum gw_status gw_policy_plan_parse(const char *text,
                                    struct gw_policy_plan *plan_p,
                                    struct gw_error *error);

/* The word as gw_policy_word_parse reads it. */
void gw_policy_word_print(const struct gw_policy_word *word,
                          char text[GW_WORD_BYTES]);

/* How many of the phases are of that kind. */
size_t gw_policy_phases_of(const struct gw_policy_plan *plan,
                           enum gw_policy_kind kind);

/* The word that holds in `step`. */
struct gw_policy_word gw_policy_at(const struct gw_policy_plan *plan,
                                   uint64_t step);

/* The first step after `step` that belongs to another phase than `step` does,
   UINT64_MAX when none does. Its word may be the same one again. */
uint64_t gw_policy_next_switch(const struct gw_policy_plan *plan,
                               uint64_t step);

/*
 * Non-zero: pushes are applied together, a chunk's next version is made of the
 * pushes that several ranks sent for one clock, and has one set of contributors
 * (sync, backup, local, diloco). Zero: each push that counts makes a version of
 * its own (ssp, async, stale-lr, dc-async, downpour, easgd), so no step of all
 * ranks exists that could be clipped, skipped or committed as a whole.
 */
int gw_policy_is_together(enum gw_policy_kind kind);

/*
 * Non-zero: a worker takes n steps with an optimizer of its own between two
 * exchanges and sends the outcome for its weights (downpour, easgd, local,
 * diloco). Zero: it sends the gradient of every step, and only servers change
 * weights.
 */
int gw_policy_is_local(enum gw_policy_kind kind);

#endif
