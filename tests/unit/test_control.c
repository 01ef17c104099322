/*
 * Control messages: every kind there and back with every field, what is not a
 * message, and the limits of the arena.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/config.h"
#include "proto/control.h"
#include "proto/login.h"
#include "proto/wire.h"

static struct gw_control_arena encode_arena, decode_arena;
static uint8_t bytes[GW_MESSAGE_BYTES_MAX];

#define DIGEST                                                                 \
    {                                                                          \
        1, 2, 3, [31] = 255                                                    \
    }

static const struct gw_key keys[] = {
    {.name = "fc1.weight", .dtype = 1, .dims = 2, .shape = {32, 784}},
    {.name = "fc1.bias", .dtype = 1, .dims = 1, .shape = {32}},
};
static const struct gw_view_member members[] = {
    {.role = GW_ROLE_WORKER,
     .id = 3,
     .server = 4,
     .incarnation = 5,
     .address = "",
     .host = "w5",
     .machine = 8,
     .need = {9, 10, 11}},
    {.role = GW_ROLE_SERVER,
     .id = 6,
     .server = 7,
     .incarnation = UINT64_MAX,
     .address = "[::1]:9000",
     .host = "s",
     .machine = UINT64_MAX - 1,
     .has_secret = 1,
     .secret = {DIGEST}},
};
static const double values[] = {0.5, -1, 1e300};
static const uint32_t ranks[] = {1, UINT32_MAX};
static const uint64_t counters[] = {0, 7, UINT64_MAX};
static const uint64_t clocks[] = {0, 7, GW_CLOCK_MAX - 1};

/* One of each kind, every field with a value of its own. */
static const struct gw_message samples[] = {
    {.kind = GW_MESSAGE_JOIN,
     .join = {3,
              "host",
              11,
              12,
              13,
              14,
              15,
              "a:1",
              16,
              {17, UINT64_MAX, 19},
              {DIGEST},
              1,
              DIGEST,
              "no port"}},
    {.kind = GW_MESSAGE_WELCOME,
     .welcome = {UINT32_MAX,
                 "train = { };",
                 "gpu: 1",
                 {{1, 2, 3, 4, UINT64_MAX}, 5},
                 GW_SILENCE_MAX_US}},
    {.kind = GW_MESSAGE_DECLARE,
     .declare = {1,
                 DIGEST,
                 {2, 3, 4, 5, 6},
                 7,
                 "cpu: x",
                 9,
                 2,
                 2,
                 keys,
                 1,
                 "gpu: 0 3",
                 "x.npy"}},
    {.kind = GW_MESSAGE_VIEW, .view = {1, 9, 4, 2, members}},
    {.kind = GW_MESSAGE_START,
     .start = {1,
               {2, 3, 4, 5, 6},
               {3, 4, 65536, 5, 6, 0.25, 7, 8, 9, 10},
               "from",
               "dir",
               ".token",
               clocks,
               3,
               1,
               ranks,
               2,
               .silence_us = 1500000}},
    {.kind = GW_MESSAGE_READY, .ready = {UINT64_MAX}},
    {.kind = GW_MESSAGE_WINDOW, .window = {GW_FRAME_PUSH, 17, 1 << 20}},
    {.kind = GW_MESSAGE_DECISION,
     .decision = {1, 5, GW_DECIDE_STEP, 2, 1, 3, values, 3, ranks, 2, clocks, 3,
                  "ssp:4"}},
    {.kind = GW_MESSAGE_VOTE, .vote = {1, 2, 3, 6, 5, values, 3, ranks, 2}},
    {.kind = GW_MESSAGE_SCORE, .score = {1, 2.5, 3, 4}},
    {.kind = GW_MESSAGE_REPORT,
     .report = {1, 2.5, 3, 4, 5, counters, 3, counters, 2, 9}},
    {.kind = GW_MESSAGE_STOP, .stop = {"a signal"}},
    {.kind = GW_MESSAGE_SAVED,
     .saved = {1, GW_ENOSPC, "file", 2, DIGEST, "why"}},
    {.kind = GW_MESSAGE_STORED, .stored = {1, 1}},
    {.kind = GW_MESSAGE_END, .end = {GW_EDEAD, 5, "worker 3 died"}},
    {.kind = GW_MESSAGE_BYE, .bye = {1, 1, DIGEST, 2, counters, 3}},
    {.kind = GW_MESSAGE_STALL, .stall = {1, 4.2, "waiting"}},
    {.kind = GW_MESSAGE_FILE_OPEN,
     .file_open = {.name = "shard", .offset = 5, .bytes = 6}},
    {.kind = GW_MESSAGE_FILE_REPLY,
     .file_reply = {.text = "why", .offset = 5, .bytes = 6, .window = 7}},
    {.kind = GW_MESSAGE_STATUS, .status = {2, "job", GW_EREFUSED}},
    {.kind = GW_MESSAGE_SETTLED, .settled = {9, clocks, 3, ranks, 2}},
    {.kind = GW_MESSAGE_ARRIVED, .arrived = {12345678901, ranks, 2}},
    {.kind = GW_MESSAGE_REQUEST, .request = {GW_REQUEST_STOP, "ssp:4"}},
    {.kind = GW_MESSAGE_SPEED, .speed = {12345678901, 2.5}},
    {.kind = GW_MESSAGE_POLL, .poll = {12345678901}},
    {.kind = GW_MESSAGE_SIGHT,
     .sight =
         {GW_SIGHT_WORDS, {{1, 0, 3}, 3}, {{0, 7}, 2}, {{9}, 1}, UINT64_MAX}},
    {.kind = GW_MESSAGE_FAULT, .fault = {3, UINT32_MAX, "push of a clock"}},
};
#define SAMPLES (sizeof samples / sizeof *samples)

