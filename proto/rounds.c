#include <config.h>

#include "proto/rounds.h"

#include <string.h>

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t in_steps(const struct gw_every *every, uint64_t steps_per_epoch)
{
    uint64_t steps = every->n;
    if (every->unit == GW_STEPS)
        return steps;
    if (every->unit != GW_EPOCHS ||
        __builtin_mul_overflow(steps, steps_per_epoch, &steps))
        return 0;
    return steps;
}

struct gw_rounds gw_rounds_of(const struct gw_config *config,
                              const struct gw_policy_word *word,
                              uint64_t first,
                              uint64_t until,
                              uint64_t total_steps,
                              uint64_t steps_per_epoch)
{
    struct gw_rounds rounds = {.word = *word,
                               .fragments = 1,
                               .first = first,
                               .last = earlier(until, total_steps)};
    if (word->kind != GW_POLICY_DILOCO)
        return rounds;
    rounds.fragments = (uint32_t)config->policy.fragments;
    rounds.overlap = config->policy.overlap;
    rounds.streams = rounds.fragments > 1 || rounds.overlap > 0;
    if (rounds.streams) {
        rounds.meets[0] = in_steps(&config->train.eval_every, steps_per_epoch);
        rounds.meets[1] = in_steps(&config->checkpoint.every, steps_per_epoch);
    }
    return rounds;
}

/* The meeting at or before a clock. */
static uint64_t meeting_before(const struct gw_rounds *rounds, uint64_t clock)
{
    uint64_t latest = rounds->first;
    for (int i = 0; i < 2; i++) {
        uint64_t every = rounds->meets[i];
        uint64_t at = every ? clock / every * every : 0;
        latest = at > latest ? at : latest;
    }
    return latest;
}

uint64_t gw_rounds_meeting(const struct gw_rounds *rounds, uint64_t clock)
{
    uint64_t next = UINT64_MAX;
    if (!rounds->streams)
        return gw_rounds_next(rounds, 0, clock);
    for (int i = 0; i < 2; i++) {
        uint64_t every = rounds->meets[i];
        if (every)
            next = earlier(next, (clock / every + 1) * every);
    }
    return clock < rounds->last ? earlier(next, rounds->last) : next;
}

int gw_rounds_meets(const struct gw_rounds *rounds, uint64_t clock)
{
    return !rounds->streams || clock == rounds->last ||
           meeting_before(rounds, clock) == clock;
}

/* A multiple of a meeting's steps is a meeting of `in` as well exactly where
   these steps themselves are one. */
static int are_meetings(const struct gw_rounds *of, const struct gw_rounds *in)
{
    for (int i = 0; i < 2; i++) {
        int found = of->meets[i] == 0;
        for (int j = 0; j < 2; j++)
            found |= in->meets[j] && of->meets[i] % in->meets[j] == 0;
        if (!found)
            return 0;
    }
    return 1;
}

int gw_rounds_meet_alike(const struct gw_rounds *a, const struct gw_rounds *b)
{
    return are_meetings(a, b) && are_meetings(b, a);
}

uint64_t gw_rounds_next(const struct gw_rounds *rounds,
                        uint32_t fragment,
                        uint64_t clock)
{
    uint64_t n = rounds->word.n;
    if (!gw_policy_is_local(rounds->word.kind))
        return clock + 1;
    if (!gw_policy_is_together(rounds->word.kind) ||
        (clock >= rounds->last && !rounds->streams))
        return clock + n;
    if (!rounds->streams)
        return earlier(clock + n, rounds->last);
    uint64_t before = fragment * n / rounds->fragments; /* its turn */
    uint64_t next = meeting_before(rounds, clock) + n - before;
    if (next <= clock)
        next += ((clock - next) / n + 1) * n;
    return earlier(next, gw_rounds_meeting(rounds, clock));
}

static size_t layer_bytes(const struct gw_key *key)
{
    const char *dot = strrchr(key->name, '.');
    return dot ? (size_t)(dot - key->name) : strlen(key->name);
}

static int is_same_layer(const struct gw_key *a, const struct gw_key *b)
{
    size_t bytes = layer_bytes(a);
    return bytes == layer_bytes(b) && memcmp(a->name, b->name, bytes) == 0;
}

void gw_rounds_divide(const struct gw_rounds *rounds,
                      const struct gw_key *keys,
                      size_t n,
                      uint32_t *fragment)
{
    uint32_t layer = 0;
    for (size_t i = 0; i < n; i++) {
        layer += i > 0 && !is_same_layer(&keys[i - 1], &keys[i]);
        fragment[i] = layer % rounds->fragments;
    }
}
