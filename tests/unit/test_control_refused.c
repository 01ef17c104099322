/* proto/control: what is no message, or says what cannot be; and the limits of
   the arena. */
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
#include "proto/wire.h"
#include "tests/unit/control_samples.h"

static struct gw_control_arena encode_arena, decode_arena;
static uint8_t bytes[GW_MESSAGE_BYTES_MAX];

static enum gw_status encode(const struct gw_message *message, size_t *n_p)
{
    return gw_message_encode(message, &encode_arena, bytes, sizeof bytes, n_p);
}

/* Those that a cut cannot carry, or that are no number with one added. */
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
        {.kind = GW_MESSAGE_QUIESCED,
         .quiesced = {.clocks = end, .clocks_n = 2}},
        {.kind = GW_MESSAGE_ARRIVED, .arrived = {.clock = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_SPEED, .speed = {.clock = GW_CLOCK_MAX}},
        {.kind = GW_MESSAGE_POLL, .poll = {.clock = GW_CLOCK_MAX}},
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
    for (size_t i = 0; i < CONTROL_SAMPLES; i++) {
        size_t n = 0, unused = 4711;
        assert_int_equal(encode(&control_samples[i], &n), GW_OK);
        for (size_t room = 0; room < n; room++)
            assert_int_equal(gw_message_encode(&control_samples[i],
                                               &encode_arena, bytes, room,
                                               &unused),
                             GW_ERANGE);
        assert_int_equal(unused, 4711);
    }
}