static enum gw_status encode(const struct gw_message *message, size_t *n_p)
{
    return gw_message_encode(message, &encode_arena, bytes, sizeof bytes, n_p);
}

#define SAME(part, field) assert_true(one->part.field == other->part.field)
#define SAME_TEXT(part, field)                                                 \
    assert_string_equal(one->part.field, other->part.field)
#define SAME_BYTES(part, field)                                                \
    assert_memory_equal(one->part.field, other->part.field,                    \
                        sizeof one->part.field)
#define SAME_COURSE(field)                                                     \
    assert_true(gw_course_is_same(&one->field, &other->field))
#define SAME_LIST(part, field, n)                                              \
    do {                                                                       \
        SAME(part, n);                                                         \
        assert_memory_equal(one->part.field, other->part.field,                \
                            one->part.n * sizeof *one->part.field);            \
    } while (0)

static void same_declare(const struct gw_message *one,
                         const struct gw_message *other)
{
    SAME(declare, keys_hash);
    SAME_BYTES(declare, data_digest);
    SAME_COURSE(declare.course);
    SAME(declare, total_steps);
    SAME_TEXT(declare, device);
    SAME_TEXT(declare, tuned);
    SAME_TEXT(declare, note);
    SAME(declare, shares);
    SAME(declare, keys_total);
    SAME(declare, keys_first);
    SAME(declare, keys_n);
    for (size_t i = 0; i < one->declare.keys_n; i++) {
        SAME_TEXT(declare, keys[i].name);
        SAME(declare, keys[i].dtype);
        SAME(declare, keys[i].dims);
        SAME_BYTES(declare, keys[i].shape);
    }
}

static void same_view(const struct gw_message *one,
                      const struct gw_message *other)
{
    SAME(view, epoch);
    SAME(view, members_total);
    SAME(view, members_first);
    SAME(view, members_n);
    for (size_t i = 0; i < one->view.members_n; i++) {
        SAME(view, members[i].role);
        SAME(view, members[i].id);
        SAME(view, members[i].server);
        SAME(view, members[i].incarnation);
        SAME_TEXT(view, members[i].address);
        SAME_TEXT(view, members[i].host);
        SAME(view, members[i].machine);
        SAME(view, members[i].need.threads);
        SAME(view, members[i].need.device);
        SAME(view, members[i].need.network);
        SAME(view, members[i].has_secret);
        SAME_BYTES(view, members[i].secret.byte);
    }
}

