/*
 * A program with a model of its own, in simulation: keys of three groups, one
 * of which has values instead of gradients, over worker/trainer/rank.h.
 *
 * The loss of a sample is half the squared distance of all weights to a target
 * of the rank, so the gradient of n samples is n (w - target). The value of a
 * step depends on the step and the rank alone.
 */
#ifndef GW_TESTS_GROUPED_H
#define GW_TESTS_GROUPED_H

#include "tests/sim/cluster.h"
#include "worker/trainer/rank.h"

enum {
    GROUPED_RANKS = 4,
    GROUPED_KEYS = 5,
    GROUPED_GROUPS = 3,
    GROUPED_ELEMS = 20000, /* of the largest key: two chunks, of two shards */
    GROUPED_SAMPLES = 8    /* of a rank in a step */
};

extern const struct gw_key grouped_keys[GROUPED_KEYS];

/* The keys of groups 0 and 1 have gradients, those of group 2 values. */
int grouped_is_value(size_t key);
double grouped_first(size_t key, size_t i);
double grouped_target(size_t key, size_t i, uint32_t rank);
double grouped_slope(size_t key, size_t i, uint32_t rank);
double grouped_value(size_t key, size_t i, uint32_t rank, uint64_t step);

/* Opens a cluster whose ranks run the program, on lines without weather. */
void grouped_open(struct cluster *cluster,
                  const char *const *settings,
                  const char *resume);

/* Deviations of a test from the program; all zero: none. */
extern struct grouped {
    const char *asks[GROUPED_RANKS];          /* each rank's optimizer */
    double clip[GROUPED_RANKS];               /* and its largest norm */
    const struct gw_key *keys[GROUPED_RANKS]; /* NULL: grouped_keys */
    uint64_t poisons;  /* rank 1 has NaN among its values in this step */
    uint64_t spoils;   /* and in a gradient; 0: never */
    uint64_t sits_out; /* the step in which rank 3 has no samples; 0: none */
    /* needs each key when the one before it in its order is ready: 1: from the
       last key to the first, n: from the key n - 1 places on; 0: needs all
       keys first */
    size_t interleaves;
    int blind; /* needs no key; its gradients are in memory of its own */
    int still; /* gradients do not depend on weights: grouped_slope */
    /* called in a step to train, before its first key, and when all of its keys
       are ready */
    enum gw_status (*begun)(struct gw_rank *rank, uint64_t step);
    void (*ready)(struct gw_rank *rank, uint64_t step);
} grouped;

/* For cluster.work. */
enum gw_status grouped_work(const struct gw_worker_options *options,
                            struct gw_error *error);

/* Settings of its jobs, and a line without weather. */
#define GROUPED_JOB                                                            \
    "cluster.workers=4", "train.batch=0", "train.steps=24",                    \
        "model.kind=external",                                                 \
        "model.layers=", "data.train=", "data.test=", "data.normalize="
extern const struct gw_sim_options grouped_lines;

/* All weights that the shards have, key by key. */
void grouped_gather(const struct cluster *cluster,
                    float weights[GROUPED_KEYS][GROUPED_ELEMS]);

#endif
