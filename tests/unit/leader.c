#include "config.h"

#include "tests/unit/leader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void emitted(void *owner, const struct gw_decision *decision)
{
    struct bench *bench = owner;
    assert_true(bench->n < KEPT);
    assert_int_equal(decision->number, bench->n + 1);
    assert_true(decision->values_n <= 16);
    bench->decision[bench->n] = *decision;
    if (decision->values_n)
        memcpy(bench->values[bench->n], decision->values,
               decision->values_n * sizeof(double));
    if (decision->ranks_n)
        memcpy(bench->ranks[bench->n], decision->ranks,
               decision->ranks_n * sizeof(uint32_t));
    if (decision->policy)
        snprintf(bench->policy[bench->n], sizeof bench->policy[0], "%s",
                 decision->policy);
    bench->has_clocks[bench->n] = decision->clocks_n > 0;
    if (decision->clocks_n > 0) {
        assert_int_equal(decision->clocks_n, RANKS);
        memcpy(bench->clocks[bench->n], decision->clocks,
               sizeof bench->clocks[0]);
    }
    bench->n++;
}

void leader_set(struct bench *bench, const char *assignment)
{
    struct gw_error error = {.text = ""};
    if (gw_config_set(&bench->config, assignment, &error) != GW_OK)
        fail_msg("%s", error.text);
}

void leader_prepare(struct bench *bench)
{
    const struct gw_key keys[] = {
        {.name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {40000}},
        {.name = "b", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {30000}}};
    struct gw_error error;
    memset(bench, 0, sizeof *bench);
    gw_config_default(&bench->config);
    leader_set(bench, "checkpoint.dir=\"\"");
    leader_set(bench, "train.global_batch=12");
    assert_int_equal(gw_map_create(keys, 2, SHARDS, &bench->map, &error),
                     GW_OK);
    bench->options = (struct gw_leader_options){.config = &bench->config,
                                                .map = bench->map,
                                                .ranks = RANKS,
                                                .shards = SHARDS,
                                                .total_steps = 10,
                                                .emit = emitted,
                                                .owner = bench};
    assert_int_equal(
        gw_regime_at(&bench->config, 0, &bench->options.regime, &error), GW_OK);
    bench->options.regime.whole_step = 1;
}

void leader_begin(struct bench *bench)
{
    struct gw_error error;
    assert_int_equal(gw_leader_create(&bench->options, &bench->leader, &error),
                     GW_OK);
}

void leader_end(struct bench *bench)
{
    gw_leader_destroy(bench->leader);
    gw_map_destroy(bench->map);
}

enum gw_status
leader_vote(struct bench *bench, uint32_t shard, uint64_t clock, double square)
{
    double values[64];
    uint32_t n = bench->map->shard_chunks[shard];
    for (uint32_t i = 0; i < n; i++)
        values[i] = square;
    struct gw_vote message = {.clock = clock,
                              .phase = 1,
                              .total = n,
                              .samples = 12,
                              .values = values,
                              .values_n = n};
    return gw_leader_vote(bench->leader, shard, &message, NULL);
}

void leader_settle(struct bench *bench, const uint64_t clocks[RANKS])
{
    const uint32_t blocked[RANKS] = {0, 1, 2};
    const struct gw_quiesced quiesced = {.decision = (uint32_t)bench->n,
                                         .clocks = clocks,
                                         .clocks_n = RANKS,
                                         .blocked = blocked,
                                         .blocked_n = RANKS};
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        assert_int_equal(gw_leader_quiesced(bench->leader, shard, &quiesced),
                         GW_OK);
}

void leader_plan(struct bench *bench, const char *text)
{
    char assignment[128];
    struct gw_error error;
    snprintf(assignment, sizeof assignment, "cluster.policy=\"%s\"", text);
    leader_prepare(bench);
    leader_set(bench, assignment);
    leader_set(bench, "policy.inner=sgd");
    assert_int_equal(
        gw_regime_at(&bench->config, 0, &bench->options.regime, &error), GW_OK);
}

void leader_ask(struct bench *bench, const char *text)
{
    struct gw_policy_word word;
    assert_int_equal(gw_policy_word_parse(text, &word, NULL), GW_OK);
    gw_leader_switch(bench->leader, &word);
}

void leader_score(struct bench *bench, uint64_t clock, double loss)
{
    struct gw_score part = {.clock = clock, .loss = loss, .samples = 1};
    gw_leader_before(bench->leader, clock);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(gw_leader_score(bench->leader, rank, &part), GW_OK);
}