static void same_joining(const struct gw_message *one,
                         const struct gw_message *other)
{
    switch (one->kind) {
    case GW_MESSAGE_JOIN:
        SAME(join, role);
        SAME_TEXT(join, host);
        SAME(join, machine);
        SAME(join, pid);
        SAME(join, process);
        SAME(join, threads);
        SAME(join, thread);
        SAME_TEXT(join, address);
        SAME_TEXT(join, cannot);
        SAME(join, rank);
        SAME(join, need.threads);
        SAME(join, need.device);
        SAME(join, need.network);
        SAME_BYTES(join, secret.byte);
        SAME(join, has_proof);
        SAME_BYTES(join, proof);
        break;
    case GW_MESSAGE_WELCOME:
        SAME(welcome, rank);
        SAME_TEXT(welcome, job);
        SAME_TEXT(welcome, tuned);
        SAME_COURSE(welcome.from.course);
        SAME(welcome, from.clock);
        SAME(welcome, silence_us);
        break;
    case GW_MESSAGE_DECLARE:
        same_declare(one, other);
        break;
    case GW_MESSAGE_VIEW:
        same_view(one, other);
        break;
    case GW_MESSAGE_READY:
        SAME(ready, version);
        break;
    case GW_MESSAGE_WINDOW:
        SAME(window, kind);
        SAME(window, id);
        SAME(window, bytes);
        break;
    default:
        break;
    }
}

static void same_start(const struct gw_message *one,
                       const struct gw_message *other)
{
    SAME(start, total_steps);
    SAME_COURSE(start.course);
    SAME(start, silence_us);
    SAME(start, state.clock);
    SAME(start, state.applied);
    SAME(start, state.loss_scale);
    SAME(start, state.good_steps);
    SAME(start, state.skipped_in_a_row);
    SAME(start, state.best_loss);
    SAME(start, state.best_clock);
    SAME(start, state.evaluations);
    SAME(start, state.evaluations_without_progress);
    SAME(start, state.pushes);
    SAME(start, has_inner);
    SAME_LIST(start, clocks, clocks_n);
    SAME_LIST(start, split, split_n);
    SAME_TEXT(start, resume);
    SAME_TEXT(start, dir);
    SAME_TEXT(start, token);
}

static void same_deciding(const struct gw_message *one,
                          const struct gw_message *other)
{
    switch (one->kind) {
    case GW_MESSAGE_DECISION:
        SAME(decision, number);
        SAME(decision, stands_for);
        SAME(decision, kind);
        SAME(decision, reason);
        SAME(decision, apply);
        SAME(decision, clock);
        SAME_LIST(decision, values, values_n);
        SAME_LIST(decision, ranks, ranks_n);
        SAME_LIST(decision, clocks, clocks_n);
        break;
    case GW_MESSAGE_SETTLED:
        SAME(settled, decision);
        SAME_LIST(settled, clocks, clocks_n);
        SAME_LIST(settled, blocked, blocked_n);
        break;
    case GW_MESSAGE_ARRIVED:
        SAME(arrived, clock);
        SAME_LIST(arrived, ranks, ranks_n);
        break;
    case GW_MESSAGE_POLL:
        SAME(poll, clock);
        break;
    case GW_MESSAGE_SPEED:
        SAME(speed, clock);
        SAME(speed, samples_per_s);
        break;
    case GW_MESSAGE_FAULT:
        SAME(fault, role);
        SAME(fault, id);
        SAME_TEXT(fault, text);
        break;
    case GW_MESSAGE_SIGHT:
        SAME(sight, verdict);
        assert_memory_equal(&one->sight.gradients, &other->sight.gradients,
                            sizeof one->sight.gradients);
        assert_memory_equal(&one->sight.weights, &other->sight.weights,
                            sizeof one->sight.weights);
        assert_memory_equal(&one->sight.trial, &other->sight.trial,
                            sizeof one->sight.trial);
        SAME(sight, nonce);
        break;
    case GW_MESSAGE_VOTE:
        SAME(vote, clock);
        SAME(vote, phase);
        SAME(vote, first);
        SAME(vote, total);
        SAME(vote, samples);
        SAME_LIST(vote, values, values_n);
        SAME_LIST(vote, bad_ranks, bad_ranks_n);
        break;
    case GW_MESSAGE_SCORE:
        SAME(score, clock);
        SAME(score, loss);
        SAME(score, correct);
        SAME(score, samples);
        break;
    case GW_MESSAGE_REPORT:
        SAME(report, clock);
        SAME(report, loss);
        SAME(report, samples);
        SAME(report, correct);
        SAME(report, rss_bytes);
        SAME_LIST(report, counters, counters_n);
        SAME_LIST(report, staleness, staleness_n);
        break;
    default:
        break;
    }
}

