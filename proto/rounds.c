#include <config.h>

#include "proto/rounds.h"

#include <string.h>

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct gw_rounds gw_rounds_of(const struct gw_config *config,
                              const struct gw_policy_word *word,
                              uint64_t first,
                              uint64_t until,
                              uint64_t total_steps,
                              const struct gw_course *course)
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
        rounds.meets[0] = gw_course_beat_of(course, &config->train.eval_every);
        rounds.meets[1] = gw_course_beat_of(course, &config->checkpoint.every);
    }
    return rounds;
}

/* The meeting at or before a clock. */
static uint64_t meeting_before(const struct gw_rounds *rounds, uint64_t clock)
{
    uint64_t latest = rounds->first;
    for (int i = 0; i < 2; i++) {
        const struct gw_course_beat *beat = &rounds->meets[i];
        if (!beat->every || clock < beat->first)
            continue;
        uint64_t at =
            beat->first + (clock - beat->first) / beat->every * beat->every;
        latest = at > latest ? at : latest;
    }
    return latest;
}

/* The first clock of a beat behind `clock`. */
static uint64_t beat_after(const struct gw_course_beat *beat, uint64_t clock)
{
    if (!beat->every)
        return UINT64_MAX;
    if (clock < beat->first)
        return beat->first;
    return beat->first +
           ((clock - beat->first) / beat->every + 1) * beat->every;
}

uint64_t gw_rounds_meeting(const struct gw_rounds *rounds, uint64_t clock)
{
    uint64_t next = UINT64_MAX;
    if (!rounds->streams)
        return gw_rounds_next(rounds, 0, clock);
    for (int i = 0; i < 2; i++)
        next = earlier(next, beat_after(&rounds->meets[i], clock));
    return clock < rounds->last ? earlier(next, rounds->last) : next;
}

int gw_rounds_meets(const struct gw_rounds *rounds, uint64_t clock)
{
    return !rounds->streams || clock == rounds->last ||
           meeting_before(rounds, clock) == clock;
}

/* Non-zero when each clock of the one is a clock of the other, except clocks
   before the other begins. */
static int is_part_of(const struct gw_course_beat *one,
                      const struct gw_course_beat *other)
{
    if (!other->every || one->every % other->every != 0)
        return 0;
    uint64_t apart = one->first > other->first ? one->first - other->first
                                               : other->first - one->first;
    return apart % other->every == 0;
}

static int are_meetings(const struct gw_rounds *of, const struct gw_rounds *in)
{
    for (int i = 0; i < 2; i++) {
        int found = of->meets[i].every == 0;
        for (int j = 0; j < 2; j++)
            found |= is_part_of(&of->meets[i], &in->meets[j]);
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
