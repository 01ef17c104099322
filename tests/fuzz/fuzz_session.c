/*
 * A server after login, and what it is sent by members that are logged in: two
 * workers and another shard, on bare links, so that any frame and any message
 * can be sent in any order, with cuts and pauses between. The rest of the world
 * is a simulation: a coordinator that gives the job and then only listens.
 *
 * The input is a program: a byte for what to do, then its operands. Nothing may
 * crash the server, make it grow or let it hang, and it logs whole lines.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/session_acts.h"

#define STEPS_MAX 400 /* of a program */

static void do_more(struct session_sender *sender, struct input *input)
{
    switch (take(input, 1) % 8) {
    case 0:
    case 1:
        session_do_sum(sender, input);
        break;
    case 2:
        session_do_ask(sender, input);
        break;
    case 3:
        session_do_news(sender, input);
        break;
    case 4:
        session_do_coordinate(sender->world, input);
        break;
    case 5:
        session_do_empty(sender, input);
        break;
    case 6:
        session_do_terms(sender, input);
        break;
    default:
        session_do_step(sender->world, take(input, 1));
    }
}

static void do_one(struct session_world *world, struct input *input)
{
    uint64_t what = take(input, 1);
    struct session_sender *sender = &world->sender[what / 16 % SESSION_SENDERS];
    switch (what % 16) {
    case 0:
    case 1:
        session_do_put(sender, input, GW_FRAME_PUSH);
        break;
    case 2:
        session_do_shown(sender, input);
        break;
    case 3:
    case 4:
        session_do_put(sender, input, GW_FRAME_SEED);
        break;
    case 5:
    case 6:
        session_do_want(sender, input);
        break;
    case 7:
        session_do_any_frame(sender, input);
        break;
    case 8:
    case 9:
        session_do_message(sender, input);
        break;
    case 10:
        session_do_any_message(sender, input);
        break;
    case 11:
        session_dial(sender);
        break;
    case 12:
        gw_sim_cut(world->sim);
        break;
    case 13:
        session_pass_time(world, 1 + take(input, 2) * 8);
        break;
    case 14:
        do_more(sender, input);
        break;
    default:
        session_pass_time(world, 500);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input input = {data, n};
    uint64_t how = take(&input, 1);
    uint64_t job = how >> 3;
    const char *settings[] = {
        session_policy(job),
        job       ? "train.commit=auto"
        : how & 1 ? "train.commit=whole"
                  : "train.commit=streaming",
        how & 1 ? "checkpoint.dir=ck" : "checkpoint.dir=\"\"", NULL};
    const struct session_options options = {
        .settings = settings, .near = how >> 1 & 1, .grouped = how >> 2 & 1};
    struct session_world *world = session_open(&options);
    if (!world)
        return 0;
    FUZZ_PROMISE(world->ready);
    for (size_t i = 0; i < STEPS_MAX && input.left > 0; i++)
        do_one(world, &input);
    session_pass_time(world, 300000);
    session_close(world);
    return 0;
}