static void same_ending(const struct gw_message *one,
                        const struct gw_message *other)
{
    switch (one->kind) {
    case GW_MESSAGE_STOP:
        SAME_TEXT(stop, text);
        break;
    case GW_MESSAGE_SAVED:
        SAME(saved, clock);
        SAME(saved, status);
        SAME_TEXT(saved, file);
        SAME(saved, bytes);
        SAME_BYTES(saved, sha256);
        SAME_TEXT(saved, text);
        break;
    case GW_MESSAGE_STORED:
        SAME(stored, clock);
        SAME(stored, ok);
        break;
    case GW_MESSAGE_END:
        SAME(end, status);
        SAME(end, clock);
        SAME_TEXT(end, text);
        break;
    case GW_MESSAGE_BYE:
        SAME(bye, clock);
        SAME(bye, has_sha256);
        SAME_BYTES(bye, sha256);
        SAME(bye, rss_bytes);
        SAME_LIST(bye, counters, counters_n);
        break;
    case GW_MESSAGE_STALL:
        SAME(stall, clock);
        SAME(stall, seconds);
        SAME_TEXT(stall, text);
        break;
    case GW_MESSAGE_FILE_OPEN:
        SAME_TEXT(file_open, name);
        SAME(file_open, offset);
        SAME(file_open, bytes);
        break;
    case GW_MESSAGE_FILE_REPLY:
        SAME_TEXT(file_reply, text);
        SAME(file_reply, offset);
        SAME(file_reply, bytes);
        SAME(file_reply, window);
        break;
    case GW_MESSAGE_STATUS:
        SAME(status, request);
        SAME_TEXT(status, text);
        SAME(status, status);
        break;
    case GW_MESSAGE_REQUEST:
        SAME(request, kind);
        SAME_TEXT(request, text);
        break;
    default:
        break;
    }
}

static void every_kind_goes_round(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        struct gw_message again = {0};
        size_t n = 0;
        assert_int_equal(encode(&samples[i], &n), GW_OK);
        assert_int_equal(gw_message_decode(bytes, n, &decode_arena, &again),
                         GW_OK);
        assert_int_equal(again.kind, samples[i].kind);
        same_joining(&samples[i], &again);
        same_deciding(&samples[i], &again);
        same_ending(&samples[i], &again);
        if (again.kind == GW_MESSAGE_START)
            same_start(&samples[i], &again);
        assert_string_not_equal(gw_message_name(again.kind), "unknown");
    }
    assert_int_equal(SAMPLES, GW_MESSAGE_KINDS - 2); /* 18 is free */
    assert_string_equal(gw_message_name(GW_MESSAGE_KINDS), "unknown");
}

