/*
 * What members do that lie to a server, out of the bytes of a fuzz target's
 * input: frames and messages that are right but for what the input makes of
 * them. And an honest step, for the job to get on.
 */
#ifndef GW_TESTS_FUZZ_SESSION_ACTS_H
#define GW_TESTS_FUZZ_SESSION_ACTS_H

#include "tests/fuzz/input.h"
#include "tests/fuzz/session.h"

/* A push or a seed; a gradient that is shown; any frame at all. */
void session_do_put(struct session_sender *sender,
                    struct input *input,
                    uint8_t kind);
/* A push without bytes, of samples that count or do not. */
void session_do_empty(struct session_sender *sender, struct input *input);
void session_do_shown(struct session_sender *sender, struct input *input);
void session_do_any_frame(struct session_sender *sender, struct input *input);

/* Several wants in a frame; one of any kind, that knows of decisions. */
void session_do_want(struct session_sender *sender, struct input *input);
void session_do_ask(struct session_sender *sender, struct input *input);

/* The parts of a sum, and the sum. */
void session_do_sum(struct session_sender *sender, struct input *input);

/* Hyperparameters of groups. */
void session_do_terms(struct session_sender *sender, struct input *input);

/* A score or a vote; where ranks stand, how fast they are; any bytes. */
void session_do_message(struct session_sender *sender, struct input *input);
void session_do_news(struct session_sender *sender, struct input *input);
void session_do_any_message(struct session_sender *sender, struct input *input);

/* From shard 0: the next in order, mostly, and of a clock where the server may
   be. */
void session_do_decision(struct session_world *world, struct input *input);

void session_do_coordinate(struct session_world *world, struct input *input);

/* Which workers push, and which want, as they should: two bits each. */
void session_do_step(struct session_world *world, uint64_t who);

/* The job of an input: its second byte. */
const char *session_policy(uint64_t which);

#endif
