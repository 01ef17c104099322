/*
 * A server that follows: shard 1, to which shard 0, which decides, and the
 * coordinator lie, while workers do as they should, or not. The input is a
 * program: a byte for what to do, then its operands. Nothing may crash the
 * server, make it grow or let it hang, and it logs whole lines.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/session_acts.h"

#define STEPS_MAX 300 /* of a program */

static void do_one(struct session_world *world, struct input *input)
{
    uint64_t what = take(input, 1);
    struct session_sender *sender = &world->sender[what / 16 % SESSION_WORKERS];
    switch (what % 16) {
    case 0:
    case 1:
    case 2:
        session_do_decision(world, input);
        break;
    case 3:
    case 4:
    case 5:
        session_do_step(world, take(input, 1));
        break;
    case 6:
        session_do_put(sender, input, GW_FRAME_PUSH);
        break;
    case 7:
        session_do_ask(sender, input);
        break;
    case 8:
        session_do_sum(sender, input);
        break;
    case 9:
        session_do_coordinate(world, input);
        break;
    case 10:
        session_do_news(sender, input);
        break;
    case 11:
        session_dial(sender);
        break;
    case 12:
        gw_sim_cut(world->sim);
        break;
    default:
        session_pass_time(world, 100 + take(input, 1) * 40);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input input = {data, n};
    uint64_t how = take(&input, 1);
    const char *settings[] = {
        session_policy(how >> 3),
        how & 1 ? "train.commit=whole" : "train.commit=auto",
        how & 1 ? "checkpoint.dir=ck" : "checkpoint.dir=\"\"", NULL};
    if (how >> 3) /* whole steps do not go with all policies */
        settings[1] = "train.commit=auto";
    const struct session_options options = {.settings = settings,
                                            .number = 1,
                                            .near = how >> 1 & 1,
                                            .grouped = how >> 2 & 1};
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