/* What a cut cannot carry, and what is no number any more with one added. */
static void clocks_without_end_are_refused(void **state)
{
    (void)state;
    static const uint64_t end[] = {1, GW_CLOCK_MAX};
    const struct gw_message messages[] = {
        {.kind = GW_MESSAGE_DECLARE,
         .declare = {.device = "",
                     .tuned = "",
                     .note = "",
                     .total_steps = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_START,
         .start = {.resume = "",
                   .dir = "",
                   .token = "",
                   .total_steps = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_START,
         .start = {.resume = "",
                   .dir = "",
                   .token = "",
                   .state = {.clock = GW_CLOCK_MAX}}},
        {.kind = GW_MESSAGE_START,
         .start = {.resume = "",
                   .dir = "",
                   .token = "",
                   .clocks = end,
                   .clocks_n = 2}},
        {.kind = GW_MESSAGE_DECISION,
         .decision = {.policy = "", .clock = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_DECISION,
         .decision = {.policy = "", .clocks = end, .clocks_n = 2}},
        {.kind = GW_MESSAGE_SETTLED, .settled = {.clocks = end, .clocks_n = 2}},
        {.kind = GW_MESSAGE_ARRIVED, .arrived = {.clock = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_SPEED, .speed = {.clock = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_VOTE, .vote = {.clock = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_SCORE, .score = {.clock = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_REPORT, .report = {.clock = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_SAVED,
         .saved = {.file = "", .text = "", .clock = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_STORED, .stored = {.clock = UINT64_MAX}},
        {.kind = GW_MESSAGE_FILE_OPEN,
         .file_open = {.name = "", .clock = UINT64_MAX}},
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        struct gw_message again = {0};
        size_t n = 0;
        assert_int_equal(encode(&messages[i], &n), GW_OK);
        if (gw_message_decode(bytes, n, &decode_arena, &again) != GW_EPROTO)
            fail_msg("message %zu, a %s", i, gw_message_name(messages[i].kind));
    }
}

/* Decoding takes exactly its bytes, and no room but what it says it needs. */
static void short_rooms_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t n = 0, unused = 4711;
        assert_int_equal(encode(&samples[i], &n), GW_OK);
        for (size_t room = 0; room < n; room++)
            assert_int_equal(gw_message_encode(&samples[i], &encode_arena,
                                               bytes, room, &unused),
                             GW_ERANGE);
        assert_int_equal(unused, 4711);
    }
}

/* Cut anywhere and flipped anywhere: refused or another message, no crash. */
static void damaged_messages_do_no_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        struct gw_message again;
        size_t n = 0;
        assert_int_equal(encode(&samples[i], &n), GW_OK);
        for (size_t cut = 0; cut < n; cut++) {
            uint8_t *part = malloc(cut + (cut == 0));
            memcpy(part, bytes, cut);
            gw_message_decode(part, cut, &decode_arena, &again);
            free(part);
        }
        for (size_t at = 0; at < n; at++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                bytes[at] ^= (uint8_t)(1u << bit);
                gw_message_decode(bytes, n, &decode_arena, &again);
                bytes[at] ^= (uint8_t)(1u << bit);
            }
        }
    }
}

static void what_is_no_message_is_refused(void **state)
{
    (void)state;
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct gw_message again = {.kind = GW_MESSAGE_BYE};
    uint8_t *long_one = calloc(1, GW_MESSAGE_BYTES_MAX + 1);
    assert_int_equal(gw_message_decode((const uint8_t *)http, sizeof http - 1,
                                       &decode_arena, &again),
                     GW_EPROTO);
    assert_int_equal(gw_message_decode(bytes, 0, &decode_arena, &again),
                     GW_EPROTO);
    assert_int_equal(gw_message_decode(long_one, GW_MESSAGE_BYTES_MAX + 1,
                                       &decode_arena, &again),
                     GW_EPROTO);
    assert_int_equal(again.kind, GW_MESSAGE_BYE);
    free(long_one);
}

/* Counts that do not agree with each other are refused where they are read. */
static void counts_have_to_agree(void **state)
{
    (void)state;
    struct gw_message again,
        wrong[] = {samples[2], samples[2], samples[3], samples[1], samples[2],
                   samples[0], samples[3], samples[1], samples[4]};
    struct gw_view_member greedy = members[0];
    char text[GW_TUNED_BYTES + 1] = "";
    memset(text, '0', GW_TUNED_BYTES);
    wrong[0].declare.keys_first = 8; /* 8 + 2 of 9 */
    wrong[1].declare.keys_total = GW_KEYS_MAX + 1;
    wrong[2].view.members_first = 10;
    wrong[3].welcome.tuned = text;
    wrong[4].declare.tuned = text;
    wrong[5].join.need.threads = GW_NEED_THREADS_MAX + 1;
    greedy.need.threads = GW_NEED_THREADS_MAX + 1;
    wrong[6].view.members = &greedy;
    wrong[6].view.members_n = 1;
    wrong[7].welcome.silence_us = GW_SILENCE_MAX_US + 1;
    wrong[8].start.silence_us = GW_SILENCE_MAX_US + 1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t n = 0;
        assert_int_equal(encode(&wrong[i], &n), GW_OK);
        assert_int_equal(gw_message_decode(bytes, n, &decode_arena, &again),
                         GW_EPROTO);
    }
}

/* A request is one of those that there are. */
static void unknown_requests_are_refused(void **state)
{
    (void)state;
    for (uint8_t kind = 0; kind <= GW_REQUEST_STOP + 1; kind++) {
        const struct gw_message sent = {.kind = GW_MESSAGE_REQUEST,
                                        .request = {kind, ""}};
        struct gw_message again;
        size_t n = 0;
        assert_int_equal(encode(&sent, &n), GW_OK);
        assert_int_equal(gw_message_decode(bytes, n, &decode_arena, &again),
                         kind >= GW_REQUEST_POLICY && kind <= GW_REQUEST_STOP
                             ? GW_OK
                             : GW_EPROTO);
    }
}

/* The largest parts that are sent fit a frame and the arena, more do not. */
static void the_largest_parts_fit(void **state)
{
    (void)state;
    struct gw_key *many = calloc(GW_KEYS_PER_PART, sizeof *many);
    double *ratios = calloc(2 * GW_VALUES_PER_PART, sizeof *ratios);
    struct gw_message again;
    size_t n = 0;
    for (size_t i = 0; i < GW_KEYS_PER_PART; i++) {
        memset(many[i].name, 'k', GW_KEY_NAME_MAX - 1);
        many[i].dims = GW_KEY_DIMS_MAX;
        memset(many[i].shape, 255, sizeof many[i].shape);
    }
    struct gw_message declare = samples[2];
    declare.declare.keys_total = declare.declare.keys_n = GW_KEYS_PER_PART;
    declare.declare.keys_first = 0;
    declare.declare.keys = many;
    assert_int_equal(encode(&declare, &n), GW_OK);
    assert_int_equal(gw_message_decode(bytes, n, &decode_arena, &again), GW_OK);
    struct gw_message vote = samples[8];
    vote.vote.total = vote.vote.values_n = GW_VALUES_PER_PART;
    vote.vote.values = ratios;
    assert_int_equal(encode(&vote, &n), GW_OK);
    assert_int_equal(gw_message_decode(bytes, n, &decode_arena, &again), GW_OK);
    vote.vote.total = vote.vote.values_n = 2 * GW_VALUES_PER_PART;
    assert_int_equal(encode(&vote, &n), GW_ERANGE);
    free(many);
    free(ratios);
}

/* 64 KiB of the smallest list entries: more than the arena holds, or not. */
static void the_arena_bounds_what_is_decoded(void **state)
{
    (void)state;
    struct gw_message again;
    size_t n = 0;
    uint8_t *flood = malloc(GW_MESSAGE_BYTES_MAX);
    assert_int_equal(encode(&samples[3], &n), GW_OK);
    /* field 4 holds the list: an empty member is two bytes */
    uint8_t envelope = bytes[0];
    for (uint8_t field = 1; field < 8; field++) {
        size_t body = GW_MESSAGE_BYTES_MAX - 4;
        flood[0] = envelope;
        flood[1] = (uint8_t)(0x80 | (body & 127));
        flood[2] = (uint8_t)(0x80 | (body >> 7 & 127));
        flood[3] = (uint8_t)(body >> 14);
        for (size_t at = 4; at < GW_MESSAGE_BYTES_MAX; at += 2) {
            flood[at] = (uint8_t)(field << 3 | 2);
            flood[at + 1] = 0;
        }
        gw_message_decode(flood, GW_MESSAGE_BYTES_MAX, &decode_arena, &again);
        assert_true(decode_arena.used <= GW_CONTROL_ARENA_BYTES);
    }
    free(flood);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_goes_round),
        cmocka_unit_test(clocks_without_end_are_refused),
        cmocka_unit_test(short_rooms_are_refused),
        cmocka_unit_test(damaged_messages_do_no_harm),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(counts_have_to_agree),
        cmocka_unit_test(unknown_requests_are_refused),
        cmocka_unit_test(the_largest_parts_fit),
        cmocka_unit_test(the_arena_bounds_what_is_decoded),
    };
    return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