/* Cut anywhere and flipped anywhere: refused or another message, no crash. */
static void damaged_messages_do_no_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONTROL_SAMPLES; i++) {
        struct gw_message again;
        size_t n = 0;
        assert_int_equal(encode(&control_samples[i], &n), GW_OK);
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
        wrong[] = {
            control_samples[CONTROL_DECLARE], control_samples[CONTROL_DECLARE],
            control_samples[CONTROL_VIEW],    control_samples[CONTROL_WELCOME],
            control_samples[CONTROL_DECLARE], control_samples[CONTROL_JOIN],
            control_samples[CONTROL_VIEW],    control_samples[CONTROL_WELCOME],
            control_samples[CONTROL_START]};
    struct gw_view_member greedy =
        control_samples[CONTROL_VIEW].view.members[0];
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

/* Numbers of requests, questions and verdicts that there are, and the next. */
static void unknown_choices_are_refused(void **state)
{
    (void)state;
    struct {
        struct gw_message message;
        enum gw_status status;
    } cases[] = {
        {{.kind = GW_MESSAGE_REQUEST, .request = {0, ""}}, GW_EPROTO},
        {{.kind = GW_MESSAGE_REQUEST, .request = {GW_REQUEST_POLICY, ""}},
         GW_OK},
        {{.kind = GW_MESSAGE_REQUEST, .request = {GW_REQUEST_STOP, ""}}, GW_OK},
        {{.kind = GW_MESSAGE_REQUEST, .request = {GW_REQUEST_STOP + 1, ""}},
         GW_EPROTO},
        {{.kind = GW_MESSAGE_STATUS, .status = {.request = GW_ASK_NONE}},
         GW_OK},
        {{.kind = GW_MESSAGE_STATUS, .status = {.request = GW_ASK_JOB}}, GW_OK},
        {{.kind = GW_MESSAGE_STATUS, .status = {.request = GW_ASK_JOB + 1}},
         GW_EPROTO},
        {{.kind = GW_MESSAGE_SIGHT, .sight = {.verdict = GW_SIGHT_WORDS}},
         GW_OK},
        {{.kind = GW_MESSAGE_SIGHT, .sight = {.verdict = GW_SIGHT_SEES}},
         GW_OK},
        {{.kind = GW_MESSAGE_SIGHT,
          .sight = {.verdict = (enum gw_sees)(GW_SIGHT_SEES + 1)}},
         GW_EPROTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gw_message again;
        size_t n = 0;
        assert_int_equal(encode(&cases[i].message, &n), GW_OK);
        assert_int_equal(gw_message_decode(bytes, n, &decode_arena, &again),
                         cases[i].status);
    }
}

/* The struct holds 8 bits, the wire 32. */
static void numbers_of_more_than_8_bits_are_refused(void **state)
{
    (void)state;
    static const uint8_t fields[][2] = {
        /* the kind, a field of type u8 */
        {GW_MESSAGE_WINDOW, 1},
        {GW_MESSAGE_DECISION, 3},
        {GW_MESSAGE_DECISION, 4},
        {GW_MESSAGE_VOTE, 2},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        uint8_t message[] = {(uint8_t)(fields[i][0] << 3 | 2), 3,
                             (uint8_t)(fields[i][1] << 3), 0xff, 1};
        struct gw_message again;
        assert_int_equal(
            gw_message_decode(message, sizeof message, &decode_arena, &again),
            GW_OK);     /* 255 */
        message[4] = 2; /* 383 */
        assert_int_equal(
            gw_message_decode(message, sizeof message, &decode_arena, &again),
            GW_EPROTO);
    }
}

static void a_start_without_state_is_refused(void **state)
{
    (void)state;
    static const uint8_t empty_start[] = {GW_MESSAGE_START << 3 | 2, 0};
    /* field 3, its own fields left out */
    static const uint8_t empty_state[] = {GW_MESSAGE_START << 3 | 2, 2,
                                          3 << 3 | 2, 0};
    struct gw_message again;
    assert_int_equal(gw_message_decode(empty_start, sizeof empty_start,
                                       &decode_arena, &again),
                     GW_EPROTO);
    assert_int_equal(gw_message_decode(empty_state, sizeof empty_state,
                                       &decode_arena, &again),
                     GW_OK);
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
        many[i].group = GW_KEY_GROUPS_MAX - 1;
        many[i].rule = GW_KEY_RULES - 1;
        memset(many[i].shape, 255, sizeof many[i].shape);
    }
    struct gw_message declare = control_samples[CONTROL_DECLARE];
    declare.declare.keys_total = GW_KEYS_MAX;
    declare.declare.keys_first = 0;
    declare.declare.keys = many;
    for (size_t length = GW_KEY_NAME_MAX - 1; length > 0; length /= 2) {
        for (size_t i = 0; i < GW_KEYS_PER_PART; i++)
            many[i].name[length] = '\0';
        declare.declare.keys_n = gw_keys_in_part(many, GW_KEYS_PER_PART);
        assert_int_equal(declare.declare.keys_n,
                         length < 96 ? 256
                                     : GW_KEY_NAMES_PER_PART / (length + 1));
        assert_int_equal(encode(&declare, &n), GW_OK);
        assert_int_equal(gw_message_decode(bytes, n, &decode_arena, &again),
                         GW_OK);
    }
    assert_int_equal(gw_keys_in_part(many, 3), 3);
    assert_int_equal(gw_keys_in_part(many, 0), 0);
    struct gw_message vote = control_samples[CONTROL_VOTE];
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
    assert_int_equal(encode(&control_samples[CONTROL_VIEW], &n), GW_OK);
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
        cmocka_unit_test(clocks_without_end_are_refused),
        cmocka_unit_test(short_rooms_are_refused),
        cmocka_unit_test(damaged_messages_do_no_harm),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(counts_have_to_agree),
        cmocka_unit_test(unknown_choices_are_refused),
        cmocka_unit_test(a_start_without_state_is_refused),
        cmocka_unit_test(numbers_of_more_than_8_bits_are_refused),
        cmocka_unit_test(the_largest_parts_fit),
        cmocka_unit_test(the_arena_bounds_what_is_decoded),
    };
    return cmocka_run_group_tests_name("control_refused", tests, NULL, NULL);
}
