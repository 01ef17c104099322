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
#include "tests/fuzz/input.h"
#include "tests/fuzz/session.h"

#define STEPS_MAX 400 /* of a program */

/* ---- what a program may do ---- */

static uint32_t some_window(struct input *input,
                            const struct session_sender *sender)
{
    switch (take(input, 1) % 8) {
    case 0:
        return GW_WINDOW_NONE;
    case 1:
        return (uint32_t)take(input, 4);
    case 2:
    case 3:
        return sender->seeds;
    default:
        return sender->landing;
    }
}

/* A push or seed that is right, but for what `about` makes of it. */
static void
do_put(struct session_sender *sender, struct input *input, uint8_t kind)
{
    const struct gw_map *map = sender->world->map;
    uint32_t chunk = (uint32_t)take(input, 1) % (uint32_t)map->chunks;
    const struct gw_chunk *place = &map->chunk[chunk];
    int seed = kind == GW_FRAME_SEED;
    struct gw_frame frame = {
        .kind = kind,
        .clock = about(input, take(input, 1) % 8),
        .offset = about(input, place->shard_offset),
        .window = seed ? sender->seeds : sender->landing,
        .chunk = (uint32_t)about(input, chunk),
        .count = (uint32_t)about(input, 4),
        .length = (uint32_t)about(input, place->elems * sizeof(float)),
        .dtype = (uint8_t)about(input, GW_DTYPE_F32),
        .encoding = (uint8_t)about(input, GW_ENCODING_RAW),
        .decision = (uint32_t)about(input, 0),
    };
    uint8_t value[4] = {0, 0, (uint8_t)take(input, 1), (uint8_t)take(input, 1)};
    session_send(sender, &frame, value, sizeof value);
}

/* A gradient that a server may read, or is to believe so. */
static void do_shown(struct session_sender *sender, struct input *input)
{
    const struct gw_map *map = sender->world->map;
    uint32_t chunk = (uint32_t)take(input, 1) % (uint32_t)map->chunks;
    uint8_t at[GW_SHOWN_AT_BYTES];
    struct gw_frame frame = {
        .kind = GW_FRAME_SHOWN,
        .clock = about(input, take(input, 1) % 8),
        .chunk = (uint32_t)about(input, chunk),
        .count = (uint32_t)about(input, 4),
        .length = sizeof at,
        .dtype = (uint8_t)about(input, GW_DTYPE_F32),
        .encoding = (uint8_t)about(input, GW_ENCODING_RAW),
        .decision = (uint32_t)about(input, 0),
    };
    uint8_t kinds[] = {GW_FRAME_PUSH, GW_FRAME_PUSH, GW_FRAME_SEED,
                       (uint8_t)take(input, 1)};
    const struct gw_shown shown = {
        .window = (uint32_t)about(input, sender->weights),
        .kind = kinds[take(input, 1) % sizeof kinds]};
    gw_shown_encode(&shown, at);
    session_send(sender, &frame, at, sizeof at);
}

static void do_any_frame(struct session_sender *sender, struct input *input)
{
    struct gw_frame frame = {
        .kind = (uint8_t)take(input, 1),
        .flags = (uint16_t)take(input, 1),
        .clock = about(input, sender->number + 1),
        .offset = about(input, 0),
        .window = some_window(input, sender),
        .chunk = (uint32_t)take(input, 1),
        .count = (uint32_t)take(input, 2),
        .length = (uint32_t)take(input, 2),
        .encoding = (uint8_t)take(input, 1),
        .dtype = (uint8_t)take(input, 1),
        .decision = (uint32_t)take(input, 1),
    };
    session_send(sender, &frame, input->at,
                 input->left < 64 ? input->left : 64);
}

static void do_want(struct session_sender *sender, struct input *input)
{
    uint8_t wants[8 * GW_WANT_BYTES];
    uint32_t n = (uint32_t)(1 + take(input, 1) % 8);
    for (uint32_t i = 0; i < n; i++) {
        struct gw_want want = {
            .chunk = (uint32_t)about(input, take(input, 1) % 8),
            .count = (uint32_t)about(input, 1 + take(input, 1) % 8),
            .value = about(input, take(input, 1) % 8),
            .offset = about(input, 0),
            .window = (uint32_t)about(input, sender->weights),
            .condition = (uint8_t)about(input, GW_WANT_VERSION),
        };
        gw_want_encode(&want, wants + (size_t)i * GW_WANT_BYTES);
    }
    struct gw_frame frame = {.kind = GW_FRAME_WANT,
                             .chunk = GW_CHUNK_NONE,
                             .length =
                                 (uint32_t)about(input, n * GW_WANT_BYTES)};
    session_send(sender, &frame, wants, sizeof wants);
}

static void send_control(struct session_sender *sender,
                         struct input *input,
                         const uint8_t *bytes,
                         size_t n)
{
    struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                             .clock = about(input, sender->number + 1),
                             .chunk = GW_CHUNK_NONE,
                             .length = (uint32_t)n};
    sender->number++;
    session_send(sender, &frame, bytes, n);
}

static void do_message(struct session_sender *sender, struct input *input)
{
    struct session_world *world = sender->world;
    double values[4] = {1, 2, 3, (double)take(input, 1)};
    uint32_t bad[2] = {(uint32_t)take(input, 1), 0};
    uint8_t bytes[4096];
    size_t n = 0;
    struct gw_message message = {.kind = GW_MESSAGE_SCORE};
    if (take(input, 1) % 2) {
        message.score = (struct gw_score){.clock = about(input, 0),
                                          .loss = values[3],
                                          .correct = take(input, 2),
                                          .samples = take(input, 2)};
    } else {
        message.kind = GW_MESSAGE_VOTE;
        message.vote = (struct gw_vote){
            .clock = about(input, take(input, 1) % 4),
            .phase = (uint8_t)about(input, 1),
            .first = (uint32_t)about(input, 0),
            .total = (uint32_t)about(input, world->map->shard_chunks[1]),
            .samples = about(input, 8),
            .values = values,
            .values_n = (uint32_t)take(input, 1) % 5,
            .bad_ranks = bad,
            .bad_ranks_n = (uint32_t)take(input, 1) % 3};
    }
    if (gw_message_encode(&message, &world->encode, bytes, sizeof bytes, &n) ==
        GW_OK)
        send_control(sender, input, bytes, n);
}

static void do_any_message(struct session_sender *sender, struct input *input)
{
    size_t n = take(input, 1);
    const uint8_t *bytes = input->at;
    if (n > input->left)
        n = input->left;
    input->at += n;
    input->left -= n;
    send_control(sender, input, bytes, n);
}

static void do_one(struct session_world *world, struct input *input)
{
    uint64_t what = take(input, 1);
    struct session_sender *sender = &world->sender[what / 16 % SESSION_SENDERS];
    switch (what % 16) {
    case 0:
    case 1:
        do_put(sender, input, GW_FRAME_PUSH);
        break;
    case 2:
        do_shown(sender, input);
        break;
    case 3:
    case 4:
        do_put(sender, input, GW_FRAME_SEED);
        break;
    case 5:
    case 6:
        do_want(sender, input);
        break;
    case 7:
        do_any_frame(sender, input);
        break;
    case 8:
    case 9:
        do_message(sender, input);
        break;
    case 10:
        do_any_message(sender, input);
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
    default:
        session_pass_time(world, 500);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input input = {data, n};
    uint64_t how = take(&input, 1);
    const char *settings[] = {
        how & 1 ? "train.commit=whole" : "train.commit=streaming", NULL};
    const struct session_options options = {.settings = settings,
                                            .near = how >> 1 & 1};
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
