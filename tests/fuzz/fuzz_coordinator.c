/*
 * A coordinator whose members have joined and lie: shard 0, which decides, and
 * two workers. The input is a program: a byte for what to do, then its
 * operands. Nothing may crash the coordinator, make it grow or let it hang, and
 * what it tells are whole lines.
 */
#include "config.h"

#include <string.h>

#include "proto/wire.h"
#include "tests/fuzz/council.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

#define ACTS_MAX 300 /* of a program */

#define VALUES  12
#define NUMBERS 4

/* Memory that a message points to, until it is sent. */
struct lists {
    double value[VALUES];
    uint32_t rank[NUMBERS];
    uint64_t clock[NUMBERS], counter[NUMBERS];
};

static const char *const words[] = {"async",    "sync",      "easgd:2",
                                    "backup:1", "local:2",   "diloco:2",
                                    "no word",  "stale-lr:2"};
#define WORDS (sizeof words / sizeof *words)

static double some_value(struct input *input)
{
    double value;
    uint64_t bits;
    if (take(input, 1) < 200)
        return (double)(take(input, 1) % 8);
    bits = take(input, sizeof bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static struct gw_message a_decision(struct input *input, struct lists *lists)
{
    for (size_t i = 0; i < VALUES; i++)
        lists->value[i] = some_value(input);
    for (size_t i = 0; i < NUMBERS; i++) {
        lists->rank[i] = (uint32_t)about(input, take(input, 1) % 3);
        lists->clock[i] = about(input, take(input, 1) % 9);
    }
    return (struct gw_message){
        .kind = GW_MESSAGE_DECISION,
        .decision = {.number = (uint32_t)take(input, 1),
                     .kind = (uint8_t)(1 + take(input, 1) % 12),
                     .reason = (uint8_t)(take(input, 1) % 5),
                     .apply = take(input, 1) & 1,
                     .clock = about(input, take(input, 1) % 9),
                     .values = lists->value,
                     .values_n = (uint32_t)take(input, 1) % (VALUES + 1),
                     .ranks = lists->rank,
                     .ranks_n = (uint32_t)take(input, 1) % (NUMBERS + 1),
                     .clocks = lists->clock,
                     .clocks_n = (uint32_t)take(input, 1) % (NUMBERS + 1),
                     .policy = words[take(input, 1) % WORDS]},
    };
}

static struct gw_message a_report(struct input *input, struct lists *lists)
{
    for (size_t i = 0; i < NUMBERS; i++)
        lists->counter[i] = take(input, 1);
    return (struct gw_message){
        .kind = GW_MESSAGE_REPORT,
        .report = {.clock = about(input, take(input, 1) % 9),
                   .loss = some_value(input),
                   .samples = about(input, 4),
                   .counters = lists->counter,
                   .counters_n = NUMBERS,
                   .staleness = lists->counter,
                   .staleness_n = (uint32_t)take(input, 1) % (NUMBERS + 1),
                   .decision = (uint32_t)take(input, 1)},
    };
}

/* Mostly that of the member. */
static const char *some_file(struct input *input, unsigned member)
{
    static const char *const others[] = {"manifest.json", "../x", ""};
    uint64_t which = take(input, 1);
    if (which < 200)
        return council_file(member);
    return which < 240 ? council_file((unsigned)(which % COUNCIL_MEMBERS))
                       : others[which % 3];
}

static struct gw_message a_saved(struct input *input, unsigned member)
{
    return (struct gw_message){
        .kind = GW_MESSAGE_SAVED,
        .saved = {.clock = about(input, take(input, 1) % 9),
                  .status = take(input, 1) & 1 ? GW_EIO : GW_OK,
                  .file = some_file(input, member),
                  .bytes = about(input, 100),
                  .text = "a\nb"},
    };
}

static struct gw_message a_file(struct input *input, unsigned member)
{
    return (struct gw_message){
        .kind = GW_MESSAGE_FILE_OPEN,
        .file_open = {.name = some_file(input, member),
                      .write = take(input, 1) < 200,
                      .offset = about(input, 0),
                      .bytes = about(input, 5000),
                      .window = (uint32_t)take(input, 1),
                      .clock = about(input, take(input, 1) % 9),
                      .request = (uint32_t)take(input, 1) % 4},
    };
}

/* Messages of members now and then. */
static struct gw_message
a_word(struct input *input, unsigned member, struct lists *lists)
{
    switch (take(input, 1) % 8) {
    case 0:
        return (struct gw_message){.kind = GW_MESSAGE_READY};
    case 1:
        return (struct gw_message){.kind = GW_MESSAGE_JOIN,
                                   .join = {.role = member == COUNCIL_SHARD
                                                        ? GW_ROLE_SERVER
                                                        : GW_ROLE_WORKER,
                                            .host = "h",
                                            .address = "",
                                            .threads = 1,
                                            .rank = (uint32_t)take(input, 1)}};
    case 2:
        return (struct gw_message){.kind = GW_MESSAGE_STOP,
                                   .stop = {.text = "x\x1b[2J"}};
    case 3:
        return (struct gw_message){.kind = GW_MESSAGE_STALL,
                                   .stall = {.clock = 1,
                                             .seconds = some_value(input),
                                             .text = "y\nz"}};
    case 4:
        return (struct gw_message){
            .kind = GW_MESSAGE_DECLARE,
            .declare = {
                .device = "", .tuned = "", .note = "", .keys_total = 2}};
    case 5:
        return (struct gw_message){
            .kind = GW_MESSAGE_END,
            .end = {.status = (enum gw_status) - (int)take(input, 1),
                    .text = "e\n\n"}};
    case 6:
        return (struct gw_message){
            .kind = GW_MESSAGE_SCORE,
            .score = {.clock = about(input, 1), .loss = some_value(input)}};
    default:
        return (struct gw_message){.kind = GW_MESSAGE_BYE,
                                   .bye = {.has_sha256 = 1,
                                           .counters = lists->counter,
                                           .counters_n = NUMBERS}};
    }
}

static void
do_piece(struct council *council, unsigned member, struct input *input)
{
    uint64_t at = about(input, 0);
    const struct gw_frame frame = {
        .kind = take(input, 1) < 240 ? GW_FRAME_FILE : GW_FRAME_PUSH,
        .clock = at,
        .offset = about(input, at),
        .window = (uint32_t)about(input, council->member[member].window),
        .chunk = GW_CHUNK_NONE,
        .count = (uint32_t)take(input, 1) % 4,
        .length = (uint32_t)about(input, 5000),
    };
    council_put(council, member, &frame);
}

static void do_one(struct council *council, struct input *input)
{
    struct lists lists = {.counter = {0}};
    uint64_t what = take(input, 1);
    unsigned member = (unsigned)(what / 16 % COUNCIL_MEMBERS);
    struct gw_message message;
    switch (what % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
        member = COUNCIL_SHARD;
        message = a_decision(input, &lists);
        break;
    case 4:
    case 5:
        message = a_saved(input, member);
        break;
    case 6:
    case 7:
        message = a_file(input, member);
        break;
    case 8:
    case 9:
        do_piece(council, member, input);
        return;
    case 10:
    case 11:
        message = a_report(input, &lists);
        break;
    case 12:
        message = a_word(input, member, &lists);
        break;
    case 13:
        gw_sim_cut(council->sim);
        return;
    default:
        council_pass_time(council, 200 + 50 * take(input, 1));
        return;
    }
    council_tell(council, member, &message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const jobs[8][4] = {
        {"cluster.policy=sync"},
        {"cluster.policy=async"},
        {"cluster.policy=backup:1"},
        {"cluster.policy=local:2"},
        {"cluster.policy=\"sync until 3, local:2 until 6, async\""},
        {"cluster.policy=easgd:2"},
        {"cluster.policy=sync", "checkpoint.dir=\"\""},
        {"cluster.policy=sync", "train.batch=0", "train.global_batch=8",
         "train.split=speed"},
    };
    struct input input = {data, n};
    const char *const *job = jobs[take(&input, 1) % 8];
    const char *settings[] = {job[0], job[1], job[2], job[3], NULL};
    struct council *council = council_open(settings);
    if (!council)
        return 0;
    for (size_t i = 0; i < ACTS_MAX && input.left > 0; i++)
        do_one(council, &input);
    council_pass_time(council, 300000);
    council_close(council);
    return 0;
}
