/*
 * A leader of decisions on a bench: a small job's, whose decisions are kept. Of
 * three ranks and two shards, ten steps, sync with whole steps and without
 * checkpoints, unless a test says something else before it begins.
 */
#ifndef GW_TESTS_LEADER_H
#define GW_TESTS_LEADER_H

#include "server/policy/decision.h"

#define RANKS  3
#define SHARDS 2
#define KEPT   64

struct bench {
    struct gw_config config;
    struct gw_map *map;
    struct gw_leader *leader;
    struct gw_leader_options options;
    struct gw_decision decision[KEPT];
    double values[KEPT][16];
    uint32_t ranks[KEPT][RANKS];
    char policy[KEPT][GW_WORD_BYTES];
    int has_clocks[KEPT]; /* of per-push policies, */
    uint64_t clocks[KEPT][RANKS];
    size_t n;
};

void leader_set(struct bench *bench, const char *assignment);
void leader_prepare(struct bench *bench);
void leader_begin(struct bench *bench);
void leader_end(struct bench *bench);

/* A shard's vote: `square` for each of its chunks. */
enum gw_status
leader_vote(struct bench *bench, uint32_t shard, uint64_t clock, double square);

/* Prepares a job of this plan of policies; rounds are of plain sgd. */
void leader_plan(struct bench *bench, const char *text);

/* The user asks for this policy. */
void leader_ask(struct bench *bench, const char *text);

/* All ranks stand still, at these clocks at every shard. */
void leader_settle(struct bench *bench, const uint64_t clocks[RANKS]);

/* The version is there, and all ranks score it. */
void leader_score(struct bench *bench, uint64_t clock, double loss);

#endif
